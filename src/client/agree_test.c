/* SPDX-License-Identifier: BSD-3-Clause */
/* How often the ranks agree on the advice: steps of two ranks in virtual time. */
#include <stdlib.h>

#include "base/test.h"
#include "client/session.h"

#define US 1000LL
#define MS 1000000LL
#define S  1000000000LL

static int64_t time_ns;
static int64_t allreduce_ns;
static int64_t local_ns; /* what a rank does before it */
static int64_t other[8]; /* the values of the other rank */
static int agreements;

static int64_t mono_ns(const struct crn_clock *c)
{
    (void)c;
    return time_ns;
}

static cairn_err allreduce(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                           struct crn_errinfo *ei)
{
    int i;

    (void)c, (void)ei;
    assert_int_equal(op, CRN_COMM_MAX);
    for (i = 0; i < n; i++)
        values[i] = values[i] > other[i] ? values[i] : other[i];
    time_ns += allreduce_ns;
    agreements++;
    return CAIRN_OK;
}

static const struct crn_clock clock_of_test = {.mono_ns = mono_ns};
static const struct crn_comm_ops ops = {.allreduce = allreduce};
static struct crn_comm comm = {.ops = &ops, .size = 2};
static cairn_session *s;

static int begin(void **state)
{
    (void)state;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return -1;
    s->clock = &clock_of_test;
    s->comm = &comm;
    time_ns = S;
    allreduce_ns = 20 * US;
    local_ns = 0;
    agreements = 0;
    for (int i = 0; i < 8; i++)
        other[i] = INT64_MIN;
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(s);
    return 0;
}

/* Takes steps until time ns have passed; returns the longest time between two agreements. */
static int64_t run(const char *name, int64_t step_ns, int64_t ns)
{
    struct crn_errinfo info = {0}, *ei = &info;
    int64_t until = time_ns + ns;
    int64_t last = time_ns;
    int64_t longest = 0;

    while (time_ns < until) {
        struct crn_pace_of *p;
        int64_t value[1 + CRN_PACE_VALUES] = {0};

        time_ns += step_ns;
        if (!crn_agree_is_due(s, name, &p))
            continue;
        time_ns += local_ns;
        assert_ok(crn_agree_now(s, time_ns - local_ns, p, value, 1 + CRN_PACE_VALUES, ei));
        longest = time_ns - last > longest ? time_ns - last : longest;
        last = time_ns;
    }
    return longest;
}

static void it_costs_a_thousandth(void **state)
{
    (void)state;
    (void)run("a", 100 * US, S);
    agreements = 0;
    (void)run("a", 100 * US, 10 * S);
    assert_in_range(agreements, 1, 10 * S / 1000 / allreduce_ns + 1);
}

/* A single rank: hearing the node service is all that an agreement costs. */
static void what_a_rank_does_before_it_counts(void **state)
{
    (void)state;
    allreduce_ns = 100;
    local_ns = 10 * US;
    (void)run("a", 20 * US, S);
    agreements = 0;
    (void)run("a", 20 * US, 10 * S);
    assert_in_range(agreements, 1, 10 * S / 1000 / local_ns + 1);
}

static void a_signal_is_late_by_a_second_at_most(void **state)
{
    (void)state;
    allreduce_ns = 300 * MS; /* however expensive it is */
    assert_true(run("a", MS, 20 * S) <= S);
    assert_true(run("a", 200 * MS, 20 * S) <= S);
}

static void long_steps_agree_in_each(void **state)
{
    (void)state;
    (void)run("a", 10 * S, 30 * S);
    agreements = 0;
    (void)run("a", 10 * S, 100 * S);
    assert_int_equal(agreements, 10);
}

/* This rank waits for the slowest in each allreduce: that time is not what the agreement costs. */
static void waiting_for_a_slow_rank_is_no_cost(void **state)
{
    struct crn_pace_of *p;

    (void)state;
    allreduce_ns = 9 * MS;
    other[1] = 10 * MS;  /* its steps */
    other[2] = -20 * US; /* its allreduce */
    (void)run("a", MS, S);
    (void)crn_agree_is_due(s, "a", &p);
    assert_int_equal(p->every, 3); /* 20 us in 3 x 10 ms */
}

/* Each name, and cairn_should_stop, at a pace of its own: two names in turn agree for both. */
static void names_have_their_own_pace(void **state)
{
    struct crn_pace_of *a, *b, *stop;

    (void)state;
    (void)run("a", 100 * US, S);
    assert_int_equal(crn_agree_is_due(s, "b", &b), 1); /* its first call */
    assert_int_equal(crn_agree_is_due(s, NULL, &stop), 1);
    (void)crn_agree_is_due(s, "a", &a);
    assert_true(a != b && b != stop && a->every > 1);
    for (int i = 0; i < 2 * CRN_PACES; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(crn_agree_is_due(s, name, &b), 1); /* without a place: always */
    }
    assert_null(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_costs_a_thousandth, begin, end),
        cmocka_unit_test_setup_teardown(what_a_rank_does_before_it_counts, begin, end),
        cmocka_unit_test_setup_teardown(a_signal_is_late_by_a_second_at_most, begin, end),
        cmocka_unit_test_setup_teardown(long_steps_agree_in_each, begin, end),
        cmocka_unit_test_setup_teardown(waiting_for_a_slow_rank_is_no_cost, begin, end),
        cmocka_unit_test_setup_teardown(names_have_their_own_pace, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
