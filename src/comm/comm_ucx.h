/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a communicator over UCX. cairn_ucx.h documents allgather. */
#ifndef CRN_COMM_UCX_H
#define CRN_COMM_UCX_H

#include "cairn/cairn_ucx.h"
#include "comm/comm.h"

CAIRN_CHECKED cairn_err crn_comm_ucx(int rank, int ranks, cairn_allgather *allgather, void *arg,
                                     struct crn_comm **ret, struct crn_errinfo *ei);

#endif
