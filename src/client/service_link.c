/* SPDX-License-Identifier: BSD-3-Clause */
/* The dialogue of a rank with its node service: handshake, arena, state changes. No call waits for
 * the service longer than service_timeout, or than its own deadline. If the service dies, only the
 * calls that need it fail. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/session.h"

#define RETRY_NS 10000000LL /* between attempts to send the arena to a full socket */

static int64_t now_ns(const cairn_session *s)
{
    return s->clock->mono_ns(s->clock);
}

/* The time ns from now; INT64_MAX (never) if that overflows. */
static int64_t service_link_after(const cairn_session *s, uint64_t ns)
{
    int64_t now = now_ns(s);

    return ns > (uint64_t)(INT64_MAX - now) ? INT64_MAX : now + (int64_t)ns;
}

/* Handshake. ----------------------------------------------------------------------------------- */

/* Waits for one message of this type and returns the error that it carries. */
static cairn_err service_link_expect(cairn_session *s, int fd, enum crn_msg_type type,
                                     int64_t until, struct crn_msg *ret, struct crn_errinfo *ei)
{
    const struct crn_errinfo *refusal;
    size_t len = 0;
    cairn_err rc;

    while (len == 0) {
        int64_t left = until - now_ns(s);
        struct timespec ts = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (left <= 0)
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                            "the node service does not answer within service_timeout; is cairnd "
                            "stopped or hanging?");
        if (ppoll(&p, 1, &ts, NULL) <= 0)
            continue;
        rc = crn_sock_recv(fd, s->packet, CRN_PROTO_MAX, &len, NULL, ei);
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

#define CAIRND_STARTS_NS INT64_C(10000000000) /* a cairnd that was started with the job, at most */

/* A cairnd may be starting beside the job: its socket is not there, or a dead one's is. */
static cairn_err service_link_connect(cairn_session *s, const char *path, int *ret_fd,
                                      struct crn_errinfo *ei)
{
    static const struct timespec pause = {.tv_nsec = 50000000};
    int64_t until = service_link_after(s, s->cfg.service_timeout_ns);
    int64_t patience = service_link_after(s, (uint64_t)CAIRND_STARTS_NS);
    cairn_err rc = crn_sock_connect(path, ret_fd, ei);

    until = patience < until ? patience : until;
    while (rc == CAIRN_ESERVICE && s->cfg.service == CRN_SERVICE_DAEMON && now_ns(s) < until) {
        (void)nanosleep(&pause, NULL);
        crn_err_clear(ei);
        rc = crn_sock_connect(path, ret_fd, ei);
    }
    return rc;
}

cairn_err crn_service_link_open(cairn_session *s, const char *socket_path, uint32_t *ret_address,
                                struct crn_errinfo *ei)
{
    struct crn_msg welcome = {0};
    cairn_err rc;
    int fd = -1;

    s->packet = malloc(CRN_PROTO_MAX);
    if (s->packet == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the connection to the node service");
    rc = service_link_connect(s, socket_path, &fd, ei);
    if (rc == CAIRN_ESERVICE && s->cfg.service == CRN_SERVICE_DAEMON)
        return crn_err_context(ei, rc,
                               "is cairnd running on this node? Start one per node (mpirun cairnd) "
                               "or set service=embedded");
    if (rc != CAIRN_OK)
        return rc;
    crn_link_connected(&s->link, fd);
    rc = service_link_expect(s, fd, CRN_MSG_WELCOME,
                             service_link_after(s, s->cfg.service_timeout_ns), &welcome, ei);
    if (rc == CAIRN_OK)
        *ret_address = welcome.welcome.address;
    return rc;
}

cairn_err crn_service_link_say_hello(cairn_session *s, int fd, int is_rejoin,
                                     struct crn_errinfo *ei)
{
    struct crn_hello h = {.rank = s->rank,
                          .ranks = s->ranks,
                          .node = s->node,
                          .nodes = s->nodes,
                          .local = s->local,
                          .nlocal = s->nlocal,
                          .is_rejoin = (uint32_t)is_rejoin,
                          .seq = s->rejoin.seq,
                          .peers = s->rejoin.peers};
    struct crn_buf buf = {0};
    size_t len = 0;
    cairn_err rc;
    FILE *f;

    memcpy(h.run, s->run, 16);
    h.nmembers = s->nmembers;
    memcpy(h.member, s->member, sizeof(h.member));
    f = open_memstream(&h.config, &len);
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    (void)crn_config_dump(&s->cfg, f);
    if (fclose(f) != 0) {
        free(h.config);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    }
    rc = crn_hello_encode(&h, &buf, ei);
    free(h.config);
    if (rc == CAIRN_OK)
        rc = crn_sock_send(fd, buf.data, buf.len, -1, ei);
    crn_buf_free(&buf);
    return rc;
}

cairn_err crn_service_link_hello(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_msg ready;
    cairn_err rc;

    rc = crn_service_link_say_hello(s, s->link.fd, 0, ei);
    if (rc == CAIRN_OK)
        rc = service_link_expect(s, s->link.fd, CRN_MSG_READY,
                                 service_link_after(s, s->cfg.service_timeout_ns), &ready, ei);
    return rc;
}

/* The arena. ----------------------------------------------------------------------------------- */

/* A full or broken socket is not an error here: the caller tries again, or waits for a service. */
static void send_arena(cairn_session *s)
{
    struct crn_msg note = {.type = CRN_MSG_ARENA};
    struct crn_errinfo why = {0};

    if (crn_sock_send_msg(s->link.fd, &note, crn_arena_fd(s->arena), &why) == CAIRN_OK)
        s->arena_share = CRN_SHARE_ASKED;
    else if (why.sys_errno != EAGAIN)
        crn_link_lose(&s->link);
}

cairn_err crn_service_link_share_arena(cairn_session *s, struct crn_errinfo *ei)
{
    int64_t until = service_link_after(s, s->cfg.service_timeout_ns);
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK &&
           (s->arena_share == CRN_SHARE_NONE || s->arena_share == CRN_SHARE_ASKED)) {
        int64_t left = until - now_ns(s);
        int is_asked;

        if (s->arena_share == CRN_SHARE_NONE && !crn_link_is_lost(&s->link))
            send_arena(s);
        is_asked = s->arena_share == CRN_SHARE_ASKED;
        if (left <= 0)
            break;
        rc = crn_service_link_pump(s, is_asked || left < RETRY_NS ? left : RETRY_NS, ei);
    }
    if (rc != CAIRN_OK || s->arena_share == CRN_SHARE_DONE)
        return rc;
    if (s->arena_share == CRN_SHARE_REFUSED) {
        s->arena_share = CRN_SHARE_NONE;
        *ei = s->arena_error;
        return crn_err_context(ei, ei->code, "the node service cannot map the arena of rank %u",
                               s->rank);
    }
    return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                    "the node service has not mapped the arena of rank %u within service_timeout; "
                    "is cairnd stopped or hanging?",
                    s->rank);
}

/* Messages. ------------------------------------------------------------------------------------ */

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
    t->levels |= st->levels;
    if (crn_level_has(t->levels, CAIRN_PERSISTENT)) {
        t->committed_ns = st->committed_ns;
        if (t->committed_ns > t->captured_ns)
            s->advice.flush_ns = (int64_t)(t->committed_ns - t->captured_ns);
    }
}

static void take_note(cairn_session *s, const struct crn_msg *n)
{
    if (n->type == CRN_MSG_STATE) {
        take_state(s, n);
    } else if (n->type == CRN_MSG_TURN) {
        crn_wish_heard(s, n);
    } else if (n->type == CRN_MSG_CLAIMED) {
        crn_claim_heard(s, n);
    } else if (n->type == CRN_MSG_READY && s->arena_share == CRN_SHARE_ASKED) {
        s->arena_share = n->ready.error.code == CAIRN_OK ? CRN_SHARE_DONE : CRN_SHARE_REFUSED;
        s->arena_error = n->ready.error;
    }
}

/* Reads until nothing is left. A dead service may have left messages in the socket, after an error
 * that says only that it did not read all of ours. */
static cairn_err take_notes(cairn_session *s, struct crn_errinfo *why)
{
    int was_reset = 0;
    struct crn_msg n;
    size_t len = 0;
    cairn_err rc;

    for (;;) {
        rc = crn_sock_recv(s->link.fd, s->packet, CRN_PROTO_MAX, &len, NULL, why);
        if (rc != CAIRN_OK && why->sys_errno == ECONNRESET && !was_reset) {
            was_reset = 1;
            crn_err_clear(why);
            continue;
        }
        if (rc != CAIRN_OK || len == 0)
            return rc;
        rc = crn_msg_decode(s->packet, len, &n, why);
        if (rc != CAIRN_OK)
            return rc;
        take_note(s, &n);
        crn_msg_free(&n);
    }
}

cairn_err crn_service_link_pump(cairn_session *s, int64_t timeout_ns, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};

    crn_tiers_news(s);
    if (s->link.fd < 0)
        return crn_fail(ei, CAIRN_ESERVICE, 0, "there is no connection to the node service");
    if (s->rejoin.lost_ns == 0) {
        crn_link_push(&s->link);
        if (timeout_ns > 0 && !crn_link_is_lost(&s->link)) {
            crn_link_wait(&s->link, timeout_ns);
            crn_link_push(&s->link);
        }
        if (take_notes(s, &why) == CAIRN_OK && !crn_link_is_lost(&s->link))
            return CAIRN_OK;
        if (why.code == CAIRN_OK)
            (void)!crn_fail(&why, CAIRN_ESERVICE, 0, "its connection was lost");
        crn_rejoin_begin(s, &why);
    }
    return crn_rejoin(s, timeout_ns, ei);
}

void crn_service_link_listen(cairn_session *s)
{
    struct crn_errinfo ignored = {0};

    if (crn_service_link_pump(s, 0, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg);
}

cairn_err crn_service_link_send(cairn_session *s, const struct crn_msg *n, struct crn_errinfo *ei)
{
    return crn_link_post(&s->link, n, ei);
}
