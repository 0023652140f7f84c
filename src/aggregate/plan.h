/* SPDX-License-Identifier: BSD-3-Clause */
/* The flush plan: which extents are written together, in which order. Pure: the same shards give
 * the same plan everywhere. Large regions are cut into blocks that are written in place; small
 * regions and tails share blocks. */
#ifndef CRN_AGGREGATE_PLAN_H
#define CRN_AGGREGATE_PLAN_H

#include "format/format.h"

struct crn_encoding;
struct crn_merge;

/* One aligned write: nsegments extents that are consecutive in the file, or in its streams. */
struct crn_write {
    uint64_t first; /* index into order */
    uint32_t nsegments;
    uint32_t owner; /* of all extents; with parts: that of a remote one */
    uint64_t bytes;
    /* Plans with streams. */
    uint32_t nparts;     /* runs of extents with one owner; 0: a single owner */
    uint64_t first_part; /* index into parts */
    uint32_t nstreams;
    uint32_t first_stream; /* index into streams */
    int is_part;           /* this is the first member of a struct crn_write_part */
    int has_older;         /* one of its streams has */
};

/* Consecutive extents of one owner, in a write that has several owners. */
struct crn_write_part {
    struct crn_write w; /* owner, extents, bytes */
    uint64_t whole;     /* index into writes */
    uint64_t at;        /* offset of its bytes in the write */
};

/* Extents of a write that are encoded together: of one variable, or several small ones. */
struct crn_plan_stream {
    uint64_t first; /* index into order */
    uint32_t nsegments;
    uint32_t merged; /* stream of the merging plan */
    cairn_type type;
    int lossy;      /* entry of the encoding's list; -1: lossless */
    uint64_t start; /* in the concatenation of all streams */
    uint64_t bytes;
    int has_older; /* may be encoded against the previous version: older.h */
};

struct crn_plan {
    struct crn_extent *extents; /* owned; sorted by shard, region, offset; file_offset unset */
    uint64_t nextents;
    uint64_t *order;          /* owned; nextents entries: the extents in write order */
    struct crn_write *writes; /* owned */
    uint64_t nwrites;
    uint64_t nhashes;
    uint64_t bytes;
    /* For encoded data; owned, NULL otherwise. */
    struct crn_plan_stream *streams;
    uint32_t nstreams;
    struct crn_write_part *parts;
    uint64_t nparts;
    struct crn_shard *shards; /* their regions are borrowed */
    struct crn_merge *merge;
};

/* Extents below pack_bytes are packed with others of the same owner (NULL: all have one);
 * chunk_bytes is the unit of checksums. */
CAIRN_CHECKED cairn_err crn_plan_build(const struct crn_shard *const *shards, const uint32_t *owner,
                                       uint32_t nshards, uint64_t block_bytes, uint64_t pack_bytes,
                                       uint64_t chunk_bytes, struct crn_plan *ret,
                                       struct crn_errinfo *ei);
/* The plan for encoded data: one variable of all ranks after another, in writes of at most
 * write_bytes (a multiple of 16) that may have several owners. The shards must outlive it. */
CAIRN_CHECKED cairn_err crn_plan_merged(const struct crn_shard *const *shards,
                                        const uint32_t *owner, uint32_t nshards,
                                        const struct crn_encoding *encoding, uint64_t write_bytes,
                                        uint64_t chunk_bytes, struct crn_plan *ret,
                                        struct crn_errinfo *ei);
void crn_plan_free(struct crn_plan *p);

#endif
