/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoding reverses encoding for every pipeline, type, content, size and shape, to the bit.
 * Truncated or damaged chunks are refused or give some bytes, but never crash (fuzz targets go
 * further). */
#include "base/test.h"

#include <fenv.h>
#include <float.h>
#include <math.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "encode/chunk.h"
#include "format/format.h"
#include "encode/test_fixture.h"
#include "encode/work.h"

static const char *const pipes[] = {
    "raw",
    "zstd",
    "zstd:3",
    "lz4",
    "lz4:4",
    "gzip",
    "huffman",
    "planes",
    "planes:0",
    "magnitude",
    "fpc",
    "fpc:10",
    "fpzip",
    "shuffle,zstd",
    "swap,lorenzo:3,planes",
    "lorenzo:17,magnitude",
    "lorenzo:19,planes",
    "lorenzo:23,magnitude",
    "lorenzo:35,magnitude",
    "lorenzo:39,planes",
    "lorenzo:34,huffman",
    "lorenzo:49,magnitude",
    "lorenzo:51,planes:0",
    "lorenzo:55,magnitude",
    "rotate:3,swap,lorenzo:2,magnitude",
    "rotate:15,planes",
    "swap,huffman",
    "shuffle,lz4",
    "bitshuffle,zstd",
    "bitshuffle,lz4",
    "delta,zstd",
    "xor,shuffle,lz4",
    "delta,planes",
    "lorenzo,planes",
    "lorenzo:3,planes",
    "lorenzo:7,planes:0",
    "lorenzo:2,magnitude",
    "lorenzo,magnitude",
    "lorenzo:3,magnitude",
    "lorenzo:7,magnitude:0",
    "lorenzo:5,magnitude",
    "fpc,gzip",
    "fpzip,gzip",
    "lz4,gzip",
    "lorenzo:3,shuffle,zstd",
    "lorenzo:0,bitshuffle,huffman",
    "delta,xor,delta,raw",
};
static const char *const temporal[] = {"lorenzo:8,magnitude",  "lorenzo:11,magnitude",
                                       "lorenzo:15,planes",    "xor:1,planes",
                                       "delta:1,shuffle,zstd", "xor:1,delta:1,zstd"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int setup(void **state)
{
    return test_setup(state, 20);
}

/* Random runs that cover at most n elements. */
static uint32_t make_runs(struct crn_rng *rng, struct crn_run *runs, uint32_t most, uint64_t n)
{
    uint32_t i;

    for (i = 0; i < most && n > 0; i++) {
        runs[i].elements = 1 + crn_rng_below(rng, n);
        runs[i].stride[0] = 1;
        runs[i].stride[1] = (uint32_t)crn_rng_below(rng, 60);
        runs[i].stride[2] = runs[i].stride[1] * (uint32_t)crn_rng_below(rng, 20);
        n -= runs[i].elements;
    }
    return i;
}

/* A copy in memory of exactly this size, so that sanitizers detect any access beyond it. */
static void *exact(const void *src, size_t n)
{
    void *p = malloc(n > 0 ? n : 1);

    assert_non_null(p);
    if (n > 0)
        memcpy(p, src, n);
    return p;
}

static void check_identity(struct fixture_fixture *f, const struct crn_pipe *pipe,
                           const struct crn_data *data, const unsigned char *src, size_t n)
{
    struct crn_errinfo *ei = &f->info;
    unsigned char *encoded = malloc(n > 0 ? n : 1);
    unsigned char *back = exact(src, n);
    struct crn_chunk_info info;
    unsigned char *tight;
    size_t size;

    assert_non_null(encoded);
    assert_ok(crn_chunk_encode(f->work, pipe, data, src, n, encoded, &size, NULL, ei));
    assert_true(size <= n);
    tight = exact(encoded, size);
    if (n > 0)
        memset(back, 0x5a, n);
    if (size < n) {
        assert_ok(crn_chunk_inspect(tight, size, &info, ei));
        assert_int_equal(info.bytes, n);
    }
    assert_ok(crn_chunk_decode(f->work, tight, size, data->previous, back, n, ei));
    if (n > 0)
        assert_memory_equal(back, src, n);
    free(tight);
    free(back);
    free(encoded);
}

static void try_all(struct fixture_fixture *f, const char *const *texts, size_t ntexts,
                    cairn_type type, size_t n)
{
    unsigned char *src = malloc(n + 1);
    unsigned char *older = malloc(n + 1);
    struct crn_run runs[8] = {{0}};
    struct crn_data data = {.type = type};
    struct crn_errinfo *ei = &f->info;
    struct crn_pipe pipe;
    size_t i;
    enum content c;

    assert_non_null(src);
    assert_non_null(older);
    for (c = 0; c < CONTENT_COUNT; c++) {
        size_t shift = n > 0 ? (size_t)crn_rng_below(&f->rng, 2) : 0; /* sometimes unaligned */

        test_fill(&f->rng, c, type, src + shift, n);
        test_fill(&f->rng, crn_rng_below(&f->rng, 2) ? c : CONTENT_RANDOM, type, older, n);
        data.nruns = make_runs(&f->rng, runs, (uint32_t)crn_rng_below(&f->rng, 8),
                               n / cairn_type_size(type));
        data.runs = runs;
        data.previous = texts == temporal ? older : NULL;
        for (i = 0; i < ntexts; i++) {
            crn_err_clear(ei);
            if (crn_pipe_parse(texts[i], &pipe, ei) == CAIRN_ENOTSUP)
                continue; /* a library is missing */
            assert_ok(crn_pipe_parse(texts[i], &pipe, ei));
            if (crn_pipe_fits(&pipe, &data))
                check_identity(f, &pipe, &data, src + shift, n);
        }
    }
    free(older);
    free(src);
}

static void identity_for_all(void **state)
{
    static const size_t elements[] = {0, 1, 2, 7, 65, 500, 2111};
    struct fixture_fixture *f = *state;
    size_t i;
    int t;

    for (t = CAIRN_BYTES; t < CRN_TYPES; t++)
        for (i = 0; i < COUNT(elements); i++) {
            size_t n = elements[i] * cairn_type_size((cairn_type)t);

            try_all(f, pipes, COUNT(pipes), (cairn_type)t, n);
            try_all(f, temporal, COUNT(temporal), (cairn_type)t, n);
            if (n > 0) /* and with an incomplete last element */
                try_all(f, pipes, COUNT(pipes), (cairn_type)t, n - 1);
        }
}

/* More than one block of every coder, and more than the sampled extents of a plane. */
static void identity_for_large(void **state)
{
    struct fixture_fixture *f = *state;

    try_all(f, pipes, COUNT(pipes), CAIRN_F64, (1 << 20) + 8);
    try_all(f, pipes, COUNT(pipes), CAIRN_F32, (1 << 20) + 4);
    try_all(f, temporal, COUNT(temporal), CAIRN_F32, 1 << 20);
    try_all(f, pipes, COUNT(pipes), CAIRN_BYTES, (1 << 18) + 1);
}

static void largest_chunk_within_memory(void **state)
{
    struct fixture_fixture *f = *state;
    size_t n = CRN_CHUNK_MAX_BYTES;
    unsigned char *src = malloc(n);
    struct crn_run run = {.elements = n / 8, .stride = {1, 512, 8192}};
    struct crn_data data = {.type = CAIRN_F64, .nruns = 1, .runs = &run};
    struct crn_errinfo *ei = &f->info;
    struct crn_pipe pipe;
    size_t i;

    assert_non_null(src);
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F64, src, n);
    for (i = 0; i < COUNT(pipes); i++)
        if (crn_pipe_parse(pipes[i], &pipe, ei) == CAIRN_OK && crn_pipe_fits(&pipe, &data))
            check_identity(f, &pipe, &data, src, n);
    assert_true(crn_work_bytes(f->work) < CRN_WORK_MAX);
    free(src);
}

/* A pipeline that does not pay, or cannot represent the bytes, is replaced. */
static void incompressible_goes_raw(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_errinfo *ei = &f->info;
    unsigned char src[4096];
    unsigned char dst[4096];
    struct crn_pipe pipe;
    struct crn_pipe used;
    size_t size;

    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, src, sizeof(src));
    assert_ok(crn_pipe_parse("lorenzo,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, sizeof(src), dst, &size, &used, ei));
    assert_int_equal(used.n, 0);
    assert_int_equal(size, sizeof(src));
}

static void smooth_data_shrinks(void **state)
{
    struct fixture_fixture *f = *state;
    size_t n = 1 << 18;
    unsigned char *src = malloc(n);
    unsigned char *dst = malloc(n);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_errinfo *ei = &f->info;
    struct crn_pipe pipe;
    size_t coded;
    size_t size;

    assert_non_null(src);
    assert_non_null(dst);
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F64, src, n);
    assert_ok(crn_pipe_parse("lorenzo,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, n, dst, &size, NULL, ei));
    assert_ok(crn_pipe_parse("huffman", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, n, dst, &coded, NULL, ei));
    assert_true(size < coded && coded < n);
    test_fill(&f->rng, CONTENT_ZEROS, CAIRN_F64, src, n);
    assert_ok(crn_pipe_parse("lorenzo,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, n, dst, &size, NULL, ei));
    assert_true(size < 64);
    free(dst);
    free(src);
}

/* What the program does to floating-point arithmetic. */
static void strange_arithmetic(int is_strange)
{
    (void)fesetround(is_strange ? FE_UPWARD : FE_TONEAREST);
#ifdef __SSE2__
    _mm_setcsr(is_strange ? _mm_getcsr() | 0x8040U : _mm_getcsr() & ~0x8040U); /* no subnormals */
#endif
}

/* Predicted values are the same bits in every program: also where it rounds upward or takes
 * subnormals for zero, as with -ffast-math. */
static void values_do_not_depend_on_the_program(void **state)
{
    static const char *const texts[] = {"lorenzo:39,magnitude", "lorenzo:55,magnitude"};
    static const cairn_type types[] = {CAIRN_F32, CAIRN_F64};
    enum { N = 65536 };
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    unsigned char *src = malloc(N), *there = malloc(N), *back = malloc(N), *again = malloc(N);
    size_t size, size_again, i;
    struct crn_pipe pipe;
    unsigned k;

    assert_true(src != NULL && there != NULL && back != NULL && again != NULL);
    for (k = 0; k < 4; k++) {
        size_t width = k % 2 == 0 ? sizeof(float) : sizeof(double);
        struct crn_run run = {.elements = N / width, .stride = {1, 64, 1024}};
        struct crn_data data = {.type = types[k % 2], .nruns = 1, .runs = &run};

        for (i = 0; i < N / width; i++) { /* a third are subnormal */
            double d = sin(0.01 * (double)i) * (i % 3 == 0 ? DBL_MIN : 1);
            float g = sinf(0.01F * (float)i) * (i % 3 == 0 ? FLT_MIN : 1);

            memcpy(src + i * width, width == sizeof(d) ? (void *)&d : (void *)&g, width);
        }
        assert_ok(crn_pipe_parse(texts[k / 2], &pipe, ei));
        assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, N, there, &size, NULL, ei));
        strange_arithmetic(1);
        assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, N, again, &size_again, NULL, ei));
        assert_ok(crn_chunk_decode(f->work, there, size, NULL, back, N, ei));
        assert_int_equal(fegetround(), FE_UPWARD); /* left as it was */
        strange_arithmetic(0);
        assert_memory_equal(back, src, N);
        assert_int_equal(size_again, size);
        assert_memory_equal(again, there, size);
    }
    free(src);
    free(there);
    free(back);
    free(again);
}

/* Across powers of two and signs, differences of numbers are smaller than those of ordered integers. */
static void values_predict_better_across_zero(void **state)
{
    enum { SIDE = 64, N = SIDE * SIDE * SIDE * 4 };
    struct fixture_fixture *f = *state;
    struct crn_run run = {.elements = N / 4, .stride = {1, SIDE, SIDE * SIDE}};
    struct crn_data data = {.type = CAIRN_F32, .nruns = 1, .runs = &run};
    struct crn_errinfo *ei = &f->info;
    unsigned char *src = malloc(N), *dst = malloc(N);
    struct crn_pipe pipe;
    size_t integers, values, i;

    assert_true(src != NULL && dst != NULL);
    for (i = 0; i < N / 4; i++) {
        size_t row = i / SIDE % SIDE, plane = i / SIDE / SIDE;
        float g =
            sinf(0.07F * (float)(i % SIDE)) * cosf(0.05F * (float)row) * sinf(0.06F * (float)plane);

        memcpy(src + 4 * i, &g, 4);
    }
    assert_ok(crn_pipe_parse("lorenzo:23,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, N, dst, &integers, NULL, ei));
    assert_ok(crn_pipe_parse("lorenzo:55,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, N, dst, &values, NULL, ei));
    assert_true(values < integers / 4 * 3);
    free(src);
    free(dst);
}

static void wrong_size_and_missing_version(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    unsigned char src[800];
    unsigned char dst[1200];
    unsigned char back[801];
    struct crn_data data = {.type = CAIRN_F64, .previous = src};
    struct crn_pipe pipe;
    size_t size;

    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F64, src, sizeof(src));
    assert_ok(crn_pipe_parse("lorenzo:8,magnitude", &pipe, ei));
    assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, sizeof(src), dst, &size, NULL, ei));
    assert_int_equal(crn_chunk_decode(f->work, dst, size, NULL, back, sizeof(src), ei),
                     CAIRN_ESTATE);
    crn_err_clear(ei);
    assert_int_equal(crn_chunk_decode(f->work, dst, size, src, back, sizeof(src) + 1, ei),
                     CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_ok(crn_chunk_decode(f->work, dst, size, src, back, sizeof(src), ei));
    dst[0] = 2;
    assert_int_equal(crn_chunk_decode(f->work, dst, size, src, back, sizeof(src), ei),
                     CAIRN_EFORMAT);
}

/* Every truncation is refused, and no single-byte change causes a crash. */
static void damage_is_noticed(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_run run = {.elements = 300, .stride = {1, 20, 100}};
    struct crn_data data = {.type = CAIRN_F32, .nruns = 1, .runs = &run};
    struct crn_errinfo *ei = &f->info;
    unsigned char src[1200];
    unsigned char dst[1400];
    unsigned char back[1200];
    struct crn_pipe pipe;
    size_t refused = 0;
    size_t i, k, size;

    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F32, src, sizeof(src));
    for (i = 0; i < COUNT(pipes); i++) {
        if (crn_pipe_parse(pipes[i], &pipe, ei) != CAIRN_OK || !crn_pipe_fits(&pipe, &data))
            continue;
        crn_err_clear(ei);
        assert_ok(crn_chunk_encode(f->work, &pipe, &data, src, sizeof(src), dst, &size, NULL, ei));
        for (k = 0; k < size; k++) {
            unsigned char *tight = exact(dst, k);

            assert_int_not_equal(
                crn_chunk_decode(f->work, tight, k, NULL, back, sizeof(back), NULL), CAIRN_OK);
            free(tight);
            tight = exact(dst, size);
            tight[k] ^= (unsigned char)(1 + crn_rng_below(&f->rng, 255));
            if (crn_chunk_decode(f->work, tight, size, NULL, back, sizeof(back), NULL) != CAIRN_OK)
                refused++;
            free(tight);
        }
    }
    assert_true(refused > 0);
}

static void pipes_in_text(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_errinfo *ei = &f->info;
    char text[CRN_PIPE_TEXT];
    struct crn_pipe p;
    struct crn_pipe q;
    size_t i;

    for (i = 0; i < COUNT(pipes); i++) {
        crn_err_clear(ei);
        if (crn_pipe_parse(pipes[i], &p, ei) == CAIRN_ENOTSUP)
            continue;
        crn_pipe_text(&p, text);
        assert_string_equal(text, pipes[i]);
        assert_ok(crn_pipe_parse(text, &q, ei));
        assert_true(crn_pipe_equal(&p, &q));
    }
    crn_err_clear(ei);
    assert_int_equal(crn_pipe_parse("lorentz,zstd", &p, ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei->msg, "lorentz"));
    assert_int_equal(crn_pipe_parse("planes:20", &p, NULL), CAIRN_EINVAL);
    assert_int_equal(crn_pipe_parse("planes:", &p, NULL), CAIRN_EINVAL);
    assert_int_equal(crn_pipe_parse("planes,", &p, NULL), CAIRN_EINVAL);
    assert_int_equal(crn_pipe_parse("", &p, NULL), CAIRN_EINVAL);
    assert_int_equal(crn_pipe_parse("raw,raw,raw,raw,raw", &p, NULL), CAIRN_EINVAL);
}

static void codecs_are_told_apart(void **state)
{
    size_t n, i, k;
    const struct crn_codec *const *table = crn_codec_table(&n);

    (void)state;
    for (i = 0; i < n; i++)
        for (k = 0; k < i; k++) {
            assert_int_not_equal(table[i]->id, table[k]->id);
            assert_string_not_equal(table[i]->name, table[k]->name);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_for_all),
        cmocka_unit_test(identity_for_large),
        cmocka_unit_test(largest_chunk_within_memory),
        cmocka_unit_test(incompressible_goes_raw),
        cmocka_unit_test(smooth_data_shrinks),
        cmocka_unit_test(values_do_not_depend_on_the_program),
        cmocka_unit_test(values_predict_better_across_zero),
        cmocka_unit_test(wrong_size_and_missing_version),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(pipes_in_text),
        cmocka_unit_test(codecs_are_told_apart),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
