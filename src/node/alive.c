/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects unreachable nodes. A flush has no deadline: a slow or full disk, or a long wait for a
 * turn, is not a failure. A node that stays silent is one: its machine, switch or cable is gone,
 * and MPI reports nothing. So while checkpoints are in progress, each node sends ALIVE to the first
 * node, and the first node to all, several times within commit_timeout. A node silent for longer
 * fails the checkpoints that depend on it, on both sides of the cut. */
#include "node/core.h"

#define SECOND     1000000000LL
#define PER_PERIOD 8 /* ALIVE messages per commit_timeout, but at most one a second */

/* Longer than commit_timeout, so that a late rank is reported first, and so that with a short
 * commit_timeout a briefly descheduled loop does not count as a failure. */
static int64_t alive_patience(const struct crn_node *n)
{
    return (int64_t)n->set.cfg->commit_timeout_ns / 4 * 5 + 3 * SECOND;
}

/* Does another node wait for news of it? */
static int is_open(const struct crn_item *item)
{
    const struct crn_root_item *root = item->root;

    if (root == NULL)
        return !crn_item_has_ended(item->state);
    return !crn_root_has_decided(root->state) || root->look == CRN_LOOK_RUNS;
}

static int is_waiting(const struct crn_node *n)
{
    const struct crn_item *item = n->items;

    while (item != NULL && !is_open(item))
        item = item->next;
    return item != NULL;
}

static void say_alive(struct crn_node *n)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SEND, NULL);

    a->msg = crn_node_plain(n, CRN_MSG_ALIVE, 0);
    a->first = n->set.node == CRN_ROOT ? 1 : CRN_ROOT;
    a->end = n->set.node == CRN_ROOT ? n->set.nodes : CRN_ROOT + 1;
}

/* First node: fails the checkpoint if a node that has captured it stays silent too long. */
static void check_nodes(struct crn_node *n, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (!crn_root_may(item->root->state, CRN_ROOT_FAIL))
        return; /* decided, or all data files are durable: the nodes are done */
    for (i = 1; i < n->set.nodes; i++) {
        if (item->root->has[i] == 0 || n->now_ns - n->heard_ns[i] <= alive_patience(n))
            continue;
        (void)!crn_fail(&e, CAIRN_EPEER, 0,
                        "node %u was silent for commit_timeout: its host or network is down", i);
        crn_root_fail(n, item, &e);
        return;
    }
}

/* Other nodes: end the checkpoint if the first node stays silent too long. */
static void check_root(struct crn_node *n, struct crn_item *item)
{
    int64_t heard_ns = n->heard_ns[CRN_ROOT];
    int64_t since_ns = item->since_ns > heard_ns ? item->since_ns : heard_ns;
    struct crn_errinfo e = {0};

    if (crn_item_has_ended(item->state) || n->now_ns - since_ns <= alive_patience(n) ||
        (item->state == CRN_ITEM_CAPTURING && item->deadline_ns != INT64_MAX))
        return;
    (void)!crn_fail(&e, CAIRN_EPEER, 0,
                    "node 0 was silent for commit_timeout: its host or network, or ours, is "
                    "down; whether it was committed is not known here");
    crn_item_fail(n, item, &e);        /* the root may hear us again, and would wait for us */
    crn_node_note_ended(n, item->seq); /* its decision may still arrive */
    crn_item_end(n, item, CRN_ITEM_CUT, &e, 0);
}

void crn_alive_tick(struct crn_node *n)
{
    /* ticks come once a second */
    int64_t period = (int64_t)n->set.cfg->commit_timeout_ns / PER_PERIOD - SECOND / 2;
    struct crn_item *item;

    if (n->set.nodes == 1)
        return;
    if (is_waiting(n) && n->now_ns - n->told_ns >= period) {
        n->told_ns = n->now_ns;
        say_alive(n);
    }
    for (item = n->items; item != NULL; item = item->next)
        if (item->root != NULL)
            check_nodes(n, item);
        else
            check_root(n, item);
}
