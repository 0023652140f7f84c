/* SPDX-License-Identifier: BSD-3-Clause */
/* Throttling of flushes. A flush that nobody waits for is calm: it leaves memory bandwidth, network
 * and disks to the application. It uses a small share of the memory bandwidth that captures have
 * measured, or more if it would otherwise take too long: until the commit a lost node loses the version,
 * so of P, the time between two checkpoints, it takes at most a tenth, which adds P/10 to the P/2 that a
 * failure costs on average. A version that other nodes protect may take half of P. As
 * soon as anybody waits, on any node, it runs at full speed. That is the case for cairn_wait,
 * cairn_close, a capture that needs its slot, a newer checkpoint, a rank that has left, and jobs
 * that take turns. */
#include "node/core.h"

#define CALM_SHARE    100                      /* one hundredth of the memory bandwidth */
#define DUE           0.1                      /* of the time between two checkpoints */
#define DUE_PROTECTED 0.5                      /* if the nodes protect it */
#define CALM_MIN      ((double)(256ULL << 20)) /* too little to slow down any application */

void crn_pace_part(struct crn_item *item, uint64_t bytes, uint64_t copy_ns)
{
    item->local_bytes += bytes;
    if (copy_ns == 0)
        return;
    item->copied_bytes += bytes;
    item->copy_ns = copy_ns > item->copy_ns ? copy_ns : item->copy_ns;
}

/* All ranks copy at the same time, so the longest copy determines the bandwidth of the node. */
void crn_pace_captured(struct crn_node *n, struct crn_item *item)
{
    double rate = item->copy_ns > 0 ? (double)item->copied_bytes * 1e9 / (double)item->copy_ns : 0;

    n->copy_rate = rate > n->copy_rate ? rate : n->copy_rate;
    item->interval_ns = n->now_ns - n->captured_ns;
    n->captured_ns = n->now_ns;
}

void crn_pace_want(struct crn_node *n, uint64_t seq)
{
    struct crn_action *a;

    if (seq <= n->told_wanted)
        return;
    n->told_wanted = seq;
    a = crn_act(n, CRN_ACT_SEND, NULL);
    a->first = CRN_ROOT;
    a->end = CRN_ROOT + 1;
    a->msg = crn_node_plain(n, CRN_MSG_NODE_WANTED, seq);
}

void crn_pace_hurry(struct crn_node *n, uint64_t seq)
{
    n->wanted = seq > n->wanted ? seq : n->wanted;
}

/* The only checkpoint that this node has to flush; NULL if there is none, or if a newer one has
 * started. */
static const struct crn_item *only_one(const struct crn_node *n)
{
    const struct crn_item *found = NULL;
    const struct crn_item *item;

    for (item = n->items; item != NULL; item = item->next) {
        if (item->state >= CRN_ITEM_FLUSHED || item->is_held)
            continue;
        if (found != NULL || item->state == CRN_ITEM_CAPTURING)
            return NULL;
        found = item;
    }
    return found;
}

/* Bytes per second of a calm flush; 0: unlimited. A leader writes the data of its whole group. */
static uint64_t calm_rate(const struct crn_node *n, const struct crn_item *item)
{
    const struct crn_config *cfg = n->set.cfg;
    uint64_t members = (n->set.nodes + n->set.files - 1) / n->set.files;
    uint64_t copies = members + (cfg->local[0] != '\0');
    double bytes = (double)item->local_bytes * (double)copies;
    double share = crn_level_has(item->levels, CAIRN_PROTECTED) ? DUE_PROTECTED : DUE;
    double calm = n->copy_rate / CALM_SHARE;
    double due;

    if (cfg->calm_bandwidth != 0)
        return cfg->calm_bandwidth;
    if (n->copy_rate <= 0 || item->interval_ns <= 0)
        return 0;
    due = bytes * 1e9 / ((double)item->interval_ns * share);
    calm = calm > CALM_MIN ? calm : CALM_MIN;
    return (uint64_t)(due > calm ? due : calm);
}

/* Does anybody wait for this flush: a rank on any node, the end of the service, or other jobs that
 * want the turn? Once a rank has left, the application needs no consideration. */
static int is_awaited(const struct crn_node *n, const struct crn_item *item, int is_closing)
{
    return item->seq <= n->wanted || n->nleft > 0 || is_closing || n->set.cfg->broker[0] != '\0';
}

uint64_t crn_node_calm_rate(const struct crn_node *n, int is_closing)
{
    const struct crn_item *item = only_one(n);

    return item != NULL && !is_awaited(n, item, is_closing) ? calm_rate(n, item) : 0;
}
