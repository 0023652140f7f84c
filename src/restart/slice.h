/* SPDX-License-Identifier: BSD-3-Clause */
/* A slice: a part of a stored region and where it goes. Runs of equal length, at regular places on both sides,
 * in the order in which they are stored. Pure. */
#ifndef CRN_RESTART_SLICE_H
#define CRN_RESTART_SLICE_H

#include <stdint.h>
#include "cairn/cairn.h"

struct crn_slice {
    uint32_t rank;                  /* whose shard */
    uint32_t region;                /* which of its regions */
    uint64_t from;                  /* the first run: in the stored region ... */
    uint64_t to;                    /* ... and in the memory of who wants it */
    uint64_t run;                   /* bytes of each run; 0: nothing is wanted */
    uint32_t ndims;                 /* 0: one run */
    uint64_t count[CAIRN_MAX_DIMS]; /* outermost first; none is 0 */
    uint64_t from_step[CAIRN_MAX_DIMS];
    uint64_t to_step[CAIRN_MAX_DIMS];
};

uint64_t crn_slice_bytes(const struct crn_slice *p);
/* Behind the last run, in the stored region. */
uint64_t crn_slice_end(const struct crn_slice *p);

/* The runs that meet [begin, end) of the stored region, clipped to it. */
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

/* How many bytes of the part lie in [begin, end). */
uint64_t crn_slice_count(const struct crn_slice *p, uint64_t begin, uint64_t end);
/* The runs in [begin, end) to their places. data holds begin and what follows. */
void crn_slice_copy(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    unsigned char *memory);
/* The same through a buffer that has them one behind the other. */
void crn_slice_pack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    void *packed);
void crn_slice_unpack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *packed,
                      unsigned char *memory);

#endif
