/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of the simulation: they claim the name, capture, hear of the end, and leave. */
#include <stdlib.h>

#include "sim/nodes_world.h"

static int64_t socket_time(struct world *w, int64_t *last_ns)
{
    int64_t at_ns =
        w->now_ns + crn_world_between(w, MILLI / 100, w->set.has_faults ? SECOND : MILLI);

    *last_ns = at_ns > *last_ns ? at_ns : *last_ns;
    return *last_ns;
}

static struct event *rank_event(struct world *w, uint32_t rank, enum event_kind kind,
                                const struct crn_msg *m)
{
    struct rank *r = &w->ranks[rank];
    struct event *ev = crn_world_at(w, socket_time(w, kind == EV_TO_RANK ? &r->to_ns : &r->from_ns),
                                    kind, r->node);
    struct crn_errinfo ei = {0};
    struct crn_buf b = {0};

    ev->rank = rank;
    if (kind == EV_FROM_RANK)
        ev->life = r->life;
    if (m == NULL)
        return ev;
    if (crn_msg_encode(m, &b, &ei) != CAIRN_OK)
        crn_world_problem(w, "%s: %s", crn_msg_name(m->type), ei.msg);
    ev->packet = b.data;
    ev->bytes = b.len;
    return ev;
}

void crn_rank_tell(struct world *w, uint32_t rank, const struct crn_msg *m)
{
    (void)rank_event(w, rank, EV_TO_RANK, m);
}

void crn_rank_send(struct world *w, uint32_t rank, const struct crn_msg *m)
{
    (void)rank_event(w, rank, EV_FROM_RANK, m);
}

struct crn_msg crn_rank_message(enum crn_msg_type type, uint64_t seq, uint64_t created_ns)
{
    struct crn_msg m = {.type = type, .seq = seq};

    if (!crn_msg_has_ckpt(type))
        return m;
    (void)snprintf(m.ckpt.name, sizeof(m.ckpt.name), CRN_SIM_NAME);
    m.ckpt.version = (int64_t)seq;
    m.ckpt.created_ns = created_ns;
    return m;
}

static struct crn_msg rank_message_now(const struct world *w, enum crn_msg_type type, uint64_t seq)
{
    return crn_rank_message(type, seq, (uint64_t)w->now_ns);
}

/* cairn_close waits for the newest capture that has not failed. */
static void insist_on_newest(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    uint32_t v;

    for (v = w->nversions; v > 0 && !r->is_gone && r->captured == w->nversions; v--) {
        struct capture *c = &r->capture[v - 1];
        struct crn_msg m = rank_message_now(w, CRN_MSG_WAITED, v);

        if (c->slot == SLOT_NONE || (c->ends > 0 && !c->is_ok))
            continue;
        if (c->ends == 0 && !c->is_insisted)
            (void)rank_event(w, rank, EV_FROM_RANK, &m);
        c->is_insisted = 1;
        return;
    }
}

/* Says BYE once every capture has ended. */
static void leave_if_done(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    uint32_t v;

    if (r->is_gone || r->captured < w->nversions)
        return;
    for (v = 0; v < w->nversions; v++)
        if (r->capture[v].slot != SLOT_NONE && r->capture[v].ends == 0)
            return;
    crn_rank_leave(w, rank, 0);
}

/* What the rank waits for by now. */
static void rank_wait(struct world *w, uint32_t rank)
{
    struct crn_msg wanted = {.type = CRN_MSG_WANTED, .seq = w->nversions};

    if (w->ranks[rank].captured == w->nversions) /* cairn_close waits for all */
        crn_rank_send(w, rank, &wanted);
    insist_on_newest(w, rank);
    leave_if_done(w, rank);
}

static void nodes_rank_captured(struct world *w, uint32_t rank)
{
    w->ranks[rank].captured++;
    rank_wait(w, rank);
}

void crn_rank_resume(struct world *w, uint32_t rank)
{
    const struct rank *r = &w->ranks[rank];
    struct crn_msg claim = rank_message_now(w, CRN_MSG_CLAIM, r->claims);

    if (!r->is_claimed && r->claims == r->captured + 1)
        crn_rank_send(w, rank, &claim);
    rank_wait(w, rank);
}

static void capture_failed(struct world *w, uint32_t rank, uint64_t seq, const char *why)
{
    struct crn_msg m = rank_message_now(w, CRN_MSG_CAPTURE_FAILED, seq);

    (void)!crn_fail(&m.failed.error, CAIRN_EIO, 0, "%s", why);
    (void)rank_event(w, rank, EV_FROM_RANK, &m);
    nodes_rank_captured(w, rank);
}

static void rank_ask_again(struct world *w, const struct event *ev, int64_t in_ns, int flag)
{
    struct event *next = crn_world_at(w, w->now_ns + in_ns, EV_CAPTURE, ev->node);

    next->rank = ev->rank;
    next->seq = ev->seq;
    next->flag = flag;
}

/* Waits for the answer, at most commit_timeout: flag counts the tenths. */
static void claim_first(struct world *w, const struct event *ev)
{
    struct crn_msg m = rank_message_now(w, CRN_MSG_CLAIM, ev->seq + 1);

    if (ev->flag == 0)
        crn_rank_send(w, ev->rank, &m);
    w->ranks[ev->rank].claims = m.seq;
    if (ev->flag > 10)
        capture_failed(w, ev->rank, ev->seq + 1, "no answer to the claim");
    else
        rank_ask_again(w, ev, (int64_t)w->cfg.commit_timeout_ns / 10, ev->flag + 1);
}

void crn_rank_capture(struct world *w, const struct event *ev)
{
    struct rank *r = &w->ranks[ev->rank];
    struct crn_msg m = rank_message_now(w, CRN_MSG_CAPTURED, ev->seq + 1);

    if (r->is_gone || r->captured > ev->seq)
        return;
    if (r->captured < ev->seq) {
        rank_ask_again(w, ev, w->interval_ns / 8 + 1, 0);
        return;
    }
    if (!r->is_claimed) {
        claim_first(w, ev);
        return;
    }
    if (crn_world_chance(w, w->p_fail / 4 / (w->set.nodes * w->nranks))) {
        capture_failed(w, ev->rank, ev->seq + 1, "a simulated fault");
        return;
    }
    r->capture[ev->seq].slot = SLOT_WRITTEN;
    r->capture[ev->seq].is_made = r->capture[ev->seq].was_made = 1;
    m.captured.slot = (uint32_t)ev->seq;
    m.captured.bytes = 1 + crn_rng_below(&w->rng, 1 << 20);
    r->capture[ev->seq].bytes = m.captured.bytes;
    r->capture[ev->seq].made_ns = w->now_ns;
    m.captured.copy_ns = 1000;
    (void)rank_event(w, ev->rank, EV_FROM_RANK, &m);
    if (crn_world_chance(w, w->p_fail / 4 / (w->set.nodes * w->nranks))) { /* superseded at once */
        struct crn_msg drop = rank_message_now(w, CRN_MSG_DROPPED, ev->seq + 1);

        r->capture[ev->seq].slot = SLOT_NONE;
        r->capture[ev->seq].is_made = 0;
        (void)rank_event(w, ev->rank, EV_FROM_RANK, &drop);
    }
    nodes_rank_captured(w, ev->rank);
}

/* A packet, or the end of the connection. */
void crn_rank_to_service(struct world *w, const struct event *ev)
{
    struct sim_node *n = &w->nodes[ev->node];
    const struct rank *r = &w->ranks[ev->rank];
    struct crn_errinfo ei = {0};
    struct crn_msg m;

    if (n->core == NULL || ev->life != n->life)
        return;
    if (ev->packet == NULL) {
        crn_node_left(n->core, w->now_ns, r->local, ev->flag);
    } else if (crn_msg_decode(ev->packet, ev->bytes, &m, &ei) == CAIRN_OK) {
        if (m.type != CRN_MSG_CAPTURED || crn_nodes_restart_is_news(w, ev->rank, m.seq))
            crn_node_from_rank(n->core, w->now_ns, r->local, MAX_VERSIONS, &m);
        crn_msg_free(&m);
    } else {
        crn_world_problem(w, "from rank %u: %s", ev->rank, ei.msg);
    }
    crn_shell_act(w, ev->node);
}

void crn_rank_leave(struct world *w, uint32_t rank, int is_dead)
{
    if (w->ranks[rank].is_gone)
        return;
    w->ranks[rank].is_gone = is_dead ? 2 : 1;
    rank_event(w, rank, EV_FROM_RANK, NULL)->flag = is_dead;
}

static void on_state(struct world *w, struct rank *r, const struct crn_msg *m)
{
    struct capture *c = &r->capture[m->seq - 1];

    int is_ok = m->state.error.code == CAIRN_OK;
    int is_saved = crn_level_has(m->state.levels, CAIRN_PERSISTENT);

    c->was_local |= is_ok && !is_saved && crn_level_has(m->state.levels, CAIRN_LOCAL);
    c->was_protected |= is_ok && !is_saved && crn_level_has(m->state.levels, CAIRN_PROTECTED);
    if (is_ok && !is_saved)
        return;
    if (r->life > 0 && c->ends == 1 && c->is_ok == is_ok)
        return; /* the slot, or the dead service, had told it already */
    c->ends++;
    c->is_ok |= is_ok != 0;
    if (c->ends > 1 && c->slot != SLOT_NONE)
        crn_world_problem(w, "a rank of node %u was told twice how checkpoint %llu ended", r->node,
                          (unsigned long long)m->seq);
}

void crn_rank_told(struct world *w, const struct event *ev)
{
    struct rank *r = &w->ranks[ev->rank];
    struct crn_errinfo ei = {0};
    struct crn_msg m;

    if (r->is_gone != 0 || ev->life != r->life)
        return;
    if (crn_msg_decode(ev->packet, ev->bytes, &m, &ei) != CAIRN_OK) {
        crn_world_problem(w, "to rank %u: %s", ev->rank, ei.msg);
        return;
    }
    if (m.type == CRN_MSG_STATE) {
        on_state(w, r, &m);
        insist_on_newest(w, ev->rank);
        leave_if_done(w, ev->rank);
    } else if (m.type == CRN_MSG_CLAIMED && m.claimed.generation != 0) {
        r->is_claimed = 1;
    } else if (m.type == CRN_MSG_CLAIMED && r->captured + 1 == m.seq && !r->is_claimed) {
        nodes_rank_captured(w, ev->rank); /* refused: the next checkpoint claims it again */
    }
    crn_msg_free(&m);
}
