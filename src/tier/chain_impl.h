/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the chain: objects, tiers, hints. The chain owns everything; one caller at a
 * time. */
#ifndef CRN_TIER_CHAIN_IMPL_H
#define CRN_TIER_CHAIN_IMPL_H

#include "tier/chain.h"

#define RETRY_NS  INT64_C(50000000) /* pause after the first failure of a background copy */
#define RETRY_MAX INT64_C(30000000000)

/* A checkpoint on one tier. */
struct stay {
    enum crn_life state;
    uint64_t id;
    uint64_t offset;
    uint64_t born, used;        /* ticks */
    uint32_t readers;           /* copies in flight that read it */
    uint32_t takers;            /* of these, towards the application */
    int is_queued;              /* waits for its flush, in queue `kind` */
    int kind;                   /* enum queue_kind */
    int is_moving;              /* its flush is in flight */
    int is_declined;            /* no space below for an optional copy */
    struct object *prev, *next; /* in that queue */
    uint64_t eta_ns;            /* scratch of a search: time until its flush ends */
};

/* Why a checkpoint waits for a flush. DUE: no slower tier has it. WISH: the copy is optional.
 * SPARED: it is about to be read and dropped, so it is flushed only while draining. */
enum queue_kind { QUEUE_DUE = 0, QUEUE_WISH, QUEUE_SPARED, QUEUE_KINDS };

/* A hint: in the queue of all hints, and in the list of its checkpoint. */
struct hint {
    struct hint *prev, *next;
    struct hint *same_next;
    struct object *o;
    uint64_t seq;
    size_t at[CRN_TIERS_MAX]; /* 1 + its index in the tier's todo; 0: not there */
};

struct object {
    struct object *hash_next;
    uint64_t key;
    uint64_t bytes;           /* 0: only hinted so far */
    struct hint *hint, *last; /* its hints, the first and the last; NULL: none */
    uint32_t nhints;
    int is_discarded;
    int is_lost;                              /* it existed, and no tier has it any more */
    int is_lost_told;                         /* crn_chain_next_lost has reported it */
    int first;                                /* the fastest tier that it may use */
    int64_t pause_ns;                         /* pause after the last failure; 0: none */
    int64_t retry_ns;                         /* earliest time of the next try */
    struct object *failed_prev, *failed_next; /* list of those with a retry_ns */
    struct stay at[CRN_TIERS_MAX];
};

/* Requesters of space, by descending priority. A wish evicts only checkpoints that are read later
 * than its own. */
enum who { WHO_WRITE = 0, WHO_DOWN, WHO_UP, WHO_WISH, WHO_COUNT };

/* A window that a requester waits for; no requester of lower priority takes it. */
struct claim {
    int is_set;
    uint64_t offset, bytes;
};

/* Copies from or to a tier in one direction. */
struct chain_link {
    uint32_t busy;   /* copies in flight */
    uint64_t bytes;  /* of these */
    int64_t last_ns; /* when a copy last ended, or the first began */
    double bps;
};

struct tier {
    struct crn_chain_tier opt;
    struct crn_space space;
    int is_ready, is_lost;
    int is_stuck; /* the last flush from it found no space */
    /* By enum queue_kind: checkpoints that are complete here and on no slower tier; and wishes. */
    struct object *queue_head[QUEUE_KINDS], *queue_tail[QUEUE_KINDS];
    /* A heap of the hints that prefetching may have to act on, the earliest on top. It has space
     * for all hints. */
    struct hint **todo; /* owned */
    size_t ntodo, todo_cap;
    struct claim claim[WHO_COUNT];
    struct chain_link down, up;
};

struct crn_chain {
    struct crn_chain_options opt;
    int last; /* tier */
    struct tier tier[CRN_TIERS_MAX];
    struct object **hash; /* owned; nhash is a power of two */
    size_t nhash, nobjects;
    struct object *failed; /* list: the last background copy failed */
    size_t nlost;          /* lost objects not reported yet */
    size_t lost_at;        /* no hash bucket before this one has any */
    uint64_t tick, next_id;
    struct hint *hint_head, *hint_tail; /* owned */
    struct hint *held_last;             /* no hint after it is of a held checkpoint */
    uint64_t hint_seq;                  /* of the next hint */
    size_t nhints;
    size_t nmissing; /* upper bound on hinted objects that are on no tier */
    int is_started, is_draining;
    uint64_t work; /* items examined in all loops, for tests */
};

/* chain_object.c */
struct object *crn_chain_object_find(const struct crn_chain *c, uint64_t key);
CAIRN_CHECKED cairn_err crn_chain_object_make(struct crn_chain *c, uint64_t key,
                                              struct object **ret, struct crn_errinfo *ei);
void crn_chain_object_forget_if_empty(struct crn_chain *c, struct object *o);
void crn_chain_object_unlose(struct crn_chain *c,
                             struct object *o); /* no longer lost, or given up */
int crn_chain_object_is_here(const struct crn_chain *c, const struct object *o); /* on some tier */
/* Its last background copy failed: no retry before retry_ns. 0: clears the failure. */
void crn_chain_object_note_retry(struct crn_chain *c, struct object *o, int64_t retry_ns);
/* The next slower tier that is not lost; -1. */
int crn_chain_below(const struct crn_chain *c, int tier);
int crn_chain_has_copy_below(const struct crn_chain *c, const struct object *o, int tier);
uint64_t crn_chain_rounded(const struct crn_chain *c, int tier, uint64_t bytes);
/* Applies an event, which must be legal in the table. */
void crn_stay_move(struct object *o, int tier, enum crn_life_event event);
/* Begins a stay in a gap that is large enough. */
void crn_stay_begin(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event,
                    uint64_t offset, uint64_t bytes);
/* Ends unjustified holds: no copy towards the application is in flight, and either no hint is left
 * or a faster tier holds it. */
void crn_chain_object_unhold(struct crn_chain *c, struct object *o);
/* Ends a stay by EVICT, DISCARD, FAIL or LOST. */
void crn_stay_end(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event);
/* Holds it on a tier for a copy towards the application that begins now. */
void crn_stay_take(struct crn_chain *c, struct object *o, int tier);
/* Is a copy on the next slower tier useful, although a still slower tier has one? A checkpoint that
 * will be read again is faster to read from an is_behind tier than from an external one. */
int crn_chain_object_is_wished(const struct crn_chain *c, const struct object *o, int tier);
/* Updates its places in the queues of pending flushes to match its copies. */
void crn_chain_object_requeue(struct crn_chain *c, struct object *o);
void crn_chain_object_drop(struct crn_chain *c, struct object *o); /* unused discarded copies */

/* chain_room.c */
enum room { ROOM_MADE, ROOM_WAIT, ROOM_NONE };
/* Makes space for an object on a tier: evicts what must go and begins the stay (event). */
enum room crn_chain_room_make(struct crn_chain *c, struct object *o, int tier, enum who who,
                              enum crn_life_event event, int64_t now_ns);
int crn_chain_takes_captures(const struct tier *t);
/* Makes space on the first suitable tier from first on: *ret_to. An is_behind tier takes only
 * copies from the tier just above it. */
enum room crn_chain_room_find(struct crn_chain *c, struct object *o, int first, enum who who,
                              int64_t now_ns, int *ret_to);
/* The same if only hinted checkpoints block the space: the holds of those that will be read last
 * end, one by one. A new checkpoint must leave a volatile tier, and an application that waits for
 * that does not read. */
enum room crn_chain_room_need(struct crn_chain *c, struct object *o, int first, enum who who,
                              int64_t now_ns, int *ret_to);
void crn_chain_link_begin(struct chain_link *l, const struct crn_tier_transfer *t);
void crn_chain_link_end(struct chain_link *l, const struct crn_tier_transfer *t, cairn_err rc,
                        int64_t now_ns);

/* chain_hints.c */
/* Something changed that prefetching may have to act on: re-examines the object's hint. */
void crn_hint_touch(struct crn_chain *c, const struct object *o);
void crn_hint_touch_all(struct crn_chain *c);                         /* for all objects */
void crn_hint_note_held(struct crn_chain *c, const struct object *o); /* updates held_last */
void crn_hint_drop_all(struct crn_chain *c, struct object *o);        /* withdraws its hints */
void crn_hint_take(struct crn_chain *c, struct object *o); /* it was read: consumes a hint */
uint64_t crn_hint_near(const struct crn_chain *c, const struct object *o, int tier);
uint32_t crn_hint_distance(const struct crn_chain *c, const struct object *reading);

#endif
