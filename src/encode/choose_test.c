/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice: suitable pipelines are found, noise stays raw, choices are remembered and made
 * again on drift, trials stay within their share, and aims differ. CPU time comes from a clock
 * that the test advances by hand. */
#include "base/test.h"

#include <math.h>

#include "encode/choose.h"
#include "encode/chunk.h"
#include "encode/sample.h"
#include "encode/lorenzo.h"
#include "encode/test_data.h"
#include "encode/trial.h"
#include "encode/work.h"

#define N ((size_t)512 << 10)

static int64_t now_ns;
static int64_t step_ns; /* each reading of the clock advances it by this much */

static int64_t fake_cpu_ns(void)
{
    now_ns += step_ns;
    return now_ns;
}

struct choose_test_fixture {
    struct crn_encode_work *work;
    struct crn_rng rng;
    struct crn_errinfo info;
    unsigned char *src;
};

static int setup(void **state)
{
    struct choose_test_fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->src = malloc(N);
    assert_non_null(f->src);
    assert_int_equal(crn_work_new(&f->work, &f->info), CAIRN_OK);
    crn_rng_seed(&f->rng, 5);
    now_ns = 0;
    step_ns = 0;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct choose_test_fixture *f = *state;

    crn_work_free(f->work);
    free(f->src);
    free(f);
    return 0;
}

static struct crn_chooser *chooser_for(struct choose_test_fixture *f, enum crn_aim aim,
                                       double bandwidth)
{
    struct crn_choose_options o = {.aim = aim, .bandwidth = bandwidth, .cpu_ns = fake_cpu_ns};
    struct crn_errinfo *ei = &f->info;
    struct crn_chooser *c;

    assert_ok(crn_chooser_open(&o, &c, ei));
    return c;
}

static struct crn_choice choose(struct choose_test_fixture *f, struct crn_chooser *c,
                                const char *key, const struct crn_data *data)
{
    struct crn_errinfo *ei = &f->info;
    struct crn_choice choice;

    assert_ok(crn_choose(c, f->work, key, data, f->src, N, 16 * N, &choice, ei));
    return choice;
}

/* A smooth field in two dimensions with noise in its lowest bits. */
static void fill_field(struct choose_test_fixture *f, size_t columns)
{
    double *p = (double *)(void *)f->src;
    size_t i;

    for (i = 0; i < N / 8; i++)
        p[i] = 2 +
               sin(0.02 * (double)(i % columns)) * cos(0.03 * floor((double)i / (double)columns)) +
               1e-9 * crn_rng_unit(&f->rng);
}

static void smooth_field_gets_a_predictor(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_run run = {.elements = N / 8, .stride = {1, 256, 0}};
    struct crn_data data = {.type = CAIRN_F64, .nruns = 1, .runs = &run};
    struct crn_choice choice;

    fill_field(f, 256);
    choice = choose(f, c, "field", &data);
    assert_true(choice.pipe.n >= 2);
    assert_int_equal(choice.pipe.stage[0].id, crn_filter_lorenzo.id);
    assert_int_equal(choice.pipe.stage[0].arg & 7, 3);
    assert_true(choice.share < 0.8);
    assert_false(crn_pipe_is_lossy(&choice.pipe));
    crn_chooser_close(c);
}

/* The result of a trial equals that of encoding. */
static void result_of_the_trial_is_kept(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F32};
    struct crn_errinfo *ei = &f->info;
    unsigned char *back = malloc(N);
    struct crn_choice choice;

    assert_non_null(back);
    test_fill(&f->rng, CONTENT_SMOOTH, CAIRN_F32, f->src, N);
    choice = choose(f, c, "v", &data);
    if (choice.encoded != NULL) {
        assert_ok(crn_chunk_decode(f->work, choice.encoded, choice.encoded_n, NULL, back, N, ei));
        assert_memory_equal(back, f->src, N);
    }
    free(back);
    crn_chooser_close(c);
}

static void noise_goes_raw_and_is_looked_at_again(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser_stats stats;
    int i;

    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, f->src, N);
    for (i = 0; i < 20; i++) {
        assert_int_equal(choose(f, c, "noise", &data).pipe.n, 0);
        crn_choose_learn(c, "noise", &data, N, N, 1000000);
    }
    crn_chooser_stats(c, &stats);
    assert_in_range(stats.choices, 2, 6);
    test_fill(&f->rng, CONTENT_ZEROS, CAIRN_F64, f->src, N);
    for (i = 0; i < 20 && choose(f, c, "noise", &data).pipe.n == 0; i++)
        crn_choose_learn(c, "noise", &data, N, N, 1000000);
    assert_true(i < 10);
    crn_chooser_close(c);
}

static void choices_are_remembered_until_they_drift(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser_stats stats;
    struct crn_choice first;
    char key[16];
    int i;

    fill_field(f, 256);
    first = choose(f, c, "a", &data);
    for (i = 0; i < 200; i++) { /* other variables do not evict it */
        (void)snprintf(key, sizeof(key), "v%d", i);
        (void)choose(f, c, key, &data);
    }
    crn_chooser_stats(c, &stats);
    assert_int_equal(stats.choices, 201);
    for (i = 0; i < 30; i++) { /* small changes of the ratio do not trigger trials */
        struct crn_choice again = choose(f, c, "a", &data);

        assert_true(crn_pipe_equal(&again.pipe, &first.pipe));
        crn_choose_learn(c, "a", &data, N, N / 2 + (size_t)(i % 3) * (N / 100), 1000000000);
    }
    crn_chooser_stats(c, &stats);
    assert_int_equal(stats.choices, 201);
    assert_int_equal(stats.drifts, 0);
    crn_choose_learn(c, "a", &data, N, N * 3 / 4, 1000000000);
    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, f->src, N);
    assert_int_equal(choose(f, c, "a", &data).pipe.n, 0);
    crn_chooser_stats(c, &stats);
    assert_int_equal(stats.choices, 202);
    assert_int_equal(stats.drifts, 1);
    crn_chooser_close(c);
}

/* Chunks may keep their size while another pipeline becomes better for them. */
static void choices_are_made_again_after_many_chunks(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser_stats stats;
    int i;

    fill_field(f, 256);
    for (i = 0; i < 600; i++) {
        (void)choose(f, c, "a", &data);
        crn_choose_learn(c, "a", &data, N, N / 2, 1000000);
    }
    crn_chooser_stats(c, &stats);
    assert_int_equal(stats.drifts, 0);
    assert_int_equal(stats.choices, 3);
    crn_chooser_close(c);
}

/* The older version is equal where the sample lies, and random elsewhere. */
static void a_sample_that_misleads_is_found_out(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    unsigned char *older = malloc(N);
    struct crn_data data = {.type = CAIRN_F64, .previous = older};
    struct crn_choice choice;
    size_t words = N / 8;
    size_t i, k;

    assert_non_null(older);
    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, f->src, N);
    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, older, N);
    for (i = 8000; i < N; i++) /* the same numbers again and again */
        f->src[i] = f->src[i - 8000];
    for (k = 0; k < CRN_SAMPLE_PIECES; k++) {
        size_t at = 8 * (words / (2 * CRN_SAMPLE_PIECES) * (2 * k + 1) - 1100);

        memcpy(older + at, f->src + at, 8 * (size_t)2200);
    }
    choice = choose(f, c, "a", &data);
    assert_false(crn_pipe_needs_previous(&choice.pipe));
    assert_true(choice.share < 0.1);
    free(older);
    crn_chooser_close(c);
}

/* Where first differences leave most of the bytes, second ones of the values may leave much less. */
static void rough_fields_are_predicted_from_slopes(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_run run = {.elements = N / 8, .stride = {1, 70, 4900}};
    struct crn_data data = {.type = CAIRN_F64, .nruns = 1, .runs = &run};
    struct crn_choice choice;
    size_t i;

    for (i = 0; i < N / 8; i++) {
        double x = (double)(i % 70) / 21 - 1.3;
        double y = (double)(i / 70 % 70) / 19 - 1.9;
        double z =
            (double)(i / 4900) / 23 - 1.6; /* NOLINT(bugprone-integer-division) whole planes */
        double d = sqrt(x * x + 1.3 * y * y + 0.8 * z * z + 0.2 * x * y);
        double v = exp(-d * d / 3) * cos(5 * d + 1) + 1e-14 * crn_rng_unit(&f->rng);

        memcpy(f->src + 8 * i, &v, 8);
    }
    choice = choose(f, c, "a", &data);
    assert_int_equal(choice.pipe.stage[0].id, crn_filter_lorenzo.id);
    assert_int_not_equal(choice.pipe.stage[0].arg & CRN_LORENZO_TWICE, 0);
    assert_true(choice.share < 0.7);
    crn_chooser_close(c);
}

/* A variable that changes abruptly from chunk to chunk must not exceed the trial share. */
static void trials_stay_within_their_share(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser_stats stats;
    int i;

    fill_field(f, 256);
    step_ns = 100000;
    for (i = 0; i < 400; i++) {
        (void)choose(f, c, "jumps", &data);
        crn_choose_learn(c, "jumps", &data, N, i % 2 == 0 ? N / 2 : N / 4, 200000);
    }
    crn_chooser_stats(c, &stats);
    assert_true(stats.choices > 1);
    /* The last trial may have exceeded the share. */
    assert_true((double)stats.trial_ns < 0.15 * 2 * (double)stats.bytes +
                                             2 * (double)stats.trial_ns / (double)stats.choices);
    crn_chooser_close(c);
}

/* Noise first, data later: with the real clock and no other variable that pays for trials, the
 * variable is not left raw. */
static void raw_once_is_not_raw_for_ever(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_choose_options o = {.aim = CRN_AIM_RATIO};
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_errinfo *ei = &f->info;
    struct crn_choice choice = {0};
    struct crn_chooser *c;
    int i;

    assert_ok(crn_chooser_open(&o, &c, ei));
    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, f->src, N);
    for (i = 0; i < 16; i++) {
        assert_int_equal(choose(f, c, "late", &data).pipe.n, 0);
        crn_choose_learn(c, "late", &data, N, N, 40); /* nothing was encoded */
    }
    fill_field(f, 256);
    for (i = 0; i < 64 && choice.pipe.n == 0; i++) {
        choice = choose(f, c, "late", &data);
        crn_choose_learn(c, "late", &data, N, choice.pipe.n == 0 ? N : N / 2, 40);
    }
    assert_true(choice.pipe.n > 0);
    crn_chooser_close(c);
}

/* With a fast file system, copying beats compression. */
static void aims_differ(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser *c;
    struct crn_choose_options bad = {.aim = CRN_AIM_TIME};

    fill_field(f, 256);
    c = chooser_for(f, CRN_AIM_TIME, 1e8);
    assert_true(choose(f, c, "x", &data).pipe.n > 0);
    crn_chooser_close(c);
    c = chooser_for(f, CRN_AIM_TIME, 2e10);
    assert_int_equal(choose(f, c, "x", &data).pipe.n, 0);
    crn_chooser_close(c);
    assert_int_equal(crn_chooser_open(&bad, &c, NULL), CAIRN_EINVAL);
}

/* Bits of little entropy beside noise, as in weights of a model: worth little time, no long one. */
static void speed_is_found_out_by_trying(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_SPEED, 0);
    struct crn_data data = {.type = CAIRN_BF16};
    struct crn_errinfo *ei = &f->info;
    struct crn_choice choice;
    size_t i;

    for (i = 0; i < N; i++)
        f->src[i] =
            (unsigned char)(i % 2 == 0 ? crn_rng_u64(&f->rng) : 0x3c + (crn_rng_u64(&f->rng) & 3));
    choice = choose(f, c, "weights", &data);
    assert_true(choice.pipe.n > 0);
    crn_choose_learn(c, "weights", &data, N, (size_t)(choice.share * N), (int64_t)N / 4);
    assert_true(choose(f, c, "weights", &data).pipe.n > 0); /* it was fast */
    crn_chooser_close(c);

    c = chooser_for(f, CRN_AIM_SPEED, 0);
    for (i = 0; i < CRN_TRIALS_MAX; i++) { /* all turn out slow */
        /* Little is to come, so nothing is encoded for comparison. */
        assert_ok(crn_choose(c, f->work, "weights", &data, f->src, N, N, &choice, ei));
        crn_choose_learn(c, "weights", &data, N, (size_t)(choice.share * N), 100 * (int64_t)N);
    }
    assert_int_equal(choice.pipe.n, 0);
    crn_chooser_close(c);
}

/* A pipeline that needs the older version is not used without one. */
static void lost_version_needs_another_choice(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_choice choice;

    test_fill(&f->rng, CONTENT_RANDOM, CAIRN_F64, f->src, N);
    data.previous = f->src;
    choice = choose(f, c, "x", &data);
    assert_true(crn_pipe_needs_previous(&choice.pipe));
    assert_true(choice.share < 0.01);
    data.previous = NULL;
    choice = choose(f, c, "x", &data);
    assert_false(crn_pipe_needs_previous(&choice.pipe));
    crn_chooser_close(c);
}

/* Versions with and without an older one alternate: each kind has its own choice, made once. */
static void older_versions_are_another_question(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_chooser *c = chooser_for(f, CRN_AIM_RATIO, 0);
    struct crn_data data = {.type = CAIRN_F64};
    struct crn_chooser_stats stats;
    struct crn_choice choice;
    int i;

    fill_field(f, 256);
    for (i = 0; i < 6; i++) {
        data.previous = i % 2 != 0 ? f->src : NULL;
        choice = choose(f, c, "x", &data);
        assert_int_equal(crn_pipe_needs_previous(&choice.pipe), i % 2);
        crn_choose_learn(c, "x", &data, N, i % 2 != 0 ? N / 100 : N / 2, 1000000000);
    }
    crn_chooser_stats(c, &stats);
    assert_int_equal(stats.choices, 2);
    assert_int_equal(stats.drifts, 0);
    crn_chooser_close(c);
}

/* Residuals of a sample equal those of the filter on the whole chunk. */
static void sample_is_a_true_one(void **state)
{
    struct choose_test_fixture *f = *state;
    struct crn_run runs[2] = {{.elements = 20000, .stride = {1, 100, 2000}},
                              {.elements = 10000, .stride = {1, 77, 0}}};
    struct crn_data data = {.type = CAIRN_F64, .nruns = 2, .runs = runs};
    unsigned char *whole = malloc(N);
    unsigned char *part = malloc(N);
    unsigned char *tmp = malloc(CRN_SAMPLE_ROOM * (size_t)N);
    struct crn_errinfo *ei = &f->info;
    struct crn_sample s;
    unsigned arg, k;
    size_t got;

    assert_non_null(whole);
    assert_non_null(part);
    assert_non_null(tmp);
    fill_field(f, 100);
    data.previous = whole + 0;
    for (arg = 1; arg < 64; arg++) {
        struct crn_stage_task t = {.work = f->work,
                                   .data = &data,
                                   .arg = (uint8_t)arg,
                                   .src = f->src,
                                   .src_n = N,
                                   .dst = whole,
                                   .dst_n = N};
        size_t at = 0;

        if ((arg & 7) == 0 || (arg & CRN_LORENZO_PREVIOUS) != 0)
            continue;
        assert_ok(crn_filter_lorenzo.encode(&t, &got, ei));
        crn_sample_init(&s, &data, f->src, N, 16 << 10);
        assert_int_equal(s.npieces, CRN_SAMPLE_PIECES);
        crn_sample_residuals(&s, arg, part, tmp);
        for (k = 0; k < s.npieces; k++) {
            assert_memory_equal(part + at, whole + 8 * s.piece[k].begin, 8 * s.piece[k].words);
            at += 8 * s.piece[k].words;
        }
    }
    free(tmp);
    free(part);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(smooth_field_gets_a_predictor, setup, teardown),
        cmocka_unit_test_setup_teardown(result_of_the_trial_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(noise_goes_raw_and_is_looked_at_again, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_remembered_until_they_drift, setup, teardown),
        cmocka_unit_test_setup_teardown(choices_are_made_again_after_many_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sample_that_misleads_is_found_out, setup, teardown),
        cmocka_unit_test_setup_teardown(rough_fields_are_predicted_from_slopes, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_stay_within_their_share, setup, teardown),
        cmocka_unit_test_setup_teardown(raw_once_is_not_raw_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(aims_differ, setup, teardown),
        cmocka_unit_test_setup_teardown(speed_is_found_out_by_trying, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_version_needs_another_choice, setup, teardown),
        cmocka_unit_test_setup_teardown(older_versions_are_another_question, setup, teardown),
        cmocka_unit_test_setup_teardown(sample_is_a_true_one, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
