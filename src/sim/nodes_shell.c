/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated node service: carries out the actions of a core as src/service does, after delays
 * that the seed draws. A worker takes its tasks in order; messages between two nodes stay in
 * order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/nodes_world.h"

enum { KEEPER, FLUSHER, SENDER, PROTECTOR };

static struct data *data_of(struct world *w, uint32_t node, uint64_t seq)
{
    return &w->nodes[node].data[seq - 1];
}

static struct rank *rank_of(struct world *w, uint32_t node, uint32_t local)
{
    return &w->ranks[node * w->nranks + local];
}

/* Strikes once, if the world has this bug. */
static int nodes_shell_strikes(struct world *w, enum crn_nodes_bug bug)
{
    if (w->set.bug != bug || w->bugs_left == 0)
        return 0;
    w->bugs_left--;
    return 1;
}

/* The network. --------------------------------------------------------------------------------- */

static int64_t *order_of(struct world *w, uint32_t from, uint32_t to)
{
    if (to == CRN_ROOT)
        return &w->nodes[from].to_root_ns;
    if (from == CRN_ROOT)
        return &w->nodes[to].from_root_ns;
    return &w->nodes[from].out_ns;
}

/* When a message arrives; INT64_MAX: never. */
static int64_t nodes_shell_arrival(struct world *w, uint32_t from, uint32_t to)
{
    int64_t at_ns =
        w->now_ns + crn_world_between(w, MILLI / 100, w->set.has_faults ? SECOND : MILLI);
    int64_t *last = order_of(w, from, to);
    uint32_t ends[2] = {from, to};
    int i;

    for (i = 0; i < 2; i++)
        if (crn_world_is_cut(w, ends[i], w->now_ns) || crn_world_is_cut(w, ends[i], at_ns)) {
            if (w->nodes[ends[i]].healed_ns == INT64_MAX)
                return INT64_MAX;
            if (at_ns < w->nodes[ends[i]].healed_ns)
                at_ns = w->nodes[ends[i]].healed_ns;
        }
    at_ns = at_ns > *last ? at_ns : *last;
    *last = at_ns;
    return at_ns;
}

static void nodes_shell_count(struct world *w, uint32_t from, uint32_t to, size_t bytes)
{
    w->nodes[from].load.sent++;
    w->nodes[from].load.sent_bytes += bytes;
    w->nodes[to].load.received++;
    w->nodes[to].load.received_bytes += bytes;
}

static void send_to(struct world *w, uint32_t from, uint32_t to, const struct crn_buf *packet)
{
    int64_t at_ns = from == to ? w->now_ns : nodes_shell_arrival(w, from, to);
    struct event *ev;

    if (from != to)
        nodes_shell_count(w, from, to, packet->len);
    if (at_ns == INT64_MAX)
        return;
    ev = crn_world_at(w, at_ns, EV_MESSAGE, to);
    ev->from = from;
    ev->packet = malloc(packet->len);
    ev->bytes = packet->len;
    if (ev->packet != NULL)
        memcpy(ev->packet, packet->data, packet->len);
    else
        w->is_out_of_memory = 1;
}

static void shell_send(struct world *w, uint32_t from, uint32_t first, uint32_t end,
                       const struct crn_msg *m)
{
    struct crn_errinfo ei = {0};
    struct crn_buf packet = {0};
    uint32_t to;

    if (crn_msg_encode(m, &packet, &ei) != CAIRN_OK) {
        crn_world_problem(w, "%s: %s", crn_msg_name(m->type), ei.msg);
    } else {
        for (to = first; to < end; to++)
            if (m->type != CRN_MSG_END || to == CRN_ROOT ||
                !nodes_shell_strikes(w, CRN_BUG_LOST_END))
                send_to(w, from, to, &packet);
    }
    crn_buf_free(&packet);
}

/* Workers. ------------------------------------------------------------------------------------- */

static int worker_of(enum crn_work_kind kind)
{
    if (kind == CRN_WORK_FLUSH || kind == CRN_WORK_ASSIST || kind == CRN_WORK_LOCAL)
        return FLUSHER;
    if (kind == CRN_WORK_STREAM || kind == CRN_WORK_PARITY)
        return PROTECTOR;
    return kind == CRN_WORK_SERVE ? SENDER : KEEPER;
}

static void start_work(struct world *w, uint32_t node, const struct crn_action *a)
{
    int64_t *free_ns = &w->nodes[node].free_ns[worker_of(a->work)];
    int64_t most = w->set.has_faults && crn_world_chance(w, 0.05) ? 60 * SECOND : 2 * SECOND;
    struct event *ev;

    *free_ns =
        (*free_ns > w->now_ns ? *free_ns : w->now_ns) + crn_world_between(w, MILLI / 10, most);
    if (crn_world_chance(w, w->p_fail / 20)) { /* no memory for the task */
        ev = crn_world_at(w, w->now_ns, EV_RESULT, node);
        ev->flag = 1;
    } else {
        ev = crn_world_at(w, *free_ns, EV_RESULT, node);
    }
    ev->action = *a;
}

/* A worker takes the slots when it begins to read them; a rank may have dropped its capture. */
static int are_slots_there(struct world *w, uint32_t node, uint64_t seq)
{
    uint32_t i;

    for (i = 0; i < w->nranks; i++)
        if (rank_of(w, node, i)->capture[seq - 1].slot != SLOT_WRITTEN)
            return 0;
    return 1;
}

/* Does the leader still reach all members of its group? */
static int reaches_group(struct world *w, uint32_t node)
{
    uint32_t g = crn_elect_group_of(node, w->set.nodes, w->nfiles);
    uint32_t end = crn_elect_group_first(g + 1, w->set.nodes, w->nfiles);
    uint32_t i;

    for (i = crn_elect_group_first(g, w->set.nodes, w->nfiles); i < end; i++)
        if (w->nodes[i].core == NULL || (i != node && (crn_world_is_cut(w, i, w->now_ns) ||
                                                       crn_world_is_cut(w, node, w->now_ns))))
            return 0;
    return 1;
}

static cairn_err nodes_shell_flush(struct world *w, uint32_t node, const struct crn_item *item,
                                   struct crn_errinfo *e)
{
    struct data *d = data_of(w, node, item->seq);

    if (crn_item_has_ended(item->state))
        return crn_fail(e, CAIRN_ECANCELED, 0, "the checkpoint has failed elsewhere");
    if (!are_slots_there(w, node, item->seq))
        return crn_fail(e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint");
    if (!reaches_group(w, node))
        return crn_fail(e, CAIRN_ETIMEDOUT, 0, "a node sent nothing within commit_timeout");
    if (nodes_shell_strikes(w, CRN_BUG_EARLY))
        return CAIRN_OK;
    d->is_durable = 1;
    d->is_removed = 0;
    d->life = w->nodes[node].life;
    return CAIRN_OK;
}

static void remove_data(struct world *w, uint32_t node, const struct crn_item *item, int is_cut_off)
{
    struct data *d = data_of(w, node, item->seq);

    if (item->error.code == CAIRN_OK || !d->is_durable || d->life != w->nodes[node].life ||
        (is_cut_off && w->set.bug != CRN_BUG_REMOVED))
        return;
    d->is_removed = 1;
    crn_nodes_check_removal(w, node, item->seq);
}

static void make_local(struct world *w, uint32_t node, struct crn_item *item, int is_ok)
{
    struct crn_errinfo none = {0};
    struct crn_result note = {.kind = CRN_WORK_NOTE_LOCAL, .item = item, .error = &none};

    if (crn_item_has_ended(item->state) || !are_slots_there(w, node, item->seq))
        return;
    data_of(w, node, item->seq)->has_local |= (unsigned char)is_ok;
    if (is_ok || w->set.bug == CRN_BUG_LOCAL)
        crn_node_result(w->nodes[node].core, w->now_ns, &note);
}

/* Every member reads the streams of all others. */
static cairn_err make_parity(struct world *w, uint32_t node, const struct crn_item *item,
                             struct crn_errinfo *e)
{
    const struct sim_node *n = &w->nodes[node];
    uint32_t i;

    if (crn_item_has_ended(item->state))
        return crn_fail(e, CAIRN_ECANCELED, 0, "the checkpoint has ended");
    for (i = 0; i < n->nmembers; i++)
        if (w->nodes[n->member[i]].core == NULL ||
            !data_of(w, n->member[i], item->seq)->has_stream ||
            (n->member[i] != node && (crn_world_is_cut(w, n->member[i], w->now_ns) ||
                                      crn_world_is_cut(w, node, w->now_ns))))
            return crn_fail(e, CAIRN_ETIMEDOUT, 0, "node %u sent nothing", n->member[i]);
    data_of(w, node, item->seq)->has_parity = 1;
    return CAIRN_OK;
}

static cairn_err nodes_shell_protect(struct world *w, uint32_t node, const struct crn_action *a,
                                     struct crn_errinfo *e)
{
    if (a->work == CRN_WORK_PARITY)
        return make_parity(w, node, a->item, e);
    if (!are_slots_there(w, node, a->item->seq))
        return crn_fail(e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint");
    data_of(w, node, a->item->seq)->has_stream = 1;
    return CAIRN_OK;
}

/* What a worker has done. */
static cairn_err nodes_shell_work(struct world *w, uint32_t node, const struct crn_action *a,
                                  struct crn_errinfo *e)
{
    struct crn_item *item = a->item;

    if (a->work == CRN_WORK_LOCAL) {
        make_local(w, node, item, !crn_world_chance(w, 2 * w->p_fail));
        return CAIRN_OK;
    }
    if (a->work == CRN_WORK_RETIRE) {
        remove_data(w, node, item, a->number != 0);
        return CAIRN_OK;
    }
    if (w->nodes[node].fails || crn_world_chance(w, w->p_fail)) {
        w->nodes[node].fails = 0;
        return a->work == CRN_WORK_PARITY && w->set.bug == CRN_BUG_PARITY
                   ? CAIRN_OK
                   : crn_fail(e, CAIRN_EIO, EIO, "a simulated fault");
    }
    if (a->work == CRN_WORK_STREAM || a->work == CRN_WORK_PARITY)
        return nodes_shell_protect(w, node, a, e);
    if (a->work == CRN_WORK_SERVE && !are_slots_there(w, node, item->seq))
        return crn_fail(e, CAIRN_ECANCELED, 0, "superseded by a newer checkpoint");
    if (a->work == CRN_WORK_FLUSH)
        return nodes_shell_flush(w, node, item, e);
    if (a->work == CRN_WORK_COMMIT)
        crn_nodes_check_commit(w, item->seq);
    return CAIRN_OK;
}

/* A leader waits commit_timeout for a member that it does not reach. */
static int waits_on(struct world *w, struct event *ev)
{
    struct event *later;

    if (ev->action.work != CRN_WORK_FLUSH || ev->flag != 0 || reaches_group(w, ev->node) ||
        crn_item_has_ended(ev->action.item->state))
        return 0;
    later = crn_world_at(w, w->now_ns + (int64_t)w->cfg.commit_timeout_ns, EV_RESULT, ev->node);
    later->action = ev->action;
    later->flag = 2;
    return 1;
}

void crn_shell_result(struct world *w, struct event *ev)
{
    struct sim_node *n = &w->nodes[ev->node];
    struct crn_manifest_file file = {.name = "data-0000"};
    struct crn_errinfo e = {0};
    struct crn_result r = {.kind = ev->action.work,
                           .item = ev->action.item,
                           .claim = ev->action.claim,
                           .error = &e,
                           .number = 1,
                           .fs_type = crn_fs_type_find(CRN_FS_LUSTRE),
                           .file = &file};

    if (ev->life != n->life || waits_on(w, ev))
        return;
    if (ev->flag == 1)
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", ev->node);
    else
        (void)!nodes_shell_work(w, ev->node, &ev->action, &e);
    if (ev->action.work == CRN_WORK_LOOK) {
        struct version *v = &w->version[ev->action.item->seq - 1];

        r.number = v->is_committed != 0;
        v->is_unknown |= e.code != CAIRN_OK;
    }
    crn_node_result(n->core, w->now_ns, &r);
    crn_shell_act(w, ev->node);
}

/* Actions. ------------------------------------------------------------------------------------- */

static void nodes_shell_promise(struct world *w, uint32_t node, const struct crn_action *a)
{
    uint32_t i;

    for (i = a->first; i < a->end; i++)
        if (a->item->part[i].is_captured && !a->item->part[i].is_settled)
            rank_of(w, node, i)->capture[a->item->seq - 1].is_promised = 1;
}

static void nodes_shell_settle(struct world *w, uint32_t node, const struct crn_action *a)
{
    enum slot to = a->outcome == CRN_OUT_FLUSHED  ? SLOT_FLUSHED
                   : a->outcome == CRN_OUT_FAILED ? SLOT_FAILED
                                                  : SLOT_KEPT;
    uint32_t i;

    if (nodes_shell_strikes(w, CRN_BUG_UNSETTLED))
        return;
    if (to == SLOT_KEPT && w->set.bug == CRN_BUG_DROPPED)
        to = SLOT_FAILED;
    for (i = a->first; i < a->end; i++) {
        struct capture *c = &rank_of(w, node, i)->capture[a->item->seq - 1];

        if (c->slot == SLOT_WRITTEN)
            c->slot = (unsigned char)to;
        if (to != SLOT_KEPT || w->set.bug == CRN_BUG_UNSAFE)
            data_of(w, node, a->item->seq)->has_parity = 0;
        c->is_canceled |= a->item->error.code == CAIRN_ECANCELED;
    }
}

static void nodes_shell_tell(struct world *w, uint32_t node, const struct crn_action *a)
{
    uint32_t i;

    for (i = a->first; i < a->end; i++) {
        if (a->item != NULL && !a->item->part[i].is_captured)
            continue;
        crn_rank_tell(w, node * w->nranks + i, &a->msg);
        if (a->msg.type == CRN_MSG_STATE && nodes_shell_strikes(w, CRN_BUG_TWICE))
            w->bugs_left = 1;
        if (w->set.bug == CRN_BUG_TWICE)
            crn_rank_tell(w, node * w->nranks + i, &a->msg);
    }
}

static void ask_turn(struct world *w, uint32_t node, const struct crn_action *a)
{
    struct event *ev = crn_world_at(
        w, w->now_ns + crn_world_between(w, 0, w->set.has_faults ? 20 * SECOND : 0), EV_TURN, node);

    ev->seq = a->item->seq;
}

static void shell_act_one(struct world *w, uint32_t node, struct crn_action *a)
{
    switch (a->act) {
    case CRN_ACT_SEND:
        if (a->msg.type == CRN_MSG_RANK_DIED && w->set.bug == CRN_BUG_DEATH)
            a->msg.seq = 0;
        if (a->msg.type == CRN_MSG_LEVEL && a->msg.level.level == CAIRN_PROTECTED)
            crn_nodes_check_protected(w, a->msg.seq);
        shell_send(w, node, a->first, a->end, &a->msg);
        return;
    case CRN_ACT_TELL:
        nodes_shell_tell(w, node, a);
        return;
    case CRN_ACT_WORK:
        start_work(w, node, a);
        return;
    case CRN_ACT_PROMISE:
        nodes_shell_promise(w, node, a);
        return;
    case CRN_ACT_BEGIN:
        w->nodes[node].was_leader = a->item->leader == node;
        return;
    case CRN_ACT_TURN:
        ask_turn(w, node, a);
        return;
    case CRN_ACT_DECIDED:
        if (w->version[a->item->seq - 1].is_ended++ != 0)
            crn_world_problem(w, "checkpoint %llu was decided twice",
                              (unsigned long long)a->item->seq);
        crn_nodes_check_failure(w, a->item->seq, &a->msg.end.error);
        return;
    case CRN_ACT_SETTLE:
        nodes_shell_settle(w, node, a);
        return;
    case CRN_ACT_FREE:
        crn_item_free(a->item);
        return;
    default:
        return;
    }
}

void crn_shell_act(struct world *w, uint32_t node)
{
    struct crn_action a;

    while (crn_actions_next(&w->actions, &a))
        shell_act_one(w, node, &a);
}

/* Events. -------------------------------------------------------------------------------------- */

/* The version that a new one may be encoded against: the newest committed one in the arena. */
static uint64_t nodes_shell_newest(struct world *w, uint64_t before, int64_t *ret_version)
{
    uint64_t v;

    for (v = before - 1; v > 0; v--)
        if (w->ranks[0].capture[v - 1].slot == SLOT_FLUSHED) {
            *ret_version = (int64_t)v;
            return v + 1;
        }
    return 0;
}

void crn_shell_turn(struct world *w, const struct event *ev)
{
    struct sim_node *n = &w->nodes[ev->node];
    struct crn_item *item;
    struct crn_errinfo no = {0};
    int64_t version = -1;
    uint64_t base;

    if (ev->life != n->life)
        return;
    item = crn_node_find(n->core, ev->seq);
    if (item == NULL)
        return;
    base = nodes_shell_newest(w, ev->seq, &version);
    if (crn_world_chance(w, w->p_fail / 2))
        (void)!crn_fail(&no, CAIRN_ECANCELED, 0, "its flush was canceled at the broker");
    crn_node_turn(n->core, w->now_ns, item, no.code != CAIRN_OK ? &no : NULL, base, version);
    crn_shell_act(w, ev->node);
}

/* A leader answers an offer to help: with its file, or that no help is wanted. */
static void answer_help(struct world *w, uint32_t node, const struct crn_msg *m)
{
    const struct crn_item *item = crn_node_find(w->nodes[node].core, m->seq);
    struct crn_msg file;

    if (item == NULL || crn_item_has_ended(item->state))
        return;
    crn_node_msg(w->nodes[node].core, item, CRN_MSG_FILE, &file);
    if (item->state == CRN_ITEM_FLUSHING && crn_world_chance(w, 0.5))
        memcpy(file.file.name, "data-0000", sizeof("data-0000"));
    shell_send(w, node, m->node, m->node + 1, &file);
}

void crn_shell_message(struct world *w, const struct event *ev)
{
    struct sim_node *n = &w->nodes[ev->node];
    struct crn_errinfo ei = {0};
    struct crn_msg m, no;

    if (n->is_dead || ev->epoch != w->epoch)
        return;
    if (crn_msg_decode(ev->packet, ev->bytes, &m, &ei) != CAIRN_OK) {
        crn_world_problem(w, "from node %u: %s", ev->from, ei.msg);
        return;
    }
    if (n->core == NULL) {
        if (crn_node_refusal(&m, &no))
            shell_send(w, ev->node, ev->from, ev->from + 1, &no);
        if (w->epoch > 0 && crn_msg_has_ckpt(m.type) && m.seq > 0)
            w->version[m.seq - 1].is_unknown = 1;
    } else {
        if (m.type == CRN_MSG_HELP)
            answer_help(w, ev->node, &m);
        crn_node_from_node(n->core, w->now_ns, &m);
        crn_shell_act(w, ev->node);
    }
    crn_msg_free(&m);
}

void crn_shell_free(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct crn_item *item;

    while (n->core != NULL && (item = crn_node_take(n->core)) != NULL)
        crn_item_free(item);
    crn_node_free(n->core);
    n->core = NULL;
}

/* The ranks of the node cannot continue; their arenas stay for a drain. */
void crn_shell_die(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    uint32_t i;

    crn_shell_free(w, node);
    n->is_dead = n->has_died = 1;
    n->life++;
    for (i = 0; i < w->nranks; i++)
        rank_of(w, node, i)->is_gone = 1;
}
