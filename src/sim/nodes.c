/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of nodes.h: the order of events, and what a seed draws. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protect/sets.h"
#include "sim/nodes_world.h"

void crn_world_problem(struct world *w, const char *fmt, ...)
{
    va_list args;

    if (w->res->problem[0] != '\0')
        return; /* the first one counts */
    va_start(args, fmt);
    (void)vsnprintf(w->res->problem, sizeof(w->res->problem), fmt, args);
    va_end(args);
}

int crn_world_chance(struct world *w, double p)
{
    return crn_rng_unit(&w->rng) < p;
}

/* Most draws are near the lower end. */
int64_t crn_world_between(struct world *w, int64_t least, int64_t most)
{
    double u = crn_rng_unit(&w->rng);

    return least + (int64_t)((double)(most - least) * u * u * u);
}

/* Events. -------------------------------------------------------------------------------------- */

static int is_before(const struct event *a, const struct event *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->no < b->no);
}

static void event_free(struct event *ev)
{
    if (ev == NULL)
        return;
    free(ev->packet);
    free(ev);
}

static int nodes_push(struct world *w, struct event *ev)
{
    size_t i;

    if (w->nheap == w->cap) {
        size_t cap = w->cap != 0 ? 2 * w->cap : 1024;
        struct event **heap = realloc(w->heap, cap * sizeof(struct event *));

        if (heap == NULL)
            return -1;
        w->heap = heap;
        w->cap = cap;
    }
    for (i = w->nheap++; i > 0 && is_before(ev, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = ev;
    return 0;
}

static struct event *nodes_pop(struct world *w)
{
    struct event *top = w->nheap > 0 ? w->heap[0] : NULL;
    struct event *last;
    size_t i = 0;

    if (top == NULL)
        return NULL;
    last = w->heap[--w->nheap];
    for (;;) {
        size_t c = 2 * i + 1;

        if (c + 1 < w->nheap && is_before(w->heap[c + 1], w->heap[c]))
            c++;
        if (c >= w->nheap || is_before(last, w->heap[c]))
            break;
        w->heap[i] = w->heap[c];
        i = c;
    }
    if (w->nheap > 0)
        w->heap[i] = last;
    return top;
}

/* The returned event is not NULL, but without memory it will not happen. */
struct event *crn_world_at(struct world *w, int64_t at_ns, enum event_kind kind, uint32_t node)
{
    static struct event lost;
    struct event *ev = calloc(1, sizeof(*ev));

    if (ev == NULL) {
        w->is_out_of_memory = 1;
        return &lost;
    }
    ev->at_ns = at_ns;
    ev->no = w->next_no++;
    ev->kind = kind;
    ev->node = node;
    ev->life = w->nodes[node].life;
    ev->epoch = w->epoch;
    if (nodes_push(w, ev) != 0) {
        free(ev);
        w->is_out_of_memory = 1;
        return &lost;
    }
    return ev;
}

int crn_world_is_cut(const struct world *w, uint32_t node, int64_t at_ns)
{
    return at_ns >= w->nodes[node].cut_ns && at_ns < w->nodes[node].healed_ns;
}

/* What the seed draws. ------------------------------------------------------------------------- */

static uint32_t nodes_pick(struct world *w, uint32_t given, uint32_t most, uint32_t otherwise)
{
    if (given != 0)
        return given;
    return w->set.has_faults ? 1 + (uint32_t)crn_rng_below(&w->rng, most) : otherwise;
}

/* Which versions are due: by number, by time, or none. */
static void draw_every(struct world *w)
{
    struct crn_every *every = &w->cfg.names.persistent_every;

    every->count = crn_rng_below(&w->rng, 4);
    if (every->count == 1)
        *every = (struct crn_every){.ns = 2 * (uint64_t)w->interval_ns};
    w->cfg.names.keep_protected = 1 + crn_rng_below(&w->rng, 3);
}

/* Sets of nodes, and a scheme that they can carry. */
static void draw_protection(struct world *w)
{
    static const char *const schemes[] = {"partner", "xor", "rs:2"};
    const char *text = schemes[crn_rng_below(&w->rng, 3)];
    struct crn_protection scheme = {0};
    struct crn_errinfo ei = {0};
    uint64_t domain[64];
    uint32_t set[64];
    uint32_t i;

    for (i = 0; i < w->set.nodes && i < 64; i++)
        domain[i] = i;
    if (w->set.nodes > 64 || crn_scheme_parse(text, "protect", &scheme, &ei) != CAIRN_OK ||
        crn_sets_form(domain, w->set.nodes, scheme, 0, set, &ei) != CAIRN_OK)
        return;
    (void)snprintf(w->cfg.names.protect, sizeof(w->cfg.names.protect), "%s", text);
    w->cfg.names.protect_every.count = 1 + crn_rng_below(&w->rng, 2);
    for (i = 0; i < w->set.nodes; i++)
        w->nodes[i].nmembers = crn_sets_members(set, w->set.nodes, i, w->nodes[i].member);
}

static void draw_config(struct world *w)
{
    static const int64_t timeouts[] = {2, 5, 20, 60};

    crn_config_defaults(&w->cfg);
    w->interval_ns = 10 * SECOND;
    w->cfg.stripe_count = 4;
    if (w->set.every != 0)
        w->cfg.names.persistent_every.count = w->set.every;
    if (!w->set.has_faults)
        return;
    w->cfg.commit_timeout_ns = (uint64_t)(timeouts[crn_rng_below(&w->rng, 4)] * SECOND);
    w->interval_ns = crn_world_between(w, SECOND / 10, 60 * SECOND);
    w->p_fail = crn_world_chance(w, 0.5) ? crn_rng_unit(&w->rng) * 0.6 / (w->set.nodes + 2) : 0;
    w->cfg.leaders_per_file = crn_rng_below(&w->rng, 4);
    w->cfg.reroute = (uint64_t)crn_world_chance(w, 0.7);
    if (crn_world_chance(w, 0.5))
        (void)snprintf(w->cfg.local, sizeof(w->cfg.local), "/local");
    if (crn_world_chance(w, 0.3))
        w->cfg.discard_consumed = w->cfg.local_cache = 1; /* a lazy job */
    if (w->set.every == 0 && crn_world_chance(w, 0.4))
        draw_every(w);
    if (crn_world_chance(w, 0.3)) {
        w->cfg.names.encode = CRN_ENCODE_AWARE;
        w->cfg.names.encode_full_every = 4;
    }
}

static void draw_deaths(struct world *w)
{
    int64_t end_ns = w->interval_ns * (w->nversions + 1);
    uint32_t i, count = crn_world_chance(w, 0.6) ? (uint32_t)crn_rng_below(&w->rng, 3) : 0;

    for (i = 0; i < count; i++) {
        uint32_t node = (uint32_t)crn_rng_below(&w->rng, w->set.nodes);
        int64_t at_ns = (int64_t)(crn_rng_unit(&w->rng) * (double)end_ns);
        int is_host = crn_world_chance(w, 0.5);

        crn_world_at(w, at_ns, EV_DIE, node)->flag = is_host;
        w->res->dead++;
        if (!is_host && crn_world_chance(w, 0.7)) {
            (void)crn_world_at(w, at_ns + crn_world_between(w, MILLI, 100 * SECOND), EV_RESTART,
                               node);
            w->res->restarted++;
        }
    }
    count = crn_world_chance(w, 0.4) ? (uint32_t)crn_rng_below(&w->rng, 3) : 0;
    for (i = 0; i < count; i++) {
        struct event *ev =
            crn_world_at(w, (int64_t)(crn_rng_unit(&w->rng) * (double)end_ns), EV_LEAVE, 0);

        ev->rank = (uint32_t)crn_rng_below(&w->rng, (uint64_t)w->set.nodes * w->nranks);
        ev->node = w->ranks[ev->rank].node;
        ev->flag = 1;
        w->res->dead++;
    }
}

static void draw_cuts(struct world *w)
{
    int64_t end_ns = w->interval_ns * (w->nversions + 1);
    uint32_t i, count = crn_world_chance(w, 0.3) ? (uint32_t)crn_rng_below(&w->rng, 3) : 0;

    for (i = 0; i < count && w->set.nodes > 1; i++) {
        struct sim_node *n = &w->nodes[crn_rng_below(&w->rng, w->set.nodes)];

        n->cut_ns = (int64_t)(crn_rng_unit(&w->rng) * (double)end_ns);
        n->healed_ns = crn_world_chance(w, 0.3)
                           ? INT64_MAX
                           : n->cut_ns + crn_world_between(w, SECOND, 200 * SECOND);
        w->res->cut++;
    }
}

/* All services die, and are restarted. */
static void draw_restarts(struct world *w)
{
    int64_t at_ns = 0;
    uint32_t i, count = crn_world_chance(w, 0.3) ? 1 + (uint32_t)crn_rng_below(&w->rng, 2) : 0;

    for (i = 0; i < count; i++) {
        at_ns += (int64_t)(crn_rng_unit(&w->rng) * (double)(w->interval_ns * (w->nversions + 1)));
        (void)crn_world_at(w, at_ns, EV_STOP, 0);
        at_ns += crn_world_between(w, MILLI, 100 * SECOND);
        (void)crn_world_at(w, at_ns, EV_REOPEN, 0);
    }
}

static void draw_captures(struct world *w)
{
    uint32_t i, v;

    for (i = 0; i < w->set.nodes * w->nranks; i++)
        for (v = 0; v < w->nversions; v++) {
            int64_t at_ns = (v + 1) * w->interval_ns + crn_world_between(w, 0, 100 * MILLI);
            struct event *ev;

            if (w->set.has_faults && crn_world_chance(w, 0.2 / (w->set.nodes * w->nranks))) {
                at_ns += crn_world_between(w, SECOND, 4 * (int64_t)w->cfg.commit_timeout_ns);
                w->res->late++;
            }
            ev = crn_world_at(w, at_ns, EV_CAPTURE, w->ranks[i].node);
            ev->rank = i;
            ev->seq = v;
        }
}

/* Life. ---------------------------------------------------------------------------------------- */

cairn_err crn_world_open_node(struct world *w, uint32_t node, struct crn_errinfo *ei)
{
    struct crn_node_setup setup = {.node = node,
                                   .nodes = w->set.nodes,
                                   .nlocal = w->nranks,
                                   .files = w->nfiles,
                                   .cfg = &w->cfg,
                                   .nmembers = w->nodes[node].nmembers,
                                   .members = w->nodes[node].member,
                                   .shell_bytes = 1,
                                   .out = &w->actions};
    uint32_t i;
    cairn_err rc = crn_node_new(&setup, w->now_ns, &w->nodes[node].core, ei);

    for (i = 0; rc == CAIRN_OK && i < w->nranks; i++)
        crn_node_joined(w->nodes[node].core, i, node * w->nranks + i);
    if (rc == CAIRN_OK)
        (void)crn_world_at(w, w->now_ns + crn_world_between(w, 0, SECOND), EV_TICK, node);
    return rc;
}

static cairn_err world_open(struct world *w, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    crn_rng_seed(&w->rng, w->set.seed);
    if (w->set.has_faults)
        w->set.nodes = 1 + (uint32_t)(pow((double)w->set.nodes, crn_rng_unit(&w->rng)));
    w->set.nodes = w->set.nodes > CRN_NODES_MAX ? CRN_NODES_MAX : w->set.nodes;
    w->nfiles = nodes_pick(w, w->set.files, w->set.nodes, (w->set.nodes + 7) / 8);
    w->nfiles = w->nfiles > w->set.nodes ? w->set.nodes : w->nfiles;
    w->nversions = nodes_pick(w, w->set.versions, MAX_VERSIONS, 3);
    w->nranks = nodes_pick(w, w->set.ranks, 4, 1);
    w->bugs_left = 1;
    draw_config(w);
    w->nodes = calloc(w->set.nodes, sizeof(*w->nodes));
    w->ranks = calloc((size_t)w->set.nodes * w->nranks, sizeof(*w->ranks));
    if (w->nodes == NULL || w->ranks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u nodes", w->set.nodes);
    for (i = 0; i < w->set.nodes * w->nranks; i++) {
        w->ranks[i].node = i / w->nranks;
        w->ranks[i].local = i % w->nranks;
    }
    if (w->set.has_faults && crn_world_chance(w, 0.4))
        draw_protection(w);
    for (i = 0; i < w->set.nodes; i++) {
        w->nodes[i].cut_ns = INT64_MAX;
        if (rc == CAIRN_OK)
            rc = crn_world_open_node(w, i, ei);
    }
    draw_captures(w);
    if (w->set.has_faults) {
        draw_deaths(w);
        draw_cuts(w);
        draw_restarts(w);
    }
    return rc;
}

static void world_close(struct world *w)
{
    struct event *ev;
    uint32_t i;

    while ((ev = nodes_pop(w)) != NULL)
        event_free(ev);
    for (i = 0; w->nodes != NULL && i < w->set.nodes; i++)
        crn_shell_free(w, i);
    free(w->heap);
    free(w->nodes);
    free(w->ranks);
    crn_actions_free(&w->actions);
    crn_config_fini(&w->cfg);
}

/* A service whose ranks have left ends when nothing is in flight. */
static void end_if_done(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    if (n->core == NULL || !crn_node_is_done(n->core))
        return;
    crn_shell_free(w, node);
    n->life++;
}

static cairn_err nodes_handle(struct world *w, struct event *ev, struct crn_errinfo *ei)
{
    struct sim_node *n = &w->nodes[ev->node];

    switch (ev->kind) {
    case EV_TICK:
        if (n->core == NULL || ev->life != n->life)
            return CAIRN_OK;
        if (n->is_adopted)
            crn_nodes_restart_adopt(w, ev->node);
        crn_node_tick(n->core, w->now_ns);
        crn_shell_act(w, ev->node);
        (void)crn_world_at(w, w->now_ns + SECOND, EV_TICK, ev->node);
        return CAIRN_OK;
    case EV_CAPTURE:
        crn_rank_capture(w, ev);
        return CAIRN_OK;
    case EV_FROM_RANK:
        crn_rank_to_service(w, ev);
        return CAIRN_OK;
    case EV_TO_RANK:
        crn_rank_told(w, ev);
        return CAIRN_OK;
    case EV_MESSAGE:
        crn_shell_message(w, ev);
        return CAIRN_OK;
    case EV_RESULT:
        crn_shell_result(w, ev);
        return CAIRN_OK;
    case EV_TURN:
        crn_shell_turn(w, ev);
        return CAIRN_OK;
    case EV_LEAVE:
        crn_rank_leave(w, ev->rank, ev->flag);
        return CAIRN_OK;
    case EV_DIE:
        n->is_lost |= ev->flag;
        crn_shell_die(w, ev->node);
        return CAIRN_OK;
    case EV_RESTART: /* it answers for a job that it does not know */
        n->is_dead = n->is_lost;
        return CAIRN_OK;
    case EV_STOP:
        crn_nodes_restart_stop(w);
        return CAIRN_OK;
    case EV_REOPEN:
        return crn_nodes_restart_open(w, ei);
    case EV_ADOPT:
        if (ev->life == n->life)
            crn_nodes_restart_adopt(w, ev->node);
        return CAIRN_OK;
    case EV_REJOIN:
        if (ev->life == n->life)
            crn_nodes_restart_rejoin(w, ev->rank);
        return CAIRN_OK;
    }
    return CAIRN_OK;
}

/* By then everything has ended: the last capture or fault, then for each version its tasks, at most a
 * minute each, and the deadlines. */
static int64_t latest_end(const struct world *w)
{
    int64_t timeout_ns = (int64_t)w->cfg.commit_timeout_ns;

    return 3 * w->interval_ns * (w->nversions + 1) + 10 * timeout_ns + 600 * SECOND +
           w->nversions * (4 * timeout_ns + 300 * SECOND);
}

/* The caller's own fault. */
static void nodes_strike(struct world *w)
{
    uint32_t node = w->set.strike_node % w->set.nodes;

    switch (w->set.strike) {
    case CRN_STRIKE_RANK:
        w->res->dead++;
        crn_rank_leave(w, node * w->nranks, 1);
        return;
    case CRN_STRIKE_SERVICE:
        w->res->dead++;
        crn_shell_die(w, node);
        return;
    case CRN_STRIKE_HOST:
        w->res->dead++;
        w->nodes[node].is_lost = 1;
        crn_shell_die(w, node);
        return;
    case CRN_STRIKE_CUT:
    case CRN_STRIKE_LATE:
        w->res->cut++;
        w->nodes[node].cut_ns = w->now_ns;
        w->nodes[node].healed_ns =
            w->set.strike == CRN_STRIKE_CUT ? INT64_MAX : w->now_ns + 30 * SECOND;
        return;
    case CRN_STRIKE_WRITE:
        w->nodes[node].fails = 1;
        return;
    case CRN_STRIKE_RESTART:
        crn_nodes_restart_stop(w);
        (void)crn_world_at(w, w->now_ns + SECOND, EV_REOPEN, node);
        return;
    default:
        return;
    }
}

static void sum_roles(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->set.nodes; i++) {
        const struct sim_node *n = &w->nodes[i];
        struct crn_nodes_role *r = i == CRN_ROOT   ? &w->res->root
                                   : n->was_leader ? &w->res->leaders
                                                   : &w->res->followers;

        r->nodes++;
        r->sent += n->load.sent;
        r->sent_bytes += n->load.sent_bytes;
        r->received += n->load.received;
        r->received_bytes += n->load.received_bytes;
    }
}

cairn_err crn_nodes_run(const struct crn_nodes *setup, struct crn_nodes_result *ret,
                        struct crn_errinfo *ei)
{
    struct world w = {.set = *setup, .res = ret};
    struct event *ev;
    cairn_err rc;

    memset(ret, 0, sizeof(*ret));
    if (setup->nodes < 1 || setup->nodes > CRN_NODES_MAX || setup->versions > MAX_VERSIONS)
        return crn_fail(ei, CAIRN_EINVAL, 0, "at most %d nodes and %d versions can be simulated",
                        CRN_NODES_MAX, MAX_VERSIONS);
    rc = world_open(&w, ei);
    while (rc == CAIRN_OK && ret->problem[0] == '\0' && !w.is_out_of_memory &&
           (ev = nodes_pop(&w)) != NULL) {
        w.now_ns = ev->at_ns;
        ret->events++;
        if (ret->events == setup->strike_at)
            nodes_strike(&w);
        if (w.now_ns > latest_end(&w) && ev->kind != EV_CAPTURE)
            crn_nodes_check_late(&w);
        rc = nodes_handle(&w, ev, ei);
        end_if_done(&w, ev->node);
        event_free(ev);
        if (w.actions.failed)
            w.is_out_of_memory = 1;
    }
    if (rc == CAIRN_OK && w.is_out_of_memory)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u nodes", w.set.nodes);
    if (rc == CAIRN_OK)
        crn_nodes_check_end(&w);
    ret->nodes = w.set.nodes;
    ret->files = w.nfiles;
    ret->versions = w.nversions;
    ret->ranks = w.nranks;
    ret->seconds = (double)w.now_ns * 1e-9;
    if (rc == CAIRN_OK)
        sum_roles(&w);
    world_close(&w);
    return rc;
}
