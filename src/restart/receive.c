/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side: a head announces which range of which part follows. A single run is received
 * straight into its destination, several runs through a buffer. MPI matches the transfers of one
 * sender to their heads by order, so receives start in the order in which the heads arrived. */
#include "restart/scatter_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct crn_coming {
    struct crn_coming *next;
    struct crn_head head;
    int from;
    struct crn_transfer *t; /* NULL: not begun */
    struct crn_buffer *via; /* NULL: straight to its destination */
};

/* Is this a range that this rank asked for? */
static int is_asked_for(const struct crn_scatter_run *r, const struct crn_head *h)
{
    const struct crn_slice *p = h->part < r->c->nparts ? &r->c->parts[h->part] : NULL;

    return p != NULL && h->begin >= p->from && h->begin <= h->end && h->end <= crn_slice_end(p) &&
           h->bytes <= r->message_bytes && crn_slice_count(p, h->begin, h->end) == h->bytes;
}

static cairn_err take_message(struct crn_scatter_run *r, int from, const void *buf, size_t bytes,
                              struct crn_errinfo *ei)
{
    struct crn_coming *c;
    struct crn_head h;

    if (bytes < sizeof(h))
        return crn_fail(ei, CAIRN_EBUG, 0, "a message of %zu bytes in a restart", bytes);
    memcpy(&h, buf, sizeof(h));
    if (h.kind == CRN_HEAD_END) {
        r->got += h.brought;
        r->missed += h.bytes;
        return CAIRN_OK;
    }
    if (!is_asked_for(r, &h))
        return crn_fail(ei, CAIRN_EBUG, 0, "a restart received bytes that it did not ask for");
    if (h.kind == CRN_HEAD_INLINE) {
        if (bytes - sizeof(h) != h.bytes)
            return crn_fail(ei, CAIRN_EBUG, 0, "a message of %zu bytes in a restart", bytes);
        crn_slice_unpack(&r->c->parts[h.part], h.begin, h.end, (const char *)buf + sizeof(h),
                         r->c->memory);
        r->got += h.bytes;
        return CAIRN_OK;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of a restart");
    c->head = h;
    c->from = from;
    *r->coming_end = c;
    r->coming_end = &c->next;
    return CAIRN_OK;
}

/* Returns 1 if the transfer is in flight. */
static int receive_begin(struct crn_scatter_run *r, struct crn_coming *c, cairn_err *rc,
                         struct crn_errinfo *ei)
{
    const struct crn_slice *p = &r->c->parts[c->head.part];
    struct crn_comm *comm = r->team->comm;
    struct crn_slice_at at;
    struct crn_slice_run first;
    unsigned char *to;

    if (c->t != NULL)
        return 1;
    at = crn_slice_seek(p, c->head.begin, c->head.end);
    if (crn_slice_next(&at, &first) && first.bytes == c->head.bytes) {
        to = r->c->memory + first.to;
    } else {
        c->via = crn_buffer_take(r->scratch);
        if (c->via == NULL)
            return 0;
        to = c->via->data;
    }
    *rc = comm->ops->recv_start(comm, c->from, 0, to, c->head.bytes, &c->t, ei);
    return *rc == CAIRN_OK;
}

static void receive_finish(struct crn_scatter_run *r, struct crn_coming *c)
{
    const struct crn_head *h = &c->head;

    if (c->via != NULL) {
        crn_slice_unpack(&r->c->parts[h->part], h->begin, h->end, c->via->data, r->c->memory);
        c->via->is_used = 0;
    }
    r->got += h->bytes;
    free(c);
}

/* Starts transfers in order, as long as buffers are free, and finishes those that have arrived. */
static cairn_err move_on(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    struct crn_coming **link = &r->coming;
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && *link != NULL && receive_begin(r, *link, &rc, ei)) {
        struct crn_coming *c = *link;
        int done;

        rc = comm->ops->transfer_test(comm, c->t, &done, ei);
        if (done)
            c->t = NULL;
        if (rc != CAIRN_OK || !done) {
            link = &c->next;
            continue;
        }
        *busy = 1;
        *link = c->next;
        if (r->coming_end == &c->next)
            r->coming_end = link;
        receive_finish(r, c);
    }
    return rc;
}

cairn_err crn_receive(struct crn_scatter_run *r, int *busy, struct crn_errinfo *ei)
{
    struct crn_comm *comm = r->team->comm;
    cairn_err rc;

    for (;;) {
        void *buf = NULL;
        size_t bytes = 0;
        int from = 0;

        rc = comm->ops->poll(comm, &from, &buf, &bytes, ei);
        if (rc != CAIRN_OK || buf == NULL)
            break;
        *busy = 1;
        rc = take_message(r, from, buf, bytes, ei);
        free(buf);
        if (rc != CAIRN_OK)
            break;
    }
    return rc != CAIRN_OK ? rc : move_on(r, busy, ei);
}

void crn_receive_fini(struct crn_scatter_run *r)
{
    struct crn_comm *comm = r->team->comm;

    while (r->coming != NULL) { /* only after an error */
        struct crn_coming *c = r->coming;

        r->coming = c->next;
        if (c->t != NULL)
            (void)comm->ops->transfer_cancel(comm, c->t);
        free(c);
    }
}
