/* SPDX-License-Identifier: BSD-3-Clause */
/* A leader and its assistants, each with an engine, without a network. */
#ifndef CRN_AGGREGATE_TEST_ASSIST_H
#define CRN_AGGREGATE_TEST_ASSIST_H

#include <stdatomic.h>

#include "aggregate/assist.h"
#include "aggregate/task.h"
#include "aggregate/test_shards.h"

enum {
    NODES = 4,
    SHARDS = 8,
    REGIONS = 3,
    BLOCK = 32 * 1024,
    CHUNK = 5000,
    BLOCKS = 2,
    AIDE_BLOCKS = 5
};

struct assist_world;

/* A node that assists. */
struct aide {
    struct assist_world *w;
    uint32_t owner; /* 0: from another group, it has none of the data */
    struct crn_assistant of_leader;
    struct crn_engine *engine;
    pthread_t thread;
    const struct crn_fs *fs;
    uint64_t bytes, own, foreign; /* written from own and from received data */
    cairn_err rc;
};

struct assist_world {
    char dir[256];
    struct test_shard shard[SHARDS];
    struct crn_source everywhere[SHARDS]; /* as their owners see them */
    struct crn_source sources[SHARDS];    /* as the leader sees them */
    struct crn_index head;
    struct crn_engine *engine;
    unsigned char assists[NODES + 1];
    struct aide aide[3];
    int naides;
    char file[CRN_FILE_NAME];
    uint64_t told; /* bytes reported by the assistants' statistics */
    uint64_t generation;
    /* A leader whose fetches wait until the assistants are idle. */
    int is_slow;
    const struct crn_write *held[BLOCKS];
    void *block[BLOCKS];
    const struct crn_extent *extents;
    const uint64_t *order;
    int nheld;
    uint32_t nfree;
    pthread_t overtaker;
};

/* Shards of very different sizes, two for each node; node 0 leads. */
void assist_set_up(struct assist_world *w);

void assist_tear_down(struct assist_world *w);

struct crn_engine *assist_open_engine(uint64_t blocks, int writers);

/* Assistants. ---------------------------------------------------------------------------------- */

void ask(void *arg, void *block);

cairn_err written(void *arg, const struct crn_errand *x, struct crn_errinfo *ei);

void *assist(void *arg);

/* Leader. -------------------------------------------------------------------------------------- */

void opened(void *arg, const char *file, uint64_t generation);

void deliver(struct assist_world *w, const struct crn_write *wr, const struct crn_extent *extents,
             const uint64_t *order, unsigned char *block);

/* The leader leaves the assistants' own data to them while it has local data. */
void assert_nothing_else_to_do(struct crn_engine *e);

/* A slow leader: its pool is exhausted before its assistants come, and nothing arrives until
 * they have written all the rest. */
void fetch(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
           const uint64_t *order, int is_older, void *block);

void aide_open(struct assist_world *w, uint32_t owner);

cairn_err write_together(struct assist_world *w, const struct crn_store *st,
                         struct crn_manifest_file *mf, struct crn_flush_stats *stats,
                         struct crn_errinfo *ei);

void compare(const struct assist_world *w, const struct crn_store *st, const char *file);

void open_store(const struct assist_world *w, struct crn_store *st);

void close_engines(struct assist_world *w);

#endif
