/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test.h"
#include "cli/sets.h"

static void names_fit_patterns(void **state)
{
    static const char *const misfits[][2] = {
        {"{rank}-{step}", "0-9223372036854775808"},
        {"{rank}-{step}", "16777216-1"},
        {"out.{step}.h5", "out..h5"},
        {"out.{step}.h5", "out.1.h5.tmp"},
        {"out.{step}.h5", "out.1.h"},
        {"out.{step}.h5", "out.-1.h5"},
        {"out.{step}.h5", ""},
        {"DD{step}/data{step}.{rank}", "DD0012/data0013.7"},
        {"DD{step}/data{step}.{rank}", "data0012.7"},
        {"r.{any}", "r."},
        {"r.{any}", "r.a/b"},
        {"r.{any}.{rank}", "r.a.b"},
    };
    struct cli_match m, other;
    size_t i;

    (void)state;
    assert_true(crn_sets_match("out.{step}.{rank}.h5", "out.0012.3.h5", &m));
    assert_true(m.step == 12 && m.rank == 3 && m.any == 0);
    assert_true(crn_sets_match("{rank}-{step}", "0-9223372036854775807", &m));
    assert_true(m.step == INT64_MAX && m.rank == 0);
    assert_true(crn_sets_match("x{step}", "x7", &m));
    assert_true(m.step == 7 && m.rank == 0);
    assert_true(crn_sets_match("DD{step}/data{step}.{rank}", "DD0012/data12.7", &m));
    assert_true(m.step == 12 && m.rank == 7);
    assert_true(crn_sets_match("state.cpt", "state.cpt", &m));
    assert_true(m.step == -1 && m.any == 0);
    assert_true(crn_sets_match("r.{any}.{rank}.dat", "r.a.b.12.dat", &m));
    assert_true(m.step == -1 && m.rank == 12 && m.any != 0);
    assert_true(crn_sets_match("r.{any}.{rank}.dat", "r.a.b.3.dat", &other));
    assert_true(other.any == m.any);
    assert_true(crn_sets_match("r.{any}.{rank}.dat", "r.a.c.3.dat", &other));
    assert_true(other.any != m.any);
    for (i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++)
        if (crn_sets_match(misfits[i][0], misfits[i][1], &m))
            fail_msg("%s fits %s", misfits[i][1], misfits[i][0]);
}

static void directories_fit_patterns(void **state)
{
    const char *pattern = "DD{step}/{rank}/data{step}";

    (void)state;
    assert_true(crn_sets_match_dir(pattern, "DD7"));
    assert_true(crn_sets_match_dir(pattern, "DD7/3"));
    assert_false(crn_sets_match_dir(pattern, "DD"));
    assert_false(crn_sets_match_dir(pattern, "DD7/x"));
    assert_false(crn_sets_match_dir(pattern, "DD7/3/data7"));
    assert_false(crn_sets_match_dir("out.{step}", "out.1"));
    assert_string_equal(crn_sets_tail(pattern, "/a/b/DD7/3/data7"), "DD7/3/data7");
    assert_string_equal(crn_sets_tail(pattern, "DD7/3/data7"), "DD7/3/data7");
    assert_null(crn_sets_tail(pattern, "3/data7"));
    assert_string_equal(crn_sets_tail("x{step}", "/a/x7"), "x7");
    assert_string_equal(crn_sets_tail("x{step}", "x7"), "x7");
}

static void bad_patterns_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "{step}{rank}",
                                      "{step}0",
                                      "/a/{step}",
                                      "../{step}",
                                      "a//{step}",
                                      "a/",
                                      "{step}.{x}",
                                      "{step}}",
                                      "{step}{{}",
                                      "{step",
                                      "{rank}1.{step}",
                                      "{any}{rank}",
                                      "{any}.{any}",
                                      "{any}.{step}"};
    struct cli_patterns p = {0};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct crn_errinfo ei = {0};

        assert_int_equal(crn_sets_add_pattern(&p, bad[i], &ei), CAIRN_EINVAL);
        assert_non_null(strstr(ei.msg, bad[i]));
    }
    for (i = 0; i < CLI_MAX_PATTERNS; i++)
        assert_int_equal(crn_sets_add_pattern(&p, "{step}.{rank}", NULL), CAIRN_OK);
    assert_int_equal(crn_sets_add_pattern(&p, "{step}.{rank}", NULL), CAIRN_EINVAL);
    p.n = 1;
    assert_int_equal(crn_sets_add_pattern(&p, "last.{rank}", NULL), CAIRN_EINVAL);
}

static void names_without_a_step(void **state)
{
    static char *const path[] = {"d/r.a.0", "d/r.b.1", "d/r.b.0", "d/r.a.1"};
    struct cli_patterns p = {.text = {"r.{any}.{rank}"}, .n = 1};
    struct cli_sets sets;
    char why[200];
    size_t i;

    (void)state;
    assert_int_equal(crn_sets_sort(&p, path, 4, 2, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.n, 2);
    for (i = 0; i < 2; i++) {
        assert_int_equal(sets.set[i].step, -1);
        assert_true(crn_set_is_complete(&sets.set[i], &p, why, sizeof(why)));
        assert_int_equal(sets.set[i].file[0].name[2], sets.set[i].file[1].name[2]);
    }
    crn_sets_free(&sets);
    assert_int_equal(crn_sets_sort(&p, path, 1, 2, &sets, NULL), CAIRN_OK);
    assert_false(crn_set_is_complete(&sets.set[0], &p, why, sizeof(why)));
    assert_string_equal(why, "rank 1 has no file 'r.{any}.{rank}'");
    crn_sets_free(&sets);
}

static void files_below_directories(void **state)
{
    static char *const path[] = {"run/DD0001/data.1", "run/DD0001/data.0", "run/DD0002/data.0"};
    struct cli_patterns p = {.text = {"DD{step}/data.{rank}"}, .n = 1};
    struct cli_sets sets;

    (void)state;
    assert_int_equal(crn_sets_sort(&p, path, 3, 2, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.n, 2);
    assert_int_equal(sets.set[0].n, 2);
    assert_string_equal(sets.set[0].file[0].name, "DD0001/data.0");
    crn_sets_free(&sets);
}

static void files_become_sets(void **state)
{
    static char *const path[] = {"d/b.10.1", "d/a.10.1", "d/b.10.0", "other",
                                 "d/a.10.0", "d/a.2.0",  "d/c.10"};
    struct cli_patterns p = {.text = {"a.{step}.{rank}", "b.{step}.{rank}", "c.{step}"}, .n = 3};
    struct cli_sets sets;
    char why[200];

    (void)state;
    assert_int_equal(crn_sets_sort(&p, path, 7, 0, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.n, 2);
    assert_int_equal(sets.set[0].step, 2);
    assert_false(crn_set_is_complete(&sets.set[0], &p, why, sizeof(why)));
    assert_string_equal(why, "step 2: rank 0 has no file 'b.{step}.{rank}'");
    assert_int_equal(sets.set[1].n, 5);
    assert_int_equal(sets.set[1].ranks, 2);
    assert_true(crn_set_is_complete(&sets.set[1], &p, why, sizeof(why)));
    assert_string_equal(sets.set[1].file[0].name, "a.10.0");
    assert_string_equal(sets.set[1].file[4].path, "d/b.10.1");
    assert_int_equal(sets.set[1].file[4].rank, 1);
    crn_sets_free(&sets);

    assert_int_equal(crn_sets_sort(&p, path, 7, 3, &sets, NULL), CAIRN_OK);
    assert_false(crn_set_is_complete(&sets.set[1], &p, why, sizeof(why)));
    assert_string_equal(why, "step 10: rank 2 has no file 'a.{step}.{rank}'");
    crn_sets_free(&sets);

    assert_int_equal(crn_sets_sort(&p, path, 7, 1, &sets, NULL), CAIRN_OK);
    assert_false(crn_set_is_complete(&sets.set[1], &p, why, sizeof(why)));
    crn_sets_free(&sets);

    assert_int_equal(crn_sets_sort(&p, path, 0, 1, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.n, 0);
    crn_sets_free(&sets);
}

static void one_file_a_rank(void **state)
{
    static char *const twice[] = {"a.1.0", "a.01.0"};
    static char *const list[] = {"z", "y/z"};
    struct cli_patterns p = {.text = {"a.{step}.{rank}"}, .n = 1};
    struct cli_patterns none = {0};
    struct cli_sets sets;
    char why[200];

    (void)state;
    assert_int_equal(crn_sets_sort(&p, twice, 2, 0, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.n, 1);
    assert_false(crn_set_is_complete(&sets.set[0], &p, why, sizeof(why)));
    crn_sets_free(&sets);
    assert_int_equal(crn_sets_list(list, 2, &sets, NULL), CAIRN_OK);
    assert_int_equal(sets.set[0].ranks, 2);
    assert_int_equal(sets.set[0].step, -1);
    assert_true(crn_set_is_complete(&sets.set[0], &none, why, sizeof(why)));
    assert_string_equal(sets.set[0].file[1].path, "y/z");
    crn_sets_free(&sets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_fit_patterns),       cmocka_unit_test(directories_fit_patterns),
        cmocka_unit_test(bad_patterns_are_refused), cmocka_unit_test(names_without_a_step),
        cmocka_unit_test(files_below_directories),  cmocka_unit_test(files_become_sets),
        cmocka_unit_test(one_file_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
