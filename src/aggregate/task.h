/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals shared by the files of the engine. */
#ifndef CRN_AGGREGATE_TASK_H
#define CRN_AGGREGATE_TASK_H

#include "aggregate/assist.h"
#include "aggregate/pays.h"
#include "aggregate/piece.h"

/* When a block was requested and when it arrived, as crn_stats_now. */
struct crn_block_times {
    int64_t asked_ns, arrived_ns;
};

/* A requested remote write. */
struct crn_awaited {
    size_t block; /* its number in the pool: MPI may keep the block of the request */
    uint32_t n;   /* parts that have not arrived */
};

/* The data file being written. */
struct crn_task {
    struct crn_outfile out;
    struct crn_pieces pieces;
    const struct crn_plan *plan;
    /* Engine's lock. */
    int is_feeding;                   /* more data may come from other nodes */
    uint64_t next_local, next_remote; /* cursors over the plan's writes */
    uint32_t outstanding;             /* blocks in flight */
    struct crn_piece *ready;          /* ring with a place for each block of the pool */
    size_t first_ready, nready;       /* oldest, number: written in the order of arrival */
    struct crn_flush_stats *stats; /* each writer has its own entry; the lock protects the rest */
    struct crn_block_times *times; /* per block of the pool */
    struct crn_awaited *awaited;   /* per write */
    int is_failed;
    struct crn_errinfo error;
    /* Leader with assistants (assist.c). */
    unsigned char *taken;         /* per write: enum crn_taken */
    int is_second_pass;           /* the first pass left the assistants' own data to them */
    const unsigned char *assists; /* of the fetcher */
    uint64_t last_remote;         /* all later remote writes are taken */
    uint64_t last_free;           /* the same for writes whose owner does not assist */
    uint32_t handed;              /* writes that assistants have not finished */
    uint32_t unsynced;            /* assistants whose writes are not durable */
    uint64_t assisted_bytes;
    /* Assistant. Once is_limited, it asks may_ask times, and whenever it has no unfinished
     * errand. */
    const struct crn_assist *assist;
    int is_over;         /* the leader has nothing more */
    int is_limited;      /* the leader said: ask again after finishing an errand */
    uint32_t may_ask;    /* errands finished since */
    uint32_t unfinished; /* errands */
};

enum crn_taken { CRN_TAKEN_NOT, CRN_TAKEN_FETCHED, CRN_TAKEN_HANDED, CRN_TAKEN_BACK };

struct crn_engine {
    struct crn_engine_options opt;
    struct crn_pool pool;
    struct crn_outlet outlet;
    struct crn_mutex mu;
    struct crn_cond changed;
    struct crn_task *task;         /* lock: the task the writers run, or NULL */
    uint64_t generation;           /* lock: of the task */
    struct crn_flush_stats *stats; /* lock: of the current file, until it is durable, or NULL */
    int busy;                      /* lock: writers still running the task */
    int closing;                   /* lock */
    int started;
    int numbered;   /* lock: writers that have taken their number */
    int lacks_room; /* set by the thread that writes */
    pthread_t thread[CRN_MAX_WRITERS];
    struct crn_coder *coder[CRN_MAX_WRITERS]; /* per thread, by its number */
    struct crn_encoding *configured;          /* of later files; owned */
    const struct crn_encoding *encoding;      /* of the current file; NULL: it is plain */
    struct crn_pays pays;
    const struct crn_older *older; /* of the next file; borrowed */
};

void crn_task_fail_locked(struct crn_engine *e, struct crn_task *t, const struct crn_errinfo *ei)
    CRN_REQUIRES(e->mu);
/* Runs the writers over the task. feed runs on this thread, without locks, and fetches data of
 * other nodes until there is no more. */
void crn_task_run(struct crn_engine *e, struct crn_task *t,
                  void (*feed)(struct crn_engine *e, struct crn_task *t, const void *arg),
                  const void *arg);
/* Queues a piece whose block has arrived. Engine's lock. */
void crn_task_arrived(const struct crn_engine *e, struct crn_task *t, const struct crn_piece *p)
    CRN_REQUIRES(e->mu);
/* Moves the cursor to the next local write; NULL at the end. Engine's lock. */
const struct crn_write *crn_task_seek_local(struct crn_task *t);
/* engine_fetch.c: the feed for a data file; arg is a struct crn_fetcher. */
void crn_task_fetch(struct crn_engine *e, struct crn_task *t, const void *arg);
/* Does the owner of the write's data assist, so that it should write it itself? */
int crn_task_has_aide(const struct crn_task *t, const struct crn_write *w);
struct crn_block_times *crn_task_times(struct crn_engine *e, struct crn_task *t, const void *block);

#endif
