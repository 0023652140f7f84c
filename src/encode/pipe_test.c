/* SPDX-License-Identifier: BSD-3-Clause */
/* Consecutive stages with sizes that do not fit: every filter after and before every codec. The
 * older version has as many bytes as the chunk, in memory of exactly that size, so sanitizers
 * detect any access beyond it. */
#include "base/test.h"

#include "encode/pipe.h"
#include "format/format.h"
#include "encode/test_fixture.h"
#include "encode/work.h"

#define BYTES 1600

static int setup(void **state)
{
    return test_setup(state, 31);
}

static void *exact(const void *src, size_t n)
{
    void *p = malloc(n > 0 ? n : 1);

    assert_non_null(p);
    memcpy(p, src, n);
    return p;
}

/* One stage by itself. The caller frees the result. */
static unsigned char *stage_encode(struct fixture_fixture *f, const struct crn_codec *c,
                                   uint8_t arg, const struct crn_data *data,
                                   const unsigned char *src, size_t n, size_t *ret_n)
{
    struct crn_errinfo *ei = &f->info;
    struct crn_stage_task t = {
        .work = f->work, .data = data, .arg = arg, .src = src, .src_n = n, .dst_n = c->bound(n)};
    unsigned char *tight;

    t.dst = malloc(t.dst_n);
    assert_non_null(t.dst);
    assert_ok(c->encode(&t, ret_n, ei));
    tight = exact(t.dst, *ret_n);
    free(t.dst);
    return tight;
}

struct pipe_test_pair {
    const struct crn_codec *codec, *filter;
    uint8_t arg; /* of the filter */
    int needs_previous;
    cairn_type type;
};

/* Calls fn for every codec that can encode, every filter with every argument, and every type. */
static void each_pair(struct fixture_fixture *f,
                      void (*fn)(struct fixture_fixture *, const struct pipe_test_pair *))
{
    size_t n, i, k;
    const struct crn_codec *const *table = crn_codec_table(&n);

    for (i = 0; i < n; i++)
        for (k = 0; k < n; k++) {
            struct pipe_test_pair p = {.codec = table[i], .filter = table[k]};
            unsigned arg;

            if (p.codec->kind != CRN_STAGE_CODEC || p.codec->encode == NULL || p.codec->is_lossy ||
                p.filter->kind != CRN_STAGE_FILTER)
                continue;
            for (arg = p.filter->arg_min; arg <= p.filter->arg_max; arg++)
                for (p.type = CAIRN_BYTES; p.type < CRN_TYPES; p.type++) {
                    const struct crn_data data = {.type = p.type};
                    const struct crn_pipe alone = {.n = 1, .stage = {{p.filter->id, (uint8_t)arg}}};

                    p.arg = (uint8_t)arg;
                    p.needs_previous = crn_pipe_needs_previous(&alone);
                    if (p.codec->fits == NULL || p.codec->fits(&data))
                        fn(f, &p);
                }
        }
}

/* Codec, then filter: the codec makes random bytes longer. The filter's output is correct in
 * every byte, and decodes if it needs no older version. Otherwise the older version has too few
 * bytes, and both directions refuse the pipeline. */
static void check_grown(struct fixture_fixture *f, const struct pipe_test_pair *p)
{
    const struct crn_pipe pipe = {
        .n = 2, .stage = {{p->codec->id, p->codec->arg_default}, {p->filter->id, p->arg}}};
    unsigned char src[BYTES], back[BYTES], older[4 * BYTES];
    struct crn_data data = {.type = p->type, .previous = older};
    unsigned char *coded, *filtered, *short_older;
    size_t sizes[CRN_PIPE_STAGES] = {0};
    const unsigned char *body;
    struct crn_errinfo *ei = &f->info;

    test_fill(&f->rng, CONTENT_RANDOM, p->type, src, sizeof(src));
    test_fill(&f->rng, CONTENT_RANDOM, p->type, older, sizeof(older));
    coded = stage_encode(f, p->codec, p->codec->arg_default, &data, src, BYTES, &sizes[0]);
    assert_true(sizes[0] <= sizeof(older));
    filtered = stage_encode(f, p->filter, p->arg, &data, coded, sizes[0], &sizes[1]);
    short_older = exact(older, BYTES);
    crn_err_clear(ei);
    if (!p->needs_previous || sizes[0] <= BYTES) {
        data.previous = short_older;
        assert_ok(crn_pipe_decode(&pipe, f->work, &data, filtered, sizes, back, BYTES, ei));
        assert_memory_equal(back, src, BYTES);
        assert_ok(crn_pipe_encode(&pipe, f->work, &data, src, BYTES, &body, sizes, ei));
    } else {
        assert_int_equal(crn_pipe_decode(&pipe, f->work, &data, filtered, sizes, back, BYTES, NULL),
                         CAIRN_EDAMAGED);
        data.previous = short_older;
        assert_int_equal(crn_pipe_decode(&pipe, f->work, &data, filtered, sizes, back, BYTES, NULL),
                         CAIRN_EDAMAGED);
        assert_int_equal(crn_pipe_encode(&pipe, f->work, &data, src, BYTES, &body, sizes, NULL),
                         CAIRN_ENOTSUP);
    }
    free(short_older);
    free(filtered);
    free(coded);
}

static void a_filter_behind_a_codec_that_grew(void **state)
{
    each_pair(*state, check_grown);
}

/* The streams of the other codecs end where the reader has enough; only a chunk's hash detects
 * extra bytes. */
static int knows_length(const struct crn_codec *c)
{
    return c == &crn_codec_raw || c == &crn_codec_zstd || c == &crn_codec_lz4 ||
           c == &crn_codec_gzip;
}

/* Filter, then codec: the codec has BYTES, the head claims n. */
static void check_length(struct fixture_fixture *f, const struct pipe_test_pair *p)
{
    static const int off[] = {-BYTES, -BYTES + 1, -16, -1, 0, 1, 16, BYTES};
    const struct crn_pipe pipe = {
        .n = 2, .stage = {{p->filter->id, p->arg}, {p->codec->id, p->codec->arg_default}}};
    unsigned char src[BYTES], older[2 * BYTES], back[2 * BYTES];
    struct crn_data data = {.type = p->type, .previous = older};
    unsigned char *filtered, *coded;
    size_t bytes, size, i;

    test_fill(&f->rng, CONTENT_STEPS, p->type, src, sizeof(src));
    test_fill(&f->rng, CONTENT_RANDOM, p->type, older, sizeof(older));
    filtered = stage_encode(f, p->filter, p->arg, &data, src, BYTES, &bytes);
    coded = stage_encode(f, p->codec, p->codec->arg_default, &data, filtered, BYTES, &size);
    for (i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        size_t n = (size_t)(BYTES + off[i]);
        size_t sizes[CRN_PIPE_STAGES] = {n, size};
        unsigned char *previous = exact(older, n);
        cairn_err rc;

        data.previous = previous;
        rc = crn_pipe_decode(&pipe, f->work, &data, coded, sizes, back, n, NULL);
        if (off[i] == 0)
            assert_true(rc == CAIRN_OK && memcmp(back, src, BYTES) == 0);
        else if (n > 0 && knows_length(p->codec))
            assert_int_equal(rc, CAIRN_EDAMAGED);
        sizes[0] = n + 1; /* a filter does not change the length */
        assert_int_equal(crn_pipe_decode(&pipe, f->work, &data, coded, sizes, back, n, NULL),
                         CAIRN_EDAMAGED);
        free(previous);
    }
    free(coded);
    free(filtered);
}

static void a_codec_of_another_length(void **state)
{
    each_pair(*state, check_length);
}

/* The length that an intermediate stage claims may be anything. */
static void check_claims(struct fixture_fixture *f, const struct pipe_test_pair *p)
{
    static const size_t claims[] = {0, 1, BYTES - 1, BYTES, BYTES + 1, 2 * BYTES, 0};
    const struct crn_pipe pipe = {.n = 3,
                                  .stage = {{p->codec->id, p->codec->arg_default},
                                            {p->filter->id, p->arg},
                                            {crn_codec_raw.id, 0}}};
    unsigned char older[BYTES], *previous;
    size_t most = p->codec->bound(BYTES);
    size_t i;

    test_fill(&f->rng, CONTENT_RANDOM, p->type, older, sizeof(older));
    previous = exact(older, sizeof(older));
    for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        size_t n = i + 1 < sizeof(claims) / sizeof(claims[0]) ? claims[i] : most;
        size_t sizes[CRN_PIPE_STAGES] = {n, n, n};
        struct crn_data data = {.type = p->type, .previous = previous};
        unsigned char *src = calloc(1, n + 1);
        unsigned char *back = malloc(BYTES);
        cairn_err rc;

        assert_non_null(src);
        assert_non_null(back);
        rc = crn_pipe_decode(&pipe, f->work, &data, src, sizes, back, BYTES, NULL);
        if (p->needs_previous && n > BYTES)
            assert_int_equal(rc, CAIRN_EDAMAGED);
        free(back);
        free(src);
    }
    free(previous);
}

static void a_stage_that_claims_any_length(void **state)
{
    each_pair(*state, check_claims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_behind_a_codec_that_grew),
        cmocka_unit_test(a_codec_of_another_length),
        cmocka_unit_test(a_stage_that_claims_any_length),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
