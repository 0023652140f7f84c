/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of a session's tiers. "lock" below means mu; take it before the cache's lock. */
#ifndef CRN_CLIENT_TIERS_IMPL_H
#define CRN_CLIENT_TIERS_IMPL_H

#include "base/thread.h"
#include "client/session.h"
#include "client/tiers.h"

#define HELD_INDEX    256 /* buckets at first */
#define HELD_PRUNE_AT 256 /* first prune when there are so many */

/* A checkpoint in the tiers; its address is its key in the cache. The application's thread creates
 * and frees it. It is freed only when no copy of it is in flight and the cache has forgotten it. */
struct crn_tiered {
    struct crn_tiered *next; /* lock for changes */
    struct crn_tiered *index_next, *seq_next;
    struct crn_tiered *told_prev,
        *told_next; /* lock: list of those that the service has; valid if is_in_told */
    int is_in_told;
    uint64_t seq_key;          /* its key in by_seq */
    struct crn_slot_info info; /* name, version, capture; constant once a copy has begun */
    struct crn_shard shard;    /* this and the next two: constant once is_known */
    struct crn_image image;    /* of the shard */
    struct crn_buf descriptor; /* stored at the start of the image */
    uint64_t bytes;            /* of its regions and files, for the service */
    struct crn_target target;  /* what the caller asked for */
    uint32_t nhints;           /* application's thread */
    uint32_t slot;             /* lock; the slot that the service has or will get */
    uint32_t read_slot;        /* lock; of a copy to the arena only for reading */
    int is_known;              /* lock: it counts, and its regions are known */
    int is_copied;             /* lock: complete in its slot, which is WRITING */
    int is_told;               /* lock: the service has it */
    int is_out;                /* lock: moved from its slot to the node's disk */
    int is_flushed;            /* lock: the service is done with it, and the cache knows */
    int is_dropped;            /* lock: the service must not get it */
    int is_lost;               /* lock: lost with the device before the service had it */
    int is_failed;             /* application's thread: never restore it from memory */
    int is_replaced; /* application's thread: a newer capture replaces it, and it left the index */
};

struct crn_hint {
    char name[CAIRN_MAX_NAME];
    int64_t version;
};

struct crn_tiers {
    cairn_session *s;
    struct crn_cache *cache; /* NULL: not open */
    int ntiers, arena_tier;  /* the store is the last tier */
    int has_failed;          /* could not be opened */
    int is_started;          /* prefetching has started */
    struct crn_hint *hints;  /* owned; hints given before the tiers were opened */
    size_t nhints;
    struct crn_mutex mu;
    struct crn_tiered *all; /* lock for changes */
    /* Application's thread: hash tables by name and version, and by capture number. Owned; nindex
     * is a power of two. */
    struct crn_tiered **index, **by_seq;
    size_t nindex;
    size_t nheld, prune_at;
    struct crn_tiered *told,
        *told_last; /* lock: list of those that the service is known to have; oldest first */
    struct crn_tiered *told_at;  /* lock: where the next look continues; NULL: at the first */
    uint64_t looks, looked_at;   /* lock: calls of crn_tiers_look, and entries checked */
    int has_news;                /* lock: something is lost that the tracks do not know yet */
    struct crn_device *device;   /* NULL: no memory of a device is protected yet */
    struct crn_tier *arena;      /* of the cache */
    int has_tried_device;        /* tried to reserve device memory for checkpoints */
    struct crn_cache_op op;      /* of the last call of the cache */
    struct crn_capture *capture; /* application's thread: being written now; else NULL */
    struct crn_errinfo late;     /* errors that occurred while the device copied */
};

static inline uint64_t crn_held_key(const struct crn_tiered *h)
{
    return (uint64_t)(uintptr_t)h;
}

static inline struct crn_tiered *crn_held_of(const struct crn_spot *spot)
{
    return (struct crn_tiered *)(uintptr_t)spot->key; // NOLINT(performance-no-int-to-ptr)
}

/* tiers.c */
CAIRN_CHECKED cairn_err crn_tiers_make(cairn_session *s, struct crn_errinfo *ei); /* not open yet */

/* tiers_held.c */
struct crn_tiered *crn_held_find(struct crn_tiers *x, const char *name, int64_t version);
struct crn_tiered *crn_held_find_seq(struct crn_tiers *x, uint64_t seq); /* of this run */
CAIRN_CHECKED cairn_err crn_held_add(struct crn_tiers *x, const struct crn_slot_info *info,
                                     struct crn_tiered **ret, struct crn_errinfo *ei);
/* Records the capture of a checkpoint that so far was only hinted. */
void crn_held_capture(struct crn_tiers *x, struct crn_tiered *h, const struct crn_slot_info *info);
/* told: the service has it now. untold: the service is done with it. */
void crn_held_told_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
void crn_held_untold_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
/* The newest entry of a name and version is found first; an entry outside the index is never
 * found. */
void crn_held_index(struct crn_tiers *x, struct crn_tiered *h);
void crn_held_unindex(struct crn_tiers *x, struct crn_tiered *h);
/* Frees it, and makes the cache forget it, if no memory has it and no copy of it is in flight.
 * Returns 1 if it did. */
int crn_held_free_if_gone(struct crn_tiers *x, struct crn_tiered **link);
/* Frees unneeded entries, if there are many. */
void crn_held_prune(struct crn_tiers *x);
void crn_held_free(struct crn_tiered *h); /* frees only the memory */

/* tiers_hints.c */
void crn_tiers_give_hints(struct crn_tiers *x); /* those given before the tiers were opened */

/* tiers_back.c */
/* The arena as a tier; pinned for the device if is_pinning. */
CAIRN_CHECKED cairn_err crn_tiers_arena(struct crn_tiers *x, int is_pinning, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
void crn_tiers_pin(struct crn_tiers *x); /* the arena, for x->device */
/* The node's disk as a tier: tiers_local.c. */
CAIRN_CHECKED cairn_err crn_tiers_local(struct crn_tiers *x, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
int crn_tiers_look(void *arg);                /* the cache's look callback */
void crn_tiers_lost(void *arg, uint64_t key); /* the cache's on_lost callback */
/* Hands a copied image to the service, if the capture counts. */
void crn_tiers_hand_over_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
void crn_tiers_send(struct crn_tiers *x, const struct crn_tiered *h, enum crn_msg_type type,
                    cairn_err code, const char *why);

/* tiers_store.c */
CAIRN_CHECKED cairn_err crn_tiers_store(struct crn_tiers *x, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
/* Finds out what a committed version has for this rank. CAIRN_ENOENT, or h is known afterwards. */
CAIRN_CHECKED cairn_err crn_tiers_learn(struct crn_tiers *x, struct crn_tiered *h,
                                        struct crn_errinfo *ei);

#endif
