/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides what events do to requests. A report lists everything that a job wants and has. The
 * broker compares it with its own records:
 *
 *   report \ record   nothing            waiting     held        ended
 *   not listed        -                  canceled    returned    forgotten
 *   WAITING           queued             -           GO again    verdict again
 *   HOLDING, ours     taken (lease)      taken       progress    verdict again
 *   HOLDING, ALONE    learned holder     learned     progress    verdict again
 *   LOST              ended              ended       ended       -
 *
 * Invariant: a token is granted only while it has fewer holders than slots. Learned holders may
 * exceed that, since they already use the file system. */
#include "broker/turns_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A broker that has just started takes the word of the jobs that come back, up to a day. */
#define COME_BACK_NS  (60 * NS_PER_S)
#define BELIEVED_NS   (86400 * NS_PER_S)
#define RECOVERY_MOST 8 /* a restart read takes at most so many times what the write takes */

static uint32_t rid_of(uint32_t j, uint32_t i)
{
    return j * CRN_BP_MAX_ASKS + i;
}

/* Ends. ---------------------------------------------------------------------------------------- */

/* Books what the user has used of the token. */
static void turns_released(struct crn_turns *t, uint32_t rid, int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);
    uint32_t user = job_of(t, rid)->user;
    uint32_t payer = job_of(t, rid)->payer;

    crn_turns_release(t, rid, now_ns);
    if (r->is_learned)
        crn_share_alone_used(t, user, (double)(now_ns - r->learned_ns) / NS_PER_S, now_ns);
    else
        crn_share_account(t, payer, (double)(now_ns - r->held_ns) / NS_PER_S, now_ns);
    r->is_learned = 0;
}

void crn_turns_end(struct crn_turns *t, uint32_t rid, int64_t now_ns, uint8_t code, uint8_t why)
{
    struct turns_request *r = request_of(t, rid);

    if (r->state == RQ_WAITING)
        crn_turns_dequeue(t, rid);
    else if (r->state == RQ_HELD)
        turns_released(t, rid, now_ns);
    r->state = RQ_ENDED;
    r->code = code;
    r->why = why;
}

/* The job returns the token, or loses it: the broker has seen how long the transfer took. */
static void note_transfer(struct crn_turns *t, uint32_t rid, int64_t now_ns, int is_returned)
{
    const struct turns_request *r = request_of(t, rid);
    struct turns_job *job = job_of(t, rid);
    int64_t took_ns = now_ns - r->held_ns;
    double rate;

    if (r->is_learned || r->kind != CRN_IO_CHECKPOINT || r->bytes == 0 || took_ns <= 0)
        return;
    if (!is_returned || r->done < r->bytes) { /* quiet transfers (CRN_BP_UNKNOWN) are complete */
        job->vain_ns = took_ns < MAX_TIME_NS ? took_ns : MAX_TIME_NS;
        return;
    }
    job->vain_ns = 0;
    rate = (double)r->bytes / ((double)took_ns / NS_PER_S);
    job->rate = job->rate > 0 ? (job->rate + rate) / 2 : rate;
    job->safe_ns = r->since_ns;
}

/* Revokes the token; the job is told if it is connected. */
static void turns_take(struct crn_turns *t, uint32_t rid, int64_t now_ns, uint8_t why)
{
    t->token[request_of(t, rid)->token].taken++;
    note_transfer(t, rid, now_ns, 0);
    crn_turns_end(t, rid, now_ns, CRN_BP_TAKEN, why);
    crn_turns_list_move(t, &t->dirty, rid / CRN_BP_MAX_ASKS, LINK_DIRTY);
}

/* The job no longer lists it. */
static void close_request(struct crn_turns *t, uint32_t rid, int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);

    if (r->state == RQ_WAITING)
        t->token[r->token].canceled++;
    if (r->state == RQ_HELD) {
        t->token[r->token].returned++;
        note_transfer(t, rid, now_ns, 1);
    }
    crn_turns_end(t, rid, now_ns, 0, 0);
    r->state = RQ_FREE;
}

static int has_requests(const struct turns_job *job)
{
    uint32_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state != RQ_FREE)
            return 1;
    return 0;
}

/* The job is dead, hung or disconnected for too long: its tokens go to others. */
static void drop_job(struct crn_turns *t, uint32_t j, int64_t now_ns)
{
    struct turns_job *job = &t->job[j];
    uint32_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++) {
        if (job->req[i].state == RQ_HELD)
            turns_take(t, rid_of(j, i), now_ns, CRN_BP_WHY_LEASE);
        if (job->req[i].state != RQ_FREE)
            close_request(t, rid_of(j, i), now_ns);
    }
    crn_turns_remove_job(t, j);
}

/* Connections. --------------------------------------------------------------------------------- */

void crn_turns_opened(struct crn_turns *t, uint32_t conn, const char *user, int is_admin)
{
    struct conn *c = &t->conn[conn];

    c->is_open = 1;
    c->is_admin = is_admin != 0;
    c->job = NONE;
    c->user = crn_turns_ref_user(t, user);
    t->user[c->user].nconns++;
}

/* The job loses its connection. Its waiting requests keep their place for a while, but cannot be
 * chosen. */
static void cut_job(struct crn_turns *t, uint32_t j, int64_t now_ns)
{
    struct turns_job *job = &t->job[j];
    uint32_t i;

    t->conn[job->conn].job = NONE;
    job->conn = NONE;
    job->heard_ns = now_ns;
    if (!has_requests(job)) {
        crn_turns_remove_job(t, j);
        return;
    }
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state == RQ_WAITING)
            crn_turns_dequeue(t, rid_of(j, i));
    crn_turns_list_move(t, &t->cut, j, LINK_AGE);
}

void crn_turns_closed(struct crn_turns *t, int64_t now_ns, uint32_t conn)
{
    struct conn *c = &t->conn[conn];

    if (!c->is_open)
        return;
    if (c->job != NONE)
        cut_job(t, c->job, now_ns);
    t->user[c->user].nconns--;
    crn_turns_unref_user(t, c->user);
    c->is_open = 0;
}

int crn_turns_wants(const struct crn_turns *t, uint32_t conn)
{
    const struct conn *c = &t->conn[conn];

    return c->is_open && c->job != NONE && has_requests(&t->job[c->job]);
}

static void bind_job(struct crn_turns *t, uint32_t j, uint32_t conn)
{
    struct turns_job *job = &t->job[j];
    uint32_t i;

    if (job->conn == conn)
        return;
    if (job->confirmed == 0)
        job->ask_ns = 0; /* an answer to the older connection gets lost */
    if (job->conn != NONE)
        t->conn[job->conn].job = NONE; /* an older connection whose end was not noticed */
    job->conn = conn;
    t->conn[conn].job = j;
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state == RQ_WAITING && job->req[i].at == NONE)
            crn_turns_enqueue(t, rid_of(j, i));
}

/* Reports. ------------------------------------------------------------------------------------- */

/* Bytes of the longest of the paths that holds the directory; 0: none. */
static size_t path_match(const char *paths, const char *dir)
{
    size_t best = 0;
    size_t n;

    for (paths += strspn(paths, " ,"); *paths != '\0'; paths += n + strspn(paths + n, " ,")) {
        size_t len;

        n = strcspn(paths, " ,");
        for (len = n; len > 1 && paths[len - 1] == '/'; len--)
            ;
        if (len > best && strncmp(paths, dir, len) == 0 &&
            (len == 1 || dir[len] == '/' || dir[len] == '\0'))
            best = len;
    }
    return best;
}

/* The token of the file system that holds the directory; the first if none is known to. */
static uint32_t token_of_path(const struct crn_turns *t, const char *dir)
{
    uint32_t best = 0;
    size_t len = 0;
    uint32_t i;

    for (i = 0; i < t->cfg.ntokens; i++) {
        size_t n = path_match(t->token[i].cfg.paths, dir);

        if (n > len) {
            len = n;
            best = i;
        }
    }
    return best;
}

static uint32_t find_token(const struct crn_turns *t, const char *name)
{
    uint32_t i;

    if (name[0] == '\0')
        return 0;
    if (name[0] == '/')
        return token_of_path(t, name);
    for (i = 0; i < t->cfg.ntokens; i++)
        if (strcmp(t->token[i].cfg.name, name) == 0)
            return i;
    return NONE;
}

static int64_t turns_within(uint64_t ns, int64_t max)
{
    return ns > (uint64_t)max ? max : (int64_t)ns;
}

/* How long bytes take at a rate, within bounds. */
static int64_t turns_takes(uint64_t bytes, double rate)
{
    double ns = (double)bytes / rate * (double)NS_PER_S;

    return ns < 1 ? 1 : ns > (double)MAX_TIME_NS ? MAX_TIME_NS : (int64_t)ns;
}

/* What the broker has measured counts more than what the job says, and no job is faster than the
 * file system. */
static int64_t duration_of(const struct token *k, const struct turns_job *job,
                           const struct crn_bp_ask *ask)
{
    const int64_t guess = 60 * NS_PER_S;
    int64_t told = turns_within(ask->duration_ns, MAX_TIME_NS);
    int64_t least = 0;

    if (ask->bytes > 0 && k->cfg.bandwidth > 0)
        least = turns_takes(ask->bytes, (double)k->cfg.bandwidth);
    if (ask->bytes > 0 && job->rate > 0)
        told = turns_takes(ask->bytes, job->rate);
    if (least < job->vain_ns)
        least = job->vain_ns;
    if (told == 0 && least == 0)
        return guess;
    return told > least ? told : least;
}

/* Bytes/s that the job's transfers are expected to use: measured, or as the job says. */
static double rate_of(const struct token *k, const struct turns_job *job,
                      const struct crn_bp_ask *ask)
{
    double most = k->cfg.bandwidth > 0 ? (double)k->cfg.bandwidth : INFINITY;

    if (ask->bytes == 0)
        return 0;
    if (job->rate > 0)
        return fmin(job->rate, most);
    if (ask->duration_ns > 0)
        return fmin((double)ask->bytes * (double)NS_PER_S / (double)ask->duration_ns, most);
    return k->cfg.bandwidth > 0 ? most : 0;
}

/* Times that a job tells are bounded by what the broker has seen: nothing of it waits, or is at
 * risk, for longer than the broker knows the job. */
static int64_t since_known(const struct turns_job *job, uint64_t age_ns, int64_t now_ns)
{
    int64_t since = now_ns - turns_within(age_ns, MAX_AGE_NS);

    return since > job->known_ns ? since : job->known_ns;
}

/* What a job says about itself, and may say anew while it waits. */
static void turns_describe(const struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                           int64_t now_ns)
{
    const struct turns_job *job = job_of(t, rid);
    struct turns_request *r = request_of(t, rid);

    r->at_risk_ns = since_known(job, ask->at_risk_ns, now_ns);
    if (r->at_risk_ns < job->safe_ns)
        r->at_risk_ns = job->safe_ns;
    r->period_ns = turns_within(ask->period_ns, MAX_AGE_NS);
    r->bytes = ask->bytes;
    if (r->token == NONE)
        return;
    r->rate = rate_of(&t->token[r->token], job, ask);
    r->duration_ns = duration_of(&t->token[r->token], job, ask);
    r->recovery_ns = ask->recovery_ns > 0
                         ? turns_within(ask->recovery_ns, RECOVERY_MOST * r->duration_ns)
                         : r->duration_ns;
}

static void turns_fill(struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                       int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);

    memset(r, 0, sizeof(*r));
    r->seq = ask->seq;
    r->token = find_token(t, ask->token);
    r->kind = ask->kind;
    r->id = t->next_id++;
    r->at = NONE;
    r->is_listed = 1;
    r->since_ns = since_known(job_of(t, rid), ask->age_ns, now_ns);
    r->done = ask->done;
    turns_describe(t, rid, ask, now_ns);
}

/* The job uses the file system without a grant of this broker. */
static void turns_learn(struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                        int64_t now_ns)
{
    t->token[request_of(t, rid)->token].learned++;
    crn_turns_hold(t, rid, now_ns - turns_within(ask->held_ns, MAX_AGE_NS), now_ns);
    request_of(t, rid)->is_learned = 1;
    request_of(t, rid)->learned_ns = now_ns;
}

static void turns_admit(struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                        int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);

    turns_fill(t, rid, ask, now_ns);
    r->state = RQ_ENDED;
    if (r->token == NONE) {
        r->token = 0;
        r->code = CRN_BP_REFUSED;
        r->why = CRN_BP_WHY_TOKEN;
    } else if (ask->state == CRN_BP_WAITING) {
        r->state = RQ_WAITING;
        crn_turns_enqueue(t, rid);
    } else if (ask->state == CRN_BP_LOST ||
               (ask->state == CRN_BP_HOLDING && ask->epoch == t->cfg.epoch)) {
        r->code = CRN_BP_TAKEN;
        r->why = CRN_BP_WHY_LEASE;
    } else {
        turns_learn(t, rid, ask, now_ns);
    }
}

static void update_waiting(struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                           int64_t now_ns)
{
    if (ask->state == CRN_BP_WAITING) {
        struct turns_request was = *request_of(t, rid);

        turns_describe(t, rid, ask, now_ns);
        crn_turns_refresh(t, rid, &was);
        return;
    }
    if (ask->state == CRN_BP_ALONE || (ask->state == CRN_BP_HOLDING && ask->epoch != t->cfg.epoch))
        turns_learn(t, rid, ask, now_ns);
    else
        crn_turns_end(t, rid, now_ns, CRN_BP_TAKEN, CRN_BP_WHY_LEASE);
}

static void update_held(struct crn_turns *t, uint32_t rid, const struct crn_bp_ask *ask,
                        int64_t now_ns)
{
    struct turns_request *r = request_of(t, rid);

    if (ask->state == CRN_BP_LOST) {
        turns_take(t, rid, now_ns, CRN_BP_WHY_LEASE);
        return;
    }
    if (ask->done > r->done && ask->done != CRN_BP_UNKNOWN) {
        r->done = ask->done;
        r->moved_ns = now_ns;
    }
}

static uint32_t find_request(const struct turns_job *job, uint32_t seq)
{
    uint32_t i;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state != RQ_FREE && job->req[i].seq == seq)
            return i;
    return NONE;
}

static void close_unlisted(struct crn_turns *t, uint32_t j, const struct crn_bp_report *report,
                           int64_t now_ns)
{
    struct turns_job *job = &t->job[j];
    uint32_t i, at;

    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        job->req[i].is_listed = 0;
    for (i = 0; i < report->n; i++) {
        at = find_request(job, report->ask[i].seq);
        if (at != NONE)
            job->req[at].is_listed = 1;
    }
    for (i = 0; i < CRN_BP_MAX_ASKS; i++)
        if (job->req[i].state != RQ_FREE && !job->req[i].is_listed)
            close_request(t, rid_of(j, i), now_ns);
}

static void read_ask(struct crn_turns *t, uint32_t j, const struct crn_bp_ask *ask, int64_t now_ns)
{
    struct turns_job *job = &t->job[j];
    uint32_t i = find_request(job, ask->seq);

    if (i == NONE) {
        /* There is a free entry: unlisted requests were closed, and a report lists no more than
         * there are entries. */
        for (i = 0; job->req[i].state != RQ_FREE; i++)
            ;
        turns_admit(t, rid_of(j, i), ask, now_ns);
    } else if (job->req[i].state == RQ_WAITING) {
        update_waiting(t, rid_of(j, i), ask, now_ns);
    } else if (job->req[i].state == RQ_HELD) {
        update_held(t, rid_of(j, i), ask, now_ns);
    }
}

/* The reporting job, known or newly added; NONE: the report is stale. */
static cairn_err turns_reporter(struct crn_turns *t, uint32_t conn,
                                const struct crn_bp_report *report, uint32_t *ret,
                                struct crn_errinfo *ei)
{
    struct conn *c = &t->conn[conn];
    uint32_t j = crn_turns_find_job(t, c->user, report->job);

    *ret = NONE;
    if (c->job != NONE && c->job != j)
        return crn_fail(ei, CAIRN_ESTATE, 0, "a connection reports for two jobs");
    if (j != NONE && report->number <= t->job[j].report)
        return CAIRN_OK;
    if (j == NONE)
        j = crn_turns_add_job(t, c->user, report->job);
    if (j == NONE)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "too many jobs: the broker serves %u, %u of %s",
                        t->njobs, t->user[c->user].njobs, t->user[c->user].name);
    *ret = j;
    return CAIRN_OK;
}

cairn_err crn_turns_report(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                           const struct crn_bp_report *report, struct crn_errinfo *ei)
{
    struct turns_job *job;
    uint32_t j, i;
    cairn_err rc;

    rc = turns_reporter(t, conn, report, &j, ei);
    if (rc != CAIRN_OK || j == NONE)
        return rc;
    job = &t->job[j];
    job->report = report->number;
    job->heard_ns = now_ns;
    if (job->known_ns == 0)
        job->known_ns = now_ns - (now_ns < t->settled_ns + COME_BACK_NS ? BELIEVED_NS : 0);
    memcpy(job->batch, report->batch, sizeof(job->batch));
    crn_batch_claim(t, job, report->nodes);
    (void)snprintf(job->name, sizeof(job->name), "%s", report->name);
    bind_job(t, j, conn);
    close_unlisted(t, j, report, now_ns);
    for (i = 0; i < report->n; i++)
        read_ask(t, j, &report->ask[i], now_ns);
    if (has_requests(job))
        crn_turns_list_move(t, &t->heard, j, LINK_AGE);
    else
        crn_turns_list_remove(t, j, LINK_AGE);
    crn_turns_list_move(t, &t->dirty, j, LINK_DIRTY);
    crn_turns_decide(t, now_ns);
    return CAIRN_OK;
}

/* Time. ---------------------------------------------------------------------------------------- */

static void drop_old(struct crn_turns *t, struct turns_list *list, int64_t limit_ns, int64_t now_ns)
{
    while (list->head != NONE && now_ns - t->job[list->head].heard_ns > limit_ns)
        drop_job(t, list->head, now_ns);
}

static int is_stalled(const struct crn_turns *t, const struct turns_request *r, int64_t now_ns)
{
    return t->cfg.stall_ns > 0 && r->bytes > 0 && r->done != CRN_BP_UNKNOWN &&
           now_ns - r->moved_ns > t->cfg.stall_ns;
}

/* The job has the token for longer than allowed. A token that this broker did not grant itself counts against
 * what its user may hold alone. */
static int is_time_up(struct crn_turns *t, uint32_t rid, int64_t now_ns)
{
    const struct turns_request *r = request_of(t, rid);

    if (r->is_learned && (double)(now_ns - r->learned_ns) / NS_PER_S >=
                             crn_share_alone_left(t, job_of(t, rid)->user, now_ns))
        return 1;
    return t->cfg.hold_ns > 0 && now_ns - r->held_ns > t->cfg.hold_ns;
}

static void check_holders(struct crn_turns *t, struct token *k, int64_t now_ns)
{
    uint32_t rid, next;

    for (rid = k->first_holder; rid != NONE; rid = next) {
        next = request_of(t, rid)->next;
        if (is_stalled(t, request_of(t, rid), now_ns))
            turns_take(t, rid, now_ns, CRN_BP_WHY_STALL);
        else if (is_time_up(t, rid, now_ns))
            turns_take(t, rid, now_ns, CRN_BP_WHY_LIMIT);
    }
}

void crn_turns_tick(struct crn_turns *t, int64_t now_ns)
{
    size_t i;

    drop_old(t, &t->heard, t->cfg.lease_ns, now_ns);
    drop_old(t, &t->cut, t->cfg.grace_ns, now_ns);
    for (i = 0; i < t->cfg.ntokens; i++) {
        check_holders(t, &t->token[i], now_ns);
        if (t->token[i].dry != NULL)
            crn_dry_advance(t, &t->token[i], now_ns);
    }
    crn_turns_decide(t, now_ns);
    for (i = 0; i < t->cfg.ntokens; i++)
        if (t->token[i].is_stale && now_ns - t->token[i].forecast_ns >= t->cfg.forecast_ns)
            crn_turns_forecast(t, &t->token[i], now_ns);
}

/* Statuses. ------------------------------------------------------------------------------------ */

static void waiting_verdict(const struct crn_turns *t, const struct turns_request *r,
                            int64_t now_ns, struct crn_bp_verdict *v)
{
    const struct token *k = &t->token[r->token];
    int64_t start = r->start_ns;

    v->code = CRN_BP_WAIT;
    v->why = k->is_draining ? CRN_BP_WHY_DRAIN
                            : (is_settling(t, now_ns) ? CRN_BP_WHY_SETTLING : CRN_BP_WHY_TURN);
    v->place = r->place;
    if (r->place == 0) { /* not in the forecast yet: after all others */
        v->place = k->n;
        start = now_ns + (k->backlog_ns - r->duration_ns) / k->cfg.slots;
    }
    if (!k->is_draining)
        v->start_ns = start > now_ns ? (uint64_t)(start - now_ns) : 0;
}

static void verdict_of(const struct crn_turns *t, const struct turns_request *r, int64_t now_ns,
                       struct crn_bp_verdict *v)
{
    *v = (struct crn_bp_verdict){.seq = r->seq, .start_ns = CRN_BP_UNKNOWN};
    if (r->state == RQ_WAITING) {
        waiting_verdict(t, r, now_ns, v);
    } else if (r->state == RQ_HELD) {
        v->code = CRN_BP_GO;
        v->start_ns = 0;
    } else {
        v->code = r->code;
        v->why = r->why;
    }
}

int crn_turns_next(struct crn_turns *t, int64_t now_ns, uint32_t *ret_conn,
                   struct crn_bp_status *ret)
{
    uint32_t j, i;

    while ((j = t->dirty.head) != NONE) {
        struct turns_job *job = &t->job[j];

        crn_turns_list_remove(t, j, LINK_DIRTY);
        if (job->conn == NONE)
            continue; /* it is answered when it reconnects and reports */
        *ret_conn = job->conn;
        ret->number = t->next_status++;
        ret->report = job->report;
        ret->n = 0;
        for (i = 0; i < CRN_BP_MAX_ASKS; i++)
            if (job->req[i].state != RQ_FREE)
                verdict_of(t, &job->req[i], now_ns, &ret->verdict[ret->n++]);
        return 1;
    }
    return 0;
}
