/* SPDX-License-Identifier: BSD-3-Clause */
/* A slice: which bytes of a stored region are wanted, and where they go. It consists of runs of
 * equal length at regular strides on both sides, in storage order. Pure. */
#ifndef CRN_RESTART_SLICE_H
#define CRN_RESTART_SLICE_H

#include <stdint.h>
#include "cairn/cairn.h"

struct crn_slice {
    uint32_t rank;                  /* whose shard */
    uint32_t region;                /* which of its regions */
    uint64_t from;                  /* the first run: in the stored region ... */
    uint64_t to;                    /* ... and in the memory of the rank that wants it */
    uint64_t run;                   /* bytes of each run; 0: nothing is wanted */
    uint32_t ndims;                 /* 0: one run */
    uint64_t count[CAIRN_MAX_DIMS]; /* outermost first; none is 0 */
    uint64_t from_step[CAIRN_MAX_DIMS];
    uint64_t to_step[CAIRN_MAX_DIMS];
};

uint64_t crn_slice_bytes(const struct crn_slice *p);
/* The end of the last run, in the stored region. */
uint64_t crn_slice_end(const struct crn_slice *p);

/* The runs that intersect [begin, end) of the stored region, clipped to it. */
struct crn_slice_run {
    uint64_t from;
    uint64_t to;
    uint64_t bytes;
};
struct crn_slice_at {
    const struct crn_slice *p;
    uint64_t begin, end;
    uint64_t pos[CAIRN_MAX_DIMS];
    uint64_t from, to; /* of the run at pos */
    int is_over;
};
struct crn_slice_at crn_slice_seek(const struct crn_slice *p, uint64_t begin, uint64_t end);
int crn_slice_next(struct crn_slice_at *at, struct crn_slice_run *ret); /* 0: there are no more */

/* How many bytes of the slice lie in [begin, end). */
uint64_t crn_slice_count(const struct crn_slice *p, uint64_t begin, uint64_t end);
/* Copies the runs in [begin, end) to their destinations. data starts with the byte at begin. */
void crn_slice_copy(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    unsigned char *memory);
/* The same in two steps, through a buffer in which the runs are adjacent. */
void crn_slice_pack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    void *packed);
void crn_slice_unpack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *packed,
                      unsigned char *memory);

#endif
