/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of one contiguous arena: sorted fragments that cover it completely. A fragment has an
 * owner or is a gap; two gaps never touch. Pure: it moves no bytes and takes no lock. */
#ifndef CRN_TIER_SPACE_H
#define CRN_TIER_SPACE_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define CRN_SPACE_MAX (UINT64_C(1) << 60) /* capacity of a tier that has no bound */

struct crn_fragment {
    uint64_t offset;
    uint64_t bytes;
    void *owner; /* NULL: a gap */
    /* Inputs of crn_window_find; the caller, which knows the owners, sets them before a search. */
    uint64_t wait_ns; /* time until it may be evicted; CRN_PINNED: unknown or never */
    uint64_t near;    /* 0: no read is expected; larger: sooner. At most CRN_NEAR_MAX */
    uint64_t age;     /* time of its last use or arrival; larger: later */
};

struct crn_space {
    struct crn_fragment *f; /* owned; n of cap */
    size_t *scratch;        /* owned; 2 * cap, for searches */
    size_t n, cap;
    uint64_t capacity;
    uint64_t low;  /* no gap begins before it */
    uint64_t used; /* bytes of owners */
};

CAIRN_CHECKED cairn_err crn_space_init(struct crn_space *s, uint64_t capacity,
                                       struct crn_errinfo *ei);
void crn_space_fini(struct crn_space *s);
/* Makes sure that the next crn_space_put cannot run out of memory; drops in between do not
 * matter. */
CAIRN_CHECKED cairn_err crn_space_reserve(struct crn_space *s, struct crn_errinfo *ei);
/* Assigns a range to an owner; the whole range must lie in a gap. */
void crn_space_put(struct crn_space *s, uint64_t offset, uint64_t bytes, void *owner);
/* Turns the fragment that starts at offset into a gap and merges it with neighbouring gaps. */
void crn_space_drop(struct crn_space *s, uint64_t offset);
/* The fragment that contains the offset. */
size_t crn_space_at(const struct crn_space *s, uint64_t offset);
/* The first gap of at least this size; n if there is none. */
size_t crn_space_gap(const struct crn_space *s, uint64_t bytes);
/* The largest gap, for measures of fragmentation. */
uint64_t crn_space_largest_gap(const struct crn_space *s);

#endif
