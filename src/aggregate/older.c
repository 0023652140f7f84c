/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which streams may be encoded against the previous version. A chunk is decoded with the
 * bytes that the older file has at the same place of the same stream, so plan and index must
 * agree on which bytes those are. Lossy streams of the older file are excluded, since they
 * differ from the bytes in memory. */
#include "aggregate/older.h"

#include <string.h>

#include "aggregate/encoding.h"

static int region_is_like(const struct crn_region *a, const struct crn_region *b)
{
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->type == b->type &&
           a->ndims == b->ndims && a->is_global == b->is_global && a->bytes == b->bytes &&
           memcmp(a->dims, b->dims, sizeof(a->dims)) == 0 &&
           memcmp(a->global_dims, b->global_dims, sizeof(a->global_dims)) == 0 &&
           memcmp(a->offset, b->offset, sizeof(a->offset)) == 0;
}

int crn_older_is_like(const struct crn_shard *a, const struct crn_shard *b)
{
    uint32_t i;

    if (a->rank != b->rank || a->nregions != b->nregions)
        return 0;
    for (i = 0; i < a->nregions; i++)
        if (!region_is_like(&a->regions[i], &b->regions[i]))
            return 0;
    return 1;
}

/* Files may be gone once their version is committed. */
static int has_files(const struct crn_shard *s)
{
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        if (s->regions[i].kind == CRN_REGION_FILE)
            return 1;
    return 0;
}

/* The same shards on the same nodes, with this node's shards in memory. */
static int sources_match(const struct crn_older *o, const struct crn_source *sources, uint32_t n)
{
    uint32_t i;

    if (o->index->nshards != n)
        return 0;
    for (i = 0; i < n; i++) {
        const struct crn_source *older = &o->sources[i];

        if (!crn_older_is_like(&o->index->shards[i], &sources[i].shard) ||
            has_files(&sources[i].shard) || older->owner != sources[i].owner)
            return 0;
        if (older->owner == 0 &&
            (older->memory == NULL || !crn_older_is_like(&older->shard, &sources[i].shard)))
            return 0;
    }
    return 1;
}

/* The same extents at the same offsets. */
static int extents_match(const struct crn_index *x, const struct crn_plan *plan)
{
    uint64_t i, k;

    if (x->nextents != plan->nextents || x->nstreams != plan->nstreams)
        return 0;
    for (i = 0; i < plan->nstreams; i++) {
        const struct crn_plan_stream *s = &plan->streams[i];
        uint64_t at = s->start;

        for (k = 0; k < s->nsegments; k++) {
            uint64_t number = plan->order[s->first + k];
            const struct crn_extent *a = &plan->extents[number];
            const struct crn_extent *b = &x->extents[number];

            if (a->shard != b->shard || a->region != b->region || a->offset != b->offset ||
                a->bytes != b->bytes || b->file_offset != at)
                return 0;
            at += a->bytes;
        }
    }
    return 1;
}

static int chunk_is_lossy(const struct crn_stream_chunk *c)
{
    int k;

    for (k = 0; k < c->nstages; k++)
        if (c->stages[2 * k] == crn_codec_zfp.id)
            return 1;
    return 0;
}

static int stream_matches(const struct crn_stream *x, const struct crn_plan *plan,
                          const struct crn_plan_stream *s, uint64_t chunk_bytes)
{
    const char *key = crn_merge_stream(plan->merge, s->merged)->key;
    uint64_t left = x->bytes;
    uint32_t i;

    if (s->lossy >= 0 || x->map_bytes > 0 || x->type != (uint8_t)s->type || x->start != s->start ||
        x->bytes != s->bytes || strncmp(x->key, key, sizeof(x->key) - 1) != 0)
        return 0;
    for (i = 0; i < x->nchunks; i++) {
        if (x->chunks[i].bytes != (left < chunk_bytes ? left : chunk_bytes) ||
            chunk_is_lossy(&x->chunks[i]))
            return 0;
        left -= x->chunks[i].bytes;
    }
    return left == 0;
}

void crn_older_mark(const struct crn_older *o, const struct crn_source *sources, uint32_t nsources,
                    const struct crn_encoding *encoding, struct crn_plan *plan)
{
    uint64_t i, k;

    if (!sources_match(o, sources, nsources) || !extents_match(o->index, plan))
        return;
    for (i = 0; i < plan->nwrites; i++) {
        struct crn_write *w = &plan->writes[i];

        for (k = w->first_stream; k < w->first_stream + w->nstreams; k++) {
            struct crn_plan_stream *s = &plan->streams[k];

            s->has_older = stream_matches(&o->index->streams[k], plan, s, encoding->chunk_bytes);
            w->has_older |= s->has_older;
        }
    }
}

static int chunk_needs(const struct crn_stream_chunk *c)
{
    struct crn_pipe pipe = {.n = c->nstages};
    int k;

    for (k = 0; k < c->nstages; k++) {
        pipe.stage[k].id = c->stages[2 * k];
        pipe.stage[k].arg = c->stages[2 * k + 1];
    }
    return crn_pipe_needs_previous(&pipe);
}

int crn_older_is_needed(const struct crn_index *x)
{
    uint32_t i, k;

    for (i = 0; i < x->nstreams; i++)
        for (k = 0; k < x->streams[i].nchunks; k++)
            if (chunk_needs(&x->streams[i].chunks[k]))
                return 1;
    return 0;
}
