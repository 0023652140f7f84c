/* SPDX-License-Identifier: BSD-3-Clause */
/* Delay-Cost, our own policy: serve the request whose delay costs most per second of its service
 * (Smith's rule, which is optimal for costs that grow linearly). A second of delay costs
 *     for a blocked job                        q node-seconds,
 *     for a job that waits to checkpoint       q^2 (d - P) / mu_ind.
 * The second is not the whole loss rate q^2 d / mu_ind. Waiting also saves, because the work of the
 * next period moves into this one. At d = P, the job's own optimum, the two balance. A checkpoint
 * that is not yet due comes after everything else.
 *
 * Least-Waste, by comparison, asks what a service costs the others. It prefers short requests,
 * however little they gain, so large jobs starve on a scarce file system. Here the cost of a delay
 * grows without bound, so every request is served eventually. */
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
