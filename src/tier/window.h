/* SPDX-License-Identifier: BSD-3-Clause */
/* Which neighbours have to go so that something of a given size fits: a window of consecutive
 * fragments, gaps included, slides over an arena and the best one is kept. O(n) in fragments. Pure.
 *
 * The score of a window, in this order:
 *   p  how long until all of it may be evicted: the longest wait of its fragments (a wait contains
 *      the queue before it, so the last one to be flushed is the whole wait);
 *   s  how soon the evicted bytes would be read again: nearness x pages, summed, less is better.
 *      (The paper maximises the sum of prefetch distances. Nearness is the same turned round; it
 *      does not reward a window for evicting more.)
 *   then the one whose youngest fragment is oldest, then the fewest bytes evicted. */
#ifndef CRN_TIER_WINDOW_H
#define CRN_TIER_WINDOW_H

#include "tier/space.h"

#define CRN_PINNED    UINT64_MAX
#define CRN_NEAR_MAX  (UINT64_C(1) << 24)
#define CRN_NEAR_PAGE 4096 /* unit of the bytes in s */

enum crn_evict {
    CRN_EVICT_SCORE = 0, /* p, s, age */
    CRN_EVICT_LRU,       /* age: last use */
    CRN_EVICT_FIFO,      /* age: arrival */
    CRN_EVICT_POLICIES,
};
const char *crn_evict_name(enum crn_evict policy);
/* By name; CRN_EVICT_POLICIES for an unknown one. */
enum crn_evict crn_evict_parse(const char *name);

struct crn_window {
    size_t first, count; /* fragments */
    uint64_t offset;     /* of the first */
    uint64_t bytes;      /* of all */
    uint64_t wait_ns;    /* p */
    uint64_t near;       /* s */
    uint64_t age;        /* of the youngest owner; 0: gaps only */
    uint64_t evicted;    /* bytes of owners */
};

/* 1, or 0 if no window without a pinned fragment is large enough. The space's scratch is used. */
int crn_window_find(const struct crn_space *s, enum crn_evict policy, uint64_t bytes,
                    struct crn_window *ret);
/* Negative if a is better than b under the policy, 0 if they are equal to it. */
int crn_window_compare(enum crn_evict policy, const struct crn_window *a,
                       const struct crn_window *b);

#endif
