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
#include "node/node.h"
#include "service/proto.h"
#include "service/rundir.h"
#include "service/runfile.h"
#include "service/shards.h"
#include "tier/arena.h"

/* flow_group.c: a leader has the shards of its followers, a follower its own sources. */
struct crn_flow_part {
    struct crn_remote remote; /* owner: member of the group, from 1 */
    /* The sender opens them before the leader is told. */
    struct crn_open_shard *held;
    struct crn_source *sources; /* nlocal entries */
    int is_serving;
};

/* The service's part of an item of the core (src/node). */
struct crn_item_data {
    uint32_t claims;                 /* job->mu: workers that read its slots */
    atomic_int is_over;              /* it has ended; read by the workers while they wait */
    struct crn_manifest_file file;   /* written by this node; its ranges are owned */
    char local[CRN_FILE_NAME];       /* the local copy of this node; empty: none */
    uint64_t captured_ns;            /* wall clock: all ranks had captured; set before any task */
    uint64_t local_ns;               /* wall clock, flusher: the local copy was durable; 0: none */
    _Atomic uint64_t protected_ns;   /* wall clock, service thread: all sets are; 0: not yet */
    struct crn_flow_part flow;       /* flow_group.c: what followers have described */
    struct crn_aid *aid;             /* assist.c; NULL: no assistant yet */
    struct crn_ward *ward;           /* parity.c; NULL: not protected, or not yet */
    int is_told;                     /* held_scrub.c, flusher: that it is damaged for good */
    struct crn_loan *loan;           /* loan.c: the previous version; NULL: not used */
    struct crn_manifest_file *files; /* root: per file; allocated with the first one */
};

static inline struct crn_item_data *crn_data(const struct crn_item *item)
{
    return item->shell;
}

struct crn_job;

/* A task for a worker and, on its way back, the result. The worker reads the item's constant fields
 * (seq, name, version, parts) and writes only here. */
struct crn_work {
    enum crn_work_kind kind;
    struct crn_job *job;
    struct crn_item *item;   /* all kinds but CLAIM */
    struct crn_claim *claim; /* CLAIM */
    struct crn_errinfo error;
    struct crn_manifest_file file; /* FLUSH: the result; LOCAL, NOTE_OPENED: the file name */
    uint64_t committed_ns;         /* COMMIT; LOOK: 0 if it is not committed */
    const struct crn_write *write; /* FETCH */
    struct crn_errand *errand;     /* FETCH: instead of write, for another node's file */
    struct crn_ticket *ticket;     /* FETCH_STREAM */
    void *block;                   /* FETCH, NOTE_ASK: destination; SEND: malloc'ed data */
    unsigned char
        *payload; /* owned; SERVE: descriptors; FETCH, SEND: extents; NOTE_WRITTEN: checksums;
                   * RETIRE: versions that must stay */
    uint32_t payload_bytes;
    uint32_t node;   /* FETCH: source node; SEND: destination node */
    uint32_t tag;    /* SEND */
    int is_older;    /* FETCH, SEND: of the previous version */
    uint64_t bytes;  /* FETCH, SEND, ASSIST: bytes; NOTE_OPENED, CLAIM: generation;
                  * NOTE_WRITTEN: id of the write; SERVE: 1 if all is lent; RETIRE: 1 if its file stays */
    uint64_t offset; /* FETCH_STREAM, SEND of a stream: in the stream; SCRUB: in the stage */
    uint64_t hash;   /* STREAM: of the index; its bytes are in `bytes` */
    int is_stream;   /* SEND: bytes of this node's stream, from offset on; SCRUB: it is protected */
    int is_parity;   /* FETCH_STREAM, SEND of a stream: of the parity file instead */
    uint32_t stage;  /* SCRUB: held_scrub.c */
    int64_t asked_ns; /* SEND: time of the request */
};

struct crn_client {
    struct crn_client *next;
    int fd;
    struct crn_job *job; /* NULL until HELLO */
    uint32_t rank;
    uint32_t local;
    int is_gone; /* freed at the end of the loop round */
    int waits;   /* takeover.c: for the answer to HELLO, until all nodes have the job again */
};

/* job_report.c: a record not yet written to the journal of its name. */
#define CRN_UNSAID 8
struct crn_unsaid {
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t time_ns;
    const char *kind;
    char text[CRN_ERR_TEXT];
};

/* job_report.c: outcomes of the checkpoints of a job, for the summary at its end. First node, loop. */
struct crn_totals {
    uint64_t persistent, failed, canceled;
    uint64_t superseded; /* not due, and newer ones took their place */
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
    int is_durable; /* for struct crn_retention, like known */
    struct crn_known known;
    uint64_t generation;
};

/* held_scrub.c: where the pass over the checkpoints is. Loop. */
struct crn_scrubbing {
    int64_t next_ns, began_ns; /* of the pass; began_ns 0: not yet */
    uint64_t seq, at;
    uint32_t stage;
    int is_running; /* a slice */
};

struct crn_job {
    struct crn_job *next;
    struct crn_service *svc;
    uint8_t run[16];
    struct crn_config cfg;
    uint32_t ranks, node, nodes, nlocal;
    uint32_t files;    /* per version; the nodes form as many groups */
    uint32_t *peers;   /* service address by node */
    uint32_t nmembers; /* of this node's set; 0: it is in none */
    uint32_t member[CRN_SET_MAX];
    struct crn_node *core;      /* what this node decides */
    struct crn_actions actions; /* of the core */
    int is_acting;              /* they are being carried out */
    struct crn_log log;
    struct crn_rundir dir;
    int lock_fd;
    int is_opening;              /* the keeper makes the directory; ranks wait for READY */
    int is_refused;              /* it could not */
    int is_removed;              /* the keeper removes it; set before the keeper is told to end */
    struct crn_client **clients; /* by local index; NULL: not connected yet, or gone */
    uint32_t *rank_of;           /* by local index */
    struct crn_arena **arenas;   /* by local index; kept after a rank's death */
    struct crn_taken *taken;     /* takeover.c; NULL: this service has had the job from its start */
    int has_dead;                /* a rank has left without BYE */
    int has_kept;                /* a slot is KEPT, or was */
    /* Workers. */
    struct crn_queue flush_queue, keep_queue, send_queue, protect_queue;
    pthread_t flusher, keeper, sender, protector;
    int has_flusher, has_keeper, has_sender, has_protector;
    struct crn_mutex mu;
    struct crn_cond wake;                 /* for pauses of the workers */
    int stopping;                         /* mu */
    uint32_t nended;                      /* mu: workers that have ended */
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
    const struct crn_fs_type *fs_type; /* first node: of persistent; NULL until the first START */
    struct crn_job_turn *turn;         /* turn.c: first node; NULL: no turns */
    struct crn_scrubbing scrub;
};

/* A message to this service itself, delivered in the next round. */
struct inbox_note {
    struct inbox_note *next;
    size_t len;
    unsigned char data[];
};

struct crn_service {
    struct crn_comm *comm;
    char socket_path[CRN_SOCKET_PATH];
    int listen_fd;
    int spare_fd;          /* used to turn ranks away when no other descriptor is free; -1: none */
    int is_short;          /* out of descriptors or memory for another rank; logged once */
    int64_t accept_ns;     /* do not accept ranks before this time */
    int wake_fd;           /* eventfd: results, stop */
    struct crn_queue done; /* of struct crn_work, from the workers */
    struct crn_client *clients;
    struct crn_job *jobs;
    struct crn_job *ending; /* whose workers have been told to end */
    struct inbox_note *inbox;
    struct crn_flow *flows; /* transfers in flight; see flow.h */
    uint32_t next_tag;
    unsigned char burnt_tags[CRN_COMM_TAGS / 8]; /* bit: never reuse the tag; flow.c */
    struct inbox_note **inbox_end;
    unsigned char *packet; /* receive buffer of CRN_PROTO_MAX bytes */
    struct crn_log log;
    struct crn_log_writer *log_writer; /* of this service and its jobs; NULL: none has a log_file */
    pthread_t thread;
    atomic_int is_closed; /* accept no new jobs; end when idle */
    atomic_int is_cut;    /* end now */
    struct crn_mutex mu;
    struct crn_cond ended;
    int has_ended; /* mu */
    int is_started;
    int64_t last_news_ns;         /* time of the last event: the poll interval grows from then */
    const struct crn_config *cfg; /* cairnd: its own; NULL: embedded */
    int has_unfound;              /* living.c: look again for living runs */
};

/* service.c: lines of the log are written by a thread of their own from now on. */
CAIRN_CHECKED cairn_err crn_service_log(struct crn_service *svc, struct crn_log *log,
                                        struct crn_errinfo *ei);

/* job.c: start and end of a job. */
CAIRN_CHECKED cairn_err crn_job_open(struct crn_service *svc, const struct crn_hello *hello,
                                     struct crn_job **ret, struct crn_errinfo *ei);
/* Tells the workers of a job that is done to end; the keeper may then still be busy on the PFS. It also
 * removes the run's directory, if nothing in it is needed. */
void crn_job_end(struct crn_job *job);
void crn_job_remove_dir(struct crn_job *job);
/* On the keeper: the job's directory, its lock and run.ini. */
CAIRN_CHECKED cairn_err crn_job_make_dir(struct crn_job *job, struct crn_errinfo *ei);
int crn_job_has_stopped(struct crn_job *job); /* crn_job_close will not wait */
void crn_job_worker_ended(struct crn_job *job);
/* Joins the workers; removes the run's directory if nothing in it is needed. */
void crn_job_close(struct crn_job *job);
int crn_job_is_done(const struct crn_job *job);
/* CAIRN_EDAMAGED if an arena was truncated: data read from it may be wrong. Any thread. */
CAIRN_CHECKED cairn_err crn_job_check_arenas(const struct crn_job *job, struct crn_errinfo *ei);

#define CRN_NOWHERE UINT32_MAX /* address of a service that has not come back */

/* takeover.c: a restarted service takes over the job of a dead one. */
CAIRN_CHECKED cairn_err crn_takeover(struct crn_job *job, struct crn_errinfo *ei);
void crn_takeover_free(struct crn_job *job);
/* Nobody has said HELLO yet (living.c): maps the arenas, and tells the other services. The ranks'
 * captures are adopted as soon as all nodes have the job. */
void crn_takeover_found(struct crn_job *job);
/* Is it the rank whose arena was found at this place? */
int crn_takeover_fits(const struct crn_job *job, const struct crn_hello *h);
/* Does the service have this arena already? */
int crn_takeover_has_arena(const struct crn_job *job, uint32_t local, int fd);
/* A rank has said HELLO; answers it now or when all nodes have the job. */
void crn_takeover_hello(struct crn_job *job, struct crn_client *client, const struct crn_hello *h);
void crn_takeover_here(struct crn_job *job, const struct crn_msg *n);
/* The connection of a rank has ended. Returns 1 if the rank may come back. */
int crn_takeover_left(struct crn_job *job, struct crn_client *client);
/* A rank's arena is mapped: the slots of the dead service change hands. */
void crn_takeover_arena(struct crn_job *job, uint32_t local);
/* A rank reports a capture. Returns 0 if that checkpoint has ended already: the rank has been told,
 * and the core needs no event. */
int crn_takeover_captured(struct crn_job *job, uint32_t local, const struct crn_msg *m);
/* Finds captures that ranks have completed since, and ranks that died while there was no service. */
void crn_takeover_tick(struct crn_job *job);
/* May the directory go when the job ends? */
int crn_takeover_is_whole(const struct crn_job *job);

/* living.c: takes over the jobs whose ranks live on this node. */
void crn_living_find(struct crn_service *svc);

/* job_events.c: messages, results, deaths and the clock become events of the core, and its actions are
 * carried out. */
void crn_job_message(struct crn_job *job, struct crn_client *client, struct crn_msg *n,
                     int passed_fd);
void crn_job_result(struct crn_work *w);
void crn_job_rank_left(struct crn_job *job, struct crn_client *client, int is_dead);
void crn_job_tick(struct crn_job *job, int64_t now_ns);
void crn_job_free_items(struct crn_job *job); /* the job is being closed */
void crn_job_turns(struct crn_job *job);      /* the broker may have granted a turn */
/* This node cannot complete the checkpoint: the root ends it everywhere. */
void crn_job_fail(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *e);
/* A transfer or a task of the service no longer uses the item, which may be freed. */
void crn_job_unuse(struct crn_job *job, struct crn_item *item);
void crn_job_tell(struct crn_job *job, uint32_t node, const struct crn_msg *m);
void crn_job_tell_rank(struct crn_job *job, uint32_t local, const struct crn_msg *m);

/* slots.c: the slots of an item. */
/* A worker takes the slots from the ranks when it starts to read them. Returns all slots,
 * malloc'ed, or CAIRN_ECANCELED if a rank has dropped its capture. The loop releases them at the
 * end, or the worker gives them back. */
CAIRN_CHECKED cairn_err crn_slots_claim(struct crn_job *job, struct crn_item *item,
                                        uint32_t **ret_slots, struct crn_errinfo *ei);
/* The local copy is done. Until the flush starts, a newer checkpoint may supersede this one
 * again. */
void crn_slots_unclaim(struct crn_job *job, struct crn_item *item);
/* The item has ended: the slots go back to the ranks first .. end-1. */
void crn_slots_release(struct crn_job *job, struct crn_item *item, uint32_t first, uint32_t end,
                       enum crn_outcome outcome);
/* Logs the end, and where a drain finds the capture. */
void crn_slots_log_end(const struct crn_job *job, const struct crn_action *end);

/* work.c: flusher and sender; keeper.c: the keeper. */
void *crn_work_flusher_main(void *job);
void *crn_keeper_main(void *job);
void *crn_work_sender_main(void *job);
/* Passes a task to its worker: 0, or -1 if the job is being closed. Called by the loop thread. */
int crn_work_send(struct crn_work *w);

/* job_report.c: adds a record to the journal of a name, and retries earlier ones. First node,
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
/* The keeper has made the directory of a job, or has not: tells the ranks that wait. */
void crn_ranks_answer(struct crn_job *job, const struct crn_errinfo *error);
void crn_rank_read(struct crn_service *svc, struct crn_client *c);
/* The answer to HELLO. */
void crn_ranks_ready(struct crn_service *svc, struct crn_client *client,
                     const struct crn_errinfo *error);
void crn_ranks_free_gone(struct crn_service *svc);

/* service.c: for the workers and the jobs. */
struct crn_job *crn_service_job(struct crn_service *svc, const uint8_t run[16]); /* or NULL */
void crn_service_result(struct crn_service *svc, struct crn_work *w);            /* any thread */
void crn_service_wake(struct crn_service *svc);                                  /* any thread */
void crn_service_tell(struct crn_service *svc, uint32_t address, const struct crn_msg *n);

#endif
