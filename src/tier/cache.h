/* SPDX-License-Identifier: BSD-3-Clause */
/* The tier cache: checkpoints captured into the fastest tier, flushed down and prefetched up in the
 * background. chain.h decides, tier.h copies; here are the threads, the waiting and the numbers.
 *
 * Threads: for each pair of neighbouring tiers one that flushes and one that prefetches (two each
 * below a device, so that its link is never idle); some that help them with large copies between host
 * memory and files; one for each tier that has to be prepared, which ends when it is. One lock (CRN_RANK_TIER) guards the chain; no
 * copy is made and no file touched while it is held. Calls of the application: write and read one at
 * a time each, the others any time, any thread. */
#ifndef CRN_TIER_CACHE_H
#define CRN_TIER_CACHE_H

#include <stdio.h>
#include "base/config.h"
#include "base/thread.h"
#include "tier/tier.h"

enum crn_cache_kind { CRN_CACHE_WRITE = 0, CRN_CACHE_READ };

/* What one call of the application cost. */
struct crn_cache_op {
    enum crn_cache_kind kind;
    uint64_t key;
    uint64_t bytes;
    int tier;          /* written to or read from; -1: it failed before */
    uint32_t distance; /* reads: next hints that were ready on the fastest tier */
    uint32_t waits;    /* how often it waited: for room, or for a copy under way */
    int64_t start_ns;  /* monotonic */
    int64_t wait_ns, copy_ns;
    uint64_t used[CRN_TIERS_MAX]; /* bytes of each tier when it ended */
    cairn_err rc;
};

/* The log of operations, for `cairn plot tiers`: a head, then a line each. Parsing: 1, or 0 if the
 * line is none. */
void crn_cache_op_head(FILE *out);
void crn_cache_op_print(FILE *out, const struct crn_cache_op *op);
int crn_cache_op_parse(const char *line, struct crn_cache_op *ret);

struct crn_cache_options {
    enum crn_evict policy;
    int discard_consumed;
    int nice; /* of the background threads */
    enum crn_background_cores cores;
    /* At most so many threads share a copy between host memory and files, on cores that are idle; 0, 1:
     * each is made by one thread. sharers: how many caches of the node share these cores; 0: the threads
     * always take part. */
    int threads, sharers;
    uint32_t ntiers;
    struct crn_tier *tier[CRN_TIERS_MAX]; /* fastest first; taken over when open succeeds */
    /* Called at the end of each write and read, without locks, on the caller's thread. May be NULL. */
    void (*on_op)(void *arg, const struct crn_cache_op *op);
    void *arg;
    /* Called in the course of each write, without locks, on the caller's thread, while a device copies:
     * what can be done then costs the application nothing. Once for each tier that is tried, so maybe
     * more than once; before every write that succeeds. May be NULL. */
    void (*meanwhile)(void *arg);
    FILE *trace; /* requests as lines for the replay tool; NULL: none. Stays the caller's */
    /* Of who owns the external tier, with arg, without locks, on any thread; may be NULL. look: asks
     * what has happened there, to call crn_cache_flushed; 1 if it has work left. on_lost: no tier has
     * this checkpoint any more. */
    int (*look)(void *arg);
    void (*on_lost)(void *arg, uint64_t key);
};

/* Totals since the opening. */
struct crn_cache_stats {
    uint64_t writes, reads;
    uint64_t hits[CRN_TIERS_MAX];                                /* reads by tier */
    uint64_t flushed_bytes[CRN_TIERS_MAX];                       /* from each tier downwards */
    uint64_t prefetched_bytes[CRN_TIERS_MAX];                    /* into each tier */
    int64_t flush_ns[CRN_TIERS_MAX], prefetch_ns[CRN_TIERS_MAX]; /* time of these copies */
    uint64_t failures;                                           /* of background copies */
};

struct crn_cache; /* opaque */

CAIRN_CHECKED cairn_err crn_cache_open(const struct crn_cache_options *options,
                                       struct crn_cache **ret, struct crn_errinfo *ei);
/* Ends the threads after the copy in hand and closes the tiers; what was not flushed is gone. */
void crn_cache_close(struct crn_cache *c); /* NULL is fine */

/* Captures pieces as a checkpoint of so many bytes; returns when they may change. Waits for room
 * until the deadline (monotonic): CAIRN_ETIMEDOUT. A tier that fails is passed over. Pieces that lie
 * in the host for the most part do not go to a device. streams: as crn_ends. CAIRN_EBUSY: the back end
 * of the tier has no place for it now, or a stream is being captured. */
CAIRN_CHECKED cairn_err crn_cache_write(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                        const struct crn_tier_piece *pieces, size_t n,
                                        void *const *streams, int64_t deadline_ns,
                                        struct crn_errinfo *ei);
/* Fills the pieces, which may be parts of the checkpoint. A damaged copy is replaced by a slower
 * tier's. CAIRN_ENOENT, CAIRN_EDAMAGED as crn_chain_read. */
CAIRN_CHECKED cairn_err crn_cache_read(struct crn_cache *c, uint64_t key,
                                       const struct crn_tier_piece *pieces, size_t n,
                                       void *const *streams, int64_t deadline_ns,
                                       struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_cache_hint(struct crn_cache *c, uint64_t key, struct crn_errinfo *ei);
void crn_cache_start(struct crn_cache *c);
/* As crn_chain_unhint, _skip, _adopt, _import and _flushed. */
void crn_cache_unhint(struct crn_cache *c, uint64_t key);
void crn_cache_skip(struct crn_cache *c, uint64_t key);
CAIRN_CHECKED cairn_err crn_cache_adopt(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                        int first, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_cache_import(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                         int tier, uint64_t offset, struct crn_errinfo *ei);
void crn_cache_flushed(struct crn_cache *c, uint64_t key);
void crn_cache_forget(struct crn_cache *c, uint64_t key);
/* Gives the tier of crn_tier_device_later its memory. */
CAIRN_CHECKED cairn_err crn_cache_bind(struct crn_cache *c, int tier, struct crn_device *dev,
                                       uint64_t bytes, struct crn_errinfo *ei);
/* Waits until every checkpoint is on the last tier. CAIRN_ETIMEDOUT says the last failure, too. */
CAIRN_CHECKED cairn_err crn_cache_flush(struct crn_cache *c, int64_t deadline_ns,
                                        struct crn_errinfo *ei);
/* Waits until all tiers are prepared; what went wrong with those that are not. */
CAIRN_CHECKED cairn_err crn_cache_ready(struct crn_cache *c, int64_t deadline_ns,
                                        struct crn_errinfo *ei);

void crn_cache_get_stats(struct crn_cache *c, struct crn_cache_stats *ret);
/* The last failure of the background; code CAIRN_OK: none. */
void crn_cache_last_error(struct crn_cache *c, struct crn_errinfo *ret);
/* The last flush from this tier found no room. */
int crn_cache_is_stuck(struct crn_cache *c, int tier);
enum crn_life crn_cache_state(struct crn_cache *c, uint64_t key, int tier);

#endif
