/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <unistd.h>

#include "base/config.h"
#include "base/test.h"

#ifndef CRN_SOURCE_DIR
#define CRN_SOURCE_DIR "."
#endif

/* Every key has a default that its own checks accept, and that reads back as written. */
static void defaults_are_valid_and_round_trip(void **state)
{
    struct crn_config cfg;
    size_t i, n;
    const struct crn_key *keys = crn_config_keys(&n);

    (void)state;
    crn_config_defaults(&cfg);
    for (i = 0; i < n; i++) {
        struct crn_errinfo info = {0}, *ei = &info;
        char text[CRN_PATH_MAX];

        assert_ok(crn_config_set(&cfg, keys[i].name, keys[i].def, "default", ei));
        crn_config_format(&cfg, &keys[i], text, sizeof(text));
        assert_string_equal(text, keys[i].def);
    }
    assert_int_equal(cfg.block_bytes, 8 << 20);
    assert_int_equal(cfg.arena_bytes, 0);
    assert_int_equal(cfg.wait_timeout_ns, 3600 * INT64_C(1000000000));
    assert_int_equal(cfg.log_level, 1);
    assert_int_equal(cfg.space_wait_ns,
                     UINT64_C(3600000000000)); /* a full disk is reported within the hour */
    assert_int_equal(cfg.names.keep_local, 1);
    assert_string_equal(cfg.shm_dir, "/dev/shm");
    crn_config_fini(&cfg);
}

static void a_file_sets_keys_for_all_and_for_one_name(void **state)
{
    static const char text[] = "\xEF\xBB\xBF; first line\n"
                               "blocks = 7\n"
                               "[checkpoint heat]\n"
                               "keep_last = 2   ; a comment\n"
                               "[cairn]\n"
                               "   persistent = /pfs/a;b\n" /* indented, ';' inside */
                               "\tkeep_last: 9\n"
                               "keep_every=10\n"
                               "Arena_Bytes = 1.5G";
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config cfg;

    (void)state;
    crn_config_defaults(&cfg);
    assert_ok(crn_config_text(&cfg, text, "test", ei));
    assert_int_equal(cfg.blocks, 7);
    assert_string_equal(cfg.persistent, "/pfs/a;b");
    assert_int_equal(cfg.arena_bytes, UINT64_C(3) << 29);
    assert_int_equal(crn_config_name(&cfg, "other")->keep_last, 9);
    assert_int_equal(crn_config_name(&cfg, "heat")->keep_last, 2);
    assert_int_equal(crn_config_name(&cfg, "heat")->keep_every, 10); /* follows the default */
    assert_ok(crn_config_set(&cfg, "keep_last", "1", "later", ei));
    assert_int_equal(crn_config_name(&cfg, "heat")->keep_last, 2);
    assert_int_equal(crn_config_name(&cfg, "other")->keep_last, 1);
    crn_config_fini(&cfg);
}

static void expect_error(const char *text, const char *message)
{
    struct crn_errinfo info = {0};
    struct crn_config cfg;

    crn_config_defaults(&cfg);
    assert_int_not_equal(crn_config_text(&cfg, text, "f.ini", &info), CAIRN_OK);
    assert_string_equal(info.msg, message);
    crn_config_fini(&cfg);
}

static void errors_name_the_place_and_the_way_out(void **state)
{
    (void)state;
    expect_error("[cairn]\n\nblok_bytes = 4\n",
                 "f.ini:3: unknown key 'blok_bytes'; did you mean 'block_bytes'?");
    expect_error("zzzzzzzzzzzzzz = 4",
                 "f.ini:1: unknown key 'zzzzzzzzzzzzzz'; `cairn config --doc` lists them");
    expect_error("blocks = 0", "f.ini:1: blocks: '0' is out of range; allowed is 1 .. 4096");
    expect_error("blocks = 4k", "f.ini:1: blocks: '4k' is not a number");
    expect_error("blocks = auto", "f.ini:1: blocks: 'auto' is not possible");
    expect_error("local_cache = auto", "f.ini:1: local_cache: 'auto' is not possible");
    expect_error(
        "device_cache = 18446744073709551615",
        "f.ini:1: device_cache: '18446744073709551615' is out of range; allowed is 0 .. 1P");
    expect_error("blocks =",
                 "f.ini:1: blocks: '' is not a size; write 4096, 64M, 1.5G or the like");
    expect_error("retries = 2000",
                 "f.ini:1: retries: '2000' is out of range; allowed is 0 .. 1000");
    expect_error("mtbf = soon", "f.ini:1: mtbf: 'soon' is not a time; write 90s, 15m, 2h, 250ms");
    expect_error("arena_full = drop",
                 "f.ini:1: arena_full: 'drop' is not one of: auto, wait, spill, supersede");
    expect_error("# x\njust words\nblocks=1", "f.ini:2: expected key = value");
    expect_error("[other]\nblocks=1",
                 "f.ini:1: unknown section; known are [cairn] and [checkpoint NAME]");
    expect_error("[cairn\nblocks=1", "f.ini:1: the section is not [NAME], or too long");
    expect_error("[checkpoint heat]\nblocks=1",
                 "f.ini:2: 'blocks' is the same for all checkpoints; it belongs in [cairn]");
    expect_error("[checkpoint ../x]\nkeep_last=1",
                 "f.ini:2: keep_last: the checkpoint name '../x' may hold A-Z a-z 0-9 _ . - only "
                 "and not begin with '.'");
}

/* libinih truncates lines at 200 bytes and sections at 50; crn_config_text must not. */
static void long_lines_and_names_survive(void **state)
{
    char path[CRN_PATH_MAX], text[3 * CRN_PATH_MAX], name[CAIRN_MAX_NAME];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config cfg;
    size_t i;

    (void)state;
    path[0] = '/';
    for (i = 1; i < sizeof(path) - 1; i++)
        path[i] = i % 3 == 0 ? ' ' : i % 5 == 0 ? '#' : (char)('a' + i % 26);
    path[i - 1] = 'z';
    path[i] = '\0';
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "persistent = %s ; %0500d\n[checkpoint %s]\nretries = 8\n",
                   path, 0, name);
    crn_config_defaults(&cfg);
    assert_ok(crn_config_text(&cfg, text, "test", ei));
    assert_string_equal(cfg.persistent, path);
    assert_int_equal(crn_config_name(&cfg, name)->retries, 8);
    crn_config_fini(&cfg);
    (void)snprintf(text, sizeof(text), "persistent = %s%s\n", path, path);
    crn_config_defaults(&cfg);
    assert_int_equal(crn_config_text(&cfg, text, "test", ei), CAIRN_ECONFIG);
    crn_config_fini(&cfg);
}

static void variables_are_checked_like_keys(void **state)
{
    char *good[] = {
        "CAIRN_BLOCKS=9", "PATH=x",           "CAIRN_CONFIG=y",         "CAIRN_ROOT=/opt",
        "CAIRN_TEST_X=1", "CAIRN_FAULT_FS=z", "CAIRN_PYTHON=python3.9", NULL};
    char *bad[] = {"CAIRN_BLOKS=9", NULL};
    char *foreign[] = {"CAIRN_VERSION=0.1", "CAIRN_BLOCKS=7", NULL};
    char longest[300] = "CAIRN_";
    char *strange[] = {"CAIRN_LIBRARY=x", "CAIRN_SITE=y", longest, longest, NULL};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config cfg;

    (void)state;
    memset(longest + 6, 'L', 200);
    longest[206] = '=';
    crn_config_defaults(&cfg);
    assert_ok(crn_config_env(&cfg, good, ei));
    assert_int_equal(cfg.blocks, 9);
    assert_string_equal(cfg.retired, "");
    assert_int_equal(crn_config_env(&cfg, bad, ei), CAIRN_ECONFIG);
    assert_string_equal(info.msg,
                        "variable CAIRN_BLOKS: unknown key 'bloks'; did you mean 'blocks'?");
    assert_string_equal(cfg.retired, "");
    assert_ok(crn_config_env(&cfg, foreign, ei)); /* as module files set it: said, not fatal */
    assert_non_null(strstr(cfg.retired, "variable CAIRN_VERSION is not a configuration key"));
    assert_int_equal(cfg.blocks, 7);
    cfg.retired[0] = '\0';
    assert_ok(crn_config_env(&cfg, strange, ei)); /* all are named, as far as they fit */
    assert_non_null(strstr(cfg.retired, "variables CAIRN_LIBRARY, CAIRN_SITE, CAIRN_LL"));
    assert_non_null(strstr(cfg.retired, "LLL are not configuration keys; they are ignored"));
    crn_config_fini(&cfg);
}

static char *dump(const struct crn_config *cfg, int with_help)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    assert_int_equal(crn_config_show(cfg, out, 1, with_help), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void people_see_few_keys_and_what_was_changed(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config cfg;
    size_t i, lines = 0;
    size_t len;
    char *text;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(out);
    crn_config_defaults(&cfg);
    assert_ok(crn_config_text(&cfg, "blocks = 7\nkeep_last = 3\n", "test", ei));
    assert_int_equal(crn_config_show(&cfg, out, 0, 0), 0);
    assert_int_equal(fclose(out), 0);
    for (i = 0; i < len; i++)
        lines += text[i] == '\n';
    assert_true(lines > 10 && lines <= 1 + 25 + 1); /* [cairn], basic keys, blocks */
    assert_non_null(strstr(text, "\nblocks = 7\n"));
    assert_non_null(strstr(text, "\nkeep_last = 3\n"));
    assert_null(strstr(text, "block_bytes"));
    free(text);
    crn_config_fini(&cfg);
}

static void a_dump_reads_back(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config a, b;
    char *first, *second;
    int help;

    (void)state;
    crn_config_defaults(&a);
    assert_ok(crn_config_text(
        &a,
        "arena_bytes = 1536M\nwait_timeout = 250ms\nblock_bytes=5000\n"
        "arena_full = supersede\ndevice_cache = auto\npersistent = /with blank\nkeep_last=3\n"
        "[checkpoint a]\nkeep_every=2\n[checkpoint b]\nperiod=90\n",
        "test", ei));
    for (help = 0; help < 2; help++) {
        first = dump(&a, help);
        crn_config_defaults(&b);
        assert_ok(crn_config_text(&b, first, "dump", ei));
        assert_int_equal(b.noverrides, 2);
        assert_int_equal(crn_config_name(&b, "b")->period_ns, INT64_C(90000000000));
        assert_int_equal(crn_config_name(&b, "b")->keep_last, 3);
        second = dump(&b, help);
        assert_string_equal(first, second);
        free(first);
        free(second);
        crn_config_fini(&b);
    }
    crn_config_fini(&a);
}

static void load_merges_sources_and_makes_paths_absolute(void **state)
{
    const char *settings[] = {"blocks=3", "local=scratch", NULL};
    struct crn_errinfo info = {0}, *ei = &info;
    char dir[256], path[300], expect[CRN_PATH_MAX + 64], cwd[CRN_PATH_MAX];
    struct crn_config cfg;
    FILE *f;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/c.ini", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("blocks = 5\nwriters = 5\nretries = 5\n", f);
    (void)fclose(f);
    assert_int_equal(setenv("CAIRN_WRITERS", "6", 1), 0);
    assert_int_equal(setenv("CAIRN_CONFIG", path, 1), 0);
    assert_int_equal(setenv("SLURM_JOB_ID", "4711", 1), 0);
    assert_ok(crn_config_load(&cfg, NULL, settings, ei));
    assert_int_equal(cfg.blocks, 3);
    assert_int_equal(cfg.writers, 6);
    assert_int_equal(cfg.names.retries, 5);
    assert_string_equal(cfg.job, "4711");
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    (void)snprintf(expect, sizeof(expect), "%s/cairn-checkpoints", cwd);
    assert_string_equal(cfg.persistent, expect);
    (void)snprintf(expect, sizeof(expect), "%s/scratch", cwd);
    assert_string_equal(cfg.local, expect);
    crn_config_fini(&cfg);
    assert_int_equal(unsetenv("CAIRN_WRITERS"), 0);
    assert_int_equal(unsetenv("CAIRN_CONFIG"), 0);
    assert_int_equal(unsetenv("SLURM_JOB_ID"), 0);
    assert_int_equal(crn_config_load(&cfg, "/nowhere/c.ini", NULL, ei), CAIRN_ENOENT);
    assert_non_null(strstr(info.msg, "/nowhere/c.ini"));
    test_dir_remove(dir);
}

static void load_refuses_what_does_not_fit_together(void **state)
{
    static const char *const bad[][3] = {
        {"chunk_bytes=3000", NULL}, {"align_bytes=3000", NULL}, {"block_bytes=5000", NULL},
        {"arena_full=spill", NULL}, {"local_cache=1G", NULL},   {"stop_signals=USR1,KILL", NULL},
        {"persistent=", NULL},      {"blocks", NULL},
    };
    struct crn_config cfg;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(crn_config_load(&cfg, NULL, bad[i], NULL), CAIRN_ECONFIG);
}

static void signals_are_parsed(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    int s[4];
    size_t n;

    (void)state;
    assert_ok(crn_config_parse_signals(" USR1, SIGTERM", s, 4, &n, ei));
    assert_int_equal(n, 2);
    assert_int_equal(s[0], SIGUSR1);
    assert_int_equal(s[1], SIGTERM);
    assert_ok(crn_config_parse_signals("", s, 4, &n, ei));
    assert_int_equal(n, 0);
}

static void sizes_and_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
        const char *back;
    } bytes[] = {{"0", 0, "0"},
                 {"1000", 1000, "1000"},
                 {"4096", 4096, "4K"},
                 {"1.5 G", UINT64_C(3) << 29, "1536M"},
                 {"2GiB", UINT64_C(2) << 30, "2G"},
                 {"auto", 0, "0"},
                 {"18446744073709551615", UINT64_MAX, "18446744073709551615"}},
      times[] = {{"90", UINT64_C(90000000000), "90s"},
                 {"0.5s", 500000000, "500ms"},
                 {"15m", UINT64_C(900000000000), "15m"},
                 {"24h", UINT64_C(86400000000000), "1d"},
                 {"7ns", 7, "7ns"}};
    static const char *const bad[] = {"",       "-1", "x", "1x", "1..5", "18446744073709551616",
                                      "99999P", "1e3"};
    struct crn_errinfo info = {0}, *ei = &info;
    char text[40];
    uint64_t v;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        assert_ok(crn_parse_bytes(bytes[i].text, &v, ei));
        assert_true(v == bytes[i].value);
        crn_format_bytes(v, text, sizeof(text));
        assert_string_equal(text, bytes[i].back);
    }
    for (i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        assert_ok(crn_parse_time(times[i].text, &v, ei));
        assert_true(v == times[i].value);
        crn_format_time(v, text, sizeof(text));
        assert_string_equal(text, times[i].back);
    }
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(crn_parse_bytes(bad[i], &v, NULL), CAIRN_ECONFIG);
    crn_human_bytes(UINT64_C(3) << 29, text, sizeof(text));
    assert_string_equal(text, "1.5 GiB");
    crn_human_time(0.35, text, sizeof(text));
    assert_string_equal(text, "350 ms");
}

static void retired_settings_load_with_a_warning(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_config cfg;
    const struct crn_retired *r;

    (void)state;
    for (r = crn_config_retired(); r->key != NULL; r++) {
        crn_config_defaults(&cfg);
        assert_ok(crn_config_set(&cfg, r->key, r->value != NULL ? r->value : "7", "site.ini", ei));
        assert_non_null(strstr(cfg.retired, "site.ini"));
        assert_non_null(strstr(cfg.retired, r->key));
        crn_config_fini(&cfg);
    }
    crn_config_defaults(&cfg);
    assert_string_equal(cfg.retired, "");
    assert_ok(crn_config_set(&cfg, "io", "uring-direct", "site.ini", ei));
    assert_int_equal(cfg.io, CRN_IO_AUTO);
    crn_config_fini(&cfg);
}

static void the_reference_is_up_to_date(void **state)
{
    char *made, *stored;
    size_t len, got;
    FILE *out = open_memstream(&made, &len);
    FILE *in = fopen(CRN_SOURCE_DIR "/docs/config.md", "r");

    (void)state;
    assert_non_null(out);
    assert_non_null(in);
    assert_int_equal(crn_config_doc(out), 0);
    (void)fclose(out);
    stored = calloc(1, len + 2);
    assert_non_null(stored);
    got = fread(stored, 1, len + 1, in);
    (void)fclose(in);
    if (got != len || memcmp(made, stored, len) != 0)
        fail_msg("docs/config.md is old: run `make docs`");
    free(made);
    free(stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_valid_and_round_trip),
        cmocka_unit_test(a_file_sets_keys_for_all_and_for_one_name),
        cmocka_unit_test(errors_name_the_place_and_the_way_out),
        cmocka_unit_test(long_lines_and_names_survive),
        cmocka_unit_test(variables_are_checked_like_keys),
        cmocka_unit_test(people_see_few_keys_and_what_was_changed),
        cmocka_unit_test(a_dump_reads_back),
        cmocka_unit_test(load_merges_sources_and_makes_paths_absolute),
        cmocka_unit_test(load_refuses_what_does_not_fit_together),
        cmocka_unit_test(signals_are_parsed),
        cmocka_unit_test(sizes_and_times),
        cmocka_unit_test(retired_settings_load_with_a_warning),
        cmocka_unit_test(the_reference_is_up_to_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
