/* SPDX-License-Identifier: BSD-3-Clause */
/* The writers. Each takes the next write of the plan and an aligned offset at the end of the file.
 * A write of one segment in memory goes out from where it lies; anything else is gathered in a block
 * of the pool first. Every extent and checksum has its place in the index beforehand, so that the
 * writers share nothing but two counters and the first error. */
#include "aggregate/engine.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/plan.h"
#include "base/clock.h"

#define PACK_LIMIT ((uint64_t)256 * 1024) /* smaller pieces share blocks */

struct task {
    const struct crn_store *st;
    const struct crn_source *sources;
    const struct crn_plan *plan;
    uint64_t *hashes; /* of the index; each entry has one writer */
    const char *file;
    int fd;
    atomic_uint_fast64_t next; /* write to take */
    atomic_uint_fast64_t end;  /* of the file so far */
    atomic_int failed;
    struct crn_errinfo error; /* engine's lock */
};

struct crn_engine {
    struct crn_engine_options opt;
    struct crn_pool pool;
    struct crn_mutex mu;
    struct crn_cond changed;
    struct task *task;   /* lock: what the writers work on, or NULL */
    uint64_t generation; /* lock: of the task */
    int busy;            /* lock: writers that have not finished it */
    int closing;         /* lock */
    int started;
    pthread_t thread[64];
};

/* One write. -------------------------------------------------------------------------------------- */

static void hash_chunks(const struct crn_engine *e, struct task *t, const struct crn_extent *x,
                        const unsigned char *p)
{
    uint64_t step = e->opt.chunk_bytes;
    uint64_t at;
    uint64_t i = x->first_hash;

    for (at = 0; at < x->bytes; at += step)
        t->hashes[i++] = crn_hash(p + at, x->bytes - at < step ? x->bytes - at : step);
}

/* Checksum and write chunk by chunk: the second touch of each byte comes from the cache. */
static cairn_err write_direct(const struct crn_engine *e, struct task *t,
                              const struct crn_extent *x, const unsigned char *p, uint64_t off,
                              struct crn_errinfo *ei)
{
    uint64_t step = e->opt.chunk_bytes;
    uint64_t i = x->first_hash;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = 0; rc == CAIRN_OK && at < x->bytes; at += step) {
        uint64_t n = x->bytes - at < step ? x->bytes - at : step;

        t->hashes[i++] = crn_hash(p + at, n);
        rc = crn_fs_write_all(t->st->fs, t->fd, p + at, n, off + at, t->file, ei);
    }
    return rc;
}

/* Brings an extent into a block, from memory, from the image's file or from a file region. */
static cairn_err gather(const struct task *t, const struct crn_extent *x, unsigned char *dst,
                        struct crn_errinfo *ei)
{
    const struct crn_source *s = &t->sources[x->shard];
    const struct crn_region *r = &s->shard.regions[x->region];

    if (r->kind == CRN_REGION_FILE)
        return crn_fs_read_all(t->st->fs, s->region_fd[x->region], dst, x->bytes, x->offset,
                               r->name, ei);
    if (s->memory != NULL) {
        memcpy(dst, s->memory + s->at[x->region] + x->offset, x->bytes);
        return CAIRN_OK;
    }
    return crn_fs_read_all(t->st->fs, s->image_fd, dst, x->bytes, s->at[x->region] + x->offset,
                           "spilled image", ei);
}

static cairn_err write_gathered(struct crn_engine *e, struct task *t, const struct crn_write *w,
                                uint64_t off, struct crn_errinfo *ei)
{
    unsigned char *block = crn_pool_get(&e->pool);
    cairn_err rc = CAIRN_OK;
    uint64_t at = 0;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < w->nsegments; i++) {
        struct crn_extent *x = &t->plan->extents[t->plan->order[w->first + i]];

        rc = gather(t, x, block + at, ei);
        if (rc == CAIRN_OK) {
            hash_chunks(e, t, x, block + at);
            x->file_offset = off + at;
            at += x->bytes;
        }
    }
    if (rc == CAIRN_OK)
        rc = crn_fs_write_all(t->st->fs, t->fd, block, w->bytes, off, t->file, ei);
    crn_pool_put(&e->pool, block);
    return rc;
}

static cairn_err do_write(struct crn_engine *e, struct task *t, const struct crn_write *w,
                          struct crn_errinfo *ei)
{
    uint64_t align = e->opt.align_bytes;
    uint64_t room = (w->bytes + align - 1) / align * align;
    uint64_t off = atomic_fetch_add(&t->end, room);
    struct crn_extent *x = &t->plan->extents[t->plan->order[w->first]];
    const struct crn_source *s = &t->sources[x->shard];

    if (w->nsegments > 1 || s->memory == NULL ||
        s->shard.regions[x->region].kind == CRN_REGION_FILE)
        return write_gathered(e, t, w, off, ei);
    x->file_offset = off;
    return write_direct(e, t, x, s->memory + s->at[x->region] + x->offset, off, ei);
}

static void run_task(struct crn_engine *e, struct task *t)
{
    struct crn_errinfo ei = {0};

    while (!atomic_load(&t->failed)) {
        uint64_t i = atomic_fetch_add(&t->next, 1);

        if (i >= t->plan->nwrites)
            return;
        if (do_write(e, t, &t->plan->writes[i], &ei) != CAIRN_OK) {
            atomic_store(&t->failed, 1);
            crn_lock(&e->mu);
            crn_err_keep(&t->error, &ei);
            crn_unlock(&e->mu);
        }
    }
}

/* Threads. ---------------------------------------------------------------------------------------- */

static void *writer(void *arg)
{
    struct crn_engine *e = arg;
    uint64_t seen = 0;

    crn_thread_background(e->opt.nice);
    crn_lock(&e->mu);
    for (;;) {
        struct task *t;

        while (!e->closing && (e->task == NULL || e->generation == seen))
            crn_cond_wait(&e->changed, &e->mu);
        if (e->closing)
            break;
        seen = e->generation;
        t = e->task;
        crn_unlock(&e->mu);
        run_task(e, t);
        crn_lock(&e->mu);
        if (--e->busy == 0)
            crn_cond_broadcast(&e->changed);
    }
    crn_unlock(&e->mu);
    return NULL;
}

static void run_on_all(struct crn_engine *e, struct task *t)
{
    crn_lock(&e->mu);
    e->task = t;
    e->generation++;
    e->busy = e->started;
    crn_cond_broadcast(&e->changed);
    while (e->busy > 0)
        crn_cond_wait(&e->changed, &e->mu);
    e->task = NULL;
    crn_unlock(&e->mu);
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
    rc = crn_pool_init(&e->pool, opt->blocks, opt->block_bytes, ei);
    for (i = 0; rc == CAIRN_OK && i < opt->writers && i < 64; i++) {
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
    const struct crn_shard **shards = calloc(nsources != 0 ? nsources : 1, sizeof(*shards));
    uint64_t pack = e->opt.block_bytes / 4 < PACK_LIMIT ? e->opt.block_bytes / 4 : PACK_LIMIT;
    cairn_err rc;
    uint32_t i;

    if (shards == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %u shards", nsources);
    for (i = 0; i < nsources; i++)
        shards[i] = &sources[i].shard;
    rc = crn_plan_build(shards, nsources, e->opt.block_bytes, pack, e->opt.chunk_bytes, ret, ei);
    free(shards);
    return rc;
}

/* Runs the writers over the plan and appends index and trailer. Closes the task's file. */
static cairn_err write_file(struct crn_engine *e, struct task *t, struct crn_index *index,
                            struct crn_manifest_file *ret, struct crn_write_stats *stats,
                            struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    cairn_err rc;
    int64_t start;

    run_on_all(e, t);
    if (atomic_load(&t->failed)) {
        (void)t->st->fs->close(t->st->fs, t->fd); /* failed already */
        if (ei != NULL)
            crn_err_keep(ei, &t->error);
        return t->error.code;
    }
    start = clock->mono_ns(clock);
    rc = crn_store_finish_data(t->st, t->fd, t->file, atomic_load(&t->end), index, ret, ei);
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
                           uint32_t nsources, struct crn_manifest_file *ret,
                           struct crn_write_stats *ret_stats, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t start = clock->mono_ns(clock);
    struct crn_write_stats stats = {0};
    struct crn_index index = *head;
    struct crn_plan plan = {0};
    char file[CRN_FILE_NAME];
    struct task t = {.st = st, .sources = sources, .plan = &plan, .file = file};
    cairn_err rc;

    index.shards = NULL;
    index.hashes = NULL;
    rc = build_plan(e, sources, nsources, &plan, ei);
    if (rc == CAIRN_OK)
        rc = fill_index(&index, e, &plan, sources, nsources, ei);
    if (rc != CAIRN_OK)
        goto out;
    rc = crn_store_create_data(st, head->name, head->version, head->file_no, file, &t.fd, ei);
    if (rc != CAIRN_OK)
        goto out;
    t.hashes = index.hashes;
    rc = write_file(e, &t, &index, ret, &stats, ei);
    if (rc != CAIRN_OK) {
        struct crn_errinfo ignored = {0};

        if (crn_store_discard_data(st, head->name, head->version, file, &ignored) != CAIRN_OK)
            goto out; /* a sweep removes it */
        goto out;
    }
    stats.bytes = plan.bytes;
    stats.seconds = (double)(clock->mono_ns(clock) - start) * 1e-9;
    stats.pool_waits = e->pool.waits;
    *ret_stats = stats;
out:
    free(index.shards);
    free(index.hashes);
    crn_plan_free(&plan);
    return rc;
}
