/* SPDX-License-Identifier: BSD-3-Clause */
/* What libcairn_mpi needs from libcairn: exported in the private version node, only for the
 * libcairn_mpi of the same release. Also what the compat libraries need, which contain a copy of
 * libcairn. */
#ifndef CRN_CLIENT_OPEN_H
#define CRN_CLIENT_OPEN_H

#include "comm/comm.h"

/* Collective over comm. Takes ownership of comm, even on failure. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_private_open(struct crn_comm *comm,
                                                     const struct cairn_options *options,
                                                     cairn_session **ret_session);
/* Collective. cairn_close; with is_alone this thread and the service never call MPI at the same
 * time, which is required just before MPI_Finalize. For code that is linked with libcairn.a. */
cairn_err crn_session_close(cairn_session *session, int is_alone);
/* Did this session take the checkpoint, and is it still in memory? */
int crn_session_holds(cairn_session *session, const char *name, int64_t version);
/* Makes this run the successor of the stored versions of the name: it restored one, or decided to
 * start over. */
void crn_session_succeeds(cairn_session *session, const char *name);
/* Collective over comm, which the caller keeps: does rank 0's configuration say comm = ucx? 0 also
 * if there is an error in it, which cairn_private_open reports. */
CAIRN_API int cairn_private_wants_ucx(struct crn_comm *comm, const struct cairn_options *options);
/* A session that cannot be opened, where cairn_private_open is not called: makes ei the thread's last
 * error and logs it, unless another rank does. rank < 0: unknown. Returns the error's code. */
CAIRN_API CAIRN_CHECKED cairn_err cairn_private_refuse(int rank, int is_logged_elsewhere,
                                                       const struct crn_errinfo *ei);

#endif
