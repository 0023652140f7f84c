/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects unreachable nodes. A flush has no deadline: a slow or full disk, or a long wait for a
 * turn, is not a failure. A node that stays silent is one: its machine, switch or cable is gone,
 * and MPI reports nothing. So while checkpoints are in progress, each node sends ALIVE to the first
 * node, and the first node to all, several times within commit_timeout. A node silent for longer
 * fails the checkpoints that depend on it, on both sides of the cut. On the loop thread. */
#include <string.h>

#include "service/job.h"

#define SECOND     1000000000LL
#define PER_PERIOD 8 /* ALIVE messages per commit_timeout, but at most one a second */

/* Longer than commit_timeout, so that a late rank is reported first, and so that with a short
 * commit_timeout a briefly descheduled loop does not count as a failure. */
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

/* First node: fails the checkpoint if a node that has captured it stays silent too long. */
static void check_nodes(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (item->is_decided || item->count[CRN_NODE_DATA] == job->files)
        return; /* all data files are durable: the nodes are done */
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

/* Other nodes: end the checkpoint if the first node stays silent too long. */
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
    job->decided[job->ndecided++ % 64] = item->seq + 1; /* its decision may still arrive */
    crn_job_message(job, NULL, &end, -1);
}

void crn_alive_tick(struct crn_job *job, int64_t now_ns)
{
    struct crn_item *item;
    struct crn_item *next;
    int64_t period =
        /* ticks come once a second */
        (int64_t)job->cfg.commit_timeout_ns / PER_PERIOD - SECOND / 2;

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
