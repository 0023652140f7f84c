/* SPDX-License-Identifier: BSD-3-Clause */
/* What libcairn_mpi needs of libcairn: exported in the private version node, for that library of the
 * same release only; and what the compat libraries need, which hold a copy of libcairn. */
#ifndef CRN_CLIENT_OPEN_H
#define CRN_CLIENT_OPEN_H

#include "comm/comm.h"

/* Collective over comm, which is taken over, also on failure. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_private_open(struct crn_comm *comm,
                                                     const struct cairn_options *options,
                                                     cairn_session **ret_session);
/* Collective. cairn_close; with is_alone this thread and the service never call MPI at the same time,
 * as is needed where MPI is about to end. For code that is linked with libcairn.a. */
cairn_err crn_session_close(cairn_session *session, int is_alone);
/* Does this session have a checkpoint that it took in memory? */
int crn_session_holds(cairn_session *session, const char *name, int64_t version);
/* This run is the successor of what is stored of the name: it restored a version, or decided to start. */
void crn_session_succeeds(cairn_session *session, const char *name);
/* Makes ei the thread's last error. */
CAIRN_API void cairn_private_publish(const struct crn_errinfo *ei);

#endif
