/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator that the core sees. comm_self.c is a world of one; comm_mpi.c is MPI, and the
 * only place that includes mpi.h. Collectives are for the application's thread inside collective
 * API calls; post and poll are for one service thread and never block. */
#ifndef CRN_COMM_H
#define CRN_COMM_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

#define CRN_COMM_ABI  3
#define CRN_COMM_TAGS 16384 /* tags of transfers: 0 .. CRN_COMM_TAGS-1 */

struct crn_comm;
struct crn_transfer; /* opaque: bytes on their way */
enum crn_comm_op { CRN_COMM_MIN, CRN_COMM_MAX, CRN_COMM_SUM };

struct crn_comm_ops {
    uint32_t abi; /* CRN_COMM_ABI; all others are refused */
    const char *name;
    /* Collective: a new communicator of those with the same color, ordered by key. color < 0: none,
     * *ret is NULL. */
    cairn_err (*split)(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                       struct crn_errinfo *ei);
    /* Collective: those that share memory with the caller. */
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
    /* A message that has arrived, as malloc'ed memory; *ret_buf is NULL if there is none. Also
     * retires what was posted. */
    cairn_err (*poll)(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                      struct crn_errinfo *ei);
    /* Bulk data between two services, at most 1 GiB: the sender and the receiver name each other and
     * the same tag. The memory is the transfer's until it is done or given up. Service thread only. */
    cairn_err (*send_start)(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                            struct crn_transfer **ret, struct crn_errinfo *ei);
    cairn_err (*recv_start)(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                            struct crn_transfer **ret, struct crn_errinfo *ei);
    /* Done: the transfer is freed, also when it failed. */
    cairn_err (*transfer_test)(struct crn_comm *c, struct crn_transfer *t, int *ret_done,
                               struct crn_errinfo *ei);
    /* Gives a receive up, at once: 1 if its memory is free now; 0 if it began to arrive: its memory may
     * be written to until the end of the communicator. A send cannot be given up. */
    int (*transfer_cancel)(struct crn_comm *c, struct crn_transfer *t);
    /* Collective, once nobody posts any more and before free: what was posted and never polled arrives and is
     * dropped. A message that arrives when its communicator is gone would meet the next one of that
     * id, and stop it: MPI counts messages. */
    void (*settle)(struct crn_comm *c);
    /* True if another thread may use this communicator while the application uses MPI. */
    int (*threads_ok)(const struct crn_comm *c);
    void (*free)(struct crn_comm *c); /* local; waits for what was posted at most a moment */
};

/* Embedded as the first member of an implementation. */
struct crn_comm {
    const struct crn_comm_ops *ops;
    int rank;
    int size;
};

CAIRN_CHECKED cairn_err crn_comm_self(struct crn_comm **ret, struct crn_errinfo *ei);

#endif
