/* SPDX-License-Identifier: BSD-3-Clause */
/* The advice is a question that an application asks in every step. All ranks must get the same
 * answer, which takes an allreduce; so they agree only in every n-th call and answer "no" in
 * between. All derive the same n from what they agreed on last: as few agreements as cost a
 * thousandth of the time, but at least one in half a second of the slowest rank's steps. */
#include <string.h>

#include "client/session.h"

#define SHARE      1000         /* an agreement may cost this fraction of the time */
#define LATEST_NS  500000000LL  /* between two agreements, if the steps stay as they are */
#define UNKNOWN_NS 5000000000LL /* the same, before the first step was measured */
#define LONGEST_NS (86400 * 1000000000LL)
#define MOST_CALLS (1ULL << 20)
#define GROWTH     4 /* n grows by this factor at most: one short step proves little */

int crn_agree_is_due(cairn_session *s, const char *name, struct crn_pace_of **ret)
{
    struct crn_pace_of *p = s->advice.pace;
    struct crn_pace_of *end = p + CRN_PACES;

    name = name != NULL ? name : "";
    while (p < end && p->is_used && strcmp(p->name, name) != 0)
        p++;
    *ret = p < end ? p : NULL; /* more names than places: they agree in every call */
    if (p == end)
        return 1;
    if (!p->is_used) {
        p->is_used = 1;
        p->every = 1;
        memcpy(p->name, name, strlen(name) + 1);
    }
    return ++p->calls >= p->every;
}

/* The number of calls until the next agreement. */
static uint64_t choose_every(uint64_t before, int64_t cost_ns, int64_t step_ns)
{
    uint64_t few = step_ns > 0 ? (uint64_t)(cost_ns * SHARE / step_ns + 1) : MOST_CALLS;
    uint64_t often = step_ns > 0 ? (uint64_t)(LATEST_NS / step_ns) : MOST_CALLS;
    uint64_t n = few < often ? few : often;

    n = n < before * GROWTH ? n : before * GROWTH;
    n = n < MOST_CALLS ? n : MOST_CALLS;
    return n > 0 ? n : 1;
}

cairn_err crn_agree_now(cairn_session *s, int64_t begin_ns, struct crn_pace_of *p, int64_t *values,
                        int n, struct crn_errinfo *ei)
{
    int64_t *step = &values[n - CRN_PACE_VALUES];
    int64_t *gain = step + 1;
    int64_t took;
    cairn_err rc;

    /* The longest step of all ranks, but the shortest allreduce: the last rank to come waits for
     * nobody, so only its time is what the agreement costs. */
    *step =
        p != NULL && p->agreed_ns != 0 ? (begin_ns - p->agreed_ns) / (int64_t)p->calls : INT64_MAX;
    *gain = p != NULL ? -p->cost_ns : 0;
    rc = s->comm->ops->allreduce(s->comm, values, n, CRN_COMM_MAX, ei);
    if (p == NULL || rc != CAIRN_OK)
        return rc;
    p->agreed_ns = s->clock->mono_ns(s->clock);
    took = p->agreed_ns - begin_ns;
    /* Follows the shortest: a rank that was not scheduled for a while says nothing of the cost. */
    p->cost_ns =
        p->cost_ns == 0 || took < p->cost_ns ? took : p->cost_ns + (took - p->cost_ns) / 16;
    p->calls = 0;
    p->every = choose_every(p->every, -*gain, *step);
    return CAIRN_OK;
}

int64_t crn_agree_ns(const struct crn_pace_of *p, int64_t step_ns)
{
    int64_t every = p != NULL ? (int64_t)p->every : 1;

    if (step_ns == INT64_MAX)
        return UNKNOWN_NS;
    return step_ns < LONGEST_NS / every ? step_ns * every : LONGEST_NS;
}
