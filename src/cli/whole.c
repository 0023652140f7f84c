/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes the streams of a data file that needs older ones through its chain, and encodes them
 * again without it. The extents and their checksums stay the same. */
#include "cli/whole.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encode/stream.h"
#include "encode/work.h"

#define STEP ((size_t)4 << 20) /* bytes decoded at a time */

struct whole {
    const struct crn_data_file *from;
    struct crn_decoder *decoder;
    struct crn_chooser *chooser;
    struct crn_encode_work *work;
    unsigned char *buf;
    int fd; /* of the new file */
    const char *file;
    uint64_t end;         /* of the data written */
    struct crn_stream *s; /* the stream being written */
    size_t room;          /* capacity for its chunks */
    struct cli_progress *progress;
};

static cairn_err whole_emit(void *ctx, const struct crn_chunk_record *r, const void *encoded,
                            struct crn_errinfo *ei)
{
    struct whole *w = ctx;
    struct crn_stream_chunk *c;
    void *grown;
    int i;

    if (w->s->nchunks == w->room) {
        w->room = w->room > 0 ? 2 * w->room : 16;
        grown = realloc(w->s->chunks, w->room * sizeof(*c));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu chunks", w->room);
        w->s->chunks = grown;
    }
    c = &w->s->chunks[w->s->nchunks++];
    *c = (struct crn_stream_chunk){.bytes = r->bytes, .encoded = r->encoded, .hash = r->hash};
    c->nstages = r->pipe.n;
    for (i = 0; i < r->pipe.n; i++) {
        c->stages[2 * i] = r->pipe.stage[i].id;
        c->stages[2 * i + 1] = r->pipe.stage[i].arg;
    }
    w->end += r->encoded;
    return crn_fs_write_all(w->from->fs, w->fd, encoded, r->encoded, w->end - r->encoded, w->file,
                            ei);
}

/* Feeds all bytes of a stream to the encoder. */
static cairn_err whole_pump(struct whole *w, const struct crn_stream *s, struct crn_encoder *e,
                            struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t n;

    for (at = 0; rc == CAIRN_OK && at < s->bytes; at += n) {
        n = s->bytes - at < STEP ? (size_t)(s->bytes - at) : STEP;
        rc = crn_data_decoded(w->from, s->start + at, w->buf, n, &w->decoder, ei);
        if (rc == CAIRN_OK)
            rc = crn_encoder_put(e, w->buf, n, NULL, NULL, ei);
        crn_progress_add(w->progress, n);
    }
    return rc;
}

static cairn_err encode_again(struct whole *w, const struct crn_stream *s, struct crn_errinfo *ei)
{
    struct crn_stream_options o = {
        .type = s->type, .bytes = s->bytes, .key = s->key, .chooser = w->chooser};
    struct crn_encoder *e = NULL;
    struct crn_map map = {0};
    cairn_err rc;

    *w->s = *s; /* key, type, start, bytes */
    w->s->file_offset = w->end;
    w->s->nchunks = 0;
    w->s->chunks = NULL;
    w->s->map_bytes = 0;
    w->s->map = NULL;
    w->room = 0;
    rc = crn_encoder_open(&o, w->work, whole_emit, w, &e, ei);
    if (rc == CAIRN_OK)
        rc = whole_pump(w, s, e, ei);
    if (rc == CAIRN_OK)
        rc = crn_encoder_finish(e, &map, ei); /* empty: no dedup was requested */
    crn_map_free(&map);
    crn_encoder_close(e);
    return rc;
}

cairn_err crn_cli_make_whole(const struct crn_data_file *from, int fd, const char *file,
                             struct cli_progress *progress, struct crn_index *ret,
                             uint64_t *ret_end, struct crn_errinfo *ei)
{
    static const struct crn_choose_options ratio = {.aim = CRN_AIM_RATIO};
    struct whole w = {.from = from, .fd = fd, .file = file, .progress = progress};
    struct crn_index x = *from->index;
    cairn_err rc;

    x.nbases = 0;
    x.bases = NULL;
    x.nstreams = 0;
    x.streams = calloc(from->index->nstreams, sizeof(*x.streams));
    w.buf = malloc(STEP);
    rc = x.streams == NULL || w.buf == NULL
             ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "make '%s' whole", from->what)
             : crn_work_new(&w.work, ei);
    if (rc == CAIRN_OK)
        rc = crn_chooser_open(&ratio, &w.chooser, ei);
    while (rc == CAIRN_OK && x.nstreams < from->index->nstreams) {
        w.s = &x.streams[x.nstreams];
        rc = encode_again(&w, &from->index->streams[x.nstreams++], ei);
    }
    crn_decoder_free(w.decoder);
    crn_chooser_close(w.chooser);
    crn_work_free(w.work);
    free(w.buf);
    if (rc != CAIRN_OK) {
        crn_streams_free(x.streams, x.nstreams);
        return rc;
    }
    *ret = x;
    *ret_end = w.end;
    return CAIRN_OK;
}
