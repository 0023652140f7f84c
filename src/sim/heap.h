/* SPDX-License-Identifier: BSD-3-Clause */
/* A heap of (key, item) with items 0 .. capacity-1, each present at most once. Ties go to the
 * lower item, so a simulation is reproducible everywhere. */
#ifndef CRN_HEAP_H
#define CRN_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define CRN_HEAP_OUT UINT32_MAX

struct crn_heap {
    double *key;     /* by item */
    uint32_t *where; /* by item: index in at, or CRN_HEAP_OUT */
    uint32_t *at;    /* the heap: items */
    uint32_t n;
};

int crn_heap_init(struct crn_heap *h, uint32_t capacity); /* 0, or -1: out of memory */
void crn_heap_fini(struct crn_heap *h);
void crn_heap_set(struct crn_heap *h, uint32_t item, double key); /* inserts or moves it */
void crn_heap_remove(struct crn_heap *h, uint32_t item);          /* no effect if absent */

static inline uint32_t crn_heap_top(const struct crn_heap *h) /* CRN_HEAP_OUT: empty */
{
    return h->n > 0 ? h->at[0] : CRN_HEAP_OUT;
}

#endif
