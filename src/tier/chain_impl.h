/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the chain: objects, tiers, hints. Everything is owned by the chain; one caller at a
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
    uint32_t readers;           /* copies under way that read it */
    uint32_t takers;            /* of these, towards the application */
    int is_queued;              /* waits for its flush, in queue kind */
    int kind;                   /* enum queue_kind */
    int is_moving;              /* and that is under way */
    int is_declined;            /* no room below for a copy that is only a wish */
    struct object *prev, *next; /* in that queue */
    uint64_t eta_ns;            /* scratch of a search: until its flush ends */
};

/* Why a checkpoint waits for a flush: it must be, it is only wished for, or it is about to be read and dropped,
 * which makes the flush needless unless someone waits for all. */
enum queue_kind { QUEUE_DUE = 0, QUEUE_WISH, QUEUE_SPARED, QUEUE_KINDS };

/* A read to come: in the queue of all, and in that of its checkpoint. */
struct hint {
    struct hint *prev, *next;
    struct hint *same_next;
    struct object *o;
    uint64_t seq;
    size_t at[CRN_TIERS_MAX]; /* 1 + its place in the tier's todo; 0: it is not there */
};

struct object {
    struct object *hash_next;
    uint64_t key;
    uint64_t bytes;           /* 0: only hinted yet */
    struct hint *hint, *last; /* its hints, the first and the last; NULL: none */
    uint32_t nhints;
    int is_discarded;
    int is_lost;                              /* it was here, and no tier has it any more */
    int is_lost_told;                         /* and crn_chain_next_lost has said so */
    int first;                                /* the fastest tier that it goes to */
    int64_t pause_ns;                         /* of the last failure; 0: none */
    int64_t retry_ns;                         /* not before */
    struct object *failed_prev, *failed_next; /* of those with a retry_ns */
    struct stay at[CRN_TIERS_MAX];
};

/* Who needs room; the first goes first. A wish takes only what is read later than it. */
enum who { WHO_WRITE = 0, WHO_DOWN, WHO_UP, WHO_WISH, WHO_COUNT };

/* A window that someone waits for; nobody who comes after him takes it. */
struct claim {
    int is_set;
    uint64_t offset, bytes;
};

/* Copies from or to a tier in one direction. */
struct chain_link {
    uint32_t busy;   /* copies under way */
    uint64_t bytes;  /* of these */
    int64_t last_ns; /* when one ended, or the first began */
    double bps;
};

struct tier {
    struct crn_chain_tier opt;
    struct crn_space space;
    int is_ready, is_lost;
    int is_stuck; /* the last flush from it found no room */
    /* By enum queue_kind: whole here, on no slower tier; and wishes. */
    struct object *queue_head[QUEUE_KINDS], *queue_tail[QUEUE_KINDS];
    /* A heap: the hints that prefetching may have to do something for, the earliest at its top. It has room for
     * all hints. */
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
    struct object *failed; /* their last background copy failed */
    size_t nlost;          /* objects that are lost and not told */
    size_t lost_at;        /* no bucket of the hash before this has one */
    uint64_t tick, next_id;
    struct hint *hint_head, *hint_tail; /* owned */
    struct hint *held_last;             /* no hint behind it is of a checkpoint that is held */
    uint64_t hint_seq;                  /* of the next hint */
    size_t nhints;
    size_t nmissing; /* hinted objects that may be on no tier: an upper bound */
    int is_started, is_draining;
    uint64_t work; /* things looked at in all loops, for tests */
};

/* chain_object.c */
struct object *crn_object_find(const struct crn_chain *c, uint64_t key);
CAIRN_CHECKED cairn_err crn_object_make(struct crn_chain *c, uint64_t key, struct object **ret,
                                        struct crn_errinfo *ei);
void crn_object_forget_if_empty(struct crn_chain *c, struct object *o);
void crn_object_unlose(struct crn_chain *c, struct object *o); /* it is lost no more, or given up */
int crn_object_is_here(const struct crn_chain *c, const struct object *o); /* on some tier */
/* Its last background copy failed, and the next comes not before; 0: it did not. */
void crn_object_note_retry(struct crn_chain *c, struct object *o, int64_t retry_ns);
/* The next slower tier that is not lost; -1. */
int crn_below(const struct crn_chain *c, int tier);
int crn_has_copy_below(const struct crn_chain *c, const struct object *o, int tier);
uint64_t crn_rounded(const struct crn_chain *c, int tier, uint64_t bytes);
/* Makes a move of the table that must exist. */
void crn_stay_move(struct object *o, int tier, enum crn_life_event event);
/* Begins a stay in a gap that is large enough. */
void crn_stay_begin(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event,
                    uint64_t offset, uint64_t bytes);
/* Ends the holds that nothing justifies any more: no copy towards the application is under way, and
 * no hint is left or a faster tier holds it. */
void crn_object_unhold(struct crn_chain *c, struct object *o);
/* Ends a stay by EVICT, DISCARD, FAIL or LOST. */
void crn_stay_end(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event);
/* Holds it on a tier for a copy towards the application, which now begins. */
void crn_stay_take(struct crn_chain *c, struct object *o, int tier);
/* Is a copy on the next slower tier wished for, though there is one on a slower tier still? What will be
 * read again is better read from a tier behind than from an external one. */
int crn_object_is_wished(const struct crn_chain *c, const struct object *o, int tier);
/* Puts it in or out of the queues of pending flushes, as the copies now are. */
void crn_object_requeue(struct crn_chain *c, struct object *o);
void crn_object_drop(struct crn_chain *c, struct object *o); /* what is_discarded and not in use */

/* chain_room.c */
enum room { ROOM_MADE, ROOM_WAIT, ROOM_NONE };
/* Room for an object on a tier: evicts what must go and begins the stay (event). */
enum room crn_make_room(struct crn_chain *c, struct object *o, int tier, enum who who,
                        enum crn_life_event event, int64_t now_ns);
int crn_takes_captures(const struct tier *t);
/* Room on the first tier from first on that takes it: *ret_to. One behind takes what comes from the tier before
 * it. */
enum room crn_find_room(struct crn_chain *c, struct object *o, int first, enum who who,
                        int64_t now_ns, int *ret_to);
/* The same where nothing but reads to come are in the way: those that come last give up their places, one by
 * one. What is new must get out of harm's way, and an application that waits for that does not read. */
enum room crn_need_room(struct crn_chain *c, struct object *o, int first, enum who who,
                        int64_t now_ns, int *ret_to);
void crn_link_begin(struct chain_link *l, const struct crn_tier_transfer *t);
void crn_link_end(struct chain_link *l, const struct crn_tier_transfer *t, cairn_err rc,
                  int64_t now_ns);

/* chain_hints.c */
/* Something has changed that prefetching may have to act on: it looks at the object's hint again. */
void crn_hint_touch(struct crn_chain *c, const struct object *o);
void crn_hint_touch_all(struct crn_chain *c);                         /* of all objects */
void crn_hint_note_held(struct crn_chain *c, const struct object *o); /* if it is: for held_last */
void crn_hint_drop_all(struct crn_chain *c, struct object *o);        /* its hints are taken back */
void crn_hint_take(struct crn_chain *c, struct object *o);            /* it was read */
uint64_t crn_hint_near(const struct crn_chain *c, const struct object *o, int tier);
uint32_t crn_hint_distance(const struct crn_chain *c, const struct object *reading);

#endif
