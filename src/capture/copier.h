/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies memory with several threads: the caller and, for large copies, a team of its own. What the
 * application waits for is this and nothing else. */
#ifndef CRN_CAPTURE_COPIER_H
#define CRN_CAPTURE_COPIER_H

#include "base/team.h"

struct crn_copy {
    void *dst;
    const void *src;
    uint64_t bytes;
    uint64_t
        *hashes;    /* get crn_hash of each chunk of the copy; NULL, as all of a list: not wanted */
    uint64_t first; /* set by the copier: its first piece, counted over the list */
};

struct crn_copier; /* opaque */

/* threads counts the caller. split_bytes: from this total on the helpers take part. sharers: how
 * many copiers of the node share the cores that are idle; 0: the helpers always take part.
 * chunk_bytes: unit of the checksums. */
CAIRN_CHECKED cairn_err crn_copier_open(int threads, uint64_t split_bytes, int sharers,
                                        uint64_t chunk_bytes, struct crn_copier **ret,
                                        struct crn_errinfo *ei);
void crn_copier_close(struct crn_copier *c); /* NULL is fine */
/* Whether checksums cost next to nothing in a copy of so many bytes in all. */
int crn_copier_hashes(const struct crn_copier *c, uint64_t bytes);
/* Returns when all is copied. */
void crn_copier_run(const struct crn_copier *c, struct crn_copy *copies, uint32_t n);

#endif
