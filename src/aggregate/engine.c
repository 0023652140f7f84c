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

#include "aggregate/coder.h"
#include "aggregate/encoding.h"
#include "aggregate/task.h"
#include "encode/parts.h"

#define PACK_LIMIT   ((uint64_t)256 * 1024) /* smaller pieces share blocks */
#define ENCODE_LEAST ((uint64_t)4 << 20)    /* a thread encodes so much at least */

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

static struct crn_block_times *times_of(struct crn_engine *e, struct crn_task *t, const void *block)
{
    return &t->times[crn_pool_number(&e->pool, block)];
}

/* What a writer does next: 1, or 0 if there is nothing now. */
static int take_locked(struct crn_engine *e, struct crn_task *t, struct crn_piece *ret)
{
    struct crn_piece p = {0};

    if (t->nready > 0) {
        *ret = t->ready[--t->nready];
        t->stats->queue_waits++;
        t->stats->queue_ns += crn_stats_now(t->stats) - times_of(e, t, ret->block)->arrived_ns;
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
    atomic_store(&t->out.is_given_up, 1);
    crn_err_keep(&t->error, ei);
    crn_cond_broadcast(&e->changed);
}

/* Works until nothing is left or something failed. The engine's lock is held, and given up inside. */
static void run_task_locked(struct crn_engine *e, struct crn_task *t, int number)
{
    struct crn_writer_stats *me = &t->stats->writer[number];

    while (!t->is_failed && !is_done_locked(t)) {
        struct crn_errinfo ei = {0};
        int64_t start = crn_stats_now(t->stats);
        struct crn_piece p;
        uint64_t bytes;
        cairn_err rc;

        if (!take_locked(e, t, &p)) {
            crn_cond_wait(&e->changed, &e->mu);
            me->idle_ns += crn_stats_now(t->stats) - start;
            continue;
        }
        crn_unlock(&e->mu);
        bytes = p.w->bytes; /* an errand is gone when it is done */
        p.coder = &e->coder[number];
        rc = p.errand != NULL ? crn_errand_write(t->assist, &p, &ei)
                              : crn_piece_write(&t->pieces, &p, &ei);
        crn_track_add(p.has_arrived ? &me->received : &me->local, start, crn_stats_now(t->stats),
                      bytes);
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

static unsigned char *get_block(struct crn_engine *e, const struct crn_task *t, int64_t *ret_waited)
{
    unsigned char *block = crn_pool_try_get(&e->pool);
    int64_t start;

    if (block != NULL)
        return block;
    start = crn_stats_now(t->stats);
    block = crn_pool_get(&e->pool);
    *ret_waited = crn_stats_now(t->stats) - start;
    return block;
}

/* How many bytes of a write other nodes have. */
static uint64_t remote_bytes(const struct crn_plan *plan, const struct crn_write *w)
{
    uint64_t bytes = w->nparts == 0 ? w->bytes : 0;
    uint32_t i;

    for (i = 0; i < w->nparts; i++)
        if (plan->parts[w->first_part + i].w.owner != 0)
            bytes += plan->parts[w->first_part + i].w.bytes;
    return bytes;
}

/* Asks for a write, or for those of its parts that are not here. */
static void fetch_write(const struct crn_task *t, const struct crn_fetcher *f,
                        const struct crn_write *w, unsigned char *block)
{
    const struct crn_plan *plan = t->plan;
    uint32_t i;

    if (w->nparts == 0)
        f->fetch(f->arg, w, plan->extents, plan->order, block);
    for (i = 0; i < w->nparts; i++) {
        const struct crn_write_part *part = &plan->parts[w->first_part + i];

        if (part->w.owner != 0)
            f->fetch(f->arg, &part->w, plan->extents, plan->order, block + part->at);
    }
}

/* Whether this was the last part of its write; the write and its block then. */
static int is_whole_locked(struct crn_task *t, const struct crn_write **w, void **block)
{
    const struct crn_write_part *part = (const struct crn_write_part *)(const void *)*w;

    if (!(*w)->is_part)
        return 1;
    *w = &t->plan->writes[part->whole];
    *block = (unsigned char *)*block - part->at;
    return --t->missing[part->whole] == 0;
}

/* Asks for everything remote, block by block. */
static void fetch_all(struct crn_engine *e, struct crn_task *t, const void *arg)
{
    const struct crn_fetcher *f = arg;

    if (f->opened != NULL)
        f->opened(f->arg, t->out.name, e->generation);
    for (;;) {
        int64_t waited = 0;
        unsigned char *block = get_block(e, t, &waited);
        const struct crn_write *w = NULL;

        crn_lock(&e->mu);
        t->stats->pool_waits += waited > 0;
        t->stats->pool_ns += waited;
        if (!t->is_failed)
            w = take_remote_locked(t, f->assists);
        if (w != NULL) {
            t->outstanding++;
            t->stats->remote_bytes += remote_bytes(t->plan, w);
            times_of(e, t, block)->asked_ns = crn_stats_now(t->stats);
        } else {
            crn_pool_put(&e->pool, block);
        }
        crn_unlock(&e->mu);
        if (w == NULL)
            return;
        assert(f->fetch != NULL); /* somebody owns it */
        fetch_write(t, f, w, block);
    }
}

static void note_arrival_locked(struct crn_engine *e, struct crn_task *t, const struct crn_write *w,
                                const void *block)
{
    struct crn_block_times *at = times_of(e, t, block);
    struct crn_flush_stats *s = t->stats;

    at->arrived_ns = crn_stats_now(s);
    crn_track_add(&s->receive, at->asked_ns, at->arrived_ns, w->bytes);
    if (w->owner > 0 && w->owner <= s->npeers) {
        struct crn_peer_stats *p = &s->peer[w->owner - 1];

        p->n++;
        p->bytes += w->bytes;
        p->ns += at->arrived_ns - at->asked_ns;
    }
}

void crn_engine_sent(struct crn_engine *e, const struct crn_capture_id *id, uint32_t owner,
                     uint64_t bytes, int64_t gather_ns, int64_t send_ns)
{
    struct crn_flush_stats *s;
    int64_t now;

    crn_lock(&e->mu);
    s = e->stats;
    if (s != NULL && crn_capture_id_equal(&s->id, id) && owner > 0 && owner <= s->npeers) {
        struct crn_peer_stats *p = &s->peer[owner - 1];

        now = crn_stats_now(s);
        crn_track_add(&s->send, now - send_ns, now, bytes);
        p->sent++;
        p->sent_bytes += bytes;
        p->gather_ns += gather_ns;
        p->send_ns += send_ns;
    }
    crn_unlock(&e->mu);
}

void crn_engine_arrived(struct crn_engine *e, const struct crn_write *w, void *block,
                        const struct crn_errinfo *error)
{
    struct crn_task *t;

    crn_lock(&e->mu);
    t = e->task; /* there is one as long as something is outstanding */
    note_arrival_locked(e, t, w, block);
    if (error != NULL)
        crn_task_fail_locked(e, t, error);
    if (is_whole_locked(t, &w, &block)) {
        if (t->is_failed)
            crn_pool_put(&e->pool, block);
        else
            t->ready[t->nready++] = (struct crn_piece){.w = w, .block = block, .has_arrived = 1};
        t->outstanding--;
    }
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

void *crn_engine_replace(struct crn_engine *e, void *block)
{
    return crn_pool_replace(&e->pool, block);
}

/* Threads. ---------------------------------------------------------------------------------------- */

static void *writer(void *arg)
{
    struct crn_engine *e = arg;
    uint64_t seen = 0;
    int me;

    crn_thread_background(e->opt.nice);
    crn_lock(&e->mu);
    me = e->numbered++;
    for (;;) {
        struct crn_task *t;

        while (!e->closing && (e->task == NULL || e->generation == seen))
            crn_cond_wait(&e->changed, &e->mu);
        if (e->closing)
            break;
        seen = e->generation;
        t = e->task;
        run_task_locked(e, t, me);
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
    for (i = 0; i < e->started; i++)
        crn_coder_close(e->coder[i]);
    crn_encoding_close(e->encoding);
    crn_pool_fini(&e->pool);
    crn_outlet_close(&e->outlet);
    crn_cond_fini(&e->changed);
    crn_mutex_fini(&e->mu);
    free(e);
}

cairn_err crn_engine_encode(struct crn_engine *e, const struct crn_config *cfg, const char *name,
                            struct crn_errinfo *ei)
{
    struct crn_encoding *encoding = NULL;
    cairn_err rc = cfg != NULL ? crn_encoding_open(cfg, name, &encoding, ei) : CAIRN_OK;

    if (rc != CAIRN_OK)
        return rc;
    crn_encoding_close(e->encoding);
    e->encoding = encoding;
    return CAIRN_OK;
}

int crn_engine_threads(const struct crn_config *cfg)
{
    int is_encoding = cfg->names.encode != CRN_ENCODE_NONE;
    size_t i;

    for (i = 0; i < cfg->noverrides; i++)
        is_encoding |= cfg->overrides[i].encode != CRN_ENCODE_NONE;
    return (int)(is_encoding && cfg->encode_threads > 0 ? cfg->encode_threads : cfg->writers);
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

            if (e->encoding != NULL) /* streams and their chunks, and smaller extents */
                bytes += n / 64 + cuts * sizeof(struct crn_stream);
            bytes += n + e->opt.align_bytes + cuts * sizeof(struct crn_extent) +
                     sizeof(struct crn_region) + (n / e->opt.chunk_bytes + cuts) * 8;
        }
    }
    return bytes;
}

/* A block, or less where all threads are to have something to encode. */
static uint64_t write_bytes(const struct crn_engine *e, const struct crn_source *sources,
                            uint32_t nsources)
{
    uint64_t bytes = 0;
    uint32_t s, r;

    for (s = 0; s < nsources; s++)
        for (r = 0; r < sources[s].shard.nregions; r++)
            bytes += sources[s].shard.regions[r].bytes;
    bytes = (bytes / (4 * (uint64_t)e->opt.writers) / ENCODE_LEAST + 1) * ENCODE_LEAST;
    return bytes < e->opt.block_bytes ? bytes : e->opt.block_bytes;
}

/* Extents of parts become those of the regions that have them. Parts are in the order of the real bytes:
 * the extents stay sorted. */
static void to_regions(struct crn_plan *plan, const struct crn_source *sources)
{
    uint64_t i;

    for (i = 0; i < plan->nextents; i++) {
        struct crn_extent *x = &plan->extents[i];
        const struct crn_parts *parts = sources[x->shard].parts;

        if (parts == NULL)
            continue;
        x->offset += parts->part[x->region].offset;
        x->region = parts->part[x->region].region;
    }
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
        shards[i] = e->encoding != NULL && sources[i].parts != NULL ? &sources[i].parts->shard
                                                                    : &sources[i].shard;
        owner[i] = sources[i].owner;
    }
    if (e->encoding != NULL)
        rc = crn_plan_merged(shards, owner, nsources, e->encoding,
                             write_bytes(e, sources, nsources), e->opt.chunk_bytes, ret, ei);
    else
        rc = crn_plan_build(shards, owner, nsources, e->opt.block_bytes, pack, e->opt.chunk_bytes,
                            ret, ei);
    if (rc == CAIRN_OK && e->encoding != NULL)
        to_regions(ret, sources);
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
                            struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    const struct crn_fetcher nobody = {0}; /* all is local */
    cairn_err rc;

    crn_task_run(e, t, fetch_all, fetcher != NULL ? fetcher : &nobody);
    t->stats->assisted_bytes = t->assisted_bytes;
    t->stats->write_ns = crn_stats_now(t->stats);
    if (t->is_failed) {
        crn_outfile_abandon(&t->out);
        if (ei != NULL)
            crn_err_keep(ei, &t->error);
        return t->error.code;
    }
    rc = crn_outfile_finish(&t->out, index, ret, ei);
    t->stats->total_ns = crn_stats_now(t->stats);
    t->stats->finish_ns = t->stats->total_ns - t->stats->write_ns;
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
    if (plan->nstreams > 0)
        index->streams = calloc(plan->nstreams, sizeof(*index->streams));
    index->nstreams = plan->nstreams;
    if (index->shards == NULL || index->hashes == NULL ||
        (index->streams == NULL && plan->nstreams > 0))
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the index of %u shards", nsources);
    for (i = 0; i < nsources; i++)
        index->shards[i] = sources[i].shard; /* borrowed: never freed through the index */
    return CAIRN_OK;
}

static cairn_err begin_stats(struct crn_engine *e, const struct crn_index *head,
                             const struct crn_source *sources, uint32_t nsources,
                             struct crn_flush_stats *s, struct crn_errinfo *ei)
{
    uint32_t npeers = 0;
    cairn_err rc;
    uint32_t i;

    for (i = 0; i < nsources; i++)
        npeers = sources[i].owner > npeers ? sources[i].owner : npeers;
    rc = crn_flush_stats_init(s, (uint32_t)e->started, npeers, ei);
    s->id = head->id;
    s->blocks = e->opt.blocks;
    s->block_bytes = e->opt.block_bytes;
    return rc;
}

/* Nobody adds to the statistics any more when it is NULL. */
static void set_stats(struct crn_engine *e, struct crn_flush_stats *s)
{
    crn_lock(&e->mu);
    e->stats = s;
    crn_unlock(&e->mu);
}

/* How many parts of each write other nodes have. */
static uint32_t *count_parts(const struct crn_plan *plan)
{
    uint32_t *missing = calloc(plan->nwrites + 1, sizeof(*missing));
    uint64_t i;

    for (i = 0; missing != NULL && i < plan->nparts; i++)
        if (plan->parts[i].whole < plan->nwrites)
            missing[plan->parts[i].whole] += plan->parts[i].w.owner != 0;
    return missing;
}

cairn_err crn_engine_write(struct crn_engine *e, const struct crn_store *st,
                           const struct crn_index *head, const struct crn_source *sources,
                           uint32_t nsources, const struct crn_fetcher *fetcher,
                           struct crn_manifest_file *ret, struct crn_flush_stats *ret_stats,
                           struct crn_errinfo *ei)
{
    struct crn_flush_stats stats;
    struct crn_index index = *head;
    struct crn_plan plan = {0};
    struct crn_task t = {.plan = &plan, .stats = &stats};
    cairn_err rc;

    index.shards = NULL;
    index.hashes = NULL;
    rc = begin_stats(e, head, sources, nsources, &stats, ei);
    if (rc != CAIRN_OK)
        return rc;
    set_stats(e, &stats);
    index.streams = NULL;
    index.nstreams = 0;
    rc = build_plan(e, sources, nsources, &plan, ei);
    if (rc == CAIRN_OK)
        rc = fill_index(&index, e, &plan, sources, nsources, ei);
    t.ready = calloc(e->opt.blocks, sizeof(*t.ready));
    t.times = calloc(e->opt.blocks, sizeof(*t.times));
    t.taken = calloc(plan.nwrites + 1, 1);
    t.missing = count_parts(&plan);
    t.last_remote = plan.nwrites;
    if (rc == CAIRN_OK &&
        (t.ready == NULL || t.times == NULL || t.taken == NULL || t.missing == NULL))
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write of %u shards", nsources);
    if (rc != CAIRN_OK)
        goto out;
    t.pieces.out = &t.out;
    t.pieces.sources = sources;
    t.pieces.plan = &plan;
    t.pieces.hashes = index.hashes;
    t.pieces.chunk_bytes = e->opt.chunk_bytes;
    t.pieces.encoding = e->encoding;
    t.pieces.streams = index.streams;
    t.out.written = e->opt.written;
    rc = crn_outfile_create(&t.out, &e->outlet, st, head, e->opt.align_bytes, data_bytes(e, &plan),
                            ei);
    e->lacks_room = t.out.lacks_room;
    if (rc != CAIRN_OK)
        goto out;
    rc = write_file(e, &t, fetcher, &index, ret, ei);
    if (rc != CAIRN_OK)
        crn_outfile_remove(&t.out, head);
out:
    set_stats(e, NULL);
    stats.bytes = plan.bytes;
    stats.most_blocks = crn_engine_most_blocks(e);
    if (rc == CAIRN_OK)
        *ret_stats = stats;
    else
        crn_flush_stats_free(&stats);
    free(t.ready);
    free(t.taken);
    free(t.times);
    free(t.missing);
    crn_streams_free(index.streams, index.nstreams);
    free(index.shards);
    free(index.hashes);
    crn_plan_free(&plan);
    return rc;
}
