/* SPDX-License-Identifier: BSD-3-Clause */
/* First come, first served; a job is blocked until its turn. */
#include "policy/policy.h"

static void ordered_score(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        ret_score[i] = q->req[i].since_s;
}

const struct crn_policy crn_policy_ordered = {
    .name = "ordered",
    .summary = "first come, first served; jobs stand still while they wait",
    .is_exclusive = 1,
    .is_blocking = 1,
    .score = ordered_score,
};
