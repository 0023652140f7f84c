/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CRN_COMM_MPI_H
#define CRN_COMM_MPI_H

#include <mpi.h>
#include "comm/comm.h"

/* Fails if the process runs another MPI than this file was compiled for: handles of the two differ, and
 * no call with one may be made. */
CAIRN_CHECKED cairn_err crn_comm_mpi_check(struct crn_errinfo *ei);
/* Collective: duplicates comm, and wraps the duplicate in the core's interface. */
CAIRN_CHECKED cairn_err crn_comm_mpi(MPI_Comm comm, struct crn_comm **ret, struct crn_errinfo *ei);

#endif
