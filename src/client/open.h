/* SPDX-License-Identifier: BSD-3-Clause */
/* What libcairn_mpi needs of libcairn: exported in the private version node, for that library of the
 * same release only. */
#ifndef CRN_CLIENT_OPEN_H
#define CRN_CLIENT_OPEN_H

#include "comm/comm.h"

/* Collective over comm, which is taken over, also on failure. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_private_open(struct crn_comm *comm,
                                                     const struct cairn_options *options,
                                                     cairn_session **ret_session);
/* Makes ei the thread's last error. */
CAIRN_API void cairn_private_publish(const struct crn_errinfo *ei);

#endif
