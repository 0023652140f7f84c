/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of a session's tiers. "lock" below is mu; it is taken before the cache's. */
#ifndef CRN_CLIENT_TIERS_IMPL_H
#define CRN_CLIENT_TIERS_IMPL_H

#include "base/thread.h"
#include "client/session.h"
#include "client/tiers.h"

#define HELD_INDEX    256 /* buckets at first */
#define HELD_PRUNE_AT 256 /* how many there are when it is first looked for some to free */

/* Its address is its key in the cache. Made and freed by the application's thread, freed only when
 * no copy of it is under way and the cache has forgotten it. */
struct crn_tiered {
    struct crn_tiered *next; /* lock for changes */
    struct crn_tiered *index_next, *seq_next;
    struct crn_tiered *told_prev,
        *told_next; /* lock: of those that the service has, while is_in_told */
    int is_in_told;
    uint64_t seq_key;          /* what it is found by in by_seq */
    struct crn_slot_info info; /* name, version, capture; constant once a copy has begun */
    struct crn_shard shard;    /* these three hold if is_known; then constant */
    struct crn_image image;    /* of the shard */
    struct crn_buf descriptor; /* as it lies at the start of the image */
    uint64_t bytes;            /* of its regions and files, for the service */
    uint32_t nhints;           /* application's thread */
    uint32_t slot;             /* lock; what the service has or gets */
    uint32_t read_slot;        /* lock; of a copy to the arena that is for reading alone */
    int is_known;              /* lock: it counts, and its parts are known */
    int is_copied;             /* lock: it lies in its slot, whole, WRITING */
    int is_told;               /* lock: the service has it */
    int is_out;                /* lock: from its slot to the node's disk */
    int is_flushed;            /* lock: and is done with it, which the cache knows */
    int is_dropped;            /* lock: the service shall not get it */
    int is_lost;               /* lock: with the device, before the service had it */
    int is_failed;             /* application's thread: not to be restored from memory */
    int is_replaced; /* application's thread: a newer capture has its name and version, and
                                  it is not in the index any more */
};

struct crn_hint {
    char name[CAIRN_MAX_NAME];
    int64_t version;
};

struct crn_tiers {
    cairn_session *s;
    struct crn_cache *cache; /* NULL: not open */
    int ntiers, arena_tier;  /* the store is the last */
    int has_failed;          /* to open */
    int is_started;          /* prefetching */
    struct crn_hint *hints;  /* owned; given before the opening */
    size_t nhints;
    struct crn_mutex mu;
    struct crn_tiered *all; /* lock for changes */
    /* Application's thread: by name and version, and by the number of the capture. Owned; nindex is a power of
     * two. */
    struct crn_tiered **index, **by_seq;
    size_t nindex;
    size_t nheld, prune_at;
    struct crn_tiered *told,
        *told_last;              /* lock: the service has them, as far as is known; oldest first */
    struct crn_tiered *told_at;  /* lock: where the next look goes on; NULL: at the first */
    uint64_t looks, looked_at;   /* lock: calls of crn_tiers_look, and what they looked at */
    int has_news;                /* lock: something is lost, and the tracks do not know */
    struct crn_device *device;   /* NULL: no memory of a device is protected yet */
    struct crn_tier *arena;      /* of the cache */
    int has_tried_device;        /* to give it memory for checkpoints */
    struct crn_cache_op op;      /* of the last call of the cache */
    struct crn_capture *capture; /* application's thread: what it writes now; else NULL */
    struct crn_errinfo late;     /* and what went wrong while the device copied */
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
/* The capture of a checkpoint that was only announced before. */
void crn_held_capture(struct crn_tiers *x, struct crn_tiered *h, const struct crn_slot_info *info);
/* The service has it now; and is done with it. */
void crn_held_told_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
void crn_held_untold_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
/* The newest of a name and version is found first; one that is not in the index is found no more. */
void crn_held_index(struct crn_tiers *x, struct crn_tiered *h);
void crn_held_unindex(struct crn_tiers *x, struct crn_tiered *h);
/* Frees it if no memory has it and no copy of it is under way; it is forgotten then. 1 if so. */
int crn_held_free_if_gone(struct crn_tiers *x, struct crn_tiered **link);
/* Frees those that are needed no more, if there are many. */
void crn_held_prune(struct crn_tiers *x);
void crn_held_free(struct crn_tiered *h); /* the memory alone */

/* tiers_hints.c */
CAIRN_CHECKED cairn_err crn_tiers_hint(struct crn_tiers *x, const char *name, int64_t version,
                                       struct crn_errinfo *ei);
void crn_tiers_give_hints(struct crn_tiers *x); /* those that came before the opening */

/* tiers_back.c */
/* The arena as a tier, pinned for the device if is_pinning. */
CAIRN_CHECKED cairn_err crn_tiers_arena(struct crn_tiers *x, int is_pinning, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
void crn_tiers_pin(struct crn_tiers *x); /* the arena, for x->device */
/* Memory of the node's disk: tiers_local.c. */
CAIRN_CHECKED cairn_err crn_tiers_local(struct crn_tiers *x, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
int crn_tiers_look(void *arg);                /* the cache's look */
void crn_tiers_lost(void *arg, uint64_t key); /* and on_lost */
/* Gives a copied image to the service, if it counts. */
void crn_tiers_hand_over_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu);
void crn_tiers_send(struct crn_tiers *x, const struct crn_tiered *h, enum crn_msg_type type,
                    cairn_err code, const char *why);

/* tiers_store.c */
CAIRN_CHECKED cairn_err crn_tiers_store(struct crn_tiers *x, struct crn_tier **ret,
                                        struct crn_errinfo *ei);
/* Finds out what a committed version holds for this rank: CAIRN_ENOENT, or h is known then. */
CAIRN_CHECKED cairn_err crn_tiers_learn(struct crn_tiers *x, struct crn_tiered *h,
                                        struct crn_errinfo *ei);

#endif
