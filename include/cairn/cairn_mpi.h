/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions over an MPI communicator. Link libcairn_mpi, which pulls in libcairn. */
#ifndef CAIRN_MPI_H
#define CAIRN_MPI_H

#include <mpi.h>
#include "cairn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a session of the ranks of comm. Collective over comm. Cairn duplicates comm and does not
 * use it after the call. Call it between MPI_Init_thread and MPI_Finalize. With the embedded
 * service on more than one node the MPI library must provide MPI_THREAD_MULTIPLE; otherwise the
 * call fails with CAIRN_ENOTSUP and a message that says what to do. An error on one rank is
 * returned on all ranks, as for cairn_open; rank 0 logs it. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_open_mpi(MPI_Comm comm, const struct cairn_options *options,
                                                 cairn_session **ret_session);
/* The same with a Fortran handle of the communicator, for bindings. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_open_mpi_f(MPI_Fint comm,
                                                   const struct cairn_options *options,
                                                   cairn_session **ret_session);

#ifdef __cplusplus
}
#endif
#endif
