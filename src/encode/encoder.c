/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills chunks and encodes them. Input that makes up a whole chunk by itself is encoded in
 * place, without a copy. */
#include "encode/stream.h"

#include <stdlib.h>
#include <string.h>
#include "encode/chunk.h"
#include "encode/work.h"

/* The search stops if less than SEARCH_WORTH of this many bytes were repeats. */
#define SEARCH_BYTES ((uint64_t)16 << 20)
#define SEARCH_WORTH 0.01
#define ROWS_MIN     8 /* chunks with fewer rows begin anywhere */

struct crn_encoder {
    struct crn_stream_options options;
    struct crn_encode_work *work; /* borrowed */
    crn_emit *emit;
    void *ctx;
    uint64_t offset; /* of the next chunk */
    size_t fill;
    unsigned char *chunk;    /* chunk_bytes; this and the next two belong to the work */
    unsigned char *previous; /* of the older version; NULL until there is one */
    unsigned char *encoded;  /* chunk_bytes */
    uint32_t nruns;
    int is_torn;       /* the next bytes do not continue the last run */
    uint64_t row_left; /* elements until the last run ends, with its row; 0: it continues */
    struct crn_run runs[CRN_RUNS_MAX + 1];
    struct crn_dedup *dedup; /* NULL: not searched, or no longer */
    struct crn_map map;
};

/* The arguments of crn_encoder_put, for the dedup sink. */
struct source {
    struct crn_encoder *e;
    const unsigned char *begin;
    const struct crn_run *run;
    const unsigned char *previous;
};

cairn_err crn_encoder_open(const struct crn_stream_options *options, struct crn_encode_work *work,
                           crn_emit *emit, void *ctx, struct crn_encoder **ret,
                           struct crn_errinfo *ei)
{
    size_t n = options->chunk_bytes > 0 ? options->chunk_bytes : CRN_STREAM_CHUNK;
    struct crn_encoder *e;
    cairn_err rc;

    if (n < CRN_CHUNK_MIN_BYTES || n > CRN_CHUNK_MAX_BYTES || n % 16 != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "chunks of %zu bytes: 64 KiB to 4 MiB are possible",
                        n);
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "an encoder");
    e->options = *options;
    e->options.chunk_bytes = n;
    e->work = work;
    e->emit = emit;
    e->ctx = ctx;
    rc = crn_work_scratch(work, CRN_SLOT_CHUNK, n, &e->chunk, ei);
    if (rc == CAIRN_OK)
        rc = crn_work_scratch(work, CRN_SLOT_ENCODED, n, &e->encoded, ei);
    if (rc == CAIRN_OK && options->dedup)
        rc = crn_dedup_open(crn_word_of(options->type).width, &e->dedup, ei);
    if (rc != CAIRN_OK) {
        crn_encoder_close(e);
        return rc;
    }
    *ret = e;
    return CAIRN_OK;
}

void crn_encoder_close(struct crn_encoder *e)
{
    if (e == NULL)
        return;
    crn_dedup_close(e->dedup);
    crn_map_free(&e->map);
    free(e);
}

/* Encodes n bytes into ret, or sets it to NULL if they stay raw. */
static cairn_err encode_bytes(struct crn_encoder *e, const struct crn_data *data, const void *src,
                              struct crn_chunk_record *record, const unsigned char **ret,
                              struct crn_errinfo *ei)
{
    struct crn_chooser *chooser = e->options.chooser;
    uint64_t done = e->offset;
    uint64_t ahead = e->options.bytes > done ? e->options.bytes - done : 0;
    struct crn_choice choice = {.pipe = e->options.pipe};
    struct crn_data taken;
    struct crn_run run;
    int64_t before = 0;
    size_t size = record->bytes;
    cairn_err rc = CAIRN_OK;

    *ret = NULL;
    if (chooser != NULL) {
        rc = crn_choose(chooser, e->work, e->options.key, data, src, size, ahead, &choice, ei);
        before = crn_chooser_cpu_ns(chooser);
    }
    record->pipe = choice.pipe;
    if (rc == CAIRN_OK && choice.encoded != NULL) {
        size = choice.encoded_n;
        *ret = choice.encoded;
    } else if (rc == CAIRN_OK && choice.pipe.n > 0) {
        crn_as_data(data, choice.as, size, &run, &taken);
        rc = crn_chunk_encode(e->work, &choice.pipe, &taken, src, size, e->encoded, &size,
                              &record->pipe, ei);
        *ret = e->encoded;
    }
    if (rc != CAIRN_OK)
        return rc;
    if (chooser != NULL)
        crn_choose_learn(chooser, e->options.key, data, record->bytes, size,
                         choice.encoded_ns + crn_chooser_cpu_ns(chooser) - before);
    record->encoded = (uint32_t)size;
    if (size == record->bytes)
        *ret = NULL;
    return CAIRN_OK;
}

static cairn_err encode_chunk(struct crn_encoder *e, const unsigned char *src,
                              const unsigned char *previous, size_t n, struct crn_errinfo *ei)
{
    struct crn_data data = {.type = e->options.type,
                            .nruns = e->nruns > CRN_RUNS_MAX ? 0 : e->nruns,
                            .runs = e->runs,
                            .previous = previous,
                            .tolerance = e->options.tolerance};
    struct crn_chunk_record record = {.offset = e->offset, .bytes = (uint32_t)n};
    const unsigned char *encoded;
    cairn_err rc = encode_bytes(e, &data, src, &record, &encoded, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (encoded == NULL) {
        record.pipe.n = 0;
        encoded = src;
    }
    record.hash = crn_hash(encoded, record.encoded);
    e->offset += n;
    e->fill = 0;
    e->nruns = 0;
    e->row_left = 0;
    return e->emit(e->ctx, &record, encoded, ei);
}

/* Elements until a run in the middle of a row should end, so that the next begins with a row: numbers are
 * predicted across rows, and the first ones of a row not from the row before. 0: no need. */
static uint64_t rest_of_row(const struct crn_encoder *e, const struct crn_run *run)
{
    uint64_t row = run->stride[1];
    uint64_t room = e->options.chunk_bytes / cairn_type_size(e->options.type);

    if (row == 0 || room / ROWS_MIN < row || !crn_word_of(e->options.type).is_float)
        return 0;
    return run->place % row > 0 ? row - run->place % row : 0;
}

/* Begins a run; 0 if the chunk has too many. */
static int begin_run(struct crn_encoder *e, const struct crn_run *run)
{
    e->is_torn = 0;
    if (e->nruns > CRN_RUNS_MAX)
        return 0;
    e->runs[e->nruns] = *run;
    e->runs[e->nruns++].elements = 0;
    e->row_left = rest_of_row(e, run);
    return 1;
}

/* Records that n more bytes follow; adjacent ones of one array form one run. */
static void add_run(struct crn_encoder *e, size_t n, struct crn_run run)
{
    uint64_t elements = n / cairn_type_size(e->options.type);

    while (elements > 0) {
        uint64_t some = elements;

        if ((e->nruns == 0 || e->is_torn) && !begin_run(e, &run))
            return;
        if (e->row_left > 0 && some >= e->row_left) {
            some = e->row_left;
            e->is_torn = 1;
        }
        e->row_left -= e->row_left > 0 ? some : 0;
        e->runs[e->nruns - 1].elements += some;
        run.place += some;
        elements -= some;
    }
}

static cairn_err keep_previous(struct crn_encoder *e, const unsigned char *previous, size_t n,
                               struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (previous == NULL)
        return CAIRN_OK;
    if (e->previous == NULL)
        rc = crn_work_scratch(e->work, CRN_SLOT_PREVIOUS, e->options.chunk_bytes, &e->previous, ei);
    if (rc == CAIRN_OK)
        memcpy(e->previous + e->fill, previous, n);
    return rc;
}

static cairn_err put_new(struct crn_encoder *e, const unsigned char *p,
                         const unsigned char *previous, size_t n, struct crn_run run,
                         struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    while (n > 0 && rc == CAIRN_OK) {
        size_t room = e->options.chunk_bytes - e->fill;
        size_t m = n < room ? n : room;

        add_run(e, m, run);
        if (m == e->options.chunk_bytes) {
            rc = encode_chunk(e, p, previous, m, ei);
        } else {
            rc = keep_previous(e, previous, m, ei);
            if (rc != CAIRN_OK)
                return rc;
            memcpy(e->chunk + e->fill, p, m);
            e->fill += m;
            if (e->fill == e->options.chunk_bytes)
                rc = encode_chunk(e, e->chunk, previous != NULL ? e->previous : NULL, e->fill, ei);
        }
        run.place += m / cairn_type_size(e->options.type);
        p += m;
        previous = previous != NULL ? previous + m : NULL;
        n -= m;
    }
    return rc;
}

static cairn_err encoder_sink(void *ctx, const unsigned char *bytes, size_t n, uint64_t seen,
                              struct crn_errinfo *ei)
{
    const struct source *s = ctx;
    struct crn_run run = {.stride = {1, 0, 0}};
    cairn_err rc = crn_map_add(&s->e->map, n, seen, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (seen != CRN_BLOCK_NEW) {
        s->e->is_torn = 1;
        return CAIRN_OK;
    }
    if (s->run != NULL)
        run = *s->run;
    run.place += (uint64_t)(bytes - s->begin) / cairn_type_size(s->e->options.type);
    return put_new(s->e, bytes, s->previous != NULL ? s->previous + (bytes - s->begin) : NULL, n,
                   run, ei);
}

/* Does this run continue where the last one ended, in the same array? */
static int continues_last(const struct crn_encoder *e, const struct crn_run *run)
{
    const struct crn_run *last = e->nruns > 0 ? &e->runs[e->nruns - 1] : NULL;

    return last != NULL && run != NULL && run->place > 0 && e->nruns <= CRN_RUNS_MAX &&
           run->place == last->place + last->elements &&
           memcmp(run->stride, last->stride, sizeof(run->stride)) == 0;
}

cairn_err crn_encoder_put(struct crn_encoder *e, const void *bytes, size_t n,
                          const struct crn_run *run, const void *previous, struct crn_errinfo *ei)
{
    struct source s = {.e = e, .begin = bytes, .run = run, .previous = previous};
    uint64_t all;
    uint64_t fresh;
    cairn_err rc;

    if (!continues_last(e, run))
        e->is_torn = 1;
    if (previous != NULL) { /* older bytes are found by their offset, which must not change */
        crn_dedup_close(e->dedup);
        e->dedup = NULL;
    }
    if (e->dedup == NULL)
        return encoder_sink(&s, bytes, n, CRN_BLOCK_NEW, ei);
    rc = crn_dedup_put(e->dedup, bytes, n, encoder_sink, &s, ei);
    crn_dedup_stats(e->dedup, &all, &fresh);
    if (all >= SEARCH_BYTES && (double)(all - fresh) < SEARCH_WORTH * (double)all) {
        crn_dedup_close(e->dedup);
        e->dedup = NULL;
    }
    return rc;
}

cairn_err crn_encoder_finish(struct crn_encoder *e, struct crn_map *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (e->fill > 0)
        rc = encode_chunk(e, e->chunk, e->previous, e->fill, ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret = e->map;
    memset(&e->map, 0, sizeof(e->map));
    if (ret->n <= 1) /* all bytes are new and in order */
        crn_map_free(ret);
    return CAIRN_OK;
}
