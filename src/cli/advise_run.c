/* SPDX-License-Identifier: BSD-3-Clause */
/* One scheme and pipeline on a sample: encodes every stream, decodes it, compares. */
#include "cli/advise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "encode/stream.h"
#include "encode/work.h"

#define RECORD_BYTES 24 /* size of a chunk's index record */

/* The agnostic schemes see bytes, so only byte codecs are tried on them. */
static const struct advise_method methods[] = {
    {CRN_AGNOSTIC, "raw"},
    {CRN_AGNOSTIC, "gzip:6"},
    {CRN_AGNOSTIC, "zstd:1"},
    {CRN_AGNOSTIC, "lz4"},
    {CRN_AGNOSTIC_BLOCK, "gzip:6"},
    {CRN_AGNOSTIC_BLOCK, "zstd:1"},
    {CRN_AGNOSTIC_BLOCK, "lz4"},
    {CRN_AWARE, "paper"},
    {CRN_AWARE, "gzip:6"},
    {CRN_AWARE, "zstd:1"},
    {CRN_AWARE, "lz4"},
    {CRN_AWARE, "shuffle,zstd:1"},
    {CRN_AWARE, "bitshuffle,lz4"},
    {CRN_AWARE, "planes"},
    {CRN_AWARE, "lorenzo:1,planes"},
    {CRN_AWARE, "lorenzo:3,planes"},
    {CRN_AWARE, "lorenzo:7,planes"},
    {CRN_AWARE, "swap,lorenzo:3,magnitude"},
    {CRN_AWARE, "lorenzo:1,magnitude"},
    {CRN_AWARE, "lorenzo:3,magnitude"},
    {CRN_AWARE, "lorenzo:7,magnitude"},
    {CRN_AWARE, "adaptive"},
    {CRN_AWARE_BLOCK, "paper"},
    {CRN_AWARE_BLOCK, "gzip:6"},
    {CRN_AWARE_BLOCK, "shuffle,zstd:1"},
    {CRN_AWARE_BLOCK, "planes"},
    {CRN_AWARE_BLOCK, "lorenzo:1,planes"},
    {CRN_AWARE_BLOCK, "lorenzo:1,magnitude"},
    {CRN_AWARE_BLOCK, "adaptive"},
};

const struct advise_method *crn_advise_methods(size_t *ret_n)
{
    *ret_n = sizeof(methods) / sizeof(methods[0]);
    return methods;
}

static double cpu_s(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An encoded stream. */
struct kept {
    unsigned char *bytes;
    size_t n, room;
    struct crn_chunk_record *records;
    size_t *at; /* offset of each chunk in bytes */
    size_t nrecords, records_room;
};

static void kept_free(struct kept *k)
{
    free(k->bytes);
    free(k->records);
    free(k->at);
    memset(k, 0, sizeof(*k));
}

static cairn_err advise_run_keep(void *ctx, const struct crn_chunk_record *record,
                                 const void *encoded, struct crn_errinfo *ei)
{
    struct kept *k = ctx;

    if (k->n + record->encoded > k->room || k->nrecords == k->records_room)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the encoded sample");
    memcpy(k->bytes + k->n, encoded, record->encoded);
    k->at[k->nrecords] = k->n;
    k->records[k->nrecords++] = *record;
    k->n += record->encoded;
    return CAIRN_OK;
}

static cairn_err advise_run_fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    const struct kept *k = ctx;

    (void)ei;
    memcpy(buf, k->bytes + k->at[chunk], k->records[chunk].encoded);
    return CAIRN_OK;
}

/* Space for a stream: no chunk exceeds its contents, and only the last is below the minimum
 * size. */
static cairn_err kept_init(struct kept *k, uint64_t bytes, struct crn_errinfo *ei)
{
    k->room = bytes + 1;
    k->records_room = bytes / CRN_CHUNK_MIN_BYTES + 2;
    k->bytes = malloc(k->room);
    k->records = calloc(k->records_room, sizeof(*k->records));
    k->at = calloc(k->records_room, sizeof(*k->at));
    if (k->bytes != NULL && k->records != NULL && k->at != NULL)
        return CAIRN_OK;
    kept_free(k);
    return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the encoded sample");
}

struct advise_run_trial {
    const struct advise_sample *sample;
    const struct advise_method *method;
    struct crn_merge *plan;
    struct crn_chooser *chooser; /* NULL: not adaptive */
    struct crn_encode_work *work;
    double encode_s, decode_s;
    uint64_t encoded;
};

/* Streams that the stages do not suit (bytes, small ones) get zstd alone, or nothing. */
static cairn_err pipe_of(const struct advise_run_trial *t, const struct crn_merge_stream *s,
                         struct crn_pipe *ret, struct crn_errinfo *ei)
{
    int is_paper = strcmp(t->method->pipe, "paper") == 0;
    struct crn_data data = {.type = s->type};
    cairn_err rc =
        crn_pipe_parse(is_paper ? crn_pipe_paper(s->type, s->is_small) : t->method->pipe, ret, ei);

    if (rc == CAIRN_OK && !is_paper && ret->n > 1 && (s->is_small || !crn_pipe_fits(ret, &data)) &&
        crn_pipe_parse("zstd:1", ret, NULL) != CAIRN_OK)
        memset(ret, 0, sizeof(*ret));
    return rc;
}

static const unsigned char *bytes_of(const struct advise_run_trial *t,
                                     const struct crn_merge_piece *p)
{
    return t->sample->bytes[p->shard][p->region] + p->offset;
}

static cairn_err advise_run_encode(struct advise_run_trial *t, uint32_t stream, struct kept *k,
                                   struct crn_map *map, struct crn_errinfo *ei)
{
    const struct crn_merge_stream *s = crn_merge_stream(t->plan, stream);
    struct crn_stream_options o = {.type = s->type,
                                   .bytes = s->bytes,
                                   .key = s->key,
                                   .chooser = t->chooser,
                                   .dedup = t->chooser != NULL};
    struct crn_encoder *e = NULL;
    struct crn_merge_cursor c;
    struct crn_merge_piece p;
    cairn_err rc = CAIRN_OK;

    if (t->chooser == NULL)
        rc = pipe_of(t, s, &o.pipe, ei);
    if (rc == CAIRN_OK)
        rc = crn_encoder_open(&o, t->work, advise_run_keep, k, &e, ei);
    crn_merge_start(t->plan, stream, &c);
    while (rc == CAIRN_OK && crn_merge_next(&c, UINT64_MAX, &p)) {
        struct crn_run run = crn_merge_run(t->plan, &p);

        rc = crn_encoder_put(e, bytes_of(t, &p), (size_t)p.bytes,
                             s->type == CAIRN_BYTES ? NULL : &run, NULL, ei);
    }
    if (rc == CAIRN_OK)
        rc = crn_encoder_finish(e, map, ei);
    crn_encoder_close(e);
    return rc;
}

/* Decodes the whole stream and compares it step by step. */
static cairn_err advise_run_decode(struct advise_run_trial *t, uint32_t stream, struct kept *k,
                                   const struct crn_map *map, unsigned char *dst,
                                   struct crn_errinfo *ei)
{
    const struct crn_merge_stream *s = crn_merge_stream(t->plan, stream);
    struct crn_reader_options o = {
        .records = k->records, .n = k->nrecords, .map = map, .fetch = advise_run_fetch, .ctx = k};
    double begin = cpu_s();
    struct crn_reader *r = NULL;
    struct crn_merge_cursor c;
    struct crn_merge_piece p;
    uint64_t at = 0;
    cairn_err rc;

    rc = crn_reader_open(&o, t->work, &r, ei);
    if (rc == CAIRN_OK)
        rc = crn_reader_read(r, 0, dst, s->bytes, ei);
    crn_reader_close(r);
    t->decode_s += cpu_s() - begin;
    crn_merge_start(t->plan, stream, &c);
    for (; rc == CAIRN_OK && crn_merge_next(&c, UINT64_MAX, &p); at += p.bytes)
        if (memcmp(dst + at, bytes_of(t, &p), p.bytes) != 0)
            rc = crn_fail(ei, CAIRN_EBUG, 0, "'%s' does not decode to the original bytes",
                          t->method->pipe);
    return rc;
}

static cairn_err try_stream(struct advise_run_trial *t, uint32_t stream, struct crn_errinfo *ei)
{
    uint64_t bytes = crn_merge_stream(t->plan, stream)->bytes;
    unsigned char *dst = malloc(bytes + 1);
    struct crn_map map = {0};
    struct kept k = {0};
    struct crn_buf encoded_map = {0};
    cairn_err rc;
    double begin;

    rc = dst == NULL ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the decoded sample")
                     : kept_init(&k, bytes, ei);
    begin = cpu_s();
    if (rc == CAIRN_OK)
        rc = advise_run_encode(t, stream, &k, &map, ei);
    t->encode_s += cpu_s() - begin;
    if (rc == CAIRN_OK)
        rc = advise_run_decode(t, stream, &k, &map, dst, ei);
    crn_map_encode(&map, &encoded_map);
    t->encoded += k.n + RECORD_BYTES * k.nrecords + encoded_map.len;
    crn_buf_free(&encoded_map);
    crn_map_free(&map);
    kept_free(&k);
    free(dst);
    return rc;
}

cairn_err crn_advise_try(const struct advise_sample *s, const struct advise_method *method,
                         struct advise_result *ret, struct crn_errinfo *ei)
{
    struct crn_choose_options choose = {.aim = CRN_AIM_RATIO};
    struct crn_merge_options merge = {.scheme = method->scheme};
    struct advise_run_trial t = {.sample = s, .method = method};
    cairn_err rc;
    uint32_t i;

    rc = crn_merge_plan(s->shards, s->n, &merge, &t.plan, ei);
    if (rc == CAIRN_OK)
        rc = crn_work_new(&t.work, ei);
    if (rc == CAIRN_OK && strcmp(method->pipe, "adaptive") == 0)
        rc = crn_chooser_open(&choose, &t.chooser, ei);
    for (i = 0; rc == CAIRN_OK && i < crn_merge_streams(t.plan); i++)
        rc = try_stream(&t, i, ei);
    if (rc == CAIRN_OK) {
        ret->method = method;
        ret->ratio = (double)s->sampled / (double)t.encoded;
        ret->encode_mbps = (double)s->sampled / (t.encode_s + 1e-9) / 1e6;
        ret->decode_mbps = (double)s->sampled / (t.decode_s + 1e-9) / 1e6;
    }
    crn_chooser_close(t.chooser);
    crn_work_free(t.work);
    crn_merge_free(t.plan);
    return rc;
}
