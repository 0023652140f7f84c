/* SPDX-License-Identifier: BSD-3-Clause */
/* VELOC's configuration files as users write them, and names that stay distinct. */
#include "config.h"

#include "base/test.h"

static struct crn_errinfo info, *ei = &info;
static struct crn_vlc_config cfg;

static cairn_err load(const char *text)
{
    char dir[400], path[500];
    cairn_err rc;
    FILE *f;

    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/veloc.cfg", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
    crn_err_clear(ei);
    rc = crn_vlc_config_load(path, &cfg, ei);
    test_dir_remove(dir);
    return rc;
}

static void plain(void **state)
{
    (void)state;
    assert_ok(load("scratch = /tmp/s\npersistent = /p/q\nmode = sync\n"));
    assert_string_equal(cfg.scratch, "/tmp/s");
    assert_string_equal(cfg.persistent, "/p/q");
    assert_true(cfg.is_sync && cfg.has_persistent);
    assert_int_equal(cfg.max_versions, 0);
    assert_int_equal(cfg.scratch_versions, CRN_VLC_KEEP_ALL);
    assert_string_equal(cfg.ignored, "");
}

/* As VELOC's reader accepts it: any case, first word, first value, no sections. */
static void as_people_write(void **state)
{
    char text[2000];

    (void)state;
    assert_ok(load("# comment\n; another\n  Scratch: /tmp/s  # on the node\n\nMODE=async ; yes\n"
                   "scratch = /second\nmax_versions = 3\nscratch_versions=-1\n"
                   "ec_interval = 30\nwatchdog_interval = 10\nmystery = 1\n"
                   "[er]\nmode = sync\nnothing = here\n"));
    assert_string_equal(cfg.scratch, "/tmp/s");
    assert_string_equal(cfg.persistent, "/tmp/s/persistent");
    assert_false(cfg.is_sync || cfg.has_persistent);
    assert_int_equal(cfg.max_versions, 3);
    assert_int_equal(cfg.scratch_versions, CRN_VLC_KEEP_ALL);
    assert_string_equal(cfg.ignored, "mystery, ec_interval, watchdog_interval");
    (void)snprintf(text, sizeof(text), "scratch = /%0500d\n", 7); /* longer than libinih's lines */
    assert_ok(load(text));
    assert_int_equal(strlen(cfg.scratch), 501);
    assert_ok(load("scratch = here\n"));
    assert_true(cfg.scratch[0] == '/' && strstr(cfg.scratch, "/here") != NULL);
}

static void wrong(void **state)
{
    char text[2000];

    (void)state;
    assert_int_equal(load(""), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "scratch"));
    assert_int_equal(load("scratch = /s\nmode = both\n"), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "sync or async"));
    assert_int_equal(load("scratch = /s\nmax_versions = few\n"), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "few"));
    assert_int_equal(load("scratch /s\n"), CAIRN_ECONFIG);
    (void)snprintf(text, sizeof(text), "scratch = /%01500d\n", 7);
    assert_int_equal(load(text), CAIRN_ECONFIG);
    assert_int_not_equal(crn_vlc_config_load("/nowhere/veloc.cfg", &cfg, ei), CAIRN_OK);
}

static void variables(void **state)
{
    (void)state;
    (void)setenv("VELOC_SCRATCH", "/from/variable", 1);
    (void)setenv("VELOC_MAX_VERSIONS", " 7", 1);
    (void)setenv("VELOC_CHKSUM", "true", 1);
    (void)setenv("VELOC_MODE", "", 1); /* as if it were not set */
    assert_ok(load("scratch = /from/file\nmode = sync\n"));
    assert_string_equal(cfg.scratch, "/from/variable");
    assert_int_equal(cfg.max_versions, 7);
    assert_true(cfg.is_sync);
    assert_string_equal(cfg.ignored, "chksum");
    assert_ok(crn_vlc_config_load(NULL, &cfg, ei));
    assert_ok(crn_vlc_config_load("", &cfg, ei));
    assert_false(cfg.is_sync);
    (void)unsetenv("VELOC_SCRATCH");
    (void)unsetenv("VELOC_MAX_VERSIONS");
    (void)unsetenv("VELOC_CHKSUM");
    (void)unsetenv("VELOC_MODE");
}

static void settings(void **state)
{
    struct crn_face_settings s = {0};

    (void)state;
    assert_ok(load("scratch = /s\npersistent = /p\nmax_versions = 4\nscratch_versions = 2\n"));
    crn_vlc_config_settings(&cfg, &s);
    assert_string_equal(s.list[0], "persistent=/p");
    assert_string_equal(s.list[1], "local=/s");
    assert_string_equal(s.list[2], "keep_last=4");
    assert_string_equal(s.list[3], "keep_local=2");
    assert_string_equal(s.list[7], "on_failure=continue");
    assert_string_equal(s.list[8], "restart_unsaved=older");
    assert_null(s.list[9]);
    (void)setenv("CAIRN_PERSISTENT", "/elsewhere", 1);
    memset(&s, 0, sizeof(s));
    crn_vlc_config_settings(&cfg, &s);
    assert_string_equal(s.list[0], "local=/s");
    (void)unsetenv("CAIRN_PERSISTENT");
}

static const char *name_of(const char *name, int64_t id)
{
    static char ret[CAIRN_MAX_NAME];

    return crn_vlc_name(name, id, ret, NULL) == CAIRN_OK ? ret : "refused";
}

static void names(void **state)
{
    char text[300], first[CAIRN_MAX_NAME];
    struct crn_errinfo check = {0};

    (void)state;
    assert_string_equal(name_of("heat", -1), "heat");
    assert_string_equal(name_of("heat", 0), "heat-0");
    assert_string_equal(name_of("heat", UINT32_MAX), "heat-4294967295");
    assert_string_equal(name_of("..", -1), "dot-..");
    assert_string_equal(name_of(".a", 3), "dot-.a-3");
    assert_string_equal(name_of("a-b", -1), "refused");
    assert_string_equal(name_of("a b", -1), "refused");
    assert_string_equal(name_of("", -1), "refused");
    assert_string_equal(name_of(NULL, -1), "refused");
    memset(text, 'x', sizeof(text));
    text[CAIRN_MAX_NAME - 1] = '\0'; /* the longest that fits unchanged */
    assert_string_equal(name_of(text, -1), text);
    assert_string_not_equal(name_of(text, 1), text);
    text[CAIRN_MAX_NAME - 1] = 'x';
    text[299] = '\0';
    (void)snprintf(first, sizeof(first), "%s", name_of(text, UINT32_MAX));
    assert_int_equal(crn_check_name("name", first, &check), CAIRN_OK);
    text[298] = 'y';
    assert_string_not_equal(first, name_of(text, UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),     cmocka_unit_test(as_people_write), cmocka_unit_test(wrong),
        cmocka_unit_test(variables), cmocka_unit_test(settings),        cmocka_unit_test(names),
    };

    test_dir_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
