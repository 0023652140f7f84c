/* SPDX-License-Identifier: BSD-3-Clause */
/* Every pair of state and event, written out a second time: a change of a table must be made here
 * too. '-' is illegal; a letter is the state after it. */
#include "node/states.h"

#include <string.h>

#include "base/test.h"

/* Columns: all captured, GO, written, END, cut, retire, retired. States by letter: Capturing,
 * capTured, Flushing, fluShed, Ended, cUt off, Retiring, Gone. */
static void a_node(void **state)
{
    static const char letters[] = "CTFSEURG";
    static const char *const rows[] = {
        "T--EU--", "-F-EU--", "--SEU--", "---EU--", "-----R-", "-----R-", "------G", "-------",
    };
    int s, e;

    (void)state;
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), CRN_ITEM_STATES);
    for (s = 0; s < CRN_ITEM_STATES; s++)
        for (e = 0; e < CRN_ITEM_EVENTS; e++) {
            int next = crn_item_next((enum crn_item_state)s, (enum crn_item_event)e);

            assert_int_equal(next == CRN_STATE_ILLEGAL ? '-' : letters[next], rows[s][e]);
        }
}

/* Columns: hold, start, checked, ask, turn, all data, commit, refuse, find, fail. States by letter:
 * Collecting, Held, checKing, Queued, Asking, Flushing, coMmitting, cOmmitted, faileD. */
static void the_root(void **state)
{
    static const char letters[] = "CHKQAFMOD";
    static const char *const rows[] = {
        "HK------OD", "-K------OD", "--Q-----OD", "---A-----D", "----F----D",
        "-----M---D", "------OD--", "----------", "----------",
    };
    int s, e;

    (void)state;
    assert_int_equal(sizeof(rows) / sizeof(rows[0]), CRN_ROOT_STATES);
    for (s = 0; s < CRN_ROOT_STATES; s++)
        for (e = 0; e < CRN_ROOT_EVENTS; e++) {
            int next = crn_root_next((enum crn_root_state)s, (enum crn_root_event)e);

            assert_int_equal(next == CRN_STATE_ILLEGAL ? '-' : letters[next], rows[s][e]);
        }
}

/* From every state there is a way to the end, and no way back. */
static void every_life_ends(void **state)
{
    int s, e;

    (void)state;
    for (s = 0; s < CRN_ITEM_STATES; s++) {
        int ways = 0;

        for (e = 0; e < CRN_ITEM_EVENTS; e++) {
            int next = crn_item_next((enum crn_item_state)s, (enum crn_item_event)e);

            ways += next != CRN_STATE_ILLEGAL;
            assert_true(next == CRN_STATE_ILLEGAL || next > s);
        }
        assert_int_equal(ways > 0, s != CRN_ITEM_GONE);
    }
    for (s = 0; s < CRN_ROOT_STATES; s++) {
        int ways = 0;

        for (e = 0; e < CRN_ROOT_EVENTS; e++) {
            int next = crn_root_next((enum crn_root_state)s, (enum crn_root_event)e);

            ways += next != CRN_STATE_ILLEGAL;
            assert_true(next == CRN_STATE_ILLEGAL || next > s);
        }
        assert_int_equal(ways > 0, !crn_root_has_decided((enum crn_root_state)s));
    }
}

static void all_have_names(void **state)
{
    int i, k;

    (void)state;
    for (i = 0; i < CRN_ITEM_STATES; i++)
        for (k = 0; k < i; k++)
            assert_string_not_equal(crn_item_state_name((enum crn_item_state)i),
                                    crn_item_state_name((enum crn_item_state)k));
    for (i = 0; i < CRN_ROOT_STATES; i++)
        for (k = 0; k < i; k++)
            assert_string_not_equal(crn_root_state_name((enum crn_root_state)i),
                                    crn_root_state_name((enum crn_root_state)k));
    assert_string_equal(crn_item_event_name(CRN_ITEM_RETIRED), "retired");
    assert_string_equal(crn_root_event_name(CRN_ROOT_FAIL), "fail");
    assert_string_equal(crn_item_state_name(CRN_ITEM_STATES), "unknown");
    assert_string_equal(crn_root_event_name(CRN_ROOT_EVENTS), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node),
        cmocka_unit_test(the_root),
        cmocka_unit_test(every_life_ends),
        cmocka_unit_test(all_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
