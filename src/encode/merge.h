/* SPDX-License-Identifier: BSD-3-Clause */
/* The merging schemes of paper 2, section III.B: in which order the bytes of many checkpoints go
 * into one or more streams. Pure: a plan has offsets, not bytes. A writer walks it to gather the
 * streams; a reader walks it to scatter every byte back to its place. */
#ifndef CRN_MERGE_H
#define CRN_MERGE_H

#include "encode/codec.h"
#include "encode/similar.h"

enum crn_scheme {
    CRN_AGNOSTIC,       /* one checkpoint after the other */
    CRN_AGNOSTIC_BLOCK, /* a block of each in turn */
    CRN_AWARE,          /* for each variable, that of one rank after the other */
    CRN_AWARE_BLOCK     /* for each variable, a block of each rank in turn */
};
#define CRN_SCHEMES 4
const char *crn_merge_scheme_name(enum crn_scheme scheme); /* "aware-block" */

struct crn_merge_options {
    enum crn_scheme scheme;
    uint64_t block_bytes;              /* of the two block schemes; a multiple of 16. 0: 4 KiB */
    uint64_t min_bytes;                /* smaller variables skip the first pass. 0: 100 */
    const struct crn_similar *similar; /* NULL: names must be equal */
    /* Aware schemes: streams with fewer bytes are joined, first those whose names differ only in
     * digits, then those of one type. 0: never, as in the paper */
    uint64_t group_bytes;
};

/* Bytes [offset, offset + bytes) of a region. */
struct crn_merge_piece {
    uint32_t shard; /* index into the shards of the plan */
    uint32_t region;
    uint64_t offset;
    uint64_t bytes;
};

struct crn_merge_stream {
    const char *key; /* "" for the agnostic schemes and for small variables; the plan's */
    cairn_type type; /* of all its elements; CAIRN_BYTES for the same */
    int is_small;    /* variables below min_bytes, for the second pass only */
    uint64_t bytes;
    uint32_t strands; /* ranks or variables taken in turn */
};

struct crn_merge;

/* Every byte of every region is in exactly one stream. The shards must outlive the plan and must
 * not change. */
CAIRN_CHECKED cairn_err crn_merge_plan(const struct crn_shard *shards, uint32_t nshards,
                                       const struct crn_merge_options *options,
                                       struct crn_merge **ret, struct crn_errinfo *ei);
void crn_merge_free(struct crn_merge *m); /* NULL is allowed */
uint32_t crn_merge_streams(const struct crn_merge *m);
const struct crn_merge_stream *crn_merge_stream(const struct crn_merge *m, uint32_t stream);

/* A position in a stream. Plain data: copy it to return to it. */
struct crn_merge_cursor {
    const struct crn_merge *m;
    uint32_t stream;
    uint32_t strand;
    uint64_t round;
    uint64_t done; /* bytes of the strand's block already returned */
};

void crn_merge_start(const struct crn_merge *m, uint32_t stream, struct crn_merge_cursor *ret);
/* The next range, of at most `most` bytes (a whole number of elements): 1, or 0 at the end. */
int crn_merge_next(struct crn_merge_cursor *c, uint64_t most, struct crn_merge_piece *ret);

/* The layout of the range's elements in their array, for predictors. */
struct crn_run crn_merge_run(const struct crn_merge *m, const struct crn_merge_piece *p);

#endif
