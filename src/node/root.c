/* SPDX-License-Identifier: BSD-3-Clause */
/* The first node of a job: collects the reports of the nodes, lets them flush when all have
 * captured and the broker agrees, commits when all files are durable, and ends every checkpoint
 * exactly once, on all nodes. Once the keeper publishes the manifest, only its result counts: a
 * reader may see the version already. */
#include "node/core.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static struct crn_msg_level *tell_level(struct crn_node *n, struct crn_item *item,
                                        cairn_level level)
{
    struct crn_msg *m = crn_act_send_all(n, item, CRN_MSG_LEVEL);

    m->level.level = (uint32_t)level;
    return &m->level;
}

void crn_root_tell_level(struct crn_node *n, struct crn_item *item, cairn_level level)
{
    (void)tell_level(n, item, level);
}

/* Deciding. ------------------------------------------------------------------------------------ */

static void root_decide(struct crn_node *n, struct crn_item *item, enum crn_root_event event,
                        const struct crn_errinfo *error, uint64_t committed_ns)
{
    struct crn_action *a;
    struct crn_msg *end;

    crn_root_move(&item->root->state, event);
    crn_node_note_ended(n, item->seq);
    a = crn_act(n, CRN_ACT_DECIDED, item);
    crn_node_msg(n, item, CRN_MSG_END, &a->msg);
    a->msg.end.error = *error;
    a->msg.end.committed_ns = committed_ns;
    end = crn_act_send_all(n, item, CRN_MSG_END);
    end->end.error = *error;
    end->end.committed_ns = committed_ns;
}

void crn_root_fail(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *error)
{
    struct crn_root_item *root = item->root;

    if (!crn_root_may(root->state, CRN_ROOT_FAIL))
        return;
    if (root->look == CRN_LOOK_RUNS) {
        if (root->verdict.code == CAIRN_OK)
            root->verdict = *error;
        return;
    }
    root_decide(n, item, CRN_ROOT_FAIL, error, 0);
    crn_due_failed(n);
}

/* What is safe is as old as its capture: what was computed since then is at risk. */
static void note_safe(struct crn_node *n, const struct crn_item *item, uint64_t committed_ns)
{
    uint64_t age = committed_ns > item->created_ns ? committed_ns - item->created_ns : 0;

    if (age < (uint64_t)(n->now_ns - n->safe_ns))
        n->safe_ns = n->now_ns - (int64_t)age;
}

void crn_root_committed(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    int is_ok = r->error->code == CAIRN_OK;

    if (is_ok)
        note_safe(n, item, r->number);
    root_decide(n, item, is_ok ? CRN_ROOT_COMMIT : CRN_ROOT_REFUSE, r->error,
                is_ok ? r->number : 0);
    if (is_ok)
        crn_due_make_way(n, item, 1);
    else
        crn_due_failed(n);
}

/* A dead service has committed it. */
void crn_root_found(struct crn_node *n, struct crn_item *item, uint64_t committed_ns)
{
    static const struct crn_errinfo ok = {0};

    if (!crn_root_may(item->root->state, CRN_ROOT_FIND))
        return;
    n->safe_ns = n->now_ns;
    root_decide(n, item, CRN_ROOT_FIND, &ok, committed_ns);
    crn_due_make_way(n, item, 1);
}

/* Checkpoints that a dead rank has not captured cannot complete. */
static void fail_incomplete(struct crn_node *n)
{
    struct crn_item *item;

    for (item = n->items; item != NULL; item = item->next)
        if (item->seq >= n->broken_seq && item->root->state == CRN_ROOT_COLLECTING)
            crn_root_fail(n, item, &n->broken);
}

void crn_root_rank_died(struct crn_node *n, const struct crn_msg *m)
{
    if (m->seq >= n->broken_seq)
        return;
    n->broken_seq = m->seq;
    n->broken = m->rank_died.error;
    fail_incomplete(n);
}

/* No memory to follow the checkpoint: ends it everywhere at once. */
static void root_refuse(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_action *a = crn_act(n, CRN_ACT_SEND, NULL);

    crn_node_note_ended(n, m->seq);
    a->end = n->set.nodes;
    a->msg = crn_node_plain(n, CRN_MSG_END, m->seq);
    a->msg.ckpt = m->ckpt;
    (void)!crn_fail(&a->msg.end.error, CAIRN_ENOMEM, ENOMEM, "node %u", n->set.node);
}

/* The queue. ----------------------------------------------------------------------------------- */

/* Length of a chain: every so many versions, one is encoded without a base. */
static uint64_t full_every(const struct crn_node *n, const char *name)
{
    const struct crn_name_config *nc = crn_config_name(n->set.cfg, name);

    return nc->encode != CRN_ENCODE_NONE ? nc->encode_full_every : 1;
}

/* Is an older version of the name in flight that could be the base of this one, once it is
 * committed and old versions are removed? Waiting costs nothing: flushes run one after another. */
static int awaits_older(const struct crn_node *n, const struct crn_item *item)
{
    const struct crn_item *i;

    if (full_every(n, item->name) <= 1)
        return 0;
    for (i = n->items; i != NULL; i = i->next)
        if (i->seq < item->seq && i->root->state >= CRN_ROOT_CHECKING &&
            i->root->state != CRN_ROOT_FAILED && strcmp(i->name, item->name) == 0)
            return 1;
    return 0;
}

/* May another item make this version unusable as a base? It is being taken again, or old versions
 * are being removed now or soon. Retirements that start later spare the base. */
static int is_in_danger(const struct crn_node *n, const struct crn_item *item, int64_t version)
{
    const struct crn_item *i;

    for (i = n->items; i != NULL; i = i->next)
        if (i != item && strcmp(i->name, item->name) == 0 &&
            ((!crn_root_has_decided(i->root->state) && i->version == version) ||
             i->root->state == CRN_ROOT_COMMITTING || i->root->state == CRN_ROOT_COMMITTED))
            return 1;
    return 0;
}

void crn_node_needed(const struct crn_node *n, const char *name, struct crn_buf *ret)
{
    const struct crn_item *i;

    for (i = n->items; i != NULL; i = i->next)
        if (!crn_root_has_decided(i->root->state) && i->root->base_version >= 0 &&
            strcmp(i->name, name) == 0)
            crn_buf_put(ret, &i->root->base_version, sizeof(i->root->base_version));
}

void crn_root_advance_queue(struct crn_node *n)
{
    struct crn_item *item;

    for (item = n->items; item != NULL; item = item->next) {
        if (item->root->state != CRN_ROOT_QUEUED || awaits_older(n, item))
            continue;
        crn_root_move(&item->root->state, CRN_ROOT_ASK);
        (void)crn_act(n, CRN_ACT_TURN, item);
    }
}

void crn_root_checked(struct crn_node *n, struct crn_item *item, const struct crn_result *r)
{
    if (r->fs_type != NULL)
        n->fs_type = r->fs_type;
    if (r->error->code != CAIRN_OK) {
        crn_root_fail(n, item, r->error);
    } else if (crn_root_may(item->root->state, CRN_ROOT_CHECKED)) {
        crn_root_move(&item->root->state, CRN_ROOT_CHECKED);
        crn_root_advance_queue(n);
    }
}

static uint64_t group_bytes(const struct crn_node *n, const struct crn_item *item, uint32_t group)
{
    uint32_t end = crn_elect_group_first(group + 1, n->set.nodes, n->set.files);
    uint64_t bytes = 0;
    uint32_t i;

    for (i = crn_elect_group_first(group, n->set.nodes, n->set.files); i < end; i++)
        bytes += item->root->node_bytes[i];
    return bytes;
}

/* Sends GO. Each node gets the sizes of its group, from which all elect the same leader and
 * assistants. */
static void tell_go(struct crn_node *n, struct crn_item *item, uint64_t base)
{
    struct crn_root_item *root = item->root;
    uint32_t g;

    for (g = 0; g < n->set.files; g++) {
        uint32_t first = crn_elect_group_first(g, n->set.nodes, n->set.files);
        uint32_t end = crn_elect_group_first(g + 1, n->set.nodes, n->set.files);
        struct crn_msg *m = crn_act_send_range(n, first, end, item, CRN_MSG_GO);

        root->groups[g] =
            (struct crn_group_state){.bytes = group_bytes(n, item, g), .members = end - first};
        m->go.base = base;
        m->go.leaders = crn_elect_leaders(n->set.cfg, n->fs_type, root->groups[g].bytes);
        m->go.sizes = (struct crn_blob){root->sizes.data + first * sizeof(uint64_t),
                                        (end - first) * (uint32_t)sizeof(uint64_t)};
    }
}

void crn_node_turn(struct crn_node *n, int64_t now_ns, struct crn_item *item,
                   const struct crn_errinfo *error, uint64_t base, int64_t base_version)
{
    struct crn_errinfo e = {0};
    uint32_t i;

    n->now_ns = now_ns;
    if (item->root->state != CRN_ROOT_ASKING)
        return;
    if (error != NULL) {
        crn_root_fail(n, item, error);
        return;
    }
    for (i = 0; i < n->set.nodes; i++)
        crn_buf_u64(&item->root->sizes, item->root->node_bytes[i]);
    if (item->root->sizes.failed) {
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", n->set.node);
        crn_root_fail(n, item, &e);
        return;
    }
    if (full_every(n, item->name) <= 1 || (base != 0 && is_in_danger(n, item, base_version)))
        base = 0;
    item->root->base_version = base != 0 ? base_version : -1;
    crn_root_move(&item->root->state, CRN_ROOT_TURN);
    tell_go(n, item, base);
}

/* Waiting ranks. ------------------------------------------------------------------------------- */

/* Tells all nodes that somebody waits, but only while a checkpoint is undecided: otherwise their
 * services may be shutting down. */
static void tell_hurry(struct crn_node *n)
{
    const struct crn_item *item = n->items;
    struct crn_action *a;

    while (item != NULL && crn_root_has_decided(item->root->state))
        item = item->next;
    if (item == NULL || n->set.nodes == 1)
        return;
    a = crn_act(n, CRN_ACT_SEND, NULL);
    a->first = 1;
    a->end = n->set.nodes;
    a->msg = crn_node_plain(n, CRN_MSG_HURRY, n->wanted);
}

void crn_root_start(struct crn_node *n, struct crn_item *item)
{
    crn_due_flushed(n, item);
    crn_root_move(&item->root->state, CRN_ROOT_START);
    (void)crn_act_work(n, item, CRN_WORK_START);
}

void crn_root_want(struct crn_node *n, uint64_t seq)
{
    struct crn_item *item;

    if (seq <= n->wanted)
        return;
    n->wanted = seq;
    tell_hurry(n);
    if (!crn_config_is_lazy(n->set.cfg)) {
        if (seq == UINT64_MAX) /* the job ends */
            crn_due_flush_newest(n);
        return;
    }
    for (item = n->items; item != NULL; item = item->next)
        if (item->root->state == CRN_ROOT_HELD && item->seq <= n->wanted)
            crn_root_start(n, item);
}

/* Reports of the nodes. ------------------------------------------------------------------------ */

/* Returns 1 if this is the node's first report of the kind. */
static int is_news(struct crn_root_item *root, uint32_t node, unsigned char bit, uint32_t *count)
{
    if ((root->has[node] & bit) != 0)
        return 0;
    root->has[node] |= bit;
    ++*count;
    return 1;
}

/* Sends an idle leader to assist one that lags. */
static void root_reroute(struct crn_node *n, struct crn_item *item, uint32_t idle)
{
    struct crn_group_state *groups = item->root->groups;
    uint32_t group = crn_elect_behind(groups, n->set.files);
    uint32_t first = crn_elect_group_first(group, n->set.nodes, n->set.files);

    if (n->set.cfg->reroute == 0 || group == n->set.files || !crn_item_takes_help(n, item))
        return;
    groups[group].helpers++;
    crn_act_send(n, idle, item, CRN_MSG_REROUTE)->leader.node =
        first + crn_elect(&item->root->node_bytes[first], groups[group].members);
}

static void on_idle(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    uint32_t leader = m->leader.node;

    if (leader >= n->set.nodes || item->root->state != CRN_ROOT_FLUSHING)
        return;
    item->root->groups[crn_elect_group_of(leader, n->set.nodes, n->set.files)].needs_no_help = 1;
    root_reroute(n, item, m->node);
}

/* Several leaders may wait for free space on one file system: the first to report does so for
 * all. */
static void on_paused(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    struct crn_root_item *root = item->root;

    crn_act_log(n, root->paused_by == 0 || root->paused_by == m->node + 1 ? CRN_WARN : CRN_DEBUG,
                "%s", m->failed.error.msg);
    if (root->paused_by != 0)
        return;
    root->paused_by = m->node + 1;
    crn_act_work(n, item, CRN_WORK_REPORT)->note = m->failed.error;
}

static void on_node_captured(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    struct crn_root_item *root = item->root;
    struct crn_msg_level *told;
    int is_held;

    if (root->state != CRN_ROOT_COLLECTING ||
        !is_news(root, m->node, CRN_HAS_CAPTURED, &root->ncaptured))
        return;
    if (m->ckpt.created_ns > item->created_ns)
        item->created_ns = m->ckpt.created_ns;
    root->bytes += m->node_captured.bytes;
    root->node_bytes[m->node] = m->node_captured.bytes;
    if ((cairn_level)m->node_captured.target > root->target)
        root->target = (cairn_level)m->node_captured.target;
    if (m->node_captured.protect != 0)
        root->protect = m->node_captured.protect;
    if (root->ncaptured < n->set.nodes)
        return;
    item->scheme = crn_due_protection(n, item);
    is_held = crn_config_is_lazy(n->set.cfg) ? item->seq > n->wanted : !crn_due_captured(n, item);
    told = tell_level(n, item, CAIRN_CAPTURED);
    told->is_held = (uint32_t)is_held;
    told->protect = crn_scheme_code(item->scheme);
    if (item->seq <= n->wanted) /* a rank waited before the root knew of the checkpoint */
        tell_hurry(n);
    if (is_held)
        crn_root_move(&root->state, CRN_ROOT_HOLD);
    else
        crn_root_start(n, item);
    crn_due_make_way(n, item, 0);
}

static void on_node_local(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    struct crn_root_item *root = item->root;

    if (is_news(root, m->node, CRN_HAS_LOCAL, &root->nlocal) && root->nlocal == n->set.nodes)
        crn_root_tell_level(n, item, CAIRN_LOCAL);
}

/* Only the leader of a group reports its file. */
static void on_node_data(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    uint32_t file = crn_elect_group_of(m->node, n->set.nodes, n->set.files);
    struct crn_root_item *root = item->root;

    if (root->state != CRN_ROOT_FLUSHING || !is_news(root, m->node, CRN_HAS_DATA, &root->ndata))
        return;
    root->node_wrote[m->node] = group_bytes(n, item, file);
    (void)crn_act(n, CRN_ACT_WROTE, item);
    root->groups[file].needs_no_help = 1;
    root_reroute(n, item, m->node);
    if (root->ndata < n->set.files)
        return;
    crn_root_move(&root->state, CRN_ROOT_ALL_DATA);
    (void)crn_act_work(n, item, CRN_WORK_COMMIT);
}

static int is_of_item(const struct crn_item *item, const struct crn_msg *m)
{
    return !crn_msg_has_ckpt(m->type) ||
           (strcmp(item->name, m->ckpt.name) == 0 && item->version == m->ckpt.version);
}

static void root_progress(struct crn_node *n, struct crn_item *item, const struct crn_msg *m)
{
    struct crn_errinfo e = {0};

    if (!is_of_item(item, m)) {
        (void)!crn_fail(&e, CAIRN_EINVAL, 0,
                        "the ranks disagree: checkpoint number %" PRIu64 " is %s@%" PRId64
                        " on one node and %s@%" PRId64 " on node %u",
                        item->seq, item->name, item->version, m->ckpt.name, m->ckpt.version,
                        m->node);
        crn_root_fail(n, item, &e);
        return;
    }
    switch (m->type) {
    case CRN_MSG_NODE_CAPTURED:
        on_node_captured(n, item, m);
        return;
    case CRN_MSG_NODE_LOCAL:
        on_node_local(n, item, m);
        return;
    case CRN_MSG_NODE_WROTE:
        item->root->node_wrote[m->node] = m->node_wrote.bytes;
        (void)crn_act(n, CRN_ACT_WROTE, item);
        return;
    case CRN_MSG_NODE_DATA:
        on_node_data(n, item, m);
        return;
    case CRN_MSG_NODE_PROTECTED:
        crn_root_protected(n, item, m);
        return;
    case CRN_MSG_NODE_IDLE:
        on_idle(n, item, m);
        return;
    case CRN_MSG_NODE_PAUSED:
        on_paused(n, item, m);
        return;
    default:
        return;
    }
}

static void on_failed(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item;

    item = crn_node_find(n, m->seq);
    if (item == NULL && !crn_node_was_ended(n, m->seq)) {
        item = crn_item_get(n, m);
        if (item == NULL)
            root_refuse(n, m);
    }
    if (item != NULL)
        crn_root_fail(n, item, &m->failed.error);
}

void crn_root_message(struct crn_node *n, const struct crn_msg *m)
{
    struct crn_item *item = crn_node_find(n, m->seq);

    if (m->type == CRN_MSG_NODE_FAILED) {
        on_failed(n, m);
        return;
    }
    if (item == NULL && m->type == CRN_MSG_NODE_CAPTURED && !crn_node_was_ended(n, m->seq)) {
        item = crn_item_get(n, m);
        if (item == NULL)
            root_refuse(n, m);
    }
    if (item != NULL && !crn_root_has_decided(item->root->state))
        root_progress(n, item, m);
    fail_incomplete(n);
}
