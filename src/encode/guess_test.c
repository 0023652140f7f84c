/* SPDX-License-Identifier: BSD-3-Clause */
/* Records in untyped bytes are found: their length, the width, order and first byte of their numbers.
 * The choice then encodes them as such, and what comes back is the same. */
#include "base/test.h"

#include <math.h>
#include "base/rng.h"
#include "encode/choose.h"
#include "encode/chunk.h"
#include "encode/work.h"

#define N ((size_t)200 << 10)

struct guess_fixture {
    struct crn_encode_work *work;
    unsigned char *src;
};

static int setup(void **state)
{
    struct guess_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->src = calloc(1, N + 64);
    assert_non_null(f->src);
    assert_int_equal(crn_work_new(&f->work, NULL), CAIRN_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct guess_fixture *f = *state;

    crn_work_free(f->work);
    free(f->src);
    free(f);
    return 0;
}

struct layout {
    unsigned head; /* bytes before the first record */
    unsigned width, words;
    int is_swapped;
};

static void put_number(unsigned char *p, const struct layout *l, double value)
{
    float single = (float)value;

    if (l->width == 8)
        memcpy(p, &value, 8);
    else
        memcpy(p, &single, 4);
    if (l->is_swapped)
        crn_filter_swap_words(p, p, 1, l->width);
}

/* Every word of the records is a slow curve of its own, with noise and of either sign. */
static void fill_records(unsigned char *src, const struct layout *l)
{
    struct crn_rng rng;
    size_t at = l->head;
    size_t i;
    unsigned k;

    crn_rng_seed(&rng, 9);
    for (i = 0; i < N; i++)
        src[i] = (unsigned char)crn_rng_u64(&rng);
    for (i = 0; at + (size_t)l->words * l->width <= N; i++)
        for (k = 0; k < l->words; k++, at += l->width)
            put_number(src + at, l,
                       (k % 2 == 0 ? 1 : -1) * pow(30, k) *
                           (1.5 + sin(1e-3 * (double)i) + 1e-4 * crn_rng_unit(&rng)));
}

static void check_round(struct guess_fixture *f, double most, struct crn_errinfo *ei)
{
    struct crn_choose_options o = {.aim = CRN_AIM_RATIO};
    struct crn_data data = {.type = CAIRN_BYTES};
    unsigned char *out = malloc(N);
    unsigned char *back = malloc(N);
    struct crn_choice choice;
    struct crn_chooser *c;
    struct crn_data taken;
    struct crn_run run;
    size_t n;

    assert_non_null(out);
    assert_non_null(back);
    assert_ok(crn_chooser_open(&o, &c, ei));
    assert_ok(crn_choose(c, f->work, "x", &data, f->src, N, 8 * N, &choice, ei));
    crn_as_data(&data, choice.as, N, &run, &taken);
    assert_ok(crn_chunk_encode(f->work, &choice.pipe, &taken, f->src, N, out, &n, NULL, ei));
    assert_true((double)n < most * (double)N);
    assert_ok(crn_chunk_decode(f->work, out, n, NULL, back, N, ei));
    assert_memory_equal(back, f->src, N);
    crn_chooser_close(c);
    free(back);
    free(out);
}

static void records_are_found(void **state)
{
    static const struct layout layouts[] = {{0, 8, 5, 0},  {4, 8, 3, 0}, {100, 8, 7, 0},
                                            {84, 4, 3, 1}, {3, 4, 9, 0}, {13, 8, 4, 1}};
    struct guess_fixture *f = *state;
    struct crn_errinfo info = {0}, *ei = &info;
    size_t i;

    for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        const struct layout *l = &layouts[i];
        struct crn_guess g;
        int is_found;

        fill_records(f->src, l);
        assert_ok(crn_guess(f->work, f->src, N, &is_found, &g, ei));
        assert_true(is_found);
        assert_int_equal(crn_word_of(g.as.type).width, l->width);
        assert_int_equal(g.as.stride, l->words);
        assert_int_equal(g.rotate, l->head % l->width);
        assert_int_equal(g.is_swapped, l->is_swapped);
        check_round(f, l->width == 8 ? 0.75 : 0.6, ei);
    }
}

static void nothing_is_found_in_noise(void **state)
{
    struct guess_fixture *f = *state;
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_rng rng;
    struct crn_guess g;
    int is_found;
    size_t i;

    crn_rng_seed(&rng, 1);
    for (i = 0; i < N; i++)
        f->src[i] = (unsigned char)crn_rng_u64(&rng);
    assert_ok(crn_guess(f->work, f->src, N, &is_found, &g, ei));
    assert_false(is_found);
    assert_ok(crn_guess(f->work, f->src, 100, &is_found, &g, ei)); /* too short to tell */
    assert_false(is_found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_found_in_noise, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
