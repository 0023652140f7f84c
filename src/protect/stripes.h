/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the parity of a set lies. The set has n members and n stripes; stripe g has its parity rows on the
 * members g .. g+m-1 (modulo n) and its columns on the k members after them. Each member thus keeps
 * one row of m stripes, and its own data lies in k stripes: its stream is cut into k segments, segment
 * c being column c of its stripe.
 *
 * Streams of different lengths cost nothing but arithmetic: what a stream lacks counts as zeros, and a
 * parity row is as long as the longest segment of its stripe. */
#ifndef CRN_PROTECT_STRIPES_H
#define CRN_PROTECT_STRIPES_H

#include "protect/scheme.h"

struct crn_stripes {
    struct crn_protection scheme;
    uint32_t members, columns;
    uint64_t segment_bytes;       /* of the longest stream; a multiple of 64 */
    uint64_t length[CRN_SET_MAX]; /* of each member's stream */
};

/* A part of a member's stream: a column of a stripe. */
struct crn_segment {
    uint32_t member;
    uint64_t offset, bytes; /* in the stream; bytes may be 0 */
};

/* The scheme must fit. */
void crn_stripes_plan(struct crn_protection s, uint32_t members, const uint64_t *length,
                      struct crn_stripes *ret);
/* The member that keeps a parity row of a stripe, and the stripe whose row a member keeps. */
uint32_t crn_stripes_keeper(const struct crn_stripes *p, uint32_t stripe, uint32_t row);
uint32_t crn_stripes_kept(const struct crn_stripes *p, uint32_t member, uint32_t row);
void crn_stripes_segment(const struct crn_stripes *p, uint32_t stripe, uint32_t column,
                         struct crn_segment *ret);
/* Bytes of a stripe's parity row. */
uint64_t crn_stripes_row_bytes(const struct crn_stripes *p, uint32_t stripe);
/* Where a member's row begins in its parity file; row = scheme.parity gives the size of all rows. */
uint64_t crn_stripes_row_at(const struct crn_stripes *p, uint32_t member, uint32_t row);
/* The stripe of a segment of a member's stream. */
uint32_t crn_stripes_of(const struct crn_stripes *p, uint32_t member, uint32_t segment);

#endif
