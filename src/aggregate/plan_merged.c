/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan for encoded data. src/encode decides in which order the bytes of all ranks go into
 * streams. This file cuts that order into writes, and each write into streams and owners. A
 * stream of the merging plan that is longer than a write becomes several. */
#include "aggregate/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/encoding.h"

struct builder {
    struct crn_plan p;
    const struct crn_encoding *encoding;
    const uint32_t *owner;
    uint64_t write_bytes;
    size_t extents_room, writes_room, streams_room, parts_room;
};

/* Makes space for one more entry in *array; 0 if out of memory. */
static int plan_merged_grow(void **array, uint64_t n, size_t *room, size_t size)
{
    size_t want = *room > 0 ? 2 * *room : 64;
    void *grown;

    if (n < *room)
        return 1;
    grown = realloc(*array, want * size);
    if (grown == NULL)
        return 0;
    *array = grown;
    *room = want;
    return 1;
}

static int make_room(struct builder *b)
{
    struct crn_plan *p = &b->p;

    return plan_merged_grow((void **)&p->extents, p->nextents, &b->extents_room,
                            sizeof(*p->extents)) &&
           plan_merged_grow((void **)&p->writes, p->nwrites, &b->writes_room, sizeof(*p->writes)) &&
           plan_merged_grow((void **)&p->streams, p->nstreams, &b->streams_room,
                            sizeof(*p->streams)) &&
           plan_merged_grow((void **)&p->parts, p->nparts, &b->parts_room, sizeof(*p->parts));
}

/* Appends an extent to the current write, stream and part, or begins new ones. */
static void plan_merged_add(struct builder *b, uint32_t merged, cairn_type type,
                            const struct crn_extent *x, int lossy)
{
    struct crn_write *w = &b->p.writes[b->p.nwrites - 1];
    struct crn_plan_stream *s = w->nstreams > 0 ? &b->p.streams[b->p.nstreams - 1] : NULL;
    struct crn_write_part *part = w->nparts > 0 ? &b->p.parts[b->p.nparts - 1] : NULL;
    uint32_t owner = b->owner != NULL ? b->owner[x->shard] : 0;

    assert(b->p.streams != NULL && b->p.parts != NULL);
    if (s == NULL || s->merged != merged || s->lossy != lossy) {
        s = &b->p.streams[b->p.nstreams++];
        *s = (struct crn_plan_stream){.first = b->p.nextents,
                                      .merged = merged,
                                      .type = type,
                                      .lossy = lossy,
                                      .start = b->p.bytes};
        w->nstreams++;
    }
    if (part == NULL || part->w.owner != owner) {
        part = &b->p.parts[b->p.nparts++];
        *part = (struct crn_write_part){.whole = b->p.nwrites - 1, .at = w->bytes};
        part->w = (struct crn_write){.first = b->p.nextents, .owner = owner, .is_part = 1};
        w->nparts++;
        w->owner = w->owner == 0 ? owner : w->owner;
    }
    b->p.extents[b->p.nextents] = *x;
    b->p.extents[b->p.nextents].file_offset =
        b->p.nextents; /* its place in the order, for plan_merged_sort() */
    b->p.nextents++;
    w->nsegments++;
    part->w.nsegments++;
    s->nsegments++;
    w->bytes += x->bytes;
    part->w.bytes += x->bytes;
    s->bytes += x->bytes;
    b->p.bytes += x->bytes;
}

/* Bytes left in the current write, in whole elements of this size. */
static uint64_t room_left(const struct builder *b, size_t size)
{
    const struct crn_write *w = b->p.nwrites > 0 ? &b->p.writes[b->p.nwrites - 1] : NULL;

    return w != NULL ? (b->write_bytes - w->bytes) / size * size : 0;
}

static void begin_write(struct builder *b)
{
    assert(b->p.writes != NULL);
    b->p.writes[b->p.nwrites++] = (struct crn_write){
        .first = b->p.nextents, .first_stream = b->p.nstreams, .first_part = b->p.nparts};
}

/* If equal ranks are deduplicated, a region that does not fit begins a new write, so that the
 * same region of another rank is cut in the same way. */
static int begins_write(const struct builder *b, const struct crn_merge_cursor *cursor,
                        uint64_t room)
{
    struct crn_merge_cursor ahead = *cursor;
    struct crn_merge_piece piece;

    return b->encoding->is_adaptive && b->encoding->scheme == CRN_AWARE &&
           crn_merge_next(&ahead, room, &piece) && piece.offset == 0 &&
           b->p.shards[piece.shard].regions[piece.region].bytes > room;
}

static cairn_err add_stream(struct builder *b, uint32_t merged, struct crn_errinfo *ei)
{
    const struct crn_merge_stream *s = crn_merge_stream(b->p.merge, merged);
    struct crn_merge_cursor cursor;
    struct crn_merge_piece piece;
    size_t size = cairn_type_size(s->type);
    uint64_t room;

    crn_merge_start(b->p.merge, merged, &cursor);
    for (;;) {
        struct crn_extent x = {0};
        const struct crn_region *r;
        int lossy;

        if (!make_room(b))
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %llu extents",
                            (unsigned long long)b->p.nextents);
        room = room_left(b, size);
        if (room == 0 || (room < b->write_bytes / size * size && begins_write(b, &cursor, room))) {
            begin_write(b);
            room = room_left(b, size);
        }
        if (!crn_merge_next(&cursor, room, &piece))
            return CAIRN_OK;
        r = &b->p.shards[piece.shard].regions[piece.region];
        assert(r != NULL);
        lossy = crn_encoding_lossy(b->encoding, r);
        x.shard = piece.shard;
        x.region = piece.region;
        x.offset = piece.offset;
        x.bytes = piece.bytes;
        plan_merged_add(b, merged, lossy >= 0 ? (cairn_type)r->type : s->type, &x, lossy);
    }
}

static int by_region(const void *a, const void *b)
{
    const struct crn_extent *x = a;
    const struct crn_extent *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->region != y->region)
        return x->region < y->region ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts the extents as the index needs them, and computes the order of the writes. */
static cairn_err plan_merged_sort(struct crn_plan *p, uint64_t chunk_bytes, struct crn_errinfo *ei)
{
    uint64_t i;

    p->order = calloc(p->nextents + 1, sizeof(*p->order));
    if (p->order == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %llu extents",
                        (unsigned long long)p->nextents);
    if (p->nextents > 1)
        qsort(p->extents, p->nextents, sizeof(*p->extents), by_region);
    for (i = 0; i < p->nextents; i++) {
        struct crn_extent *x = &p->extents[i];

        p->order[x->file_offset] = i;
        x->first_hash = p->nhashes;
        p->nhashes += (x->bytes - 1) / chunk_bytes + 1;
    }
    return CAIRN_OK;
}

/* Drops an empty last write; a write with a single owner needs no parts. */
static void plan_merged_tidy(struct crn_plan *p)
{
    uint64_t i;

    if (p->nwrites > 0 && p->writes[p->nwrites - 1].bytes == 0)
        p->nwrites--;
    for (i = 0; i < p->nwrites; i++)
        if (p->writes[i].nparts == 1)
            p->writes[i].nparts = 0;
}

cairn_err crn_plan_merged(const struct crn_shard *const *shards, const uint32_t *owner,
                          uint32_t nshards, const struct crn_encoding *encoding,
                          uint64_t write_bytes, uint64_t chunk_bytes, struct crn_plan *ret,
                          struct crn_errinfo *ei)
{
    struct crn_merge_options options = {.scheme = encoding->scheme,
                                        .block_bytes = encoding->block_bytes,
                                        .similar = encoding->similar,
                                        .group_bytes = encoding->group_bytes};
    struct builder b = {.encoding = encoding, .owner = owner, .write_bytes = write_bytes};
    struct crn_merge *merge = NULL;
    struct crn_shard *copy = calloc(nshards + (size_t)1, sizeof(*copy));
    cairn_err rc;
    uint32_t i;

    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %u shards", nshards);
    for (i = 0; i < nshards; i++)
        copy[i] = *shards[i];
    rc = crn_merge_plan(copy, nshards, &options, &merge, ei);
    b.p.shards = copy;
    b.p.merge = merge;
    for (i = 0; rc == CAIRN_OK && i < crn_merge_streams(b.p.merge); i++)
        rc = add_stream(&b, i, ei);
    if (rc == CAIRN_OK)
        rc = plan_merged_sort(&b.p, chunk_bytes, ei);
    if (rc != CAIRN_OK) {
        crn_plan_free(&b.p);
        return rc;
    }
    plan_merged_tidy(&b.p);
    *ret = b.p;
    return CAIRN_OK;
}
