/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides what users see and may change. A user sees and cancels only that user's requests,
 * administrators all; everyone may see the state of a token. */
#include "broker/turns_priv.h"

#include <stdio.h>
#include <string.h>

static int may_see(const struct crn_turns *t, const struct conn *c, uint32_t rid)
{
    return c->is_admin || job_of(t, rid)->user == c->user;
}

/* Control. ------------------------------------------------------------------------------------- */

static uint32_t find_id(const struct crn_turns *t, uint64_t id)
{
    uint32_t rid, i;
    size_t k;

    for (k = 0; k < t->cfg.ntokens; k++) {
        for (rid = t->token[k].first_holder; rid != NONE; rid = request_of(t, rid)->next)
            if (request_of(t, rid)->id == id)
                return rid;
        for (i = 0; i < t->token[k].n; i++)
            if (t->token[k].queue[i].ticket == id)
                return t->token[k].queue_rid[i];
    }
    return NONE;
}

static cairn_err turns_view_cancel(struct crn_turns *t, int64_t now_ns, const struct conn *c,
                                   uint64_t id, struct crn_errinfo *ei)
{
    uint32_t rid = find_id(t, id);
    struct turns_request *r;

    if (rid == NONE || !may_see(t, c, rid))
        return crn_fail(ei, CAIRN_ENOENT, 0, "no request %llu", (unsigned long long)id);
    r = request_of(t, rid);
    if (r->state == RQ_WAITING) {
        t->token[r->token].canceled++;
        crn_turns_end(t, rid, now_ns, CRN_BP_CANCELED, CRN_BP_WHY_PERSON);
    } else {
        t->token[r->token].taken++;
        crn_turns_end(t, rid, now_ns, CRN_BP_TAKEN, CRN_BP_WHY_PERSON);
    }
    crn_turns_list_move(t, &t->dirty, rid / CRN_BP_MAX_ASKS, LINK_DIRTY);
    return CAIRN_OK;
}

static void change_token(struct token *k, const struct crn_bp_control *control,
                         const struct crn_policy *policy)
{
    if (control->op == CRN_BP_OP_POLICY)
        k->cfg.policy = policy;
    else
        k->is_draining = control->op == CRN_BP_OP_DRAIN;
    k->is_stale = 1;
}

cairn_err crn_turns_change(struct crn_turns *t, const struct crn_bp_control *control,
                           struct crn_errinfo *ei)
{
    const struct crn_policy *policy = NULL;
    size_t found = 0;
    size_t i;

    if (control->op == CRN_BP_OP_POLICY) {
        policy = crn_policy_find(control->argument);
        if (policy == NULL)
            return crn_fail(ei, CAIRN_EINVAL, 0, "no policy '%s'", control->argument);
    }
    for (i = 0; i < t->cfg.ntokens; i++) {
        if (control->token[0] != '\0' && strcmp(control->token, t->token[i].cfg.name) != 0)
            continue;
        change_token(&t->token[i], control, policy);
        found++;
    }
    if (found == 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "no token '%s'", control->token);
    return CAIRN_OK;
}

cairn_err crn_turns_control(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                            const struct crn_bp_control *control, struct crn_errinfo *ei)
{
    const struct conn *c = &t->conn[conn];
    cairn_err rc;

    if (control->op == CRN_BP_OP_CANCEL)
        rc = turns_view_cancel(t, now_ns, c, control->id, ei);
    else if (!c->is_admin)
        rc = crn_fail(ei, CAIRN_EPERM, 0, "only administrators of the broker may do this");
    else
        rc = crn_turns_change(t, control, ei);
    if (rc == CAIRN_OK)
        crn_turns_decide(t, now_ns);
    return rc;
}

/* Rows. ---------------------------------------------------------------------------------------- */

static uint64_t turns_view_age(int64_t since_ns, int64_t now_ns)
{
    return now_ns > since_ns ? (uint64_t)(now_ns - since_ns) : 0;
}

static void token_row(const struct crn_turns *t, const struct token *k, int64_t now_ns,
                      struct crn_bp_token_row *row)
{
    double oldest_s = (double)now_ns / (double)NS_PER_S;
    uint32_t i;

    memset(row, 0, sizeof(*row));
    (void)snprintf(row->token, sizeof(row->token), "%s", k->cfg.name);
    (void)snprintf(row->policy, sizeof(row->policy), "%s", k->cfg.policy->name);
    row->slots = k->cfg.slots;
    row->holders = k->holders;
    row->waiting = k->n;
    row->is_draining = k->is_draining != 0;
    row->is_settling = is_settling(t, now_ns) != 0;
    row->is_dry = k->dry != NULL;
    row->granted = k->granted;
    row->returned = k->returned;
    row->taken = k->taken;
    row->canceled = k->canceled;
    for (i = 0; i < k->n; i++)
        if (k->queue[i].since_s < oldest_s)
            oldest_s = k->queue[i].since_s;
    row->oldest_ns = (uint64_t)((double)now_ns - oldest_s * (double)NS_PER_S);
}

static void request_row(const struct crn_turns *t, uint32_t rid, int64_t now_ns,
                        struct crn_bp_request_row *row)
{
    const struct turns_request *r = request_of(t, rid);
    const struct turns_job *job = job_of(t, rid);

    memset(row, 0, sizeof(*row));
    row->id = r->id;
    (void)snprintf(row->token, sizeof(row->token), "%s", t->token[r->token].cfg.name);
    (void)snprintf(row->user, sizeof(row->user), "%s", t->user[job->user].name);
    (void)snprintf(row->job, sizeof(row->job), "%s", job->name);
    row->nodes = job->nodes;
    row->kind = r->kind;
    row->state = r->state == RQ_WAITING ? CRN_BP_WAITING : CRN_BP_HOLDING;
    row->start_ns = CRN_BP_UNKNOWN;
    row->age_ns = turns_view_age(r->since_ns, now_ns);
    row->bytes = r->bytes;
    row->done = r->done;
    row->duration_ns = (uint64_t)r->duration_ns;
    if (job->conn == NONE)
        row->why = CRN_BP_WHY_AWAY;
    if (r->state == RQ_HELD) {
        row->held_ns = turns_view_age(r->held_ns, now_ns);
        if (row->age_ns <
            row->held_ns) /* it began before it was known here, and waited for nobody */
            row->age_ns = row->held_ns;
    } else {
        row->place = r->place;
        row->why = t->token[r->token].is_draining ? CRN_BP_WHY_DRAIN
                   : is_settling(t, now_ns)       ? CRN_BP_WHY_SETTLING
                                                  : CRN_BP_WHY_TURN;
        if (row->why != CRN_BP_WHY_DRAIN)
            row->start_ns = r->start_ns > now_ns ? (uint64_t)(r->start_ns - now_ns) : 0;
    }
}

struct rows {
    crn_turns_row_fn fn;
    void *arg;
    size_t n, max;
};

static void turns_view_emit(struct rows *rows, const struct crn_turns *t, const struct conn *c,
                            uint32_t rid, int64_t now_ns)
{
    struct crn_bp_msg msg = {.type = CRN_BP_REQUEST_ROW};

    if (rows->n >= rows->max || !may_see(t, c, rid))
        return;
    request_row(t, rid, now_ns, &msg.u.request_row);
    rows->fn(rows->arg, &msg);
    rows->n++;
}

static void emit_token(struct rows *rows, struct crn_turns *t, struct token *k,
                       const struct conn *c, int64_t now_ns)
{
    uint32_t rid, i;

    crn_turns_forecast(t, k, now_ns); /* leaves the order in t->order */
    for (rid = k->first_holder; rid != NONE; rid = request_of(t, rid)->next)
        turns_view_emit(rows, t, c, rid, now_ns);
    for (i = 0; i < k->n && rows->n < rows->max; i++)
        turns_view_emit(rows, t, c, k->queue_rid[t->order[i]], now_ns);
}

static size_t turns_view_rows(struct crn_turns *t, int64_t now_ns, const struct conn *c,
                              const struct crn_bp_query *query, crn_turns_row_fn fn, void *arg)
{
    struct rows rows = {.fn = fn, .arg = arg, .max = query->max_requests};
    struct crn_bp_msg msg = {.type = CRN_BP_TOKEN_ROW};
    size_t i;

    for (i = 0; i < t->cfg.ntokens; i++) {
        if (query->token[0] != '\0' && strcmp(query->token, t->token[i].cfg.name) != 0)
            continue;
        token_row(t, &t->token[i], now_ns, &msg.u.token_row);
        fn(arg, &msg);
    }
    for (i = 0; i < t->cfg.ntokens; i++)
        if (query->token[0] == '\0' || strcmp(query->token, t->token[i].cfg.name) == 0)
            emit_token(&rows, t, &t->token[i], c, now_ns);
    return rows.n;
}

size_t crn_turns_query(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                       const struct crn_bp_query *query, crn_turns_row_fn fn, void *arg)
{
    return turns_view_rows(t, now_ns, &t->conn[conn], query, fn, arg);
}

size_t crn_turns_all(struct crn_turns *t, int64_t now_ns, const struct crn_bp_query *query,
                     crn_turns_row_fn fn, void *arg)
{
    static const struct conn broker = {.is_open = 1, .is_admin = 1, .user = NONE, .job = NONE};

    return turns_view_rows(t, now_ns, &broker, query, fn, arg);
}

size_t crn_turns_tokens(const struct crn_turns *t)
{
    return t->cfg.ntokens;
}

void crn_turns_totals(const struct crn_turns *t, int64_t now_ns, size_t token,
                      struct crn_turns_totals *ret)
{
    const struct token *k = &t->token[token];

    token_row(t, k, now_ns, &ret->row);
    ret->wait_s = k->wait_s;
    ret->held_s = k->held_s;
    ret->learned = k->learned;
    ret->overlapping = k->overlapping;
    crn_dry_totals(k, ret);
}

uint32_t crn_turns_jobs(const struct crn_turns *t)
{
    return t->njobs;
}

/* Invariants. ---------------------------------------------------------------------------------- */

static const char *check_request(const struct crn_turns *t, uint32_t rid)
{
    const struct turns_request *r = request_of(t, rid);
    const struct turns_job *job = job_of(t, rid);
    int is_queued = r->state == RQ_WAITING && r->at != NONE;

    if (r->state == RQ_FREE)
        return NULL;
    if (!job->is_used)
        return "a request without a job";
    if (r->state == RQ_WAITING && is_queued != (job->conn != NONE))
        return "only requests of connected jobs are queued";
    if (is_queued && t->token[r->token].queue_rid[r->at] != rid)
        return "queue and request disagree";
    return NULL;
}

const char *crn_turns_check(const struct crn_turns *t)
{
    uint32_t waiting = 0, held = 0, queued = 0, holders = 0;
    double rate = 0, counted = 0;
    const char *wrong;
    uint32_t rid;
    size_t k;

    for (rid = 0; rid < t->cfg.max_jobs * CRN_BP_MAX_ASKS; rid++) {
        if (!job_of(t, rid)->is_used)
            continue;
        wrong = check_request(t, rid);
        if (wrong != NULL)
            return wrong;
        waiting += request_of(t, rid)->state == RQ_WAITING && request_of(t, rid)->at != NONE;
        if (request_of(t, rid)->state != RQ_HELD)
            continue;
        held++;
        rate += crn_turns_rate(&t->token[request_of(t, rid)->token], request_of(t, rid));
    }
    for (k = 0; k < t->cfg.ntokens; k++) {
        queued += t->token[k].n;
        holders += t->token[k].holders;
        counted += t->token[k].rate;
        if (t->token[k].granted + t->token[k].learned !=
            t->token[k].returned + t->token[k].taken + t->token[k].holders)
            return "tokens are not conserved";
    }
    if (waiting != queued || held != holders)
        return "counts of waiting or holding requests disagree";
    if (counted > rate * (1 + 1e-6) + 1e-3 || counted < rate * (1 - 1e-6) - 1e-3)
        return "the holders' rates do not add up";
    return NULL;
}
