/* SPDX-License-Identifier: BSD-3-Clause */
/* The previous version, for data that is encoded against it: its images in the memory of the
 * nodes, and the index of its data file. */
#ifndef CRN_AGGREGATE_OLDER_H
#define CRN_AGGREGATE_OLDER_H

#include "aggregate/plan.h"
#include "aggregate/source.h"

struct crn_encoding;

/* Owned by the caller, immutable while a file is written. */
struct crn_older {
    /* for each new source the older one of the same rank and owner; of remote ones only the owner
     * is used */
    const struct crn_source *sources;
    const struct crn_index *index; /* of its data file */
    struct crn_base *bases;        /* that file, then its own chain */
    uint32_t nbases;
};

/* Do two shards have the same regions with the same shapes? */
int crn_older_is_like(const struct crn_shard *a, const struct crn_shard *b);
/* Marks the streams and writes of a plan that may be encoded against the older file: those which
 * it has at the same place, cut into the same chunks. Marks none if the shards or their order
 * differ. */
void crn_older_mark(const struct crn_older *o, const struct crn_source *sources, uint32_t nsources,
                    const struct crn_encoding *encoding, struct crn_plan *plan);
/* Does a chunk of the file need an older version? */
int crn_older_is_needed(const struct crn_index *x);

#endif
