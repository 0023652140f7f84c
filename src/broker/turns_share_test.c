/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims of jobs and shares of users are bounded by the broker's observations. */
#include "broker/test_turns.h"

#include "broker/turns_priv.h"

static void open_with(struct turns_world *w, struct crn_turns_config *cfg,
                      const struct crn_turns_token *token)
{
    struct crn_errinfo info = {0}, *ei = &info;
    uint32_t i;

    memset(w, 0, sizeof(*w));
    w->now = 1000 * S;
    cfg->token = token;
    cfg->ntokens = 1;
    cfg->epoch = EPOCH;
    cfg->lease_ns = 1000 * S;
    cfg->grace_ns = 10 * S;
    cfg->max_conns = CONNS;
    cfg->max_jobs = 12;
    cfg->max_user_jobs = 8;
    assert_ok(crn_turns_new(cfg, w->now, &w->turns, ei));
    for (i = 0; i < CONNS; i++)
        crn_turns_opened(w->turns, i, i == 15 ? "root" : i % 2 == 0 ? "alice" : "bob", i == 15);
    w->now += 3600 * S; /* the time in which it takes the word of jobs is over */
}

static void a_job_is_no_older_than_it_is_known(void **state)
{
    struct crn_turns_config cfg = {0};
    struct crn_bp_ask liar = waiting(1, 1000);
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    pass(&w, 10 * S);
    liar.age_ns = liar.at_risk_ns = (uint64_t)5000 * S;
    say(&w, 2, &liar, 1);
    say(&w, 0, NULL, 0);
    assert_verdict(&w, 1, CRN_BP_GO); /* it came first */
    assert_verdict(&w, 2, CRN_BP_WAIT);
    turns_close_world(&w);
}

static uint64_t told_duration;
static uint32_t told_nodes;

static void keep_row(void *arg, const struct crn_bp_msg *row)
{
    (void)arg;
    if (row->type != CRN_BP_REQUEST_ROW)
        return;
    told_duration = row->u.request_row.duration_ns;
    told_nodes = row->u.request_row.nodes;
}

static void no_transfer_is_faster_than_the_file_system(void **state)
{
    struct crn_turns_config cfg = {.max_nodes = 1};
    struct crn_bp_ask liar = waiting(1, 10000); /* 10 s at 1000 bytes/s */
    struct crn_bp_query all = {.max_requests = 1};
    struct crn_bp_report report = {.number = 1000, .nodes = 1000000, .n = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    liar.duration_ns = 1;
    report.ask[0] = liar;
    assert_ok(crn_turns_report(w.turns, w.now, 0, &report, ei));
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_int_equal(told_duration, 10 * S);
    assert_int_equal(told_nodes, 1);
    turns_close_world(&w);
}

/* Measurements of the broker take precedence over claims of the job. */
static void a_measured_duration_replaces_a_claim(void **state)
{
    struct crn_turns_config cfg = {0};
    struct crn_bp_ask ask = waiting(1, 1000);
    struct crn_bp_query all = {.max_requests = 1};
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    say(&w, 0, &ask, 1);
    pass(&w, 50 * S);
    ask = in_state(1, CRN_BP_HOLDING, EPOCH);
    ask.bytes = ask.done = 1000;
    say(&w, 0, &ask, 1); /* 20 bytes/s */
    ask = waiting(2, 2000);
    ask.duration_ns = 1;
    say(&w, 0, &ask, 1);
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_int_equal(told_duration, 100 * S);
    turns_close_world(&w);
}

/* Requests of one byte, and transfers that never end, are no way to be short. */
static void a_transfer_that_fails_counts_as_long_as_it_held_the_token(void **state)
{
    struct crn_turns_config cfg = {.stall_ns = 200 * S};
    struct crn_bp_ask ask = waiting(1, 1);
    struct crn_bp_query all = {.max_requests = 1};
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    say(&w, 0, &ask, 1);
    pass(&w, 50 * S);
    ask = waiting(2, 1);
    ask.duration_ns = 1;
    say(&w, 0, &ask, 1);
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_int_equal(told_duration, 50 * S);
    pass(&w, 250 * S); /* it stalls, and is told so */
    ask.seq = 3;
    say(&w, 0, &ask, 1);
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_in_range(told_duration, 200 * S, 202 * S);
    pass(&w, 5 * S);
    keep(&w, 0, 3, 1); /* this one moves its byte */
    ask.seq = 4;
    say(&w, 0, &ask, 1);
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_int_equal(told_duration, 5 * S);
    turns_close_world(&w);
}

/* Transfers that report no bytes are measured, too. */
static void a_quiet_transfer_is_measured(void **state)
{
    struct crn_turns_config cfg = {0};
    struct crn_bp_ask ask = waiting(1, 1000);
    struct crn_bp_query all = {.max_requests = 1};
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    ask.done = CRN_BP_UNKNOWN;
    say(&w, 0, &ask, 1);
    pass(&w, 50 * S);
    ask.seq = 2;
    ask.duration_ns = 1;
    say(&w, 0, &ask, 1);
    (void)crn_turns_query(w.turns, w.now, 15, &all, keep_row, NULL);
    assert_int_equal(told_duration, 50 * S);
    turns_close_world(&w);
}

static void writing_alone_gives_no_rights(void **state)
{
    struct crn_turns_config cfg = {.alone_ns = 100 * S};
    struct crn_bp_ask alone = in_state(1, CRN_BP_ALONE, 0);
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    alone.done = CRN_BP_UNKNOWN;
    say(&w, 0, &alone, 1);
    ask_one(&w, 1, 1);
    pass(&w, 95 * S);
    assert_verdict(&w, 1, CRN_BP_WAIT);
    pass(&w, 30 * S);
    pump(&w);
    assert_verdict(&w, 1, CRN_BP_GO);
    say(&w, 1, NULL, 0);
    alone.seq = 2; /* again, and again under another job */
    say(&w, 0, &alone, 1);
    say(&w, 2, &alone, 1);
    pass(&w, 15 * S);
    ask_one(&w, 3, 1);
    assert_verdict(&w, 3, CRN_BP_GO);
    turns_close_world(&w);
}

/* Alice has three jobs that want the token all the time, bob one. */
static void many_jobs_get_no_more_than_a_share(void **state)
{
    static const uint32_t conn[4] = {0, 2, 4, 1};
    struct crn_turns_config cfg = {.user_share = 0.5};
    uint32_t seq[4] = {1, 1, 1, 1};
    struct turns_world w;
    int held[2] = {0, 0};
    uint32_t i, round;

    (void)state;
    open_with(&w, &cfg, &one);
    for (i = 0; i < 4; i++)
        ask_one(&w, conn[i], 1);
    for (round = 0; round < 60; round++) {
        pass(&w, 20 * S);
        for (i = 0; i < 4; i++) {
            if (w.last[conn[i]].verdict[0].code != CRN_BP_GO)
                continue;
            held[conn[i] % 2]++;
            ask_one(&w, conn[i], ++seq[i]); /* returned, and wanted again */
            break;
        }
    }
    assert_in_range(held[1], 25, 35);
    assert_int_equal(held[0] + held[1], 60);
    turns_close_world(&w);
}

/* Nodes of the only request. */
static uint32_t nodes_of(struct turns_world *w)
{
    struct crn_bp_query all = {.max_requests = 1};

    (void)crn_turns_query(w->turns, w->now, 15, &all, keep_row, NULL);
    return told_nodes;
}

static void the_batch_system_knows_the_nodes(void **state)
{
    struct crn_turns_config cfg = {.is_confirming = 1};
    struct crn_turns_fact fact = {.nodes = 4};
    struct crn_bp_report report = {.number = 1000, .nodes = 100, .batch = "47", .n = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    char batch[CRN_BP_NAME];
    struct turns_world w;

    (void)state;
    open_with(&w, &cfg, &one);
    report.ask[0] = waiting(1, 1000);
    assert_ok(crn_turns_report(w.turns, w.now, 0, &report, ei));
    assert_int_equal(nodes_of(&w), 1);
    assert_int_equal(crn_turns_unconfirmed(w.turns, w.now, 0, batch), 1);
    assert_string_equal(batch, "47");
    assert_int_equal(crn_turns_unconfirmed(w.turns, w.now, 0, batch), 0); /* asked once */
    crn_turns_confirm(w.turns, w.now, 0, NULL);
    assert_int_equal(crn_turns_unconfirmed(w.turns, w.now + S, 0, batch), 0);
    w.now += 100 * S;
    assert_int_equal(crn_turns_unconfirmed(w.turns, w.now, 0, batch), 1);
    crn_turns_confirm(w.turns, w.now, 0, &fact);
    assert_int_equal(nodes_of(&w), 4);
    report.number++;
    report.nodes = 3; /* it may use fewer than it has */
    assert_ok(crn_turns_report(w.turns, w.now, 0, &report, ei));
    assert_int_equal(nodes_of(&w), 3);
    assert_int_equal(crn_turns_unconfirmed(w.turns, w.now, 0, batch), 0);
    crn_turns_closed(w.turns, w.now, 0);
    crn_turns_confirm(w.turns, w.now, 0, &fact); /* too late: nothing happens */
    turns_close_world(&w);
}

/* Alice and bob, with two jobs each, share an account; the administrator's job has another one. */
static void an_account_has_one_share(void **state)
{
    static const uint32_t conn[5] = {0, 2, 1, 3, 15};
    struct crn_turns_config cfg = {.user_share = 0.5, .is_confirming = 1, .by_account = 1};
    struct crn_turns_user user[8];
    uint32_t seq[5] = {1, 1, 1, 1, 1};
    struct turns_world w;
    int held[2] = {0, 0};
    size_t n;
    uint32_t i, round;

    (void)state;
    open_with(&w, &cfg, &one);
    for (i = 0; i < 5; i++) {
        struct crn_turns_fact fact = {.nodes = 1};

        (void)snprintf(fact.account, sizeof(fact.account), "%s", i < 4 ? "physics" : "biology");
        ask_one(&w, conn[i], 1);
        crn_turns_confirm(w.turns, w.now, conn[i], &fact);
        pump(&w);
    }
    for (round = 0; round < 60; round++) {
        pass(&w, 20 * S);
        for (i = 0; i < 5; i++) {
            if (w.last[conn[i]].verdict[0].code != CRN_BP_GO)
                continue;
            held[i / 4]++;
            ask_one(&w, conn[i], ++seq[i]);
            break;
        }
    }
    assert_in_range(held[1], 25, 35);
    n = crn_turns_users(w.turns, w.now, user, 8);
    for (i = 0; i < n && strcmp(user[i].name, "@physics") != 0; i++)
        ;
    assert_true(i < n && user[i].share > 0.4 && user[i].share < 0.6);
    turns_close_world(&w);
}

static void weights_are_read(void **state)
{
    (void)state;
    assert_true(crn_share_weight("alice:4, bob:0.5", "bob") > 0.49);
    assert_true(crn_share_weight("alice:4, bob:0.5", "bob") < 0.51);
    assert_true(crn_share_weight("alice:4, bob:0.5", "alice") > 3.9);
    assert_true(crn_share_weight("alice:4", "ali") < 1.1);
    assert_true(crn_share_weight("alice:x,carl", "alice") < 1.1);
    assert_true(crn_share_weight(NULL, "alice") < 1.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_no_older_than_it_is_known),
        cmocka_unit_test(no_transfer_is_faster_than_the_file_system),
        cmocka_unit_test(a_measured_duration_replaces_a_claim),
        cmocka_unit_test(a_transfer_that_fails_counts_as_long_as_it_held_the_token),
        cmocka_unit_test(a_quiet_transfer_is_measured),
        cmocka_unit_test(writing_alone_gives_no_rights),
        cmocka_unit_test(many_jobs_get_no_more_than_a_share),
        cmocka_unit_test(the_batch_system_knows_the_nodes),
        cmocka_unit_test(an_account_has_one_share),
        cmocka_unit_test(weights_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
