/* SPDX-License-Identifier: BSD-3-Clause */
/* The core and its users: what each may see and change, and how many jobs each may run. */
#include "broker/test_turns.h"

struct turns_people_test_seen {
    size_t tokens, requests;
    struct crn_bp_request_row row[32];
};

static void see(void *arg, const struct crn_bp_msg *msg)
{
    struct turns_people_test_seen *seen = arg;

    if (msg->type == CRN_BP_TOKEN_ROW)
        seen->tokens++;
    else
        seen->row[seen->requests++] = msg->u.request_row;
}

static void people_see_their_own(void **state)
{
    struct crn_bp_query query = {.max_requests = 32};
    struct crn_bp_control cancel = {.op = CRN_BP_OP_CANCEL};
    struct turns_people_test_seen root = {0}, alice = {0};
    struct turns_world w;
    uint32_t i;

    (void)state;
    turns_open_world(&w, &one, 1);
    for (i = 0; i < 5; i++) {
        ask_one(&w, i, 1);
        w.now += S;
    }
    assert_int_equal(crn_turns_query(w.turns, w.now, 15, &query, see, &root), 5);
    assert_int_equal(crn_turns_query(w.turns, w.now, 6, &query, see, &alice), 3);
    assert_int_equal(root.tokens, 1);
    assert_int_equal(alice.tokens, 1);
    for (i = 0; i < 5; i++) {
        assert_int_equal(root.row[i].place, i);
        assert_string_equal(root.row[i].user, i % 2 == 0 ? "alice" : "bob");
        if (i > 1)
            assert_int_equal(root.row[i].start_ns - root.row[i - 1].start_ns, S);
    }
    cancel.id = root.row[1].id; /* bob's */
    assert_int_equal(crn_turns_control(w.turns, w.now, 6, &cancel, NULL), CAIRN_ENOENT);
    assert_int_equal(crn_turns_control(w.turns, w.now, 3, &cancel, NULL), CAIRN_OK);
    pump(&w);
    assert_verdict(&w, 1, CRN_BP_CANCELED);
    cancel.id = root.row[0].id; /* alice's, which holds the token */
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &cancel, NULL), CAIRN_OK);
    pump(&w);
    assert_verdict(&w, 0, CRN_BP_TAKEN);
    assert_verdict(&w, 2, CRN_BP_GO);
    turns_close_world(&w);
}

static void administrators_drain_and_choose(void **state)
{
    struct crn_bp_control drain = {.op = CRN_BP_OP_DRAIN};
    struct crn_bp_control policy = {.op = CRN_BP_OP_POLICY, .argument = "least-waste"};
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    assert_int_equal(crn_turns_control(w.turns, w.now, 0, &drain, NULL), CAIRN_EPERM);
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &drain, NULL), CAIRN_OK);
    ask_one(&w, 0, 1);
    assert_verdict(&w, 0, CRN_BP_WAIT);
    assert_int_equal(w.last[0].verdict[0].why, CRN_BP_WHY_DRAIN);
    assert_true(w.last[0].verdict[0].start_ns == CRN_BP_UNKNOWN);
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &policy, NULL), CAIRN_OK);
    (void)snprintf(policy.argument, sizeof(policy.argument), "loudest");
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &policy, NULL), CAIRN_EINVAL);
    drain.op = CRN_BP_OP_RESUME;
    (void)snprintf(drain.token, sizeof(drain.token), "nowhere");
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &drain, NULL), CAIRN_ENOENT);
    (void)snprintf(drain.token, sizeof(drain.token), "scratch");
    assert_int_equal(crn_turns_control(w.turns, w.now, 15, &drain, NULL), CAIRN_OK);
    pump(&w);
    assert_verdict(&w, 0, CRN_BP_GO);
    turns_close_world(&w);
}

static void nobody_speaks_for_anothers_job(void **state)
{
    struct crn_bp_report report = {.job = {1}, .number = 1000};
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1); /* alice's job 1 holds */
    assert_int_equal(crn_turns_report(w.turns, w.now, 1, &report, NULL), CAIRN_OK);
    pump(&w); /* bob's job with the same id is a different one */
    ask_one(&w, 2, 1);
    assert_verdict(&w, 2, CRN_BP_WAIT);
    report.job[0] = 200; /* and a connection serves one job */
    assert_int_equal(crn_turns_report(w.turns, w.now, 1, &report, NULL), CAIRN_ESTATE);
    turns_close_world(&w);
}

static void jobs_are_limited(void **state)
{
    struct crn_bp_report report = {.number = 1};
    struct crn_errinfo info = {0};
    struct turns_world w;
    uint32_t i;

    (void)state;
    turns_open_world(&w, &one, 1);
    for (i = 0; i < 15; i++)
        if (i != 14)
            ask_one(&w, i % 2 == 0 && i >= 10 ? 0 : i, 1);
    report.job[0] = 99;
    crn_turns_closed(w.turns, w.now, 14);
    crn_turns_opened(w.turns, 14, "carol", 0);
    assert_int_equal(crn_turns_report(w.turns, w.now, 14, &report, &info), CAIRN_ELIMIT);
    turns_close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(people_see_their_own),
        cmocka_unit_test(administrators_drain_and_choose),
        cmocka_unit_test(nobody_speaks_for_anothers_job),
        cmocka_unit_test(jobs_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
