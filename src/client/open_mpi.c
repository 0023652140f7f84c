/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions of libcairn_mpi: everything else is in libcairn, which knows no MPI. */
#include "cairn/cairn_mpi.h"
#include "client/open.h"
#include "comm/comm_mpi.h"

CAIRN_API cairn_err cairn_open_mpi(MPI_Comm comm, const struct cairn_options *options,
                                   cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *c;
    cairn_err rc;

    if (ret_session != NULL)
        *ret_session = NULL;
    rc = crn_comm_mpi(comm, &c, &ei);
    if (rc != CAIRN_OK) {
        cairn_private_publish(&ei);
        return rc;
    }
    return cairn_private_open(c, options, ret_session);
}

CAIRN_API cairn_err cairn_open_mpi_f(MPI_Fint comm, const struct cairn_options *options,
                                     cairn_session **ret_session)
{
    return cairn_open_mpi(MPI_Comm_f2c(comm), options, ret_session);
}
