/* SPDX-License-Identifier: BSD-3-Clause */
/* The public function of libcairn_ucx: everything else is in libcairn, which knows no UCX. */
#include "cairn/cairn_ucx.h"
#include "client/open.h"
#include "comm/comm_ucx.h"

CAIRN_API cairn_err cairn_open_ucx(int rank, int ranks, cairn_allgather *allgather, void *arg,
                                   const struct cairn_options *options, cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *c;
    cairn_err rc;

    if (ret_session != NULL)
        *ret_session = NULL;
    if (allgather == NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "allgather is NULL");
    else if (ranks < 1 || rank < 0 || rank >= ranks)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "rank is %d of %d ranks", rank, ranks);
    else
        rc = crn_comm_ucx(rank, ranks, allgather, arg, &c, &ei);
    if (rc != CAIRN_OK)
        return cairn_private_refuse(rank, 0, &ei);
    return cairn_private_open(c, options, ret_session);
}
