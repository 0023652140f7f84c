/* SPDX-License-Identifier: BSD-3-Clause */
/* Events come in here and are handed to the part of the core that decides; actions go out. The path
 * of a checkpoint:
 *
 *   node   all ranks captured -> NODE_CAPTURED       root   all nodes -> LEVEL captured, lock -> GO
 *   node   GO -> flush -> NODE_DATA                  root   all data -> commit -> END
 *   node   END -> ranks told, slots released, spool removed
 *
 * A failure anywhere is NODE_FAILED to the root, which ends the checkpoint everywhere, once. */
#include "node/core.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Life. ---------------------------------------------------------------------------------------- */

cairn_err crn_node_new(const struct crn_node_setup *setup, int64_t now_ns, struct crn_node **ret,
                       struct crn_errinfo *ei)
{
    struct crn_node *n = calloc(1, sizeof(*n));

    if (n == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job");
    n->set = *setup;
    n->started_ns = n->captured_ns = n->safe_ns = now_ns;
    n->rank_of = calloc(setup->nlocal, sizeof(*n->rank_of));
    n->has_left = calloc(setup->nlocal, 1);
    n->said = calloc(setup->nlocal, sizeof(*n->said));
    n->next = calloc(setup->nlocal, sizeof(*n->next));
    n->broken_seq = UINT64_MAX;
    n->heard_ns = calloc(setup->nodes, sizeof(*n->heard_ns));
    if (n->rank_of == NULL || n->has_left == NULL || n->said == NULL || n->next == NULL ||
        n->heard_ns == NULL || crn_node_reserve(n) != 0) {
        crn_node_free(n);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job of %u ranks on this node", setup->nlocal);
    }
    *ret = n;
    return CAIRN_OK;
}

void crn_node_free(struct crn_node *n)
{
    if (n == NULL)
        return;
    crn_claims_free(n);
    crn_due_free(n);
    free(n->rank_of);
    free(n->has_left);
    free(n->said);
    free(n->next);
    free(n->heard_ns);
    free(n);
}

struct crn_item *crn_node_take(struct crn_node *n)
{
    struct crn_item *item = n->items;

    if (item != NULL)
        n->items = item->next;
    return item;
}

/* Other nodes. --------------------------------------------------------------------------------- */

/* Once all ranks have captured, the local copy is made at once, even if the flush starts later. */
static void on_level(struct crn_node *n, struct crn_item *item, const struct crn_msg_level *m)
{
    cairn_level level = (cairn_level)m->level;
    struct crn_action *a;

    if (!crn_level_is_known(level) || crn_level_has(item->levels, level) ||
        level == CAIRN_PERSISTENT || crn_item_has_ended(item->state))
        return; /* only END makes it persistent */
    item->levels |= crn_level_set(level);
    item->is_held |= m->is_held != 0;
    if (level == CAIRN_CAPTURED) {
        item->scheme = crn_scheme_of_code(m->protect);
        a = crn_act(n, CRN_ACT_PROMISE, item);
        a->end = n->set.nlocal;
    }
    crn_item_tell_ranks(n, item, 0, &item->error);
    if (level == CAIRN_PROTECTED)
        (void)crn_act(n, CRN_ACT_PROTECTED, item);
    if (level != CAIRN_CAPTURED && n->set.node == CRN_ROOT)
        crn_due_make_way(n, item, 0);
    if (level == CAIRN_CAPTURED)
        crn_protect_begin(n, item);
    if (level == CAIRN_CAPTURED && item->state == CRN_ITEM_CAPTURED &&
        n->set.cfg->local[0] != '\0' && !crn_config_is_lazy(n->set.cfg))
        (void)crn_act_work(n, item, CRN_WORK_LOCAL);
}

/* GO, LEVEL and END come from the root alone. */
static void from_root(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item;

    if (m->node != CRN_ROOT)
        return;
    if (m->type == CRN_MSG_END && !crn_node_was_ended(n, m->seq))
        item = crn_item_get(n, m);
    else
        item = crn_node_find(n, m->seq);
    if (item == NULL ||
        (m->type == CRN_MSG_END && item->root != NULL && !crn_root_has_decided(item->root->state)))
        return;
    if (m->type == CRN_MSG_LEVEL) {
        on_level(n, item, &m->level);
    } else if (m->type == CRN_MSG_GO) {
        if (crn_item_may(item->state, CRN_ITEM_GO))
            crn_group_begin(n, item, m);
        item->is_held = 0;
    } else {
        crn_item_end(n, item, CRN_ITEM_END, &m->end.error, m->end.committed_ns);
        if (n->set.node == CRN_ROOT)
            crn_root_advance_queue(n);
    }
}

void crn_node_from_node(struct crn_node *n, int64_t now_ns, const struct crn_msg *m)
{
    struct crn_item *item;

    n->now_ns = now_ns;
    if (m->node >= n->set.nodes)
        return;
    n->heard_ns[m->node] = now_ns;
    switch (m->type) {
    case CRN_MSG_GO:
    case CRN_MSG_LEVEL:
    case CRN_MSG_END:
        from_root(n, m);
        return;
    case CRN_MSG_NODE_CLAIM:
        if (n->set.node == CRN_ROOT)
            crn_claim_node(n, m);
        return;
    case CRN_MSG_CLAIM_DECIDED:
        crn_claim_decided(n, m);
        return;
    case CRN_MSG_NODE_ASKS:
        if (n->set.node == CRN_ROOT)
            crn_adopt_asked(n, m);
        return;
    case CRN_MSG_NODE_WANTED:
        if (n->set.node == CRN_ROOT)
            crn_root_want(n, m->seq);
        return;
    case CRN_MSG_NODE_WAITED:
    case CRN_MSG_NODE_CRAMPED:
        if (n->set.node == CRN_ROOT)
            crn_due_waited(n, m);
        return;
    case CRN_MSG_HURRY:
        crn_pace_hurry(n, m->seq);
        return;
    case CRN_MSG_RANK_DIED:
        if (n->set.node == CRN_ROOT)
            crn_root_rank_died(n, m);
        return;
    case CRN_MSG_NODE_FAILED:
    case CRN_MSG_NODE_CAPTURED:
    case CRN_MSG_NODE_LOCAL:
    case CRN_MSG_NODE_WROTE:
    case CRN_MSG_NODE_DATA:
    case CRN_MSG_NODE_IDLE:
    case CRN_MSG_NODE_PAUSED:
    case CRN_MSG_NODE_PROTECTED:
        if (n->set.node == CRN_ROOT)
            crn_root_message(n, m);
        return;
    default:
        break;
    }
    item = crn_node_find(n, m->seq);
    if (item == NULL)
        return; /* it has ended */
    if (m->type == CRN_MSG_SHARDS)
        crn_group_shards(n, item, m);
    else if (m->type == CRN_MSG_REROUTE && m->node == CRN_ROOT)
        crn_group_rerouted(n, item, m->leader.node);
    else if (m->type == CRN_MSG_FILE)
        crn_group_file(n, item, m);
    else if (m->type == CRN_MSG_NODE_STREAM)
        crn_protect_stream(n, item, m);
}

/* Results. ------------------------------------------------------------------------------------- */

static void on_flushed(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    if (crn_item_has_ended(item->state))
        return; /* it failed elsewhere in the meantime */
    crn_item_move(&item->state, CRN_ITEM_WRITTEN);
    if (r->error->code != CAIRN_OK)
        crn_item_fail(n, item, r->error);
    else
        crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_DATA)->node_data.data = *r->file;
}

/* The flush waits. The root logs it, once; the ranks are told. */
static void on_paused(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *why)
{
    crn_act_send(n, CRN_ROOT, item, CRN_MSG_NODE_PAUSED)->failed.error = *why;
    crn_item_tell_ranks(n, item, 0, why); /* code OK: a remark */
}

static void handle_result(struct crn_node *n, const struct crn_result *r)
{
    struct crn_item *item = r->item;

    switch (r->kind) {
    case CRN_WORK_SERVE:
        crn_group_served(n, item, r);
        return;
    case CRN_WORK_FLUSH:
        on_flushed(n, item, r);
        return;
    case CRN_WORK_ASSIST:
        crn_group_assisted(n, item);
        return;
    case CRN_WORK_STREAM:
        crn_protect_opened(n, item, r);
        return;
    case CRN_WORK_PARITY:
        crn_protect_made(n, item, r);
        return;
    case CRN_WORK_LOOK:
        crn_adopt_looked(n, item, r);
        return;
    case CRN_WORK_START:
        crn_root_checked(n, item, r);
        return;
    case CRN_WORK_COMMIT:
        crn_root_committed(n, item, r);
        return;
    case CRN_WORK_RETIRE:
        crn_item_move(&item->state, CRN_ITEM_RETIRED);
        return;
    default:
        return;
    }
}

void crn_node_result(struct crn_node *n, int64_t now_ns, const struct crn_result *r)
{
    n->now_ns = now_ns;
    if (r->kind == CRN_WORK_CLAIM) {
        crn_claim_result(n, r);
        return;
    }
    if (r->kind == CRN_WORK_NOTE_LOCAL) {
        (void)crn_act_send(n, CRN_ROOT, r->item, CRN_MSG_NODE_LOCAL);
        return;
    }
    if (r->kind == CRN_WORK_NOTE_PAUSED) {
        on_paused(n, r->item, r->error);
        return;
    }
    r->item->users--;
    handle_result(n, r);
    crn_item_touch(n, r->item);
    if (r->kind == CRN_WORK_RETIRE && n->set.node == CRN_ROOT)
        crn_root_advance_queue(n); /* the next checkpoint may be encoded against it */
}

void crn_node_fail(struct crn_node *n, int64_t now_ns, struct crn_item *item,
                   const struct crn_errinfo *error)
{
    n->now_ns = now_ns;
    crn_item_fail(n, item, error);
}

void crn_item_use(struct crn_item *item)
{
    item->users++;
}

void crn_node_unuse(struct crn_node *n, int64_t now_ns, struct crn_item *item)
{
    n->now_ns = now_ns;
    item->users--;
    crn_item_touch(n, item);
}

/* The clock. ----------------------------------------------------------------------------------- */

static void list_missing(const struct crn_node *n, const struct crn_item *item, char *text,
                         size_t size)
{
    size_t used = 0;
    uint32_t i;

    text[0] = '\0';
    for (i = 0; i < n->set.nlocal && used + 16 < size; i++)
        if (!item->part[i].is_captured && !item->part[i].is_settled)
            used += (size_t)snprintf(text + used, size - used, "%s%u", used > 0 ? ", " : "",
                                     n->rank_of[i]);
}

static void check_deadline(struct crn_node *n, struct crn_item *item)
{
    int64_t timeout_ns = (int64_t)n->set.cfg->commit_timeout_ns;
    const struct crn_root_item *root = item->root;
    struct crn_errinfo e = {0};
    char missing[200];
    uint32_t i;

    if (item->deadline_ns > n->now_ns || crn_item_has_ended(item->state))
        return;
    /* The root's item may be of other nodes alone; elsewhere a rank has failed, if none captured. */
    if (item->state == CRN_ITEM_CAPTURING && (item->ncaptured > 0 || root == NULL)) {
        list_missing(n, item, missing, sizeof(missing));
        if (missing[0] != '\0')
            (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                            "rank %s did not capture it within commit_timeout", missing);
        else
            (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0, "every rank of node %u failed to capture it",
                            n->set.node);
        item->deadline_ns = INT64_MAX;
        item->since_ns = n->now_ns;
        crn_item_fail(n, item, &e);
    } else if (root != NULL && root->state == CRN_ROOT_COLLECTING &&
               n->now_ns - item->deadline_ns > timeout_ns / 8) {
        for (i = 0; i < n->set.nodes && (root->has[i] & CRN_HAS_CAPTURED) != 0; i++)
            ;
        (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                        "node %u said nothing of it within commit_timeout (%u of %u nodes did)", i,
                        root->ncaptured, n->set.nodes);
        crn_root_fail(n, item, &e);
    }
}

void crn_node_tick(struct crn_node *n, int64_t now_ns)
{
    struct crn_item *item;

    n->now_ns = now_ns;
    crn_alive_tick(n);
    if (n->set.node == CRN_ROOT)
        crn_due_tick(n);
    for (item = n->items; item != NULL; item = item->next)
        check_deadline(n, item);
}

int crn_node_refusal(const struct crn_msg *m, struct crn_msg *ret)
{
    *ret = (struct crn_msg){.seq = m->seq, .node = CRN_ROOT};
    memcpy(ret->run, m->run, sizeof(ret->run));
    if (m->type == CRN_MSG_FETCH || m->type == CRN_MSG_FETCH_OLDER ||
        m->type == CRN_MSG_FETCH_STREAM || m->type == CRN_MSG_FETCH_PARITY) {
        int is_set = m->type == CRN_MSG_FETCH_STREAM || m->type == CRN_MSG_FETCH_PARITY;

        ret->type = CRN_MSG_NOT_SENT;
        ret->not_sent.tag = is_set ? m->fetch_stream.tag : m->fetch.tag;
        return 1;
    }
    if (crn_msg_has_ckpt(m->type))
        ret->ckpt = m->ckpt;
    if (m->type == CRN_MSG_NODE_CLAIM) {
        ret->type = CRN_MSG_CLAIM_DECIDED;
        (void)!crn_fail(&ret->claimed.error, CAIRN_EPEER, 0, "the job has ended on its first node");
        return 1;
    }
    ret->type = CRN_MSG_END;
    (void)!crn_fail(&ret->end.error, CAIRN_EPEER, 0, "the job has ended on its first node");
    return m->type >= CRN_MSG_NODE_CAPTURED && m->type <= CRN_MSG_NODE_FAILED;
}

/* Questions. ----------------------------------------------------------------------------------- */

struct crn_item *crn_node_items(const struct crn_node *n)
{
    return n->items;
}

struct crn_item *crn_node_find(const struct crn_node *n, uint64_t seq)
{
    struct crn_item *item = n->items;

    while (item != NULL && item->seq != seq)
        item = item->next;
    return item;
}

int crn_node_is_done(const struct crn_node *n)
{
    return n->nleft == n->set.nlocal && n->items == NULL && n->nlooks == 0;
}

int crn_node_is_busy(const struct crn_node *n)
{
    const struct crn_claim *c;

    if (n->items != NULL)
        return 1;
    for (c = n->claims; c != NULL; c = c->next)
        if (c->is_asked)
            return 1;
    return 0;
}

int64_t crn_node_safe_ns(const struct crn_node *n)
{
    return n->safe_ns;
}
