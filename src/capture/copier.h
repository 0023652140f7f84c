/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies memory on several threads: the caller and, for large copies, a team of helpers. Only this
 * copy blocks the application during a capture. */
#ifndef CRN_CAPTURE_COPIER_H
#define CRN_CAPTURE_COPIER_H

#include "base/team.h"

struct crn_copy {
    void *dst;
    const void *src;
    uint64_t bytes;
    /* Receives crn_hash of each chunk of the copy. NULL in all copies of a list: no checksums. */
    uint64_t *hashes;
    uint64_t first; /* set by the copier: number of its first piece within the list */
};

struct crn_copier; /* opaque */

/* threads includes the caller. Helpers take part if the list has at least split_bytes. sharers is
 * the number of copiers of the node that share its idle cores; 0: helpers always take part.
 * chunk_bytes is the unit of the checksums. */
CAIRN_CHECKED cairn_err crn_copier_open(int threads, uint64_t split_bytes, int sharers,
                                        uint64_t chunk_bytes, struct crn_copier **ret,
                                        struct crn_errinfo *ei);
void crn_copier_close(struct crn_copier *c); /* c may be NULL */
/* True if checksums cost next to nothing in a copy of this many bytes in total. */
int crn_copier_hashes(const struct crn_copier *c, uint64_t bytes);
/* Returns when everything is copied. */
void crn_copier_run(const struct crn_copier *c, struct crn_copy *copies, uint32_t n);

#endif
