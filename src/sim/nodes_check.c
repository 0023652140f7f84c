/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold in the simulation of nodes.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/nodes_world.h"

typedef unsigned long long ull;

/* A committed version has a file of every group. */
static void check_data(struct world *w, uint64_t seq)
{
    uint32_t g, i;

    for (g = 0; g < w->nfiles; g++) {
        uint32_t end = crn_elect_group_first(g + 1, w->set.nodes, w->nfiles);
        int is_there = 0;

        for (i = crn_elect_group_first(g, w->set.nodes, w->nfiles); i < end; i++)
            is_there |=
                w->nodes[i].data[seq - 1].is_durable && !w->nodes[i].data[seq - 1].is_removed;
        if (!is_there)
            crn_world_problem(w, "version %llu is committed, but file %u is not there", (ull)seq,
                              g);
    }
}

void crn_nodes_check_commit(struct world *w, uint64_t seq)
{
    w->version[seq - 1].is_committed = 1;
    check_data(w, seq);
}

void crn_nodes_check_protected(struct world *w, uint64_t seq)
{
    uint32_t i;

    w->version[seq - 1].is_protected = 1;
    for (i = 0; i < w->set.nodes; i++)
        if (!w->nodes[i].is_lost && !w->nodes[i].data[seq - 1].has_parity)
            crn_world_problem(w, "checkpoint %llu is 'protected', but node %u has no parity",
                              (ull)seq, i);
}

/* The version of the message "superseded by NAME@VERSION"; 0: it says something else. */
static uint64_t superseded_by(const struct crn_errinfo *error)
{
    const char *at = strchr(error->msg, '@');

    if (error->code != CAIRN_ECANCELED || strncmp(error->msg, "superseded by ", 14) != 0)
        return 0;
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

static void check_superseded(struct world *w, uint64_t seq, uint64_t newer)
{
    uint32_t i;

    for (i = 0; i < w->set.nodes * w->nranks; i++)
        if (newer <= seq || newer > w->nversions ||
            (!w->ranks[i].capture[newer - 1].was_made && !w->version[newer - 1].is_committed))
            crn_world_problem(w, "checkpoint %llu gave way to %llu, which rank %u has not captured",
                              (ull)seq, (ull)newer, i);
    if (newer <= w->nversions && w->version[seq - 1].is_protected &&
        !w->version[newer - 1].is_protected && !w->version[newer - 1].is_committed)
        crn_world_problem(w, "checkpoint %llu, which is protected, gave way to %llu, which is not",
                          (ull)seq, (ull)newer);
}

/* Dead ranks fail what they have not captured, and nothing else. A dead or unreachable service also
 * fails what all ranks have captured. */
void crn_nodes_check_failure(struct world *w, uint64_t seq, const struct crn_errinfo *error)
{
    uint64_t newer = superseded_by(error);
    uint32_t i;

    if (newer != 0)
        check_superseded(w, seq, newer);
    w->version[seq - 1].is_given_up |= error->code == CAIRN_ECANCELED;
    if (error->code != CAIRN_EPEER || w->res->cut > 0 || w->version[seq - 1].has_failed)
        return;
    for (i = 0; i < w->set.nodes * w->nranks; i++)
        if (!w->ranks[i].capture[seq - 1].is_made || w->nodes[w->ranks[i].node].has_died)
            return;
    crn_world_problem(w, "all ranks had captured checkpoint %llu, which failed: %s", (ull)seq,
                      error->msg);
}

void crn_nodes_check_removal(struct world *w, uint32_t node, uint64_t seq)
{
    if (w->version[seq - 1].is_committed)
        crn_world_problem(w, "node %u removed its file of version %llu, which is committed", node,
                          (ull)seq);
}

static void check_local(struct world *w, const struct rank *r, uint64_t seq)
{
    uint32_t i;

    for (i = 0; r->capture[seq - 1].was_local && i < w->set.nodes; i++)
        if (!w->nodes[i].data[seq - 1].has_local)
            crn_world_problem(w, "checkpoint %llu is 'local', but node %u has no copy", (ull)seq,
                              i);
}

/* A node that was cut off, or whose root died, may report a failure although it was committed. So may
 * all nodes after a restart, if the keeper could not look, or the root ended before a node asked it. */
static int may_be_wrong(const struct world *w, const struct rank *r, uint64_t seq)
{
    return w->version[seq - 1].is_unknown || w->nodes[r->node].cut_ns != INT64_MAX ||
           w->nodes[CRN_ROOT].cut_ns != INT64_MAX || w->nodes[CRN_ROOT].has_died;
}

static void check_capture(struct world *w, const struct rank *r, uint64_t seq)
{
    const struct capture *c = &r->capture[seq - 1];
    int is_committed = w->version[seq - 1].is_committed;

    if (c->slot == SLOT_NONE)
        return;
    check_local(w, r, seq);
    if (c->was_protected && !w->version[seq - 1].is_protected)
        crn_world_problem(w, "node %u was told that version %llu is protected, which it is not",
                          r->node, (ull)seq);
    if (c->is_ok && !is_committed)
        crn_world_problem(w, "node %u was told that version %llu is persistent, which it is not",
                          r->node, (ull)seq);
    if (is_committed && c->ends > 0 && !c->is_ok && !may_be_wrong(w, r, seq))
        crn_world_problem(w, "node %u was told that version %llu failed, which is committed",
                          r->node, (ull)seq);
    if (c->slot == SLOT_FLUSHED && !is_committed)
        crn_world_problem(w, "node %u released a capture of version %llu, which is not committed",
                          r->node, (ull)seq);
    if (c->is_promised && c->slot == SLOT_FAILED && !c->is_canceled && r->is_gone != 2)
        crn_world_problem(w, "node %u dropped a capture of %llu that all ranks had made", r->node,
                          (ull)seq);
    if (w->nodes[r->node].has_died)
        return; /* what it left is for a drain */
    if (c->slot == SLOT_WRITTEN)
        crn_world_problem(w, "node %u never released its slot of checkpoint %llu", r->node,
                          (ull)seq);
    if (c->ends != 1 && r->is_gone != 2)
        crn_world_problem(w, "a rank of node %u was told %u times how checkpoint %llu ended",
                          r->node, c->ends, (ull)seq);
}

/* Nothing came after a protected version that makes it superfluous: the nodes that are left have its
 * captures and its parity. */
static void check_rebuildable(struct world *w, uint64_t seq)
{
    uint32_t i, r;
    uint64_t v;

    for (v = seq; v <= w->nversions; v++)
        if (w->version[v - 1].is_committed || (v > seq && w->version[v - 1].is_protected))
            return;
    if (w->version[seq - 1].is_given_up)
        return;
    for (i = 0; i < w->set.nodes; i++) {
        int is_whole = w->nodes[i].data[seq - 1].has_parity;

        for (r = 0; r < w->nranks; r++) {
            unsigned char slot = w->ranks[i * w->nranks + r].capture[seq - 1].slot;

            is_whole &= slot == SLOT_WRITTEN || slot == SLOT_KEPT;
        }
        if (!is_whole && !w->nodes[i].is_lost)
            crn_world_problem(w, "checkpoint %llu was protected, but node %u has dropped its part",
                              (ull)seq, i);
    }
}

/* Something is still in flight. */
void crn_nodes_check_late(struct world *w)
{
    const struct crn_item *item;
    uint32_t i;

    for (i = 0; i < w->set.nodes; i++) {
        if (w->nodes[i].core == NULL)
            continue;
        item = crn_node_items(w->nodes[i].core);
        if (item != NULL)
            crn_world_problem(w,
                              "after %.0f s node %u still has checkpoint %llu: %s, root: %s, %u "
                              "users, %u captured",
                              (double)w->now_ns * 1e-9, i, (ull)item->seq,
                              crn_item_state_name(item->state),
                              item->root != NULL ? crn_root_state_name(item->root->state) : "-",
                              item->users, item->ncaptured);
        else
            crn_world_problem(w, "after %.0f s node %u still waits for its ranks",
                              (double)w->now_ns * 1e-9, i);
        if (item != NULL)
            return;
    }
}

void crn_nodes_check_end(struct world *w)
{
    uint32_t i, v;

    for (v = 1; v <= w->nversions; v++) {
        if (w->version[v - 1].is_committed)
            check_data(w, v);
        w->res->committed += w->version[v - 1].is_committed != 0;
        w->res->protected += w->version[v - 1].is_protected != 0;
        if (w->version[v - 1].is_protected)
            check_rebuildable(w, v);
    }
    w->res->failed = w->nversions - w->res->committed;
    for (i = 0; i < w->set.nodes * w->nranks; i++)
        for (v = 1; v <= w->nversions; v++)
            check_capture(w, &w->ranks[i], v);
}
