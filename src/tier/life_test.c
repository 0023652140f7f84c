/* SPDX-License-Identifier: BSD-3-Clause */
/* The life cycle: every state with every event, and what follows from the table as a whole. */
#include "base/test.h"

#include "tier/life.h"

struct move {
    enum crn_life from;
    enum crn_life_event event;
    enum crn_life to;
};

#define I  CRN_LIFE_INIT
#define WP CRN_LIFE_WRITE_IN_PROGRESS
#define WC CRN_LIFE_WRITE_COMPLETE
#define FL CRN_LIFE_FLUSHED
#define RP CRN_LIFE_READ_IN_PROGRESS
#define RC CRN_LIFE_READ_COMPLETE
#define CO CRN_LIFE_CONSUMED

/* All moves of figure 1 and section 2 of the paper, and those that failures add. */
static const struct move legal[] = {
    /* checkpointing path */
    {I, CRN_LIFE_WRITE_BEGIN, WP},
    {WP, CRN_LIFE_WRITE_END, WC},
    {WC, CRN_LIFE_FLUSH_END, FL},
    /* prefetching path */
    {I, CRN_LIFE_READ_BEGIN, RP},
    {RP, CRN_LIFE_READ_END, RC},
    {RC, CRN_LIFE_CONSUME, CO},
    /* read again while it is still here, any number of times */
    {WC, CRN_LIFE_HOLD, RC},
    {FL, CRN_LIFE_HOLD, RC},
    {CO, CRN_LIFE_HOLD, RC},
    {RC, CRN_LIFE_HOLD, RC},
    /* the flush that was pending ends later */
    {RC, CRN_LIFE_FLUSH_END, RC},
    {CO, CRN_LIFE_FLUSH_END, CO},
    /* eviction */
    {FL, CRN_LIFE_EVICT, I},
    {CO, CRN_LIFE_EVICT, I},
    /* no longer needed */
    {WC, CRN_LIFE_DISCARD, I},
    {FL, CRN_LIFE_DISCARD, I},
    {RC, CRN_LIFE_DISCARD, I},
    {CO, CRN_LIFE_DISCARD, I},
    /* the copy below is gone */
    {WC, CRN_LIFE_COPY_LOST, WC},
    {FL, CRN_LIFE_COPY_LOST, WC},
    {RC, CRN_LIFE_COPY_LOST, RC},
    {CO, CRN_LIFE_COPY_LOST, CO},
    /* failures */
    {WP, CRN_LIFE_FAIL, I},
    {RP, CRN_LIFE_FAIL, I},
    {WP, CRN_LIFE_LOST, I},
    {WC, CRN_LIFE_LOST, I},
    {FL, CRN_LIFE_LOST, I},
    {RP, CRN_LIFE_LOST, I},
    {RC, CRN_LIFE_LOST, I},
    {CO, CRN_LIFE_LOST, I},
};

static int expected(enum crn_life from, enum crn_life_event event)
{
    size_t i;

    for (i = 0; i < sizeof(legal) / sizeof(legal[0]); i++)
        if (legal[i].from == from && legal[i].event == event)
            return (int)legal[i].to;
    return CRN_LIFE_ILLEGAL;
}

static void test_all_moves(void **state)
{
    int s;
    int e;

    (void)state;
    for (s = 0; s < CRN_LIFE_STATES; s++) {
        for (e = 0; e < CRN_LIFE_EVENTS; e++) {
            enum crn_life life = (enum crn_life)s;
            int want = expected(life, (enum crn_life_event)e);

            assert_int_equal(crn_life_next(life, (enum crn_life_event)e), want);
            assert_int_equal(crn_life_move(&life, (enum crn_life_event)e), want >= 0);
            assert_int_equal((int)life, want >= 0 ? want : s); /* an illegal move changes nothing */
        }
    }
}

/* The states that can be reached from INIT without one event. */
static unsigned reachable_without(enum crn_life_event left_out)
{
    unsigned seen = 1U << CRN_LIFE_INIT;
    unsigned before = 0;
    int s;
    int e;

    while (seen != before) {
        before = seen;
        for (s = 0; s < CRN_LIFE_STATES; s++)
            for (e = 0; e < CRN_LIFE_EVENTS; e++)
                if ((seen & (1U << s)) && e != (int)left_out &&
                    crn_life_next((enum crn_life)s, (enum crn_life_event)e) >= 0)
                    seen |= 1U << crn_life_next((enum crn_life)s, (enum crn_life_event)e);
    }
    return seen;
}

static void test_no_way_around(void **state)
{
    (void)state;
    assert_int_equal(reachable_without(CRN_LIFE_EVENTS), (1U << CRN_LIFE_STATES) - 1);
    /* only a consumed read leads to CONSUMED, only a finished flush to FLUSHED, only an end to a
     * complete one */
    assert_false(reachable_without(CRN_LIFE_CONSUME) & (1U << CO));
    assert_false(reachable_without(CRN_LIFE_FLUSH_END) & (1U << FL));
    assert_false(reachable_without(CRN_LIFE_WRITE_END) & (1U << WC));
    assert_false(reachable_without(CRN_LIFE_READ_BEGIN) & (1U << RP));
}

static void test_eviction(void **state)
{
    int s;

    (void)state;
    for (s = 0; s < CRN_LIFE_STATES; s++) {
        int can = s == FL || s == CO;

        assert_int_equal(crn_life_may_evict((enum crn_life)s, 1, 0), can);
        assert_int_equal(crn_life_may_evict((enum crn_life)s, 0, 1), can);
        assert_int_equal(crn_life_may_evict((enum crn_life)s, 0, 0), 0);
        assert_int_equal(crn_life_is_whole((enum crn_life)s),
                         s == WC || s == FL || s == RC || s == CO);
        assert_true(strlen(crn_life_name((enum crn_life)s)) > 3);
    }
    assert_string_equal(crn_life_name(CRN_LIFE_STATES), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_moves),
        cmocka_unit_test(test_no_way_around),
        cmocka_unit_test(test_eviction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
