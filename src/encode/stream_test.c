/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: data put in small steps is restored whole and in ranges, with every chunk size, with
 * repeated blocks, and against an older version. Chunks are decoded once; damage is refused;
 * memory stays within its bound. */
#include "base/test.h"

#include <math.h>

#include "encode/stream.h"
#include "encode/test_fixture.h"
#include "encode/work.h"

/* Encoded chunks in memory. */
struct stream_test_store {
    unsigned char *bytes[256];
    struct crn_chunk_record records[256];
    size_t n;
    size_t fetched[256];
    const unsigned char *older;
    struct crn_map map;
    size_t fail_at; /* the emit that fails, counted from 1; 0: none */
};

static cairn_err emit(void *ctx, const struct crn_chunk_record *record, const void *encoded,
                      struct crn_errinfo *ei)
{
    struct stream_test_store *s = ctx;

    if (s->n + 1 == s->fail_at)
        return crn_fail(ei, CAIRN_ENOSPC, 0, "full");
    assert_true(s->n < 256);
    assert_true(record->encoded > 0 && record->encoded <= record->bytes);
    s->bytes[s->n] = malloc(record->encoded);
    assert_non_null(s->bytes[s->n]);
    memcpy(s->bytes[s->n], encoded, record->encoded);
    s->records[s->n++] = *record;
    return CAIRN_OK;
}

static cairn_err fetch(void *ctx, size_t chunk, void *buf, struct crn_errinfo *ei)
{
    struct stream_test_store *s = ctx;

    (void)ei;
    s->fetched[chunk]++;
    memcpy(buf, s->bytes[chunk], s->records[chunk].encoded);
    return CAIRN_OK;
}

static cairn_err fetch_older(void *ctx, uint64_t offset, size_t n, void *buf,
                             struct crn_errinfo *ei)
{
    const struct stream_test_store *s = ctx;

    (void)ei;
    memcpy(buf, s->older + offset, n);
    return CAIRN_OK;
}

static void store_free(struct stream_test_store *s)
{
    size_t i;

    for (i = 0; i < s->n; i++)
        free(s->bytes[i]);
    crn_map_free(&s->map);
    memset(s, 0, sizeof(*s));
}

static struct crn_reader_options reading(struct stream_test_store *s)
{
    struct crn_reader_options o = {.records = s->records,
                                   .n = s->n,
                                   .map = &s->map,
                                   .fetch = fetch,
                                   .fetch_previous = s->older != NULL ? fetch_older : NULL,
                                   .ctx = s};

    return o;
}

static int setup(void **state)
{
    return test_setup(state, 8);
}

/* In steps of random size, each a whole number of elements. */
static void encode_all(struct fixture_fixture *f, const struct crn_stream_options *o,
                       const unsigned char *src, const unsigned char *older, size_t n,
                       struct stream_test_store *s)
{
    struct crn_errinfo *ei = &f->info;
    size_t step = cairn_type_size(o->type);
    struct crn_run run = {.stride = {1, 50, 500}};
    struct crn_encoder *e;
    size_t at = 0;

    memset(s, 0, sizeof(*s));
    s->older = older;
    assert_ok(crn_encoder_open(o, f->work, emit, s, &e, ei));
    while (at < n) {
        size_t m = step * (1 + (size_t)crn_rng_below(&f->rng, 300000 / step));

        m = m < n - at ? m : n - at;
        assert_ok(crn_encoder_put(e, src + at, m, crn_rng_below(&f->rng, 2) ? &run : NULL,
                                  older != NULL ? older + at : NULL, ei));
        at += m;
    }
    assert_ok(crn_encoder_finish(e, &s->map, ei));
    crn_encoder_close(e);
}

static void check_reads(struct fixture_fixture *f, struct stream_test_store *s,
                        const unsigned char *src, size_t n)
{
    struct crn_reader_options o = reading(s);
    struct crn_errinfo *ei = &f->info;
    unsigned char *back = malloc(n + 1);
    struct crn_reader *r;
    size_t i;

    assert_non_null(back);
    assert_ok(crn_reader_open(&o, f->work, &r, ei));
    assert_ok(crn_reader_read(r, 0, back, n, ei));
    if (n > 0)
        assert_memory_equal(back, src, n);
    for (i = 0; i < s->n; i++)
        assert_int_equal(s->fetched[i], 1);
    for (i = 0; i < 10 && n > 0; i++) {
        uint64_t from = crn_rng_below(&f->rng, n);
        uint64_t m = crn_rng_below(&f->rng, n - from + 1);

        memset(back, 0xaa, n);
        assert_ok(crn_reader_read(r, from, back, m, ei));
        assert_memory_equal(back, src + from, m);
    }
    assert_int_equal(crn_reader_read(r, 1, back, n, NULL), CAIRN_EINVAL);
    crn_reader_close(r);
    free(back);
}

static void pieces_come_back(void **state)
{
    static const cairn_type types[] = {CAIRN_F64, CAIRN_F32, CAIRN_I32, CAIRN_BYTES, CAIRN_C128};
    static const size_t sizes[] = {0, 16, 65536, 65552, 700000, 2100000};
    struct fixture_fixture *f = *state;
    struct crn_choose_options choose = {.aim = CRN_AIM_RATIO};
    struct crn_errinfo *ei = &f->info;
    unsigned char *src = malloc(2100000);
    unsigned char *older = malloc(2100000);
    struct stream_test_store s;
    size_t t, i;

    assert_non_null(src);
    assert_non_null(older);
    for (t = 0; t < 5; t++)
        for (i = 0; i < 6; i++) {
            enum content c = (enum content)((t + i) % CONTENT_COUNT);
            struct crn_stream_options o = {.type = types[t], .key = "k", .bytes = sizes[i]};
            size_t n = sizes[i] - sizes[i] % cairn_type_size(types[t]);

            o.chunk_bytes = i % 2 == 0 ? CRN_CHUNK_MIN_BYTES : 0;
            o.dedup = (int)(i % 3 == 1);
            assert_ok(crn_chooser_open(&choose, &o.chooser, ei));
            test_fill(&f->rng, c, types[t], src, n);
            test_fill(&f->rng, c, types[t], older, n);
            encode_all(f, &o, src, NULL, n, &s);
            check_reads(f, &s, src, n);
            store_free(&s);
            encode_all(f, &o, src, older, n, &s);
            check_reads(f, &s, src, n);
            store_free(&s);
            crn_chooser_close(o.chooser);
        }
    free(older);
    free(src);
}

/* A table that occurs many times, at odd offsets, is stored once. */
static void repeated_blocks_are_kept_once(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    struct crn_stream_options o = {.type = CAIRN_F64, .dedup = 1};
    size_t table = 400000;
    size_t n = 6 * (table + 8000);
    unsigned char *src = malloc(n);
    struct crn_buf map = {0};
    struct crn_map decoded;
    struct crn_view v;
    struct stream_test_store s;
    size_t i;

    assert_non_null(src);
    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, src, n);
    for (i = 1; i < 6; i++)
        memcpy(src + i * (table + 8000) + 8 * i, src, table);
    encode_all(f, &o, src, NULL, n, &s);
    assert_true(s.map.n > 1);
    assert_int_equal(s.map.bytes, n);
    /* Blocks are not matched where the copies begin and end. */
    assert_in_range(s.map.new_bytes, table, 2 * table);
    check_reads(f, &s, src, n);

    crn_map_encode(&s.map, &map);
    assert_false(map.failed);
    v = crn_view_of(map.data, map.len);
    assert_ok(crn_map_decode(&v, &decoded, ei));
    assert_int_equal(crn_view_left(&v), 0);
    assert_int_equal(decoded.n, s.map.n);
    assert_memory_equal(decoded.items, s.map.items, decoded.n * sizeof(*decoded.items));
    crn_map_free(&decoded);
    for (i = 0; i < map.len; i++) { /* every truncation is refused */
        v = crn_view_of(map.data, i);
        assert_int_equal(crn_map_decode(&v, &decoded, NULL), CAIRN_EDAMAGED);
    }
    crn_buf_free(&map);
    store_free(&s);
    free(src);
}

/* Chunks that begin in the middle of a row lose little: their runs begin with the next one. */
static void runs_begin_with_rows(void **state)
{
    enum { ROW = 1111, ROWS = 300 };
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    struct crn_stream_options o = {.type = CAIRN_F32, .chunk_bytes = CRN_CHUNK_MIN_BYTES};
    struct crn_run run = {.stride = {1, ROW, 0}};
    size_t n = (size_t)ROW * ROWS * 4;
    unsigned char *src = malloc(n);
    struct stream_test_store s;
    struct crn_encoder *e;
    uint64_t stored[2] = {0};
    size_t i, k;

    assert_non_null(src);
    for (i = 0; i < n / 4; i++) {
        size_t row = i / ROW;
        float g = sinf(0.002F * (float)(i % ROW)) * cosf(0.03F * (float)row);

        memcpy(src + 4 * i, &g, 4);
    }
    assert_ok(crn_pipe_parse("lorenzo:51,magnitude", &o.pipe, ei));
    for (k = 0; k < 2; k++) {
        memset(&s, 0, sizeof(s));
        run.place = k == 0 ? 0 : ROW / 2; /* the second time the rows are where it does not know */
        assert_ok(crn_encoder_open(&o, f->work, emit, &s, &e, ei));
        assert_ok(crn_encoder_put(e, src, n, &run, NULL, ei));
        assert_ok(crn_encoder_finish(e, &s.map, ei));
        crn_encoder_close(e);
        check_reads(f, &s, src, n);
        for (i = 0; i < s.n; i++)
            stored[k] += s.records[i].encoded;
        store_free(&s);
    }
    assert_true(stored[0] < stored[1]);
    free(src);
}

/* Thin slabs of one array are predicted from each other. */
static void slabs_continue(void **state)
{
    enum { SIDE = 40, SLABS = 20, SLAB = 2 * SIDE * SIDE };
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    struct crn_stream_options o = {.type = CAIRN_F32};
    struct crn_run run = {.stride = {1, SIDE, SIDE * SIDE}};
    size_t n = (size_t)SLABS * SLAB * 4;
    unsigned char *src = malloc(n);
    struct stream_test_store s;
    struct crn_encoder *e;
    uint64_t stored[2] = {0};
    size_t i, k;

    assert_non_null(src);
    for (i = 0; i < n / 4; i++) {
        size_t row = i / SIDE % SIDE, plane = i / SIDE / SIDE;
        float g =
            sinf(0.07F * (float)(i % SIDE)) * cosf(0.03F * (float)row) * sinf(0.05F * (float)plane);

        memcpy(src + 4 * i, &g, 4);
    }
    assert_ok(crn_pipe_parse("lorenzo:55,magnitude", &o.pipe, ei));
    for (k = 0; k < 2; k++) {
        memset(&s, 0, sizeof(s));
        assert_ok(crn_encoder_open(&o, f->work, emit, &s, &e, ei));
        for (i = 0; i < SLABS; i++) {
            run.place = k == 0 ? i * SLAB : 0;
            assert_ok(crn_encoder_put(e, src + i * SLAB * 4, SLAB * 4, &run, NULL, ei));
        }
        assert_ok(crn_encoder_finish(e, &s.map, ei));
        crn_encoder_close(e);
        check_reads(f, &s, src, n);
        for (i = 0; i < s.n; i++)
            stored[k] += s.records[i].encoded;
        store_free(&s);
    }
    assert_true(stored[0] < stored[1] / 10 * 8);
    free(src);
}

static void damage_is_refused(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    struct crn_stream_options o = {.type = CAIRN_F32, .chunk_bytes = CRN_CHUNK_MIN_BYTES};
    size_t n = 300000;
    unsigned char *src = malloc(n);
    unsigned char *back = malloc(n);
    struct crn_reader_options ro;
    struct crn_map_item item = {.bytes = 300000, .source = 1};
    struct crn_map map = {.n = 1, .items = &item};
    struct crn_reader *r;
    struct stream_test_store s;

    assert_non_null(src);
    assert_non_null(back);
    assert_ok(crn_pipe_parse("lorenzo:3,magnitude", &o.pipe, ei));
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F32, src, n);
    encode_all(f, &o, src, NULL, n, &s);
    s.bytes[2][s.records[2].encoded / 2] ^= 1;
    ro = reading(&s);
    assert_ok(crn_reader_open(&ro, f->work, &r, ei));
    assert_int_equal(crn_reader_read(r, 0, back, n, ei), CAIRN_EDAMAGED);
    assert_non_null(strstr(ei->msg, "chunk 2"));
    crn_err_clear(ei);
    /* the other chunks are intact */
    assert_ok(crn_reader_read(r, 0, back, CRN_CHUNK_MIN_BYTES, ei));
    crn_reader_close(r);

    s.records[3].offset += 4;
    assert_int_equal(crn_reader_open(&ro, f->work, &r, NULL), CAIRN_EDAMAGED);
    s.records[3].offset -= 4;
    s.records[3].encoded = s.records[3].bytes + 1;
    assert_int_equal(crn_reader_open(&ro, f->work, &r, NULL), CAIRN_EDAMAGED);
    s.records[3].encoded = 100;
    ro.map = &map; /* an item that ends beyond the stream */
    assert_int_equal(crn_reader_open(&ro, f->work, &r, NULL), CAIRN_EDAMAGED);
    store_free(&s);
    free(back);
    free(src);
}

/* The emitter's error is returned by put and by finish, and nothing leaks. */
static void failing_emitter(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_stream_options o = {
        .type = CAIRN_F64, .chunk_bytes = CRN_CHUNK_MIN_BYTES, .dedup = 1};
    size_t n = 4 * CRN_CHUNK_MIN_BYTES + 800;
    unsigned char *src = malloc(n);
    size_t k;

    assert_non_null(src);
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F64, src, n);
    for (k = 1; k <= 5; k++) {
        struct stream_test_store s = {.fail_at = k};
        struct crn_encoder *e;
        struct crn_map map;
        cairn_err rc;

        crn_err_clear(&f->info);
        assert_int_equal(crn_encoder_open(&o, f->work, emit, &s, &e, &f->info), CAIRN_OK);
        rc = crn_encoder_put(e, src, n, NULL, NULL, &f->info);
        assert_int_equal(rc, k == 5 ? CAIRN_OK : CAIRN_ENOSPC);
        if (rc == CAIRN_OK)
            assert_int_equal(crn_encoder_finish(e, &map, &f->info), CAIRN_ENOSPC);
        assert_string_equal(f->info.msg, "full");
        crn_encoder_close(e);
        store_free(&s);
    }
    o.chunk_bytes = 1000;
    {
        struct crn_encoder *e;

        assert_int_equal(crn_encoder_open(&o, f->work, emit, NULL, &e, NULL), CAIRN_EINVAL);
    }
    free(src);
}

static void memory_is_bounded(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_choose_options choose = {.aim = CRN_AIM_RATIO, .cpu_share = 10};
    struct crn_stream_options o = {
        .type = CAIRN_F64, .chunk_bytes = CRN_CHUNK_MAX_BYTES, .key = "k"};
    struct crn_errinfo *ei = &f->info;
    size_t n = 2 * CRN_CHUNK_MAX_BYTES;
    unsigned char *src = malloc(n);
    struct stream_test_store s;

    assert_non_null(src);
    o.bytes = 100 * n; /* allows all trials */
    assert_ok(crn_chooser_open(&choose, &o.chooser, ei));
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F64, src, n);
    encode_all(f, &o, src, src, n, &s);
    check_reads(f, &s, src, n);
    assert_true(crn_work_bytes(f->work) < CRN_WORK_MAX);
    store_free(&s);
    crn_chooser_close(o.chooser);
    free(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_back),     cmocka_unit_test(repeated_blocks_are_kept_once),
        cmocka_unit_test(runs_begin_with_rows), cmocka_unit_test(slabs_continue),
        cmocka_unit_test(damage_is_refused),    cmocka_unit_test(failing_emitter),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
