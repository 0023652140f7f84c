/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the engine, for the files that make it up. */
#ifndef CRN_AGGREGATE_TASK_H
#define CRN_AGGREGATE_TASK_H

#include "aggregate/assist.h"
#include "aggregate/piece.h"

/* When a block was asked for, and when it arrived, as crn_stats_now. */
struct crn_block_times {
    int64_t asked_ns, arrived_ns;
};

/* A write of other nodes that was asked for. */
struct crn_awaited {
    size_t block; /* its number in the pool: MPI may keep the block that was asked with */
    uint32_t n;   /* parts that have not arrived */
};

/* What the engine is at: a data file. */
struct crn_task {
    struct crn_outfile out;
    struct crn_pieces pieces;
    const struct crn_plan *plan;
    /* Engine's lock. */
    int is_feeding;                   /* more may come from other nodes */
    uint64_t next_local, next_remote; /* cursors over the plan's writes */
    uint32_t outstanding;             /* blocks on their way */
    struct crn_piece *ready;          /* stack of at most as many as the pool has blocks */
    size_t nready;
    struct crn_flush_stats *stats; /* each writer has its own entry; the rest: lock */
    struct crn_block_times *times; /* per block of the pool */
    struct crn_awaited *awaited;   /* per write */
    int is_failed;
    struct crn_errinfo error;
    /* Leader with assistants (assist.c). */
    unsigned char *taken; /* per write: enum crn_taken */
    int is_second_pass;   /* what assistants have themselves was left to them in the first */
    const unsigned char *assists; /* of the fetcher */
    uint64_t last_remote;         /* nothing is left to be handed out behind this */
    uint64_t last_free;           /* nor, of what its owner does not write, behind this */
    uint32_t handed;              /* writes that assistants have not finished */
    uint32_t unsynced;            /* assistants whose writes are not durable */
    uint64_t assisted_bytes;
    /* Assistant. */
    const struct crn_assist *assist;
    int is_over;         /* the leader has nothing more */
    int is_limited;      /* it asks again only for each errand that it has finished, */
    uint32_t may_ask;    /* so often by now, */
    uint32_t unfinished; /* or when it has none */
};

enum crn_taken { CRN_TAKEN_NOT, CRN_TAKEN_FETCHED, CRN_TAKEN_HANDED, CRN_TAKEN_BACK };

struct crn_engine {
    struct crn_engine_options opt;
    struct crn_pool pool;
    struct crn_outlet outlet;
    struct crn_mutex mu;
    struct crn_cond changed;
    struct crn_task *task;         /* lock: what the writers work on, or NULL */
    uint64_t generation;           /* lock: of the task */
    struct crn_flush_stats *stats; /* lock: of the file in hand, until it is durable, or NULL */
    int busy;                      /* lock: writers that have not finished it */
    int closing;                   /* lock */
    int started;
    int numbered;   /* lock: writers that know their number */
    int lacks_room; /* of the thread that writes */
    pthread_t thread[CRN_MAX_WRITERS];
    struct crn_coder *coder[CRN_MAX_WRITERS]; /* of each thread, by its number */
    struct crn_encoding *encoding;            /* of the writes to come; owned */
    const struct crn_older *older;            /* of the next write; borrowed */
};

void crn_task_fail_locked(struct crn_engine *e, struct crn_task *t, const struct crn_errinfo *ei);
/* Runs the writers over the task. feed is called on this thread, without locks, and brings what other
 * nodes have until there is no more. */
void crn_task_run(struct crn_engine *e, struct crn_task *t,
                  void (*feed)(struct crn_engine *e, struct crn_task *t, const void *arg),
                  const void *arg);
/* Moves the cursor to the next write that is local; NULL behind the last. Engine's lock. */
const struct crn_write *crn_task_seek_local(struct crn_task *t);
/* fetch.c: that feed for a data file; arg is a struct crn_fetcher. */
void crn_task_fetch(struct crn_engine *e, struct crn_task *t, const void *arg);
/* Whether who has the write's data assists, and should write it. */
int crn_task_has_aide(const struct crn_task *t, const struct crn_write *w);
struct crn_block_times *crn_task_times(struct crn_engine *e, struct crn_task *t, const void *block);

#endif
