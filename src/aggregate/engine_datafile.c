/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds a data file from its sources: the plan, the writers that run it, the index and the
 * statistics. */
#include <errno.h>
#include <stdlib.h>

#include "aggregate/encoding.h"
#include "aggregate/task.h"
#include "aggregate/coder.h"
#include "aggregate/repeats.h"
#include "encode/parts.h"

#define PACK_LIMIT   ((uint64_t)256 * 1024) /* smaller extents share blocks */
#define ENCODE_LEAST ((uint64_t)4 << 20)    /* the least that one thread encodes */

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

            if (e->configured != NULL) /* streams with their chunks, and smaller extents */
                bytes += n / 64 + cuts * sizeof(struct crn_stream);
            bytes += n + e->opt.align_bytes + cuts * sizeof(struct crn_extent) +
                     sizeof(struct crn_region) + (n / e->opt.chunk_bytes + cuts) * 8;
        }
    }
    return bytes;
}

/* Offset of the older bytes in a block that holds both versions. */
static uint64_t half_block(const struct crn_engine *e)
{
    return e->opt.block_bytes / 2 / 16 * 16;
}

static uint64_t source_bytes(const struct crn_source *sources, uint32_t nsources)
{
    uint64_t bytes = 0;
    uint32_t s, r;

    for (s = 0; s < nsources; s++)
        for (r = 0; r < sources[s].shard.nregions; r++)
            bytes += sources[s].shard.regions[r].bytes;
    return bytes;
}

/* The size of a write: a block, or less if otherwise some threads would have nothing to encode.
 * It is half a block if versions may be encoded against each other. That includes full versions,
 * since both plans must be the same. */
static uint64_t write_bytes(const struct crn_engine *e, const struct crn_source *sources,
                            uint32_t nsources)
{
    uint64_t most = e->encoding->full_every > 1 ? half_block(e) : e->opt.block_bytes;
    uint64_t bytes = source_bytes(sources, nsources);

    bytes = (bytes / (4 * (uint64_t)e->opt.writers) / ENCODE_LEAST + 1) * ENCODE_LEAST;
    return bytes < most ? bytes : most;
}

/* Maps extents of variables inside files to extents of the regions that contain them. The
 * variables are in byte order, so the extents stay sorted. */
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
    if (rc == CAIRN_OK && e->encoding != NULL && e->encoding->full_every > 1 && e->older != NULL)
        crn_older_mark(e->older, sources, nsources, e->encoding, ret);
out:
    free(shards);
    free(owner);
    return rc;
}

/* Bytes that the writes of a plan take in the file. */
static uint64_t data_bytes(const struct crn_engine *e, const struct crn_plan *plan)
{
    uint64_t align = e->opt.align_bytes;
    uint64_t sum = 0;
    uint64_t i;

    for (i = 0; i < plan->nwrites; i++)
        sum += (plan->writes[i].bytes + align - 1) / align * align;
    return sum;
}

/* Threads that can encode now: none if the application needs all cores. */
static uint32_t encoding_threads(const struct crn_engine *e)
{
    int idle = crn_idle_cores();

    if (e->opt.may_join == NULL || idle < 0)
        return (uint32_t)e->started;
    return idle < e->started ? (uint32_t)idle : (uint32_t)e->started;
}

static int64_t coders_cpu_ns(const struct crn_engine *e)
{
    int64_t ns = 0;
    int i;

    for (i = 0; i < e->started; i++)
        ns += crn_coder_cpu_ns(e->coder[i]);
    return ns;
}

/* Chooses the encoding of the file. Returns the CPU time that the coders have used so far. */
static int64_t begin_encoding(struct crn_engine *e, const struct crn_index *head,
                              const struct crn_source *sources, uint32_t nsources)
{
    e->encoding = e->configured;
    if (e->encoding != NULL && e->encoding->may_skip &&
        !crn_pays(&e->pays, head->name, source_bytes(sources, nsources), encoding_threads(e)))
        e->encoding = NULL;
    return coders_cpu_ns(e);
}

/* Throttled time says nothing about the file system. */
static void learn_encoding(struct crn_engine *e, const struct crn_index *head,
                           const struct crn_flush_stats *s, uint64_t file_bytes, int64_t cpu_ns)
{
    int64_t ns = s->total_ns - s->held_ns;

    if (e->configured == NULL || !e->configured->may_skip)
        return;
    if (e->encoding == NULL)
        crn_pays_plain(&e->pays, head->name, s->bytes, ns);
    else if (s->bytes > 0)
        crn_pays_encoded(&e->pays, head->name, s->bytes, file_bytes, ns, coders_cpu_ns(e) - cpu_ns);
}

/* Runs the writers over the plan and appends index and trailer. Closes the task's file. */
static cairn_err write_file(struct crn_engine *e, struct crn_task *t,
                            const struct crn_fetcher *fetcher, struct crn_index *index,
                            struct crn_manifest_file *ret, struct crn_errinfo *ei)
{
    const struct crn_fetcher nobody = {0}; /* all data is local */
    cairn_err rc;

    if (fetcher == NULL)
        fetcher = &nobody;
    t->assists = fetcher->assists;
    crn_task_run(e, t, crn_task_fetch, fetcher);
    t->stats->assisted_bytes = t->assisted_bytes;
    t->stats->write_ns = crn_stats_now(t->stats);
    if (t->is_failed) {
        crn_outfile_abandon(&t->out);
        if (ei != NULL)
            crn_err_keep(ei, &t->error);
        return t->error.code;
    }
    if (e->older != NULL && crn_older_is_needed(index)) {
        index->bases = e->older->bases;
        index->nbases = e->older->nbases;
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

/* After a NULL, nobody adds to the statistics. */
static void set_stats(struct crn_engine *e, struct crn_flush_stats *s)
{
    crn_lock(&e->mu);
    e->stats = s;
    crn_unlock(&e->mu);
}

static cairn_err begin_task(const struct crn_engine *e, const struct crn_index *index,
                            const struct crn_source *sources, struct crn_task *t,
                            struct crn_errinfo *ei)
{
    const struct crn_plan *plan = t->plan;

    t->ready = calloc(e->opt.blocks, sizeof(*t->ready));
    t->times = calloc(e->opt.blocks, sizeof(*t->times));
    t->taken = calloc(plan->nwrites + 1, 1);
    t->awaited = calloc(plan->nwrites + 1, sizeof(*t->awaited));
    if (t->ready == NULL || t->times == NULL || t->taken == NULL || t->awaited == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write of %u shards", index->nshards);
    t->last_remote = t->last_free = plan->nwrites;
    t->pieces = (struct crn_pieces){.out = &t->out,
                                    .sources = sources,
                                    .plan = plan,
                                    .hashes = index->hashes,
                                    .chunk_bytes = e->opt.chunk_bytes,
                                    .encoding = e->encoding,
                                    .bandwidth = e->pays.bandwidth / e->started,
                                    .streams = index->streams,
                                    .older = e->older != NULL ? e->older->sources : NULL,
                                    .older_at = half_block(e)};
    t->out.written = e->opt.written;
    return e->encoding != NULL && e->encoding->is_adaptive && index->nshards > 1
               ? crn_repeats_open(&t->pieces.repeats, ei)
               : CAIRN_OK;
}

static void end_task(struct crn_task *t)
{
    free(t->ready);
    free(t->taken);
    free(t->times);
    free(t->awaited);
    crn_repeats_close(t->pieces.repeats);
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
    int64_t cpu_ns = begin_encoding(e, head, sources, nsources);
    cairn_err rc;

    index.shards = NULL;
    index.hashes = NULL;
    index.streams = NULL;
    index.nstreams = 0;
    index.bases = NULL; /* borrowed, if there are any */
    index.nbases = 0;
    rc = begin_stats(e, head, sources, nsources, &stats, ei);
    if (rc != CAIRN_OK)
        return rc;
    set_stats(e, &stats);
    rc = build_plan(e, sources, nsources, &plan, ei);
    if (rc == CAIRN_OK)
        rc = fill_index(&index, e, &plan, sources, nsources, ei);
    if (rc == CAIRN_OK)
        rc = begin_task(e, &index, sources, &t, ei);
    if (rc != CAIRN_OK)
        goto out;
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
    if (rc == CAIRN_OK) {
        learn_encoding(e, head, &stats, ret->bytes, cpu_ns);
        *ret_stats = stats;
    } else {
        crn_flush_stats_free(&stats);
    }
    end_task(&t);
    crn_streams_free(index.streams, index.nstreams);
    free(index.shards);
    free(index.hashes);
    crn_plan_free(&plan);
    return rc;
}
