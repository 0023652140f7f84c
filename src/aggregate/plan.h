/* SPDX-License-Identifier: BSD-3-Clause */
/* The flush plan: which extents are written together, in which order. Pure: the same shards give the
 * same plan everywhere. Large regions are cut into blocks that are written straight from where they
 * lie; small regions and tails share blocks. */
#ifndef CRN_AGGREGATE_PLAN_H
#define CRN_AGGREGATE_PLAN_H

#include "format/format.h"

struct crn_encoding;
struct crn_merge;

/* One aligned write: nsegments extents that lie behind one another in the file, or in its streams. */
struct crn_write {
    uint64_t first; /* index into order */
    uint32_t nsegments;
    uint32_t owner; /* all its extents are this node's; with parts: that of one which is not 0 */
    uint64_t bytes;
    /* Plans with streams. */
    uint32_t nparts;     /* owners in turn whose extents it has; 0: one */
    uint64_t first_part; /* index into parts */
    uint32_t nstreams;
    uint32_t first_stream; /* index into streams */
    int is_part;           /* the first member of a struct crn_write_part */
    int has_older;         /* one of its streams has */
};

/* Extents of one owner in a write that has several. */
struct crn_write_part {
    struct crn_write w; /* owner, extents, bytes */
    uint64_t whole;     /* index into writes */
    uint64_t at;        /* of its bytes in the write's */
};

/* Extents of a write that are encoded together: of one variable, or small ones. */
struct crn_plan_stream {
    uint64_t first; /* index into order */
    uint32_t nsegments;
    uint32_t merged; /* stream of the merging plan */
    cairn_type type;
    int lossy;      /* entry of the encoding's list; -1: every bit is kept */
    uint64_t start; /* in the space of all streams */
    uint64_t bytes;
    int has_older; /* may be encoded against the version before: older.h */
};

struct crn_plan {
    struct crn_extent *extents; /* owned; sorted by shard, region, offset; file_offset unset */
    uint64_t nextents;
    uint64_t *order;          /* owned; nextents entries: extents in the order of the writes */
    struct crn_write *writes; /* owned */
    uint64_t nwrites;
    uint64_t nhashes;
    uint64_t bytes;
    /* Of data that is encoded; owned, NULL otherwise. */
    struct crn_plan_stream *streams;
    uint32_t nstreams;
    struct crn_write_part *parts;
    uint64_t nparts;
    struct crn_shard *shards; /* their regions are borrowed */
    struct crn_merge *merge;
};

/* Pieces below pack_bytes are packed with others of the same owner (NULL: all have one);
 * chunk_bytes is the unit of checksums. */
CAIRN_CHECKED cairn_err crn_plan_build(const struct crn_shard *const *shards, const uint32_t *owner,
                                       uint32_t nshards, uint64_t block_bytes, uint64_t pack_bytes,
                                       uint64_t chunk_bytes, struct crn_plan *ret,
                                       struct crn_errinfo *ei);
/* The plan for data that is encoded: one variable of all ranks after another, in writes of at most
 * write_bytes (a multiple of 16), whoever has its bytes. The shards must outlive it. */
CAIRN_CHECKED cairn_err crn_plan_merged(const struct crn_shard *const *shards,
                                        const uint32_t *owner, uint32_t nshards,
                                        const struct crn_encoding *encoding, uint64_t write_bytes,
                                        uint64_t chunk_bytes, struct crn_plan *ret,
                                        struct crn_errinfo *ei);
void crn_plan_free(struct crn_plan *p);

#endif
