/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a node report: captures, failures, and their end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/core.h"

/* Fails a checkpoint that waits for a rank that has left. */
static void fail_if_left(struct crn_node *n, struct crn_item *item)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    if (item->state != CRN_ITEM_CAPTURING)
        return;
    for (i = 0; i < n->set.nlocal; i++) {
        if (!n->has_left[i] || item->part[i].is_captured || item->part[i].is_settled ||
            crn_adopt_is_silent(n, item, i))
            continue;
        (void)!crn_fail(&e, CAIRN_EPEER, 0, "rank %u left before it captured its part",
                        n->rank_of[i]);
        crn_item_fail(n, item, &e);
        return;
    }
}

/* No memory for the item: the rank and the root are told, which needs none. */
static void refuse_capture(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_msg no = crn_node_plain(n, CRN_MSG_STATE, m->seq);
    struct crn_action *a;

    no.ckpt = m->ckpt;
    (void)!crn_fail(&no.state.error, CAIRN_ENOMEM, ENOMEM, "node %u", n->set.node);
    crn_act_log(n, CRN_ERROR, "%s@%" PRId64 " is lost: out of memory", m->ckpt.name,
                m->ckpt.version);
    a = crn_act(n, CRN_ACT_TELL, NULL);
    a->first = local;
    a->end = local + 1;
    a->msg = no;
    a = crn_act(n, CRN_ACT_SEND, NULL);
    a->first = CRN_ROOT;
    a->end = CRN_ROOT + 1;
    a->msg = crn_node_plain(n, CRN_MSG_NODE_FAILED, m->seq);
    a->msg.ckpt = m->ckpt;
    a->msg.failed.error = no.state.error;
}

/* All ranks of the node have captured: tells the root. */
static void capture_complete(struct crn_node *n, struct crn_item *item)
{
    struct crn_msg *m;

    crn_item_move(&item->state, CRN_ITEM_ALL_CAPTURED);
    item->since_ns = n->now_ns;
    crn_pace_captured(n, item);
    m = crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_CAPTURED);
    m->node_captured.bytes = item->local_bytes;
    m->node_captured.target = (uint32_t)item->target;
    m->node_captured.protect = item->protect;
}

static void on_captured(struct crn_node *n, uint32_t local, uint32_t slots, const struct crn_msg *m)
{
    struct crn_item *item = crn_item_get(n, m);
    struct crn_errinfo e = {0};
    struct crn_part *p;

    if (item == NULL) {
        refuse_capture(n, local, m);
        return;
    }
    p = &item->part[local];
    if (p->is_captured)
        crn_item_tell_rank(n, item, local); /* it may have missed what it was told */
    if (p->is_captured || m->captured.slot >= slots)
        return;
    p->slot = m->captured.slot;
    p->is_captured = 1;
    item->ncaptured++;
    if (n->next[local] <= m->seq)
        n->next[local] = m->seq + 1;
    if ((cairn_level)m->captured.target > item->target)
        item->target = (cairn_level)m->captured.target;
    if (m->captured.protect != 0)
        item->protect = m->captured.protect;
    crn_pace_part(item, m->captured.bytes, m->captured.copy_ns);
    crn_adopt_captured(n, item, local);
    if (crn_item_has_ended(item->state)) {
        crn_item_too_late(n, item, local);
        return;
    }
    if (strcmp(item->name, m->ckpt.name) != 0 || item->version != m->ckpt.version) {
        (void)!crn_fail(&e, CAIRN_EINVAL, 0,
                        "the ranks disagree: checkpoint number %" PRIu64 " is %s@%" PRId64
                        " on one rank and %s@%" PRId64 " on rank %u",
                        m->seq, item->name, item->version, m->ckpt.name, m->ckpt.version,
                        n->rank_of[local]);
        crn_item_fail(n, item, &e);
        return;
    }
    if (m->ckpt.created_ns > item->created_ns)
        item->created_ns = m->ckpt.created_ns;
    if (item->ncaptured == n->set.nlocal)
        capture_complete(n, item);
    fail_if_left(n, item); /* other ranks may have died before this message was read */
}

static void on_capture_failed(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_item *item = crn_item_get(n, m);
    struct crn_errinfo e = m->failed.error;

    if (n->set.node == CRN_ROOT)
        crn_claim_failed(n, local, m);
    if (item == NULL) {
        refuse_capture(n, local, m);
        return;
    }
    item->part[local].is_settled = 1; /* the rank knows already */
    (void)!crn_err_context(&e, e.code, "capture on rank %u", n->rank_of[local]);
    crn_item_fail(n, item, &e);
    crn_item_touch(n, item);
}

static void on_dropped(struct crn_node *n, uint32_t local, const struct crn_msg *m)
{
    struct crn_item *item = crn_node_find(n, m->seq);
    struct crn_errinfo e = {0};

    if (item == NULL)
        return;
    item->part[local].is_settled = 1;
    if (m->dropped.error.code != CAIRN_OK) {
        e = m->dropped.error;
        (void)!crn_err_context(&e, e.code, "rank %u", n->rank_of[local]);
    } else {
        (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint on rank %u",
                        n->rank_of[local]);
    }
    crn_item_fail(n, item, &e);
    crn_item_touch(n, item);
}

/* The first node decides which versions are flushed. */
static void tell_waited(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SEND, NULL);

    a->first = CRN_ROOT;
    a->end = CRN_ROOT + 1;
    a->msg = crn_node_plain(n, CRN_MSG_NODE_WAITED, m->seq);
    a->msg.waited = m->waited;
}

void crn_node_from_rank(struct crn_node *n, int64_t now_ns, uint32_t local, uint32_t slots,
                        const struct crn_msg *m)
{
    n->now_ns = now_ns;
    switch (m->type) {
    case CRN_MSG_CAPTURED:
        on_captured(n, local, slots, m);
        return;
    case CRN_MSG_CAPTURE_FAILED:
        on_capture_failed(n, local, m);
        return;
    case CRN_MSG_DROPPED:
        on_dropped(n, local, m);
        return;
    case CRN_MSG_CLAIM:
        crn_claim_ask(n, local, m);
        return;
    case CRN_MSG_WANTED:
        crn_pace_want(n, m->seq);
        return;
    case CRN_MSG_WAITED:
        tell_waited(n, m);
        return;
    case CRN_MSG_CRAMPED:
        crn_due_cramped(n, m->seq);
        return;
    default:
        return;
    }
}

void crn_node_joined(struct crn_node *n, uint32_t local, uint32_t rank)
{
    n->rank_of[local] = rank;
}

static void tell_death(struct crn_node *n, uint32_t local)
{
    uint64_t next = n->next[local];
    struct crn_action *a;

    if (n->said[local] >= next && n->said[local] != 0)
        next = n->said[local] + 1;

    crn_act_log(n, CRN_WARN, "rank %u disconnected without BYE, continuing", n->rank_of[local]);
    a = crn_act(n, CRN_ACT_SEND, NULL);
    a->first = CRN_ROOT;
    a->end = CRN_ROOT + 1;
    a->msg = crn_node_plain(n, CRN_MSG_RANK_DIED, next);
    (void)!crn_fail(&a->msg.rank_died.error, CAIRN_EPEER, 0,
                    "rank %u died before it captured its part", n->rank_of[local]);
}

void crn_node_left(struct crn_node *n, int64_t now_ns, uint32_t local, int is_dead)
{
    struct crn_item *item;
    struct crn_item *next;

    n->now_ns = now_ns;
    if (n->has_left[local])
        return;
    n->has_left[local] = 1;
    n->nleft++;
    crn_claims_left(n);
    if (n->items != NULL)
        crn_pace_want(n, UINT64_MAX);
    if (is_dead)
        tell_death(n, local);
    for (item = n->items; item != NULL; item = next) {
        next = item->next;
        fail_if_left(n, item);
        crn_item_touch(n, item);
    }
}
