/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel reads the memory of a write until it has ended, so nothing is forgotten after an error: the
 * others are waited for. Short writes are continued. */
#include "base/ring.h"

#ifdef CRN_WITH_URING

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEP ((uint64_t)1 << 30)

/* liburing maps the memory of a ring and unmaps it with system calls of its own, which the thread sanitizer
 * does not see: a ring that gets the memory of one that another thread closed looks like a race with it. The
 * kernel orders the two; this says so. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
static char memory_of_rings;
#define MEMORY_TAKEN() __tsan_acquire(&memory_of_rings)
#define MEMORY_GIVEN() __tsan_release(&memory_of_rings)
#else
#define MEMORY_TAKEN() (void)0
#define MEMORY_GIVEN() (void)0
#endif

struct flight {
    struct crn_ring_write w;
    const struct crn_fs *fs;
    uint64_t written;
    int is_used;
};

struct crn_ring {
    struct io_uring io;
    void (*ended)(void *ctx, void *arg);
    void *ctx;
    unsigned depth, pending;
    int is_broken; /* an entry could not be handed over: none is any more */
    struct flight flight[];
};

cairn_err crn_ring_open(unsigned depth, void (*ended)(void *ctx, void *arg), void *ctx,
                        struct crn_ring **ret, struct crn_errinfo *ei)
{
    struct crn_ring *r = calloc(1, sizeof(*r) + depth * sizeof(r->flight[0]));
    int rc;

    if (r == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a ring of %u writes", depth);
    rc = io_uring_queue_init(depth, &r->io, 0);
    if (rc < 0) {
        free(r);
        return crn_fail(ei, CAIRN_ENOTSUP, -rc, "io_uring: %s", strerror(-rc));
    }
    MEMORY_TAKEN();
    r->ended = ended;
    r->ctx = ctx;
    r->depth = depth;
    *ret = r;
    return CAIRN_OK;
}

void crn_ring_close(struct crn_ring *r)
{
    if (r == NULL)
        return;
    MEMORY_GIVEN();
    io_uring_queue_exit(&r->io);
    free(r);
}

unsigned crn_ring_pending(const struct crn_ring *r)
{
    return r->pending;
}

/* Hands the rest of a write to the kernel. */
static cairn_err submit(struct crn_ring *r, struct flight *f, struct crn_errinfo *ei)
{
    uint64_t n = f->w.bytes - f->written;
    struct io_uring_sqe *sqe;
    ssize_t may;
    int rc;

    may = f->fs->ring(f->fs, n < MAX_STEP ? n : MAX_STEP);
    if (may < 0)
        return crn_fail_errno(ei, (int)-may, "write '%s'", f->w.what);
    sqe = r->is_broken ? NULL : io_uring_get_sqe(&r->io);
    if (sqe == NULL)
        return crn_fail(ei, CAIRN_EIO, 0, "write '%s': the ring is broken", f->w.what);
    io_uring_prep_write(sqe, f->w.fd, (const unsigned char *)f->w.data + f->written, (unsigned)may,
                        f->w.offset + f->written);
    io_uring_sqe_set_data(sqe, f);
    do
        rc = io_uring_submit(&r->io);
    while (rc == -EINTR);
    if (rc == 1)
        return CAIRN_OK;
    r->is_broken = 1;
    return crn_fail_errno(ei, rc < 0 ? -rc : EIO, "write '%s' through io_uring", f->w.what);
}

/* What became of one step of a write: 1 if the write goes on. */
static int go_on(struct flight *f, int n)
{
    if (n > 0) {
        f->written += (uint64_t)n;
        return f->written < f->w.bytes;
    }
    if (n == -EINVAL && f->w.fd_if_refused >= 0) {
        f->w.fd = f->w.fd_if_refused;
        f->w.fd_if_refused = -1;
        return 1;
    }
    return n == -EINTR || n == -EAGAIN;
}

cairn_err crn_ring_wait(struct crn_ring *r, struct crn_errinfo *ei)
{
    struct io_uring_cqe *cqe = NULL;
    cairn_err end = CAIRN_OK;
    struct flight *f;
    int rc, n;

    do
        rc = io_uring_wait_cqe(&r->io, &cqe);
    while (rc == -EINTR);
    if (rc < 0) {
        r->is_broken = 1;
        return crn_fail(ei, CAIRN_EIO, -rc, "io_uring: %s", strerror(-rc));
    }
    f = io_uring_cqe_get_data(cqe);
    n = cqe->res;
    io_uring_cqe_seen(&r->io, cqe);
    if (go_on(f, n)) {
        end = submit(r, f, ei);
        if (end == CAIRN_OK)
            return CAIRN_OK;
    } else if (n <= 0) {
        end = crn_fail_errno(ei, n < 0 ? -n : EIO, "write '%s'", f->w.what);
    }
    f->is_used = 0;
    r->pending--;
    if (r->ended != NULL)
        r->ended(r->ctx, f->w.arg);
    return end;
}

cairn_err crn_ring_write(struct crn_ring *r, const struct crn_fs *fs,
                         const struct crn_ring_write *w, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    struct flight *f;

    while (rc == CAIRN_OK && r->pending == r->depth)
        rc = crn_ring_wait(r, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (f = r->flight; f->is_used; f++)
        ;
    *f = (struct flight){.w = *w, .fs = fs};
    rc = submit(r, f, ei);
    if (rc != CAIRN_OK)
        return rc;
    f->is_used = 1;
    r->pending++;
    return CAIRN_OK;
}

cairn_err crn_ring_settle(struct crn_ring *r, cairn_err rc, struct crn_errinfo *ei)
{
    while (r->pending > 0) {
        unsigned before = r->pending;
        struct crn_errinfo late = {0};
        cairn_err end = crn_ring_wait(r, &late);

        if (end != CAIRN_OK && rc == CAIRN_OK) {
            rc = end;
            if (ei != NULL)
                crn_err_keep(ei, &late);
        }
        if (end != CAIRN_OK && r->pending == before)
            break; /* the ring itself is broken */
    }
    return rc;
}

#else

cairn_err crn_ring_open(unsigned depth, void (*ended)(void *ctx, void *arg), void *ctx,
                        struct crn_ring **ret, struct crn_errinfo *ei)
{
    (void)depth;
    (void)ended;
    (void)ctx;
    (void)ret;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "this build has no io_uring");
}

void crn_ring_close(struct crn_ring *r)
{
    (void)r;
}

cairn_err crn_ring_write(struct crn_ring *r, const struct crn_fs *fs,
                         const struct crn_ring_write *w, struct crn_errinfo *ei)
{
    (void)r;
    (void)fs;
    return crn_fail(ei, CAIRN_EBUG, 0, "write '%s': no ring", w->what);
}

unsigned crn_ring_pending(const struct crn_ring *r)
{
    (void)r;
    return 0;
}

cairn_err crn_ring_wait(struct crn_ring *r, struct crn_errinfo *ei)
{
    (void)r;
    return crn_fail(ei, CAIRN_EBUG, 0, "no ring");
}

cairn_err crn_ring_settle(struct crn_ring *r, cairn_err rc, struct crn_errinfo *ei)
{
    (void)r;
    (void)ei;
    return rc;
}

#endif
