/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes through io_uring: a few on their way at once. The build may be without liburing, and kernels
 * and containers may forbid it: CAIRN_ENOTSUP. A ring is used by one thread at a time. */
#ifndef CRN_RING_H
#define CRN_RING_H

#include "base/fs.h"

struct crn_ring_write {
    int fd;
    int fd_if_refused; /* takes over where fd's file system says EINVAL (O_DIRECT); -1: none does */
    const void *data;  /* not to be touched until the write has ended */
    uint64_t bytes;
    uint64_t offset;
    const char *what; /* names the file in messages */
    void *arg;        /* for ended */
};

struct crn_ring; /* opaque */

/* At most depth writes on their way. ended may be NULL; it is called, inside one of the functions below,
 * for every write that was accepted, well or not. */
CAIRN_CHECKED cairn_err crn_ring_open(unsigned depth, void (*ended)(void *ctx, void *arg),
                                      void *ctx, struct crn_ring **ret, struct crn_errinfo *ei);
void crn_ring_close(struct crn_ring *r); /* NULL is fine; after a settle */
/* Sends a write off, waiting for a place first. The error may be that of an earlier one; the write has
 * not been accepted then. fs->ring is asked first. */
CAIRN_CHECKED cairn_err crn_ring_write(struct crn_ring *r, const struct crn_fs *fs,
                                       const struct crn_ring_write *w, struct crn_errinfo *ei);
unsigned crn_ring_pending(const struct crn_ring *r);
/* Waits until one has ended. */
CAIRN_CHECKED cairn_err crn_ring_wait(struct crn_ring *r, struct crn_errinfo *ei);
/* Waits until all have ended; the first error among them, or rc if that is one already. */
CAIRN_CHECKED cairn_err crn_ring_settle(struct crn_ring *r, cairn_err rc, struct crn_errinfo *ei);

#endif
