/* SPDX-License-Identifier: BSD-3-Clause */
/* The rank's end of the socket to its node service: handshake, state changes, and what happens when
 * the service dies (nothing to the application: calls report it). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "client/session.h"

#define HANDSHAKE_NS (30 * 1000000000LL)

static cairn_err gone(cairn_session *s, const char *why, struct crn_errinfo *ei)
{
    if (s->sock >= 0)
        crn_fork_close(s->sock);
    s->sock = -1;
    return crn_fail(ei, CAIRN_ESERVICE, 0,
                    "the node service is gone (%s); what it had not flushed is kept for "
                    "'cairn drain' or the next start",
                    why);
}

/* Waits until the socket can be read: 1, or 0 on the deadline. */
static int readable(cairn_session *s, int64_t timeout_ns)
{
    struct pollfd p = {.fd = s->sock, .events = POLLIN};
    struct timespec ts = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};

    return ppoll(&p, 1, &ts, NULL) > 0;
}

cairn_err crn_node_expect(cairn_session *s, enum crn_msg_type type, struct crn_msg *ret,
                          struct crn_errinfo *ei)
{
    int64_t until = s->clock->mono_ns(s->clock) + HANDSHAKE_NS;
    const struct crn_errinfo *refusal;
    size_t len = 0;
    cairn_err rc;

    while (len == 0) {
        int64_t left = until - s->clock->mono_ns(s->clock);

        if (left <= 0)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "the node service does not answer; is cairnd hanging?");
        if (!readable(s, left))
            continue;
        rc = crn_sock_recv(s->sock, s->packet, CRN_PROTO_MAX, &len, NULL, ei);
        if (rc != CAIRN_OK)
            return rc;
    }
    rc = crn_msg_decode(s->packet, len, ret, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (ret->type != type)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "the node service answered with %s",
                        crn_msg_name(ret->type));
    refusal = type == CRN_MSG_WELCOME ? &ret->welcome.error : &ret->ready.error;
    if (refusal->code != CAIRN_OK)
        crn_err_keep(ei, refusal);
    return refusal->code;
}

cairn_err crn_node_open(cairn_session *s, const char *socket_path, struct crn_errinfo *ei)
{
    cairn_err rc;

    s->packet = malloc(CRN_PROTO_MAX);
    if (s->packet == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the connection to the node service");
    rc = crn_sock_connect(socket_path, &s->sock, ei);
    if (rc == CAIRN_ESERVICE && s->cfg.service == CRN_SERVICE_DAEMON)
        return crn_err_context(ei, rc,
                               "is cairnd running on this node? Start one per node (mpirun cairnd) "
                               "or set service=embedded");
    return rc;
}

cairn_err crn_node_hello(cairn_session *s, const uint32_t *peers, struct crn_errinfo *ei)
{
    struct crn_hello h = {.rank = s->rank,
                          .ranks = s->ranks,
                          .node = s->node,
                          .nodes = s->nodes,
                          .local = s->local,
                          .nlocal = s->nlocal};
    struct crn_buf buf = {0};
    struct crn_msg ready;
    size_t len = 0;
    cairn_err rc;
    FILE *f;

    memcpy(h.run, s->run, 16);
    f = open_memstream(&h.config, &len);
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    (void)crn_config_dump(&s->cfg, f, 0);
    if (fclose(f) != 0) {
        free(h.config);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    }
    h.peers = (uint32_t *)(uintptr_t)peers; /* only read */
    rc = crn_hello_encode(&h, &buf, ei);
    free(h.config);
    if (rc == CAIRN_OK)
        rc = crn_sock_send(s->sock, buf.data, buf.len, -1, ei);
    crn_buf_free(&buf);
    if (rc == CAIRN_OK)
        rc = crn_node_expect(s, CRN_MSG_READY, &ready, ei);
    return rc;
}

static void take_state(cairn_session *s, const struct crn_msg *n)
{
    const struct crn_msg_state *st = &n->state;
    struct crn_track *t = crn_track_seq(s, n->seq);

    if (t == NULL)
        return;
    if (st->error.code != CAIRN_OK) {
        if (t->error.code == CAIRN_OK)
            t->error = st->error;
        s->may_have_failures = 1;
        crn_tiers_failed(s, n->seq, st->error.code);
        return;
    }
    memcpy(t->remark, st->error.msg, sizeof(t->remark));
    if ((cairn_level)st->level > t->level)
        t->level = (cairn_level)st->level;
    if (t->level == CAIRN_PERSISTENT) {
        t->committed_ns = st->committed_ns;
        if (t->committed_ns > t->captured_ns)
            s->advice.flush_ns = (int64_t)(t->committed_ns - t->captured_ns);
    }
}

cairn_err crn_node_pump(cairn_session *s, int64_t timeout_ns, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    size_t len;

    crn_tiers_news(s);
    if (s->sock < 0)
        return gone(s, "its connection was lost", ei);
    if (timeout_ns > 0)
        (void)readable(s, timeout_ns);
    for (;;) {
        struct crn_msg n;

        if (crn_sock_recv(s->sock, s->packet, CRN_PROTO_MAX, &len, NULL, &why) != CAIRN_OK)
            return gone(s, why.msg, ei);
        if (len == 0)
            return CAIRN_OK;
        if (crn_msg_decode(s->packet, len, &n, &why) != CAIRN_OK)
            return gone(s, why.msg, ei);
        if (n.type == CRN_MSG_STATE)
            take_state(s, &n);
        crn_msg_free(&n);
    }
}

cairn_err crn_node_send(cairn_session *s, const struct crn_msg *n, int pass_fd,
                        struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};

    if (s->sock < 0)
        return gone(s, "its connection was lost", ei);
    if (crn_sock_send_msg(s->sock, n, pass_fd, &why) != CAIRN_OK)
        return gone(s, why.msg, ei);
    return CAIRN_OK;
}
