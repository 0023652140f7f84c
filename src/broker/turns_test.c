/* SPDX-License-Identifier: BSD-3-Clause */
/* The core, event by event: which requests are granted, what jobs are told, what is revoked and
 * when. */
#include "broker/test_turns.h"

#include "base/rng.h"

static void one_after_the_other(void **state)
{
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    ask_one(&w, 2, 1);
    assert_verdict(&w, 0, CRN_BP_GO);
    assert_verdict(&w, 1, CRN_BP_WAIT);
    assert_int_equal(w.last[2].verdict[0].place, 2);
    assert_int_equal(w.last[2].verdict[0].why, CRN_BP_WHY_TURN);
    say(&w, 0, NULL, 0);
    assert_int_equal(w.last[0].n, 0);
    assert_verdict(&w, 1, CRN_BP_GO);
    say(&w, 1, NULL, 0);
    assert_verdict(&w, 2, CRN_BP_GO);
    turns_close_world(&w);
}

static void as_many_as_there_are_slots(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    uint32_t i, gone = 0;

    (void)state;
    token.slots = 3;
    turns_open_world(&w, &token, 1);
    for (i = 0; i < 6; i++)
        ask_one(&w, i, 1);
    for (i = 0; i < 6; i++)
        gone += w.last[i].verdict[0].code == CRN_BP_GO;
    assert_int_equal(gone, 3);
    turns_close_world(&w);
}

static void oblivious_gives_to_all(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    uint32_t i;

    (void)state;
    token.policy = &crn_policy_oblivious;
    turns_open_world(&w, &token, 1);
    for (i = 0; i < 6; i++) {
        ask_one(&w, i, 1);
        assert_verdict(&w, i, CRN_BP_GO);
    }
    turns_close_world(&w);
}

/* Set-10: one of each set at a time, whatever the slots; within a set first come, first served. */
static void sets_go_side_by_side(void **state)
{
    static const uint64_t period_s[] = {100, 120, 1000, 2500};
    static const uint8_t code[] = {CRN_BP_GO, CRN_BP_WAIT, CRN_BP_GO, CRN_BP_WAIT};
    struct crn_turns_token token = one;
    struct turns_world w;
    uint32_t i;

    (void)state;
    token.policy = &crn_policy_set10;
    turns_open_world(&w, &token, 1);
    for (i = 0; i < 4; i++) {
        struct crn_bp_ask ask = waiting(1, 1000);

        ask.period_ns = period_s[i] * (uint64_t)S;
        ask.duration_ns = (4 + i) * (uint64_t)S;
        w.now += S / 10;
        say(&w, i, &ask, 1);
        assert_verdict(&w, i, code[i]);
    }
    crn_turns_tick(w.turns, w.now);
    say(&w, 2, NULL, 0);
    assert_verdict(&w, 3, CRN_BP_GO);
    assert_int_equal(w.last[1].verdict[0].code, CRN_BP_WAIT);
    say(&w, 0, NULL, 0);
    assert_verdict(&w, 1, CRN_BP_GO);
    turns_close_world(&w);
}

static void tokens_are_independent(void **state)
{
    struct crn_turns_token token[2] = {one, one};
    struct crn_bp_ask ask = waiting(1, 10);
    struct turns_world w;

    (void)state;
    (void)snprintf(token[1].name, sizeof(token[1].name), "home");
    turns_open_world(&w, token, 2);
    ask_one(&w, 0, 1);
    (void)snprintf(ask.token, sizeof(ask.token), "home");
    say(&w, 1, &ask, 1);
    assert_verdict(&w, 0, CRN_BP_GO);
    assert_verdict(&w, 1, CRN_BP_GO);
    (void)snprintf(ask.token, sizeof(ask.token), "nowhere");
    say(&w, 2, &ask, 1);
    assert_verdict(&w, 2, CRN_BP_REFUSED);
    assert_int_equal(w.last[2].verdict[0].why, CRN_BP_WHY_TOKEN);
    turns_close_world(&w);
}

/* A request of so many bytes that takes so many seconds. */
static void ask_rate(struct turns_world *w, uint32_t c, uint64_t bytes, uint64_t seconds)
{
    struct crn_bp_ask ask = waiting(1, bytes);

    ask.duration_ns = seconds * S;
    say(w, c, &ask, 1);
}

/* The holders' expected rates fit the budget; the next in line waits for room, and nothing
 * overtakes it. */
static void a_budget_is_shared(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;

    (void)state;
    token.slots = 8;
    token.bandwidth = 0;
    token.budget = 1000;
    turns_open_world(&w, &token, 1);
    ask_rate(&w, 0, 6000, 10); /* 600 bytes/s */
    ask_rate(&w, 1, 6000, 20); /* 300 */
    ask_rate(&w, 2, 6000, 30); /* 200: over 1000 */
    ask_rate(&w, 3, 1000, 20); /* 50: fits, but is later in the queue */
    assert_verdict(&w, 0, CRN_BP_GO);
    assert_verdict(&w, 1, CRN_BP_GO);
    assert_verdict(&w, 2, CRN_BP_WAIT);
    assert_verdict(&w, 3, CRN_BP_WAIT);
    crn_turns_tick(w.turns, w.now);
    ask_one(&w, 4, 1); /* unknown: all of the budget */
    assert_verdict(&w, 4, CRN_BP_WAIT);
    assert_int_equal(w.last[4].verdict[0].place, 3);
    w.now += S;
    ask_rate(&w, 2, 6000, 30);
    ask_rate(&w, 3, 1000, 20);
    assert_int_equal(w.last[2].verdict[0].start_ns, 9 * S); /* when 0 ends */
    assert_int_equal(w.last[3].verdict[0].start_ns, 9 * S);
    say(&w, 1, NULL, 0);
    assert_verdict(&w, 2, CRN_BP_GO);
    assert_verdict(&w, 3, CRN_BP_GO);
    say(&w, 0, NULL, 0);
    say(&w, 2, NULL, 0);
    assert_verdict(&w, 4, CRN_BP_WAIT);
    say(&w, 3, NULL, 0);
    assert_verdict(&w, 4, CRN_BP_GO); /* alone */
    turns_close_world(&w);
}

/* A job that needs more than the whole budget goes alone, and slots bound it, too. */
static void a_budget_has_room_for_one(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    uint32_t i, gone = 0;

    (void)state;
    token.slots = 2;
    token.bandwidth = 0;
    token.budget = 1000;
    turns_open_world(&w, &token, 1);
    ask_rate(&w, 0, 50000, 1);
    assert_verdict(&w, 0, CRN_BP_GO);
    ask_rate(&w, 1, 1000, 1000);
    assert_verdict(&w, 1, CRN_BP_WAIT);
    say(&w, 0, NULL, 0);
    for (i = 2; i < 6; i++)
        ask_rate(&w, i, 1000, 1000);
    for (i = 1; i < 6; i++)
        gone += w.last[i].verdict[0].code == CRN_BP_GO;
    assert_int_equal(gone, 2);
    turns_close_world(&w);
}

/* The measured rate of a job takes precedence over the claimed one. */
static void a_budget_counts_measured_rates(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    struct crn_bp_ask ask = in_state(1, CRN_BP_HOLDING, EPOCH);

    (void)state;
    token.slots = 8;
    token.bandwidth = 0;
    token.budget = 1000;
    turns_open_world(&w, &token, 1);
    ask_rate(&w, 0, 9000, 9000); /* says 1 byte/s */
    w.now += 10 * S;
    ask.bytes = ask.done = 9000;
    say(&w, 0, &ask, 1); /* and was 900 */
    say(&w, 0, NULL, 0);
    ask = waiting(2, 9000);
    ask.duration_ns = 9000 * (uint64_t)S;
    say(&w, 0, &ask, 1);
    assert_verdict(&w, 0, CRN_BP_GO);
    ask_rate(&w, 1, 2000, 10);
    assert_verdict(&w, 1, CRN_BP_WAIT);
    turns_close_world(&w);
}

/* A job that names no token but its directory takes turns on that file system. */
static void a_path_finds_its_token(void **state)
{
    static const struct {
        const char *path, *token;
    } cases[] = {{"/lustre/me/run", "scratch"},
                 {"/lustre", "scratch"},
                 {"/lustre2/me", "home"},
                 {"/gpfs/fast/x", "fast"},
                 {"/gpfs/x", "home"},
                 {"/nowhere", "home"},
                 {"", "home"}};
    struct crn_turns_token token[3] = {one, one, one};
    struct turns_world w;
    size_t i;

    (void)state;
    (void)snprintf(token[0].name, sizeof(token[0].name), "home");
    (void)snprintf(token[1].paths, sizeof(token[1].paths), "/lustre/, /gone");
    (void)snprintf(token[2].name, sizeof(token[2].name), "fast");
    (void)snprintf(token[2].paths, sizeof(token[2].paths), "/gpfs/fast");
    turns_open_world(&w, token, 3);
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_bp_ask ask = waiting((uint32_t)i + 1, 10);
        struct crn_turns_totals totals;
        size_t k, found = 0;

        (void)snprintf(ask.token, sizeof(ask.token), "%s", cases[i].path);
        say(&w, 0, &ask, 1);
        for (k = 0; k < 3; k++) {
            crn_turns_totals(w.turns, w.now, k, &totals);
            if (totals.row.holders > 0)
                found = k;
        }
        assert_string_equal(token[found].name, cases[i].token);
    }
    turns_close_world(&w);
}

static void the_silent_lose_their_token(void **state)
{
    struct turns_world w;
    int64_t s;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    for (s = 0; s < 40; s += 5) { /* 1 reports, 0 hangs */
        pass(&w, 5 * S);
        ask_one(&w, 1, 1);
        if (s < 20)
            assert_verdict(&w, 1, CRN_BP_WAIT);
    }
    assert_verdict(&w, 1, CRN_BP_GO);
    keep(&w, 0, 1, 0); /* wakes up */
    assert_verdict(&w, 0, CRN_BP_TAKEN);
    assert_int_equal(w.last[0].verdict[0].why, CRN_BP_WHY_LEASE);
    turns_close_world(&w);
}

static void the_cut_off_have_a_grace(void **state)
{
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    crn_turns_closed(w.turns, w.now, 0);
    pass(&w, 8 * S);
    assert_verdict(&w, 1, CRN_BP_WAIT);
    crn_turns_opened(w.turns, 0, "alice", 0);
    keep(&w, 0, 1, 5); /* back in time */
    assert_verdict(&w, 0, CRN_BP_GO);
    crn_turns_closed(w.turns, w.now, 0);
    pass(&w, 12 * S);
    assert_verdict(&w, 1, CRN_BP_GO);
    turns_close_world(&w);
}

static void who_waits_keeps_its_place_for_a_while(void **state)
{
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    w.now += S;
    ask_one(&w, 2, 1);
    crn_turns_closed(w.turns, w.now, 1);
    w.now += S;
    say(&w, 0, NULL, 0);
    assert_verdict(&w, 2, CRN_BP_GO); /* 1 is not connected */
    crn_turns_opened(w.turns, 1, "bob", 0);
    ask_one(&w, 4, 1);
    ask_one(&w, 1, 1);
    say(&w, 2, NULL, 0);
    assert_verdict(&w, 1, CRN_BP_GO); /* first come */
    assert_verdict(&w, 4, CRN_BP_WAIT);
    turns_close_world(&w);
}

static void a_holder_must_move(void **state)
{
    struct turns_world w;
    int i;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    for (i = 0; i < 15; i++) { /* progress: 150 s are fine */
        pass(&w, 10 * S);
        keep(&w, 0, 1, (uint64_t)i + 1);
        assert_verdict(&w, 0, CRN_BP_GO);
    }
    for (i = 0; i < 11; i++) {
        pass(&w, 10 * S);
        keep(&w, 0, 1, 15);
    }
    assert_verdict(&w, 0, CRN_BP_TAKEN);
    assert_int_equal(w.last[0].verdict[0].why, CRN_BP_WHY_STALL);
    turns_close_world(&w);
}

static void a_quiet_holder_is_no_stall(void **state)
{
    struct crn_bp_ask ask = waiting(1, 1000);
    struct turns_world w;
    int i;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask.done = CRN_BP_UNKNOWN;
    say(&w, 0, &ask, 1);
    for (i = 0; i < 50; i++) {
        pass(&w, 10 * S);
        keep(&w, 0, 1, CRN_BP_UNKNOWN);
        assert_verdict(&w, 0, CRN_BP_GO);
    }
    turns_close_world(&w);
}

static void nobody_holds_for_ever(void **state)
{
    struct turns_world w;
    int i;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    for (i = 0; i < 102; i++) {
        pass(&w, 10 * S);
        keep(&w, 0, 1, (uint64_t)i + 1);
    }
    assert_verdict(&w, 0, CRN_BP_TAKEN);
    assert_int_equal(w.last[0].verdict[0].why, CRN_BP_WHY_LIMIT);
    turns_close_world(&w);
}

static void a_new_broker_learns_who_holds(void **state)
{
    struct crn_bp_ask held = in_state(4, CRN_BP_HOLDING, EPOCH - 1);
    struct crn_bp_ask alone = in_state(9, CRN_BP_ALONE, 0);
    struct crn_bp_ask wait = waiting(3, 1000);
    struct crn_turns_totals totals;
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    wait.age_ns = 50 * S;
    say(&w, 2, &held, 1);
    say(&w, 3, &alone, 1);
    say(&w, 4, &wait, 1);
    assert_verdict(&w, 2, CRN_BP_GO);
    assert_verdict(&w, 3, CRN_BP_GO);
    crn_turns_totals(w.turns, w.now, 0, &totals);
    assert_int_equal(totals.row.holders, 2); /* one more than there are slots */
    assert_int_equal(totals.row.oldest_ns, 50 * S);
    say(&w, 2, NULL, 0);
    assert_verdict(&w, 4, CRN_BP_WAIT);
    say(&w, 3, NULL, 0);
    assert_verdict(&w, 4, CRN_BP_GO);
    turns_close_world(&w);
}

static void settling_gives_nothing(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turns_config cfg = {.token = &one,
                                   .ntokens = 1,
                                   .epoch = EPOCH,
                                   .lease_ns = 300 * S,
                                   .grace_ns = 10 * S,
                                   .settle_ns = 15 * S,
                                   .max_conns = 4,
                                   .max_jobs = 4,
                                   .max_user_jobs = 4};
    struct turns_world w = {.now = 5 * S};

    (void)state;
    assert_ok(crn_turns_new(&cfg, w.now, &w.turns, ei));
    crn_turns_opened(w.turns, 0, "alice", 0);
    ask_one(&w, 0, 1);
    assert_verdict(&w, 0, CRN_BP_WAIT);
    assert_int_equal(w.last[0].verdict[0].why, CRN_BP_WHY_SETTLING);
    pass(&w, 14 * S);
    assert_verdict(&w, 0, CRN_BP_WAIT);
    pass(&w, 2 * S);
    assert_verdict(&w, 0, CRN_BP_GO);
    turns_close_world(&w);
}

static void old_and_repeated_reports_change_nothing(void **state)
{
    struct turns_world w;
    uint64_t newest;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    say(&w, 0, NULL, 0);
    newest = w.number;
    ask_one(&w, 1, 1);
    w.number = newest - 2;
    ask_one(&w, 0, 1); /* stale: from before the return */
    assert_int_equal(w.last[0].n, 0);
    w.number = 100;
    say(&w, 1, NULL, 0);
    turns_close_world(&w);
}

static void going_alone_counts(void **state)
{
    struct crn_bp_ask alone = in_state(1, CRN_BP_ALONE, 0);
    struct turns_world w;

    (void)state;
    turns_open_world(&w, &one, 1);
    ask_one(&w, 0, 1);
    ask_one(&w, 1, 1);
    ask_one(&w, 2, 1);
    say(&w, 1, &alone, 1); /* gave up waiting */
    assert_verdict(&w, 1, CRN_BP_GO);
    say(&w, 0, NULL, 0);
    assert_verdict(&w, 2, CRN_BP_WAIT); /* 1 is still writing */
    say(&w, 1, NULL, 0);
    assert_verdict(&w, 2, CRN_BP_GO);
    turns_close_world(&w);
}

/* A policy that always prefers the newest would starve the first. */
static void last_come(const struct crn_io_queue *q, double *score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        score[i] = -q->req[i].since_s;
}

static void even_an_unfair_policy_starves_nobody(void **state)
{
    static const struct crn_policy unfair = {
        .name = "unfair", .is_exclusive = 1, .score = last_come};
    struct crn_turns_token token = one;
    struct turns_world w;
    uint32_t seq;
    int64_t begin;

    (void)state;
    token.policy = &unfair;
    turns_open_world(&w, &token, 1);
    ask_one(&w, 0, 1);
    w.now += S;
    ask_one(&w, 1, 1);
    begin = w.now;
    for (seq = 2; w.last[1].verdict[0].code == CRN_BP_WAIT; seq++) {
        struct crn_bp_ask next = waiting(seq, 1000);

        assert_true(w.now - begin < 6000 * S);
        w.now += S;
        say(&w, 2 + 2 * (seq % 2), &next, 1); /* new requests all the time */
        w.now += 5 * S;
        ask_one(&w, 1, 1);
        say(&w, seq == 2 ? 0 : 2 + 2 * ((seq - 1) % 2), NULL, 0);
    }
    assert_verdict(&w, 1, CRN_BP_GO);
    assert_true(w.now - begin > 4000 * S);
    turns_close_world(&w);
}

/* Any sequence of events keeps the invariants, and grants never exceed the slots. */
static void random_events_keep_the_books(void **state)
{
    struct crn_turns_token token[2] = {one, one};
    unsigned char is_open[CONNS];
    struct crn_rng rng;
    struct turns_world w;
    unsigned round;

    (void)state;
    crn_rng_seed(&rng, 11);
    token[1].slots = 2;
    (void)snprintf(token[1].name, sizeof(token[1].name), "home");
    turns_open_world(&w, token, 2);
    memset(is_open, 1, sizeof(is_open));
    for (round = 0; round < 20000; round++) {
        uint32_t c = (uint32_t)crn_rng_below(&rng, CONNS);
        struct crn_bp_report report = {.number = ++w.number, .nodes = 1};
        struct crn_bp_status status;
        uint32_t conn;

        w.now += (int64_t)crn_rng_below(&rng, 2 * S);
        if (!is_open[c]) {
            crn_turns_opened(w.turns, c, c % 2 == 0 ? "alice" : "bob", 0);
            is_open[c] = 1;
        } else if (crn_rng_below(&rng, 10) == 0) {
            crn_turns_closed(w.turns, w.now, c);
            is_open[c] = 0;
        } else {
            report.job[0] = (uint8_t)(c / 2);
            report.n = (uint16_t)crn_rng_below(&rng, CRN_BP_MAX_ASKS + 1);
            for (uint16_t i = 0; i < report.n; i++) {
                report.ask[i] = in_state((uint32_t)crn_rng_below(&rng, 12),
                                         (enum crn_bp_state)(1 + crn_rng_below(&rng, 4)),
                                         EPOCH - crn_rng_below(&rng, 2));
                if (crn_rng_below(&rng, 2) == 0)
                    (void)snprintf(report.ask[i].token, CRN_BP_NAME, "home");
            }
            (void)!crn_turns_report(w.turns, w.now, c, &report, NULL);
        }
        if (crn_rng_below(&rng, 3) == 0)
            crn_turns_tick(w.turns, w.now);
        while (crn_turns_next(w.turns, w.now, &conn, &status))
            assert_in_range(status.n, 0, CRN_BP_MAX_ASKS);
        assert_null(crn_turns_check(w.turns));
    }
    turns_close_world(&w);
}

/* Claims during the wait count: the short transfer goes first, by its latest claim. */
static void a_waiting_request_is_read_anew(void **state)
{
    struct crn_turns_token token = one;
    struct turns_world w;
    struct crn_bp_ask ask;

    (void)state;
    token.policy = crn_policy_find("least-waste");
    turns_open_world(&w, &token, 1);
    ask_one(&w, 0, 1);
    ask = waiting(1, 5000);
    say(&w, 1, &ask, 1);
    ask.bytes = 4000;
    say(&w, 2, &ask, 1);
    ask.bytes = 9000; /* it has grown */
    say(&w, 2, &ask, 1);
    pass(&w, S);
    say(&w, 0, NULL, 0);
    assert_verdict(&w, 1, CRN_BP_GO);
    assert_verdict(&w, 2, CRN_BP_WAIT);
    turns_close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(a_waiting_request_is_read_anew),
        cmocka_unit_test(as_many_as_there_are_slots),
        cmocka_unit_test(oblivious_gives_to_all),
        cmocka_unit_test(sets_go_side_by_side),
        cmocka_unit_test(tokens_are_independent),
        cmocka_unit_test(a_budget_is_shared),
        cmocka_unit_test(a_budget_has_room_for_one),
        cmocka_unit_test(a_budget_counts_measured_rates),
        cmocka_unit_test(a_path_finds_its_token),
        cmocka_unit_test(the_silent_lose_their_token),
        cmocka_unit_test(the_cut_off_have_a_grace),
        cmocka_unit_test(who_waits_keeps_its_place_for_a_while),
        cmocka_unit_test(a_holder_must_move),
        cmocka_unit_test(a_quiet_holder_is_no_stall),
        cmocka_unit_test(nobody_holds_for_ever),
        cmocka_unit_test(a_new_broker_learns_who_holds),
        cmocka_unit_test(settling_gives_nothing),
        cmocka_unit_test(old_and_repeated_reports_change_nothing),
        cmocka_unit_test(going_alone_counts),
        cmocka_unit_test(even_an_unfair_policy_starves_nobody),
        cmocka_unit_test(random_events_keep_the_books),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
