/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of policies and the decision itself: the lowest score wins, ties by ticket. */
#include "policy/policy.h"

#include <string.h>

static const struct crn_policy *const builtin[] = {
    &crn_policy_oblivious,   &crn_policy_ordered, &crn_policy_ordered_nb,
    &crn_policy_least_waste, &crn_policy_set10,   &crn_policy_delay_cost,
};

const char *crn_io_kind_name(enum crn_io_kind kind)
{
    static const char *const names[CRN_IO_KINDS] = {"input", "output", "recovery", "checkpoint"};

    return (unsigned)kind < CRN_IO_KINDS ? names[kind] : "unknown";
}

const struct crn_policy *const *crn_policy_table(size_t *ret_n)
{
    *ret_n = sizeof(builtin) / sizeof(builtin[0]);
    return builtin;
}

const struct crn_policy *crn_policy_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++)
        if (strcmp(builtin[i]->name, name) == 0)
            return builtin[i];
    return NULL;
}

static int policy_before(const struct crn_io_queue *q, const double *score, size_t a, size_t b)
{
    if (score[a] < score[b])
        return 1;
    return !(score[b] < score[a]) && q->req[a].ticket < q->req[b].ticket;
}

size_t crn_policy_pick(const struct crn_policy *policy, const struct crn_io_queue *q, uint32_t busy,
                       double *scratch)
{
    size_t best = CRN_PICK_NONE;
    size_t i;

    if (q->n == 0)
        return CRN_PICK_NONE;
    policy->score(q, scratch);
    for (i = 0; i < q->n; i++)
        if ((busy == 0 || (busy >> crn_policy_set_of(policy, &q->req[i]) & 1) == 0) &&
            (best == CRN_PICK_NONE || policy_before(q, scratch, i, best)))
            best = i;
    return best;
}

/* Heapsort: in place, no recursion, no bad worst case. The largest of the first n moves to the
 * root. */
static void policy_sift(const struct crn_io_queue *q, const double *score, size_t *order,
                        size_t root, size_t n)
{
    size_t child;

    while ((child = 2 * root + 1) < n) {
        size_t swap;

        if (child + 1 < n && policy_before(q, score, order[child], order[child + 1]))
            child++;
        if (!policy_before(q, score, order[root], order[child]))
            return;
        swap = order[root];
        order[root] = order[child];
        order[child] = swap;
        root = child;
    }
}

void crn_policy_order(const struct crn_policy *policy, const struct crn_io_queue *q,
                      double *scratch, size_t *ret_order)
{
    size_t i;

    if (q->n == 0)
        return;
    policy->score(q, scratch);
    for (i = 0; i < q->n; i++)
        ret_order[i] = i;
    for (i = q->n / 2; i-- > 0;)
        policy_sift(q, scratch, ret_order, i, q->n);
    for (i = q->n; i-- > 1;) {
        size_t swap = ret_order[0];

        ret_order[0] = ret_order[i];
        ret_order[i] = swap;
        policy_sift(q, scratch, ret_order, 0, i);
    }
}
