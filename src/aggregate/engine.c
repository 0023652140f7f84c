/* SPDX-License-Identifier: BSD-3-Clause */
/* The writers. Each takes a block that has arrived from another node, else the next local write; piece.c
 * brings it into the file. They share nothing but the task's cursors and the first error, under the
 * engine's lock.
 *
 * The thread of crn_engine_write asks for remote writes as long as the pool has blocks: what is on its
 * way never exceeds the pool. Writers never wait for a block of the pool while one that has arrived
 * waits for a writer: they take a free one, or what has arrived, or sleep until either is there. */
#include "aggregate/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "aggregate/task.h"
#include "base/clock.h"

#define PACK_LIMIT ((uint64_t)256 * 1024) /* smaller pieces share blocks */

/* What to do next. --------------------------------------------------------------------------------- */

/* Moves the cursor to the next write that is local; NULL behind the last. */
static const struct crn_write *seek_local(const struct crn_plan *plan, uint64_t *cursor)
{
    while (*cursor < plan->nwrites && plan->writes[*cursor].owner != 0)
        (*cursor)++;
    return *cursor < plan->nwrites ? &plan->writes[*cursor] : NULL;
}

/* Takes the next write of another node; NULL behind the last. What assistants can write from where it
 * lies comes last. */
static const struct crn_write *take_remote_locked(struct crn_task *t, const unsigned char *assists)
{
    const struct crn_plan *plan = t->plan;

    for (;;) {
        for (; t->next_remote < plan->nwrites; t->next_remote++) {
            const struct crn_write *w = &plan->writes[t->next_remote];

            if (w->owner == 0 || t->taken[t->next_remote] != CRN_TAKEN_NOT ||
                (!t->is_second_pass && assists != NULL && assists[w->owner]))
                continue;
            t->taken[t->next_remote++] = CRN_TAKEN_FETCHED;
            return w;
        }
        if (t->is_second_pass)
            return NULL;
        t->is_second_pass = 1;
        t->next_remote = 0;
    }
}

/* What a writer does next: 1, or 0 if there is nothing now. */
static int take_locked(struct crn_engine *e, struct crn_task *t, struct crn_piece *ret)
{
    struct crn_piece p = {0};

    if (t->nready > 0) {
        *ret = t->ready[--t->nready];
        return 1;
    }
    p.w = seek_local(t->plan, &t->next_local);
    if (p.w == NULL)
        return 0;
    if (!crn_piece_in_place(&t->pieces, p.w) && (p.block = crn_pool_try_get(&e->pool)) == NULL)
        return 0;
    t->next_local++;
    *ret = p;
    return 1;
}

static int is_done_locked(struct crn_task *t)
{
    return !t->is_feeding && t->nready == 0 && t->outstanding == 0 && t->handed == 0 &&
           seek_local(t->plan, &t->next_local) == NULL;
}

void crn_task_fail_locked(struct crn_engine *e, struct crn_task *t, const struct crn_errinfo *ei)
{
    t->is_failed = 1;
    crn_err_keep(&t->error, ei);
    crn_cond_broadcast(&e->changed);
}

/* Works until nothing is left or something failed. The engine's lock is held, and given up inside. */
static void run_task_locked(struct crn_engine *e, struct crn_task *t)
{
    while (!t->is_failed && !is_done_locked(t)) {
        struct crn_errinfo ei = {0};
        struct crn_piece p;
        cairn_err rc;

        if (!take_locked(e, t, &p)) {
            crn_cond_wait(&e->changed, &e->mu);
            continue;
        }
        crn_unlock(&e->mu);
        rc = p.errand != NULL ? crn_errand_write(t->assist, &p, &ei)
                              : crn_piece_write(&t->pieces, &p, &ei);
        crn_lock(&e->mu);
        if (p.block != NULL)
            crn_pool_put(&e->pool, p.block);
        if (rc != CAIRN_OK)
            crn_task_fail_locked(e, t, &ei);
        crn_cond_broadcast(&e->changed); /* a block is free, or this was the last piece */
    }
    while (t->nready > 0) { /* arrived in vain */
        crn_errand_free(t->ready[--t->nready].errand);
        crn_pool_put(&e->pool, t->ready[t->nready].block);
    }
}

/* Asks for everything remote, block by block. */
static void fetch_all(struct crn_engine *e, struct crn_task *t, const void *arg)
{
    const struct crn_fetcher *f = arg;

    if (f->opened != NULL)
        f->opened(f->arg, t->out.name, e->generation);
    for (;;) {
        unsigned char *block = crn_pool_get(&e->pool);
        const struct crn_write *w = NULL;

        crn_lock(&e->mu);
        if (!t->is_failed)
            w = take_remote_locked(t, f->assists);
        if (w != NULL) {
            t->outstanding++;
            t->remote_bytes += w->bytes;
        } else {
            crn_pool_put(&e->pool, block);
        }
        crn_unlock(&e->mu);
        if (w == NULL)
            return;
        assert(f->fetch != NULL); /* somebody owns it */
        f->fetch(f->arg, w, t->plan->extents, t->plan->order, block);
    }
}

void crn_engine_arrived(struct crn_engine *e, const struct crn_write *w, void *block,
                        const struct crn_errinfo *error)
{
    struct crn_task *t;

    crn_lock(&e->mu);
    t = e->task; /* there is one as long as something is outstanding */
    if (error != NULL)
        crn_task_fail_locked(e, t, error);
    if (t->is_failed)
        crn_pool_put(&e->pool, block);
    else
        t->ready[t->nready++] = (struct crn_piece){w, block, 1, NULL};
    t->outstanding--;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

/* Threads. ---------------------------------------------------------------------------------------- */

static void *writer(void *arg)
{
    struct crn_engine *e = arg;
    uint64_t seen = 0;

    crn_thread_background(e->opt.nice);
    crn_lock(&e->mu);
    for (;;) {
        struct crn_task *t;

        while (!e->closing && (e->task == NULL || e->generation == seen))
            crn_cond_wait(&e->changed, &e->mu);
        if (e->closing)
            break;
        seen = e->generation;
        t = e->task;
        run_task_locked(e, t);
        if (--e->busy == 0)
            crn_cond_broadcast(&e->changed);
    }
    crn_unlock(&e->mu);
    return NULL;
}

void crn_task_run(struct crn_engine *e, struct crn_task *t,
                  void (*feed)(struct crn_engine *e, struct crn_task *t, const void *arg),
                  const void *arg)
{
    crn_lock(&e->mu);
    e->task = t;
    t->is_feeding = 1;
    e->generation++;
    e->busy = e->started;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
    feed(e, t, arg);
    crn_lock(&e->mu);
    t->is_feeding = 0;
    crn_cond_broadcast(&e->changed); /* the writers may be waiting for more */
    while (e->busy > 0 || t->outstanding > 0 || (t->unsynced > 0 && !t->is_failed))
        crn_cond_wait(&e->changed, &e->mu);
    e->task = NULL;
    crn_unlock(&e->mu);
}

int crn_engine_lacks_room(const struct crn_engine *e)
{
    return e->lacks_room;
}

size_t crn_engine_most_blocks(struct crn_engine *e)
{
    size_t most;

    crn_lock(&e->pool.mu);
    most = e->pool.most_used;
    crn_unlock(&e->pool.mu);
    return most;
}

cairn_err crn_engine_open(const struct crn_engine_options *opt, struct crn_engine **ret,
                          struct crn_errinfo *ei)
{
    struct crn_engine *e = calloc(1, sizeof(*e));
    cairn_err rc;
    int i;

    if (e == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write engine");
    e->opt = *opt;
    crn_mutex_init(&e->mu, CRN_RANK_ENGINE);
    crn_cond_init(&e->changed);
    rc = crn_outlet_open(&e->outlet, &opt->outlet, opt->writers, ei);
    if (rc == CAIRN_OK)
        rc = crn_pool_init(&e->pool, opt->blocks, opt->block_bytes, ei);
    for (i = 0; rc == CAIRN_OK && i < opt->writers && i < CRN_MAX_WRITERS; i++) {
        rc = crn_thread_start(&e->thread[i], "cairn-write", writer, e, ei);
        e->started += rc == CAIRN_OK;
    }
    if (rc != CAIRN_OK) {
        crn_engine_close(e);
        return rc;
    }
    *ret = e;
    return CAIRN_OK;
}

void crn_engine_close(struct crn_engine *e)
{
    int i;

    if (e == NULL)
        return;
    crn_lock(&e->mu);
    e->closing = 1;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
    for (i = 0; i < e->started; i++)
        (void)pthread_join(e->thread[i], NULL);
    crn_pool_fini(&e->pool);
    crn_outlet_close(&e->outlet);
    crn_cond_fini(&e->changed);
    crn_mutex_fini(&e->mu);
    free(e);
}

/* A data file. ------------------------------------------------------------------------------------ */

uint64_t crn_engine_estimate(const struct crn_engine *e, const struct crn_source *sources,
                             uint32_t nsources)
{
    uint64_t bytes = CRN_TRAILER_SIZE + e->opt.align_bytes;
    uint32_t s, r;

    for (s = 0; s < nsources; s++) {
        bytes += 64;
        for (r = 0; r < sources[s].shard.nregions; r++) {
            uint64_t n = sources[s].shard.regions[r].bytes;
            uint64_t cuts = n / e->opt.block_bytes + 1;

            bytes += n + e->opt.align_bytes + cuts * sizeof(struct crn_extent) +
                     sizeof(struct crn_region) + (n / e->opt.chunk_bytes + cuts) * 8;
        }
    }
    return bytes;
}

static cairn_err build_plan(const struct crn_engine *e, const struct crn_source *sources,
                            uint32_t nsources, struct crn_plan *ret, struct crn_errinfo *ei)
{
    const struct crn_shard **shards = calloc(nsources + (size_t)1, sizeof(*shards));
    uint32_t *owner = calloc(nsources + (size_t)1, sizeof(*owner));
    uint64_t pack = e->opt.block_bytes / 4 < PACK_LIMIT ? e->opt.block_bytes / 4 : PACK_LIMIT;
    cairn_err rc;
    uint32_t i;

    if (shards == NULL || owner == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %u shards", nsources);
        goto out;
    }
    for (i = 0; i < nsources; i++) {
        shards[i] = &sources[i].shard;
        owner[i] = sources[i].owner;
    }
    rc = crn_plan_build(shards, owner, nsources, e->opt.block_bytes, pack, e->opt.chunk_bytes, ret,
                        ei);
out:
    free(shards);
    free(owner);
    return rc;
}

/* What the writes of a plan take in the file. */
static uint64_t data_bytes(const struct crn_engine *e, const struct crn_plan *plan)
{
    uint64_t align = e->opt.align_bytes;
    uint64_t sum = 0;
    uint64_t i;

    for (i = 0; i < plan->nwrites; i++)
        sum += (plan->writes[i].bytes + align - 1) / align * align;
    return sum;
}

/* Runs the writers over the plan and appends index and trailer. Closes the task's file. */
static cairn_err write_file(struct crn_engine *e, struct crn_task *t,
                            const struct crn_fetcher *fetcher, struct crn_index *index,
                            struct crn_manifest_file *ret, struct crn_write_stats *stats,
                            struct crn_errinfo *ei)
{
    const struct crn_fetcher nobody = {0}; /* all is local */
    const struct crn_clock *clock = crn_clock_real();
    cairn_err rc;
    int64_t start;

    crn_task_run(e, t, fetch_all, fetcher != NULL ? fetcher : &nobody);
    stats->remote_bytes = t->remote_bytes;
    stats->assisted_bytes = t->assisted_bytes;
    if (t->is_failed) {
        crn_outfile_abandon(&t->out);
        if (ei != NULL)
            crn_err_keep(ei, &t->error);
        return t->error.code;
    }
    start = clock->mono_ns(clock);
    rc = crn_outfile_finish(&t->out, index, ret, ei);
    stats->fsync_seconds = (double)(clock->mono_ns(clock) - start) * 1e-9;
    return rc;
}

static cairn_err fill_index(struct crn_index *index, const struct crn_engine *e,
                            const struct crn_plan *plan, const struct crn_source *sources,
                            uint32_t nsources, struct crn_errinfo *ei)
{
    uint32_t i;

    index->chunk_bytes = e->opt.chunk_bytes;
    index->nshards = nsources;
    index->shards = calloc(nsources != 0 ? nsources : 1, sizeof(*index->shards));
    index->nextents = plan->nextents;
    index->extents = plan->extents;
    index->nhashes = plan->nhashes;
    index->hashes = calloc(plan->nhashes != 0 ? plan->nhashes : 1, sizeof(*index->hashes));
    if (index->shards == NULL || index->hashes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the index of %u shards", nsources);
    for (i = 0; i < nsources; i++)
        index->shards[i] = sources[i].shard; /* borrowed: never freed through the index */
    return CAIRN_OK;
}

cairn_err crn_engine_write(struct crn_engine *e, const struct crn_store *st,
                           const struct crn_index *head, const struct crn_source *sources,
                           uint32_t nsources, const struct crn_fetcher *fetcher,
                           struct crn_manifest_file *ret, struct crn_write_stats *ret_stats,
                           struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t start = clock->mono_ns(clock);
    struct crn_write_stats stats = {0};
    struct crn_index index = *head;
    struct crn_plan plan = {0};
    struct crn_task t = {.plan = &plan};
    cairn_err rc;

    index.shards = NULL;
    index.hashes = NULL;
    rc = build_plan(e, sources, nsources, &plan, ei);
    if (rc == CAIRN_OK)
        rc = fill_index(&index, e, &plan, sources, nsources, ei);
    t.ready = calloc(e->opt.blocks, sizeof(*t.ready));
    t.taken = calloc(plan.nwrites + 1, 1);
    t.last_remote = plan.nwrites;
    if (rc == CAIRN_OK && (t.ready == NULL || t.taken == NULL))
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write of %u shards", nsources);
    if (rc != CAIRN_OK)
        goto out;
    t.pieces.out = &t.out;
    t.pieces.sources = sources;
    t.pieces.plan = &plan;
    t.pieces.hashes = index.hashes;
    t.pieces.chunk_bytes = e->opt.chunk_bytes;
    t.out.written = e->opt.written;
    rc = crn_outfile_create(&t.out, &e->outlet, st, head, e->opt.align_bytes, data_bytes(e, &plan),
                            ei);
    e->lacks_room = t.out.lacks_room;
    if (rc != CAIRN_OK)
        goto out;
    rc = write_file(e, &t, fetcher, &index, ret, &stats, ei);
    if (rc != CAIRN_OK) {
        crn_outfile_remove(&t.out, head);
        goto out;
    }
    stats.bytes = plan.bytes;
    stats.seconds = (double)(clock->mono_ns(clock) - start) * 1e-9;
    stats.pool_waits = e->pool.waits;
    *ret_stats = stats;
out:
    free(t.ready);
    free(t.taken);
    free(index.shards);
    free(index.hashes);
    crn_plan_free(&plan);
    return rc;
}
