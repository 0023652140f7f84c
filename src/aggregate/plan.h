/* SPDX-License-Identifier: BSD-3-Clause */
/* The flush plan: which extents are written together, in which order. Pure: the same shards give the
 * same plan everywhere. Large regions are cut into blocks that are written straight from where they
 * lie; small regions and tails share blocks. */
#ifndef CRN_AGGREGATE_PLAN_H
#define CRN_AGGREGATE_PLAN_H

#include "format/format.h"

/* One aligned write: nsegments extents that lie behind one another in the file. */
struct crn_write {
    uint64_t first; /* index into order */
    uint32_t nsegments;
    uint32_t owner; /* all its extents are this node's */
    uint64_t bytes;
};

struct crn_plan {
    struct crn_extent *extents; /* owned; sorted by shard, region, offset; file_offset unset */
    uint64_t nextents;
    uint64_t *order;          /* owned; nextents entries: extents in the order of the writes */
    struct crn_write *writes; /* owned */
    uint64_t nwrites;
    uint64_t nhashes;
    uint64_t bytes;
};

/* Pieces below pack_bytes are packed with others of the same owner (NULL: all have one);
 * chunk_bytes is the unit of checksums. */
CAIRN_CHECKED cairn_err crn_plan_build(const struct crn_shard *const *shards, const uint32_t *owner,
                                       uint32_t nshards, uint64_t block_bytes, uint64_t pack_bytes,
                                       uint64_t chunk_bytes, struct crn_plan *ret,
                                       struct crn_errinfo *ei);
void crn_plan_free(struct crn_plan *p);

#endif
