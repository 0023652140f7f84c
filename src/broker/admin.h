/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker client of `cairn broker`: blocking calls with a deadline. */
#ifndef CRN_BROKER_ADMIN_H
#define CRN_BROKER_ADMIN_H

#include "broker/link.h"

struct crn_admin;

/* Connects and logs in within cfg->timeout_ns. */
CAIRN_CHECKED cairn_err crn_admin_open(const struct crn_broker_link_config *cfg,
                                       struct crn_admin **ret, struct crn_errinfo *ei);
void crn_admin_close(struct crn_admin *a);
const struct crn_bp_welcome *crn_admin_welcome(const struct crn_admin *a);
/* fn is called for each TOKEN_ROW and REQUEST_ROW. */
CAIRN_CHECKED cairn_err crn_admin_query(struct crn_admin *a, const struct crn_bp_query *query,
                                        void (*fn)(void *arg, const struct crn_bp_msg *row),
                                        void *arg, struct crn_errinfo *ei);
/* A refusal by the broker is returned as the error. */
CAIRN_CHECKED cairn_err crn_admin_control(struct crn_admin *a, const struct crn_bp_control *control,
                                          struct crn_errinfo *ei);

#endif
