/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads verified bytes of a region from the first source that can deliver them. A chunk that is
 * wanted whole is read into its destination and verified there. Of chunks wanted in part, the last
 * one stays cached, because rows of a block share chunks. */
#include "restart/version_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Finds the extent of a source that contains a byte of a region. It exists, because the index
 * covers every region. */
static const struct crn_extent *extent_at(const struct crn_index *x, uint32_t shard,
                                          uint32_t region, uint64_t pos)
{
    uint64_t lo = 0;
    uint64_t hi = x->nextents;

    while (hi - lo > 1) { /* find the last extent that does not start after pos */
        uint64_t mid = lo + (hi - lo) / 2;
        const struct crn_extent *e = &x->extents[mid];
        int is_behind = e->shard != shard     ? e->shard > shard
                        : e->region != region ? e->region > region
                                              : e->offset > pos;

        if (is_behind)
            hi = mid;
        else
            lo = mid;
    }
    return &x->extents[lo];
}

/* Keeps at most one file of the store open at a time. */
static cairn_err open_source(struct crn_version *v, struct crn_version_file *s,
                             struct crn_errinfo *ei)
{
    cairn_err rc;

    if (s->fd >= 0)
        return CAIRN_OK;
    rc = crn_version_dir(v, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (v->open != NULL) {
        (void)v->fs->close(v->fs, v->open->fd);
        v->open->fd = -1;
        v->open = NULL;
    }
    /* copies are always open */
    rc = crn_version_open_file(v, (uint32_t)(s - v->files), &s->fd, ei);
    if (rc == CAIRN_OK)
        v->open = s;
    return rc;
}

/* Reads a chunk of which only some bytes are wanted into v->chunk. */
static cairn_err keep_chunk(struct crn_version *v, struct crn_version_file *s,
                            const struct crn_extent *e, uint64_t no, struct crn_errinfo *ei)
{
    struct crn_data_file data = crn_version_source_data(v, s, s->fd);
    size_t n = crn_data_chunk_bytes(&s->index, e, no);
    unsigned char *grown;
    cairn_err rc;

    if (v->chunk_of == e && v->chunk_no == no)
        return CAIRN_OK;
    v->chunk_of = NULL;
    if (n > v->chunk_cap) {
        grown = realloc(v->chunk, n);
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chunk of %zu bytes", n);
        v->chunk = grown;
        v->chunk_cap = n;
    }
    rc = crn_data_chunk(&data, e, no, &v->decoder, v->chunk, ei);
    if (rc == CAIRN_OK) {
        v->chunk_of = e;
        v->chunk_no = no;
    }
    return rc;
}

/* Verifies one chunk and moves w->pos past it. */
static cairn_err fetch_chunk(struct crn_version *v, struct crn_version_file *s,
                             const struct crn_extent *e, struct crn_want *w, struct crn_errinfo *ei)
{
    struct crn_data_file data = crn_version_source_data(v, s, s->fd);
    uint64_t no = (w->pos - e->offset) / s->index.chunk_bytes;
    uint64_t begin = e->offset + no * s->index.chunk_bytes; /* start of the chunk, in the region */
    uint64_t end = begin + crn_data_chunk_bytes(&s->index, e, no);
    uint64_t stop = end < w->end ? end : w->end;
    size_t n = (size_t)(stop - w->pos);
    cairn_err rc;

    if (w->dst != NULL && w->pos == begin && stop == end) {
        rc = crn_data_chunk(&data, e, no, &v->decoder, w->dst, ei);
    } else {
        rc = keep_chunk(v, s, e, no, ei);
        if (rc == CAIRN_OK && w->dst != NULL)
            memcpy(w->dst, v->chunk + (w->pos - begin), n);
    }
    if (rc != CAIRN_OK)
        return rc;
    if (w->dst != NULL)
        w->dst += n;
    w->pos = stop;
    w->checked += n;
    if (w->ev != NULL && w->ev->progress != NULL)
        w->ev->progress(w->ev->arg, w->checked);
    return CAIRN_OK;
}

/* Reads from this source until the range is complete or the source fails. */
static cairn_err fetch_from(struct crn_version *v, struct crn_version_file *s,
                            const struct crn_region *expect, struct crn_want *w,
                            struct crn_errinfo *ei)
{
    int64_t shard = crn_version_source_shard(s, w->rank);
    const struct crn_region *r;
    cairn_err rc;

    if (shard < 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "%s: has no shard of rank %u", s->what,
                        (unsigned)w->rank);
    r = w->region < s->index.shards[shard].nregions ? &s->index.shards[shard].regions[w->region]
                                                    : NULL;
    if (r == NULL || r->bytes != expect->bytes || strcmp(r->name, expect->name) != 0)
        return crn_fail(ei, CAIRN_EDAMAGED, 0,
                        "%s: the regions of rank %u differ from other sources", s->what,
                        (unsigned)w->rank);
    rc = open_source(v, s, ei);
    while (rc == CAIRN_OK && w->pos < w->end)
        rc = fetch_chunk(v, s, extent_at(&s->index, (uint32_t)shard, w->region, w->pos), w, ei);
    return rc;
}

cairn_err crn_version_fetch(struct crn_version *v, struct crn_want *w, struct crn_errinfo *ei)
{
    uint32_t file_no = v->file_of_rank[w->rank];
    struct crn_errinfo first = {0};
    const struct crn_shard *shard;
    struct crn_region expect;
    uint64_t before;
    cairn_err rc;
    uint32_t i;

    rc = crn_version_shard(v, w->rank, &shard, ei);
    if (rc != CAIRN_OK)
        return rc;
    expect = shard->regions[w->region];
    do {
        before = w->pos;
        for (i = 0; i < v->ncopies && w->pos < w->end; i++)
            if (crn_version_source_shard(&v->copies[i], w->rank) >= 0 &&
                fetch_from(v, &v->copies[i], &expect, w, &first) == CAIRN_OK)
                break;
        if (w->pos < w->end && crn_version_load(v, file_no, &first) == CAIRN_OK &&
            fetch_from(v, &v->files[file_no], &expect, w, &first) == CAIRN_OK)
            break;
    } while (w->pos < w->end && w->pos > before);
    if (w->pos < w->end) {
        crn_err_keep(ei, &first);
        return crn_err_context(ei, first.code, "%s@%lld", v->m.name, (long long)v->m.version);
    }
    if (first.code != CAIRN_OK)
        crn_err_keep(&v->repaired, &first);
    return CAIRN_OK;
}

cairn_err crn_version_read(struct crn_version *v, uint32_t rank, uint32_t region, uint64_t offset,
                           uint64_t bytes, void *dst, struct crn_errinfo *ei)
{
    struct crn_want w = {.rank = rank, .region = region, .pos = offset, .dst = dst};
    const struct crn_shard *shard;
    cairn_err rc;

    rc = crn_version_shard(v, rank, &shard, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (region >= shard->nregions || offset > shard->regions[region].bytes ||
        bytes > shard->regions[region].bytes - offset)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "%s@%lld, rank %u: there are no %llu bytes at %llu of region %u", v->m.name,
                        (long long)v->m.version, (unsigned)rank, (unsigned long long)bytes,
                        (unsigned long long)offset, (unsigned)region);
    if (bytes == 0)
        return CAIRN_OK;
    w.end = offset + bytes;
    return crn_version_fetch(v, &w, ei);
}
