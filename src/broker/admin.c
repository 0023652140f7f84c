/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits on a link with poll until the answer arrives or the deadline passes. */
#include "broker/admin.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"

struct crn_admin {
    struct crn_broker_link *link;
    int64_t timeout_ns;
};

static int64_t admin_now(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Advances the link; waits if it has nothing to do. */
static cairn_err admin_step(struct crn_admin *a, int64_t deadline_ns, struct crn_errinfo *ei)
{
    struct pollfd pfd = {.fd = crn_broker_link_fd(a->link), .events = POLLIN};
    int64_t wait = crn_broker_link_deadline(a->link, admin_now());
    cairn_err rc;

    if (admin_now() >= deadline_ns)
        return crn_fail(ei, CAIRN_ETIMEDOUT, 0, "the broker does not answer");
    wait = (wait < deadline_ns ? wait : deadline_ns) - admin_now();
    if (crn_broker_link_wants_write(a->link))
        pfd.events |= POLLOUT;
    if (poll(&pfd, 1, wait > 0 ? (int)(wait / 1000000) + 1 : 0) < 0 && errno != EINTR)
        return crn_fail_errno(ei, errno, "poll");
    rc = crn_broker_link_step(a->link, admin_now(), ei);
    return rc;
}

static cairn_err admin_receive(struct crn_admin *a, struct crn_bp_msg *msg, struct crn_errinfo *ei)
{
    int64_t deadline = admin_now() + a->timeout_ns;
    cairn_err rc = CAIRN_OK;
    int is_there = 0;

    while (rc == CAIRN_OK) {
        rc = crn_broker_link_receive(a->link, msg, &is_there, ei);
        if (rc != CAIRN_OK || is_there)
            return rc;
        rc = admin_step(a, deadline, ei);
    }
    return rc;
}

/* At one address. */
static cairn_err admin_connect(const struct crn_broker_link_config *cfg, struct crn_admin **ret,
                               struct crn_errinfo *ei)
{
    struct crn_admin *a = calloc(1, sizeof(*a));
    int64_t deadline = admin_now() + cfg->timeout_ns;
    cairn_err rc;

    if (a == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a connection");
    a->timeout_ns = cfg->timeout_ns;
    rc = crn_broker_link_open(cfg, admin_now(), &a->link, ei);
    while (rc == CAIRN_OK && crn_broker_link_welcome(a->link) == NULL)
        rc = admin_step(a, deadline, ei);
    if (rc == CAIRN_OK)
        *ret = a;
    else
        crn_admin_close(a);
    return rc;
}

cairn_err crn_admin_open(const struct crn_broker_link_config *cfg, struct crn_admin **ret,
                         struct crn_errinfo *ei)
{
    struct crn_broker_link_config one = *cfg;
    const char *at = cfg->address;
    cairn_err rc = crn_fail(ei, CAIRN_ECONFIG, 0, "no address of a broker");

    /* A broker that answers is the one that serves. */
    while (rc != CAIRN_OK && rc != CAIRN_EPEER &&
           crn_address_next(&at, one.address, sizeof(one.address))) {
        crn_err_clear(ei);
        rc = admin_connect(&one, ret, ei);
    }
    return rc;
}

void crn_admin_close(struct crn_admin *a)
{
    if (a == NULL)
        return;
    crn_broker_link_close(a->link);
    free(a);
}

const struct crn_bp_welcome *crn_admin_welcome(const struct crn_admin *a)
{
    return crn_broker_link_welcome(a->link);
}

cairn_err crn_admin_query(struct crn_admin *a, const struct crn_bp_query *query,
                          void (*fn)(void *arg, const struct crn_bp_msg *row), void *arg,
                          struct crn_errinfo *ei)
{
    struct crn_bp_msg msg = {.type = CRN_BP_QUERY, .u.query = *query};
    cairn_err rc;

    rc = crn_broker_link_send(a->link, &msg, ei);
    while (rc == CAIRN_OK) {
        rc = admin_receive(a, &msg, ei);
        if (rc == CAIRN_OK && msg.type == CRN_BP_DONE)
            return CAIRN_OK;
        if (rc == CAIRN_OK && (msg.type == CRN_BP_TOKEN_ROW || msg.type == CRN_BP_REQUEST_ROW ||
                               msg.type == CRN_BP_USER_ROW))
            fn(arg, &msg);
    }
    return rc;
}

cairn_err crn_admin_control(struct crn_admin *a, const struct crn_bp_control *control,
                            struct crn_errinfo *ei)
{
    struct crn_bp_msg msg = {.type = CRN_BP_CONTROL, .u.control = *control};
    cairn_err rc;

    rc = crn_broker_link_send(a->link, &msg, ei);
    do
        rc = rc == CAIRN_OK ? admin_receive(a, &msg, ei) : rc;
    while (rc == CAIRN_OK && msg.type != CRN_BP_DONE);
    if (rc == CAIRN_OK && msg.u.done.code != CAIRN_OK)
        rc = crn_fail(ei, (cairn_err)msg.u.done.code, 0, "%s", msg.u.done.text);
    return rc;
}
