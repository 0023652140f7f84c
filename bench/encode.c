/* SPDX-License-Identifier: BSD-3-Clause */
/* Merging and compression of computed checkpoint sets on one core: ratio and speed of every
 * scheme and pipeline, of the paper's codecs and of the adaptive choice. All data is decoded and
 * compared before a number is printed. Speeds are bytes over the CPU time of the thread,
 * including gathering, so that other load does not distort them; the limit is copying.
 * Repetitions of all methods are interleaved.
 *
 * paper-merged follows the paper: a codec by type over every variable, then one gzip over all of
 * them. Bytes are those on disk, including the index.
 *
 * flush_*_s is computed: the longer of encoding and writing, which overlap, at that bandwidth.
 *
 * usage: encode [--quick] [--untyped] [--methods NAME,...] [SET...]
 * --untyped: all regions are bytes, as with VELOC. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/json.h"
#include "encode/merge.h"
#include "encode/pack.h"
#include "encode/stream.h"
#include "encode/work.h"
#include "common.h"
#include "encode_sets.h"

#define ROUNDS_MAX 5

/* How the streams of a set are encoded. */
struct method {
    const char *name;
    enum crn_scheme scheme;
    const char *pipe; /* NULL: adaptive; "paper": by type */
    enum crn_aim aim;
    double bandwidth;
    int is_temporal;
    int is_slow;   /* once in quick runs */
    int is_merged; /* a second pass over all of the group */
    double
        tolerance; /* of floating-point variables, relative to the range of a chunk; 0: lossless */
};

static const struct method methods[] = {
    {"none", CRN_AGNOSTIC, "raw", 0, 0, 0, 0, 0, 0},
    {"agnostic-gzip6", CRN_AGNOSTIC, "gzip:6", 0, 0, 0, 1, 0, 0},
    {"agnostic-block-gzip6", CRN_AGNOSTIC_BLOCK, "gzip:6", 0, 0, 0, 1, 0, 0},
    {"paper-aware", CRN_AWARE, "paper", 0, 0, 0, 1, 0, 0},
    {"paper-aware-block", CRN_AWARE_BLOCK, "paper", 0, 0, 0, 1, 0, 0},
    {"paper-merged", CRN_AWARE, "first", 0, 0, 0, 1, 1, 0},
    {"zstd1", CRN_AWARE, "zstd:1", 0, 0, 0, 0, 0, 0},
    {"zstd3", CRN_AWARE, "zstd:3", 0, 0, 0, 1, 0, 0},
    {"lz4", CRN_AWARE, "lz4", 0, 0, 0, 0, 0, 0},
    {"shuffle-zstd1", CRN_AWARE, "shuffle,zstd:1", 0, 0, 0, 0, 0, 0},
    {"shuffle-lz4", CRN_AWARE, "shuffle,lz4", 0, 0, 0, 0, 0, 0},
    {"bitshuffle-lz4", CRN_AWARE, "bitshuffle,lz4", 0, 0, 0, 0, 0, 0},
    {"delta-planes", CRN_AWARE, "delta,planes", 0, 0, 0, 0, 0, 0},
    {"planes", CRN_AWARE, "planes", 0, 0, 0, 0, 0, 0},
    {"lorenzo1-planes", CRN_AWARE, "lorenzo:1,planes", 0, 0, 0, 0, 0, 0},
    {"lorenzo2d-planes", CRN_AWARE, "lorenzo:3,planes", 0, 0, 0, 0, 0, 0},
    {"lorenzo3d-planes", CRN_AWARE, "lorenzo:7,planes", 0, 0, 0, 0, 0, 0},
    {"lorenzo1-magnitude", CRN_AWARE, "lorenzo:1,magnitude", 0, 0, 0, 0, 0, 0},
    {"lorenzo2d-magnitude", CRN_AWARE, "lorenzo:3,magnitude", 0, 0, 0, 0, 0, 0},
    {"lorenzo3d-magnitude", CRN_AWARE, "lorenzo:7,magnitude", 0, 0, 0, 0, 0, 0},
    {"second-magnitude", CRN_AWARE, "lorenzo:17,magnitude", 0, 0, 0, 0, 0, 0},
    {"second2d-magnitude", CRN_AWARE, "lorenzo:19,magnitude", 0, 0, 0, 0, 0, 0},
    {"second3d-magnitude", CRN_AWARE, "lorenzo:23,magnitude", 0, 0, 0, 0, 0, 0},
    {"values2d-magnitude", CRN_AWARE, "lorenzo:35,magnitude", 0, 0, 0, 0, 0, 0},
    {"values3d-magnitude", CRN_AWARE, "lorenzo:39,magnitude", 0, 0, 0, 0, 0, 0},
    {"values-second-magnitude", CRN_AWARE, "lorenzo:49,magnitude", 0, 0, 0, 0, 0, 0},
    {"values-second2d-magnitude", CRN_AWARE, "lorenzo:51,magnitude", 0, 0, 0, 0, 0, 0},
    {"values-second3d-magnitude", CRN_AWARE, "lorenzo:55,magnitude", 0, 0, 0, 0, 0, 0},
    {"adaptive", CRN_AWARE, NULL, CRN_AIM_RATIO, 0, 0, 0, 0, 0},
    {"adaptive-block", CRN_AWARE_BLOCK, NULL, CRN_AIM_RATIO, 0, 0, 0, 0, 0},
    {"adaptive-speed", CRN_AWARE, NULL, CRN_AIM_SPEED, 0, 0, 0, 0, 0},
    {"adaptive-time-200MBps", CRN_AWARE, NULL, CRN_AIM_TIME, 2e8, 0, 0, 0, 0},
    {"adaptive-temporal", CRN_AWARE, NULL, CRN_AIM_RATIO, 0, 1, 0, 0, 0},
    {"zfp-1e-3", CRN_AWARE, "zfp:1", 0, 0, 0, 1, 0, 1e-3},
    {"zfp-1e-6", CRN_AWARE, "zfp:1", 0, 0, 0, 1, 0, 1e-6},
};
#define NMETHODS (sizeof(methods) / sizeof(methods[0]))

struct result {
    uint64_t encoded;
    unsigned n;
    double encode_s[ROUNDS_MAX];
    double decode_s[ROUNDS_MAX];
};

/* One encoded stream, kept until it was compared. */
struct kept {
    unsigned char *bytes;
    size_t n;
    size_t room;
    struct crn_chunk_record *records;
    size_t nrecords;
    size_t records_room;
    struct crn_map map;
    double *sink_s; /* time spent here: this stands for the file system, not for encoding */
};

static void die(const char *why)
{
    (void)fprintf(stderr, "bench/encode: %s\n", why);
    exit(1);
}

static void check(cairn_err rc, const struct crn_errinfo *ei)
{
    if (rc != CAIRN_OK)
        die(ei->msg);
}

static void *grown(void *p, size_t n)
{
    p = realloc(p, n);
    if (p == NULL)
        die("out of memory");
    return p;
}

static double cpu_s(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cairn_err keep(void *ctx, const struct crn_chunk_record *record, const void *encoded,
                      struct crn_errinfo *ei)
{
    struct kept *k = ctx;
    double begin = cpu_s();

    (void)ei;
    if (k->n + record->encoded > k->room) {
        k->room = 2 * k->room + record->encoded;
        k->bytes = grown(k->bytes, k->room);
    }
    if (k->nrecords == k->records_room) {
        k->records_room = 2 * k->records_room + 16;
        k->records = grown(k->records, k->records_room * sizeof(*k->records));
    }
    memcpy(k->bytes + k->n, encoded, record->encoded);
    k->n += record->encoded;
    k->records[k->nrecords++] = *record;
    *k->sink_s += cpu_s() - begin;
    return CAIRN_OK;
}

static cairn_err fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    const struct kept *k = ctx;
    size_t at = 0;
    size_t i;

    (void)ei;
    for (i = 0; i < chunk; i++)
        at += k->records[i].encoded;
    memcpy(buf, k->bytes + at, k->records[chunk].encoded);
    return CAIRN_OK;
}

static void kept_init(struct kept *k, size_t bytes, double *sink_s)
{
    k->sink_s = sink_s;
    k->room = bytes + bytes / 8 + 4096;
    k->bytes = grown(NULL, k->room);
    memset(k->bytes, 1, k->room);
    k->records_room = bytes / CRN_STREAM_CHUNK + 2;
    k->records = grown(NULL, k->records_room * sizeof(*k->records));
}

static void kept_free(struct kept *k)
{
    free(k->bytes);
    free(k->records);
    crn_map_free(&k->map);
    memset(k, 0, sizeof(*k));
}

/* The paper's codec for a type, without the gzip after it. */
static const char *first_pass(cairn_type type, int is_small)
{
    const char *both = is_small ? "raw" : crn_pipe_paper(type, 0);

    return strncmp(both, "fpc", 3) == 0 ? "fpc:2" : strncmp(both, "fpz", 3) == 0 ? "fpzip" : "raw";
}

/* Falls back to zstd for data that the pipeline cannot encode: integers have no floating-point
 * codec. */
static struct crn_pipe pipe_of(const struct method *m, const struct crn_merge_stream *s)
{
    int is_paper = strcmp(m->pipe, "paper") == 0;
    int is_first = strcmp(m->pipe, "first") == 0;
    const char *text = is_paper   ? crn_pipe_paper(s->type, s->is_small)
                       : is_first ? first_pass(s->type, s->is_small)
                                  : m->pipe;
    struct crn_data data = {.type = s->type, .tolerance = m->tolerance};
    struct crn_errinfo ei = {0};
    struct crn_pipe pipe;

    check(crn_pipe_parse(text, &pipe, &ei), &ei);
    if (s->is_small || !crn_pipe_fits(&pipe, &data))
        check(crn_pipe_parse(is_paper || is_first ? text : "zstd:1", &pipe, &ei), &ei);
    return pipe;
}

struct job {
    const struct bench_set *set;
    const struct method *method;
    struct crn_merge *plan;
    struct crn_chooser *chooser;
    struct crn_encode_work *work;
    struct kept *kept; /* for each stream */
};

static void encode_stream(struct job *j, uint32_t stream)
{
    const struct crn_merge_stream *s = crn_merge_stream(j->plan, stream);
    struct crn_stream_options o = {.type = s->type,
                                   .bytes = s->bytes,
                                   .key = s->key,
                                   .chooser = j->chooser,
                                   .dedup = j->chooser != NULL,
                                   .tolerance = j->method->tolerance};
    struct crn_errinfo ei = {0};
    struct crn_merge_cursor c;
    struct crn_encoder *e;
    struct crn_merge_piece p;

    if (j->method->pipe != NULL)
        o.pipe = pipe_of(j->method, s);
    check(crn_encoder_open(&o, j->work, keep, &j->kept[stream], &e, &ei), &ei);
    crn_merge_start(j->plan, stream, &c);
    while (crn_merge_next(&c, UINT64_MAX, &p)) {
        struct crn_run run = crn_merge_run(j->plan, &p);
        const unsigned char *older = j->method->is_temporal
                                         ? bench_set_region(j->set, 0, p.shard, p.region) + p.offset
                                         : NULL;

        check(crn_encoder_put(e, bench_set_region(j->set, 1, p.shard, p.region) + p.offset,
                              (size_t)p.bytes, s->type == CAIRN_BYTES ? NULL : &run, older, &ei),
              &ei);
    }
    check(crn_encoder_finish(e, &j->kept[stream].map, &ei), &ei);
    crn_encoder_close(e);
}

/* The stream of one step, in one buffer. */
static unsigned char *gather(const struct job *j, uint32_t stream, int step)
{
    unsigned char *all = grown(NULL, (size_t)crn_merge_stream(j->plan, stream)->bytes + 1);
    struct crn_merge_cursor c;
    struct crn_merge_piece p;
    size_t at = 0;

    crn_merge_start(j->plan, stream, &c);
    for (; crn_merge_next(&c, UINT64_MAX, &p); at += (size_t)p.bytes)
        memcpy(all + at, bench_set_region(j->set, step, p.shard, p.region) + p.offset,
               (size_t)p.bytes);
    return all;
}

/* The state of the reader's callbacks. */
struct store {
    struct kept *kept;
    const unsigned char *older;
};

static cairn_err store_fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    return fetch(((struct store *)ctx)->kept, chunk, buf, ei);
}

static cairn_err store_older(void *ctx, uint64_t offset, size_t n, void *buf,
                             struct crn_errinfo *ei)
{
    (void)ei;
    memcpy(buf, ((struct store *)ctx)->older + offset, n);
    return CAIRN_OK;
}

static double number_at(const unsigned char *bytes, size_t i, unsigned width)
{
    float f;
    double d;

    if (width == sizeof(d)) {
        memcpy(&d, bytes + i * width, width);
        return d;
    }
    memcpy(&f, bytes + i * width, width);
    return (double)f;
}

/* Each number of a stream within the tolerance of its range, which contains that of each chunk. */
static int is_within(const unsigned char *before, const unsigned char *after, size_t n,
                     unsigned width, double tolerance)
{
    double least = number_at(before, 0, width), most = least;
    size_t i;

    for (i = 1; i < n / width; i++) {
        least = fmin(least, number_at(before, i, width));
        most = fmax(most, number_at(before, i, width));
    }
    for (i = 0; i < n / width; i++)
        if (!(fabs(number_at(before, i, width) - number_at(after, i, width)) <=
              tolerance * (most - least)))
            return 0;
    return 1;
}

static int is_as_before(const struct job *j, uint32_t stream, const unsigned char *before,
                        const unsigned char *after, size_t n)
{
    struct crn_word word = crn_word_of(crn_merge_stream(j->plan, stream)->type);

    if (memcmp(before, after, n) == 0)
        return 1;
    return j->method->tolerance > 0 && word.is_float &&
           is_within(before, after, n, word.width, j->method->tolerance);
}

static double decode_stream(struct job *j, uint32_t stream)
{
    struct kept *k = &j->kept[stream];
    size_t n = (size_t)crn_merge_stream(j->plan, stream)->bytes;
    unsigned char *before = gather(j, stream, 1);
    unsigned char *older = j->method->is_temporal ? gather(j, stream, 0) : NULL;
    unsigned char *after = grown(NULL, n + 1);
    struct store store = {.kept = k, .older = older};
    struct crn_reader_options o = {.records = k->records,
                                   .n = k->nrecords,
                                   .map = &k->map,
                                   .fetch = store_fetch,
                                   .fetch_previous = older != NULL ? store_older : NULL,
                                   .ctx = &store};
    struct crn_errinfo ei = {0};
    struct crn_reader *r;
    double begin;
    double s;

    memset(after, 0, n + 1);
    begin = cpu_s();
    check(crn_reader_open(&o, j->work, &r, &ei), &ei);
    check(crn_reader_read(r, 0, after, n, &ei), &ei);
    s = cpu_s() - begin;
    crn_reader_close(r);
    if (!is_as_before(j, stream, before, after, n))
        die("decoded bytes differ");
    free(before);
    free(older);
    free(after);
    return s;
}

/* ---- the index, as a data file has it -------------------------------------------------------- */

static void index_stream(struct crn_index *x, const struct job *j, uint32_t i, uint64_t at)
{
    const struct crn_merge_stream *from = crn_merge_stream(j->plan, i);
    const struct kept *k = &j->kept[i];
    struct crn_stream *s = &x->streams[x->nstreams++];
    struct crn_buf map = {0};
    size_t c;

    (void)snprintf(s->key, sizeof(s->key), "%s", from->key);
    s->type = (uint8_t)from->type;
    s->bytes = from->bytes;
    s->file_offset = at;
    s->chunks = calloc(k->nrecords + 1, sizeof(*s->chunks));
    for (c = 0; c < k->nrecords; c++) {
        struct crn_stream_chunk *chunk = &s->chunks[s->nchunks++];

        chunk->bytes = k->records[c].bytes;
        chunk->encoded = k->records[c].encoded;
        chunk->hash = k->records[c].hash;
        chunk->nstages = k->records[c].pipe.n;
        memcpy(chunk->stages, k->records[c].pipe.stage, 2U * chunk->nstages);
    }
    crn_map_encode(&k->map, &map);
    if (k->map.n > 0) {
        s->map = map.data;
        s->map_bytes = (uint32_t)map.len;
    } else {
        crn_buf_free(&map);
    }
}

static void index_extents(struct crn_index *x, const struct job *j, uint32_t i, uint64_t start)
{
    struct crn_merge_cursor c;
    struct crn_merge_piece p;

    crn_merge_start(j->plan, i, &c);
    while (crn_merge_next(&c, UINT64_MAX, &p)) {
        struct crn_extent *e;

        if (x->nextents % 1024 == 0)
            x->extents = grown(x->extents, (x->nextents + 1024) * sizeof(*x->extents));
        e = &x->extents[x->nextents++];
        *e = (struct crn_extent){.shard = p.shard,
                                 .region = p.region,
                                 .offset = p.offset,
                                 .bytes = p.bytes,
                                 .file_offset = start};
        start += p.bytes;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct crn_extent *x = a;
    const struct crn_extent *y = b;

    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->region != y->region)
        return x->region < y->region ? -1 : 1;
    return x->offset < y->offset ? -1 : 1;
}

/* One for each MiB of an extent, as by default. */
static void index_hashes(struct crn_index *x, const struct bench_set *set)
{
    uint64_t i;
    uint64_t at;

    if (x->nextents > 0)
        qsort(x->extents, x->nextents, sizeof(*x->extents), by_place);
    for (i = 0; i < x->nextents; i++) {
        struct crn_extent *e = &x->extents[i];
        const unsigned char *bytes = bench_set_region(set, 1, e->shard, e->region) + e->offset;

        e->first_hash = x->nhashes;
        for (at = 0; at < e->bytes; at += x->chunk_bytes) {
            uint64_t n = e->bytes - at < x->chunk_bytes ? e->bytes - at : x->chunk_bytes;

            if (x->nhashes % 1024 == 0)
                x->hashes = grown(x->hashes, (x->nhashes + 1024) * sizeof(*x->hashes));
            x->hashes[x->nhashes++] = crn_hash(bytes + at, n);
        }
    }
}

/* Bytes of the index on disk: packed. */
static uint64_t index_bytes(const struct job *j)
{
    struct crn_index x = {.files = 1,
                          .name = "bench",
                          .ranks = j->set->ranks,
                          .nodes = 1,
                          .chunk_bytes = 1 << 20,
                          .shards = j->set->shards,
                          .nshards = j->set->ranks};
    struct crn_buf plain = {0};
    struct crn_buf packed = {0};
    struct crn_errinfo ei = {0};
    uint64_t at = 0;
    uint64_t start = 0;
    uint64_t n;
    uint32_t i;

    x.streams = calloc(crn_merge_streams(j->plan) + 1, sizeof(*x.streams));
    for (i = 0; i < crn_merge_streams(j->plan); i++) {
        x.streams[i].start = start;
        index_stream(&x, j, i, at);
        index_extents(&x, j, i, start);
        at += j->kept[i].n;
        start += x.streams[i].bytes;
    }
    index_hashes(&x, j->set);
    check(crn_index_encode(&x, &plain, &ei), &ei);
    check(crn_pack(plain.data, plain.len, NULL, &packed, &ei), &ei);
    n = packed.len;
    crn_buf_free(&plain);
    crn_buf_free(&packed);
    x.shards = NULL; /* the set's */
    x.nshards = 0;
    crn_index_free(&x);
    return n;
}

/* The second pass of the paper: one gzip over the first pass of all variables. */
static uint64_t merged_bytes(const struct job *j, uint32_t streams)
{
    struct crn_stream_options o = {.type = CAIRN_BYTES, .key = "", .chunk_bytes = 4 << 20};
    struct crn_errinfo ei = {0};
    struct crn_encoder *e;
    struct crn_map map;
    struct kept all = {0};
    double sink_s = 0;
    uint32_t i;
    uint64_t n;

    check(crn_pipe_parse("gzip:6", &o.pipe, &ei), &ei);
    kept_init(&all, 1 << 20, &sink_s);
    check(crn_encoder_open(&o, j->work, keep, &all, &e, &ei), &ei);
    for (i = 0; i < streams; i++)
        check(crn_encoder_put(e, j->kept[i].bytes, j->kept[i].n, NULL, NULL, &ei), &ei);
    check(crn_encoder_finish(e, &map, &ei), &ei);
    crn_encoder_close(e);
    n = all.n;
    kept_free(&all);
    return n;
}

static void run_method(const struct bench_set *set, const struct method *m,
                       struct crn_encode_work *work, struct result *res)
{
    struct crn_choose_options choose = {.aim = m->aim, .bandwidth = m->bandwidth};
    struct crn_merge_options merge = {.scheme = m->scheme};
    struct job j = {.set = set, .method = m};
    struct crn_errinfo ei = {0};
    double sink_s = 0;
    double decode_s = 0;
    uint32_t i, n;
    double begin;

    if (m->pipe == NULL || strcmp(m->pipe, "paper") == 0)
        merge.group_bytes = CRN_STREAM_CHUNK;
    check(crn_merge_plan(set->shards, set->ranks, &merge, &j.plan, &ei), &ei);
    j.work = work;
    if (m->pipe == NULL)
        check(crn_chooser_open(&choose, &j.chooser, &ei), &ei);
    n = crn_merge_streams(j.plan);
    j.kept = calloc(n + 1, sizeof(*j.kept));
    for (i = 0; i < n; i++)
        kept_init(&j.kept[i], (size_t)crn_merge_stream(j.plan, i)->bytes, &sink_s);
    begin = cpu_s();
    for (i = 0; i < n; i++)
        encode_stream(&j, i);
    res->encoded = m->is_merged ? merged_bytes(&j, n) : 0;
    res->encode_s[res->n] = cpu_s() - begin - sink_s;
    res->encoded += index_bytes(&j);
    for (i = 0; i < n; i++) {
        res->encoded += m->is_merged ? 0 : j.kept[i].n;
        decode_s += decode_stream(&j, i);
        kept_free(&j.kept[i]);
    }
    res->decode_s[res->n++] = decode_s;
    free(j.kept);
    crn_chooser_close(j.chooser);
    crn_merge_free(j.plan);
}

static double copy_mbps(const struct bench_set *set)
{
    unsigned char *dst = grown(NULL, (size_t)set->bytes);
    double best = 1e9;
    int k;

    for (k = 0; k < 3; k++) {
        double begin = cpu_s();
        size_t at = 0;
        uint32_t r, i;

        for (r = 0; r < set->ranks; r++)
            for (i = 0; i < set->shards[r].nregions; i++) {
                memcpy(dst + at, bench_set_region(set, 1, r, i), set->shards[r].regions[i].bytes);
                at += set->shards[r].regions[i].bytes;
            }
        best = cpu_s() - begin < best ? cpu_s() - begin : best;
    }
    free(dst);
    return (double)set->bytes / best / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof(double), by_size);
    return values[(n - 1) / 2];
}

static void report(const struct bench_set *set, const struct method *m, struct result *res,
                   double baseline, double limit)
{
    static const struct {
        const char *key;
        double bandwidth;
    } flush[] = {{"flush_100MBps_s", 1e8}, {"flush_1GBps_s", 1e9}, {"flush_10GBps_s", 1e10}};
    double ratio = (double)set->bytes / (double)res->encoded;
    double seconds = median(res->encode_s, res->n);
    double mbps = (double)set->bytes / seconds / 1e6;
    double decode_mbps = (double)set->bytes / median(res->decode_s, res->n) / 1e6;
    struct crn_json j;
    size_t i;

    (void)fprintf(stderr, "%-14s %-22s ratio %8.3f  (%+6.1f %%)  encode %6.0f  decode %6.0f MB/s\n",
                  set->name, m->name, ratio, 100 * (ratio / baseline - 1), mbps, decode_mbps);
    crn_json_begin(&j, stdout);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "bench", "encode");
    crn_json_str(&j, "case", set->name);
    crn_json_str(&j, "method", m->name);
    crn_json_u64(&j, "bytes", set->bytes);
    crn_json_u64(&j, "n", res->n);
    crn_json_f64(&j, "median_s", seconds);
    crn_json_f64(&j, "min_s", res->encode_s[0]);
    crn_json_f64(&j, "max_s", res->encode_s[res->n - 1]);
    crn_json_f64(&j, "ratio_to_limit", mbps / limit);
    crn_json_f64(&j, "ratio", ratio);
    crn_json_f64(&j, "improvement_percent", 100 * (ratio / baseline - 1));
    crn_json_f64(&j, "encode_mbps", mbps);
    crn_json_f64(&j, "decode_mbps", decode_mbps);
    for (i = 0; i < sizeof(flush) / sizeof(flush[0]); i++) {
        double write_s = (double)res->encoded / flush[i].bandwidth;

        crn_json_f64(&j, flush[i].key, write_s > seconds ? write_s : seconds);
    }
    crn_json_end_object(&j);
    if (crn_json_finish(&j) != 0)
        die("cannot write");
}

static void forget_types(struct bench_set *set)
{
    uint32_t r, i;

    for (r = 0; r < set->ranks; r++)
        for (i = 0; i < set->shards[r].nregions; i++) {
            struct crn_region *region = &set->shards[r].regions[i];

            region->type = CAIRN_BYTES;
            region->ndims = 1;
            region->dims[0] = region->bytes;
        }
}

static void run_set(struct bench_set *set, int is_quick, const char *wanted)
{
    unsigned rounds = is_quick ? 2 : ROUNDS_MAX;
    struct result results[NMETHODS];
    double limit, baseline = 1;
    struct crn_errinfo ei = {0};
    struct crn_encode_work *work; /* one thread's, kept from stream to stream */
    unsigned round;
    size_t i;

    check(crn_work_new(&work, &ei), &ei);
    memset(results, 0, sizeof(results));
    limit = copy_mbps(set);
    for (round = 0; round < rounds; round++)
        for (i = 0; i < NMETHODS; i++)
            if (bench_is_named(wanted, methods[i].name) &&
                (round == 0 || !methods[i].is_slow || (!is_quick && round < 3)))
                run_method(set, &methods[i], work, &results[i]);
    for (i = 0; i < NMETHODS; i++)
        if (results[i].n > 0 && strcmp(methods[i].name, "agnostic-gzip6") == 0)
            baseline = (double)set->bytes / (double)results[i].encoded;
    for (i = 0; i < NMETHODS; i++)
        if (results[i].n > 0)
            report(set, &methods[i], &results[i], baseline, limit);
    crn_work_free(work);
    bench_set_free(set);
}

int main(int argc, char **argv)
{
    size_t n;
    const char *const *names = bench_set_names(&n);
    const char *wanted = NULL;
    int is_quick = 0;
    int is_untyped = 0;
    int first = 1;
    size_t i;

    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++)
        if (strcmp(argv[first], "--quick") == 0)
            is_quick = 1;
        else if (strcmp(argv[first], "--untyped") == 0)
            is_untyped = 1;
        else if (strcmp(argv[first], "--methods") == 0 && first + 1 < argc)
            wanted = argv[++first];
        else
            die("usage: encode [--quick] [--untyped] [--methods NAME,...] [SET...]");
    for (i = 0; i < n; i++) {
        int k;
        int is_wanted = argc <= first;

        for (k = first; k < argc; k++)
            is_wanted |= strcmp(argv[k], names[i]) == 0;
        if (is_wanted) {
            struct bench_set *set = bench_set_make(names[i], is_quick ? 1 : 4);

            if (is_untyped)
                forget_types(set);
            run_set(set, is_quick, wanted);
        }
    }
    return 0;
}
