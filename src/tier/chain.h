/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure core of the tier cache: which checkpoint lies on which tiers of a chain (fastest first),
 * which copy comes next, and what must be evicted for it. It moves no bytes, has no threads and
 * reads no clock; the threads of cache.h and the replay tool drive the same functions.
 *
 * A caller asks for a move, makes the copy, and reports the result with crn_chain_done. In between,
 * the chain neither evicts nor reuses either end of the copy.
 *
 *     write  application -> fastest tier that can free enough space (only this blocks a capture)
 *     down   tier -> next slower one, oldest first: the pending flushes
 *     up     next slower tier -> tier, in the order of the hints: prefetching
 *     read   fastest tier that has it, complete -> application; a read evicts nothing
 *
 * A tier in which everything is pinned is skipped: captures and flushes go to the next one, so that
 * wrong hints cannot block a chain whose last tier has space. */
#ifndef CRN_TIER_CHAIN_H
#define CRN_TIER_CHAIN_H

#include "tier/life.h"
#include "tier/window.h"

#define CRN_TIERS_MAX 4
#define CRN_APP       (-1) /* the application's memory, as an end of a move */

struct crn_chain_tier {
    uint64_t capacity; /* UINT64_MAX: no bound */
    uint64_t align;    /* of offsets and sizes; 0: 4096 */
    uint64_t least;    /* a checkpoint takes at least so much, which bounds their number */
    double down_bps; /* initial estimate of the bandwidth to the next slower tier; then measured */
    double up_bps;   /* the same from it */
    uint32_t depth;  /* copies in flight at once, down from it and up to it each; 0: one */
    /* Filled only from the tier above: captures, prefetches, and flushes that skip that tier do
     * not go there. */
    int is_behind;
    /* Last tier only: another program fills it, and crn_chain_flushed reports that. The application
     * reads it directly; prefetches read from it. */
    int is_external;
};

struct crn_chain_options {
    enum crn_evict policy;
    /* Drop a checkpoint that was read, and cancel its pending flushes. */
    int discard_consumed;
    uint32_t ntiers;
    struct crn_chain_tier tier[CRN_TIERS_MAX];
};

/* The place of a checkpoint on a tier. The id is new for every stay there. */
struct crn_spot {
    uint64_t id;
    uint64_t offset;
    uint64_t key;
};

struct crn_tier_transfer {
    uint64_t key;
    uint64_t bytes;
    int from, to; /* tiers, or CRN_APP */
    struct crn_spot src, dst;
    int64_t start_ns;
    uint32_t distance; /* reads: how many of the next 64 hints were ready on the fastest tier */
};

struct crn_chain; /* opaque */

CAIRN_CHECKED cairn_err crn_chain_open(const struct crn_chain_options *options,
                                       struct crn_chain **ret, struct crn_errinfo *ei);
void crn_chain_close(struct crn_chain *c); /* NULL is fine */

/* Starts a new checkpoint on tier first or a slower one; it never goes to a faster one.
 * CAIRN_EBUSY: ask again after the next change, or call crn_chain_give_up. CAIRN_ENOSPC: larger
 * than every tier. CAIRN_EINVAL: the key is in use. */
CAIRN_CHECKED cairn_err crn_chain_write(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                        int first, int64_t now_ns, struct crn_tier_transfer *ret,
                                        struct crn_errinfo *ei);
void crn_chain_give_up(struct crn_chain *c);
/* CAIRN_EBUSY: a copy to a faster tier is in flight, ask again after the next change. CAIRN_ENOENT:
 * unknown, discarded, or only on an external tier: the caller reads it there, and its hint is
 * consumed. CAIRN_EDAMAGED: lost with the tiers that had it. */
CAIRN_CHECKED cairn_err crn_chain_read(struct crn_chain *c, uint64_t key, int64_t now_ns,
                                       struct crn_tier_transfer *ret, struct crn_errinfo *ei);
/* The next flush from a tier, or the next prefetch into it: 1, or 0 if there is nothing to do
 * now. */
int crn_chain_down(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret);
int crn_chain_up(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret);
/* 0: certainly nothing to do now. Cheap. */
int crn_chain_wants_down(const struct crn_chain *c, int tier);
int crn_chain_wants_up(const struct crn_chain *c, int tier);
/* Reports the result of a move. CAIRN_EDAMAGED: the source is bad. Any other error: the copy failed
 * and may be retried. The chain retries a background copy after a pause that doubles each time;
 * with CAIRN_EBUSY (the target is full) the pause does not double. Returns the effective result:
 * rc, or CAIRN_EDEVICE if the target was lost during the copy. */
cairn_err crn_chain_done(struct crn_chain *c, const struct crn_tier_transfer *t, cairn_err rc,
                         int64_t now_ns);
/* The next time after now at which a failed background copy may be retried; INT64_MAX: none
 * waits. */
int64_t crn_chain_retry_ns(const struct crn_chain *c, int64_t now_ns);

/* Announces a read. Any number of hints, at any time, even before the checkpoint is written. */
CAIRN_CHECKED cairn_err crn_chain_hint(struct crn_chain *c, uint64_t key, struct crn_errinfo *ei);
/* Starts prefetching; before this, hints only guide eviction. */
void crn_chain_start(struct crn_chain *c);
/* The hinted read was made elsewhere, or will not be made: consumes one hint. */
void crn_chain_skip(struct crn_chain *c, uint64_t key);
/* Withdraws all hints of a checkpoint; it stays where it is. */
void crn_chain_unhint(struct crn_chain *c, uint64_t key);
/* The checkpoint will not be read again: drops it everywhere, with its pending flushes. */
void crn_chain_forget(struct crn_chain *c, uint64_t key);
/* Adds a checkpoint that an earlier run left on the last tier; first: see crn_chain_write. */
CAIRN_CHECKED cairn_err crn_chain_adopt(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                        int first, struct crn_errinfo *ei);
/* Adds a checkpoint that already lies complete on a tier, at an otherwise unused offset. */
CAIRN_CHECKED cairn_err crn_chain_import(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                         int tier, uint64_t offset, struct crn_errinfo *ei);
/* The external last tier now has it. */
void crn_chain_flushed(struct crn_chain *c, uint64_t key);

/* With discard_consumed, checkpoints held for a read are not flushed while draining is off. */
void crn_chain_drain(struct crn_chain *c, int is_on);
/* Gives space to a tier that had none. */
CAIRN_CHECKED cairn_err crn_chain_grow(struct crn_chain *c, int tier, uint64_t capacity,
                                       struct crn_errinfo *ei);
/* A tier that is not ready is empty, and flushes to it wait. All tiers are ready at first. */
void crn_chain_ready(struct crn_chain *c, int tier, int is_ready);
/* A tier is gone with everything on it. Checkpoints that no other tier has are lost, and reported
 * as such. Copies in flight still end with crn_chain_done. */
void crn_chain_lost(struct crn_chain *c, int tier);

/* Returns each lost checkpoint once: 1, or 0 if there is none. Lost: no tier has it any more, and
 * the caller did not give it up. */
int crn_chain_next_lost(struct crn_chain *c, uint64_t *ret_key);
int crn_chain_has_lost(const struct crn_chain *c);

/* Queries. */
enum crn_life crn_chain_state(const struct crn_chain *c, uint64_t key, int tier);
int crn_chain_is_flushed(const struct crn_chain *c, uint64_t key); /* complete on the last tier */
int crn_chain_is_idle(const struct crn_chain *c);                  /* no pending flush */
int crn_chain_is_stuck(const struct crn_chain *c, int tier); /* the last flush found no space */
const struct crn_space *crn_chain_space(const struct crn_chain *c, int tier);
uint64_t crn_chain_work(const struct crn_chain *c); /* items examined so far, for tests */

#endif
