/* SPDX-License-Identifier: BSD-3-Clause */
/* The encoding settings are validated and obeyed; lossy regions keep their error bounds. */
#include "aggregate/encoding.h"
#include "aggregate/test_engine.h"

#define LOSSY_BOUND 1e-3

/* n lossy values. */
static void check_bound(const double *got, const unsigned char *want, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        double v;

        memcpy(&v, want + i * sizeof(v), sizeof(v));
        if (isnan(v) || isinf(v))
            assert_memory_equal(&v, &got[i], sizeof(v));
        else if (!(fabs(v - got[i]) <= LOSSY_BOUND))
            fail_msg("%g became %g", v, got[i]);
    }
}

static void check_extent(const struct engine_fixture *f, const struct crn_data_file *data,
                         const struct crn_extent *x)
{
    const unsigned char *want = test_bytes(f->shard, x);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_decoder *decoder = NULL;
    double buf[UNIT / sizeof(double)];
    uint64_t k;

    for (k = 0; k * UNIT < x->bytes; k++) {
        size_t n = crn_data_chunk_bytes(data->index, x, k);

        assert_ok(crn_data_chunk(data, x, k, &decoder, buf, ei));
        if (x->region == 2)
            check_bound(buf, want + k * UNIT, n / sizeof(double));
        else
            assert_memory_equal(buf, want + k * UNIT, n);
    }
    crn_decoder_free(decoder);
}

static void the_aim_is_obeyed(void **state)
{
    static const enum crn_aim aims[] = {CRN_AIM_RATIO, CRN_AIM_SPEED, CRN_AIM_TIME};
    static const char *const words[] = {"ratio", "speed", "time"};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_encoding *x;
    struct crn_config cfg;
    size_t i;

    (void)state;
    crn_config_defaults(&cfg);
    assert_ok(crn_config_set(&cfg, "encode", "adaptive", "test", ei));
    for (i = 0; i < 3; i++) {
        assert_ok(crn_config_set(&cfg, "encode_aim", words[i], "test", ei));
        assert_ok(crn_encoding_open(&cfg, "heat", &x, ei));
        assert_int_equal(x->aim, aims[i]);
        crn_encoding_close(x);
    }
    crn_config_fini(&cfg);
}

/* A lossy region keeps its bound and verifies; all others are restored bit by bit. */
static void what_may_be_lost_is_bounded(void **state)
{
    static const char *const lossy[] = {"encode", "adaptive", "encode_lossy",
                                        "region-2:abs:1e-3 nothing:rel:1e-2", NULL};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_data_file data = {.fs = crn_fs_posix(), .what = "test"};
    struct crn_manifest_file mf, described;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_pipe pipe;
    struct crn_index x;
    struct engine_fixture f;
    char path[400];
    uint64_t i;

    (void)state;
    if (crn_pipe_parse("zfp", &pipe, ei) != CAIRN_OK)
        skip(); /* not in this build */
    engine_set_up(&f, lossy);
    e = engine_open(&f, NULL);
    assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
    assert_ok(crn_store_describe_data(&f.st, "eng", 7, mf.name, &described, &x, ei));
    path_of(&f, mf.name, path, sizeof(path));
    data.fd = open(path, O_RDONLY);
    data.index = &x;
    assert_ok(crn_data_verify(&data, NULL, NULL, ei));
    for (i = 0; i < x.nextents; i++)
        check_extent(&f, &data, &x.extents[i]);
    (void)close(data.fd);
    crn_manifest_file_free(&mf);
    crn_flush_stats_free(&stats);
    crn_manifest_file_free(&described);
    crn_index_free(&x);
    crn_engine_close(e);
    engine_tear_down(&f);
}

static void settings_are_checked(void **state)
{
    static const char *const bad[][3] = {{"encode_pipe", "zpf", "encode_pipe"},
                                         {"encode_pipe", "zfp", "encode_pipe"},
                                         {"encode_pipe", "delta:1,zstd", "encode_pipe"},
                                         {"encode_match", "Grid([0-9", "encode_match"},
                                         {"encode_lossy", "x:abs:0", "encode_lossy"},
                                         {"encode_lossy", "x:abs:nan", "encode_lossy"},
                                         {"encode_lossy", "x:about:1", "encode_lossy"},
                                         {"encode_lossy", ":abs:1", "encode_lossy"},
                                         {"encode_lossy", "abs", "encode_lossy"}};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_encoding *x;
    struct crn_config cfg;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        crn_config_defaults(&cfg);
        crn_err_clear(ei);
        assert_ok(crn_config_set(&cfg, "encode", "adaptive", "test", ei));
        assert_ok(crn_config_set(&cfg, bad[i][0], bad[i][1], "test", ei));
        assert_int_not_equal(crn_encoding_open(&cfg, "eng", &x, ei), CAIRN_OK);
        if (strstr(ei->msg, bad[i][2]) == NULL)
            fail_msg("%s = %s: %s", bad[i][0], bad[i][1], ei->msg);
        crn_config_fini(&cfg);
    }
}

static int most_of(int threads)
{
    int cores = crn_host_cores();

    return cores < 2 ? 2 : cores < threads ? cores : threads;
}

/* The configured number of threads; with auto, as many as help on this host. */
/* One gzip over the ranks for the schemes that know no variables; for the others a codec by type, then
 * gzip, over small variables together. */
static void the_schemes_of_the_paper(void **state)
{
    static const struct {
        const char *encode, *pipe, *f64, *i32;
        int is_grouped;
    } cases[] = {
        {"agnostic", "auto", "gzip:6", "gzip:6", 1},
        {"agnostic-block", "auto", "gzip:6", "gzip:6", 1},
        {"aware", "auto", "fpc:2,gzip:6", "lz4,gzip:6", 1},
        {"aware-block", "paper", "fpc:2,gzip:6", "lz4,gzip:6", 1},
        {"adaptive", "paper", "fpc:2,gzip:6", "lz4,gzip:6", 1},
        {"aware", "planes", "planes", "planes", 0},
        {"agnostic", "planes", "planes", "planes", 0},
    };
    struct crn_errinfo info = {0}, *ei = &info;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_encoding *x;
        struct crn_config cfg;
        struct crn_pipe f64, i32;

        crn_config_defaults(&cfg);
        assert_ok(crn_config_set(&cfg, "encode", cases[i].encode, "test", ei));
        assert_ok(crn_config_set(&cfg, "encode_pipe", cases[i].pipe, "test", ei));
        if (crn_pipe_parse(cases[i].f64, &f64, ei) != CAIRN_OK ||
            crn_pipe_parse(cases[i].i32, &i32, ei) != CAIRN_OK) {
            crn_err_clear(ei); /* a library is missing in this build */
            crn_config_fini(&cfg);
            continue;
        }
        assert_ok(crn_encoding_open(&cfg, "heat", &x, ei));
        assert_true(crn_pipe_equal(&x->pipe[CAIRN_F64], &f64));
        assert_true(crn_pipe_equal(&x->pipe[CAIRN_I32], &i32));
        assert_int_equal(x->group_bytes, cases[i].is_grouped ? x->chunk_bytes : 0);
        crn_encoding_close(x);
        crn_config_fini(&cfg);
    }
}

static void threads_are_as_configured(void **state)
{
    const struct {
        const char *encode, *encode_threads, *writers;
        int threads, is_auto;
    } cases[] = {
        {"none", "auto", "auto", most_of(4), 1},
        {"none", "5", "auto", most_of(4), 1},
        {"none", "5", "3", 3, 0},
        {"adaptive", "auto", "auto", most_of(8), 1},
        {"adaptive", "auto", "3", 3, 0},
        {"adaptive", "5", "3", 5, 0},
    };
    struct crn_errinfo info = {0}, *ei = &info;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_engine_options opt;
        struct crn_config cfg;

        crn_config_defaults(&cfg);
        assert_ok(crn_config_set(&cfg, "encode", cases[i].encode, "test", ei));
        assert_ok(crn_config_set(&cfg, "encode_threads", cases[i].encode_threads, "test", ei));
        assert_ok(crn_config_set(&cfg, "writers", cases[i].writers, "test", ei));
        opt = crn_engine_configured(&cfg);
        assert_int_equal(opt.writers, cases[i].threads);
        assert_int_equal(opt.may_join != NULL, cases[i].is_auto);
        crn_config_fini(&cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_aim_is_obeyed),         cmocka_unit_test(what_may_be_lost_is_bounded),
        cmocka_unit_test(settings_are_checked),      cmocka_unit_test(the_schemes_of_the_paper),
        cmocka_unit_test(threads_are_as_configured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
