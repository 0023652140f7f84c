/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of parameters, as SCR's manual writes them and as users do. */
#include "config.h"

#include <stdlib.h>

#include "base/test.h"

static struct crn_errinfo info, *ei = &info;
static struct crn_scr_params params;

static int begin(void **state)
{
    (void)state;
    memset(&params, 0, sizeof(params));
    crn_err_clear(ei);
    return 0;
}

static int end(void **state)
{
    (void)state;
    crn_scr_params_free(&params);
    return 0;
}

/* SCR_Config with an answer. */
static const char *asked(const char *text)
{
    static char ret[200];
    char *value = NULL;

    if (crn_scr_params_config(&params, text, &value, ei) != CAIRN_OK)
        return "refused";
    if (value == NULL)
        return "nothing";
    (void)snprintf(ret, sizeof(ret), "%s", value);
    free(value);
    return ret;
}

static void set_ask_and_unset(void **state)
{
    (void)state;
    assert_string_equal(asked("SCR_FLUSH"), "nothing");
    assert_string_equal(asked("SCR_FLUSH=3"), "nothing");
    assert_string_equal(asked("SCR_FLUSH"), "3");
    assert_string_equal(asked("SCR_FLUSH = 4"), "nothing");
    assert_string_equal(asked(" SCR_FLUSH "), "4");
    assert_string_equal(asked("SCR_FLUSH="), "nothing");
    assert_string_equal(asked("SCR_FLUSH"), "nothing");
    assert_string_equal(asked("=3"), "refused");
}

static void lines_with_children(void **state)
{
    (void)state;
    assert_string_equal(asked("STORE = /dev/shm  COUNT =2 TYPE=a=b"), "nothing");
    assert_string_equal(asked("STORE=/ssd COUNT=9"), "nothing");
    assert_string_equal(asked("STORE=/dev/shm COUNT"), "2");
    assert_string_equal(asked("STORE=/dev/shm TYPE"), "a=b");
    assert_string_equal(asked("STORE=/ssd COUNT"), "9");
    assert_string_equal(asked("STORE=/none COUNT"), "nothing");
}

static void environment_then_file_then_program(void **state)
{
    (void)state;
    assert_string_equal(asked("SCR_FETCH=1"), "nothing");
    assert_ok(crn_scr_params_parse(&params, "# text\n\nSCR_FETCH=2 # more\nSCR_DEBUG=1\n", ei));
    assert_string_equal(asked("SCR_FETCH"), "2");
    assert_int_equal(setenv("SCR_FETCH", "3", 1), 0);
    assert_string_equal(asked("SCR_FETCH"), "3");
    assert_int_equal(unsetenv("SCR_FETCH"), 0);
    assert_int_equal(crn_scr_params_parse(&params, "SCR_FETCH\n", ei), CAIRN_ECONFIG);
}

static void variables_in_values(void **state)
{
    (void)state;
    assert_int_equal(setenv("WHO", "me", 1), 0);
    assert_string_equal(asked("A=/x/$WHO/${WHO}s/$NOBODY$"), "nothing");
    assert_string_equal(asked("A"), "/x/me/mes/$");
    assert_string_equal(asked("B=${WHO"), "nothing");
    assert_string_equal(asked("B"), "${WHO");
}

static void what_they_mean(void **state)
{
    struct crn_scr_config cfg;

    (void)state;
    assert_ok(crn_scr_params_parse(&params,
                                   "SCR_PREFIX=/p/\nSCR_COPY_TYPE=SINGLE\nSCR_CACHE_BYPASS=0\n"
                                   "CKPT=0 INTERVAL=1 TYPE=SINGLE\nCKPT=1 INTERVAL=4 TYPE=XOR "
                                   "BYPASS=1\nSCR_CRC_ON_FLUSH=1\nSCR_CHECKPOINT_OVERHEAD=2.5\n",
                                   ei));
    assert_ok(crn_scr_config_load(&params, &cfg, ei));
    assert_string_equal(cfg.prefix, "/p");
    assert_int_equal(cfg.is_direct, 0);
    assert_true(cfg.overhead > 2.4 && cfg.overhead < 2.6);
    assert_string_equal(cfg.ignored, "SCR_CRC_ON_FLUSH");
    assert_int_equal(crn_scr_config_level(&cfg, 3)->level, CAIRN_CAPTURED);
    assert_int_equal(crn_scr_config_level(&cfg, 8)->level, CAIRN_PERSISTENT);
    assert_int_equal(crn_scr_config_ckpt(&cfg, 8)->is_direct, 1);
    assert_ok(crn_scr_params_parse(&params, "SCR_COPY_TYPE=RAID0\n", ei));
    assert_int_equal(crn_scr_config_load(&params, &cfg, ei), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "RAID0"));
}

static void what_cairn_is_told(void **state)
{
    struct crn_face_settings settings = {0};
    struct crn_scr_config cfg;
    int is_kept = 0;
    size_t i;

    (void)state;
    assert_ok(crn_scr_params_parse(&params, "SCR_PREFIX=/p/\n", ei));
    assert_ok(crn_scr_config_load(&params, &cfg, ei));
    crn_scr_config_settings(&cfg, &settings);
    for (i = 0; i < settings.n; i++)
        is_kept |= strcmp(settings.list[i], "supersede=off") == 0;
    assert_true(is_kept); /* a broker's turn drops no dataset that the program was promised */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(set_ask_and_unset),
        TEST(lines_with_children),
        TEST(environment_then_file_then_program),
        TEST(variables_in_values),
        TEST(what_they_mean),
        TEST(what_cairn_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
