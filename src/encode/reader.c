/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads ranges of an encoded stream. It visits the map items of the range in the order of their
 * sources, so every chunk is decoded once and its bytes are copied to all their places. */
#include "encode/stream.h"

#include <stdlib.h>
#include <string.h>
#include "encode/chunk.h"
#include "encode/work.h"

/* A range of new data and its destination. */
struct reader_part {
    uint64_t source;
    uint64_t bytes;
    uint64_t dst;
};

struct crn_reader {
    struct crn_reader_options options;
    struct crn_encode_work *work; /* borrowed */
    uint64_t new_bytes;
    uint64_t bytes;
    uint64_t *starts;    /* offsets of the map's items in the stream */
    size_t encoded_room; /* the largest chunk */
    size_t decoded_room;
    unsigned char *encoded; /* this and the next two belong to the work */
    unsigned char *decoded;
    unsigned char *previous;
    size_t chunk; /* the chunk in decoded; options.n: none */
};

static cairn_err check_records(struct crn_reader *r, struct crn_errinfo *ei)
{
    size_t i;

    for (i = 0; i < r->options.n; i++) {
        const struct crn_chunk_record *c = &r->options.records[i];

        if (c->offset != r->new_bytes || c->bytes == 0 || c->bytes > CRN_CHUNK_MAX_BYTES ||
            c->encoded > c->bytes || r->new_bytes > INT64_MAX)
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "chunk %zu of a stream has a wrong place", i);
        r->new_bytes += c->bytes;
        if (c->bytes > r->decoded_room)
            r->decoded_room = c->bytes;
        if (c->encoded > r->encoded_room)
            r->encoded_room = c->encoded;
    }
    return CAIRN_OK;
}

static cairn_err check_map(struct crn_reader *r, struct crn_errinfo *ei)
{
    const struct crn_map *map = r->options.map;
    size_t i;

    r->bytes = r->new_bytes;
    if (map == NULL || map->n == 0) {
        r->options.map = NULL;
        return CAIRN_OK;
    }
    r->starts = malloc(map->n * sizeof(*r->starts));
    if (r->starts == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "a reader's map");
    r->bytes = 0;
    for (i = 0; i < map->n; i++) {
        const struct crn_map_item *it = &map->items[i];

        if (it->source > r->new_bytes || it->bytes > r->new_bytes - it->source ||
            it->bytes > INT64_MAX - r->bytes)
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "item %zu of a stream's map is outside", i);
        r->starts[i] = r->bytes;
        r->bytes += it->bytes;
    }
    return CAIRN_OK;
}

cairn_err crn_reader_open(const struct crn_reader_options *options, struct crn_encode_work *work,
                          struct crn_reader **ret, struct crn_errinfo *ei)
{
    struct crn_reader *r = calloc(1, sizeof(*r));
    cairn_err rc;

    if (r == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "a reader");
    r->options = *options;
    r->work = work;
    r->chunk = options->n;
    rc = check_records(r, ei);
    if (rc == CAIRN_OK)
        rc = check_map(r, ei);
    if (rc == CAIRN_OK) {
        rc = crn_work_scratch(work, CRN_SLOT_ENCODED, r->encoded_room, &r->encoded, ei);
        if (rc == CAIRN_OK)
            rc = crn_work_scratch(work, CRN_SLOT_CHUNK, r->decoded_room, &r->decoded, ei);
    }
    if (rc != CAIRN_OK) {
        crn_reader_close(r);
        return rc;
    }
    *ret = r;
    return CAIRN_OK;
}

void crn_reader_close(struct crn_reader *r)
{
    if (r == NULL)
        return;
    free(r->starts);
    free(r);
}

/* The older version of a chunk, if it was encoded against one. */
static cairn_err get_previous(struct crn_reader *r, const struct crn_chunk_record *c,
                              const void **ret, struct crn_errinfo *ei)
{
    struct crn_chunk_info info;
    cairn_err rc;

    *ret = NULL;
    if (c->encoded == c->bytes)
        return CAIRN_OK; /* raw */
    rc = crn_chunk_inspect(r->encoded, c->encoded, &info, ei);
    if (rc != CAIRN_OK || !crn_pipe_needs_previous(&info.pipe) || r->options.fetch_previous == NULL)
        return rc;
    if (r->previous == NULL)
        rc = crn_work_scratch(r->work, CRN_SLOT_PREVIOUS, r->decoded_room, &r->previous, ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret = r->previous;
    return r->options.fetch_previous(r->options.ctx, c->offset, c->bytes, r->previous, ei);
}

/* Decodes a chunk to dst. */
static cairn_err decode_to(struct crn_reader *r, size_t chunk, void *dst, struct crn_errinfo *ei)
{
    const struct crn_chunk_record *c = &r->options.records[chunk];
    const void *previous;
    cairn_err rc = r->options.fetch(r->options.ctx, chunk, r->encoded, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (crn_hash(r->encoded, c->encoded) != c->hash)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "chunk %zu of a stream has a wrong checksum", chunk);
    rc = get_previous(r, c, &previous, ei);
    if (rc == CAIRN_OK)
        rc = crn_chunk_decode(r->work, r->encoded, c->encoded, previous, dst, c->bytes, ei);
    return rc;
}

static size_t chunk_at(const struct crn_reader *r, uint64_t offset)
{
    size_t low = 0;
    size_t high = r->options.n;

    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;

        if (r->options.records[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A decoded chunk; valid until the next call. */
static cairn_err reader_chunk(struct crn_reader *r, size_t i, const unsigned char **ret,
                              struct crn_errinfo *ei)
{
    const struct crn_chunk_record *c = &r->options.records[i];
    struct crn_chunk_cache *cache = r->options.cache;
    struct crn_chunk_cache_key key = {r->options.domain, c->hash, c->offset, c->bytes};
    unsigned char *room = NULL;
    cairn_err rc;

    if (cache != NULL && (*ret = crn_chunk_cache_find(cache, key)) != NULL)
        return CAIRN_OK;
    *ret = r->decoded;
    if (i == r->chunk)
        return CAIRN_OK;
    if (cache != NULL)
        room = crn_chunk_cache_room(cache, key);
    if (room == NULL)
        r->chunk = r->options.n;
    rc = decode_to(r, i, room != NULL ? room : r->decoded, ei);
    if (rc != CAIRN_OK && room != NULL)
        crn_chunk_cache_drop(cache);
    if (rc == CAIRN_OK && room == NULL)
        r->chunk = i;
    if (room != NULL)
        *ret = room;
    return rc;
}

/* Copies one range, chunk by chunk. A whole chunk that no other range needs is decoded in place. */
static cairn_err reader_give(struct crn_reader *r, const struct reader_part *p, int is_alone,
                             unsigned char *dst, struct crn_errinfo *ei)
{
    uint64_t source = p->source;
    uint64_t left = p->bytes;
    cairn_err rc = CAIRN_OK;
    size_t i;

    dst += p->dst;
    for (i = chunk_at(r, source); left > 0; i++) {
        const struct crn_chunk_record *c = &r->options.records[i];
        size_t skip = (size_t)(source - c->offset);
        size_t m = c->bytes - skip < left ? c->bytes - skip : (size_t)left;
        const unsigned char *decoded;

        if (is_alone && m == c->bytes && i != r->chunk) {
            rc = decode_to(r, i, dst, ei);
        } else {
            rc = reader_chunk(r, i, &decoded, ei);
            if (rc == CAIRN_OK)
                memcpy(dst, decoded + skip, m);
        }
        if (rc != CAIRN_OK)
            return rc;
        dst += m;
        source += m;
        left -= m;
    }
    return CAIRN_OK;
}

static int by_source(const void *a, const void *b)
{
    const struct reader_part *x = a;
    const struct reader_part *y = b;

    return x->source < y->source ? -1 : x->source > y->source;
}

static size_t item_at(const struct crn_reader *r, uint64_t offset)
{
    size_t low = 0;
    size_t high = r->options.map->n;

    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;

        if (r->starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Collects the items of a range, by their sources. Overlapping ones are cut at chunk boundaries,
 * so that a chunk serves all of them before the next one is decoded. */
static cairn_err reader_collect(const struct crn_reader *r, uint64_t offset, uint64_t n,
                                struct reader_part **ret, size_t *ret_n, struct crn_errinfo *ei)
{
    struct reader_part *parts = NULL;
    size_t count = 0;
    size_t room = 0;
    uint64_t done = 0;
    size_t i;

    for (i = item_at(r, offset); done < n; i++) {
        const struct crn_map_item *it = &r->options.map->items[i];
        uint64_t skip = offset + done - r->starts[i];
        uint64_t m = it->bytes - skip < n - done ? it->bytes - skip : n - done;

        while (m > 0) {
            uint64_t source = it->source + skip;
            const struct crn_chunk_record *c = &r->options.records[chunk_at(r, source)];
            uint64_t in_chunk = c->offset + c->bytes - source;
            uint64_t k = m < in_chunk ? m : in_chunk;

            if (count == room) {
                struct reader_part *grown;

                room = room > 0 ? 2 * room : 64;
                grown = realloc(parts, room * sizeof(*parts));
                if (grown == NULL) {
                    free(parts);
                    return crn_fail(ei, CAIRN_ENOMEM, 0, "a reader's parts");
                }
                parts = grown;
            }
            parts[count++] = (struct reader_part){.source = source, .bytes = k, .dst = done};
            done += k;
            skip += k;
            m -= k;
        }
    }
    if (count > 1)
        qsort(parts, count, sizeof(*parts), by_source);
    *ret = parts;
    *ret_n = count;
    return CAIRN_OK;
}

cairn_err crn_reader_read(struct crn_reader *r, uint64_t offset, void *dst, uint64_t n,
                          struct crn_errinfo *ei)
{
    struct reader_part whole = {.source = offset, .bytes = n};
    struct reader_part *parts = NULL;
    size_t count = 0;
    size_t i;
    cairn_err rc;

    if (offset > r->bytes || n > r->bytes - offset)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a read beyond the end of a stream");
    if (n == 0)
        return CAIRN_OK;
    if (r->options.map == NULL)
        return reader_give(r, &whole, 1, dst, ei);
    rc = reader_collect(r, offset, n, &parts, &count, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < count && rc == CAIRN_OK; i++)
        rc = reader_give(r, &parts[i], 0, dst, ei);
    free(parts);
    return rc;
}
