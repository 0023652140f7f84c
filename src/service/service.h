/* SPDX-License-Identifier: BSD-3-Clause */
/* The node service: one loop thread that owns all state, and for each job a flusher (bulk data), a
 * keeper (locks, commits, retention) and, if nodes share files, a sender. The same code runs as a
 * thread of an application or as the daemon cairnd. */
#ifndef CRN_SERVICE_SERVICE_H
#define CRN_SERVICE_SERVICE_H

#include "base/config.h"
#include "base/log.h"
#include "comm/comm.h"

struct crn_service; /* opaque */

/* Starts the loop. Listens at socket_path (removed at the end). comm connects the services of all
 * nodes; the service takes ownership, also on failure, and only the loop thread uses it. cores says
 * where all threads of the service run. cfg: of a cairnd, which takes over the jobs of a dead one on
 * this node; it must outlive the service. NULL: embedded. */
CAIRN_CHECKED cairn_err crn_service_open(const char *socket_path, struct crn_comm *comm,
                                         const struct crn_log *log, enum crn_background_cores cores,
                                         const struct crn_config *cfg, struct crn_service **ret,
                                         struct crn_errinfo *ei);
/* Refuses new jobs, waits at most timeout_ns for the end of the current ones, then aborts: captures not yet flushed stay in
 * the arenas for a drain. */
void crn_service_stop(struct crn_service *svc, int64_t timeout_ns);
/* Called after the stop by the services of all nodes together, before any of them ends. */
void crn_service_settle(struct crn_service *svc);
void crn_service_fini(struct crn_service *svc);

#endif
