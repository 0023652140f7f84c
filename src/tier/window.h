/* SPDX-License-Identifier: BSD-3-Clause */
/* Which neighbouring fragments to evict so that an object of a given size fits. A window of
 * consecutive fragments, gaps included, slides over an arena, and the best one wins. O(n) in
 * fragments. Pure.
 *
 * The score of a window, in this order:
 *   p  how long until all of it may be evicted: the longest wait of its fragments (a wait includes
 *      the queue before it, so the last flush to end is the whole wait);
 *   s  how soon the evicted bytes would be read again: the sum of nearness x pages, less is better.
 *      (The paper maximises the sum of prefetch distances. Nearness is the inverse of distance; it
 *      does not reward a window for evicting more.)
 *   then the window whose youngest fragment is oldest, then the fewest bytes evicted. */
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

/* Returns 1, or 0 if no window without a pinned fragment is large enough. Uses the scratch of the
 * space. */
int crn_window_find(const struct crn_space *s, enum crn_evict policy, uint64_t bytes,
                    struct crn_window *ret);
/* Negative if a is better than b under the policy, 0 if they are equal. */
int crn_window_compare(enum crn_evict policy, const struct crn_window *a,
                       const struct crn_window *b);

#endif
