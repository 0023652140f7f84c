/* SPDX-License-Identifier: BSD-3-Clause */
/* What sites do without a broker: every job reads and writes at any time and gets a share of the
 * bandwidth. There is no token; the scores only keep the order of arrival. */
#include "policy/policy.h"

static void oblivious_score(const struct crn_io_queue *q, double *ret_score)
{
    size_t i;

    for (i = 0; i < q->n; i++)
        ret_score[i] = q->req[i].since_s;
}

const struct crn_policy crn_policy_oblivious = {
    .name = "oblivious",
    .summary = "no token: everyone at once, bandwidth shared by nodes",
    .is_exclusive = 0,
    .is_blocking = 1,
    .score = oblivious_score,
};
