/* SPDX-License-Identifier: BSD-3-Clause */
/* A restarted service takes over a job whose ranks still run (service/takeover.c). The ranks report
 * their captures again, as if for the first time; but the dead service may have committed them:
 *
 *   node   NODE_ASKS to the root, with the first report of a capture that the dead service knew
 *   root   its keeper looks for the capture in the store. If it is there, or no longer wanted, END
 *          goes to all nodes. If not, the checkpoint continues when all nodes have captured it. */
#include "node/core.h"

#include <string.h>

void crn_node_rejoined(struct crn_node *n, uint32_t local, uint32_t rank, uint64_t seq)
{
    crn_node_joined(n, local, rank);
    n->said[local] = seq;
}

int crn_node_has_left(const struct crn_node *n, uint32_t local)
{
    return n->has_left[local];
}

void crn_node_granted(struct crn_node *n, const char *name, uint64_t generation)
{
    struct crn_item *item;

    crn_claim_granted(n, name, generation);
    for (item = n->items; item != NULL; item = item->next)
        if (item->generation == 0 && strcmp(item->name, name) == 0)
            item->generation = generation;
}

int crn_adopt_is_silent(const struct crn_node *n, const struct crn_item *item, uint32_t local)
{
    return item->seq <= n->said[local] && !item->part[local].is_captured;
}

/* All that it can have reached. */
static uint64_t promised_levels(const struct crn_node *n, const struct crn_item *item)
{
    uint64_t levels = crn_level_set(CAIRN_CAPTURED);

    if (n->set.cfg->local[0] != '\0')
        levels |= crn_level_set(CAIRN_LOCAL);
    if (item->protect != 0 ||
        crn_scheme_fits(crn_node_scheme(n->set.cfg, item->name), n->set.nmembers))
        levels |= crn_level_set(CAIRN_PROTECTED);
    return levels;
}

void crn_adopt_captured(struct crn_node *n, struct crn_item *item, uint32_t local)
{
    if (item->seq > n->said[local] || item->promised != 0)
        return;
    item->promised = promised_levels(n, item);
    crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_ASKS)->asks.generation = item->generation;
}

void crn_adopt_asked(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item;

    crn_node_granted(n, m->ckpt.name, m->asks.generation);
    item = crn_item_get(n, m);
    if (item == NULL || item->root->look == CRN_LOOK_RUNS ||
        (item->root->look == CRN_LOOK_DONE && !crn_root_has_decided(item->root->state)))
        return; /* without memory: the node's report fails it */
    item->root->look = CRN_LOOK_RUNS;
    (void)crn_act_work(n, item, CRN_WORK_LOOK);
}

/* A node may ask when the others know the end already: tell all of them again. */
static void tell_again(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *error,
                       uint64_t committed_ns)
{
    struct crn_msg *end = crn_act_send_all(n, item, CRN_MSG_END);

    end->end.error = *error;
    end->end.committed_ns = committed_ns;
}

void crn_adopt_looked(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    struct crn_errinfo e = *r->error;
    int is_over = crn_node_was_ended(n, item->seq);

    item->root->look = CRN_LOOK_DONE;
    if (e.code == CAIRN_OK && r->number == 0 && item->root->verdict.code != CAIRN_OK)
        e = item->root->verdict;
    if (e.code == CAIRN_OK && r->number == 0) {
        if (!is_over)
            return; /* as usual, when all nodes have captured it */
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "it had failed before a node reported it");
    }
    if (!is_over && e.code == CAIRN_OK) {
        crn_root_found(n, item, r->number);
    } else if (!is_over) {
        crn_root_fail(n, item, &e);
    } else {
        tell_again(n, item, &e, r->number);
    }
}
