/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the tier cache. "lock" below means mu. */
#ifndef CRN_TIER_CACHE_IMPL_H
#define CRN_TIER_CACHE_IMPL_H

#include "base/clock.h"
#include "tier/cache.h"

#define BOUNCES 2 /* of the application: one to write, one to read */

struct cache_worker {
    struct crn_cache *cache;
    int tier;
    int is_up; /* prefetches into the tier; else flushes from it */
    struct crn_mover mover;
    int is_asleep;        /* lock */
    int is_polling;       /* lock: asleep, but polls soon; needs no wakeup */
    struct crn_cond wake; /* there may be a copy to make, or the cache closes */
    pthread_t thread;
    int is_started;
};

/* Prepares a tier, then ends. */
struct starter {
    struct crn_cache *cache;
    int tier;
    pthread_t thread;
    int is_started;
};

struct crn_cache {
    struct crn_cache_options opt;
    struct crn_mutex mu;
    struct crn_cond changed;           /* the chain changed, or is_stopping */
    struct crn_chain *chain;           /* lock */
    struct crn_cache_stats stats;      /* lock */
    struct crn_errinfo error;          /* lock: last failure of the background */
    struct crn_errinfo start_error;    /* lock: of a tier that could not be prepared */
    int64_t last_ns[2][CRN_TIERS_MAX]; /* lock: end of the last copy down and up */
    int preparing;                     /* lock: tiers */
    int64_t written_ns;                /* lock: when the last capture ended */
    int waiters;                       /* lock: callers that wait for a change */
    int draining;                      /* lock: callers of flush */
    int is_stopping;                   /* lock */
    void *bounce[BOUNCES];
    struct cache_worker worker[4 * CRN_TIERS_MAX];
    int nworkers;
    struct crn_team *team; /* helps the workers; NULL: no helpers */
    struct starter starter[CRN_TIERS_MAX];
};

static inline int64_t crn_cache_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* cache_work.c */
/* Call after every change of the chain. Avoids needless wakeups: the application pays for each. */
void crn_cache_wake_locked(struct crn_cache *c) CRN_REQUIRES(c->mu);
/* The same, but unlocks before it wakes threads: they need the lock. */
void crn_cache_unlock(struct crn_cache *c) CRN_RELEASE(c->mu);
/* Waits for the next change; returns 1 at the deadline. */
int crn_cache_wait_locked(struct crn_cache *c, int64_t deadline_ns) CRN_REQUIRES(c->mu);
/* Ends a move; a lost device loses its tier. Returns the effective result. The caller then wakes
 * the threads. */
cairn_err crn_cache_done_locked(struct crn_cache *c, const struct crn_tier_transfer *t,
                                cairn_err rc) CRN_REQUIRES(c->mu);
CAIRN_CHECKED cairn_err crn_cache_start_threads(struct crn_cache *c, struct crn_errinfo *ei);
void crn_cache_stop_threads(struct crn_cache *c); /* only those that were started */
CAIRN_CHECKED cairn_err crn_cache_bounce(void **ret, struct crn_errinfo *ei);

#endif
