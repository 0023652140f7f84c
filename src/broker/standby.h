/* SPDX-License-Identifier: BSD-3-Clause */
/* Several brokers of a site, of which one serves. The others probe it and listen to nobody; when
 * it has not answered for the time `takeover`, one of them serves. Each takeover has a higher
 * epoch than the broker before. A broker that meets one of a higher epoch steps down, so of two
 * that were cut off from each other the later one stays. */
#ifndef CRN_BROKER_STANDBY_H
#define CRN_BROKER_STANDBY_H

#include "base/log.h"
#include "broker/conf.h"

/* Returns 1 when this broker has to serve, and 0 after SIGTERM or SIGINT. *newest is raised to the
 * highest epoch of the others. Without peers it returns 1 at once. */
int crn_standby_wait(const struct crn_broker_conf *conf, const struct crn_log *log,
                     uint64_t *newest);

/* A thread that probes the peers of a broker that serves. */
struct crn_standby_watch;
CAIRN_CHECKED cairn_err crn_standby_watch_start(const struct crn_broker_conf *conf, uint64_t own,
                                                struct crn_standby_watch **ret,
                                                struct crn_errinfo *ei);
/* The epoch of a broker that has replaced this one; 0: none. */
uint64_t crn_standby_watch_seen(struct crn_standby_watch *w);
void crn_standby_watch_stop(struct crn_standby_watch *w); /* NULL is allowed */

#endif
