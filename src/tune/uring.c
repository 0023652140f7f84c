/* SPDX-License-Identifier: BSD-3-Clause */
/* A writer that goes through io_uring, with up to DEPTH blocks on their way. */
#include "base/ring.h"
#include "tune/probe.h"

#define DEPTH 4

cairn_err crn_uring_check(struct crn_errinfo *ei)
{
    struct crn_ring *r;
    cairn_err rc = crn_ring_open(DEPTH, NULL, NULL, &r, ei);

    if (rc == CAIRN_OK)
        crn_ring_close(r);
    return rc;
}

static void ended(void *ctx, void *block)
{
    crn_probe_done(ctx, block);
}

cairn_err crn_uring_write(struct crn_probe_writer *w, const struct crn_fs *fs,
                          struct crn_errinfo *ei)
{
    struct crn_piece piece;
    struct crn_ring *r;
    cairn_err rc = crn_ring_open(DEPTH, ended, w, &r, ei);

    if (rc != CAIRN_OK)
        return rc;
    while (rc == CAIRN_OK) {
        if (crn_probe_next(w, crn_ring_pending(r) == 0, &piece)) {
            struct crn_ring_write out = {.fd = piece.fd,
                                         .fd_if_refused = -1,
                                         .data = piece.data,
                                         .bytes = piece.bytes,
                                         .offset = piece.offset,
                                         .what = "probe",
                                         .arg = piece.block};

            rc = crn_ring_write(r, fs, &out, ei);
            if (rc != CAIRN_OK)
                crn_probe_done(w, piece.block);
        } else if (crn_ring_pending(r) > 0) {
            rc = crn_ring_wait(r, ei);
        } else {
            break;
        }
    }
    rc = crn_ring_settle(r, rc, ei);
    crn_ring_close(r);
    return rc;
}
