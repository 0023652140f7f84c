/* SPDX-License-Identifier: BSD-3-Clause */
/* All services of the simulated job die and are restarted, while the ranks continue. This is what
 * src/service/takeover.c and src/client/rejoin.c do: the service adopts the captures in the arenas
 * once all nodes are here, and each rank joins again at a time of its own. */
#include "sim/nodes_world.h"

/* A manifest in flight may have become visible. */
static void restart_commits(struct world *w)
{
    size_t i;

    for (i = 0; i < w->nheap; i++) {
        const struct event *ev = w->heap[i];

        if (ev->kind == EV_RESULT && ev->action.work == CRN_WORK_COMMIT && ev->flag == 0 &&
            ev->life == w->nodes[ev->node].life && crn_world_chance(w, 0.5))
            crn_nodes_check_commit(w, ev->action.item->seq);
    }
}

void crn_nodes_restart_stop(struct world *w)
{
    uint32_t i;

    restart_commits(w);
    for (i = 0; i < w->set.nodes; i++) {
        crn_shell_free(w, i);
        w->nodes[i].life++;
        w->nodes[i].is_adopted = 0;
    }
    for (i = 0; i < w->nversions; i++) {
        w->version[i].has_failed |= w->version[i].is_ended && !w->version[i].is_committed;
        w->version[i].is_ended = 0;
    }
    w->epoch++;
}

/* A node whose ranks have all died does not open the job again, so no other node continues it. */
static int is_living(const struct world *w)
{
    uint32_t i, r, living;

    for (i = 0; i < w->set.nodes; i++) {
        living = 0;
        for (r = 0; r < w->nranks; r++)
            living += w->ranks[i * w->nranks + r].is_gone == 0;
        if (living == 0)
            return 0;
    }
    return 1;
}

static uint64_t newest_slot(const struct world *w, const struct rank *r)
{
    uint64_t v = w->nversions;

    while (v > 0 && r->capture[v - 1].slot == SLOT_NONE)
        v--;
    return v;
}

cairn_err crn_nodes_restart_open(struct world *w, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (!is_living(w)) {
        for (i = 0; i < w->set.nodes; i++)
            crn_shell_die(w, i);
        return CAIRN_OK;
    }
    for (i = 0; rc == CAIRN_OK && i < w->set.nodes; i++) {
        w->nodes[i].is_dead = 0;
        w->nodes[i].life++;
        rc = crn_world_open_node(w, i, ei);
        (void)crn_world_at(w, w->now_ns + crn_world_between(w, 0, 20 * SECOND), EV_ADOPT, i);
    }
    for (i = 0; rc == CAIRN_OK && i < w->set.nodes * w->nranks; i++) {
        struct rank *r = &w->ranks[i];

        crn_node_rejoined(w->nodes[r->node].core, r->local, i, newest_slot(w, r));
        crn_world_at(w, w->now_ns + crn_world_between(w, 0, 60 * SECOND), EV_REJOIN, r->node)
            ->rank = i;
    }
    w->res->restarted++;
    return rc;
}

/* As crn_rank_capture reports it. */
static void restart_report(const struct rank *r, uint64_t seq, struct crn_msg *ret)
{
    *ret = crn_rank_message(CRN_MSG_CAPTURED, seq, (uint64_t)r->capture[seq - 1].made_ns);
    ret->captured.slot = (uint32_t)(seq - 1);
    ret->captured.bytes = r->capture[seq - 1].bytes;
}

/* The state of a capture whose end the core does not know any more; 1: the core shall hear of it. */
int crn_nodes_restart_is_news(struct world *w, uint32_t rank, uint64_t seq)
{
    const struct rank *r = &w->ranks[rank];
    const struct capture *c = &r->capture[seq - 1];
    struct sim_node *n = &w->nodes[r->node];
    const struct crn_item *item = crn_node_find(n->core, seq);
    struct crn_msg end;

    if (w->epoch == 0 || (item != NULL && item->part[r->local].is_captured))
        return 1;
    if (c->slot == SLOT_WRITTEN) {
        crn_node_granted(n->core, CRN_SIM_NAME, 1);
        return 1;
    }
    if (c->slot == SLOT_NONE)
        return 0;
    end = crn_rank_message(CRN_MSG_STATE, seq, 0);
    if (c->slot == SLOT_FLUSHED)
        end.state.levels = crn_level_set(CAIRN_PERSISTENT);
    else
        (void)!crn_fail(&end.state.error, CAIRN_ESERVICE, 0, "its flush failed");
    crn_rank_tell(w, rank, &end);
    return 0;
}

static void adopt_rank(struct world *w, uint32_t rank)
{
    const struct rank *r = &w->ranks[rank];
    struct crn_node *core = w->nodes[r->node].core;
    struct crn_msg m;
    uint32_t v;

    for (v = 1; v <= w->nversions; v++) {
        if (r->capture[v - 1].slot != SLOT_WRITTEN || !crn_nodes_restart_is_news(w, rank, v))
            continue;
        restart_report(r, v, &m);
        crn_node_from_rank(core, w->now_ns, r->local, MAX_VERSIONS, &m);
        crn_shell_act(w, r->node);
    }
}

/* The captures of ranks that have not joined yet; then, ranks that died or left without joining,
 * which are found by their locks. */
void crn_nodes_restart_adopt(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    uint32_t i;

    n->is_adopted = 1;
    for (i = 0; i < w->nranks; i++)
        if (w->ranks[node * w->nranks + i].life != n->life && !crn_node_has_left(n->core, i))
            adopt_rank(w, node * w->nranks + i);
    for (i = 0; i < w->nranks; i++) {
        const struct rank *r = &w->ranks[node * w->nranks + i];

        if (r->is_gone == 0 || r->life == n->life || crn_node_has_left(n->core, i))
            continue;
        crn_node_left(n->core, w->now_ns, i, 1);
        crn_shell_act(w, node);
    }
}

/* The slots tell the rank what the dead service had decided; the rest it reports once more. */
void crn_nodes_restart_rejoin(struct world *w, uint32_t rank)
{
    struct rank *r = &w->ranks[rank];
    struct crn_msg m;
    uint32_t v;

    if (r->is_gone != 0)
        return;
    r->life = w->nodes[r->node].life;
    for (v = 1; v <= w->nversions; v++) {
        struct capture *c = &r->capture[v - 1];

        c->is_insisted = 0;
        if (c->slot == SLOT_WRITTEN) {
            restart_report(r, v, &m);
            crn_rank_send(w, rank, &m);
        } else if (c->slot != SLOT_NONE && c->ends == 0) {
            c->ends = 1;
            c->is_ok = c->slot == SLOT_FLUSHED;
        }
    }
    crn_rank_resume(w, rank);
}
