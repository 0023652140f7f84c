/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides what to tell the broker about a flush: how many nodes wait, how much they will write, and
 * since when results are at risk. */
#include "service/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "broker/client.h"

static int64_t now_ns(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

void crn_turn_open(struct crn_job *job)
{
    struct crn_broker_options opt;
    struct crn_errinfo ei = {0};
    char hex[CRN_RUN_HEX];

    job->safe_ns = now_ns();
    if (job->node != 0 || job->cfg.broker[0] == '\0')
        return;
    crn_run_hex(job->run, hex);
    crn_broker_options_init(&opt, &job->cfg, job->cfg.job[0] != '\0' ? job->cfg.job : hex,
                            job->nodes, &job->log);
    if (crn_broker_open(&opt, &job->broker, &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "flushing without turns, continuing: %s", ei.msg);
}

void crn_turn_close(struct crn_job *job)
{
    crn_broker_close(job->broker);
    job->broker = NULL;
}

/* Returns 0, or -1 if too many requests are open; the next check asks again. */
static int turn_ask(struct crn_job *job, struct crn_item *item)
{
    struct crn_turn_ask what = {.kind = CRN_IO_CHECKPOINT,
                                .bytes = item->bytes,
                                .at_risk_ns = now_ns() - job->safe_ns,
                                .period_ns =
                                    (int64_t)crn_config_name(&job->cfg, item->name)->period_ns};

    memcpy(what.token, job->cfg.broker_token, sizeof(what.token));
    return crn_broker_ask(job->broker, &what, &item->ticket, NULL) == CAIRN_OK ? 0 : -1;
}

enum crn_turn_verdict crn_turn_check(struct crn_job *job, struct crn_item *item,
                                     struct crn_errinfo *error)
{
    struct crn_turn turn;

    if (job->broker == NULL)
        return CRN_TURN_GO;
    if (item->ticket == 0 && turn_ask(job, item) != 0)
        return CRN_TURN_NOT_YET;
    turn = crn_broker_look(job->broker, item->ticket);
    if (turn.state == CRN_TURN_WAITING)
        return CRN_TURN_NOT_YET;
    if (turn.state == CRN_TURN_CANCELED) {
        (void)!crn_fail(error, CAIRN_ECANCELED, 0, "its flush was canceled at the broker, %s",
                        turn.why);
        return CRN_TURN_STOP;
    }
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

    if (job->broker == NULL || item->ticket == 0)
        return;
    for (i = 0; i < job->nodes; i++)
        bytes += item->node_wrote[i];
    crn_broker_progress(job->broker, item->ticket, bytes);
}

void crn_turn_end(struct crn_job *job, struct crn_item *item)
{
    if (job->broker != NULL && item->ticket != 0)
        crn_broker_return(job->broker, item->ticket);
    item->ticket = 0;
}

int crn_turn_fd(const struct crn_job *job)
{
    return job->broker != NULL ? crn_broker_fd(job->broker) : -1;
}

void crn_turn_tick(struct crn_job *job)
{
    if (job->broker != NULL)
        crn_broker_tick(job->broker);
}
