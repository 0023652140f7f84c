/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the node service: jobs, their checkpoints in progress, and the tasks of the other
 * threads. The loop thread owns everything here, except where struct crn_work says otherwise. */
#ifndef CRN_SERVICE_JOB_H
#define CRN_SERVICE_JOB_H

#include <stdatomic.h>

#include "aggregate/elect.h"
#include "aggregate/engine.h"
#include "base/config.h"
#include "base/log.h"
#include "base/queue.h"
#include "comm/comm.h"
#include "service/proto.h"
#include "service/rundir.h"
#include "tier/arena.h"

#define CRN_ROOT 0 /* the node that decides for all */

enum crn_item_state {
    CRN_ITEM_CAPTURING, /* not all ranks of this node have captured */
    CRN_ITEM_CAPTURED,  /* waiting for the other nodes */
    CRN_ITEM_FLUSHING,
    CRN_ITEM_FLUSHED, /* this node's file is durable; waiting for the commit */
    CRN_ITEM_ENDED,   /* committed or failed, everywhere */
};

/* One rank's share of a checkpoint. */
struct crn_part {
    uint32_t slot;
    unsigned char is_captured;
    unsigned char is_settled; /* the rank has been told the end, or never will be */
};

/* How far a node is, as known to the root. */
enum crn_node_progress { CRN_NODE_NONE, CRN_NODE_CAPTURED, CRN_NODE_LOCAL, CRN_NODE_DATA };

/* A checkpoint in progress on this node. */
struct crn_item {
    struct crn_item *next;
    uint64_t seq;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;
    int64_t deadline_ns; /* monotonic; for ranks that have not captured */
    int64_t since_ns;    /* monotonic; since when this node waits only for other nodes */
    enum crn_item_state state;
    cairn_level level;
    struct crn_errinfo error; /* result of the checkpoint */
    struct crn_part *part;    /* nlocal entries */
    uint64_t generation;      /* generation of the run for this name */
    uint32_t ncaptured;
    uint64_t local_bytes;          /* captured on this node */
    uint64_t copied_bytes;         /* of them, copied by a plain memory copy */
    uint64_t copy_ns;              /* duration of the longest such copy */
    int64_t interval_ns;           /* since the previous capture, or since the job started */
    uint32_t claims;               /* job->mu: workers that read its slots */
    atomic_int is_over;            /* state is ENDED; read by the flusher while it waits */
    int working;                   /* tasks queued or running on other threads */
    int is_cut_off;                /* ended on this node alone, without word from the first node */
    int is_retired;                /* its spool and debris are removed */
    struct crn_manifest_file file; /* written by this node; its ranges are owned */
    struct crn_flow_part *flow;    /* flow.c: leader and followers; NULL before GO and SHARDS */
    struct crn_aid *aid;           /* assist.c; NULL: no assistant yet */
    int nflows;                    /* transfers from its slots or into the engine's blocks */
    struct crn_loan *loan;         /* loan.c: the previous version; NULL: not used */
    /* Root only. */
    int64_t base_version;            /* version that its files may be encoded against; -1: none */
    uint64_t *node_bytes;            /* per node */
    uint64_t *node_wrote;            /* per node: as reported so far */
    unsigned char *progress;         /* per node: enum crn_node_progress */
    struct crn_group_state *groups;  /* per file: used to find lagging leaders */
    uint32_t count[4];               /* nodes that reached at least this progress */
    struct crn_manifest_file *files; /* per file */
    uint64_t bytes;
    int is_held;        /* captured, but nobody wants it flushed yet */
    int is_started;     /* GO was sent, or the root waits for the lock or a turn */
    int wants_turn;     /* send GO when the broker grants the turn */
    uint32_t ticket;    /* at the broker; 0: none */
    int is_decided;     /* END was sent */
    uint32_t paused_by; /* node + 1 that reports for all why flushes wait; 0: none waits */
};

enum crn_work_kind {
    CRN_WORK_CLAIM,        /* keeper, root: may this run write the name? */
    CRN_WORK_START,        /* keeper, root: writer's lock, pin, file system type */
    CRN_WORK_LOCAL,        /* flusher: local copy of this node's shards */
    CRN_WORK_FLUSH,        /* flusher, leader: the persistent file of the group */
    CRN_WORK_ASSIST,       /* flusher: writes into another node's file */
    CRN_WORK_SERVE,        /* sender, follower: opens and describes the sources */
    CRN_WORK_SEND,         /* sender, follower: gathers extents that are not contiguous in memory */
    CRN_WORK_COMMIT,       /* keeper, root: manifest */
    CRN_WORK_RETIRE,       /* keeper: spool, debris, local retention; root: retention, journal */
    CRN_WORK_REPORT,       /* keeper, root: records a pause in the journal */
    CRN_WORK_FETCH,        /* result only: the flusher needs a block of another node */
    CRN_WORK_NOTE_OPENED,  /* result only, leader: the file exists */
    CRN_WORK_NOTE_ASK,     /* result only, assistant: a block is free */
    CRN_WORK_NOTE_WRITTEN, /* result only, assistant: a write is in the file */
    CRN_WORK_NOTE_LOCAL,   /* result only: the local copy is durable */
    CRN_WORK_NOTE_PAUSED,  /* result only: why the flush waits */
};

struct crn_job;

/* A task for a worker and, on its way back, the result. The worker reads the item's constant fields
 * (seq, name, version, parts) and writes only here. */
struct crn_work {
    enum crn_work_kind kind;
    struct crn_job *job;
    struct crn_item *item;   /* all kinds but CLAIM */
    struct crn_claim *claim; /* CLAIM */
    struct crn_errinfo error;
    struct crn_manifest_file file; /* FLUSH: the result; NOTE_OPENED: the file name */
    uint64_t committed_ns;         /* COMMIT */
    const struct crn_write *write; /* FETCH */
    struct crn_errand *errand;     /* FETCH: instead of write, for another node's file */
    void *block;                   /* FETCH, NOTE_ASK: destination; SEND: malloc'ed data */
    unsigned char
        *payload; /* owned; SERVE: descriptors; FETCH, SEND: extents; NOTE_WRITTEN: checksums;
                   * RETIRE: versions that must stay */
    uint32_t payload_bytes;
    uint32_t node;    /* FETCH: source node; SEND: destination node */
    uint32_t tag;     /* SEND */
    int is_older;     /* FETCH, SEND: of the previous version */
    uint64_t bytes;   /* FETCH, SEND, ASSIST: bytes; NOTE_OPENED, CLAIM: generation;
                  * NOTE_WRITTEN: id of the write; SERVE: 1 if all is lent */
    int64_t asked_ns; /* SEND: time of the request */
};

struct crn_client {
    struct crn_client *next;
    int fd;
    struct crn_job *job; /* NULL until HELLO */
    uint32_t rank;
    uint32_t local;
    int is_gone; /* freed at the end of the loop round */
};

/* report.c: a record not yet written to the journal of its name. */
#define CRN_UNSAID 8
struct crn_unsaid {
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t time_ns;
    const char *kind;
    char text[CRN_ERR_TEXT];
};

/* report.c: outcomes of the checkpoints of a job, for the summary at its end. First node, loop. */
struct crn_totals {
    uint64_t persistent, failed, canceled;
    uint64_t bytes;      /* of the persistent ones */
    uint64_t slowest_ns; /* longest time from capture to commit */
    char slowest[CAIRN_MAX_NAME];
    int64_t slowest_version;
    uint64_t waited_ns; /* by the application of rank 0; 0 if it died */
};

struct crn_held_lock {
    struct crn_held_lock *next;
    char name[CAIRN_MAX_NAME];
    int fd;         /* -1 if the file system has no locks */
    int is_durable; /* for struct crn_retention */
    uint64_t generation;
};

/* What this node knows of a name that ranks have claimed; see claim.c. */
struct crn_claim {
    struct crn_claim *next;
    char name[CAIRN_MAX_NAME];
    uint64_t generation;      /* of the run; 0: not granted */
    uint64_t answered;        /* seq of the checkpoint answered last; 0: none */
    struct crn_errinfo error; /* of that answer */
    int is_asked;             /* the first node was asked and has not answered */
    /* First node only; constant for the keeper while is_looking. */
    int is_looking;
    uint64_t seq; /* of the checkpoint that claims it */
    int64_t version;
    int is_successor;      /* rank 0 has restored a version, or decided to start afresh */
    unsigned char waits[]; /* by local index: the rank waits for the answer */
};

struct crn_job {
    struct crn_job *next;
    struct crn_service *svc;
    uint8_t run[16];
    struct crn_config cfg;
    uint32_t ranks, node, nodes, nlocal;
    uint32_t files;    /* per version; the nodes form as many groups */
    uint32_t *peers;   /* service address by node */
    int64_t *heard_ns; /* alive.c: when this node last heard each node */
    int64_t told_ns;   /* alive.c: when this node last sent ALIVE */
    struct crn_log log;
    struct crn_rundir dir;
    int lock_fd;
    struct crn_client **clients; /* by local index; NULL: not connected yet, or gone */
    uint32_t *rank_of;           /* by local index */
    struct crn_arena **arenas;   /* by local index; kept after a rank's death */
    unsigned char *has_left;     /* by local index: BYE or dead */
    uint32_t nleft;
    int has_dead;              /* a rank has left without BYE */
    int has_kept;              /* a slot is KEPT, or was */
    struct crn_errinfo broken; /* a rank died: checkpoints without its capture cannot complete */
    struct crn_item *items;    /* by seq */
    uint64_t wanted;           /* somebody waits for checkpoints up to this seq */
    uint64_t told_wanted;      /* the same, as last reported to the root */
    double copy_rate;          /* pace.c: fastest capture so far, bytes per second; 0: unknown */
    int64_t captured_ns;       /* pace.c: monotonic; the last capture, or the start of the job */
    uint64_t
        decided[64]; /* ring of seq + 1: the last decided ones, whose late messages are ignored;
                                * other nodes than the first: those cut off */
    uint32_t ndecided;
    /* Workers. */
    struct crn_queue flush_queue, keep_queue, send_queue;
    pthread_t flusher, keeper, sender;
    int has_flusher, has_keeper, has_sender;
    struct crn_mutex mu;
    struct crn_cond wake;                 /* for pauses of the workers */
    int stopping;                         /* mu */
    uint64_t ngathered;                   /* mu: blocks gathered and not sent yet */
    struct crn_engine *engine;            /* flusher */
    struct crn_gate gate;                 /* throttles the engine's writes and the loop's sends */
    atomic_uint_fast64_t written;         /* bytes written by the engine since it was opened */
    atomic_uint_fast64_t writing_seq;     /* seq + 1 of the file being written; 0: none */
    atomic_uint_fast64_t writing_at;      /* value of written when that file was started */
    struct crn_held_lock *locks;          /* keeper */
    struct crn_unsaid unsaid[CRN_UNSAID]; /* keeper, first node */
    uint32_t nunsaid;
    struct crn_totals totals;          /* loop, first node */
    struct crn_claim *claims;          /* names that ranks have claimed */
    uint32_t nlooks;                   /* claims that the keeper is checking */
    const struct crn_fs_type *fs_type; /* first node: of persistent; NULL until the first START */
    struct crn_broker *broker;         /* first node; NULL: no turns */
    int64_t safe_ns; /* when the last checkpoint was committed, or the job started */
};

/* A message to this service itself, delivered in the next round. */
struct inbox_note {
    struct inbox_note *next;
    size_t len;
    unsigned char data[];
};

struct crn_service {
    struct crn_comm *comm;
    char socket_path[128];
    int listen_fd;
    int spare_fd;          /* used to turn ranks away when no other descriptor is free; -1: none */
    int is_short;          /* out of descriptors or memory for another rank; logged once */
    int64_t accept_ns;     /* do not accept ranks before this time */
    int wake_fd;           /* eventfd: results, stop */
    struct crn_queue done; /* of struct crn_work, from the workers */
    struct crn_client *clients;
    struct crn_job *jobs;
    struct inbox_note *inbox;
    struct crn_flow *flows; /* transfers in flight; see flow.h */
    uint32_t next_tag;
    unsigned char burnt_tags[CRN_COMM_TAGS / 8]; /* bit: never reuse the tag; flow.c */
    struct inbox_note **inbox_end;
    unsigned char *packet; /* receive buffer of CRN_PROTO_MAX bytes */
    struct crn_log log;
    pthread_t thread;
    atomic_int is_closed; /* accept no new jobs; end when idle */
    atomic_int is_cut;    /* end now */
    atomic_int busy;      /* items and claims in progress */
    struct crn_mutex mu;
    struct crn_cond ended;
    int has_ended; /* mu */
    int is_started;
    int64_t last_news_ns; /* time of the last event: the poll interval grows from then */
};

/* job.c: start and end of a job. */
CAIRN_CHECKED cairn_err crn_job_open(struct crn_service *svc, const struct crn_hello *hello,
                                     struct crn_job **ret, struct crn_errinfo *ei);
void crn_job_close(
    struct crn_job *job); /* stops the workers; removes the run's directory if idle */
int crn_job_is_done(const struct crn_job *job);
/* CAIRN_EDAMAGED if an arena was truncated: data read from it may be wrong. Any thread. */
CAIRN_CHECKED cairn_err crn_job_check_arenas(const struct crn_job *job, struct crn_errinfo *ei);

/* alive.c: detects unreachable nodes. */
void crn_alive_heard(struct crn_job *job, uint32_t node, int64_t now_ns);
void crn_alive_tick(struct crn_job *job, int64_t now_ns);

/* progress.c: how messages, results, deaths and the clock change a job's checkpoints. */
void crn_job_message(struct crn_job *job, struct crn_client *client, struct crn_msg *n,
                     int passed_fd);
void crn_job_result(struct crn_work *w);
void crn_job_rank_left(struct crn_job *job, struct crn_client *client, int is_dead);
void crn_job_tick(struct crn_job *job, int64_t now_ns);

/* pace.c: throttling of flushes. */
void crn_pace_begin(struct crn_job *job, int64_t now_ns);
/* A rank has captured; the last rank of the node has captured. */
void crn_pace_part(struct crn_item *item, uint64_t bytes, uint64_t copy_ns);
void crn_pace_captured(struct crn_job *job, struct crn_item *item, int64_t now_ns);
/* A rank on this node waits for checkpoints up to seq: tells the root, which tells all nodes. */
void crn_pace_want(struct crn_job *job, uint64_t seq);
void crn_pace_hurry(struct crn_job *job, uint64_t seq);
/* Recomputes the throttle after any change. */
void crn_pace(struct crn_job *job, int64_t now_ns);

/* claim.c: the first checkpoint of a name. A rank claims it; the first node receives the claim; its
 * answer arrives. */
void crn_claim_ask(struct crn_job *job, struct crn_client *client, const struct crn_msg *n);
void crn_claim_node(struct crn_job *job, const struct crn_msg *n);
void crn_claim_decided(struct crn_job *job, const struct crn_msg *n);
/* First node: the keeper has checked; a capture failed before its claim; a rank has left. */
void crn_claim_result(struct crn_job *job, const struct crn_work *w);
void crn_claim_failed(struct crn_job *job, const struct crn_client *client,
                      const struct crn_msg *n);
void crn_claims_left(struct crn_job *job);
/* The generation of this run; 0 if this service does not know it. */
uint64_t crn_claim_generation(const struct crn_job *job, const char *name);
void crn_claims_free(struct crn_job *job);

/* item.c: a checkpoint in progress. */
struct crn_item *crn_item_find(struct crn_job *job, uint64_t seq);
/* The item of a message, created if this is the first one about it; NULL if out of memory. */
struct crn_item *crn_item_get(struct crn_job *job, const struct crn_msg *n);
void crn_item_free(struct crn_job *job, struct crn_item *item);
/* A worker takes the slots from the ranks when it starts to read them. Returns all slots,
 * malloc'ed, or CAIRN_ECANCELED if a rank has dropped its capture. The loop releases them at the
 * end, or the worker gives them back. */
CAIRN_CHECKED cairn_err crn_item_claim(struct crn_job *job, struct crn_item *item,
                                       uint32_t **ret_slots, struct crn_errinfo *ei);
/* The local copy is done. Until the flush starts, a newer checkpoint may supersede this one
 * again. */
void crn_item_unclaim(struct crn_job *job, struct crn_item *item);
/* The checkpoint has ended on all nodes. */
void crn_item_end(struct crn_job *job, struct crn_item *item, const struct crn_msg *n);
/* A rank whose capture arrived after the end is told at once. */
void crn_item_too_late(struct crn_job *job, struct crn_item *item, uint32_t local);
/* Releases the slots of an ended item, unless workers still read them. */
void crn_item_settle(struct crn_job *job, struct crn_item *item);
/* Frees an ended item once no worker uses it and no rank can send news of it. */
void crn_item_reap(struct crn_job *job, struct crn_item *item);
/* A user of the item is done: settles the item if it has ended, and frees it if possible. */
void crn_item_touch(struct crn_job *job, struct crn_item *item);
/* This node cannot complete the checkpoint: the root ends it everywhere. */
void crn_item_fail(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *e);
void crn_item_out_of_memory(struct crn_job *job, struct crn_item *item);
/* May several nodes write one of its files? Not if data is encoded: only the leader, which encodes,
 * learns where the bytes go. */
int crn_item_takes_help(const struct crn_job *job, const struct crn_item *item);
void crn_item_tell(struct crn_job *job, uint32_t node, const struct crn_msg *m);
/* Sends NODE_CAPTURED, NODE_LOCAL or NODE_DATA; NODE_FAILED and NODE_PAUSED with the reason. */
void crn_item_tell_root(struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                        const struct crn_errinfo *error);
void crn_item_tell_ranks(struct crn_job *job, const struct crn_item *item, uint64_t committed_ns);
void crn_job_tell_rank(struct crn_job *job, uint32_t local, const struct crn_msg *n);
/* Initialises a message about an item, without the fields specific to its type. */
void crn_item_msg(const struct crn_job *job, const struct crn_item *item, enum crn_msg_type type,
                  struct crn_msg *ret);

/* root.c: the first node's service decides for all. */
int crn_was_decided(const struct crn_job *job, uint64_t seq);
void crn_root_message(struct crn_job *job, struct crn_msg *n);
/* Somebody waits for checkpoints up to seq: the nodes hurry, and a lazy job starts to flush
 * them. */
void crn_root_want(struct crn_job *job, uint64_t seq);
/* The name is locked: the nodes flush when the broker grants a turn. */
void crn_root_start(struct crn_job *job, struct crn_item *item);
/* Ends a checkpoint on all nodes; the first call counts. */
void crn_root_decide(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *error,
                     uint64_t committed_ns);
void crn_job_turns(struct crn_job *job); /* the broker may have granted a turn */

/* work.c: flusher and sender; keeper.c: the keeper. */
void *crn_flusher_main(void *job);
void *crn_keeper_main(void *job);
void *crn_sender_main(void *job);
/* Posts a task; called by the loop thread. */
void crn_work_post(struct crn_job *job, struct crn_item *item, enum crn_work_kind kind);
/* The same for a prepared task; takes ownership. */
void crn_work_send(struct crn_work *w);

/* report.c: adds a record to the journal of a name, and retries earlier ones. First node,
 * keeper. */
void crn_job_report(struct crn_job *job, const struct crn_item *item, const char *kind,
                    const char *text);
void crn_job_report_rest(struct crn_job *job);
/* A checkpoint has ended; the job has ended. First node, loop thread. */
void crn_job_count(struct crn_job *job, const struct crn_item *item, cairn_err code,
                   uint64_t committed_ns);
void crn_job_summary(const struct crn_job *job);

/* For workers: sleeps. Returns 1 if the job stops, which cuts the sleep short, or if the checkpoint
 * failed elsewhere. */
int crn_work_pause(struct crn_job *job, struct crn_item *item, int64_t ns);
/* Posts a result that is only a note. */
void crn_work_note(struct crn_job *job, struct crn_item *item, enum crn_work_kind kind,
                   const char *text);

/* ranks.c: connections of the ranks. */
void crn_ranks_reserve(struct crn_service *svc); /* opens the spare descriptor */
void crn_ranks_accept(struct crn_service *svc, int64_t now_ns);
void crn_rank_read(struct crn_service *svc, struct crn_client *c);
void crn_ranks_free_gone(struct crn_service *svc);

/* service.c: for the workers and the jobs. */
struct crn_job *crn_service_job(struct crn_service *svc, const uint8_t run[16]); /* or NULL */
void crn_service_result(struct crn_service *svc, struct crn_work *w);            /* any thread */
void crn_service_tell(struct crn_service *svc, uint32_t address, const struct crn_msg *n);

#endif
