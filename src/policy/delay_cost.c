/* SPDX-License-Identifier: BSD-3-Clause */
/* Delay-Cost, our own: serve the request whose delay costs most per second of its service (Smith's
 * rule, which is optimal for costs that grow linearly). A second of delay costs
 *     a job that stands still             q node-seconds,
 *     a job that waits to checkpoint      q^2 (d - P) / mu_ind.
 * The second is not the whole loss rate q^2 d / mu_ind: waiting also saves, because the work of the
 * next period moves into this one, and at d = P, the job's own optimum, both are even. A checkpoint
 * that is not yet due comes after everything else.
 *
 * Against Least-Waste: that one asks what a service costs the others and so prefers short requests,
 * however little they gain; on a scarce file system large jobs then never get their turn. Here the
 * cost of a delay grows for ever, so that every request is served in the end. */
#include <math.h>
#include "policy/policy.h"

static void delay_cost_score(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++) {
        const struct crn_io_request *r = &q->req[i];
        double cost = r->nodes;

        if (r->kind == CRN_IO_CHECKPOINT)
            cost = crn_io_failure_rate(r) * r->nodes * r->nodes *
                   (q->now_s - r->last_checkpoint_s - r->period_s);
        ret_score[i] = -cost / fmax(r->duration_s, 1e-9);
    }
}

const struct crn_policy crn_policy_delay_cost = {
    .name = "delay-cost",
    .summary = "the request whose delay costs most per second of its service",
    .is_exclusive = 1,
    .is_blocking = 0,
    .score = delay_cost_score,
};
