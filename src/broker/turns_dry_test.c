/* SPDX-License-Identifier: BSD-3-Clause */
/* Dry run: nothing waits, and the decisions are those that a real token would make. */
#include "broker/test_turns.h"

/* A request of so many seconds. */
static void ask_for(struct turns_world *w, uint32_t c, uint32_t seq, uint64_t seconds)
{
    struct crn_bp_ask ask = waiting(seq, 1000 * seconds); /* at 1000 bytes/s */

    say(w, c, &ask, 1);
}

static void expect_told(const struct turns_world *w, uint32_t i, uint32_t c, int64_t at_ns,
                        int64_t since_ns)
{
    char job[CRN_BP_NAME];

    (void)snprintf(job, sizeof(job), "job %u", c);
    assert_true(i < w->ntold);
    assert_string_equal(w->told_job[i], job);
    assert_int_equal(w->told[i].at_ns, at_ns);
    assert_int_equal(w->told[i].since_ns, since_ns);
    assert_int_equal(w->told[i].is_dry, 1);
}

static void all_go_and_are_decided(void **state)
{
    struct crn_turns_token token = one;
    struct crn_turns_totals totals;
    struct turns_world w;
    int64_t begin;
    uint32_t i;

    (void)state;
    token.is_dry = 1;
    turns_open_world(&w, &token, 1);
    begin = w.now;
    for (i = 0; i < 3; i++) {
        ask_for(&w, i, 1, 10 + i);
        assert_verdict(&w, i, CRN_BP_GO);
    }
    assert_int_equal(w.ntold, 1); /* the second would wait for the first */
    expect_told(&w, 0, 0, begin, begin);
    w.now = begin + 5 * S;
    for (i = 0; i < 3; i++)
        say(&w, i, NULL, 0); /* really over */
    crn_turns_totals(w.turns, w.now, 0, &totals);
    assert_int_equal(totals.row.is_dry, 1);
    assert_int_equal(totals.row.granted, 3);
    assert_int_equal(totals.overlapping, 2);
    assert_int_equal(totals.dry_waiting, 2);
    pass(&w, 40 * S);
    assert_int_equal(w.ntold, 3);
    expect_told(&w, 1, 1, begin + 10 * S, begin); /* to the nanosecond, whenever the ticks are */
    expect_told(&w, 2, 2, begin + 21 * S, begin);
    assert_int_equal(w.told[2].beside, 2);
    crn_turns_totals(w.turns, w.now, 0, &totals);
    assert_int_equal(totals.dry_granted, 3);
    assert_true(totals.dry_wait_s > 30.999 && totals.dry_wait_s < 31.001);
    turns_close_world(&w);
}

/* One entry for each job: what it would write when its turn comes is its newest state. */
static void who_asks_again_keeps_its_place(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    int64_t begin;

    (void)state;
    token.is_dry = 1;
    turns_open_world(&w, &token, 1);
    begin = w.now;
    ask_for(&w, 0, 1, 100);
    ask_for(&w, 1, 1, 10);
    w.now += S;
    ask_for(&w, 2, 1, 10);
    say(&w, 1, NULL, 0);
    w.now += S;
    ask_for(&w, 1, 2, 20); /* its second, while the first would still wait */
    assert_verdict(&w, 1, CRN_BP_GO);
    pass(&w, 200 * S);
    assert_int_equal(w.ntold, 3);
    expect_told(&w, 1, 1, begin + 100 * S, begin);
    assert_int_equal(w.told[1].duration_ns, 20 * S);
    expect_told(&w, 2, 2, begin + 120 * S, begin + S);
    turns_close_world(&w);
}

static void budgets_and_sets_count(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;

    (void)state;
    token.is_dry = 1;
    token.slots = 8;
    token.budget = 2000; /* two at 1000 bytes/s */
    turns_open_world(&w, &token, 1);
    ask_for(&w, 0, 1, 10);
    ask_for(&w, 1, 1, 10);
    ask_for(&w, 2, 1, 10);
    assert_int_equal(w.ntold, 2);
    pass(&w, 11 * S);
    assert_int_equal(w.ntold, 3);
    turns_close_world(&w);
    token.budget = 0;
    token.policy = &crn_policy_set10;
    turns_open_world(&w, &token, 1);
    ask_for(&w, 0, 1, 10);
    ask_for(&w, 1, 1, 11);  /* the same set */
    ask_for(&w, 2, 1, 100); /* another one */
    assert_int_equal(w.ntold, 2);
    assert_string_equal(w.told_job[1], "job 2");
    pass(&w, 11 * S);
    assert_int_equal(w.ntold, 3);
    turns_close_world(&w);
}

/* Neither a start of the broker nor a full table stops anyone. */
static void nothing_waits_ever(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turns_token token = one;
    struct crn_turns_config cfg = {.token = &token,
                                   .ntokens = 1,
                                   .epoch = EPOCH,
                                   .lease_ns = 30 * S,
                                   .grace_ns = 10 * S,
                                   .settle_ns = 1000 * S,
                                   .max_conns = CONNS,
                                   .max_jobs = 12,
                                   .max_user_jobs = 12};
    struct turns_world w;
    uint32_t i, seq;

    (void)state;
    token.is_dry = 1;
    memset(&w, 0, sizeof(w));
    w.now = 1000 * S;
    assert_ok(crn_turns_new(&cfg, w.now, &w.turns, ei));
    for (i = 0; i < 12; i++)
        crn_turns_opened(w.turns, i, "alice", 0);
    for (seq = 1; seq < 50; seq++)
        for (i = 0; i < 12; i++) {
            struct crn_bp_ask ask = waiting(seq, 1000);

            ask.kind = seq % 2 == 0 ? CRN_IO_RECOVERY : CRN_IO_CHECKPOINT;
            say(&w, i, &ask, 1);
            assert_verdict(&w, i, CRN_BP_GO);
        }
    turns_close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_go_and_are_decided),
        cmocka_unit_test(who_asks_again_keeps_its_place),
        cmocka_unit_test(budgets_and_sets_count),
        cmocka_unit_test(nothing_waits_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
