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
    char scheme[CRN_FACE_SCHEME];

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
    assert_int_equal(crn_scr_config_level(&cfg, 3, scheme)->level, CAIRN_CAPTURED);
    assert_string_equal(scheme, "none");
    assert_int_equal(crn_scr_config_level(&cfg, 8, scheme)->level, CAIRN_PROTECTED);
    assert_string_equal(scheme, "xor|none");
    assert_int_equal(crn_scr_config_ckpt(&cfg, 8)->is_direct, 1);
    assert_ok(crn_scr_params_parse(&params, "SCR_COPY_TYPE=RAID0\n", ei));
    assert_int_equal(crn_scr_config_load(&params, &cfg, ei), CAIRN_ECONFIG);
    assert_non_null(strstr(ei->msg, "RAID0"));
}

static int is_told(const struct crn_face_settings *settings, const char *text)
{
    size_t i;

    for (i = 0; i < settings->n; i++)
        if (strcmp(settings->list[i], text) == 0)
            return 1;
    return 0;
}

static void sets_of_nodes(void **state)
{
    struct crn_face_settings settings = {0};
    struct crn_scr_config cfg;
    char scheme[CRN_FACE_SCHEME];
    char text[64] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_ok(crn_scr_params_parse(
        &params,
        "SCR_PREFIX=/p\nCKPT=0 INTERVAL=1 TYPE=RS SET_FAILURES=3 SET_SIZE=6 GROUP=POWER\n"
        "GROUPS=n1 POWER=a SWITCH=1\nGROUPS=n2 SWITCH=1 POWER=b\nGROUPS=n3 SWITCH=2\n",
        ei));
    assert_ok(crn_scr_config_load(&params, &cfg, ei));
    assert_string_equal(cfg.ignored, "");
    (void)crn_scr_config_level(&cfg, 1, scheme);
    assert_string_equal(scheme, "rs:3|none");
    assert_non_null(out);
    crn_scr_config_groups(&params, cfg.group, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "n1 a\nn2 b\n");
    crn_scr_config_settings(&cfg, &settings);
    assert_true(is_told(&settings, "protect_set=6"));
    assert_true(is_told(&settings, "failure_domain=file:/p/.scr/cairn-groups"));
}

static void what_cairn_is_told(void **state)
{
    struct crn_face_settings settings = {0};
    struct crn_scr_config cfg;

    (void)state;
    assert_ok(crn_scr_params_parse(&params, "SCR_PREFIX=/p/\n", ei));
    assert_ok(crn_scr_config_load(&params, &cfg, ei));
    crn_scr_config_settings(&cfg, &settings);
    assert_true(is_told(
        &settings,
        "supersede=off")); /* a broker's turn drops no dataset that the program was promised */
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
        TEST(sets_of_nodes),
        TEST(what_cairn_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
