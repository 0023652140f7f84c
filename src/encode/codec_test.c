/* SPDX-License-Identifier: BSD-3-Clause */
/* Each codec by itself, without the raw fallback that chunks have: every content survives every
 * codec, even if it grows. Also the specifics of some: zfp's bound on every element, our reader
 * of fpzip's streams, a gzip stream for gunzip, FPC's bytes from the paper's description. */
#include "base/test.h"

#include "encode/entropy.h"
#include "format/format.h"
#include "encode/test_fixture.h"
#include "encode/work.h"
#ifdef CRN_WITH_ZLIB
#include <zlib.h>
#endif

static int setup(void **state)
{
    return test_setup(state, 77);
}

/* Encodes with exactly the space that the codec asks for. The caller frees ret. */
static unsigned char *encode(struct fixture_fixture *f, const struct crn_codec *c, unsigned arg,
                             const struct crn_data *data, const unsigned char *src, size_t n,
                             size_t *ret_n)
{
    struct crn_errinfo *ei = &f->info;
    struct crn_stage_task t = {.work = f->work,
                               .data = data,
                               .arg = (uint8_t)arg,
                               .src = src,
                               .src_n = n,
                               .dst = malloc(c->bound(n)),
                               .dst_n = c->bound(n)};

    assert_non_null(t.dst);
    assert_ok(c->encode(&t, ret_n, ei));
    assert_true(*ret_n <= c->bound(n));
    return t.dst;
}

static void decode(struct fixture_fixture *f, const struct crn_codec *c, unsigned arg,
                   const struct crn_data *data, const unsigned char *src, size_t src_n,
                   unsigned char *dst, size_t n)
{
    struct crn_errinfo *ei = &f->info;
    struct crn_stage_task t = {.work = f->work,
                               .data = data,
                               .arg = (uint8_t)arg,
                               .src = src,
                               .src_n = src_n,
                               .dst = dst,
                               .dst_n = n};

    assert_ok(c->decode(&t, ei));
}

static void check_codec(struct fixture_fixture *f, const struct crn_codec *c, unsigned arg,
                        const struct crn_data *data, const unsigned char *src, size_t n)
{
    unsigned char *back = malloc(n);
    unsigned char *encoded;
    size_t size;

    assert_non_null(back);
    encoded = encode(f, c, arg, data, src, n, &size);
    decode(f, c, arg, data, encoded, size, back, n);
    assert_memory_equal(back, src, n);
    free(encoded);
    free(back);
}

static void every_codec_keeps_every_content(void **state)
{
    static const size_t sizes[] = {16, 48, 1600, 70000};
    struct fixture_fixture *f = *state;
    size_t ncodecs, i, k;
    const struct crn_codec *const *table = crn_codec_table(&ncodecs);
    unsigned char *src = malloc(70000);
    int t, content;

    assert_non_null(src);
    for (t = CAIRN_BYTES; t < CRN_TYPES; t++)
        for (content = 0; content < CONTENT_COUNT; content++)
            for (k = 0; k < 4; k++) {
                struct crn_data data = {.type = (cairn_type)t, .previous = src};

                test_fill(&f->rng, (enum content)content, data.type, src, sizes[k]);
                for (i = 0; i < ncodecs; i++)
                    if (table[i]->encode != NULL && !table[i]->is_lossy &&
                        (table[i]->fits == NULL || table[i]->fits(&data)) &&
                        (sizes[k] < 70000 || t >= CAIRN_F32)) /* enough for the large sizes */
                        check_codec(f, table[i], table[i]->arg_default, &data, src, sizes[k]);
            }
    free(src);
}

static void huffman_codes_of_all_shapes(void **state)
{
    struct fixture_fixture *f = *state;
    size_t n = 3 * CRN_HUFFMAN_BLOCK + 77;
    unsigned char *src = malloc(n);
    unsigned char *dst = malloc(crn_huffman_bound(n));
    unsigned char *back = malloc(n);
    size_t i, m, size;
    int shape;

    assert_non_null(src);
    assert_non_null(dst);
    assert_non_null(back);
    for (shape = 0; shape < 24; shape++) { /* from a single value to a uniform distribution */
        m = shape % 3 == 0 ? n : (size_t)crn_rng_below(&f->rng, 3000) + 1;
        for (i = 0; i < m; i++) {
            uint64_t r = crn_rng_u64(&f->rng);
            /* Leading zeros are distributed like 2^-n, which gives the longest possible codes. */
            unsigned long zeros = (unsigned long)__builtin_clzll(r | 1);

            src[i] =
                (unsigned char)(zeros * (unsigned long)(shape / 3 + 1) + r % (1U << shape / 3));
        }
        size = crn_huffman_encode(src, m, dst);
        assert_true(size <= crn_huffman_bound(m));
        memset(back, 0, m);
        assert_int_equal(crn_huffman_decode(dst, size, back, m), 0);
        assert_memory_equal(src, back, m);
        assert_int_equal(crn_huffman_decode(dst, size - 1, back, m), -1);
    }
    free(back);
    free(dst);
    free(src);
}

/* The first value is not predicted; the second and third are, by difference and by value. */
static void fpc_as_described(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_data data = {.type = CAIRN_F64};
    double values[4] = {1.5, 1.5, 1.5, -0.0};
    unsigned char *encoded;
    size_t size;

    encoded =
        encode(f, &crn_codec_fpc, 2, &data, (const unsigned char *)values, sizeof(values), &size);
    /* Value 0: both predictors say 0, the first is chosen, there are no zero bytes. */
    assert_int_equal(encoded[0] & 15, 0);
    assert_memory_equal(encoded + 2, &values[0], 8);
    /* Value 3, -0.0: the top byte is 0x80, so no leading byte can be omitted. */
    assert_int_equal(encoded[1] >> 4 & 7, 0);
    free(encoded);
    check_codec(f, &crn_codec_fpc, 2, &data, (const unsigned char *)values, sizeof(values));
}

static void gzip_is_read_by_zlib(void **state)
{
#ifdef CRN_WITH_ZLIB
    struct fixture_fixture *f = *state;
    struct crn_data data = {.type = CAIRN_BYTES};
    unsigned char src[5000];
    unsigned char back[5001];
    unsigned char *encoded;
    z_stream z = {0};
    size_t size;

    test_fill(&f->rng, CONTENT_TEXT, CAIRN_BYTES, src, sizeof(src));
    encoded = encode(f, &crn_codec_gzip, 6, &data, src, sizeof(src), &size);
    assert_int_equal(encoded[0], 0x1f);
    assert_int_equal(encoded[1], 0x8b);
    z.next_in = encoded;
    z.avail_in = (uInt)size;
    z.next_out = back;
    z.avail_out = sizeof(back);
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, sizeof(src));
    assert_memory_equal(back, src, sizeof(src));
    (void)inflateEnd(&z);
    free(encoded);
#else
    (void)state;
    skip();
#endif
}

/* A field with a step and values of many magnitudes. */
static void fill_lossy(struct fixture_fixture *f, unsigned char *p, size_t n, unsigned width,
                       double scale)
{
    size_t i;

    for (i = 0; i < n / width; i++) {
        double v = scale * (sin(0.05 * (double)(i % 100)) + (double)(i % 1000 > 500) +
                            1e-3 * crn_rng_unit(&f->rng));
        float s = (float)v;

        if (width == 8)
            memcpy(p + 8 * i, &v, 8);
        else
            memcpy(p + 4 * i, &s, 4);
    }
}

static double value(const unsigned char *p, size_t i, unsigned width)
{
    double d;
    float s;

    memcpy(width == 8 ? (void *)&d : (void *)&s, p + width * i, width);
    return width == 8 ? d : (double)s;
}

static void zfp_keeps_its_bound(void **state)
{
    struct fixture_fixture *f = *state;
    static const double tolerances[] = {1e-1, 1e-3, 1e-6, 1e-9};
    size_t n = 80000;
    unsigned char *src = calloc(1, n);
    unsigned char *back = calloc(1, n);
    struct crn_run runs[3] = {{.elements = 10000, .stride = {1, 0, 0}},
                              {.elements = 10000, .stride = {1, 100, 0}},
                              {.elements = 10000, .stride = {1, 20, 500}}};
    size_t i, k, size;
    int is_relative, shape, width;

    if (crn_codec_zfp.encode == NULL || src == NULL || back == NULL) {
        free(src);
        free(back);
        skip();
        return;
    }
    for (width = 4; width <= 8; width += 4)
        for (is_relative = 0; is_relative < 2; is_relative++)
            for (k = 0; k < 4; k++)
                for (shape = 0; shape < 3; shape++) {
                    struct crn_data data = {.type = width == 8 ? CAIRN_F64 : CAIRN_F32,
                                            .nruns = 1,
                                            .runs = &runs[shape],
                                            .tolerance = tolerances[k]};
                    double scale = is_relative ? 1e10 : 1;
                    double least = INFINITY, most = -INFINITY, bound = tolerances[k];
                    unsigned char *encoded;

                    if (width == 4 && k > 1)
                        continue; /* finer than the precision of floats */
                    runs[shape].elements = n / (size_t)width;
                    fill_lossy(f, src, n, (unsigned)width, scale);
                    encoded =
                        encode(f, &crn_codec_zfp, (unsigned)is_relative, &data, src, n, &size);
                    decode(f, &crn_codec_zfp, (unsigned)is_relative, &data, encoded, size, back, n);
                    for (i = 0; i < n / (size_t)width; i++) {
                        least = fmin(least, value(src, i, (unsigned)width));
                        most = fmax(most, value(src, i, (unsigned)width));
                    }
                    if (is_relative)
                        bound *= most - least;
                    for (i = 0; i < n / (size_t)width; i++)
                        assert_true(fabs(value(src, i, (unsigned)width) -
                                         value(back, i, (unsigned)width)) <= bound);
                    assert_true(size < n);
                    free(encoded);
                }
    free(back);
    free(src);
}

/* zfp refuses NaN, infinities, and a tolerance finer than the numbers' precision. */
static void zfp_refuses_what_it_cannot_keep(void **state)
{
    struct fixture_fixture *f = *state;
    struct crn_data data = {.type = CAIRN_F64, .tolerance = 1e-3};
    double values[64];
    unsigned char dst[8192];
    struct crn_stage_task t = {.work = f->work,
                               .data = &data,
                               .src = (const unsigned char *)values,
                               .src_n = sizeof(values),
                               .dst = dst,
                               .dst_n = sizeof(dst)};
    size_t size;
    int i;

    if (crn_codec_zfp.encode == NULL)
        skip();
    for (i = 0; i < 64; i++)
        values[i] = i;
    assert_int_equal(crn_codec_zfp.encode(&t, &size, NULL), CAIRN_OK);
    values[7] = (double)NAN;
    assert_int_equal(crn_codec_zfp.encode(&t, &size, NULL), CAIRN_ENOTSUP);
    values[7] = -(double)INFINITY;
    assert_int_equal(crn_codec_zfp.encode(&t, &size, NULL), CAIRN_ENOTSUP);
    values[7] = 1e300; /* its neighbours lose all their bits next to it */
    data.tolerance = 1e-12;
    assert_int_equal(crn_codec_zfp.encode(&t, &size, NULL), CAIRN_ENOTSUP);
    data.tolerance = 0;
    assert_false(crn_codec_zfp.fits(&data));
    assert_int_equal(crn_codec_zfp.encode(&t, &size, NULL), CAIRN_ENOTSUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_keeps_every_content),
        cmocka_unit_test(huffman_codes_of_all_shapes),
        cmocka_unit_test(fpc_as_described),
        cmocka_unit_test(gzip_is_read_by_zlib),
        cmocka_unit_test(zfp_keeps_its_bound),
        cmocka_unit_test(zfp_refuses_what_it_cannot_keep),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
