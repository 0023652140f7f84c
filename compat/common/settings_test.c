/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and settings. */
#include "common/settings.h"

#include <stdlib.h>

#include "base/test.h"
#include "cairn/cairn.h"

static void a_name_that_cairn_allows_stays(void **state)
{
    char name[CAIRN_MAX_NAME];

    (void)state;
    crn_settings_name("ckpt.100_a-b", name, sizeof(name));
    assert_string_equal(name, "ckpt.100_a-b");
}

static void other_texts_become_names_that_differ(void **state)
{
    static const char *const texts[] = {"", ".", ".a", "a/b", "a b", "a_b/", "\xc3\xa4", "a:b"};
    char name[8][48];
    char full[400], other[400], one[48], two[48];
    size_t i, k;

    (void)state;
    for (i = 0; i < 8; i++) {
        crn_settings_name(texts[i], name[i], sizeof(name[i]));
        assert_true(name[i][0] != '\0' && name[i][0] != '.');
        assert_int_equal(strspn(name[i], "abcdefghijklmnopqrstuvwxyz0123456789_.-"),
                         strlen(name[i]));
        for (k = 0; k < i; k++)
            assert_string_not_equal(name[i], name[k]);
    }
    memset(full, 'x', sizeof(full) - 1);
    full[sizeof(full) - 1] = '\0';
    memcpy(other, full, sizeof(full));
    other[sizeof(other) - 2] = 'y';
    crn_settings_name(full, one, sizeof(one));
    crn_settings_name(other, two, sizeof(two));
    assert_true(strlen(one) < sizeof(one));
    assert_string_not_equal(one, two);
}

static void a_variable_of_cairn_wins_over_a_setting(void **state)
{
    struct crn_face_settings *s = calloc(1, sizeof(*s));

    (void)state;
    assert_non_null(s);
    assert_int_equal(setenv("CAIRN_KEEP_LAST", "7", 1), 0);
    crn_settings_set(s, "keep_last", "%d", 3);
    crn_settings_set(s, "local", "%s", "/x");
    assert_int_equal(unsetenv("CAIRN_KEEP_LAST"), 0);
    assert_int_equal(s->n, 1);
    assert_string_equal(s->list[0], "local=/x");
    assert_null(s->list[1]);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_cairn_allows_stays),
        cmocka_unit_test(other_texts_become_names_that_differ),
        cmocka_unit_test(a_variable_of_cairn_wins_over_a_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
