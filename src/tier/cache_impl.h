/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the tier cache. "lock" below is mu. */
#ifndef CRN_TIER_CACHE_IMPL_H
#define CRN_TIER_CACHE_IMPL_H

#include "base/clock.h"
#include "tier/cache.h"

#define BOUNCES 2 /* of the application: one writes, one reads */

struct cache_worker {
    struct crn_cache *cache;
    int tier;
    int is_up; /* prefetches into the tier; else flushes from it */
    struct crn_mover mover;
    int is_asleep;        /* lock */
    int is_polling;       /* lock: and looks by itself soon; it need not be woken */
    struct crn_cond wake; /* there may be work, or the end has come */
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
    struct crn_cond changed;           /* of the chain, or stopping */
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
    struct crn_team *team; /* of the workers; NULL: each works alone */
    struct starter starter[CRN_TIERS_MAX];
};

static inline int64_t crn_cache_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* cache_work.c */
/* After every change of the chain. Wakes nobody in vain: the application pays for each. */
void crn_cache_wake_locked(struct crn_cache *c);
/* The same, and unlocks before it wakes: who is woken wants the lock. */
void crn_cache_unlock(struct crn_cache *c);
/* Until the next change; 1 at the deadline. */
int crn_cache_wait_locked(struct crn_cache *c, int64_t deadline_ns);
/* Ends a move. A device that is lost takes its tier along. Returns what counts. The caller wakes. */
cairn_err crn_cache_done_locked(struct crn_cache *c, const struct crn_tier_transfer *t,
                                cairn_err rc);
CAIRN_CHECKED cairn_err crn_cache_start_threads(struct crn_cache *c, struct crn_errinfo *ei);
void crn_cache_stop_threads(struct crn_cache *c); /* of those that were started */
CAIRN_CHECKED cairn_err crn_cache_bounce(void **ret, struct crn_errinfo *ei);

#endif
