/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives go up and down a tree of ranks; a waiting rank sleeps on UCX's descriptor. */
#include "comm/ucx_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Position of a rank in a tree with this root, and back. */
static uint32_t place_of(const struct ucx_link *l, uint32_t rank, uint32_t root)
{
    return rank >= root ? rank - root : rank + l->size - root;
}

static uint32_t rank_at(const struct ucx_link *l, uint32_t place, uint32_t root)
{
    uint32_t left = l->size - root; /* ranks from the root on */

    return place < left ? place + root : place - left;
}

static cairn_err send_down(struct ucx_link *l, uint32_t round, uint32_t root, const void *buf,
                           size_t bytes, struct crn_errinfo *ei)
{
    uint32_t first = place_of(l, l->rank, root) * UCX_WIDTH + 1;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = first; rc == CAIRN_OK && i < first + UCX_WIDTH && i < l->size; i++)
        rc = crn_ucx_send(l, UCX_COLLECTIVE, rank_at(l, i, root), round, buf, bytes, NULL, ei);
    return rc;
}

static cairn_err go_down(struct ucx_link *l, uint32_t round, uint32_t root, void *buf, size_t bytes,
                         struct crn_errinfo *ei)
{
    uint32_t place = place_of(l, l->rank, root);
    struct ucx_in *in;
    cairn_err rc;

    if (place != 0) {
        rc = crn_ucx_take(l, rank_at(l, (place - 1) / UCX_WIDTH, root), round, &in, ei);
        if (rc != CAIRN_OK)
            return rc;
        if (in->head.bytes != bytes || in->data == NULL)
            rc = bytes == 0 ? CAIRN_OK
                            : crn_fail(ei, CAIRN_EBUG, 0, "a broadcast of %zu bytes, not %zu",
                                       (size_t)in->head.bytes, bytes);
        else
            memcpy(buf, in->data, bytes);
        crn_ucx_in_free(l, in);
        if (rc != CAIRN_OK)
            return rc;
    }
    return send_down(l, round, root, buf, bytes, ei);
}

typedef cairn_err (*merge_fn)(void *arg, const struct ucx_in *in, struct crn_errinfo *ei);

/* Takes the messages of the children in turn. */
static cairn_err from_children(struct ucx_link *l, uint32_t round, merge_fn merge, void *arg,
                               struct crn_errinfo *ei)
{
    uint32_t first = l->rank * UCX_WIDTH + 1;
    cairn_err rc = CAIRN_OK;
    struct ucx_in *in;
    uint32_t i;

    for (i = first; rc == CAIRN_OK && i < first + UCX_WIDTH && i < l->size; i++) {
        rc = crn_ucx_take(l, i, round, &in, ei);
        if (rc != CAIRN_OK)
            return rc;
        rc = merge(arg, in, ei);
        crn_ucx_in_free(l, in);
    }
    return rc;
}

static cairn_err to_parent(struct ucx_link *l, uint32_t round, const void *buf, size_t bytes,
                           struct crn_errinfo *ei)
{
    if (l->rank == 0)
        return CAIRN_OK;
    return crn_ucx_send(l, UCX_COLLECTIVE, (l->rank - 1) / UCX_WIDTH, round, buf, bytes, NULL, ei);
}

cairn_err crn_ucx_bcast(struct ucx_link *l, void *buf, size_t bytes, uint32_t root,
                        struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_ucx_lock(l);
    rc = go_down(l, ++l->round, root, buf, bytes, ei);
    crn_ucx_unlock(l);
    return rc;
}

struct reduction {
    int64_t *values;
    size_t n;
    enum crn_comm_op op;
};

static cairn_err ucx_tree_reduce(void *arg, const struct ucx_in *in, struct crn_errinfo *ei)
{
    struct reduction *r = arg;
    const int64_t *v = in->data;
    size_t i;

    if (in->head.bytes != r->n * sizeof(*v))
        return crn_fail(ei, CAIRN_EBUG, 0, "a reduction of %zu bytes", (size_t)in->head.bytes);
    for (i = 0; i < r->n; i++)
        if (r->op == CRN_COMM_SUM)
            r->values[i] += v[i];
        else if ((r->op == CRN_COMM_MIN) == (v[i] < r->values[i]))
            r->values[i] = v[i];
    return CAIRN_OK;
}

cairn_err crn_ucx_allreduce(struct ucx_link *l, int64_t *values, int n, enum crn_comm_op op,
                            struct crn_errinfo *ei)
{
    struct reduction r = {values, (size_t)n, op};
    uint32_t round = ++l->round;
    size_t bytes = r.n * sizeof(*values);
    cairn_err rc;

    crn_ucx_lock(l);
    rc = from_children(l, round, ucx_tree_reduce, &r, ei);
    if (rc == CAIRN_OK)
        rc = to_parent(l, round, values, bytes, ei);
    if (rc == CAIRN_OK)
        rc = go_down(l, round, 0, values, bytes, ei);
    crn_ucx_unlock(l);
    return rc;
}

/* Records of a rank's number and its bytes. */
struct gathering {
    unsigned char *data;
    size_t used, room, record;
};

static cairn_err ucx_tree_gather(void *arg, const struct ucx_in *in, struct crn_errinfo *ei)
{
    struct gathering *g = arg;
    size_t n = (size_t)in->head.bytes;

    if (n % g->record != 0 || n > g->room - g->used)
        return crn_fail(ei, CAIRN_EBUG, 0, "a gathering of %zu bytes", n);
    if (n > 0)
        memcpy(g->data + g->used, in->data, n);
    g->used += n;
    return CAIRN_OK;
}

static void scatter_records(const struct gathering *g, size_t bytes, unsigned char *out)
{
    size_t at;

    for (at = 0; at < g->used; at += g->record) {
        uint32_t rank;

        memcpy(&rank, g->data + at, sizeof(rank));
        memcpy(out + rank * bytes, g->data + at + sizeof(rank), bytes);
    }
}

cairn_err crn_ucx_allgather(struct ucx_link *l, const void *in, size_t bytes, void *out,
                            struct crn_errinfo *ei)
{
    struct gathering g = {.record = sizeof(uint32_t) + bytes};
    uint32_t rank = l->rank;
    uint32_t round = ++l->round;
    cairn_err rc;

    g.room = g.record * l->size;
    g.data = malloc(g.room);
    if (g.data == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a gathering of %zu bytes", g.room);
    memcpy(g.data, &rank, sizeof(rank));
    memcpy(g.data + sizeof(rank), in, bytes);
    g.used = g.record;
    crn_ucx_lock(l);
    rc = from_children(l, round, ucx_tree_gather, &g, ei);
    if (rc == CAIRN_OK)
        rc = to_parent(l, round, g.data, g.used, ei);
    if (rc == CAIRN_OK && rank == 0)
        scatter_records(&g, bytes, out);
    if (rc == CAIRN_OK)
        rc = go_down(l, round, 0, out, bytes * l->size, ei);
    crn_ucx_unlock(l);
    free(g.data);
    return rc;
}
