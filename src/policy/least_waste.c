/* SPDX-License-Identifier: BSD-3-Clause */
/* Least-Waste (Herault et al., APDCM 2018, section III.E): serve the request whose service costs
 * all others the least. While i holds the token for v_i seconds,
 *     a blocked job j wastes                    q_j (d_j + v_i),
 *     a job j that waits to checkpoint expects  (v_i / mu_j) q_j (R_j + d_j + v_i / 2)
 * with mu_j = mu_ind / q_j; d_j counts from the request or from the last checkpoint. This is the
 * paper's text: its equations (1) and (2) carry a further factor v_i over everything, which
 * would make the choice depend on the unit of time.
 *
 * W_i is a quadratic in v_i whose coefficients are sums over all requests, so one decision is
 * O(n): the request's own share is subtracted from each sum. */
#include "policy/policy.h"

/* W(v) = idle + v * slope + v^2 * curve */
struct terms {
    double idle, slope, curve;
};

static struct terms terms_of(const struct crn_io_request *r, double now_s)
{
    struct terms t = {0, 0, 0};

    if (r->kind == CRN_IO_CHECKPOINT) {
        double risk = crn_io_failure_rate(r) * r->nodes * r->nodes;

        t.slope = risk * (r->recovery_s + now_s - r->last_checkpoint_s);
        t.curve = risk / 2;
    } else {
        t.idle = r->nodes * (now_s - r->since_s);
        t.slope = r->nodes;
    }
    return t;
}

static void least_waste_score(const struct crn_io_queue *q, double *ret_score)
{
    struct terms sum = {0, 0, 0};
    size_t i;

    for (i = 0; i < q->n; i++) {
        struct terms t = terms_of(&q->req[i], q->now_s);

        sum.idle += t.idle;
        sum.slope += t.slope;
        sum.curve += t.curve;
    }
    for (i = 0; i < q->n; i++) {
        struct terms t = terms_of(&q->req[i], q->now_s);
        double v = q->req[i].duration_s;

        ret_score[i] =
            sum.idle - t.idle + v * (sum.slope - t.slope) + v * v * (sum.curve - t.curve);
    }
}

const struct crn_policy crn_policy_least_waste = {
    .name = "least-waste",
    .summary = "the request whose service costs the others the least expected node-time",
    .is_exclusive = 1,
    .is_blocking = 0,
    .score = least_waste_score,
};
