/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads through the streams of an encoded data file. One stream is open at a time; whoever reads in the
 * order of the streams decodes every chunk once. */
#include "store/decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encode/stream.h"
#include "encode/work.h"

struct crn_decoder {
    struct crn_work *work;
    /* The open stream; NULL: none. */
    const struct crn_stream *stream;
    struct crn_chunk_record *records;
    uint64_t *places; /* of the chunks, in the file */
    struct crn_map map;
    struct crn_reader *reader;
    /* Of the call in hand. */
    const struct crn_fs *fs;
    int fd;
    const char *what;
};

static void close_stream(struct crn_decoder *d)
{
    crn_reader_close(d->reader);
    crn_map_free(&d->map);
    free(d->records);
    free(d->places);
    d->reader = NULL;
    d->records = NULL;
    d->places = NULL;
    d->stream = NULL;
}

void crn_decoder_free(struct crn_decoder *d)
{
    if (d == NULL)
        return;
    close_stream(d);
    crn_work_free(d->work);
    free(d);
}

static cairn_err make(struct crn_decoder **ret, struct crn_errinfo *ei)
{
    struct crn_decoder *d = calloc(1, sizeof(*d));
    cairn_err rc;

    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a decoder");
    rc = crn_work_new(&d->work, ei);
    if (rc != CAIRN_OK) {
        free(d);
        return rc;
    }
    *ret = d;
    return CAIRN_OK;
}

static cairn_err fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    struct crn_decoder *d = ctx;

    return crn_fs_read_all(d->fs, d->fd, buf, d->records[chunk].encoded, d->places[chunk], d->what,
                           ei);
}

static void fill_records(struct crn_decoder *d, const struct crn_stream *s)
{
    uint64_t place = s->file_offset;
    uint64_t offset = 0;
    uint32_t i;
    int k;

    for (i = 0; i < s->nchunks; i++) {
        const struct crn_stream_chunk *c = &s->chunks[i];
        struct crn_chunk_record *r = &d->records[i];

        *r = (struct crn_chunk_record){
            .offset = offset, .bytes = c->bytes, .encoded = c->encoded, .hash = c->hash};
        r->pipe.n = c->nstages;
        for (k = 0; k < c->nstages; k++) {
            r->pipe.stage[k].id = c->stages[2 * k];
            r->pipe.stage[k].arg = c->stages[2 * k + 1];
        }
        d->places[i] = place;
        offset += c->bytes;
        place += c->encoded;
    }
}

static cairn_err take_map(struct crn_decoder *d, const struct crn_stream *s, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(s->map, s->map_bytes);
    cairn_err rc;

    if (s->map_bytes == 0)
        return CAIRN_OK;
    rc = crn_map_decode(&v, &d->map, ei);
    if (rc == CAIRN_OK && (crn_view_left(&v) != 0 || d->map.bytes != s->bytes))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the map of a stream is not that of its bytes",
                      d->what);
    return rc;
}

static cairn_err open_stream(struct crn_decoder *d, const struct crn_stream *s,
                             struct crn_errinfo *ei)
{
    struct crn_reader_options options = {.n = s->nchunks, .fetch = fetch, .ctx = d};
    cairn_err rc;

    close_stream(d);
    d->records = calloc(s->nchunks, sizeof(*d->records));
    d->places = calloc(s->nchunks, sizeof(*d->places));
    if (d->records == NULL || d->places == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a stream of %u chunks", (unsigned)s->nchunks);
    fill_records(d, s);
    rc = take_map(d, s, ei);
    options.records = d->records;
    options.map = &d->map;
    if (rc == CAIRN_OK)
        rc = crn_reader_open(&options, d->work, &d->reader, ei);
    if (rc == CAIRN_OK)
        d->stream = s;
    return rc;
}

cairn_err crn_decoder_read(struct crn_decoder **decoder, const struct crn_fs *fs, int fd,
                           const struct crn_index *x, uint64_t at, void *dst, size_t n,
                           const char *what, struct crn_errinfo *ei)
{
    const struct crn_stream *s = crn_index_stream(x, at); /* there: the index was checked */
    cairn_err rc = CAIRN_OK;
    struct crn_decoder *d;

    if (*decoder == NULL)
        rc = make(decoder, ei);
    if (rc != CAIRN_OK)
        return rc;
    d = *decoder;
    d->fs = fs;
    d->fd = fd;
    d->what = what;
    if (d->stream != s)
        rc = open_stream(d, s, ei);
    if (rc == CAIRN_OK)
        rc = crn_reader_read(d->reader, at - s->start, dst, n, ei);
    /* Which chunks a failed read has kept is not known. */
    if (rc != CAIRN_OK)
        close_stream(d);
    return rc;
}
