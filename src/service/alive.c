/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is out of reach. A flush takes as long as it takes: a slow disk, a full one, a turn that does not
 * come are no failures. A node that cannot be heard is one: its machine, its switch or its cable is
 * gone, and MPI tells nobody. So, while checkpoints are on their way, each node tells the first one,
 * and the first one all, that it is there, several times within commit_timeout; who is silent for
 * longer than that fails what depends on him, on both sides of the cut. On the loop thread. */
#include <string.h>

#include "service/job.h"

#define SECOND 1000000000LL
#define PER_PERIOD                                                                                 \
    8 /* times that a node is heard within commit_timeout, but every second at most */

/* A rank that is late is named after commit_timeout, so that comes first; and with a short one a loop
 * that is not run for a moment is no failure. */
static int64_t patience(const struct crn_job *job)
{
    return (int64_t)job->cfg.commit_timeout_ns / 4 * 5 + 3 * SECOND;
}

void crn_alive_heard(struct crn_job *job, uint32_t node, int64_t now_ns)
{
    if (node < job->nodes)
        job->heard_ns[node] = now_ns;
}

static int is_waiting(const struct crn_job *job)
{
    const struct crn_item *item = job->items;

    while (item != NULL &&
           (job->node == CRN_ROOT ? item->is_decided : item->state == CRN_ITEM_ENDED))
        item = item->next;
    return item != NULL;
}

static void say_alive(struct crn_job *job)
{
    struct crn_msg n = {.type = CRN_MSG_ALIVE, .node = job->node};
    uint32_t i;

    memcpy(n.run, job->run, 16);
    if (job->node != CRN_ROOT)
        crn_service_tell(job->svc, job->peers[CRN_ROOT], &n);
    else
        for (i = 1; i < job->nodes; i++)
            crn_service_tell(job->svc, job->peers[i], &n);
}

/* The first node misses one that has captured its part and has not been heard since. */
static void check_nodes(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (item->is_decided || item->count[CRN_NODE_DATA] == job->files)
        return; /* the nodes have done their part */
    for (i = 1; i < job->nodes; i++) {
        if (item->progress[i] == CRN_NODE_NONE || now_ns - job->heard_ns[i] <= patience(job))
            continue;
        (void)!crn_fail(
            &e, CAIRN_EPEER, 0,
            "node %u has not been heard for commit_timeout: its host or network is down", i);
        crn_root_decide(job, item, &e, 0);
        return;
    }
}

/* A node misses the first one, which ends what it has begun. */
static void check_root(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    struct crn_msg end;
    int64_t since =
        item->since_ns > job->heard_ns[CRN_ROOT] ? item->since_ns : job->heard_ns[CRN_ROOT];

    if (item->state == CRN_ITEM_ENDED || now_ns - since <= patience(job) ||
        (item->state == CRN_ITEM_CAPTURING && item->deadline_ns != INT64_MAX))
        return;
    crn_item_msg(job, item, CRN_MSG_END, &end);
    (void)!crn_fail(
        &end.end.error, CAIRN_EPEER, 0,
        "node 0 has not been heard for commit_timeout: its host or network, or ours, is "
        "down; whether it was committed is not known here");
    item->is_cut_off = 1;
    job->decided[job->ndecided++ % 64] = item->seq + 1; /* its own word on it may come late */
    crn_job_message(job, NULL, &end, -1);
}

void crn_alive_tick(struct crn_job *job, int64_t now_ns)
{
    struct crn_item *item;
    struct crn_item *next;
    int64_t period =
        (int64_t)job->cfg.commit_timeout_ns / PER_PERIOD - SECOND / 2; /* ticks come every second */

    if (job->nodes == 1)
        return;
    if (is_waiting(job) && now_ns - job->told_ns >= period) {
        job->told_ns = now_ns;
        say_alive(job);
    }
    for (item = job->items; item != NULL; item = next) {
        next = item->next;
        if (job->node == CRN_ROOT)
            check_nodes(job, item, now_ns);
        else
            check_root(job, item, now_ns);
    }
}
