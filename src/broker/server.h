/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn-broker itself: listeners, connections and timers around the core. One event loop
 * (libevent), and one thread for logins. */
#ifndef CRN_BROKER_SERVER_H
#define CRN_BROKER_SERVER_H

#include "base/log.h"
#include "broker/conf.h"

struct crn_server;

/* The server is listening when this returns. conf must outlive it. Its epoch is above newest. */
CAIRN_CHECKED cairn_err crn_server_open(const struct crn_broker_conf *conf,
                                        const struct crn_log *log, uint64_t newest,
                                        struct crn_server **ret, struct crn_errinfo *ei);
/* Runs until SIGTERM or SIGINT, or until another broker has replaced it. */
CAIRN_CHECKED cairn_err crn_server_run(struct crn_server *s, struct crn_errinfo *ei);
/* The epoch of the broker that has replaced it; 0: none. */
uint64_t crn_server_replaced_by(const struct crn_server *s);
void crn_server_close(struct crn_server *s);

#endif
