/* SPDX-License-Identifier: BSD-3-Clause */
/* The version before, for data that is encoded against it: as it lies in the memory of the nodes, and what
 * its data file says of itself. */
#ifndef CRN_AGGREGATE_OLDER_H
#define CRN_AGGREGATE_OLDER_H

#include "aggregate/plan.h"
#include "aggregate/source.h"

struct crn_encoding;

/* Owned by the caller, constant while a file is written. */
struct crn_older {
    const struct crn_source
        *sources;                  /* for each new one that of the same rank and owner; of those of
                                         other nodes nothing but the owner is used */
    const struct crn_index *index; /* of its data file */
    struct crn_base *bases;        /* that file, then its own chain */
    uint32_t nbases;
};

/* Whether two shards hold the same regions in the same shapes. */
int crn_shard_is_like(const struct crn_shard *a, const struct crn_shard *b);
/* Marks the streams and writes of a plan that may be encoded against it: those which the older file has
 * at the same place, cut into the same chunks. None if its shards or its order are others. */
void crn_older_mark(const struct crn_older *o, const struct crn_source *sources, uint32_t nsources,
                    const struct crn_encoding *encoding, struct crn_plan *plan);
/* Whether a chunk of the file needs it. */
int crn_older_is_needed(const struct crn_index *x);

#endif
