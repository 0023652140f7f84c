/* SPDX-License-Identifier: BSD-3-Clause */
/* Before the data: who leads a group, which members assist, and when the leader can start. A
 * follower describes its sources to the leader, which starts when all have. A leader that is done
 * may be sent to assist another one. */
#include "node/core.h"

#include <errno.h>
#include <string.h>

uint32_t crn_node_group_first(const struct crn_node *n)
{
    uint32_t g = crn_elect_group_of(n->set.node, n->set.nodes, n->set.files);

    return crn_elect_group_first(g, n->set.nodes, n->set.files);
}

uint32_t crn_node_group_size(const struct crn_node *n)
{
    uint32_t g = crn_elect_group_of(n->set.node, n->set.nodes, n->set.files);

    return crn_elect_group_first(g + 1, n->set.nodes, n->set.files) - crn_node_group_first(n);
}

/* Offers help to the leader of a group. */
static void group_offer(struct crn_node *n, struct crn_item *item, uint32_t leader)
{
    if (item->is_assisting)
        return;
    item->assisted = leader;
    (void)crn_act_send(n, leader, item, CRN_MSG_HELP);
}

/* Every member elects the same leader and assistants from the sizes in GO. */
static void group_elect(const struct crn_node *n, struct crn_item *item, uint32_t leaders)
{
    uint32_t size = crn_node_group_size(n);
    uint32_t i;

    item->leader = crn_node_group_first(n) + crn_elect(item->member_bytes, size);
    for (i = 0; i < size && crn_item_takes_help(n, item); i++)
        item->assists[i + 1] =
            (unsigned char)crn_elect_is_among(item->member_bytes, size, i, leaders);
}

void crn_group_begin(struct crn_node *n, struct crn_item *item, const struct crn_msg *go)
{
    struct crn_view v = crn_view_of(go->go.sizes.data, go->go.sizes.bytes);
    uint32_t size = crn_node_group_size(n);
    uint32_t me = n->set.node - crn_node_group_first(n);
    struct crn_errinfo e = {0};
    uint32_t i;

    for (i = 0; i < size; i++)
        item->member_bytes[i] = crn_view_u64(&v);
    if (v.failed) {
        (void)!crn_fail(&e, CAIRN_EDAMAGED, 0, "node %u received an invalid GO", n->set.node);
        crn_item_fail(n, item, &e);
        return;
    }
    crn_item_move(&item->state, CRN_ITEM_GO);
    group_elect(n, item, go->go.leaders);
    crn_act(n, CRN_ACT_BEGIN, item)->number = go->go.base;
    if (item->leader != n->set.node) {
        (void)crn_act_work(n, item, CRN_WORK_SERVE);
        if (item->assists[me + 1])
            group_offer(n, item, item->leader);
    } else if (item->nmissing == 0) {
        (void)crn_act_work(n, item, CRN_WORK_FLUSH);
    }
}

uint32_t crn_node_newcomer(const struct crn_node *n, const struct crn_item *item, uint32_t node)
{
    uint32_t member = node - crn_node_group_first(n);

    if (node < crn_node_group_first(n) || member >= crn_node_group_size(n) || node == n->set.node ||
        item->has_come[member] || crn_item_has_ended(item->state))
        return UINT32_MAX;
    return member;
}

void crn_group_shards(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    uint32_t member = crn_node_newcomer(n, item, m->node);

    if (member == UINT32_MAX)
        return;
    item->has_come[member] = 1;
    item->nmissing--;
    item->nlent += m->shards.is_lent != 0;
    if (item->state == CRN_ITEM_FLUSHING && item->leader == n->set.node && item->nmissing == 0)
        (void)crn_act_work(n, item, CRN_WORK_FLUSH);
}

void crn_group_served(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    struct crn_msg *m;

    if (crn_item_has_ended(item->state))
        return;
    if (r->error->code != CAIRN_OK) {
        crn_item_fail(n, item, r->error);
        return;
    }
    m = crn_act_send(n, item->leader, item, CRN_MSG_SHARDS);
    m->shards.is_lent = r->number != 0;
    m->shards.shards = r->shards;
}

/* Tells the root that a leader sent to help is idle again. */
static void tell_idle(struct crn_node *n, struct crn_item *item)
{
    if (item->leader == n->set.node && !crn_item_has_ended(item->state))
        crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_IDLE)->leader.node = item->assisted;
}

void crn_group_rerouted(struct crn_node *n, struct crn_item *item, uint32_t leader)
{
    if (leader < n->set.nodes && item->state == CRN_ITEM_FLUSHED)
        group_offer(n, item, leader);
}

void crn_group_file(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    if (item->is_assisting || m->node != item->assisted || crn_item_has_ended(item->state))
        return;
    if (m->file.name[0] == '\0') { /* no help is wanted */
        tell_idle(n, item);
        return;
    }
    item->is_assisting = 1;
    (void)crn_act_work(n, item, CRN_WORK_ASSIST);
}

void crn_group_assisted(struct crn_node *n, struct crn_item *item)
{
    item->is_assisting = 0;
    tell_idle(n, item);
}
