/* SPDX-License-Identifier: BSD-3-Clause */
/* What a node of a job decides: an event and the time go in, actions come out. Pure: no I/O, no
 * threads, no clock. The node service (src/service) carries the actions out and turns messages,
 * results of its workers and the clock into events; the simulation (src/sim/nodes.h) does the same
 * for thousands of nodes in one process.
 *
 * A node has items, one for each checkpoint in flight, whose states are those of states.h. Every
 * function below is an event; it appends actions to setup.out, to be performed in this order. An
 * action may lead to the next event at once: its actions queue up after the earlier ones. Room for
 * the actions of an item is reserved when the item is created, so ending a checkpoint needs no
 * memory. Times are nanoseconds of one monotonic clock. */
#ifndef CRN_NODE_NODE_H
#define CRN_NODE_NODE_H

#include "aggregate/elect.h"
#include "base/config.h"
#include "base/level.h"
#include "base/log.h"
#include "node/due.h"
#include "node/message.h"
#include "node/states.h"
#include "protect/scheme.h"

#define CRN_ROOT 0 /* the node that decides for all */

struct crn_node;

/* Tasks of workers. The core starts those above the line; the others are the shell's own. */
enum crn_work_kind {
    CRN_WORK_CLAIM = 0, /* keeper, root: may this run write the name? */
    CRN_WORK_LOOK,      /* keeper, root: did a dead service commit it? See adopt.c */
    CRN_WORK_START,     /* keeper, root: writer's lock, pin, file system type */
    CRN_WORK_LOCAL,     /* flusher: local copy of this node's shards */
    CRN_WORK_FLUSH,     /* flusher, leader: the persistent file of the group */
    CRN_WORK_ASSIST,    /* flusher: writes into another node's file */
    CRN_WORK_SERVE,     /* sender, follower: opens and describes the sources */
    CRN_WORK_COMMIT,    /* keeper, root: manifest */
    CRN_WORK_RETIRE,    /* keeper: spool, debris, local retention; root: retention, journal */
    CRN_WORK_REPORT,    /* keeper, root: records a pause in the journal */
    CRN_WORK_STREAM,    /* protector: opens the stream of this node */
    CRN_WORK_PARITY,    /* protector: the parity that this node keeps */
    /* ---- */
    CRN_WORK_OPEN,         /* keeper: the directory of the job */
    CRN_WORK_SCRUB,        /* flusher: reads a part of what the node holds (held_scrub.h) */
    CRN_WORK_SEND,         /* sender, follower: gathers extents that are not contiguous in memory */
    CRN_WORK_FETCH,        /* result only: the flusher needs a block of another node */
    CRN_WORK_FETCH_STREAM, /* result only: the protector needs a block of another node */
    CRN_WORK_NOTE_OPENED,  /* result only, leader: the file exists */
    CRN_WORK_NOTE_ASK,     /* result only, assistant: a block is free */
    CRN_WORK_NOTE_WRITTEN, /* result only, assistant: a write is in the file */
    CRN_WORK_NOTE_LOCAL,   /* result only: the local copy is durable */
    CRN_WORK_NOTE_PAUSED,  /* result only: why the flush waits */
};

/* One rank's share of a checkpoint. */
struct crn_part {
    uint32_t slot;
    unsigned char is_captured;
    unsigned char is_settled; /* the rank has been told the end, or never will be */
};

/* What a node has reported to the root, as bits. */
enum { CRN_HAS_CAPTURED = 1, CRN_HAS_LOCAL = 2, CRN_HAS_DATA = 4, CRN_HAS_PARITY = 8 };

/* Does the keeper look whether a dead service has committed it? */
enum crn_look { CRN_LOOK_NONE = 0, CRN_LOOK_RUNS, CRN_LOOK_DONE };

/* A checkpoint as the root sees it. Arrays have an entry per node, groups per file. */
struct crn_root_item {
    enum crn_root_state state;
    int64_t base_version; /* version that its files may be encoded against; -1: none */
    uint64_t bytes;
    uint64_t *node_bytes;
    uint64_t *node_wrote;              /* as reported so far */
    unsigned char *has;                /* CRN_HAS_* */
    uint32_t ncaptured, nlocal, ndata; /* nodes that have */
    uint32_t nprotected;               /* nodes whose parity is there */
    int is_unprotected;                /* a node has said why its parity is not */
    struct crn_group_state *groups;    /* used to find lagging leaders */
    struct crn_buf sizes;              /* of all nodes, as GO carries them */
    cairn_level target;                /* the ranks want it there; NONE: as configured */
    uint32_t protect;                  /* the scheme that the ranks name; 0: as configured */
    int is_waited;                     /* a rank waits until this very one is persistent */
    int is_parity_waited;              /* ... protected */
    enum crn_look look;                /* for a restarted node: adopt.c */
    struct crn_errinfo verdict; /* it fails with this error, unless the keeper finds it committed */
    uint32_t paused_by;         /* node + 1 that reports for all why flushes wait; 0: none waits */
};

/* The streams of a node's set, by place in the set. */
struct crn_streams {
    uint32_t ncome; /* members that have told */
    unsigned char has_come[CRN_SET_MAX];
    uint64_t bytes[CRN_SET_MAX];
    uint64_t index_hash[CRN_SET_MAX];
};

/* A checkpoint in flight on this node. Workers may read what never changes: seq, name, version,
 * generation, and once all ranks have captured, created_ns and the slots. */
struct crn_item {
    struct crn_item *next;
    uint64_t seq;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;
    uint64_t generation; /* of the run for this name */
    enum crn_item_state state;
    uint64_t levels;              /* reached, as a set */
    cairn_level target;           /* as the ranks of this node ask; NONE: as configured */
    uint32_t protect;             /* the same for the scheme; 0: as configured */
    struct crn_protection scheme; /* as the root decides, with LEVEL captured */
    int is_held;                  /* it is not flushed until somebody wants it: due.c */
    uint64_t promised;            /* levels that a dead service may have told the ranks, as a set */
    struct crn_errinfo error;     /* result of the checkpoint */
    struct crn_part *part;        /* nlocal entries */
    uint32_t ncaptured;
    uint32_t users;          /* tasks and transfers; its slots are released when there are none */
    int64_t deadline_ns;     /* for ranks that have not captured */
    int64_t since_ns;        /* since when this node waits only for other nodes */
    uint64_t local_bytes;    /* captured on this node */
    uint64_t copied_bytes;   /* of them, copied by a plain memory copy */
    uint64_t copy_ns;        /* duration of the longest such copy */
    int64_t interval_ns;     /* since the previous capture, or since the job started */
    uint32_t leader;         /* node; UINT32_MAX before GO */
    uint32_t nmissing;       /* followers that have not described their shards yet */
    uint32_t nlent;          /* followers that have lent the previous version */
    uint32_t assisted;       /* leader that this node offered to assist; UINT32_MAX: none */
    int is_assisting;        /* writes into that leader's file */
    uint64_t *member_bytes;  /* per member of the group */
    unsigned char *has_come; /* per member: it has described its shards */
    unsigned char *assists;  /* by owner (member + 1; 0: none): elected as assistant */
    struct crn_streams *streams; /* NULL: this node is in no set */
    struct crn_root_item *root;  /* NULL on all nodes but the first */
    void *shell;                 /* setup.shell_bytes zeroed bytes */
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
    int is_successor; /* rank 0 has restored a version, or decided to start afresh */
    uint64_t waits[]; /* by local index: seq whose answer the rank waits for; 0: none */
};

/* Actions. ------------------------------------------------------------------------------------- */

enum crn_act {
    CRN_ACT_SEND = 0,  /* msg to the nodes first .. end-1, which may include this one */
    CRN_ACT_TELL,      /* msg to the ranks first .. end-1; with an item: if they have captured */
    CRN_ACT_WORK,      /* start work on item (CLAIM: on claim); its result is crn_node_result */
    CRN_ACT_PROMISE,   /* the captures of the ranks first .. end-1 are complete on all nodes */
    CRN_ACT_BEGIN,     /* GO: the flush of item begins; number: seq + 1 of its base, 0: none */
    CRN_ACT_TURN,      /* ask for a turn to flush item: crn_node_turn; it may have been asked for */
    CRN_ACT_WROTE,     /* bytes were written during item's turn */
    CRN_ACT_DECIDED,   /* root: item has ended, as msg.end says: return its turn */
    CRN_ACT_PROTECTED, /* all sets are: no member reads the stream of item any more */
    CRN_ACT_ENDED,     /* item has ended here: stop its workers; number: its users */
    CRN_ACT_SETTLE,    /* release the slots of the ranks first .. end-1 */
    CRN_ACT_FREE,      /* item has left the node: crn_item_free */
    CRN_ACT_LOG,       /* note.msg, at level number */
};

/* What becomes of a slot: CRN_ACT_ENDED, SETTLE. */
enum crn_outcome {
    CRN_OUT_FLUSHED, /* it is in a committed version */
    CRN_OUT_FAILED,  /* nobody needs it */
    CRN_OUT_KEPT,    /* all ranks have captured, or may have: keep it for a drain if it is memory */
};

struct crn_action {
    enum crn_act act;
    enum crn_work_kind work;
    enum crn_outcome outcome;
    uint32_t first, end;
    uint64_t number; /* WORK: RETIRE: 1 if the item may be committed by others, so its file stays */
    struct crn_item *item;
    struct crn_claim *claim;
    union {
        struct crn_msg msg;      /* borrows from the item; valid until the next event */
        struct crn_errinfo note; /* LOG, WORK: REPORT */
    };
};

struct crn_actions {
    struct crn_action *v;
    size_t n, cap, at;
    int failed; /* out of memory: an action was lost. Sticky */
    struct crn_action lost;
};

/* The next action: 1, or 0 if there is none. */
int crn_actions_next(struct crn_actions *a, struct crn_action *ret);
void crn_actions_free(struct crn_actions *a);

/* Life. ---------------------------------------------------------------------------------------- */

struct crn_node_setup {
    uint8_t run[16];
    uint32_t node, nodes, nlocal;
    uint32_t files;               /* per version; the nodes form as many groups */
    const struct crn_config *cfg; /* must outlive the node */
    uint32_t nmembers;            /* of this node's set; 0: it is in none */
    const uint32_t *members;      /* ascending; must outlive the node */
    size_t shell_bytes;
    struct crn_actions *out; /* may be shared by nodes of one thread */
};

CAIRN_CHECKED cairn_err crn_node_new(const struct crn_node_setup *setup, int64_t now_ns,
                                     struct crn_node **ret, struct crn_errinfo *ei);
void crn_node_free(struct crn_node *n); /* its items must be freed; see crn_node_take */
/* Unlinks an item of a node that will be closed; NULL: none is left. The caller frees it. */
struct crn_item *crn_node_take(struct crn_node *n);
void crn_item_free(struct crn_item *item);

/* Events. -------------------------------------------------------------------------------------- */

void crn_node_joined(struct crn_node *n, uint32_t local, uint32_t rank);
/* The same after a restart of the service, which the rank has told of its captures up to seq. */
void crn_node_rejoined(struct crn_node *n, uint32_t local, uint32_t rank, uint64_t seq);
/* A dead service of this run had claimed the name. */
void crn_node_granted(struct crn_node *n, const char *name, uint64_t generation);
void crn_node_left(struct crn_node *n, int64_t now_ns, uint32_t local, int is_dead);
/* A message of a rank of this node, or of a service. `slots`: of the rank's arena; 0: none. */
void crn_node_from_rank(struct crn_node *n, int64_t now_ns, uint32_t local, uint32_t slots,
                        const struct crn_msg *m);
void crn_node_from_node(struct crn_node *n, int64_t now_ns, const struct crn_msg *m);
/* A task has ended, or could not be started, or a note has come. */
struct crn_result {
    enum crn_work_kind kind;
    struct crn_item *item;
    struct crn_claim *claim;
    const struct crn_errinfo *error;
    uint64_t
        number;    /* CLAIM: generation; COMMIT, LOOK: time of the commit; SERVE: 1 if all is lent;
                 * STREAM: bytes */
    uint64_t hash; /* STREAM: of its index */
    const struct crn_fs_type *fs_type;    /* START */
    struct crn_blob shards;               /* SERVE: descriptors; borrowed until the actions ran */
    const struct crn_manifest_file *file; /* FLUSH: the same */
};
void crn_node_result(struct crn_node *n, int64_t now_ns, const struct crn_result *r);
/* The answer to CRN_ACT_TURN. error: a person has cancelled the flush. base: seq + 1 of the newest
 * capture of the name that is committed and in the arena, with its version; 0: none. */
void crn_node_turn(struct crn_node *n, int64_t now_ns, struct crn_item *item,
                   const struct crn_errinfo *error, uint64_t base, int64_t base_version);
/* This node cannot do its part of the checkpoint: the root ends it everywhere. */
void crn_node_fail(struct crn_node *n, int64_t now_ns, struct crn_item *item,
                   const struct crn_errinfo *error);
/* A task or a transfer of the shell begins and ends. */
void crn_item_use(struct crn_item *item);
void crn_node_unuse(struct crn_node *n, int64_t now_ns, struct crn_item *item);
void crn_node_tick(struct crn_node *n, int64_t now_ns); /* about once a second */

/* The answer to a message about a job that this service does not know, so that the sender does not
 * wait: 1, or 0 if it needs none. */
int crn_node_refusal(const struct crn_msg *m, struct crn_msg *ret);

/* Questions. ----------------------------------------------------------------------------------- */

struct crn_item *crn_node_items(const struct crn_node *n); /* by seq */
struct crn_item *crn_node_find(const struct crn_node *n, uint64_t seq);
/* Have all ranks left, and is nothing in flight? */
int crn_node_has_left(const struct crn_node *n, uint32_t local);
int crn_node_is_done(const struct crn_node *n);
/* Does a checkpoint or a claim wait for another node? */
int crn_node_is_busy(const struct crn_node *n);
/* Bytes per second of a flush that nobody waits for; 0: unlimited. */
uint64_t crn_node_calm_rate(const struct crn_node *n, int is_closing);
/* May several nodes write one of its files? Not if data is encoded: only the leader, which encodes,
 * learns where the bytes go. With encode = auto they may; the leader hands out writes of plain files
 * only. */
int crn_item_takes_help(const struct crn_node *n, const struct crn_item *item);
/* Has the newer one, which all ranks have captured, reached all levels of the older one? */
int crn_item_covers(const struct crn_item *newer, const struct crn_item *older);
/* How checkpoints of this name are protected. */
struct crn_protection crn_node_scheme(const struct crn_config *cfg, const char *name);
/* The member that describes its shards in this message; UINT32_MAX: none, drop the message. */
uint32_t crn_node_newcomer(const struct crn_node *n, const struct crn_item *item, uint32_t node);
uint32_t crn_node_group_first(const struct crn_node *n); /* node */
uint32_t crn_node_group_size(const struct crn_node *n);
/* Root: versions of this name that items in flight may need as a base, as an array of int64_t. */
void crn_node_needed(const struct crn_node *n, const char *name, struct crn_buf *ret);
/* The capture of the newest committed checkpoint, or the start of the job. */
int64_t crn_node_safe_ns(const struct crn_node *n);
/* Initialises a message about an item, without the fields specific to its type. */
void crn_node_msg(const struct crn_node *n, const struct crn_item *item, enum crn_msg_type type,
                  struct crn_msg *ret);

#endif
