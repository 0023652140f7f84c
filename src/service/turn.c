/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides when to ask the broker for the job's turn, what to tell it about the job, and which
 * capture is flushed when the turn comes. */
#include "service/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "broker/client.h"

#define LONGEST_LEASE_NS (3 * 86400 * UINT64_C(1000000000))

#define TURN_WAITED      32

/* The application's wish for a turn, from TURN_ASK until its capture arrives. */
struct turn_wish {
    int is_open;
    int is_invited;     /* the first rank knows that the turn has come */
    uint64_t seq;       /* its last checkpoint when it asked: a later one answers the wish */
    int64_t lease_ns;   /* how long the ranks may need to come */
    int64_t expires_ns; /* monotonic; is_invited */
};

struct crn_job_turn {
    struct crn_broker *broker;
    uint32_t ticket;  /* of the job's only request; 0: none */
    uint64_t user;    /* seq + 1 of the checkpoint that is flushed under it; 0: none */
    int64_t asked_ns; /* monotonic; when the job began to want a turn; 0: it wants none */
    uint64_t bytes;   /* of the last checkpoint, or as the first rank estimates */
    int64_t period_ns, recovery_ns; /* as the first rank told last; 0: unknown */
    struct turn_wish wish;
    uint64_t waited[TURN_WAITED]; /* seq + 1 of the last checkpoints that a caller waited for */
    uint32_t nwaited;
};

static int64_t now_ns(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

void crn_turn_open(struct crn_job *job)
{
    struct crn_broker_options opt;
    struct crn_errinfo ei = {0};
    struct crn_job_turn *t;
    char hex[CRN_RUN_HEX];

    if (job->node != 0 || job->cfg.broker[0] == '\0')
        return;
    crn_run_hex(job->run, hex);
    crn_broker_options_init(&opt, &job->cfg, job->cfg.job[0] != '\0' ? job->cfg.job : hex,
                            job->nodes, &job->log);
    t = calloc(1, sizeof(*t));
    if (t == NULL || crn_broker_open(&opt, &t->broker, &ei) != CAIRN_OK) {
        crn_log(&job->log, CRN_WARN, "flushing without turns, continuing: %s",
                t == NULL ? "out of memory" : ei.msg);
        free(t);
        return;
    }
    job->turn = t;
}

void crn_turn_close(struct crn_job *job)
{
    if (job->turn != NULL)
        crn_broker_close(job->turn->broker);
    free(job->turn);
    job->turn = NULL;
}

/* The request. --------------------------------------------------------------------------------- */

/* The time between checkpoints: as told by the application's advice, as configured, or measured. */
static int64_t period_of(const struct crn_job *job, const struct crn_item *item)
{
    int64_t configured =
        item != NULL ? (int64_t)crn_config_name(&job->cfg, item->name)->period_ns : 0;

    if (job->turn->period_ns > 0)
        return job->turn->period_ns;
    return configured > 0 || item == NULL ? configured : item->interval_ns;
}

static void turn_describe(const struct crn_job *job, const struct crn_item *item,
                          struct crn_turn_ask *ret)
{
    const struct crn_job_turn *t = job->turn;
    int64_t now = now_ns();

    *ret = (struct crn_turn_ask){.kind = CRN_IO_CHECKPOINT,
                                 .bytes = item != NULL ? item->root->bytes : t->bytes,
                                 .at_risk_ns = now - crn_node_safe_ns(job->core),
                                 .recovery_ns = t->recovery_ns,
                                 .period_ns = period_of(job, item),
                                 .age_ns = now - t->asked_ns};
    crn_broker_token(&job->cfg, ret->token);
}

/* Files the request, or refreshes it. Returns 0, or -1 if that failed; the next check asks
 * again. */
static int turn_ask(struct crn_job *job, const struct crn_item *item)
{
    struct crn_job_turn *t = job->turn;
    struct crn_turn_ask what;

    if (t->asked_ns == 0)
        t->asked_ns = now_ns();
    turn_describe(job, item, &what);
    if (t->ticket != 0) {
        crn_broker_update(t->broker, t->ticket, &what);
        return 0;
    }
    return crn_broker_ask(t->broker, &what, &t->ticket, NULL) == CAIRN_OK ? 0 : -1;
}

static void turn_return(struct crn_job_turn *t)
{
    if (t->ticket != 0)
        crn_broker_return(t->broker, t->ticket);
    t->ticket = 0;
    t->user = 0;
}

static int turn_is_wanted(const struct crn_job *job)
{
    const struct crn_item *item;

    for (item = crn_node_items(job->core); item != NULL; item = item->next)
        if (item->root->state == CRN_ROOT_QUEUED || item->root->state == CRN_ROOT_ASKING)
            return 1;
    return 0;
}

/* The application's wish. ---------------------------------------------------------------------- */

static void tell_first_rank(struct crn_job *job, enum crn_turn_news news)
{
    struct crn_msg m = {.type = CRN_MSG_TURN, .turn.news = news};
    uint32_t i;

    memcpy(m.run, job->run, 16);
    for (i = 0; i < job->nlocal; i++)
        if (job->rank_of[i] == 0)
            crn_job_tell_rank(job, i, &m);
}

static void turn_withdraw_unneeded(struct crn_job *job)
{
    struct crn_job_turn *t = job->turn;

    if (t->user == 0 && !t->wish.is_open && !turn_is_wanted(job)) {
        turn_return(t);
        t->asked_ns = 0;
    }
}

void crn_turn_asked(struct crn_job *job, const struct crn_msg *m)
{
    struct crn_job_turn *t = job->turn;

    if (t == NULL) { /* no broker is configured here, or none could be opened */
        tell_first_rank(job, CRN_TURN_COME);
        return;
    }
    t->period_ns = (int64_t)m->turn_ask.period_ns;
    t->recovery_ns = (int64_t)m->turn_ask.recovery_ns;
    if (t->bytes == 0)
        t->bytes = m->turn_ask.bytes;
    if (!m->turn_ask.is_wanted) {
        t->wish.is_open = 0;
        turn_withdraw_unneeded(job);
        return;
    }
    t->wish.seq = m->seq;
    t->wish.lease_ns = (int64_t)(m->turn_ask.lease_ns < LONGEST_LEASE_NS ? m->turn_ask.lease_ns
                                                                         : LONGEST_LEASE_NS);
    if (!t->wish.is_open) {
        t->wish.is_open = 1;
        t->wish.is_invited = 0;
    }
    crn_turn_tick(job);
}

/* The ranks did not come in time. Waiting captures use the turn; without any it passes on. asked_ns
 * stays, so the next request gets the place of this one. */
static void wish_expire(struct crn_job *job)
{
    struct crn_job_turn *t = job->turn;

    crn_log(&job->log, CRN_DEBUG, "the ranks did not capture within %.1f s: the turn passes on",
            (double)t->wish.lease_ns * 1e-9);
    t->wish.is_open = 0;
    tell_first_rank(job, CRN_TURN_PASSED);
    if (!turn_is_wanted(job))
        turn_return(t);
}

static void wish_advance(struct crn_job *job)
{
    struct crn_job_turn *t = job->turn;
    struct crn_turn turn;

    if (!t->wish.is_open || t->user != 0 || turn_ask(job, NULL) != 0)
        return;
    turn = crn_broker_look(t->broker, t->ticket);
    if (turn.state == CRN_TURN_WAITING)
        return;
    if (turn.state == CRN_TURN_CANCELED) {
        t->wish.is_open = 0;
        tell_first_rank(job, CRN_TURN_GIVEN_UP);
        turn_return(t);
        t->asked_ns = 0;
    } else if (!t->wish.is_invited) {
        t->wish.is_invited = 1;
        t->wish.expires_ns = now_ns() + t->wish.lease_ns;
        tell_first_rank(job, CRN_TURN_COME);
    } else if (now_ns() > t->wish.expires_ns) {
        wish_expire(job);
    }
}

/* Captures that wait. -------------------------------------------------------------------------- */

void crn_turn_waited(struct crn_job *job, uint64_t seq)
{
    if (job->turn != NULL)
        job->turn->waited[job->turn->nwaited++ % TURN_WAITED] = seq + 1;
}

/* Must this version reach the file system even if a newer one is there? */
static int turn_is_promised(const struct crn_job *job, const struct crn_item *item)
{
    uint32_t i;

    for (i = 0; i < TURN_WAITED; i++)
        if (job->turn->waited[i] == item->seq + 1)
            return 1;
    return !crn_config_may_supersede(&job->cfg, item->name, item->version);
}

/* The newest version of the name that all ranks have captured, that has not failed and that is as safe
 * as the item; NULL: there is none. */
static const struct crn_item *newer_than(const struct crn_item *item)
{
    const struct crn_item *found = NULL;
    const struct crn_item *i;

    for (i = item->next; i != NULL; i = i->next)
        if (i->root->state >= CRN_ROOT_QUEUED && i->root->state != CRN_ROOT_FAILED &&
            strcmp(i->name, item->name) == 0 && crn_item_covers(i, item))
            found = i;
    return found;
}

static enum crn_turn_verdict turn_supersede(const struct crn_item *newer, struct crn_errinfo *error)
{
    (void)!crn_fail(error, CAIRN_ECANCELED, 0, "superseded by %s@%" PRId64, newer->name,
                    newer->version);
    return CRN_TURN_STOP;
}

/* An outdated version is given up when the turn has come, not earlier: until then it is the newest
 * that a crash of the job would leave whole. A newer one may wait for that, to be encoded against
 * an older version that is committed by then. */
enum crn_turn_verdict crn_turn_check(struct crn_job *job, struct crn_item *item,
                                     struct crn_errinfo *error)
{
    struct crn_job_turn *t = job->turn;
    const struct crn_item *newer;
    struct crn_turn turn;

    if (t == NULL)
        return CRN_TURN_GO;
    newer = turn_is_promised(job, item) ? NULL : newer_than(item);
    if (item->seq > t->wish.seq)
        t->wish.is_open = 0; /* the capture that it was about, or a newer one */
    if (newer != NULL && newer->root->state > CRN_ROOT_ASKING)
        return turn_supersede(newer, error);
    if (t->user != 0 || turn_ask(job, newer != NULL ? newer : item) != 0)
        return CRN_TURN_NOT_YET;
    turn = crn_broker_look(t->broker, t->ticket);
    if (turn.state == CRN_TURN_WAITING)
        return CRN_TURN_NOT_YET;
    if (turn.state == CRN_TURN_CANCELED) {
        (void)!crn_fail(error, CAIRN_ECANCELED, 0, "its flush was canceled at the broker, %s",
                        turn.why);
        turn_return(t);
        return CRN_TURN_STOP;
    }
    if (t->wish.is_open) /* it is invited: what it captures now is newer */
        return CRN_TURN_NOT_YET;
    if (newer != NULL)
        return turn_supersede(newer, error);
    t->user = item->seq + 1;
    t->bytes = item->root->bytes;
    crn_log(&job->log, CRN_DEBUG, "%s@%" PRId64 ": its turn after %.1f s%s%s", item->name,
            item->version, (double)turn.waited_ns * 1e-9,
            turn.state == CRN_TURN_FREE ? ", without the token: " : "",
            turn.state == CRN_TURN_FREE ? turn.why : "");
    return CRN_TURN_GO;
}

void crn_turn_progress(struct crn_job *job, struct crn_item *item)
{
    uint64_t bytes = 0;
    uint32_t i;

    if (job->turn == NULL || job->turn->user != item->seq + 1)
        return;
    for (i = 0; i < job->nodes; i++)
        bytes += item->root->node_wrote[i];
    crn_broker_progress(job->turn->broker, job->turn->ticket, bytes);
}

void crn_turn_end(struct crn_job *job, struct crn_item *item)
{
    struct crn_job_turn *t = job->turn;

    if (t == NULL)
        return;
    if (t->user == item->seq + 1) {
        turn_return(t);
        t->asked_ns = 0;
    }
    turn_withdraw_unneeded(job);
}

/* The loop. ------------------------------------------------------------------------------------ */

int crn_turn_fd(const struct crn_job *job)
{
    return job->turn != NULL ? crn_broker_fd(job->turn->broker) : -1;
}

void crn_turn_tick(struct crn_job *job)
{
    if (job->turn == NULL)
        return;
    crn_broker_tick(job->turn->broker);
    wish_advance(job);
}
