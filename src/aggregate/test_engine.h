/* SPDX-License-Identifier: BSD-3-Clause */
/* A fixture for the engine: shards in memory, in a spilled image and in a file, a store, and
 * encoding settings. The data exceeds the pool of the engine. */
#ifndef CRN_AGGREGATE_TEST_ENGINE_H
#define CRN_AGGREGATE_TEST_ENGINE_H

#include <math.h>

#include "aggregate/engine.h"
#include "aggregate/test_shards.h"
#include "encode/parts.h"

enum { SHARDS = 5, REGIONS = 4, BLOCK = 64 * 1024, UNIT = 5000 };

struct engine_fixture {
    char dir[256];
    struct crn_config cfg;
    int is_encoded;
    struct test_shard shard[SHARDS];
    int region_fd[REGIONS]; /* of the shard with a file region */
    struct crn_source sources[SHARDS];
    uint64_t sums[SHARDS][3 * (3 * BLOCK + 777) / UNIT + 1];
    const uint64_t *hashes[SHARDS][REGIONS];
    struct crn_parts parts; /* of the same shard */
    struct crn_index head;
    struct crn_store st;
};

static const uint64_t sizes[REGIONS] = {0, 100, 3 * BLOCK + 777, 40000};

/* Shard s: 0 to 2 in memory, with checksums, 3 spilled; the last region of shard 4 is a file.
 * settings: keys and values, then NULL. */
void engine_set_up(struct engine_fixture *f, const char *const *settings);

void engine_tear_down(struct engine_fixture *f);

/* may_join: may writers other than the first take part? NULL: yes. */
struct crn_engine *engine_open(const struct engine_fixture *f, int (*may_join)(void));

cairn_err write_all(struct engine_fixture *f, struct crn_engine *e,
                    const struct crn_fetcher *fetcher, struct crn_manifest_file *mf,
                    struct crn_flush_stats *stats, struct crn_errinfo *ei);

void path_of(const struct engine_fixture *f, const char *file, char *path, size_t size);

#endif
