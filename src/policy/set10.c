/* SPDX-License-Identifier: BSD-3-Clause */
/* Set-10 (Boito et al., "IO-SETS: Simple and Efficient Approaches for I/O Bandwidth Management",
 * IEEE TPDS 2023), for comparison. Jobs whose times between I/O phases have the same order of
 * magnitude form a set. A set is served first come, first served. The sets share the bandwidth:
 * set i, of the jobs with a period of 10^i seconds, with the weight 10^-i. It was made for jobs
 * that stand still for all their I/O; what a failure would cost plays no part.
 *
 * The weights need a file system that divides its bandwidth as told. The simulator does that. The
 * broker lets one job of each set go, and the file system divides as it does. */
#include <math.h>
#include "policy/policy.h"

static uint32_t set10_set(const struct crn_io_request *r)
{
    double period_s = r->period_s > 0 ? r->period_s : r->duration_s;
    double i = round(log10(fmax(period_s, 1)));

    return (uint32_t)fmin(i, CRN_POLICY_SETS - 1);
}

static double set10_weight(uint32_t set)
{
    return pow(10, -(double)set);
}

static void set10_score(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        ret_score[i] = q->req[i].since_s;
}

const struct crn_policy crn_policy_set10 = {
    .name = "set-10",
    .summary = "jobs of similar periods one after the other, of different ones side by side",
    .is_exclusive = 1,
    .is_blocking = 0,
    .score = set10_score,
    .set = set10_set,
    .weight = set10_weight,
};
