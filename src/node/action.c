/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of actions that the core leaves to its shell. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/core.h"

/* More than any event emits, apart from what it emits for each item. */
#define PLAIN_ACTIONS(n) (16 + (n)->set.files + (n)->set.nlocal + (n)->set.nmembers)
#define ITEM_ACTIONS     12

static int actions_reserve(struct crn_actions *a, size_t room)
{
    struct crn_action *v;

    if (a->cap - a->n >= room)
        return 0;
    v = realloc(a->v, (a->n + room) * sizeof(*v));
    if (v == NULL)
        return -1;
    a->v = v;
    a->cap = a->n + room;
    return 0;
}

int crn_node_reserve(struct crn_node *n)
{
    const struct crn_item *item;
    size_t items = 1;

    for (item = n->items; item != NULL; item = item->next)
        items++;
    return actions_reserve(n->set.out, PLAIN_ACTIONS(n) + items * ITEM_ACTIONS);
}

int crn_actions_next(struct crn_actions *a, struct crn_action *ret)
{
    if (a->at == a->n) {
        a->at = a->n = 0;
        return 0;
    }
    *ret = a->v[a->at++];
    return 1;
}

void crn_actions_free(struct crn_actions *a)
{
    free(a->v);
    memset(a, 0, sizeof(*a));
}

struct crn_action *crn_act(struct crn_node *n, enum crn_act act, struct crn_item *item)
{
    struct crn_actions *out = n->set.out;
    struct crn_action *a = &out->lost;

    if (actions_reserve(out, 1) == 0)
        a = &out->v[out->n++];
    else
        out->failed = 1;
    memset(a, 0, sizeof(*a));
    a->act = act;
    a->item = item;
    return a;
}

struct crn_msg crn_node_plain(const struct crn_node *n, enum crn_msg_type type, uint64_t seq)
{
    struct crn_msg m = {.type = type, .seq = seq, .node = n->set.node};

    memcpy(m.run, n->set.run, sizeof(m.run));
    return m;
}

void crn_node_msg(const struct crn_node *n, const struct crn_item *item, enum crn_msg_type type,
                  struct crn_msg *ret)
{
    *ret = crn_node_plain(n, type, item->seq);
    if (!crn_msg_has_ckpt(type))
        return;
    memcpy(ret->ckpt.name, item->name, sizeof(ret->ckpt.name));
    ret->ckpt.version = item->version;
    ret->ckpt.created_ns = item->created_ns;
}

struct crn_msg *crn_act_send_range(struct crn_node *n, uint32_t first, uint32_t end,
                                   struct crn_item *item, enum crn_msg_type type)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SEND, item);

    a->first = first;
    a->end = end;
    crn_node_msg(n, item, type, &a->msg);
    return &a->msg;
}

struct crn_msg *crn_act_send(struct crn_node *n, uint32_t node, struct crn_item *item,
                             enum crn_msg_type type)
{
    return crn_act_send_range(n, node, node + 1, item, type);
}

struct crn_msg *crn_act_send_all(struct crn_node *n, struct crn_item *item, enum crn_msg_type type)
{
    return crn_act_send_range(n, 0, n->set.nodes, item, type);
}

struct crn_action *crn_act_work(struct crn_node *n, struct crn_item *item, enum crn_work_kind kind)
{
    struct crn_action *a = crn_act(n, CRN_ACT_WORK, item);

    a->work = kind;
    item->users++;
    return a;
}

void crn_act_log(struct crn_node *n, enum crn_log_level level, const char *fmt, ...)
{
    struct crn_action *a = crn_act(n, CRN_ACT_LOG, NULL);
    va_list args;

    a->number = level;
    va_start(args, fmt);
    (void)vsnprintf(a->note.msg, sizeof(a->note.msg), fmt, args);
    va_end(args);
}
