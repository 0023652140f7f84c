/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents lie one after the other without gaps, in the order of the index, so that position and extent
 * give each other. Nothing here depends on time or threads: the same captures give the same bytes. */
#include "service/nodefile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/plan.h"

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const struct crn_source *)a)->shard.rank;
    uint32_t y = ((const struct crn_source *)b)->shard.rank;

    return x < y ? -1 : x > y;
}

static cairn_err sort_sources(const struct crn_source *sources, uint32_t n, struct crn_nodefile *f,
                              struct crn_errinfo *ei)
{
    f->sources = calloc(n, sizeof(*f->sources));
    if (f->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a stream of %u shards", n);
    memcpy(f->sources, sources, n * sizeof(*sources));
    qsort(f->sources, n, sizeof(*f->sources), by_rank);
    return CAIRN_OK;
}

static cairn_err hash_extent(struct crn_nodefile *f, const struct crn_extent *e,
                             unsigned char *scratch, struct crn_errinfo *ei)
{
    const struct crn_source *s = &f->sources[e->shard];
    uint64_t unit = f->index.chunk_bytes;
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = 0; rc == CAIRN_OK && at < e->bytes; at += unit) {
        uint64_t n = e->bytes - at < unit ? e->bytes - at : unit;
        struct crn_extent x = {.region = e->region, .offset = e->offset + at, .bytes = n};
        const uint64_t *known = crn_source_known(s, e, at, n);
        const unsigned char *p = crn_source_memory(s, &x);

        if (known == NULL && p == NULL) {
            rc = crn_source_read(s, &x, f->fs, scratch, ei);
            p = scratch;
        }
        if (rc == CAIRN_OK)
            f->index.hashes[e->first_hash + at / unit] = known != NULL ? *known : crn_hash(p, n);
    }
    return rc;
}

/* Lays the extents out, one after the other, and fills in their checksums. */
static cairn_err lay_out(struct crn_nodefile *f, struct crn_plan *plan, struct crn_errinfo *ei)
{
    unsigned char *scratch = malloc(f->index.chunk_bytes);
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    f->index.extents = plan->extents;
    f->index.nextents = plan->nextents;
    plan->extents = NULL;
    f->index.nhashes = plan->nhashes;
    f->index.hashes = calloc(plan->nhashes + 1, sizeof(*f->index.hashes));
    if (scratch == NULL || f->index.hashes == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the checksums of a stream");
    for (i = 0; rc == CAIRN_OK && i < f->index.nextents; i++) {
        f->index.extents[i].file_offset = f->bytes;
        f->bytes += f->index.extents[i].bytes;
        rc = hash_extent(f, &f->index.extents[i], scratch, ei);
    }
    free(scratch);
    return rc;
}

static cairn_err plan_extents(struct crn_nodefile *f, uint32_t n, uint64_t block_bytes,
                              struct crn_errinfo *ei)
{
    const struct crn_shard **shards = calloc(n, sizeof(*shards));
    struct crn_plan plan = {0};
    cairn_err rc;
    uint32_t i;

    f->index.shards = calloc(n, sizeof(*f->index.shards));
    f->index.nshards = n;
    if (shards == NULL || f->index.shards == NULL) {
        free(shards);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a stream of %u shards", n);
    }
    for (i = 0; i < n; i++) {
        f->index.shards[i] = f->sources[i].shard; /* borrows the regions */
        shards[i] = &f->index.shards[i];
    }
    rc = crn_plan_build(shards, NULL, n, block_bytes, 0, f->index.chunk_bytes, &plan, ei);
    if (rc == CAIRN_OK)
        rc = lay_out(f, &plan, ei);
    crn_plan_free(&plan);
    free(shards);
    return rc;
}

static cairn_err make_tail(struct crn_nodefile *f, struct crn_errinfo *ei)
{
    struct crn_trailer t = {.index_offset = f->bytes};
    struct crn_buf buf = {0};
    cairn_err rc;

    rc = crn_index_encode(&f->index, &buf, ei);
    if (rc == CAIRN_OK) {
        t.index_bytes = buf.len;
        t.index_hash = f->index_hash = crn_hash(buf.data, buf.len);
        rc = crn_trailer_encode(&t, &buf, ei);
    }
    if (rc != CAIRN_OK) {
        crn_buf_free(&buf);
        return rc;
    }
    f->tail = buf.data;
    f->tail_bytes = buf.len;
    f->bytes += buf.len;
    return CAIRN_OK;
}

/* The index borrows the regions of the sources. */
static void return_regions(struct crn_index *x)
{
    uint32_t i;

    for (i = 0; x->shards != NULL && i < x->nshards; i++)
        x->shards[i].regions = NULL;
}

cairn_err crn_nodefile_open(const struct crn_fs *fs, const struct crn_index *head,
                            const struct crn_source *sources, uint32_t nsources,
                            uint64_t block_bytes, uint64_t chunk_bytes, struct crn_nodefile *ret,
                            struct crn_errinfo *ei)
{
    struct crn_nodefile f = {.fs = fs, .index = *head};
    cairn_err rc;

    f.index.chunk_bytes = chunk_bytes;
    rc = sort_sources(sources, nsources, &f, ei);
    if (rc == CAIRN_OK)
        rc = plan_extents(&f, nsources, block_bytes, ei);
    if (rc == CAIRN_OK)
        rc = make_tail(&f, ei);
    return_regions(&f.index);
    if (rc != CAIRN_OK) {
        crn_nodefile_close(&f);
        return rc;
    }
    f.at = f.index.extents;
    *ret = f;
    return CAIRN_OK;
}

/* Are these the shards of the index, and do its extents lie one after the other? */
static int fits(const struct crn_nodefile *f, uint32_t nsources, uint64_t data_bytes)
{
    uint64_t next = 0;
    uint32_t s, r;
    uint64_t i;

    if (f->index.nshards != nsources || f->index.nstreams != 0)
        return 0;
    for (s = 0; s < nsources; s++) {
        const struct crn_shard *a = &f->index.shards[s];
        const struct crn_shard *b = &f->sources[s].shard;

        if (a->rank != b->rank || a->nregions != b->nregions)
            return 0;
        for (r = 0; r < a->nregions; r++)
            if (a->regions[r].bytes != b->regions[r].bytes ||
                strcmp(a->regions[r].name, b->regions[r].name) != 0)
                return 0;
    }
    for (i = 0; i < f->index.nextents; i++) {
        if (f->index.extents[i].file_offset != next)
            return 0;
        next += f->index.extents[i].bytes;
    }
    return next == data_bytes;
}

static cairn_err decode_tail(struct crn_nodefile *f, const void *tail, uint64_t tail_bytes,
                             const char *what, uint64_t *ret_data, struct crn_errinfo *ei)
{
    struct crn_trailer t;
    cairn_err rc;

    if (tail_bytes < CRN_TRAILER_SIZE)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the end of a data file is cut off", what);
    /* The size that the trailer expects is that of data and tail. */
    rc = crn_trailer_decode((const unsigned char *)tail + tail_bytes - CRN_TRAILER_SIZE,
                            f->bytes + tail_bytes, what, &t, ei);
    if (rc == CAIRN_OK && t.index_bytes != tail_bytes - CRN_TRAILER_SIZE)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the end of a data file is cut off", what);
    if (rc == CAIRN_OK)
        rc = crn_index_decode(tail, t.index_bytes, what, &f->index, ei);
    if (rc != CAIRN_OK)
        return rc;
    f->index_hash = t.index_hash;
    *ret_data = t.index_offset;
    return CAIRN_OK;
}

static uint64_t shard_bytes(const struct crn_source *sources, uint32_t n)
{
    uint64_t sum = 0;
    uint32_t s, r;

    for (s = 0; s < n; s++)
        for (r = 0; r < sources[s].shard.nregions; r++)
            sum += sources[s].shard.regions[r].bytes;
    return sum;
}

cairn_err crn_nodefile_reopen(const struct crn_fs *fs, const void *tail, uint64_t tail_bytes,
                              const struct crn_source *sources, uint32_t nsources, const char *what,
                              struct crn_nodefile *ret, struct crn_errinfo *ei)
{
    struct crn_nodefile f = {.fs = fs, .bytes = shard_bytes(sources, nsources)};
    uint64_t data_bytes = 0;
    cairn_err rc;

    rc = sort_sources(sources, nsources, &f, ei);
    if (rc == CAIRN_OK)
        rc = decode_tail(&f, tail, tail_bytes, what, &data_bytes, ei);
    if (rc == CAIRN_OK && !fits(&f, nsources, data_bytes))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: it describes another capture", what);
    if (rc == CAIRN_OK) {
        f.tail = malloc(tail_bytes);
        if (f.tail == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%s: the end of a data file", what);
    }
    if (rc != CAIRN_OK) {
        crn_nodefile_close(&f);
        return rc;
    }
    memcpy(f.tail, tail, tail_bytes);
    f.tail_bytes = tail_bytes;
    f.bytes += tail_bytes;
    f.at = f.index.extents;
    *ret = f;
    return CAIRN_OK;
}

void crn_nodefile_close(struct crn_nodefile *f)
{
    free(f->sources);
    crn_index_free(&f->index);
    free(f->tail);
    memset(f, 0, sizeof(*f));
}

/* The extent that holds a byte of the data. */
static const struct crn_extent *find_extent(const struct crn_nodefile *f, uint64_t at)
{
    uint64_t low = 0;
    uint64_t high = f->index.nextents;

    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;

        if (f->at[mid].file_offset <= at)
            low = mid;
        else
            high = mid;
    }
    return &f->at[low];
}

/* The part of an extent from `at` on, at most so many bytes. */
static struct crn_extent part_of(const struct crn_extent *e, uint64_t at, uint64_t bytes)
{
    uint64_t skip = at - e->file_offset;
    uint64_t left = e->bytes - skip;

    return (struct crn_extent){
        .region = e->region, .offset = e->offset + skip, .bytes = left < bytes ? left : bytes};
}

int crn_nodefile_chunk(const struct crn_nodefile *f, uint64_t at, struct crn_node_chunk *ret)
{
    uint64_t unit = f->index.chunk_bytes;
    const struct crn_extent *e;

    if (at >= f->bytes - f->tail_bytes)
        return 0;
    e = find_extent(f, at);
    ret->rank = f->sources[e->shard].shard.rank;
    ret->extent = part_of(e, at, unit);
    ret->bytes = ret->extent.bytes;
    ret->hash = f->index.hashes[e->first_hash + (at - e->file_offset) / unit];
    return 1;
}

const unsigned char *crn_nodefile_memory(const struct crn_nodefile *f, uint64_t at, uint64_t bytes)
{
    uint64_t data = f->bytes - f->tail_bytes;
    const struct crn_extent *e;
    struct crn_extent x;

    if (at >= data)
        return f->tail + (at - data);
    e = find_extent(f, at);
    x = part_of(e, at, bytes);
    return x.bytes == bytes ? crn_source_memory(&f->sources[e->shard], &x) : NULL;
}

cairn_err crn_nodefile_read(const struct crn_nodefile *f, uint64_t at, uint64_t bytes,
                            unsigned char *dst, struct crn_errinfo *ei)
{
    uint64_t data = f->bytes - f->tail_bytes;
    cairn_err rc;

    while (bytes > 0 && at < data) {
        const struct crn_extent *e = find_extent(f, at);
        struct crn_extent x = part_of(e, at, bytes);

        rc = crn_source_read(&f->sources[e->shard], &x, f->fs, dst, ei);
        if (rc != CAIRN_OK)
            return rc;
        at += x.bytes;
        dst += x.bytes;
        bytes -= x.bytes;
    }
    if (bytes > 0)
        memcpy(dst, f->tail + (at - data), bytes);
    return CAIRN_OK;
}
