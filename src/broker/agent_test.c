/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's side alone: what it reports, which statuses it accepts, when it starts without a
 * grant. */
#include "base/test.h"

#include "broker/agent.h"

#define S 1000000000LL

static const struct crn_agent_config config = {
    .job = {1}, .name = "7", .nodes = 2, .give_up_ns = 5 * S, .max_wait_ns = 100 * S};
static const struct crn_bp_welcome welcome = {.epoch = 8, .report_ns = 10 * S};

static uint32_t ask(struct crn_agent *a, int64_t now)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turn_ask what = {.kind = CRN_IO_CHECKPOINT, .bytes = 1000};
    uint32_t ticket;

    assert_ok(crn_agent_ask(a, now, &what, &ticket, ei));
    return ticket;
}

static struct crn_bp_report report(struct crn_agent *a, int64_t now)
{
    struct crn_bp_report r;

    assert_int_equal(crn_agent_report(a, now, &r), 1);
    return r;
}

static void answer(struct crn_agent *a, int64_t now, uint64_t number, uint32_t seq, uint8_t code)
{
    struct crn_bp_status s = {.number = number, .report = a->number, .n = 1};

    s.verdict[0] =
        (struct crn_bp_verdict){.seq = seq, .code = code, .place = 2, .start_ns = 30 * S};
    crn_agent_status(a, now, &s);
}

static void waits_goes_returns(void **state)
{
    struct crn_agent a;
    struct crn_turn turn;
    struct crn_bp_report r;
    uint32_t t;

    (void)state;
    crn_agent_init(&a, &config, 0);
    t = ask(&a, S);
    crn_agent_online(&a, &welcome);
    r = report(&a, S);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.ask[0].state, CRN_BP_WAITING);
    assert_int_equal(crn_agent_report(&a, 2 * S, &r), 0);
    answer(&a, 2 * S, 1, t, CRN_BP_WAIT);
    turn = crn_agent_look(&a, 10 * S, t);
    assert_int_equal(turn.state, CRN_TURN_WAITING);
    assert_int_equal(turn.place, 2);
    assert_int_equal(turn.start_ns, 22 * S);
    assert_int_equal(crn_agent_deadline(&a), 11 * S);
    r = report(&a, 11 * S); /* a periodic report */
    assert_int_equal(r.ask[0].age_ns, 10 * S);
    answer(&a, 12 * S, 2, t, CRN_BP_GO);
    assert_int_equal(crn_agent_look(&a, 12 * S, t).state, CRN_TURN_GRANTED);
    r = report(&a, 12 * S);
    assert_int_equal(r.ask[0].state, CRN_BP_HOLDING);
    assert_int_equal(r.ask[0].epoch, 8);
    crn_agent_progress(&a, t, 500);
    crn_agent_return(&a, 14 * S, t);
    assert_int_equal(crn_agent_look(&a, 14 * S, t).state, CRN_TURN_CANCELED); /* it is over */
    r = report(&a, 14 * S); /* first all that was moved, which the broker measures */
    assert_int_equal(r.n, 1);
    assert_int_equal(r.ask[0].done, 500);
    r = report(&a, 14 * S);
    assert_int_equal(r.n, 0);
    assert_int_equal(crn_agent_report(&a, 23 * S, &r), 0);
    assert_int_equal(crn_agent_report(&a, 24 * S, &r), 1); /* repeated until it is answered */
    answer(&a, 24 * S, 3, 0, CRN_BP_WAIT);
    assert_int_equal(crn_agent_deadline(&a), INT64_MAX);
    (void)ask(&a, 30 * S);
    r = report(&a, 30 * S);
    assert_int_equal(r.ask[0].duration_ns, 4 * S); /* 500 bytes took 2 s */
}

/* Bytes and times change while a request waits; what only grows with time needs no message. */
static void a_waiting_request_is_described_anew(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turn_ask what = {.bytes = 1000, .at_risk_ns = 50 * S, .age_ns = 7 * S};
    struct crn_agent a;
    struct crn_bp_report r;
    uint32_t t;

    (void)state;
    crn_agent_init(&a, &config, 10 * S);
    assert_ok(crn_agent_ask(&a, 10 * S, &what, &t, ei));
    crn_agent_online(&a, &welcome);
    r = report(&a, 10 * S);
    assert_int_equal(r.ask[0].age_ns, 7 * S);
    assert_int_equal(r.ask[0].at_risk_ns, 50 * S);
    what.at_risk_ns = 51 * S;
    crn_agent_update(&a, 11 * S, t, &what);
    assert_int_equal(crn_agent_report(&a, 11 * S, &r), 0);
    what.at_risk_ns = 3 * S; /* a checkpoint was committed */
    what.period_ns = 60 * S;
    what.bytes = 2000;
    crn_agent_update(&a, 12 * S, t, &what);
    r = report(&a, 12 * S);
    assert_int_equal(r.ask[0].at_risk_ns, 3 * S);
    assert_int_equal(r.ask[0].period_ns, 60 * S);
    assert_int_equal(r.ask[0].bytes, 2000);
    assert_int_equal(r.ask[0].age_ns, 9 * S);
    answer(&a, 12 * S, 1, t, CRN_BP_WAIT);
    r = report(&a, 30 * S);
    assert_int_equal(r.ask[0].at_risk_ns, 21 * S);
    answer(&a, 30 * S, 2, t, CRN_BP_GO);
    what.bytes = 1;
    crn_agent_update(&a, 31 * S, t, &what); /* it is under way: too late */
    assert_int_equal(report(&a, 31 * S).ask[0].bytes, 2000);
}

static void goes_alone_without_a_broker(void **state)
{
    struct crn_agent a;
    struct crn_bp_report r;
    uint32_t t;

    (void)state;
    crn_agent_init(&a, &config, 0);
    t = ask(&a, 2 * S);
    assert_int_equal(crn_agent_deadline(&a), 5 * S);
    crn_agent_tick(&a, 5 * S - 1);
    assert_int_equal(crn_agent_look(&a, 5 * S, t).state, CRN_TURN_WAITING);
    crn_agent_tick(&a, 5 * S);
    assert_int_equal(crn_agent_look(&a, 5 * S, t).state, CRN_TURN_FREE);
    assert_string_equal(crn_agent_look(&a, 5 * S, t).why, "no broker");
    t = ask(&a, 50 * S); /* known to be away: at once */
    assert_int_equal(crn_agent_look(&a, 50 * S, t).state, CRN_TURN_FREE);
    crn_agent_online(&a, &welcome); /* comes back and learns of both */
    r = report(&a, 60 * S);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.ask[1].state, CRN_BP_ALONE);
    assert_int_equal(r.ask[0].held_ns, 55 * S);
    answer(&a, 60 * S, 1, t, CRN_BP_GO); /* counted; the transfer is running anyway */
    assert_int_equal(crn_agent_look(&a, 60 * S, t).state, CRN_TURN_FREE);
}

static void only_an_answer_makes_a_broker(void **state)
{
    struct crn_agent a;
    uint32_t t;

    (void)state;
    crn_agent_init(&a, &config, 0);
    t = ask(&a, 0);
    crn_agent_online(&a, &welcome); /* accepts the login and hangs up */
    (void)report(&a, S);
    crn_agent_offline(&a, 2 * S);
    crn_agent_online(&a, &welcome);
    (void)report(&a, 4 * S);
    crn_agent_tick(&a, 5 * S);
    assert_int_equal(crn_agent_look(&a, 5 * S, t).state, CRN_TURN_FREE);
}

static void a_broker_that_hangs_is_left(void **state)
{
    struct crn_agent a;
    uint32_t t;

    (void)state;
    crn_agent_init(&a, &config, 0);
    crn_agent_online(&a, &welcome);
    (void)report(&a, S);
    answer(&a, S, 1, 0, CRN_BP_WAIT);
    t = ask(&a, 20 * S);
    (void)report(&a, 20 * S);
    assert_false(crn_agent_is_stuck(&a, 25 * S - 1));
    assert_int_equal(crn_agent_deadline(&a), 25 * S);
    assert_true(crn_agent_is_stuck(&a, 25 * S));
    crn_agent_offline(&a, 25 * S);
    crn_agent_tick(&a, 25 * S);
    assert_int_equal(crn_agent_look(&a, 25 * S, t).state, CRN_TURN_FREE);
}

static void waits_no_longer_than_agreed(void **state)
{
    struct crn_agent a;
    struct crn_bp_report r;
    uint32_t t;
    int64_t now;

    (void)state;
    crn_agent_init(&a, &config, 0);
    crn_agent_online(&a, &welcome);
    t = ask(&a, 0);
    for (now = 0; now < 100 * S; now += S) {
        crn_agent_tick(&a, now);
        if (crn_agent_report(&a, now, &r))
            answer(&a, now, (uint64_t)now + 1, t, CRN_BP_WAIT);
        assert_int_equal(crn_agent_look(&a, now, t).state, CRN_TURN_WAITING);
    }
    crn_agent_tick(&a, now);
    assert_int_equal(crn_agent_look(&a, now, t).state, CRN_TURN_FREE);
    assert_int_equal(crn_agent_look(&a, now + S, t).waited_ns, 100 * S);
}

static void old_statuses_are_ignored(void **state)
{
    struct crn_agent a;
    uint32_t t, u;

    (void)state;
    crn_agent_init(&a, &config, 0);
    crn_agent_online(&a, &welcome);
    t = ask(&a, 0);
    (void)report(&a, 0);
    answer(&a, S, 5, t, CRN_BP_WAIT);
    answer(&a, S, 5, t, CRN_BP_GO);
    answer(&a, S, 4, t, CRN_BP_GO);
    assert_int_equal(crn_agent_look(&a, S, t).state, CRN_TURN_WAITING);
    crn_agent_return(&a, S, t);
    u = ask(&a, S);
    answer(&a, S, 6, t, CRN_BP_GO); /* for a closed ticket */
    assert_int_equal(crn_agent_look(&a, S, u).state, CRN_TURN_WAITING);
    assert_int_equal(crn_agent_look(&a, S, t).state, CRN_TURN_CANCELED);
}

static void taken_and_canceled(void **state)
{
    struct crn_agent a;
    struct crn_bp_report r;
    uint32_t t, u;

    (void)state;
    crn_agent_init(&a, &config, 0);
    crn_agent_online(&a, &welcome);
    t = ask(&a, 0);
    u = ask(&a, 0);
    (void)report(&a, 0);
    answer(&a, S, 1, t, CRN_BP_GO);
    answer(&a, S, 2, t, CRN_BP_TAKEN);
    answer(&a, S, 3, u, CRN_BP_CANCELED);
    assert_int_equal(crn_agent_look(&a, S, t).state, CRN_TURN_FREE);
    assert_int_equal(crn_agent_look(&a, S, u).state, CRN_TURN_CANCELED);
    r = report(&a, S);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.ask[0].state, CRN_BP_LOST);
}

static void tickets_are_limited(void **state)
{
    struct crn_turn_ask what = {.kind = CRN_IO_CHECKPOINT};
    struct crn_agent a;
    uint32_t t = 0;
    int i;

    (void)state;
    crn_agent_init(&a, &config, 0);
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        t = ask(&a, 0);
    assert_int_equal(crn_agent_ask(&a, 0, &what, &t, NULL), CAIRN_ELIMIT);
    crn_agent_return(&a, 0, t);
    (void)ask(&a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_goes_returns),
        cmocka_unit_test(a_waiting_request_is_described_anew),
        cmocka_unit_test(goes_alone_without_a_broker),
        cmocka_unit_test(only_an_answer_makes_a_broker),
        cmocka_unit_test(a_broker_that_hangs_is_left),
        cmocka_unit_test(waits_no_longer_than_agreed),
        cmocka_unit_test(old_statuses_are_ignored),
        cmocka_unit_test(taken_and_canceled),
        cmocka_unit_test(tickets_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
