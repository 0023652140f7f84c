/* SPDX-License-Identifier: BSD-3-Clause */
/* The tier cache: captures checkpoints into the fastest tier, and flushes and prefetches them in
 * the background. chain.h decides, tier.h copies; this file adds the threads, the waiting and the
 * statistics.
 *
 * Threads: each pair of neighbouring tiers has one thread that flushes and one that prefetches (two
 * each if the upper tier allows two copies in flight, so that a device's link is never idle).
 * Helpers share large copies between host memory and files. Each tier that needs preparation has a
 * thread that ends when the tier is ready. One lock (CRN_RANK_TIER) guards the chain; no thread
 * copies or touches a file while it owns the lock. The application may run one write and one read
 * at a time, and the other calls at any time from any thread. */
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
    int tier;          /* written to or read from; -1: failed before the choice */
    uint32_t distance; /* reads: how many next hints were ready on the fastest tier */
    uint32_t waits;    /* how often it waited: for space, or for a copy in flight */
    int64_t start_ns;  /* monotonic */
    int64_t wait_ns, copy_ns;
    uint64_t used[CRN_TIERS_MAX]; /* bytes used on each tier at the end */
    cairn_err rc;
};

/* The log of operations, for `cairn plot tiers`: a head, then one line per operation. Parsing
 * returns 0 if the line is no operation, else 1. */
void crn_cache_op_head(FILE *out);
void crn_cache_op_print(FILE *out, const struct crn_cache_op *op);
int crn_cache_op_parse(const char *line, struct crn_cache_op *ret);

struct crn_cache_options {
    enum crn_evict policy;
    int discard_consumed;
    int nice; /* of the background threads */
    enum crn_background_cores cores;
    /* At most this many threads share a copy between host memory and files, on idle cores; 0 or 1:
     * one thread makes each copy. sharers: how many caches of the node share these cores; 0: the
     * threads always help. */
    int threads, sharers;
    uint32_t ntiers;
    struct crn_tier *tier[CRN_TIERS_MAX]; /* fastest first; owned by the cache once open succeeds */
    /* Called at the end of each write and read, without locks, on the caller's thread. May be
     * NULL. */
    void (*on_op)(void *arg, const struct crn_cache_op *op);
    void *arg;
    /* Called during each write, without locks, on the caller's thread, while a device copies: what
     * it does then costs the application nothing. Called once for each tier that is tried, so maybe
     * several times, and at least once in every write that succeeds. May be NULL. */
    void (*meanwhile)(void *arg);
    FILE *trace; /* requests, one per line, for the replay tool; NULL: none. The caller closes it */
    /* Callbacks of the owner of the external tier, with arg, without locks, on any thread; may be
     * NULL. look: finds out what was flushed there and calls crn_cache_flushed; returns 1 if
     * flushes are pending. on_lost: no tier has this checkpoint any more. */
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
/* Stops the threads after their current copy and closes the tiers; checkpoints that were not
 * flushed are gone. */
void crn_cache_close(struct crn_cache *c); /* NULL is fine */

/* Captures pieces as a checkpoint of this size; when it returns, the application may change them.
 * Waits for space until the deadline (monotonic): CAIRN_ETIMEDOUT. Skips a tier that fails. If most
 * bytes lie in host memory, it does not use a device tier. streams: see crn_ends. CAIRN_EBUSY: the
 * back end of the tier has no place for it now, or a stream is being captured. */
CAIRN_CHECKED cairn_err crn_cache_write(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                        const struct crn_tier_piece *pieces, size_t n,
                                        void *const *streams, int64_t deadline_ns,
                                        struct crn_errinfo *ei);
/* Fills the pieces, which may cover only some of the checkpoint. If a copy is damaged, a slower
 * tier's copy is read. CAIRN_ENOENT, CAIRN_EDAMAGED: see crn_chain_read. */
CAIRN_CHECKED cairn_err crn_cache_read(struct crn_cache *c, uint64_t key,
                                       const struct crn_tier_piece *pieces, size_t n,
                                       void *const *streams, int64_t deadline_ns,
                                       struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_cache_hint(struct crn_cache *c, uint64_t key, struct crn_errinfo *ei);
void crn_cache_start(struct crn_cache *c);
/* See crn_chain_unhint, _skip, _adopt, _import and _flushed. */
void crn_cache_unhint(struct crn_cache *c, uint64_t key);
void crn_cache_skip(struct crn_cache *c, uint64_t key);
CAIRN_CHECKED cairn_err crn_cache_adopt(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                        int first, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_cache_import(struct crn_cache *c, uint64_t key, uint64_t bytes,
                                         int tier, uint64_t offset, struct crn_errinfo *ei);
void crn_cache_flushed(struct crn_cache *c, uint64_t key);
void crn_cache_forget(struct crn_cache *c, uint64_t key);
/* Gives a tier made by crn_tier_device_later its memory. */
CAIRN_CHECKED cairn_err crn_cache_bind(struct crn_cache *c, int tier, struct crn_device *dev,
                                       uint64_t bytes, struct crn_errinfo *ei);
/* Waits until every checkpoint is on the last tier. CAIRN_ETIMEDOUT includes the last failure. */
CAIRN_CHECKED cairn_err crn_cache_flush(struct crn_cache *c, int64_t deadline_ns,
                                        struct crn_errinfo *ei);
/* Waits until all tiers are prepared; returns the error of one that could not be. */
CAIRN_CHECKED cairn_err crn_cache_ready(struct crn_cache *c, int64_t deadline_ns,
                                        struct crn_errinfo *ei);

void crn_cache_get_stats(struct crn_cache *c, struct crn_cache_stats *ret);
/* Did the last flush from this tier find no space? */
int crn_cache_is_stuck(struct crn_cache *c, int tier);
enum crn_life crn_cache_state(struct crn_cache *c, uint64_t key, int tier);

#endif
