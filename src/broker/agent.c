/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides when a job may start a transfer. The job waits for a grant while a broker answers. It
 * never waits for a broker that is unreachable, nor longer than max_wait. A job that starts
 * without a grant says so in its reports, so that a broker that comes back counts it among the
 * holders. */
#include "broker/agent.h"

#include <string.h>

#define JITTER_NS       10000000LL   /* between the clock readings of an owner and ours */
#define FIRST_REPORT_NS 1000000000LL /* until the broker sets the interval */

void crn_agent_init(struct crn_agent *a, const struct crn_agent_config *cfg, int64_t now_ns)
{
    memset(a, 0, sizeof(*a));
    a->cfg = *cfg;
    if (a->cfg.stuck_ns == 0)
        a->cfg.stuck_ns = a->cfg.give_up_ns;
    a->next_seq = 1;
    a->away_ns = now_ns;
    a->asking_ns = -1;
    a->report_ns = FIRST_REPORT_NS;
}

static struct crn_agent_request *agent_find(const struct crn_agent *a, uint32_t seq)
{
    size_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (a->req[i].is_open && !a->req[i].is_returned && a->req[i].seq == seq)
            return (struct crn_agent_request *)&a->req[i];
    return NULL;
}

/* Tickets. ------------------------------------------------------------------------------------- */

/* A request's times count from asked_ns, so that they grow by themselves. */
static void agent_describe(const struct crn_agent *a, struct crn_agent_request *r, int64_t now_ns,
                           const struct crn_turn_ask *ask)
{
    r->ask.bytes = ask->bytes;
    r->ask.at_risk_ns = ask->at_risk_ns - (now_ns - r->asked_ns);
    r->ask.recovery_ns = ask->recovery_ns;
    r->ask.period_ns = ask->period_ns;
    r->ask.duration_ns = ask->duration_ns;
    if (ask->duration_ns == 0 && a->rate > 0)
        r->ask.duration_ns = (int64_t)((double)ask->bytes / a->rate * 1e9);
}

cairn_err crn_agent_ask(struct crn_agent *a, int64_t now_ns, const struct crn_turn_ask *ask,
                        uint32_t *ret_ticket, struct crn_errinfo *ei)
{
    struct crn_agent_request *r;
    size_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS && a->req[i].is_open && !a->req[i].is_returned; i++)
        ;
    if (i == CRN_BP_MAX_ASKS)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "%d requests to the broker are open", CRN_BP_MAX_ASKS);
    r = &a->req[i];
    *r = (struct crn_agent_request){.is_open = 1,
                                    .state = CRN_BP_WAITING,
                                    .seq = a->next_seq++,
                                    .ask = *ask,
                                    .asked_ns = now_ns - ask->age_ns,
                                    .start_ns = -1};
    agent_describe(a, r, now_ns, ask);
    a->is_dirty = 1;
    *ret_ticket = r->seq;
    crn_agent_tick(a, now_ns); /* do not wait again for a broker known to be away */
    return CAIRN_OK;
}

void crn_agent_update(struct crn_agent *a, int64_t now_ns, uint32_t ticket,
                      const struct crn_turn_ask *ask)
{
    struct crn_agent_request *r = agent_find(a, ticket);

    if (r == NULL || r->state != CRN_BP_WAITING)
        return;
    a->is_dirty |= r->ask.bytes != ask->bytes || r->ask.period_ns != ask->period_ns ||
                   r->ask.recovery_ns != ask->recovery_ns ||
                   ask->at_risk_ns < r->ask.at_risk_ns + (now_ns - r->asked_ns) - JITTER_NS;
    agent_describe(a, r, now_ns, ask);
}

static void agent_go(struct crn_agent *a, struct crn_agent_request *r, int64_t now_ns,
                     enum crn_bp_state state, uint8_t why)
{
    if (r->state == CRN_BP_WAITING)
        r->begun_ns = now_ns;
    r->state = (uint8_t)state;
    r->why = why;
    a->is_dirty = 1;
}

/* Estimates the bandwidth from a transfer that had the file system to itself. */
static void learn_rate(struct crn_agent *a, const struct crn_agent_request *r, int64_t now_ns)
{
    uint64_t done = r->ask.is_quiet ? r->ask.bytes : r->done;
    int64_t took = now_ns - r->begun_ns;
    double rate;

    if (r->state != CRN_BP_HOLDING || done == 0 || took <= 0)
        return;
    rate = (double)done / ((double)took * 1e-9);
    a->rate = a->rate > 0 ? 0.5 * (a->rate + rate) : rate;
}

void crn_agent_return(struct crn_agent *a, int64_t now_ns, uint32_t ticket)
{
    struct crn_agent_request *r = agent_find(a, ticket);

    if (r == NULL)
        return;
    learn_rate(a, r, now_ns);
    /* The broker measures the transfer, so it has to know that all bytes were moved. */
    r->is_returned = a->is_online && r->state == CRN_BP_HOLDING && r->done > r->told;
    r->is_open = r->is_returned;
    a->is_dirty = 1;
}

void crn_agent_progress(struct crn_agent *a, uint32_t ticket, uint64_t bytes_done)
{
    struct crn_agent_request *r = agent_find(a, ticket);

    if (r != NULL && bytes_done > r->done)
        r->done = bytes_done;
}

static enum crn_turn_state shown_state(const struct crn_agent_request *r)
{
    if (r->is_canceled)
        return CRN_TURN_CANCELED;
    if (r->state == CRN_BP_WAITING)
        return CRN_TURN_WAITING;
    return r->state == CRN_BP_HOLDING ? CRN_TURN_GRANTED : CRN_TURN_FREE;
}

struct crn_turn crn_agent_look(const struct crn_agent *a, int64_t now_ns, uint32_t ticket)
{
    const struct crn_agent_request *r = agent_find(a, ticket);
    struct crn_turn turn = {.state = CRN_TURN_CANCELED, .start_ns = -1, .why = "not open"};

    if (r == NULL)
        return turn;
    turn.state = shown_state(r);
    turn.why = r->why == CRN_BP_WHY_AWAY ? "no broker" : crn_bp_why_text(r->why);
    turn.waited_ns = (r->state == CRN_BP_WAITING ? now_ns : r->begun_ns) - r->asked_ns;
    if (turn.state == CRN_TURN_WAITING) {
        turn.place = r->place;
        if (r->start_ns >= 0)
            turn.start_ns = r->start_ns > now_ns ? r->start_ns - now_ns : 0;
    }
    return turn;
}

/* The connection. ------------------------------------------------------------------------------ */

void crn_agent_online(struct crn_agent *a, const struct crn_bp_welcome *welcome)
{
    a->is_online = 1;
    a->is_dirty = 1; /* a new connection starts with a report */
    a->epoch = welcome->epoch;
    a->status = 0;
    a->asking_ns = -1;
    if (welcome->report_ns > 0 && welcome->report_ns < (uint64_t)INT64_MAX / 4)
        a->report_ns = (int64_t)welcome->report_ns;
}

void crn_agent_offline(struct crn_agent *a, int64_t now_ns)
{
    /* Only an answer ends the absence: a broker that accepts a login and hangs up does not
     * count. */
    if (a->is_online && a->away_ns < 0)
        a->away_ns = a->asking_ns >= 0 ? a->asking_ns : now_ns;
    a->is_online = 0;
    a->asking_ns = -1;
}

static void read_verdict(struct crn_agent *a, int64_t now_ns, struct crn_agent_request *r,
                         const struct crn_bp_verdict *v)
{
    switch (v->code) {
    case CRN_BP_WAIT:
        if (r->state != CRN_BP_WAITING)
            return;
        r->why = v->why;
        r->place = v->place;
        r->start_ns = v->start_ns > INT64_MAX / 4 ? -1 : now_ns + (int64_t)v->start_ns;
        return;
    case CRN_BP_GO:
        if (r->state != CRN_BP_WAITING)
            return;
        agent_go(a, r, now_ns, CRN_BP_HOLDING, CRN_BP_WHY_NONE);
        r->epoch = a->epoch;
        return;
    case CRN_BP_CANCELED:
        if (r->state == CRN_BP_WAITING)
            r->is_canceled = 1;
        a->is_dirty |= r->is_canceled; /* when no longer listed, the broker can forget it */
        r->why = v->why;
        return;
    default: /* TAKEN, REFUSED */
        if (r->state != CRN_BP_LOST)
            agent_go(a, r, now_ns, CRN_BP_LOST, v->why);
        return;
    }
}

void crn_agent_status(struct crn_agent *a, int64_t now_ns, const struct crn_bp_status *status)
{
    uint16_t i;

    if (!a->is_online || status->number <= a->status)
        return; /* late or repeated */
    a->status = status->number;
    a->away_ns = -1;
    if (status->report > a->answered) {
        a->answered = status->report;
        a->asking_ns = a->answered >= a->number ? -1 : now_ns;
    }
    for (i = 0; i < status->n; i++) {
        struct crn_agent_request *r = agent_find(a, status->verdict[i].seq);

        if (r != NULL)
            read_verdict(a, now_ns, r, &status->verdict[i]);
    }
}

/* Time. ---------------------------------------------------------------------------------------- */

/* When a waiting request starts without a grant, as things stand. */
static int64_t patience_ends(const struct crn_agent *a, const struct crn_agent_request *r)
{
    int64_t end = INT64_MAX;

    if (a->away_ns >= 0)
        end = a->away_ns + a->cfg.give_up_ns;
    if (a->cfg.max_wait_ns > 0 && r->asked_ns + a->cfg.max_wait_ns < end)
        end = r->asked_ns + a->cfg.max_wait_ns;
    return end;
}

void crn_agent_tick(struct crn_agent *a, int64_t now_ns)
{
    size_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++) {
        struct crn_agent_request *r = &a->req[i];

        if (!r->is_open || r->is_canceled || r->state != CRN_BP_WAITING)
            continue;
        if (now_ns >= patience_ends(a, r))
            agent_go(a, r, now_ns, CRN_BP_ALONE,
                     a->away_ns >= 0 ? CRN_BP_WHY_AWAY : CRN_BP_WHY_LIMIT);
    }
}

static int has_open(const struct crn_agent *a)
{
    size_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (a->req[i].is_open && !a->req[i].is_canceled)
            return 1;
    return 0;
}

static int64_t report_due(const struct crn_agent *a)
{
    if (!a->is_online)
        return INT64_MAX;
    if (a->is_dirty)
        return INT64_MIN;
    if (has_open(a) || a->answered < a->number)
        return a->sent_ns + a->report_ns;
    return INT64_MAX;
}

static uint64_t agent_age(int64_t since_ns, int64_t now_ns)
{
    return now_ns > since_ns ? (uint64_t)(now_ns - since_ns) : 0;
}

static void fill_ask(const struct crn_agent_request *r, int64_t now_ns, struct crn_bp_ask *ask)
{
    memset(ask, 0, sizeof(*ask));
    ask->seq = r->seq;
    memcpy(ask->token, r->ask.token, sizeof(ask->token));
    ask->kind = (uint8_t)r->ask.kind;
    ask->state = r->state;
    ask->epoch = r->epoch;
    ask->age_ns = agent_age(r->asked_ns, now_ns);
    ask->held_ns = r->state == CRN_BP_WAITING ? 0 : agent_age(r->begun_ns, now_ns);
    ask->bytes = r->ask.bytes;
    ask->done = r->ask.is_quiet ? CRN_BP_UNKNOWN : r->done;
    ask->duration_ns = (uint64_t)r->ask.duration_ns;
    ask->at_risk_ns = agent_age(r->asked_ns - r->ask.at_risk_ns, now_ns);
    ask->recovery_ns = (uint64_t)r->ask.recovery_ns;
    ask->period_ns = (uint64_t)r->ask.period_ns;
}

int crn_agent_report(struct crn_agent *a, int64_t now_ns, struct crn_bp_report *ret)
{
    size_t i;

    if (now_ns < report_due(a))
        return 0;
    memcpy(ret->job, a->cfg.job, sizeof(ret->job));
    memcpy(ret->name, a->cfg.name, sizeof(ret->name));
    memcpy(ret->batch, a->cfg.batch, sizeof(ret->batch));
    ret->nodes = a->cfg.nodes;
    ret->number = ++a->number;
    ret->n = 0;
    a->is_dirty = 0;
    for (i = 0; i < CRN_BP_MAX_ASKS; i++) {
        struct crn_agent_request *r = &a->req[i];

        if (!r->is_open || r->is_canceled)
            continue;
        fill_ask(r, now_ns, &ret->ask[ret->n++]);
        r->told = r->done;
        r->is_open = !r->is_returned;
        a->is_dirty |= r->is_returned; /* the report without it gives the token back */
    }
    a->sent_ns = now_ns;
    if (a->asking_ns < 0)
        a->asking_ns = now_ns;
    return 1;
}

int crn_agent_is_stuck(const struct crn_agent *a, int64_t now_ns)
{
    return a->is_online && a->asking_ns >= 0 && now_ns >= a->asking_ns + a->cfg.stuck_ns;
}

int64_t crn_agent_deadline(const struct crn_agent *a)
{
    int64_t at = report_due(a);
    size_t i;

    if (a->is_online && a->asking_ns >= 0 && a->asking_ns + a->cfg.stuck_ns < at)
        at = a->asking_ns + a->cfg.stuck_ns;
    for (i = 0; i < CRN_BP_MAX_ASKS; i++) {
        const struct crn_agent_request *r = &a->req[i];

        if (r->is_open && !r->is_canceled && r->state == CRN_BP_WAITING && patience_ends(a, r) < at)
            at = patience_ends(a, r);
    }
    return at;
}
