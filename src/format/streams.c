/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of an encoded data file, as stored in its index (docs/format.md, section 4). Checks
 * that they are consistent; src/encode interprets the content of their chunks. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_MIN 27 /* bytes of an encoded stream without key, chunks and map */
#define CHUNK_MIN  17 /* of an encoded chunk without stages */

void crn_streams_free(struct crn_stream *streams, uint32_t n)
{
    uint32_t i;

    for (i = 0; streams != NULL && i < n; i++) {
        free(streams[i].chunks);
        free(streams[i].map);
    }
    free(streams);
}

const struct crn_stream *crn_index_stream(const struct crn_index *x, uint64_t at)
{
    uint32_t lo = 0;
    uint32_t hi = x->nstreams;

    while (hi - lo > 1) { /* finds the last stream that starts at or before it */
        uint32_t mid = lo + (hi - lo) / 2;

        if (x->streams[mid].start > at)
            hi = mid;
        else
            lo = mid;
    }
    return hi > lo && at >= x->streams[lo].start && at - x->streams[lo].start < x->streams[lo].bytes
               ? &x->streams[lo]
               : NULL;
}

uint64_t crn_stream_end(const struct crn_stream *s)
{
    uint64_t end = s->file_offset;
    uint32_t i;

    for (i = 0; i < s->nchunks; i++)
        end += s->chunks[i].encoded;
    return end;
}

void crn_streams_put(const struct crn_index *x, struct crn_buf *buf)
{
    uint32_t i, k;

    crn_buf_u32(buf, x->nstreams);
    for (i = 0; i < x->nstreams; i++) {
        const struct crn_stream *s = &x->streams[i];

        crn_buf_str(buf, s->key);
        crn_buf_u8(buf, s->type);
        crn_buf_u64(buf, s->bytes);
        crn_buf_u64(buf, s->file_offset);
        crn_buf_u32(buf, s->nchunks);
        for (k = 0; k < s->nchunks; k++) {
            const struct crn_stream_chunk *c = &s->chunks[k];

            crn_buf_u32(buf, c->bytes);
            crn_buf_u32(buf, c->encoded);
            crn_buf_u64(buf, c->hash);
            crn_buf_u8(buf, c->nstages);
            crn_buf_put(buf, c->stages, 2 * (size_t)c->nstages);
        }
        crn_buf_u32(buf, s->map_bytes);
        crn_buf_put(buf, s->map, s->map_bytes);
    }
}

static void take_chunk(struct crn_view *v, struct crn_stream_chunk *c)
{
    const void *stages;

    c->bytes = crn_view_u32(v);
    c->encoded = crn_view_u32(v);
    c->hash = crn_view_u64(v);
    c->nstages = crn_view_u8(v);
    if (c->nstages > CRN_STAGES_MAX) {
        v->failed = 1;
        return;
    }
    stages = crn_view_take(v, 2 * (size_t)c->nstages);
    if (stages != NULL)
        memcpy(c->stages, stages, 2 * (size_t)c->nstages);
}

static cairn_err take_stream(struct crn_view *v, const char *what, struct crn_stream *s,
                             struct crn_errinfo *ei)
{
    uint32_t nchunks;
    const void *map;
    uint32_t i;

    crn_view_str(v, s->key, sizeof(s->key));
    s->type = crn_view_u8(v);
    s->bytes = crn_view_u64(v);
    s->file_offset = crn_view_u64(v);
    nchunks = crn_view_u32(v);
    if (v->failed || nchunks > crn_view_left(v) / CHUNK_MIN)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a stream of the index is cut off", what);
    s->chunks = calloc((size_t)nchunks + 1, sizeof(*s->chunks));
    if (s->chunks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for a stream of %u chunks", what,
                        (unsigned)nchunks);
    s->nchunks = nchunks;
    for (i = 0; i < s->nchunks && !v->failed; i++)
        take_chunk(v, &s->chunks[i]);
    s->map_bytes = crn_view_u32(v);
    map = crn_view_take(v, s->map_bytes);
    if (v->failed || map == NULL)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a stream of the index is cut off", what);
    s->map = malloc((size_t)s->map_bytes + 1);
    if (s->map == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for a map of %u bytes", what,
                        (unsigned)s->map_bytes);
    memcpy(s->map, map, s->map_bytes);
    return CAIRN_OK;
}

cairn_err crn_streams_take(struct crn_view *v, const char *what, struct crn_index *ret,
                           struct crn_errinfo *ei)
{
    uint32_t n = crn_view_u32(v);
    cairn_err rc = CAIRN_OK;
    uint64_t start = 0;

    if (v->failed || n == 0 || n > crn_view_left(v) / STREAM_MIN)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the streams of the index are cut off", what);
    ret->streams = calloc(n, sizeof(*ret->streams));
    if (ret->streams == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u streams", what, (unsigned)n);
    while (rc == CAIRN_OK && ret->nstreams < n) {
        struct crn_stream *s = &ret->streams[ret->nstreams++];

        rc = take_stream(v, what, s, ei);
        s->start = start;
        start += s->bytes;
    }
    return rc;
}

/* The sums cannot overflow: 2^32 chunks of 4 MiB are less than 2^63 bytes. */
static const char *stream_fault(const struct crn_stream *s)
{
    uint64_t bytes = 0;
    uint64_t encoded = 0;
    uint32_t i;

    if (!crn_object_text_is_clean(s->key) || s->type >= CRN_TYPES)
        return "a stream's variable is not valid";
    for (i = 0; i < s->nchunks; i++) {
        const struct crn_stream_chunk *c = &s->chunks[i];

        if (c->bytes == 0 || c->bytes > CRN_ENCODED_MAX || c->encoded == 0 ||
            c->encoded > c->bytes || c->nstages > CRN_STAGES_MAX ||
            (c->nstages == 0) != (c->encoded == c->bytes))
            return "a chunk of a stream has a size that no chunk can have";
        bytes += c->bytes;
        encoded += c->encoded;
    }
    if (s->nchunks == 0 || s->bytes == 0 || (s->map_bytes == 0 && s->bytes != bytes))
        return "the chunks of a stream are not the whole stream";
    if (s->file_offset > (uint64_t)INT64_MAX - encoded)
        return "a stream lies beyond any file";
    return NULL;
}

const char *crn_streams_fault(const struct crn_index *x)
{
    const char *fault = NULL;
    uint64_t start = 0;
    uint64_t i;

    for (i = 0; fault == NULL && i < x->nstreams; i++) {
        const struct crn_stream *s = &x->streams[i];

        fault = stream_fault(s);
        if (fault == NULL && (s->start != start || s->bytes > (uint64_t)INT64_MAX - start))
            fault = "the streams are longer than any file";
        start += s->bytes;
    }
    for (i = 0; fault == NULL && x->nstreams > 0 && i < x->nextents; i++) {
        const struct crn_extent *e = &x->extents[i];
        const struct crn_stream *s = crn_index_stream(x, e->file_offset);

        if (s == NULL || e->bytes > s->bytes - (e->file_offset - s->start))
            fault = "an extent does not lie in one stream";
    }
    return fault;
}
