/* SPDX-License-Identifier: BSD-3-Clause */
/* Who lies where in one contiguous arena: fragments, sorted, without holes. A fragment is an owner's
 * or a gap; two gaps never touch. Pure: it moves no bytes and takes no lock. */
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
    /* What crn_window_find looks at; set before a search by who knows the owners. */
    uint64_t wait_ns; /* until it may be evicted; CRN_PINNED: nobody knows, or it may not at all */
    uint64_t near;    /* 0: no read is expected; larger: sooner. At most CRN_NEAR_MAX */
    uint64_t age;     /* when it was used last, or came; larger: later */
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
/* Makes sure that the next crn_space_put cannot run out of memory; drops in between do no harm. */
CAIRN_CHECKED cairn_err crn_space_reserve(struct crn_space *s, struct crn_errinfo *ei);
/* Gives an owner bytes at an offset that lies in a gap, with the rest of the range too. */
void crn_space_put(struct crn_space *s, uint64_t offset, uint64_t bytes, void *owner);
/* Makes the fragment that begins at offset a gap and joins it with its neighbours. */
void crn_space_drop(struct crn_space *s, uint64_t offset);
/* The fragment that contains the offset. */
size_t crn_space_at(const struct crn_space *s, uint64_t offset);
/* The first gap of so many bytes or more; n: there is none. */
size_t crn_space_gap(const struct crn_space *s, uint64_t bytes);
/* The largest gap, for measures of fragmentation. */
uint64_t crn_space_largest_gap(const struct crn_space *s);

#endif
