/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes through io_uring: each writer has a ring and keeps up to DEPTH blocks on the way. The build may
 * be without liburing, and kernels and containers may forbid it; both are CAIRN_ENOTSUP. */
#include "tune/probe.h"

#ifdef CRN_WITH_URING

#include <errno.h>
#include <liburing.h>
#include <string.h>

#define DEPTH 4

struct flight {
    struct crn_piece piece;
    uint64_t written; /* of the piece */
    int is_used;
};

struct ring {
    struct io_uring io;
    struct flight flight[DEPTH];
    unsigned nflights;
};

cairn_err crn_uring_check(struct crn_errinfo *ei)
{
    struct io_uring io;
    int rc = io_uring_queue_init(DEPTH, &io, 0);

    if (rc < 0)
        return crn_fail(ei, CAIRN_ENOTSUP, -rc, "io_uring: %s", strerror(-rc));
    io_uring_queue_exit(&io);
    return CAIRN_OK;
}

static cairn_err submit(struct ring *r, struct flight *f, struct crn_errinfo *ei)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&r->io);
    const unsigned char *data = f->piece.data;
    uint64_t n = f->piece.bytes - f->written;
    int rc;

    if (sqe == NULL) /* as many entries as flights: cannot be */
        return crn_fail(ei, CAIRN_EBUG, 0, "no entry is left in the ring");
    io_uring_prep_write(sqe, f->piece.fd, data + f->written,
                        (unsigned)(n < 1U << 30 ? n : 1U << 30), f->piece.offset + f->written);
    io_uring_sqe_set_data(sqe, f);
    rc = io_uring_submit(&r->io);
    if (rc < 0)
        return crn_fail(ei, CAIRN_EIO, -rc, "io_uring_submit: %s", strerror(-rc));
    return CAIRN_OK;
}

/* Waits for one write; a short one is continued. */
static cairn_err reap(struct ring *r, struct crn_probe_writer *w, struct crn_errinfo *ei)
{
    struct io_uring_cqe *cqe = NULL;
    struct flight *f;
    cairn_err end = CAIRN_OK;
    int rc, n;

    do
        rc = io_uring_wait_cqe(&r->io, &cqe);
    while (rc == -EINTR);
    if (rc < 0)
        return crn_fail(ei, CAIRN_EIO, -rc, "io_uring_wait_cqe: %s", strerror(-rc));
    f = io_uring_cqe_get_data(cqe);
    n = cqe->res;
    io_uring_cqe_seen(&r->io, cqe);
    if (n > 0)
        f->written += (uint64_t)n;
    if (n == -EINTR || n == -EAGAIN || (n > 0 && f->written < f->piece.bytes)) {
        end = submit(r, f, ei);
        if (end == CAIRN_OK)
            return CAIRN_OK;
    } else if (n <= 0) {
        end = crn_fail_errno(ei, n < 0 ? -n : EIO, "write through io_uring");
    }
    f->is_used = 0;
    r->nflights--;
    crn_probe_done(w, &f->piece);
    return end;
}

static struct flight *free_flight(struct ring *r)
{
    unsigned i;

    for (i = 0; i < DEPTH; i++)
        if (!r->flight[i].is_used)
            return &r->flight[i];
    return NULL;
}

/* 1 if a piece was sent off, 0 if there is none. */
static int launch(struct ring *r, struct crn_probe_writer *w, cairn_err *ret,
                  struct crn_errinfo *ei)
{
    struct flight *f = free_flight(r);

    if (f == NULL || !crn_probe_next(w, r->nflights == 0, &f->piece))
        return 0;
    f->written = 0;
    *ret = submit(r, f, ei);
    if (*ret != CAIRN_OK) {
        crn_probe_done(w, &f->piece);
        return 1;
    }
    f->is_used = 1;
    r->nflights++;
    return 1;
}

cairn_err crn_uring_write(struct crn_probe_writer *w, struct crn_errinfo *ei)
{
    struct ring r = {0};
    cairn_err rc = CAIRN_OK, late;
    int init = io_uring_queue_init(DEPTH, &r.io, 0);

    if (init < 0)
        return crn_fail(ei, CAIRN_ENOTSUP, -init, "io_uring: %s", strerror(-init));
    while (rc == CAIRN_OK) {
        if (launch(&r, w, &rc, ei))
            continue;
        if (r.nflights == 0)
            break;
        rc = reap(&r, w, ei);
    }
    while (r.nflights > 0) { /* after an error: the kernel still reads their memory */
        unsigned before = r.nflights;

        late = reap(&r, w, ei);
        if (late != CAIRN_OK && r.nflights == before)
            break; /* the ring itself is broken */
    }
    io_uring_queue_exit(&r.io);
    return rc;
}

#else

cairn_err crn_uring_check(struct crn_errinfo *ei)
{
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "this build has no io_uring");
}

cairn_err crn_uring_write(struct crn_probe_writer *w, struct crn_errinfo *ei)
{
    (void)w;
    return crn_uring_check(ei);
}

#endif
