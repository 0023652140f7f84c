/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the engine, for the files that make it up. */
#ifndef CRN_AGGREGATE_TASK_H
#define CRN_AGGREGATE_TASK_H

#include "aggregate/engine.h"
#include "aggregate/piece.h"

/* What the engine is at: a data file. */
struct crn_task {
    struct crn_outfile out;
    struct crn_pieces pieces;
    const struct crn_plan *plan;
    /* Engine's lock. */
    uint64_t next_local, next_remote; /* cursors over the plan's writes */
    uint32_t outstanding;             /* blocks on their way */
    struct crn_piece *ready;          /* stack of at most as many as the pool has blocks */
    size_t nready;
    uint64_t remote_bytes;
    int is_failed;
    struct crn_errinfo error;
};

struct crn_engine {
    struct crn_engine_options opt;
    struct crn_pool pool;
    struct crn_mutex mu;
    struct crn_cond changed;
    struct crn_task *task; /* lock: what the writers work on, or NULL */
    uint64_t generation;   /* lock: of the task */
    int busy;              /* lock: writers that have not finished it */
    int closing;           /* lock */
    int started;
    pthread_t thread[64];
};

#endif
