/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint in flight on a node: created with the first message about it; ended once; its slots
 * are released when no worker and no transfer uses them; it retires, and is freed, when every rank
 * knows the outcome. */
#include "node/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Creation. ------------------------------------------------------------------------------------ */

void crn_item_free(struct crn_item *item)
{
    struct crn_root_item *root = item->root;

    if (root != NULL) {
        free(root->node_bytes);
        free(root->node_wrote);
        free(root->has);
        free(root->groups);
        crn_buf_free(&root->sizes);
    }
    free(root);
    free(item->part);
    free(item->member_bytes);
    free(item->has_come);
    free(item->assists);
    free(item->streams);
    free(item->shell);
    free(item);
}

static struct crn_root_item *root_item_new(const struct crn_node *n)
{
    struct crn_root_item *root = calloc(1, sizeof(*root));

    if (root == NULL)
        return NULL;
    root->base_version = -1;
    root->node_bytes = calloc(n->set.nodes, sizeof(*root->node_bytes));
    root->node_wrote = calloc(n->set.nodes, sizeof(*root->node_wrote));
    root->has = calloc(n->set.nodes, 1);
    root->groups = calloc(n->set.files, sizeof(*root->groups));
    return root;
}

static int is_whole(const struct crn_item *item, int is_root)
{
    const struct crn_root_item *root = item->root;

    return item->part != NULL && item->member_bytes != NULL && item->has_come != NULL &&
           item->assists != NULL && item->shell != NULL &&
           (!is_root || (root != NULL && root->node_bytes != NULL && root->node_wrote != NULL &&
                         root->has != NULL && root->groups != NULL));
}

static struct crn_item *item_new(const struct crn_node *n)
{
    uint32_t members = crn_node_group_size(n);
    struct crn_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return NULL;
    item->part = calloc(n->set.nlocal, sizeof(*item->part));
    item->member_bytes = calloc(members, sizeof(*item->member_bytes));
    item->has_come = calloc(members, 1);
    item->assists = calloc((size_t)members + 1, 1);
    item->shell = calloc(1, n->set.shell_bytes);
    if (n->set.nmembers > 0)
        item->streams = calloc(1, sizeof(*item->streams));
    if (n->set.node == CRN_ROOT)
        item->root = root_item_new(n);
    item->nmissing = members - 1;
    item->leader = item->assisted = UINT32_MAX;
    if (is_whole(item, n->set.node == CRN_ROOT) && (n->set.nmembers == 0 || item->streams != NULL))
        return item;
    crn_item_free(item);
    return NULL;
}

struct crn_item *crn_item_get(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item = crn_node_find(n, m->seq);
    struct crn_item **link = &n->items;

    if (item != NULL)
        return item;
    item = crn_node_reserve(n) == 0 ? item_new(n) : NULL;
    if (item == NULL)
        return NULL;
    item->seq = m->seq;
    memcpy(item->name, m->ckpt.name, sizeof(item->name));
    item->generation = crn_claim_generation(n, item->name);
    item->version = m->ckpt.version;
    item->created_ns = m->ckpt.created_ns;
    item->since_ns = n->now_ns;
    item->deadline_ns = n->now_ns + (int64_t)n->set.cfg->commit_timeout_ns;
    if (item->root != NULL &&
        crn_node_was_ended(n, item->seq)) /* a restarted node reports it again */
        crn_root_move(&item->root->state, CRN_ROOT_FAIL);
    while (*link != NULL && (*link)->seq < item->seq)
        link = &(*link)->next;
    item->next = *link;
    *link = item;
    return item;
}

int crn_item_takes_help(const struct crn_node *n, const struct crn_item *item)
{
    uint64_t encode = crn_config_name(n->set.cfg, item->name)->encode;

    return encode == CRN_ENCODE_NONE || encode == CRN_ENCODE_AUTO;
}

void crn_item_tell_ranks(struct crn_node *n, struct crn_item *item, uint64_t committed_ns,
                         const struct crn_errinfo *error)
{
    struct crn_action *a = crn_act(n, CRN_ACT_TELL, item);

    a->end = n->set.nlocal;
    crn_node_msg(n, item, CRN_MSG_STATE, &a->msg);
    a->msg.state.levels = item->levels;
    a->msg.state.error = *error;
    a->msg.state.committed_ns = committed_ns;
}

void crn_item_fail(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *e)
{
    if (!crn_item_has_ended(item->state))
        crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_FAILED)->failed.error = *e;
}

/* The end. ------------------------------------------------------------------------------------- */

/* Captures that all ranks were promised are kept: if the job dies too, the next start flushes them.
 * A node that is cut off, or restarted, does not know whether all have captured. Captures that the
 * ranks replaced are not kept. */
static enum crn_outcome outcome_of(const struct crn_item *item, int is_cut_off)
{
    if (item->error.code == CAIRN_OK)
        return CRN_OUT_FLUSHED;
    if (item->error.code == CAIRN_ECANCELED ||
        (!crn_level_has(item->levels, CAIRN_CAPTURED) && !is_cut_off && item->promised == 0))
        return CRN_OUT_FAILED;
    return CRN_OUT_KEPT;
}

static void settle_range(struct crn_node *n, struct crn_item *item, uint32_t first, uint32_t end)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SETTLE, item);
    uint32_t i;

    a->first = first;
    a->end = end;
    a->outcome = outcome_of(item, item->state == CRN_ITEM_CUT_OFF);
    for (i = first; i < end; i++)
        item->part[i].is_settled = 1;
}

/* A settled slot may contain a later capture by now. */
static int is_open(const struct crn_part *p)
{
    return p->is_captured && !p->is_settled;
}

static void item_settle(struct crn_node *n, struct crn_item *item)
{
    uint32_t first, end;

    for (first = 0; first < n->set.nlocal; first = end) {
        for (end = first; end < n->set.nlocal && is_open(&item->part[end]); end++)
            ;
        if (end > first)
            settle_range(n, item, first, end);
        else
            end++;
    }
}

/* Lets an ended item go once no rank can send news of it. */
static void let_go(struct crn_node *n, struct crn_item *item)
{
    struct crn_item **link = &n->items;
    uint64_t is_cut_off;
    uint32_t i;

    for (i = 0; i < n->set.nlocal; i++)
        if (!item->part[i].is_settled && !n->has_left[i] && !crn_adopt_is_silent(n, item, i))
            return;
    if (crn_item_may(item->state, CRN_ITEM_RETIRE)) {
        is_cut_off = item->state == CRN_ITEM_CUT_OFF;
        crn_item_move(&item->state, CRN_ITEM_RETIRE);
        crn_act_work(n, item, CRN_WORK_RETIRE)->number = is_cut_off;
    }
    if (item->state != CRN_ITEM_GONE)
        return;
    while (*link != NULL && *link != item)
        link = &(*link)->next;
    if (*link == NULL)
        return;
    *link = item->next;
    (void)crn_act(n, CRN_ACT_FREE, item);
}

void crn_item_touch(struct crn_node *n, struct crn_item *item)
{
    if (!crn_item_has_ended(item->state) || item->users > 0)
        return; /* workers or transfers still read the slots */
    item_settle(n, item);
    let_go(n, item);
}

void crn_item_end(struct crn_node *n, struct crn_item *item, enum crn_item_event event,
                  const struct crn_errinfo *error, uint64_t committed_ns)
{
    struct crn_action *a;

    if (!crn_item_may(item->state, event))
        return; /* it has ended already */
    crn_item_move(&item->state, event);
    item->error = *error;
    if (error->code == CAIRN_OK)
        item->levels |= crn_level_set(CAIRN_PERSISTENT);
    a = crn_act(n, CRN_ACT_ENDED, item);
    a->outcome = outcome_of(item, event == CRN_ITEM_CUT);
    a->number = item->users;
    a->first = event == CRN_ITEM_CUT;
    if (item->users == 0)
        item_settle(n, item);
    crn_item_tell_ranks(n, item, committed_ns, &item->error);
    crn_item_touch(n, item);
}

void crn_item_tell_rank(struct crn_node *n, struct crn_item *item, uint32_t local)
{
    struct crn_action *a = crn_act(n, CRN_ACT_TELL, item);

    a->first = local;
    a->end = local + 1;
    crn_node_msg(n, item, CRN_MSG_STATE, &a->msg);
    a->msg.state.levels = item->levels;
    a->msg.state.error = item->error;
}

void crn_item_too_late(struct crn_node *n, struct crn_item *item, uint32_t local)
{
    if (item->users == 0 && !item->part[local].is_settled)
        settle_range(n, item, local, local + 1);
    crn_item_tell_rank(n, item, local);
    crn_item_touch(n, item);
}

void crn_node_note_ended(struct crn_node *n, uint64_t seq)
{
    n->ended[n->nended++ % CRN_NODE_RING] = seq + 1;
}

int crn_node_was_ended(const struct crn_node *n, uint64_t seq)
{
    uint32_t i;

    for (i = 0; i < CRN_NODE_RING; i++)
        if (n->ended[i] == seq + 1)
            return 1;
    return 0;
}
