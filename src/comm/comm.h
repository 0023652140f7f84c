/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator interface of the core. comm_self.c implements it for one process; comm_mpi.c
 * with MPI, the only file that includes mpi.h; comm_ucx.c over UCX. Collectives are for the
 * application's thread inside collective API calls. post and poll are for one service thread, and
 * never block. */
#ifndef CRN_COMM_H
#define CRN_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define CRN_COMM_ABI  4
#define CRN_COMM_TAGS 16384 /* tags of transfers: 0 .. CRN_COMM_TAGS-1 */

struct crn_comm;
struct crn_transfer; /* a send or receive in flight; never defined: each transport has its own */
enum crn_comm_op { CRN_COMM_MIN, CRN_COMM_MAX, CRN_COMM_SUM };

struct crn_comm_ops {
    uint32_t abi; /* CRN_COMM_ABI; any other value is refused */
    const char *name;
    /* Collective: makes a communicator of the ranks with the same color, ordered by key. With color
     * < 0 the caller joins none, and *ret is NULL. */
    cairn_err (*split)(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                       struct crn_errinfo *ei);
    /* Collective: makes a communicator of the ranks that share memory with the caller. */
    cairn_err (*split_host)(struct crn_comm *c, struct crn_comm **ret, struct crn_errinfo *ei);
    cairn_err (*barrier)(struct crn_comm *c, struct crn_errinfo *ei);
    cairn_err (*bcast)(struct crn_comm *c, void *buf, size_t bytes, int root,
                       struct crn_errinfo *ei);
    cairn_err (*allgather)(struct crn_comm *c, const void *in, size_t bytes, void *out,
                           struct crn_errinfo *ei);
    cairn_err (*allreduce)(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                           struct crn_errinfo *ei);
    /* Sends a copy of buf; returns at once. */
    cairn_err (*post)(struct crn_comm *c, int to, const void *buf, size_t bytes,
                      struct crn_errinfo *ei);
    /* Returns a message that has arrived, in malloc'ed memory; *ret_buf is NULL if there is none.
     * Also frees the copies of posted messages that have been sent. */
    cairn_err (*poll)(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                      struct crn_errinfo *ei);
    /* Service thread, before it sleeps. 1: *ret_fd becomes readable when a poll or a transfer_test
     * may find something. 0: one of them may already. NULL: there is no such descriptor; poll at
     * intervals. */
    int (*arm)(struct crn_comm *c, int *ret_fd);
    /* Bulk data between two services, at most 1 GiB. Sender and receiver name each other and use
     * the same tag. The memory belongs to the transfer until it is done or cancelled. Service
     * thread only. */
    cairn_err (*send_start)(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                            struct crn_transfer **ret, struct crn_errinfo *ei);
    cairn_err (*recv_start)(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                            struct crn_transfer **ret, struct crn_errinfo *ei);
    /* When *ret_done is set, the transfer has been freed, even if it failed. */
    cairn_err (*transfer_test)(struct crn_comm *c, struct crn_transfer *t, int *ret_done,
                               struct crn_errinfo *ei);
    /* Cancels a receive, without waiting. 1: its memory is free now. 0: data has begun to arrive,
     * and may be written to its memory until the communicator ends. A send cannot be cancelled. */
    int (*transfer_cancel)(struct crn_comm *c, struct crn_transfer *t);
    /* Collective. Call before free, once no rank posts any more: receives and drops the messages
     * that were posted but never polled. MPI reuses the ids of freed communicators and counts
     * messages, so a late message would reach the next communicator with the same id and block
     * it. */
    void (*settle)(struct crn_comm *c);
    /* True if another thread may use this communicator while the application uses MPI. */
    int (*threads_ok)(const struct crn_comm *c);
    void (*free)(struct crn_comm *c); /* local; cancels unfinished posts, does not wait */
};

/* Embedded as the first member of an implementation. */
struct crn_comm {
    const struct crn_comm_ops *ops;
    int rank;
    int size;
};

CAIRN_CHECKED cairn_err crn_comm_self(struct crn_comm **ret, struct crn_errinfo *ei);

#endif
