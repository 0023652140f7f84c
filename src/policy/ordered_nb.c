/* SPDX-License-Identifier: BSD-3-Clause */
/* First come, first served; a job that waits to checkpoint continues computing. */
#include "policy/policy.h"

static void ordered_nb_score(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        ret_score[i] = q->req[i].since_s;
}

const struct crn_policy crn_policy_ordered_nb = {
    .name = "ordered-nb",
    .summary = "first come, first served; jobs compute on while they wait to checkpoint",
    .is_exclusive = 1,
    .is_blocking = 0,
    .score = ordered_nb_score,
};
