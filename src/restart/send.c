/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending side: sends every piece of a block to all ranks that want some of it. A single run is
 * sent straight from the block, several runs through a buffer, and a few bytes with their head. */
#include "restart/scatter_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reference count of a block with transfers in flight. */
struct holder {
    struct crn_pass_block *b;
    size_t users;
};

struct crn_sending {
    struct crn_sending *next;
    struct crn_transfer *t;
    struct holder *from;    /* the block it is sent from; NULL: sent from via */
    struct crn_buffer *via; /* the buffer it is sent from */
};

static void let_go(struct crn_scatter_run *r, struct holder *h)
{
    if (--h->users > 0)
        return;
    crn_pass_put(r->pass, h->b);
    free(h);
}

cairn_err crn_send_progress(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    struct crn_sending **link = &r->sending;
    cairn_err rc = CAIRN_OK;

    while (*link != NULL) {
        struct crn_sending *s = *link;
        struct crn_errinfo why = {0};
        int done;

        if (comm->ops->transfer_test(comm, s->t, &done, &why) != CAIRN_OK) {
            crn_err_keep(ei, &why);
            rc = why.code;
        }
        if (!done) {
            link = &s->next;
            continue;
        }
        *busy = 1;
        *link = s->next;
        if (s->via != NULL)
            s->via->is_used = 0;
        if (s->from != NULL)
            let_go(r, s->from);
        free(s);
    }
    return rc;
}

void crn_send_abandon(struct crn_scatter_run *r)
{
    if (r->sending == NULL)
        return;
    crn_pass_abandon(r->pass);
    while (r->sending != NULL) {
        struct crn_sending *s = r->sending;

        r->sending = s->next;
        if (s->from != NULL)
            let_go(r, s->from); /* a reader thread may wait for this block; it reads nothing more */
        free(s);
    }
}

/* Gets a buffer for packed runs. Keeps receiving and sending until one is free. */
static cairn_err wait_buffer(struct crn_scatter_run *r, struct crn_buffer **ret,
                             struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    unsigned tries = 0;
    int busy = 0;

    *ret = crn_buffer_take(r->pack);
    while (rc == CAIRN_OK && *ret == NULL) {
        tries = busy ? 0 : tries + 1;
        if (!busy)
            crn_comm_nap(tries);
        busy = 0;
        rc = crn_receive(r, &busy, ei);
        if (rc == CAIRN_OK)
            rc = crn_send_progress(r, &busy, ei);
        *ret = crn_buffer_take(r->pack);
    }
    return rc;
}

/* What one rank gets of a piece. */
struct gift {
    struct crn_wisher *who;
    const struct crn_slice *p;
    struct crn_head head;
    const unsigned char *data; /* the byte at head.begin */
    struct holder *block;
};

static cairn_err send_do_start(struct crn_scatter_run *r, const struct gift *g,
                               struct crn_errinfo *ei)
{
    struct crn_slice_at at = crn_slice_seek(g->p, g->head.begin, g->head.end);
    struct crn_comm *comm = r->team->comm;
    struct crn_sending *s = calloc(1, sizeof(*s));
    const unsigned char *data;
    struct crn_slice_run first;
    cairn_err rc;

    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of a restart");
    if (crn_slice_next(&at, &first) && first.bytes == g->head.bytes) {
        data = g->data + (first.from - g->head.begin);
        s->from = g->block;
        rc = CAIRN_OK;
    } else {
        rc = wait_buffer(r, &s->via, ei);
        if (rc == CAIRN_OK)
            crn_slice_pack(g->p, g->head.begin, g->head.end, g->data, s->via->data);
        data = rc == CAIRN_OK ? s->via->data : NULL;
    }
    if (rc == CAIRN_OK)
        rc = comm->ops->post(comm, g->who->rank, &g->head, sizeof(g->head), ei);
    if (rc == CAIRN_OK)
        rc = comm->ops->send_start(comm, g->who->rank, 0, data, g->head.bytes, &s->t, ei);
    if (rc != CAIRN_OK) {
        if (s->via != NULL)
            s->via->is_used = 0;
        free(s);
        return rc;
    }
    if (s->from != NULL)
        s->from->users++;
    s->next = r->sending;
    r->sending = s;
    return CAIRN_OK;
}

static cairn_err send_give(struct crn_scatter_run *r, struct gift *g, struct crn_errinfo *ei)
{
    unsigned char small[sizeof(g->head) + CRN_SCATTER_INLINE];
    struct crn_comm *comm = r->team->comm;

    g->head.bytes = crn_slice_count(g->p, g->head.begin, g->head.end);
    if (g->head.bytes == 0)
        return CAIRN_OK;
    if (g->data == NULL) {
        g->who->lost += g->head.bytes;
        return CAIRN_OK;
    }
    if (g->who->is_self)
        crn_slice_copy(g->p, g->head.begin, g->head.end, g->data, r->c->memory);
    else if (g->who->is_reachable)
        g->who->is_reachable =
            crn_mate_write(&g->who->mate, g->p, g->head.begin, g->head.end, g->data);
    if (g->who->is_self || g->who->is_reachable) {
        g->who->brought += g->head.bytes;
        return CAIRN_OK;
    }
    g->head.kind = g->head.bytes <= CRN_SCATTER_INLINE ? CRN_HEAD_INLINE : CRN_HEAD_FOLLOWS;
    if (g->head.kind == CRN_HEAD_FOLLOWS)
        return send_do_start(r, g, ei);
    memcpy(small, &g->head, sizeof(g->head));
    crn_slice_pack(g->p, g->head.begin, g->head.end, g->data, small + sizeof(g->head));
    return comm->ops->post(comm, g->who->rank, small, sizeof(g->head) + g->head.bytes, ei);
}

static cairn_err send_piece(struct crn_scatter_run *r, struct holder *h,
                            const struct crn_pass_piece *q, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = crn_wishes_first(r, q->rank, q->region); rc == CAIRN_OK && i < r->nwishes; i++) {
        const struct crn_wish *w = &r->wishes[i];
        uint64_t end = crn_slice_end(&w->p);
        struct gift g = {.who = &r->wishers[w->who], .p = &w->p, .block = h};

        if (!crn_wish_is_for(w, q->rank, q->region))
            break;
        if (w->p.from >= q->end || end <= q->begin)
            continue;
        if (q->is_placed && q->data != NULL) { /* the only wish */
            g.who->brought += q->end - q->begin;
            continue;
        }
        g.head.part = w->part;
        g.head.begin = w->p.from > q->begin ? w->p.from : q->begin;
        g.head.end = end < q->end ? end : q->end;
        g.data = q->data != NULL ? q->data + (g.head.begin - q->begin) : NULL;
        rc = send_give(r, &g, ei);
    }
    return rc;
}

cairn_err crn_send_block(struct crn_scatter_run *r, struct crn_pass_block *b,
                         struct crn_errinfo *ei)
{
    struct holder *h = malloc(sizeof(*h));
    struct crn_pass_piece q;
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (h == NULL) {
        crn_pass_put(r->pass, b);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a block of a restart");
    }
    *h = (struct holder){.b = b, .users = 1};
    for (i = 0; rc == CAIRN_OK && crn_pass_piece(r->pass, b, i, &q); i++)
        rc = send_piece(r, h, &q, ei);
    let_go(r, h);
    return rc;
}

cairn_err crn_send_end(struct crn_scatter_run *r, struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK && i < r->nwishers; i++) {
        const struct crn_wisher *w = &r->wishers[i];
        struct crn_head h = {.kind = CRN_HEAD_END, .bytes = w->lost, .brought = w->brought};

        if (h.bytes == 0 && h.brought == 0)
            continue;
        if (!w->is_self) {
            rc = comm->ops->post(comm, w->rank, &h, sizeof(h), ei);
        } else {
            r->got += h.brought;
            r->missed += h.bytes;
        }
    }
    return rc;
}
