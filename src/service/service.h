/* SPDX-License-Identifier: BSD-3-Clause */
/* The node service: one loop thread that owns all state, and for each job a flusher (bulk data) and
 * a keeper (locks, commits, retention). The same code is a thread of an application's process or the
 * daemon cairnd. */
#ifndef CRN_SERVICE_SERVICE_H
#define CRN_SERVICE_SERVICE_H

#include "base/config.h"
#include "base/log.h"
#include "comm/comm.h"

struct crn_service; /* opaque */

/* Starts the loop. Listens at socket_path (removed at the end). comm joins the services of all nodes
 * and is taken over, also on failure; only the loop thread uses it. All threads of the service run where
 * cores says. */
CAIRN_CHECKED cairn_err crn_service_open(const char *socket_path, struct crn_comm *comm,
                                         const struct crn_log *log, enum crn_background_cores cores,
                                         struct crn_service **ret, struct crn_errinfo *ei);
/* Refuses new jobs; the loop ends when the present ones are done. Never blocks. */
void crn_service_close(struct crn_service *svc);
/* Waits for the end of the loop, at most timeout_ns; then cuts the work short: what is not flushed
 * stays in the arenas for a drain. */
void crn_service_stop(struct crn_service *svc, int64_t timeout_ns);
/* After the stop, by the services of all nodes together, before any of them ends. */
void crn_service_settle(struct crn_service *svc);
void crn_service_fini(struct crn_service *svc);

/* Jobs and checkpoints in progress, for cairnd's idle check and tests; any thread. */
int crn_service_busy(struct crn_service *svc);

#endif
