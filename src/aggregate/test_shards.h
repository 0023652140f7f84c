/* SPDX-License-Identifier: BSD-3-Clause */
/* Shards of noise for the tests of the engine, and a byte-by-byte comparison of the written file
 * through the index. */
#ifndef CRN_AGGREGATE_TEST_SHARDS_H
#define CRN_AGGREGATE_TEST_SHARDS_H

#include <fcntl.h>
#include <unistd.h>

#include "aggregate/source.h"
#include "base/rng.h"
#include "base/test.h"
#include "store/data.h"
#include "store/store.h"

enum { TEST_REGIONS = 4 };

struct test_shard {
    struct crn_region regions[TEST_REGIONS]; /* the test sets dims[0] and type */
    uint32_t n;
    uint64_t at[TEST_REGIONS];
    uint64_t bytes; /* including the gaps */
    unsigned char *image;
};

/* Names n regions and lays them out one after another, each at a multiple of align. */
void test_shard_lay_out(struct test_shard *s, uint32_t n, uint64_t align);

void test_shard_fill(struct test_shard *s, struct crn_rng *rng);

/* A source with the whole shard in memory. */
struct crn_source test_shard_source(struct test_shard *s, uint32_t rank);

const unsigned char *test_bytes(const struct test_shard *shards, const struct crn_extent *x);

/* The bytes of a write's segments, as their owner sends them. */
void test_gather(const struct test_shard *shards, const struct crn_write *w,
                 const struct crn_extent *extents, const uint64_t *order, unsigned char *block);

/* The data file at path, described by x, has all bytes of the shards and their checksums. */
void test_compare(const struct test_shard *shards, uint32_t n, const struct crn_index *x,
                  const char *path);

/* The directory of a version is empty or missing. */
void test_nothing_left(const struct crn_store *st, const char *name, int64_t version);

#endif
