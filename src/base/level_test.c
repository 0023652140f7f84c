/* SPDX-License-Identifier: BSD-3-Clause */
/* What a level includes, as cairn.h promises. */
#include "base/level.h"

#include "base/test.h"

static const cairn_level all[] = {CAIRN_LEVEL_NONE, CAIRN_CAPTURED, CAIRN_LOCAL, CAIRN_PROTECTED,
                                  CAIRN_PERSISTENT};

static int includes(cairn_level a, cairn_level b)
{
    return crn_level_has(crn_level_set(a), b);
}

static void test_inclusion(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_true(crn_level_is_known(all[i]));
        assert_true(includes(all[i], all[i]));
        assert_true(includes(all[i], CAIRN_LEVEL_NONE));
        assert_true(includes(CAIRN_PERSISTENT, all[i]));
        assert_int_equal(includes(all[i], CAIRN_CAPTURED), i > 0);
        assert_int_equal(crn_level_highest(crn_level_set(all[i])), all[i]);
    }
    assert_false(includes(CAIRN_PROTECTED, CAIRN_LOCAL));
    assert_false(includes(CAIRN_LOCAL, CAIRN_PROTECTED));
    assert_false(includes(CAIRN_PROTECTED, CAIRN_PERSISTENT));
    assert_int_equal(crn_level_highest(crn_level_set(CAIRN_LOCAL) | crn_level_set(CAIRN_PROTECTED)),
                     CAIRN_PROTECTED);
    assert_true(crn_level_has(0, CAIRN_LEVEL_NONE));
}

static void test_unknown(void **state)
{
    int i;

    (void)state;
    for (i = -70; i < 200; i++) {
        int is_known = i == 0 || i == 10 || i == 20 || i == 30 || i == 40;

        assert_int_equal(crn_level_is_known((cairn_level)i), is_known);
        assert_int_equal(crn_level_name((cairn_level)i) != NULL, is_known);
        assert_int_equal(crn_level_has(UINT64_MAX, (cairn_level)i), is_known);
    }
    assert_string_equal(crn_level_name(CAIRN_PROTECTED), "protected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inclusion),
        cmocka_unit_test(test_unknown),
    };

    return cmocka_run_group_tests_name("base/level", tests, NULL, NULL);
}
