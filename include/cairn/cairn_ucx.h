/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions of several processes without MPI, over UCX: shared memory, TCP, and RDMA where there is
 * hardware. Link libcairn_ucx, which pulls in libcairn. */
#ifndef CAIRN_UCX_H
#define CAIRN_UCX_H

#include "cairn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exchanges a blob between all ranks of the job, by whatever means the launcher offers. Every rank
 * calls it with the same number of bytes; out gets the blobs of all ranks in the order of the
 * ranks. Returns 0, or another number if it fails. The blobs contain the job's secret: send them
 * only where no other user can read them. */
typedef int cairn_allgather(void *arg, const void *in, size_t bytes, void *out);

/* Opens a session of processes that need no MPI. Collective over the ranks processes of the job.
 * Calls allgather a few times, and not after it returns. A process that does not know the secret
 * that the ranks exchanged cannot take part: its messages are refused and logged. The embedded
 * service needs no threads of MPI, so this is also for MPI programs without MPI_THREAD_MULTIPLE. A
 * rank that dies is noticed and named within seconds. Errors are returned on all ranks, as for
 * cairn_open; rank 0 logs them. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_open_ucx(int rank, int ranks, cairn_allgather *allgather,
                                                 void *arg, const struct cairn_options *options,
                                                 cairn_session **ret_session);

#ifdef __cplusplus
}
#endif
#endif
