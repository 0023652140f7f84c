/* SPDX-License-Identifier: BSD-3-Clause */
/* The model:
 *
 * - Groups are K runs of neighbours, as equal as possible. Each is cut again into leaders_per_file
 *   sections. In each section the node with the most bytes leads (tie: the lowest).
 * - A leader writes at w, the lower of the node's outgoing bandwidth and its writers' speed. It
 *   receives at x, the lowest of the node's incoming bandwidth, its followers' outgoing bandwidth
 *   and what the pool sustains: a block is occupied while it fills and while it is written.
 *   Received blocks go first and local data fills the gaps, so L local and R received bytes take
 *   max((L + R) / w, R / x).
 * - Each leader gets its share of its file's OSTs. The file system's bandwidth caps the sum,
 *   fairly. Shares change when leaders end. Ends that are close together are handled together,
 *   which bounds the cost of the simulation for any number of nodes. */
#include "sim/flush.h"

#include <math.h>
#include <stdlib.h>
#include "base/rng.h"

struct leader {
    uint32_t file;
    double bytes;
    double cap; /* of its own pipeline, bytes/s */
    enum crn_flush_limit limit;
    double left;
    double rate;
    double end_s;
};

struct flush_model {
    const struct crn_machine *m;
    const struct crn_flush *f;
    struct crn_rng rng;
    uint32_t stripes;
    double *node_bytes;    /* owned; by node */
    uint32_t *node_writes; /* owned; by node */
    struct leader *leaders;
    uint32_t nleaders;
    double *load; /* owned; by OST: its leaders, weighted by their share */
    double received;
};

const char *crn_flush_limit_name(enum crn_flush_limit limit)
{
    static const char *const names[CRN_LIMITS] = {"node", "writers", "receive", "osts", "pfs"};

    return names[limit];
}

struct crn_flush crn_flush_defaults(const struct crn_machine *m)
{
    return (struct crn_flush){.nodes = (uint32_t)m->nodes,
                              .files = (uint32_t)m->nodes,
                              .leaders_per_file = 1,
                              .writers = (uint32_t)m->best_writers,
                              .blocks = 2 * (uint32_t)m->best_writers,
                              .block_bytes = 0x1p26,
                              .rank_bytes = m->rank_bytes,
                              .seed = 1};
}

static cairn_err flush_check(const struct crn_flush *f, struct crn_errinfo *ei)
{
    if (f->nodes < 1 || f->nodes > CRN_MACHINE_MAX_NODES)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%u nodes: 1 to %d are modelled", f->nodes,
                        CRN_MACHINE_MAX_NODES);
    if (f->files < 1 || f->files > f->nodes)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%u files from %u nodes: 1 to %u are possible",
                        f->files, f->nodes, f->nodes);
    if (f->leaders_per_file < 1 || f->writers < 1 || f->blocks < 1 || !(f->block_bytes >= 1) ||
        !(f->rank_bytes >= 1))
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "leaders, writers, blocks and sizes must be at least 1");
    if (!(f->imbalance >= 0) || f->imbalance > 0.99)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the imbalance is 0 to 99 %%");
    return CAIRN_OK;
}

/* Nodes. --------------------------------------------------------------------------------------- */

static void draw_nodes(struct flush_model *w)
{
    const struct crn_flush *f = w->f;
    uint32_t ranks = (uint32_t)w->m->ranks_per_node;
    uint32_t n, r;

    for (n = 0; n < f->nodes; n++)
        for (r = 0; r < ranks; r++) {
            double bytes = f->rank_bytes * (1 + f->imbalance * (2 * crn_rng_unit(&w->rng) - 1));

            w->node_bytes[n] += bytes;
            w->node_writes[n] += (uint32_t)(f->own_tails ? ceil(bytes / f->block_bytes)
                                                         : floor(bytes / f->block_bytes));
        }
    if (!f->own_tails) /* tails together, in shared blocks */
        for (n = 0; n < f->nodes; n++)
            w->node_writes[n] = (uint32_t)ceil(w->node_bytes[n] / f->block_bytes);
}

/* Approximately normal, but bounded: the sum of twelve uniform numbers. */
static double draw_speed(struct flush_model *w)
{
    double sum = -6;
    int i;

    for (i = 0; i < 12; i++)
        sum += crn_rng_unit(&w->rng);
    return fmax(1 + w->m->speed_spread * sum, 0.05);
}

/* Leaders. ------------------------------------------------------------------------------------- */

/* One leader's section of a group: nodes first .. last - 1. */
static void add_leader(struct flush_model *w, uint32_t file, uint32_t first, uint32_t last)
{
    const struct crn_machine *m = w->m;
    const struct crn_flush *f = w->f;
    struct leader *l = &w->leaders[w->nleaders++];
    double largest = 0, writes = 0, speed = draw_speed(w);
    double threads, out, received, in, pool, busy_s, in_s;
    uint32_t n;

    *l = (struct leader){.file = file};
    for (n = first; n < last; n++) {
        l->bytes += w->node_bytes[n];
        writes += w->node_writes[n];
        largest = fmax(largest, w->node_bytes[n]);
    }
    received = l->bytes - largest;
    w->received += received;
    /* Writing. */
    threads = l->bytes / (l->bytes / m->writer + writes * m->write_latency_s) * f->writers;
    out = fmin(m->nic_out, threads);
    if (f->writers > m->best_writers)
        out *= pow(m->crowding, log2(f->writers / m->best_writers));
    out *= speed;
    l->limit =
        threads < m->nic_out || f->writers > m->best_writers ? CRN_LIMIT_WRITERS : CRN_LIMIT_NODE;
    /* Receiving: a block is occupied while it fills and while one thread writes it. */
    in = fmin(m->nic_in, (last - first - 1) * m->nic_out);
    busy_s = f->block_bytes / fmin(m->writer, out) + m->write_latency_s;
    pool = in > 0 ? f->blocks * f->block_bytes / (f->block_bytes / in + busy_s) : 0;
    in_s = received > 0 ? received / fmin(in, pool) : 0;
    if (in_s > l->bytes / out)
        l->limit = CRN_LIMIT_RECEIVE;
    l->cap = l->bytes / fmax(l->bytes / out, in_s);
    l->left = l->bytes;
}

static void make_leaders(struct flush_model *w)
{
    const struct crn_flush *f = w->f;
    uint64_t k, p;

    for (k = 0; k < f->files; k++) {
        uint64_t first = k * f->nodes / f->files;
        uint64_t n = (k + 1) * f->nodes / f->files - first;
        uint64_t parts = f->leaders_per_file < n ? f->leaders_per_file : n;

        for (p = 0; p < parts; p++)
            add_leader(w, (uint32_t)k, (uint32_t)(first + p * n / parts),
                       (uint32_t)(first + (p + 1) * n / parts));
    }
}

/* The file system. ----------------------------------------------------------------------------- */

static uint32_t ost_of(const struct flush_model *w, const struct leader *l, uint32_t stripe)
{
    return (uint32_t)(((uint64_t)l->file * w->stripes + stripe) % (uint64_t)w->m->osts);
}

/* Gives each leader its share of its file's OSTs, at most its own cap; returns the sum. An OST
 * serves all its writers equally. */
static double share_osts(struct flush_model *w)
{
    double sum = 0;
    uint32_t i, s;

    for (i = 0; i < (uint32_t)w->m->osts; i++)
        w->load[i] = 0;
    for (i = 0; i < w->nleaders; i++)
        for (s = 0; s < w->stripes && w->leaders[i].left > 0; s++)
            w->load[ost_of(w, &w->leaders[i], s)] += 1.0 / w->stripes;
    for (i = 0; i < w->nleaders; i++) {
        struct leader *l = &w->leaders[i];
        double share = w->stripes > 0 ? 0 : INFINITY;

        for (s = 0; s < w->stripes && l->left > 0; s++)
            share += w->m->ost / w->load[ost_of(w, l, s)] / w->stripes;
        if (l->left > 0 && share < l->cap)
            l->limit = CRN_LIMIT_OSTS;
        l->rate = l->left > 0 ? fmin(l->cap, share) : 0;
        sum += l->rate;
    }
    return sum;
}

/* Caps the sum at the file system's bandwidth. The fastest leaders are reduced to a common
 * level, which rises as slower ones use less than their share. */
static void share_whole(struct flush_model *w)
{
    double level = 0, last = -1;
    uint32_t i;

    while (level > last) {
        double low = 0;
        uint32_t high = 0;

        last = level;
        for (i = 0; i < w->nleaders; i++) {
            if (w->leaders[i].rate > last)
                high++;
            else
                low += w->leaders[i].rate;
        }
        level = high > 0 ? (w->m->bandwidth - low) / high : last;
    }
    for (i = 0; i < w->nleaders; i++)
        if (w->leaders[i].rate > level) {
            w->leaders[i].rate = level;
            w->leaders[i].limit = CRN_LIMIT_PFS;
        }
}

/* Advances to the next end of a leader, or slightly beyond; 0 when all have ended. */
static int flush_step(struct flush_model *w, double *now_s)
{
    double dt = INFINITY;
    uint32_t i;

    if (share_osts(w) > w->m->bandwidth)
        share_whole(w);
    for (i = 0; i < w->nleaders; i++)
        if (w->leaders[i].left > 0)
            dt = fmin(dt, w->leaders[i].left / w->leaders[i].rate);
    if (isinf(dt))
        return 0;
    dt = fmax(dt, *now_s / 500);
    for (i = 0; i < w->nleaders; i++) {
        struct leader *l = &w->leaders[i];

        if (!(l->left > 0))
            continue;
        if (l->left <= l->rate * dt * (1 + 1e-12)) {
            l->end_s = *now_s + l->left / l->rate;
            l->left = 0;
        } else {
            l->left -= l->rate * dt;
        }
    }
    *now_s += dt;
    return 1;
}

/* The whole flush. ----------------------------------------------------------------------------- */

static void sum_up(const struct flush_model *w, struct crn_flush_result *ret)
{
    const struct crn_flush *f = w->f;
    double caps = 0, ends = 0;
    uint32_t i;

    *ret =
        (struct crn_flush_result){.leaders = w->nleaders, .pool_bytes = f->blocks * f->block_bytes};
    for (i = 0; i < w->nleaders; i++) {
        const struct leader *l = &w->leaders[i];

        ret->bytes += l->bytes;
        caps += l->cap;
        ends += l->end_s;
        if (l->end_s > ret->slowest_leader_s) {
            ret->slowest_leader_s = l->end_s;
            ret->limit = l->limit;
        }
    }
    for (i = 0; i < f->nodes; i++)
        ret->writes += w->node_writes[i];
    ret->mean_leader_s = ends / w->nleaders;
    ret->seconds = ret->slowest_leader_s + (w->m->creates > 0 ? f->files / w->m->creates : 0);
    ret->throughput = ret->bytes / ret->seconds;
    ret->peak = fmin(caps, w->m->bandwidth);
    ret->received = w->received / ret->bytes;
}

uint32_t crn_flush_stripes(const struct crn_machine *m, const struct crn_flush *f)
{
    uint32_t stripes = f->stripes > 0 ? f->stripes : f->leaders_per_file;

    return stripes < (uint32_t)m->osts ? stripes : (uint32_t)m->osts;
}

cairn_err crn_flush_predict(const struct crn_machine *m, const struct crn_flush *f,
                            struct crn_flush_result *ret, struct crn_errinfo *ei)
{
    struct flush_model w = {.m = m, .f = f};
    double now_s = 0;
    cairn_err rc = flush_check(f, ei);

    if (rc != CAIRN_OK)
        return rc;
    w.stripes = crn_flush_stripes(m, f);
    crn_rng_seed(&w.rng, f->seed);
    w.node_bytes = calloc(f->nodes, sizeof(*w.node_bytes));
    w.node_writes = calloc(f->nodes, sizeof(*w.node_writes));
    w.leaders = calloc(f->nodes, sizeof(*w.leaders));
    w.load = calloc((size_t)m->osts + 1, sizeof(*w.load));
    if (w.node_bytes == NULL || w.node_writes == NULL || w.leaders == NULL || w.load == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, 0, "model of %u nodes", f->nodes);
    } else {
        draw_nodes(&w);
        make_leaders(&w);
        while (flush_step(&w, &now_s))
            ;
        sum_up(&w, ret);
    }
    free(w.node_bytes);
    free(w.node_writes);
    free(w.leaders);
    free(w.load);
    return rc;
}
