/* SPDX-License-Identifier: BSD-3-Clause */
/* The pure core of the tier cache: which checkpoint lies on which tiers of a chain (fastest first),
 * which copy comes next, and what has to go for it. It moves no bytes, knows no thread and asks no
 * clock; the threads of cache.h and the replay tool drive the same functions.
 *
 * A caller asks for a move, makes the copy, and says with crn_chain_done how it went. Between the two
 * the chain guarantees that neither end of the copy is evicted or given to another.
 *
 *   write  application -> fastest tier that can make room (only this blocks a capture)
 *   down   tier -> next slower one, oldest first: the pending flushes
 *   up     next slower tier -> tier, in the order of the hints: prefetching
 *   read   fastest tier that has it, whole -> application; nothing is evicted for a read
 *
 * A tier where everything is pinned is passed over: captures and flushes go to the next one, so that
 * no wrong hint can stop a chain whose last tier has room. */
#ifndef CRN_TIER_CHAIN_H
#define CRN_TIER_CHAIN_H

#include "tier/life.h"
#include "tier/window.h"

#define CRN_TIERS_MAX 4
#define CRN_APP       (-1) /* the application's memory, as an end of a move */

struct crn_chain_tier {
    uint64_t capacity; /* UINT64_MAX: no bound */
    uint64_t align;    /* of offsets and sizes; 0: 4096 */
    uint64_t least;    /* a checkpoint takes so much at least: bounds their number */
    double down_bps;   /* first guess of the bandwidth to the next slower tier; then measured */
    double up_bps;     /* and from it */
    uint32_t depth;    /* copies under way at once, down from it and up to it each; 0: one */
    int is_behind;   /* filled from the tier above alone: captures, flushes that pass that tier over
                          and prefetches do not go there */
    int is_external; /* someone else writes it, crn_chain_flushed says when, and the application
                          reads it there itself; prefetched from. The last one only */
};

struct crn_chain_options {
    enum crn_evict policy;
    int discard_consumed; /* what was read need not be kept: pending flushes of it are canceled */
    uint32_t ntiers;
    struct crn_chain_tier tier[CRN_TIERS_MAX];
};

/* Where a checkpoint lies on a tier. The id is new for every stay there. */
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
    uint32_t
        distance; /* reads: how many of the next hints, up to 64, were ready on the fastest tier */
};

struct crn_chain; /* opaque */

CAIRN_CHECKED cairn_err crn_chain_open(const struct crn_chain_options *options,
                                       struct crn_chain **ret, struct crn_errinfo *ei);
void crn_chain_close(struct crn_chain *c); /* NULL is fine */

/* A new checkpoint, to tier first or a slower one; it never goes to a faster one. CAIRN_EBUSY: ask
 * again after the next change, or crn_chain_give_up. CAIRN_ENOSPC: larger than every tier.
 * CAIRN_EINVAL: the key is taken. */
CAIRN_CHECKED cairn_err crn_chain_write(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                        int first, int64_t now_ns, struct crn_tier_transfer *ret,
                                        struct crn_errinfo *ei);
void crn_chain_give_up(struct crn_chain *c);
/* CAIRN_EBUSY: it is on its way to a faster tier, ask again after the next change. CAIRN_ENOENT:
 * unknown, discarded, or on an external tier alone: the read is made there, and its hint is taken.
 * CAIRN_EDAMAGED: lost with the tiers that had it. */
CAIRN_CHECKED cairn_err crn_chain_read(struct crn_chain *c, uint64_t key, int64_t now_ns,
                                       struct crn_tier_transfer *ret, struct crn_errinfo *ei);
/* The next flush from a tier, or prefetch into it: 1, or 0 if there is nothing to do now. */
int crn_chain_down(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret);
int crn_chain_up(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret);
/* 0: there is certainly nothing to do now. Cheap. */
int crn_chain_wants_down(const struct crn_chain *c, int tier);
int crn_chain_wants_up(const struct crn_chain *c, int tier);
/* How a move went. CAIRN_EDAMAGED says that the source is bad; any other error that the copy failed
 * and may be tried again: a background one is, after a pause that doubles (with CAIRN_EBUSY, the
 * target being full, it does not). Returns what counts: rc,
 * or CAIRN_EDEVICE where the target was lost while the copy was made. */
cairn_err crn_chain_done(struct crn_chain *c, const struct crn_tier_transfer *t, cairn_err rc,
                         int64_t now_ns);
/* When, after now, a failed background copy may be tried again; INT64_MAX: none waits. */
int64_t crn_chain_retry_ns(const struct crn_chain *c, int64_t now_ns);

/* A read to come; in any number, at any time, also before the checkpoint is written. */
CAIRN_CHECKED cairn_err crn_chain_hint(struct crn_chain *c, uint64_t key, struct crn_errinfo *ei);
/* From now on hints are prefetched; before, they only guide eviction. */
void crn_chain_start(struct crn_chain *c);
/* The read that a hint announced was made elsewhere, or will not be made. */
void crn_chain_skip(struct crn_chain *c, uint64_t key);
/* All hints of it are taken back; it stays where it is. */
void crn_chain_unhint(struct crn_chain *c, uint64_t key);
/* The checkpoint will not be read again: it is dropped everywhere, its pending flushes too. */
void crn_chain_forget(struct crn_chain *c, uint64_t key);
/* A checkpoint that an earlier run left on the last tier; first as of crn_chain_write. */
CAIRN_CHECKED cairn_err crn_chain_adopt(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                        int first, struct crn_errinfo *ei);
/* A checkpoint that lies whole on a tier already, at an offset where nothing else is. */
CAIRN_CHECKED cairn_err crn_chain_import(struct crn_chain *c, uint64_t key, uint64_t bytes,
                                         int tier, uint64_t offset, struct crn_errinfo *ei);
/* An external last tier has it now. */
void crn_chain_flushed(struct crn_chain *c, uint64_t key);

/* With discard_consumed what is held for a read is not flushed, unless someone waits for all. */
void crn_chain_drain(struct crn_chain *c, int is_on);
/* A tier that had no room until now gets some. */
CAIRN_CHECKED cairn_err crn_chain_grow(struct crn_chain *c, int tier, uint64_t capacity,
                                       struct crn_errinfo *ei);
/* A tier that is being prepared holds nothing yet; flushes to it wait. All are ready at first. */
void crn_chain_ready(struct crn_chain *c, int tier, int is_ready);
/* A tier is gone with all that it held. What no other tier has is lost and will be said so. Copies
 * that are under way are still ended by crn_chain_done. */
void crn_chain_lost(struct crn_chain *c, int tier);

/* A checkpoint that no tier has any more and nobody gave up; each once: 1, or 0. */
int crn_chain_next_lost(struct crn_chain *c, uint64_t *ret_key);
int crn_chain_has_lost(const struct crn_chain *c);

/* Looking. */
enum crn_life crn_chain_state(const struct crn_chain *c, uint64_t key, int tier);
int crn_chain_is_flushed(const struct crn_chain *c, uint64_t key); /* whole on the last tier */
int crn_chain_is_idle(const struct crn_chain *c);                  /* no flush is pending */
int crn_chain_is_stuck(const struct crn_chain *c, int tier); /* the last flush found no room */
const struct crn_space *crn_chain_space(const struct crn_chain *c, int tier);
uint64_t crn_chain_work(const struct crn_chain *c); /* things looked at so far, for tests */

#endif
