/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test.h"
#include "cli/sets.h"

static void names_fit_patterns(void **state)
{
    uint32_t rank = 9;
    int64_t step = 9;

    (void)state;
    assert_true(crn_sets_match("out.{step}.{rank}.h5", "out.0012.3.h5", &step, &rank));
    assert_int_equal(step, 12);
    assert_int_equal(rank, 3);
    assert_true(crn_sets_match("{rank}-{step}", "0-9223372036854775807", &step, &rank));
    assert_true(step == INT64_MAX && rank == 0);
    assert_true(crn_sets_match("x{step}", "x7", &step, &rank));
    assert_true(step == 7 && rank == 0);
    assert_false(crn_sets_match("{rank}-{step}", "0-9223372036854775808", &step, &rank));
    assert_false(crn_sets_match("{rank}-{step}", "16777216-1", &step, &rank));
    assert_false(crn_sets_match("out.{step}.h5", "out..h5", &step, &rank));
    assert_false(crn_sets_match("out.{step}.h5", "out.1.h5.tmp", &step, &rank));
    assert_false(crn_sets_match("out.{step}.h5", "out.1.h", &step, &rank));
    assert_false(crn_sets_match("out.{step}.h5", "out.-1.h5", &step, &rank));
    assert_false(crn_sets_match("out.{step}.h5", "", &step, &rank));
}

static void bad_patterns_are_refused(void **state)
{
    static const char *const bad[] = {"",          "out.{rank}",     "{step}{rank}", "{step}0",
                                      "a/{step}",  "{step}.{step}",  "{step}.{x}",   "{step}}",
                                      "{step}{{}", "{rank}1.{step}", "{step"};
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
        cmocka_unit_test(names_fit_patterns),
        cmocka_unit_test(bad_patterns_are_refused),
        cmocka_unit_test(files_become_sets),
        cmocka_unit_test(one_file_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
