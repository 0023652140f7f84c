/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes the streams of a write. An extent's hashes are those of the bytes that a reader will
 * get: the source's, or, if the encoding is lossy, those of the decoded chunks. */
#include "aggregate/coder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aggregate/encoding.h"
#include "aggregate/repeats.h"
#include "base/clock.h"
#include "encode/parts.h"
#include "encode/stream.h"
#include "encode/work.h"

#define FIRST_BANDWIDTH 1e9                  /* bytes per second, before the first measurement */
#define REPEAT_MIN      ((uint64_t)16 << 10) /* shorter streams are not deduplicated */
#define MOST_NOTED      64                   /* per write */
#define BANDWIDTH_WORTH 0.25                 /* weight of the last write in the moving average */

struct crn_coder {
    struct crn_encode_work *work;
    struct crn_chooser *chooser;
    double bandwidth; /* of this thread's writes */
};

/* A stream of the current write that may repeat another, or be repeated. */
struct noted {
    struct crn_print print;
    struct crn_stream *stream;
    int is_repeat;
};

/* The write being encoded. */
struct coder_job {
    struct crn_coder *coder;
    struct crn_pieces *all;
    unsigned char *block;
    uint64_t in;  /* bytes of the write that have been encoded */
    uint64_t out; /* bytes of the block that are encoded */
    int has_read; /* the file data of the current stream has been read into the block */
    struct crn_stream *stream;
    struct noted noted[MOST_NOTED]; /* in the order of the streams */
    uint32_t nnoted;
};

void crn_coder_close(struct crn_coder *c)
{
    if (c == NULL)
        return;
    crn_chooser_close(c->chooser);
    crn_work_free(c->work);
    free(c);
}

int64_t crn_coder_cpu_ns(const struct crn_coder *c)
{
    struct crn_chooser_stats s;

    if (c == NULL)
        return 0;
    crn_chooser_stats(c->chooser, &s);
    return s.trial_ns + s.encode_ns;
}

static cairn_err coder_make(const struct crn_encoding *x, struct crn_coder **ret,
                            struct crn_errinfo *ei)
{
    struct crn_choose_options options = {.aim = x->aim, .bandwidth = FIRST_BANDWIDTH};
    struct crn_coder *c = calloc(1, sizeof(*c));
    cairn_err rc;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a coder");
    rc = crn_work_new(&c->work, ei);
    if (rc == CAIRN_OK)
        rc = crn_chooser_open(&options, &c->chooser, ei);
    if (rc != CAIRN_OK) {
        crn_coder_close(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

static cairn_err coder_emit(void *ctx, const struct crn_chunk_record *record, const void *encoded,
                            struct crn_errinfo *ei)
{
    struct coder_job *j = ctx;
    struct crn_stream_chunk *c = &j->stream->chunks[j->stream->nchunks++];
    int k;

    (void)ei;
    memmove(j->block + j->out, encoded, record->encoded);
    j->out += record->encoded;
    c->bytes = record->bytes;
    c->encoded = record->encoded;
    c->hash = record->hash;
    c->nstages = record->pipe.n;
    for (k = 0; k < c->nstages; k++) {
        c->stages[2 * k] = record->pipe.stage[k].id;
        c->stages[2 * k + 1] = record->pipe.stage[k].arg;
    }
    return CAIRN_OK;
}

static struct crn_extent *extent_of(const struct crn_pieces *all, uint64_t i)
{
    return &all->plan->extents[all->plan->order[i]];
}

/* source: holds the bytes as captured; NULL if the encoding lost some. */
static void hash_chunks(struct crn_pieces *all, const struct crn_source *source,
                        const struct crn_extent *x, uint64_t at, const unsigned char *p, uint64_t n)
{
    uint64_t step = all->chunk_bytes;
    uint64_t i = x->first_hash + at / step;
    uint64_t done;

    for (done = 0; done < n; done += step) {
        uint64_t k = n - done < step ? n - done : step;

        all->hashes[i++] = source != NULL ? crn_source_hash(source, x, at + done, p + done, k)
                                          : crn_hash(p + done, k);
    }
}

/* A range of an extent, in the terms of the merging plan. */
static struct crn_merge_piece piece_of(const struct crn_source *source, const struct crn_extent *x,
                                       uint64_t at, uint64_t n)
{
    struct crn_merge_piece piece = {
        .shard = x->shard, .region = x->region, .offset = x->offset + at, .bytes = n};

    if (source->parts != NULL) {
        piece.region = crn_parts_find(source->parts, x->region, x->offset);
        piece.offset -= source->parts->part[piece.region].offset;
    }
    return piece;
}

/* Locates an extent: in memory, or at its place in the block, into which file data is read. */
static cairn_err coder_bring(struct coder_job *j, const struct crn_extent *x,
                             const unsigned char **ret, struct crn_errinfo *ei)
{
    const struct crn_source *source = &j->all->sources[x->shard];
    unsigned char *place = j->block + j->in;
    const unsigned char *p = source->owner == 0 ? crn_source_memory(source, x) : place;
    int is_there = p != NULL || j->has_read;

    *ret = p != NULL ? p : place;
    return is_there ? CAIRN_OK : crn_source_read(source, x, j->all->out->st->fs, place, ei);
}

/* Locates the older version of an extent: in memory or in the block, like the new one. */
static const unsigned char *older_of(const struct coder_job *j, const struct crn_extent *x)
{
    const struct crn_source *older = &j->all->older[x->shard];

    return older->owner == 0 ? crn_source_memory(older, x) : j->block + j->all->older_at + j->in;
}

/* Hands an extent to the encoder, in steps small enough to stay in the cache between hash and
 * encoding. */
static cairn_err put_extent(struct coder_job *j, struct crn_encoder *e,
                            const struct crn_plan_stream *stream, struct crn_extent *x,
                            struct crn_errinfo *ei)
{
    struct crn_pieces *all = j->all;
    const struct crn_source *source = &all->sources[x->shard];
    uint64_t step = (all->encoding->chunk_bytes / all->chunk_bytes + 1) * all->chunk_bytes;
    const unsigned char *older = stream->has_older ? older_of(j, x) : NULL;
    const unsigned char *p;
    uint64_t at;
    cairn_err rc;

    rc = coder_bring(j, x, &p, ei);
    for (at = 0; rc == CAIRN_OK && at < x->bytes; at += step) {
        uint64_t n = x->bytes - at < step ? x->bytes - at : step;
        struct crn_merge_piece piece = piece_of(source, x, at, n);
        struct crn_run run = crn_merge_run(all->plan->merge, &piece);

        if (stream->lossy < 0)
            hash_chunks(all, source, x, at, p + at, n);
        rc = crn_encoder_put(e, p + at, n, &run, older != NULL ? older + at : NULL, ei);
    }
    j->in += x->bytes;
    return rc;
}

/* Lossy streams: the hashes of what can be decoded. -------------------------------------------- */

static cairn_err coder_fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    const struct coder_job *j = ctx;
    const struct crn_stream *s = j->stream;
    uint64_t at = s->file_offset;
    size_t i;

    (void)ei;
    for (i = 0; i < chunk; i++)
        at += s->chunks[i].encoded;
    memcpy(buf, j->block + at, s->chunks[chunk].encoded);
    return CAIRN_OK;
}

static cairn_err hash_decoded(struct coder_job *j, const struct crn_plan_stream *s,
                              struct crn_errinfo *ei)
{
    struct crn_chunk_record *records = calloc(j->stream->nchunks, sizeof(*records));
    struct crn_reader_options options = {
        .records = records, .n = j->stream->nchunks, .fetch = coder_fetch, .ctx = j};
    unsigned char *bytes = malloc(s->bytes);
    struct crn_reader *reader = NULL;
    cairn_err rc = CAIRN_OK;
    uint64_t at = 0;
    uint32_t i;

    if (records == NULL || bytes == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a lossy stream of %llu bytes",
                      (unsigned long long)s->bytes);
    for (i = 0; rc == CAIRN_OK && i < j->stream->nchunks; i++) {
        const struct crn_stream_chunk *c = &j->stream->chunks[i];

        records[i] = (struct crn_chunk_record){
            .offset = at, .bytes = c->bytes, .encoded = c->encoded, .hash = c->hash};
        at += c->bytes;
    }
    if (rc == CAIRN_OK)
        rc = crn_reader_open(&options, j->coder->work, &reader, ei);
    if (rc == CAIRN_OK)
        rc = crn_reader_read(reader, 0, bytes, s->bytes, ei);
    for (i = 0, at = 0; rc == CAIRN_OK && i < s->nsegments; i++) {
        const struct crn_extent *x = extent_of(j->all, s->first + i);

        hash_chunks(j->all, NULL, x, 0, bytes + at, x->bytes);
        at += x->bytes;
    }
    crn_reader_close(reader);
    free(records);
    free(bytes);
    return rc;
}

/* Streams. ------------------------------------------------------------------------------------- */

static void set_options(struct coder_job *j, const struct crn_plan_stream *s,
                        struct crn_stream_options *ret)
{
    const struct crn_encoding *x = j->all->encoding;
    const struct crn_merge_stream *merged = crn_merge_stream(j->all->plan->merge, s->merged);

    *ret = (struct crn_stream_options){
        .type = s->type, .chunk_bytes = x->chunk_bytes, .bytes = merged->bytes, .key = merged->key};
    if (s->lossy >= 0) {
        ret->pipe = x->lossy[s->lossy].pipe;
        ret->tolerance = x->lossy[s->lossy].tolerance;
    } else if (x->is_adaptive) {
        ret->chooser = j->coder->chooser;
        /* otherwise offsets must not change: the next version may refer to them */
        ret->dedup = x->full_every == 1;
    } else {
        ret->pipe = merged->is_small ? x->small : x->pipe[s->type];
        if (!s->has_older)
            crn_pipe_forget_previous(&ret->pipe);
    }
}

/* Serializes the encoder's map into the index. */
static cairn_err keep_map(struct crn_stream *stream, struct crn_map *map, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};

    if (map->n == 0)
        return CAIRN_OK;
    crn_map_encode(map, &buf);
    crn_map_free(map);
    if (buf.failed || buf.len > UINT32_MAX) {
        crn_buf_free(&buf);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the map of a stream");
    }
    stream->map = buf.data;
    stream->map_bytes = (uint32_t)buf.len;
    return CAIRN_OK;
}

static cairn_err coder_prepare(struct coder_job *j, const struct crn_plan_stream *s,
                               const struct crn_stream_options *options, struct crn_errinfo *ei)
{
    struct crn_stream *stream = &j->all->streams[s - j->all->plan->streams];

    j->stream = stream;
    stream->type = (uint8_t)s->type;
    stream->start = s->start;
    stream->bytes = s->bytes;
    /* relative to the block, until the block has its offset in the file */
    stream->file_offset = j->out;
    stream->chunks = calloc(s->bytes / options->chunk_bytes + 1, sizeof(*stream->chunks));
    if (stream->chunks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a stream of %llu bytes",
                        (unsigned long long)s->bytes);
    (void)strncpy(stream->key, options->key, sizeof(stream->key) - 1);
    return CAIRN_OK;
}

/* Copies the description of an equal stream, whose bytes are already in the file. */
static cairn_err coder_repeat(struct coder_job *j, const struct crn_stream *same,
                              struct crn_errinfo *ei)
{
    struct crn_stream *s = j->stream;

    s->map = same->map_bytes > 0 ? malloc(same->map_bytes) : NULL;
    if (same->map_bytes > 0 && s->map == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the map of a stream");
    if (s->map != NULL)
        memcpy(s->map, same->map, same->map_bytes);
    s->map_bytes = same->map_bytes;
    memcpy(s->chunks, same->chunks, same->nchunks * sizeof(*s->chunks));
    s->nchunks = same->nchunks;
    s->file_offset = same->file_offset;
    return CAIRN_OK;
}

/* Computes the fingerprint of a stream. */
static cairn_err print_stream(struct coder_job *j, const struct crn_plan_stream *s,
                              struct crn_print *print, struct crn_errinfo *ei)
{
    uint64_t in = j->in;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    *print = crn_repeats_print(j->all->repeats);
    crn_print_add(print, &s->merged, sizeof(s->merged));
    for (i = 0; rc == CAIRN_OK && i < s->nsegments; i++) {
        const struct crn_extent *x = extent_of(j->all, s->first + i);
        const unsigned char *p;

        rc = coder_bring(j, x, &p, ei);
        if (rc == CAIRN_OK)
            crn_print_add(print, p, x->bytes);
        if (s->has_older)
            crn_print_add(print, older_of(j, x), x->bytes);
        j->in += x->bytes;
    }
    j->in = in;
    j->has_read = 1;
    return rc;
}

/* Replaces this stream by an equal one, if there is one; otherwise notes it for later streams. */
static cairn_err try_repeat(struct coder_job *j, const struct crn_plan_stream *s, int *ret_is_done,
                            struct crn_errinfo *ei)
{
    const struct crn_stream *same;
    struct noted *n = &j->noted[j->nnoted];
    cairn_err rc;
    uint32_t i;

    *ret_is_done = 0;
    if (j->all->repeats == NULL || s->lossy >= 0 || s->bytes < REPEAT_MIN ||
        j->nnoted == MOST_NOTED)
        return CAIRN_OK;
    rc = print_stream(j, s, &n->print, ei);
    if (rc != CAIRN_OK)
        return rc;
    same = crn_repeats_find(j->all->repeats, &n->print);
    n->stream = j->stream;
    n->is_repeat = same != NULL;
    j->nnoted++;
    if (same == NULL)
        return CAIRN_OK;
    *ret_is_done = 1;
    for (i = 0; rc == CAIRN_OK && i < s->nsegments; i++) {
        const struct crn_extent *x = extent_of(j->all, s->first + i);
        const unsigned char *p;

        rc = coder_bring(j, x, &p, ei);
        if (rc == CAIRN_OK)
            hash_chunks(j->all, &j->all->sources[x->shard], x, 0, p, x->bytes);
        j->in += x->bytes;
    }
    return rc == CAIRN_OK ? coder_repeat(j, same, ei) : rc;
}

/* Assigns the extents their offsets in the stream. */
static void place_extents(struct coder_job *j, const struct crn_plan_stream *s)
{
    uint64_t at = s->start;
    uint32_t i;

    for (i = 0; i < s->nsegments; i++) {
        struct crn_extent *x = extent_of(j->all, s->first + i);

        x->file_offset = at;
        at += x->bytes;
    }
}

static cairn_err encode_anew(struct coder_job *j, const struct crn_plan_stream *s,
                             const struct crn_stream_options *options, struct crn_errinfo *ei)
{
    struct crn_encoder *e = NULL;
    struct crn_map map = {0};
    cairn_err rc;
    uint32_t i;

    rc = crn_encoder_open(options, j->coder->work, coder_emit, j, &e, ei);
    for (i = 0; rc == CAIRN_OK && i < s->nsegments; i++)
        rc = put_extent(j, e, s, extent_of(j->all, s->first + i), ei);
    if (rc == CAIRN_OK)
        rc = crn_encoder_finish(e, &map, ei);
    if (rc == CAIRN_OK)
        rc = keep_map(j->stream, &map, ei);
    crn_encoder_close(e);
    if (rc == CAIRN_OK && s->lossy >= 0)
        rc = hash_decoded(j, s, ei);
    return rc;
}

static cairn_err encode_stream(struct coder_job *j, const struct crn_plan_stream *s,
                               struct crn_errinfo *ei)
{
    struct crn_stream_options options;
    int is_done = 0;
    cairn_err rc;

    set_options(j, s, &options);
    place_extents(j, s);
    j->has_read = 0;
    rc = coder_prepare(j, s, &options, ei);
    if (rc == CAIRN_OK)
        rc = try_repeat(j, s, &is_done, ei);
    return rc == CAIRN_OK && !is_done ? encode_anew(j, s, &options, ei) : rc;
}

/* Assigns the streams of a write their offsets in the file; repeated streams already have them. */
static void place_streams(struct coder_job *j, const struct crn_write *w, uint64_t place)
{
    uint32_t k = 0;
    uint32_t i;

    for (i = 0; i < w->nstreams; i++) {
        struct crn_stream *s = &j->all->streams[w->first_stream + i];
        const struct noted *n = k < j->nnoted && j->noted[k].stream == s ? &j->noted[k++] : NULL;

        if (n == NULL || !n->is_repeat)
            s->file_offset += place;
        if (n != NULL && !n->is_repeat)
            crn_repeats_enter(j->all->repeats, &n->print, s);
    }
}

static cairn_err write_out(struct coder_job *j, const struct crn_write *w, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    uint64_t place = crn_outfile_reserve(j->all->out, j->out);
    int64_t start = clock->mono_ns(clock);
    double seconds;
    cairn_err rc;

    place_streams(j, w, place);
    if (j->out == 0) /* every stream repeats another */
        return CAIRN_OK;
    rc = crn_outfile_write(j->all->out, j->block, j->out, place, ei);
    if (rc == CAIRN_OK)
        rc = crn_outfile_pad(j->all->out, j->out, place, ei);
    seconds = (double)(clock->mono_ns(clock) - start) * 1e-9 + 1e-9;
    j->coder->bandwidth = j->coder->bandwidth > 0 ? (1 - BANDWIDTH_WORTH) * j->coder->bandwidth +
                                                        BANDWIDTH_WORTH * (double)j->out / seconds
                                                  : (double)j->out / seconds;
    return rc;
}

cairn_err crn_coder_write(struct crn_coder **coder, struct crn_pieces *all,
                          const struct crn_piece *p, struct crn_errinfo *ei)
{
    struct coder_job j = {.all = all, .block = p->block};
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (*coder == NULL)
        rc = coder_make(all->encoding, coder, ei);
    if (rc != CAIRN_OK)
        return rc;
    j.coder = *coder;
    if (all->bandwidth > 0 || j.coder->bandwidth > 0)
        crn_chooser_bandwidth(j.coder->chooser,
                              all->bandwidth > 0 ? all->bandwidth : j.coder->bandwidth);
    for (i = 0; rc == CAIRN_OK && i < p->w->nstreams; i++)
        rc = encode_stream(&j, &all->plan->streams[p->w->first_stream + i], ei);
    return rc == CAIRN_OK ? write_out(&j, p->w, ei) : rc;
}
