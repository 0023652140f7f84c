/* SPDX-License-Identifier: BSD-3-Clause */
#include "broker/test_turns.h"

static void on_told(void *arg, const struct crn_turns_decision *d)
{
    struct turns_world *w = arg;

    if (w->ntold == 64)
        return;
    (void)snprintf(w->told_job[w->ntold], CRN_BP_NAME, "%s", d->job);
    w->told[w->ntold++] = *d;
}

void turns_open_world(struct turns_world *w, const struct crn_turns_token *token, size_t ntokens)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_turns_config cfg = {
        .token = token,
        .ntokens = ntokens,
        .epoch = EPOCH,
        .lease_ns = 30 * S,
        .grace_ns = 10 * S,
        .settle_ns = 0,
        .stall_ns = 100 * S,
        .hold_ns = 1000 * S,
        .starve_ns = 5000 * S,
        .max_conns = CONNS,
        .max_jobs = 12,
        .max_user_jobs = 8,
        .decided = on_told,
        .decided_arg = w,
    };
    uint32_t i;

    memset(w, 0, sizeof(*w));
    w->now = 1000 * S;
    assert_ok(crn_turns_new(&cfg, w->now, &w->turns, ei));
    for (i = 0; i < CONNS; i++)
        crn_turns_opened(w->turns, i, i == 15 ? "root" : i % 2 == 0 ? "alice" : "bob", i == 15);
}

void pump(struct turns_world *w)
{
    struct crn_bp_status status;
    uint32_t conn;

    while (crn_turns_next(w->turns, w->now, &conn, &status))
        w->last[conn] = status;
    assert_null(crn_turns_check(w->turns));
}

void turns_close_world(struct turns_world *w)
{
    pump(w);
    crn_turns_free(w->turns);
}

void pass(struct turns_world *w, int64_t ns)
{
    int64_t end = w->now + ns;

    for (; w->now < end; w->now += S) {
        crn_turns_tick(w->turns, w->now);
        pump(w);
    }
    w->now = end;
}

struct crn_bp_ask waiting(uint32_t seq, uint64_t bytes)
{
    return (struct crn_bp_ask){
        .seq = seq, .kind = CRN_IO_CHECKPOINT, .state = CRN_BP_WAITING, .bytes = bytes};
}

struct crn_bp_ask in_state(uint32_t seq, enum crn_bp_state state, uint64_t epoch)
{
    return (struct crn_bp_ask){
        .seq = seq, .kind = CRN_IO_CHECKPOINT, .state = (uint8_t)state, .epoch = epoch, .bytes = 1};
}

void say(struct turns_world *w, uint32_t c, const struct crn_bp_ask *ask, uint16_t n)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_bp_report report = {.number = ++w->number, .nodes = 1, .n = n};
    uint16_t i;

    report.job[0] = (uint8_t)(c + 1);
    (void)snprintf(report.name, sizeof(report.name), "job %u", c);
    for (i = 0; i < n; i++)
        report.ask[i] = ask[i];
    assert_ok(crn_turns_report(w->turns, w->now, c, &report, ei));
    pump(w);
}

void ask_one(struct turns_world *w, uint32_t c, uint32_t seq)
{
    struct crn_bp_ask ask = waiting(seq, 1000);

    say(w, c, &ask, 1);
}

void keep(struct turns_world *w, uint32_t c, uint32_t seq, uint64_t done)
{
    struct crn_bp_ask ask = in_state(seq, CRN_BP_HOLDING, EPOCH);

    ask.done = done;
    say(w, c, &ask, 1);
}
