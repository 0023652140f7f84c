/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to the broker, from the name lookup to messages. Never blocks (but see
 * auth_munge.c); its owner polls the descriptor and calls step. Used by the jobs' client and by
 * `cairn broker`. One thread at a time. */
#ifndef CRN_BROKER_LINK_H
#define CRN_BROKER_LINK_H

#include "broker/address.h"
#include "broker/auth.h"
#include "broker/proto.h"

struct crn_broker_link;

struct crn_broker_link_config {
    /* "host", "host:port", "[v6]:port" or "unix:/path"; for crn_broker_open and crn_admin_open a
     * list: the first that serves is used. */
    char address[CRN_PATH_MAX];
    char method[16]; /* "peer", "key", "munge"; empty or "auto": by address */
    struct crn_auth_config auth;
    int64_t timeout_ns; /* from open to welcome */
};

/* Address and login from a job's configuration; the timeout stays 0. */
void crn_broker_link_configure(struct crn_broker_link_config *ret, const struct crn_config *cfg);
/* Starts to connect; step returns network errors. */
CAIRN_CHECKED cairn_err crn_broker_link_open(const struct crn_broker_link_config *cfg,
                                             int64_t now_ns, struct crn_broker_link **ret,
                                             struct crn_errinfo *ei);
void crn_broker_link_close(struct crn_broker_link *link);
/* Does what is possible now. An error ends the link: close it. If the broker gave a reason, it
 * is in ei. */
CAIRN_CHECKED cairn_err crn_broker_link_step(struct crn_broker_link *link, int64_t now_ns,
                                             struct crn_errinfo *ei);
/* The descriptor to poll, -1 during the name lookup. */
int crn_broker_link_fd(const struct crn_broker_link *link);
int crn_broker_link_wants_write(const struct crn_broker_link *link);
/* When step is due at the latest, without other events; INT64_MAX: never. */
int64_t crn_broker_link_deadline(const struct crn_broker_link *link, int64_t now_ns);

/* NULL until the login has succeeded. */
const struct crn_bp_welcome *crn_broker_link_welcome(const struct crn_broker_link *link);
/* Queues a message; step sends it. CAIRN_ELIMIT: the broker does not read. */
CAIRN_CHECKED cairn_err crn_broker_link_send(struct crn_broker_link *link,
                                             const struct crn_bp_msg *msg, struct crn_errinfo *ei);
/* *ret_is_there: was there a message? Call until there is none. An error ends the link. */
CAIRN_CHECKED cairn_err crn_broker_link_receive(struct crn_broker_link *link,
                                                struct crn_bp_msg *ret, int *ret_is_there,
                                                struct crn_errinfo *ei);

#endif
