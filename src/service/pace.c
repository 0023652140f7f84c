/* SPDX-License-Identifier: BSD-3-Clause */
/* Throttling of flushes. A flush that nobody waits for is calm: it leaves memory bandwidth, network
 * and disks to the application. It uses a small share of the memory bandwidth that captures have
 * measured, or more if it would otherwise need more than half the time between two checkpoints. As
 * soon as anybody waits, on any node, it runs at full speed. That is the case for cairn_wait,
 * cairn_close, a capture that needs its slot, a newer checkpoint, a rank that has left, and jobs
 * that take turns. On the loop thread. */
#include <string.h>

#include "service/job.h"

#define CALM_SHARE 100                      /* one hundredth of the memory bandwidth */
#define CALM_MIN   ((double)(256ULL << 20)) /* too little to slow down any application */

void crn_pace_begin(struct crn_job *job, int64_t now_ns)
{
    job->captured_ns = now_ns;
}

void crn_pace_part(struct crn_item *item, uint64_t bytes, uint64_t copy_ns)
{
    item->local_bytes += bytes;
    if (copy_ns == 0)
        return;
    item->copied_bytes += bytes;
    item->copy_ns = copy_ns > item->copy_ns ? copy_ns : item->copy_ns;
}

/* All ranks copy at the same time, so the longest copy determines the bandwidth of the node. */
void crn_pace_captured(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    double rate = item->copy_ns > 0 ? (double)item->copied_bytes * 1e9 / (double)item->copy_ns : 0;

    job->copy_rate = rate > job->copy_rate ? rate : job->copy_rate;
    item->interval_ns = now_ns - job->captured_ns;
    job->captured_ns = now_ns;
}

void crn_pace_want(struct crn_job *job, uint64_t seq)
{
    struct crn_msg n = {.type = CRN_MSG_NODE_WANTED, .seq = seq, .node = job->node};

    if (seq <= job->told_wanted)
        return;
    job->told_wanted = seq;
    memcpy(n.run, job->run, 16);
    crn_service_tell(job->svc, job->peers[CRN_ROOT], &n);
}

void crn_pace_hurry(struct crn_job *job, uint64_t seq)
{
    job->wanted = seq > job->wanted ? seq : job->wanted;
}

/* The only checkpoint that this node has to flush; NULL if there is none, or if a newer one has
 * started. */
static const struct crn_item *only_one(const struct crn_job *job)
{
    const struct crn_item *found = NULL;
    const struct crn_item *item;

    for (item = job->items; item != NULL; item = item->next) {
        if (item->state >= CRN_ITEM_FLUSHED)
            continue;
        if (found != NULL || item->state == CRN_ITEM_CAPTURING)
            return NULL;
        found = item;
    }
    return found;
}

/* Bytes per second of a calm flush; 0: unlimited. A leader writes the data of its whole group. */
static uint64_t calm_rate(const struct crn_job *job, const struct crn_item *item)
{
    uint64_t members = (job->nodes + job->files - 1) / job->files;
    uint64_t copies = members + (job->cfg.local[0] != '\0');
    double bytes = (double)item->local_bytes * (double)copies;
    double calm = job->copy_rate / CALM_SHARE;
    double due;

    if (job->cfg.calm_bandwidth != 0)
        return job->cfg.calm_bandwidth;
    if (job->copy_rate <= 0 || item->interval_ns <= 0)
        return 0;
    due = 2 * bytes * 1e9 / (double)item->interval_ns; /* within half the interval */
    calm = calm > CALM_MIN ? calm : CALM_MIN;
    return (uint64_t)(due > calm ? due : calm);
}

/* Does anybody wait for this flush: a rank on any node, the end of the service, or other jobs that
 * want the turn? Once a rank has left, the application needs no consideration. */
static int is_awaited(const struct crn_job *job, const struct crn_item *item)
{
    return item->seq <= job->wanted || job->nleft > 0 || atomic_load(&job->svc->is_closed) ||
           job->cfg.broker[0] != '\0';
}

void crn_pace(struct crn_job *job, int64_t now_ns)
{
    const struct crn_item *item = only_one(job);
    int is_calm = item != NULL && !is_awaited(job, item);

    crn_gate_calm(&job->gate, is_calm ? calm_rate(job, item) : 0, now_ns);
}
