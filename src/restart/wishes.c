/* SPDX-License-Identifier: BSD-3-Clause */
/* The wishes of the ranks. A rank computes which readers read the parts that it wants, and tells those: what a
 * rank holds grows with what it wants or reads, not with the number of ranks. Readers learn how many
 * messages to wait for from a sum over all ranks, one number for each reader. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "restart/scatter_impl.h"
#include "restart/version_impl.h"

#define DIRECT_BYTES ((uint64_t)256 << 10) /* worth a read of its own */

struct crn_pass_options crn_wishes_options(const struct crn_scatter *c,
                                           const struct crn_readers *team)
{
    return (struct crn_pass_options){.v = c->v,
                                     .files = team->files,
                                     .nfiles = team->nfiles,
                                     .shares = team->nreaders,
                                     .reader = team->reader_of,
                                     .direct_bytes = DIRECT_BYTES,
                                     .threads = c->threads,
                                     .cores = c->cores,
                                     .block_bytes = c->block_bytes};
}

/* Routes. -------------------------------------------------------------------------------------- */

struct wish_routing {
    const struct crn_slice *parts;
    uint32_t nparts;
    uint32_t *order; /* the parts by rank and region */
    uint32_t *last;  /* by part: share + 1 added last */
    struct crn_routes *to;
};

static int slice_order(const struct crn_slice *p, uint32_t rank, uint32_t region)
{
    if (p->rank != rank)
        return p->rank < rank ? -1 : 1;
    return p->region < region ? -1 : p->region > region;
}

static int by_part(const void *a, const void *b, void *arg)
{
    const struct crn_slice *parts = arg;
    const struct crn_slice *y = &parts[*(const uint32_t *)b];

    return slice_order(&parts[*(const uint32_t *)a], y->rank, y->region);
}

static int by_share(const void *a, const void *b)
{
    const struct crn_route *x = a;
    const struct crn_route *y = b;

    if (x->share != y->share)
        return x->share < y->share ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

static cairn_err add_route(struct wish_routing *g, uint32_t share, uint32_t part,
                           struct crn_errinfo *ei)
{
    struct crn_routes *to = g->to;
    struct crn_route *grown;
    size_t cap;

    if (g->last[part] == share + 1)
        return CAIRN_OK;
    g->last[part] = share + 1;
    if (to->n == to->cap) {
        cap = to->cap > 0 ? 2 * to->cap : 16;
        grown = realloc(to->v, cap * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the routes of %zu parts", cap);
        to->v = grown;
        to->cap = cap;
    }
    to->v[to->n++] = (struct crn_route){share, part};
    return CAIRN_OK;
}

static cairn_err note_route(void *arg, uint32_t rank, uint32_t region, uint64_t begin, uint64_t end,
                            uint32_t share, struct crn_errinfo *ei)
{
    struct wish_routing *g = arg;
    uint32_t lo = 0;
    uint32_t hi = g->nparts;
    cairn_err rc = CAIRN_OK;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (slice_order(&g->parts[g->order[mid]], rank, region) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; rc == CAIRN_OK && lo < g->nparts; lo++) {
        const struct crn_slice *p = &g->parts[g->order[lo]];

        if (slice_order(p, rank, region) != 0)
            break;
        if (p->run > 0 && p->from < end && crn_slice_end(p) > begin)
            rc = add_route(g, share, g->order[lo], ei);
    }
    return rc;
}

/* A part whose chunks alternate between shares was added more than once. */
static void sort_routes(struct crn_routes *to)
{
    size_t n = 0;
    size_t i;

    if (to->n > 1)
        qsort(to->v, to->n, sizeof(*to->v), by_share);
    for (i = 0; i < to->n; i++)
        if (n == 0 || by_share(&to->v[n - 1], &to->v[i]) != 0)
            to->v[n++] = to->v[i];
    to->n = n;
}

cairn_err crn_wishes_route(const struct crn_pass_options *o, const struct crn_slice *parts,
                           uint32_t nparts, struct crn_routes *ret, struct crn_errinfo *ei)
{
    struct wish_routing g = {.parts = parts, .nparts = nparts, .to = ret};
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (nparts == 0)
        return CAIRN_OK;
    g.order = calloc(nparts, sizeof(*g.order));
    g.last = calloc(nparts, sizeof(*g.last));
    if (g.order == NULL || g.last == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the routes of %u parts", nparts);
    for (i = 0; rc == CAIRN_OK && i < nparts; i++)
        g.order[i] = i;
    if (rc == CAIRN_OK) {
        qsort_r(g.order, nparts, sizeof(*g.order), by_part, (void *)(uintptr_t)parts);
        rc = crn_pass_route(o, note_route, &g, ei);
    }
    free(g.order);
    free(g.last);
    sort_routes(ret);
    return rc;
}

/* Messages. ------------------------------------------------------------------------------------ */

struct wish_head {
    uint32_t node;
    uint32_t nparts; /* struct wish_part follow */
    struct crn_mate mate;
};

struct wish_part {
    uint32_t part;
    struct crn_slice p;
};

/* The messages of this rank, one after another, each with its reader. */
struct wish_outgoing {
    struct crn_buf buf;
    size_t *at; /* by message, and the end of the last one */
    uint32_t *to;
    uint32_t n;
};

static void outgoing_free(struct wish_outgoing *o)
{
    crn_buf_free(&o->buf);
    free(o->at);
    free(o->to);
}

static cairn_err write_messages(struct crn_scatter_run *r, const struct crn_routes *routes,
                                struct wish_outgoing *o, struct crn_errinfo *ei)
{
    struct wish_head head = {.node = r->c->node};
    size_t i, end;

    crn_mate_open(&r->gate, r->c->memory, &head.mate);
    o->at = calloc(routes->n + 1, sizeof(*o->at));
    o->to = calloc(routes->n + 1, sizeof(*o->to));
    if (o->at == NULL || o->to == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "messages of %zu parts", routes->n);
    for (i = 0; i < routes->n; i = end) {
        for (end = i; end < routes->n && routes->v[end].share == routes->v[i].share;)
            end++;
        head.nparts = (uint32_t)(end - i);
        o->to[o->n++] = routes->v[i].share;
        crn_buf_put(&o->buf, &head, sizeof(head));
        for (; i < end; i++) {
            struct wish_part w;

            memset(&w, 0, sizeof(w)); /* padding */
            w.part = routes->v[i].part;
            w.p = r->c->parts[w.part];
            crn_buf_put(&o->buf, &w, sizeof(w));
        }
        o->at[o->n] = o->buf.len;
    }
    return o->buf.failed ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "messages of %zu parts", routes->n)
                         : CAIRN_OK;
}

static cairn_err take_wishes(struct crn_scatter_run *r, int from, const unsigned char *data,
                             size_t bytes, struct crn_errinfo *ei)
{
    struct crn_wisher *who, *wishers;
    struct crn_wish *wishes;
    struct wish_head head;
    struct wish_part w;
    uint32_t i;

    if (bytes < sizeof(head))
        return crn_fail(ei, CAIRN_EBUG, 0, "a message of %zu bytes before a restart", bytes);
    memcpy(&head, data, sizeof(head));
    if ((bytes - sizeof(head)) / sizeof(w) != head.nparts)
        return crn_fail(ei, CAIRN_EBUG, 0, "a message of %zu bytes before a restart", bytes);
    wishers = realloc(r->wishers, (r->nwishers + (size_t)1) * sizeof(*wishers));
    if (wishers != NULL)
        r->wishers = wishers;
    wishes = realloc(r->wishes, (r->nwishes + head.nparts) * sizeof(*wishes));
    if (wishes != NULL)
        r->wishes = wishes;
    if (wishers == NULL || wishes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u parts that a rank wants", head.nparts);
    who = &wishers[r->nwishers];
    *who = (struct crn_wisher){.rank = from, .mate = head.mate};
    who->is_self = from == r->team->comm->rank;
    who->is_reachable =
        !who->is_self && head.node == r->c->node && crn_mate_is_reachable(&who->mate);
    for (i = 0; i < head.nparts; i++) {
        memcpy(&w, data + sizeof(head) + i * sizeof(w), sizeof(w));
        wishes[r->nwishes++] = (struct crn_wish){.who = r->nwishers, .part = w.part, .p = w.p};
    }
    r->nwishers++;
    return CAIRN_OK;
}

static cairn_err post_all(struct crn_scatter_run *r, const struct wish_outgoing *o,
                          struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < o->n; i++) {
        const unsigned char *data = o->buf.data + o->at[i];
        int to = r->team->readers[o->to[i]];

        if (to == comm->rank)
            rc = take_wishes(r, to, data, o->at[i + 1] - o->at[i], ei);
        else
            rc = comm->ops->post(comm, to, data, o->at[i + 1] - o->at[i], ei);
    }
    return rc;
}

/* Waits for so many messages. Without memory for one it takes the others, too: the ranks agree
 * later. */
static cairn_err take_all(struct crn_scatter_run *r, int64_t n, struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    struct crn_errinfo why = {0};
    unsigned tries = 0;

    while (n > 0) {
        void *buf = NULL;
        size_t bytes = 0;
        int from = 0;
        cairn_err rc = comm->ops->poll(comm, &from, &buf, &bytes, ei);

        if (rc != CAIRN_OK)
            return rc;
        if (buf == NULL) {
            crn_comm_nap(tries++);
            continue;
        }
        tries = 0;
        n--;
        if (take_wishes(r, from, buf, bytes, &why) != CAIRN_OK)
            crn_err_keep(ei, &why);
        free(buf);
    }
    return why.code;
}

static int by_source(const void *a, const void *b)
{
    const struct crn_wish *x = a;
    const struct crn_wish *y = b;
    int order = slice_order(&x->p, y->p.rank, y->p.region);

    return order != 0 ? order : x->who < y->who ? -1 : x->who > y->who;
}

cairn_err crn_wishes_exchange(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    struct crn_pass_options options = crn_wishes_options(r->c, r->team);
    int64_t *count = calloc(r->team->nreaders, sizeof(*count)); /* messages from other ranks */
    struct crn_comm *comm = r->team->comm;
    struct crn_routes routes = {0};
    struct wish_outgoing o = {0};
    cairn_err rc;
    uint32_t i;

    rc = crn_wishes_route(&options, r->c->parts, r->c->nparts, &routes, ei);
    if (rc == CAIRN_OK)
        rc = write_messages(r, &routes, &o, ei);
    if (rc == CAIRN_OK && count == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u readers", r->team->nreaders);
    rc = crn_scatter_agree(comm, rc, ei);
    for (i = 0; rc == CAIRN_OK && count != NULL && i < o.n; i++)
        count[o.to[i]] += r->team->readers[o.to[i]] != comm->rank;
    if (rc == CAIRN_OK)
        rc = comm->ops->allreduce(comm, count, (int)r->team->nreaders, CRN_COMM_SUM, ei);
    if (rc == CAIRN_OK)
        rc = post_all(r, &o, ei);
    if (rc == CAIRN_OK && count != NULL && r->reader >= 0)
        rc = take_all(r, count[r->reader], ei);
    if (r->nwishes > 1)
        qsort(r->wishes, r->nwishes, sizeof(*r->wishes), by_source);
    free(count);
    free(routes.v);
    outgoing_free(&o);
    return rc;
}

size_t crn_wishes_first(const struct crn_scatter_run *r, uint32_t rank, uint32_t region)
{
    size_t lo = 0;
    size_t hi = r->nwishes;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (slice_order(&r->wishes[mid].p, rank, region) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int crn_wish_is_for(const struct crn_wish *w, uint32_t rank, uint32_t region)
{
    return w->p.rank == rank && w->p.region == region;
}
