/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to the broker: login, messages, limits, end. A hostile peer can only hurt
 * itself: frames are capped, messages are rate-limited, unread output ends the connection, and a
 * peer that violates the protocol is dropped without an answer. */
#include "broker/server_priv.h"

#include <event2/buffer.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/rng.h"
#include "broker/changes.h"

#define BYE_S      2   /* to send the BYE */
#define WRITE_S    30  /* without progress for this long: slow */
#define BURST      3.0 /* seconds' worth of messages that may arrive at once */
#define QUERY_COST 5.0
#define MAX_ROWS   10000
#define MAX_USERS  256
#define IDLE_SWEEP 256 /* connections that one tick looks at */

static int is_login(const struct peer *p)
{
    return p->state == PEER_SILENT || p->state == PEER_CHALLENGED || p->state == PEER_VERIFYING;
}

static void list_login(struct peer *p)
{
    struct crn_server *s = p->server;

    p->prev_login = s->last_login;
    p->next_login = NO_PEER;
    if (s->last_login == NO_PEER)
        s->first_login = p->index;
    else
        s->peer[s->last_login].next_login = p->index;
    s->last_login = p->index;
    s->nlogins++;
}

static void unlist_login(struct peer *p)
{
    struct crn_server *s = p->server;

    if (p->prev_login == NO_PEER)
        s->first_login = p->next_login;
    else
        s->peer[p->prev_login].next_login = p->next_login;
    if (p->next_login == NO_PEER)
        s->last_login = p->prev_login;
    else
        s->peer[p->next_login].prev_login = p->prev_login;
    s->nlogins--;
}

static void set_state(struct peer *p, enum peer_state state)
{
    int was_login = is_login(p);

    p->state = state;
    if (was_login && !is_login(p))
        unlist_login(p);
    else if (!was_login && is_login(p))
        list_login(p);
}

void crn_peer_expire_logins(struct crn_server *s)
{
    int64_t limit = server_now(s) - (int64_t)s->conf->login_timeout_ns;

    while (s->first_login != NO_PEER && s->peer[s->first_login].accepted_ns < limit) {
        s->counts.timeouts++;
        crn_peer_drop(&s->peer[s->first_login]);
    }
}

/* The peer is no longer one of the logged-in connections that are counted. */
static void peer_uncount(struct peer *p)
{
    if (p->state == PEER_OPEN && !p->is_admin)
        p->server->nopen--;
}

void crn_peer_expire_idle(struct crn_server *s)
{
    int64_t limit = server_now(s) - (int64_t)s->conf->idle_ns;
    uint32_t i;

    for (i = 0; i < IDLE_SWEEP && i < s->nslots; i++) {
        struct peer *p = &s->peer[s->idle_at];

        s->idle_at = (s->idle_at + 1) % s->nslots;
        if (p->state != PEER_OPEN || p->heard_ns > limit || crn_turns_wants(s->turns, p->index))
            continue;
        s->counts.idle++;
        crn_peer_bye(p, CAIRN_ETIMEDOUT, "idle for too long; log in again when there is news");
    }
}

void crn_peer_drop(struct peer *p)
{
    struct crn_server *s = p->server;
    int was_open = p->state == PEER_OPEN;

    peer_uncount(p);
    s->npaused -= (uint32_t)p->is_paused;
    p->is_paused = 0;
    set_state(p, PEER_FREE);
    bufferevent_free(p->bev); /* closes the socket */
    p->bev = NULL;
    p->next_free = s->free_peer;
    s->free_peer = p->index;
    s->npeers--;
    if (was_open) {
        crn_log(&s->log, CRN_DEBUG, "connection %u of %s ended", p->index, p->user);
        crn_turns_closed(s->turns, server_now(s), p->index);
    }
    crn_server_admit(s);
}

/* Output. -------------------------------------------------------------------------------------- */

/* Sends the scratch buffer. 0, or -1: the peer is gone. */
static int send_scratch(struct peer *p)
{
    struct crn_server *s = p->server;

    if (s->scratch.failed || bufferevent_write(p->bev, s->scratch.data, s->scratch.len) != 0) {
        crn_log(&s->log, CRN_ERROR, "no memory to answer %s; dropping the connection", p->user);
        crn_buf_free(&s->scratch);
        crn_peer_drop(p);
        return -1;
    }
    if (evbuffer_get_length(bufferevent_get_output(p->bev)) > s->conf->backlog_bytes) {
        crn_log(&s->log, CRN_WARN, "%s does not read its answers; dropping the connection",
                p->user);
        s->counts.slow++;
        crn_peer_drop(p);
        return -1;
    }
    return 0;
}

static int send_message(struct peer *p, const struct crn_bp_msg *msg)
{
    p->server->scratch.len = 0;
    crn_bp_encode(msg, &p->server->scratch);
    return send_scratch(p);
}

static void bye_written(struct bufferevent *bev, void *arg)
{
    (void)bev;
    crn_peer_drop(arg);
}

static void on_event(struct bufferevent *bev, short what, void *arg);

/* Sends a last message, and closes the connection. */
static void peer_finish(struct peer *p, const struct crn_bp_msg *msg)
{
    const struct timeval limit = {.tv_sec = BYE_S};

    if (p->state == PEER_OPEN)
        crn_turns_closed(p->server->turns, server_now(p->server), p->index);
    peer_uncount(p);
    set_state(p, PEER_CLOSING);
    crn_server_admit(p->server);
    if (send_message(p, msg) != 0)
        return;
    (void)bufferevent_disable(p->bev, EV_READ);
    bufferevent_setcb(p->bev, NULL, bye_written, on_event, p);
    bufferevent_set_timeouts(p->bev, NULL, &limit);
}

void crn_peer_bye(struct peer *p, cairn_err code, const char *text)
{
    struct crn_bp_msg msg = {.type = CRN_BP_BYE, .u.done = {.code = code}};

    (void)snprintf(msg.u.done.text, sizeof(msg.u.done.text), "%.*s", CRN_BP_TEXT - 1, text);
    peer_finish(p, &msg);
}

void crn_peer_pump(struct crn_server *s)
{
    struct crn_bp_msg msg = {.type = CRN_BP_STATUS};
    uint32_t conn;

    while (crn_turns_next(s->turns, server_now(s), &conn, &msg.u.status))
        if (s->peer[conn].state == PEER_OPEN)
            (void)send_message(&s->peer[conn], &msg);
}

static void on_probe(struct peer *p)
{
    const struct crn_bp_msg msg = {.type = CRN_BP_SERVING, .u.serving.epoch = p->server->epoch};

    peer_finish(p, &msg);
}

/* Login. --------------------------------------------------------------------------------------- */

static void on_hello(struct peer *p, const struct crn_bp_hello *hello)
{
    struct crn_bp_msg msg = {.type = CRN_BP_CHALLENGE};
    const struct crn_auth_ops *ops = crn_auth_by_method(hello->method);
    char text[CRN_BP_TEXT];

    if (hello->major != CRN_BP_MAJOR) {
        (void)snprintf(text, sizeof(text), "this broker speaks version %d of the protocol, not %u",
                       CRN_BP_MAJOR, hello->major);
        crn_peer_bye(p, CAIRN_EFORMAT, text);
        return;
    }
    if (ops == NULL || !crn_broker_list_has(p->server->conf->auth, ops->name)) {
        (void)snprintf(text, sizeof(text), "log in here by: %s", p->server->conf->auth);
        crn_peer_bye(p, CAIRN_EPERM, text);
        return;
    }
    p->talk.hello = *hello;
    p->talk.challenge.major = CRN_BP_MAJOR;
    p->talk.challenge.minor = CRN_BP_MINOR;
    crn_random_bytes(p->talk.challenge.nonce, CRN_BP_NONCE);
    msg.u.challenge = p->talk.challenge;
    set_state(p, PEER_CHALLENGED);
    (void)send_message(p, &msg);
}

static void on_proof(struct peer *p, const struct crn_bp_proof *proof)
{
    struct crn_login login = {.conn = p->index, .serial = p->serial, .talk = p->talk};

    login.proof = *proof;
    set_state(p, PEER_VERIFYING);
    if (crn_worker_submit(p->server->verifier, &login) != 0)
        crn_peer_bye(p, CAIRN_EBUSY, "too many logins at once");
}

/* Is there a connection for this user? The last ones are the administrators', so that a user who
 * takes all others does not lock them out. */
static int has_room(struct peer *p)
{
    struct crn_server *s = p->server;
    uint64_t most = s->conf->max_connections > s->conf->admin_connections
                        ? s->conf->max_connections - s->conf->admin_connections
                        : 1;
    uint32_t mine = crn_turns_user_conns(s->turns, p->user);

    if (p->is_admin)
        return 1;
    if (s->nopen < most && mine < s->conf->max_user_connections)
        return 1;
    s->counts.full++;
    if (s->nopen < most && crn_server_may_tell(s, TELL_USER))
        crn_log(&s->log, CRN_WARN, "%s has %u connections (max_user_connections): no more", p->user,
                mine);
    else if (s->nopen >= most && crn_server_may_tell(s, TELL_FULL))
        crn_log(&s->log, CRN_WARN,
                "%u connections (max_connections): no more, but for "
                "administrators; %s was refused and has %u",
                s->nopen, p->user, mine);
    return 0;
}

static void peer_welcome(struct peer *p, const struct crn_login *login)
{
    struct crn_server *s = p->server;
    const struct timeval limit = {.tv_sec = WRITE_S};
    struct crn_bp_msg msg = {.type = CRN_BP_WELCOME};
    int is_admin = crn_broker_list_has(s->conf->admins, login->user);

    memcpy(p->user, login->user, sizeof(p->user));
    p->is_admin = is_admin;
    if (!has_room(p)) {
        crn_peer_bye(p, CAIRN_ELIMIT, "too many connections");
        return;
    }
    s->nopen += !is_admin;
    p->heard_ns = server_now(s);
    crn_log(&s->log, CRN_DEBUG, "connection %u: %s%s logged in", p->index, p->user,
            is_admin ? " (administrator)" : "");
    crn_turns_opened(s->turns, p->index, p->user, is_admin);
    set_state(p, PEER_OPEN);
    crn_server_admit(s);
    bufferevent_set_timeouts(p->bev, NULL, &limit);
    msg.u.welcome = (struct crn_bp_welcome){.epoch = s->epoch,
                                            .lease_ns = s->conf->lease_ns,
                                            .report_ns = s->conf->lease_ns / 3,
                                            .is_admin = is_admin != 0,
                                            .proof = login->back};
    memcpy(msg.u.welcome.user, p->user, sizeof(p->user));
    (void)send_message(p, &msg);
}

void crn_peer_login(struct crn_server *s, const struct crn_login *login)
{
    struct peer *p = &s->peer[login->conn];

    if (p->state != PEER_VERIFYING || p->serial != login->serial)
        return; /* the peer left before the result */
    if (login->rc == CAIRN_OK) {
        peer_welcome(p, login);
        return;
    }
    s->counts.rejected++;
    crn_log(&s->log, CRN_WARN, "login refused: %s", login->error.msg);
    crn_peer_bye(p, CAIRN_EPERM, "login refused"); /* the log says why, the peer need not know */
}

/* Messages. ------------------------------------------------------------------------------------ */

static void send_done(struct peer *p, cairn_err code, const char *text)
{
    struct crn_bp_msg msg = {.type = CRN_BP_DONE, .u.done = {.code = code}};

    (void)snprintf(msg.u.done.text, sizeof(msg.u.done.text), "%.*s", CRN_BP_TEXT - 1, text);
    (void)send_message(p, &msg);
}

static void put_row(void *arg, const struct crn_bp_msg *row)
{
    crn_bp_encode(row, arg);
}

/* Shares: of all users for administrators, else the user's own. */
static void put_users(struct peer *p)
{
    struct crn_server *s = p->server;
    struct crn_turns_user user[MAX_USERS];
    struct crn_bp_msg row = {.type = CRN_BP_USER_ROW};
    size_t n = crn_turns_users(s->turns, server_now(s), user, MAX_USERS);
    size_t i;

    for (i = 0; i < n; i++) {
        if (!p->is_admin && strcmp(user[i].name, p->user) != 0)
            continue;
        (void)snprintf(row.u.user_row.user, sizeof(row.u.user_row.user), "%s", user[i].name);
        row.u.user_row.jobs = user[i].jobs;
        row.u.user_row.share = (uint32_t)(user[i].share * 1e6 + 0.5);
        row.u.user_row.weight = (uint64_t)(user[i].weight * 1e3 + 0.5);
        crn_bp_encode(&row, &s->scratch);
    }
}

static void on_query(struct peer *p, const struct crn_bp_query *asked)
{
    struct crn_server *s = p->server;
    struct crn_bp_query query = *asked;
    struct crn_bp_msg done = {.type = CRN_BP_DONE};

    if (query.max_requests > MAX_ROWS)
        query.max_requests = MAX_ROWS;
    s->scratch.len = 0;
    (void)crn_turns_query(s->turns, server_now(s), p->index, &query, put_row, &s->scratch);
    if (query.token[0] == '\0' && p->talk.hello.minor >= 2)
        put_users(p);
    crn_bp_encode(&done, &s->scratch);
    (void)send_scratch(p);
}

static void log_control(const struct peer *p, const struct crn_bp_control *c, const char *outcome)
{
    const char *token = c->token[0] != '\0' ? c->token : "all tokens";
    const struct crn_log *log = &p->server->log;

    if (c->op == CRN_BP_OP_CANCEL)
        crn_log(log, CRN_INFO, "%s cancels request %llu: %s", p->user, (unsigned long long)c->id,
                outcome);
    else if (c->op == CRN_BP_OP_POLICY)
        crn_log(log, CRN_INFO, "%s sets the policy of %s to '%s': %s", p->user, token, c->argument,
                outcome);
    else
        crn_log(log, CRN_INFO, "%s %s %s: %s", p->user,
                c->op == CRN_BP_OP_DRAIN ? "drains" : "resumes", token, outcome);
}

static void on_control(struct peer *p, const struct crn_bp_control *control)
{
    struct crn_server *s = p->server;
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_turns_control(s->turns, server_now(s), p->index, control, &ei);

    if (rc == CAIRN_OK && control->op != CRN_BP_OP_CANCEL && s->conf->state[0] != '\0')
        rc = crn_err_context(&ei, crn_changes_save(s->conf->state, s->conf, s->turns, &ei),
                             "it is changed, but not for the next start of the broker");
    log_control(p, control, rc == CAIRN_OK ? "done" : ei.msg);
    send_done(p, rc, ei.msg);
    crn_peer_pump(s);
}

/* What Slurm knows of the job that reports on this connection. */
static void ask_batch(struct peer *p)
{
    struct crn_server *s = p->server;
    struct crn_batch question = {.conn = p->index, .serial = p->serial};

    if (s->batch == NULL || !crn_turns_unconfirmed(s->turns, server_now(s), p->index, question.job))
        return;
    memcpy(question.user, p->user, sizeof(question.user));
    if (crn_worker_submit(s->batch, &question) != 0)
        crn_turns_confirm(s->turns, server_now(s), p->index, NULL); /* full: later */
}

static void on_report(struct peer *p, const struct crn_bp_report *report)
{
    struct crn_server *s = p->server;
    struct crn_errinfo ei = {0};
    int64_t begin = server_now(s);
    double took;
    cairn_err rc;

    rc = crn_turns_report(s->turns, begin, p->index, report, &ei);
    took = (double)(server_now(s) - begin) * 1e-9;
    s->counts.decision_s += took;
    if (took > s->counts.decision_max_s)
        s->counts.decision_max_s = took;
    if (rc != CAIRN_OK)
        crn_peer_bye(p, rc, ei.msg);
    else
        ask_batch(p);
    crn_peer_pump(s);
}

void crn_peer_batch(struct crn_server *s, const struct crn_batch *batch)
{
    const struct peer *p = &s->peer[batch->conn];
    struct crn_turns_fact fact = {.nodes = batch->nodes};
    int is_known = batch->rc == CAIRN_OK || batch->rc == CAIRN_ENOENT;

    if (batch->rc != CAIRN_OK && crn_server_may_tell(s, TELL_BATCH))
        crn_log(&s->log, CRN_WARN, "%s: it counts as one node", batch->error.msg);
    if (p->state != PEER_OPEN || p->serial != batch->serial)
        return; /* the job asks again when it reports on another connection */
    memcpy(fact.account, batch->account, sizeof(fact.account));
    crn_turns_confirm(s->turns, server_now(s), p->index, is_known ? &fact : NULL);
    crn_peer_pump(s);
}

/* 0, or -1 for a protocol violation. The peer may be gone afterwards in either case. */
static int peer_handle(struct peer *p, const struct crn_bp_msg *msg)
{
    p->server->counts.messages++;
    p->heard_ns = server_now(p->server);
    if (p->state == PEER_SILENT && msg->type == CRN_BP_HELLO)
        on_hello(p, &msg->u.hello);
    else if (p->state == PEER_SILENT && msg->type == CRN_BP_PROBE)
        on_probe(p);
    else if (p->state == PEER_CHALLENGED && msg->type == CRN_BP_PROOF_MSG)
        on_proof(p, &msg->u.proof);
    else if (p->state == PEER_OPEN && msg->type == CRN_BP_REPORT)
        on_report(p, &msg->u.report);
    else if (p->state == PEER_OPEN && msg->type == CRN_BP_QUERY)
        on_query(p, &msg->u.query);
    else if (p->state == PEER_OPEN && msg->type == CRN_BP_CONTROL)
        on_control(p, &msg->u.control);
    else
        return -1;
    return 0;
}

/* Charges a message to the peer's credit; 0, or -1: it has to wait. */
static int peer_pay(struct peer *p, double price)
{
    double rate = (double)p->server->conf->messages_per_second;
    int64_t now = server_now(p->server);

    p->credit += (double)(now - p->credit_ns) * 1e-9 * rate;
    p->credit_ns = now;
    if (p->credit > rate * BURST)
        p->credit = rate * BURST;
    if (p->credit < price && p->credit < rate)
        return -1;
    p->credit -= price;
    return 0;
}

static void pause_reading(struct peer *p)
{
    if (p->is_paused)
        return;
    p->is_paused = 1;
    p->server->npaused++;
    (void)bufferevent_disable(p->bev, EV_READ);
}

/* The next complete frame, or NULL. ret_bad: the bytes are not a frame. */
static const unsigned char *next_frame(struct peer *p, struct evbuffer *in, size_t *ret_size,
                                       int *ret_bad)
{
    size_t max = p->state == PEER_OPEN ? CRN_BP_MAX_FRAME : CRN_BP_MAX_LOGIN;
    size_t len = evbuffer_get_length(in);
    unsigned char head[CRN_BP_HEAD];
    ssize_t n = evbuffer_copyout(in, head, sizeof(head));

    *ret_bad = n < 0 || crn_bp_frame(head, (size_t)n, max, ret_size, NULL) != CAIRN_OK;
    if (*ret_bad || *ret_size == 0 || *ret_size > len)
        return NULL;
    return evbuffer_pullup(in, (ssize_t)*ret_size);
}

static void drop_garbage(struct peer *p)
{
    p->server->counts.garbage++;
    crn_log(&p->server->log, CRN_DEBUG, "connection %u violates the protocol; closing it",
            p->index);
    crn_peer_drop(p);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct peer *p = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    uint64_t serial = p->serial;

    while (p->state != PEER_FREE && p->serial == serial && p->state != PEER_CLOSING) {
        const unsigned char *frame;
        struct crn_bp_msg msg;
        size_t size = 0;
        int is_bad;

        frame = next_frame(p, in, &size, &is_bad);
        if (is_bad) {
            drop_garbage(p);
            return;
        }
        if (frame == NULL)
            return;
        if (peer_pay(p, frame[4] == CRN_BP_QUERY ? QUERY_COST : 1) != 0) {
            pause_reading(p);
            return;
        }
        if (crn_bp_decode(frame, size, &msg, NULL) != CAIRN_OK) {
            drop_garbage(p);
            return;
        }
        (void)evbuffer_drain(in, size);
        if (peer_handle(p, &msg) != 0) {
            drop_garbage(p);
            return;
        }
    }
}

void crn_peer_resume(struct peer *p)
{
    if (peer_pay(p, 0) != 0 || p->credit < 1)
        return;
    p->is_paused = 0;
    p->server->npaused--;
    (void)bufferevent_enable(p->bev, EV_READ);
    on_read(p->bev, p); /* pending input raises no event */
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct peer *p = arg;

    struct crn_server *s = p->server;

    (void)bev;
    if ((what & BEV_EVENT_TIMEOUT) != 0 && p->state == PEER_OPEN)
        s->counts.slow++;
    crn_peer_drop(p);
    crn_peer_pump(s);
}

/* Beginning. ----------------------------------------------------------------------------------- */

static void address_of(const struct sockaddr *from, struct in6_addr *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (from->sa_family == AF_INET6) {
        *ret = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    } else if (from->sa_family == AF_INET) {
        ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
        memcpy(&ret->s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    }
}

static int is_same_address(const struct peer *p, const struct in6_addr *address)
{
    return memcmp(&p->address, address, sizeof(*address)) == 0;
}

static uint64_t logins_from(const struct crn_server *s, const struct in6_addr *address)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = s->first_login; i != NO_PEER; i = s->peer[i].next_login)
        n += (uint64_t)is_same_address(&s->peer[i], address);
    return n;
}

/* A login of this address that has not sent its proof, chosen at random: a flood of connections
 * that say nothing replaces itself, and a login that takes milliseconds nearly always survives. */
static struct peer *silent_login(struct crn_server *s, const struct in6_addr *address)
{
    struct peer *found = NULL;
    uint64_t n = 0;
    uint32_t i;

    for (i = s->first_login; i != NO_PEER; i = s->peer[i].next_login) {
        struct peer *p = &s->peer[i];

        if (p->state != PEER_VERIFYING && is_same_address(p, address) &&
            crn_random_u64() % ++n == 0)
            found = p;
    }
    return found;
}

/* The address with most logins that have not sent their proof. */
static const struct in6_addr *busiest_address(const struct crn_server *s)
{
    const struct in6_addr *found = NULL;
    uint64_t most = 0;
    uint32_t i;

    for (i = s->first_login; i != NO_PEER; i = s->peer[i].next_login) {
        uint64_t n = s->peer[i].state != PEER_VERIFYING ? logins_from(s, &s->peer[i].address) : 0;

        if (n > most) {
            most = n;
            found = &s->peer[i].address;
        }
    }
    return found;
}

/* Makes room for a login from this address; 0: there is none. */
static int make_room(struct crn_server *s, const struct in6_addr *address)
{
    const struct in6_addr *from = NULL;
    struct peer *victim;

    if (logins_from(s, address) >= s->conf->max_address_logins)
        from = address;
    else if (s->nlogins >= s->conf->max_logins || s->npeers >= s->nslots)
        from = busiest_address(s);
    else
        return 1;
    victim = from != NULL ? silent_login(s, from) : NULL;
    if (crn_server_may_tell(s, TELL_LOGINS))
        crn_log(&s->log, CRN_WARN,
                "%u logins in progress (max_logins, max_address_logins): new "
                "ones replace old ones",
                s->nlogins);
    if (victim == NULL)
        return 0;
    s->counts.evicted++;
    crn_peer_drop(victim);
    return 1;
}

static void ask_kernel(struct peer *p, evutil_socket_t fd, const struct sockaddr *from)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    int on = 1;

    if (from->sa_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0) {
        p->talk.is_local = 1;
        p->talk.uid = cred.uid;
    }
}

static struct peer *new_peer(struct crn_server *s, evutil_socket_t fd)
{
    struct peer *p = &s->peer[s->free_peer];
    uint32_t next = p->next_free;
    struct bufferevent *bev;

    bev = bufferevent_socket_new(s->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (bev == NULL)
        return NULL;
    *p = (struct peer){.server = s, .index = s->free_peer, .bev = bev};
    p->serial = s->next_serial++;
    p->credit = (double)s->conf->messages_per_second;
    p->credit_ns = p->accepted_ns = server_now(s);
    s->free_peer = next;
    s->npeers++;
    set_state(p, PEER_SILENT);
    return p;
}

void crn_peer_accept(struct crn_server *s, evutil_socket_t fd, const struct sockaddr *from)
{
    struct in6_addr address;
    struct peer *p;

    s->counts.accepted++;
    address_of(from, &address);
    if (!make_room(s, &address) || (p = new_peer(s, fd)) == NULL) {
        s->counts.refused++;
        (void)evutil_closesocket(fd);
        return;
    }
    p->address = address;
    ask_kernel(p, fd, from);
    bufferevent_setwatermark(p->bev, EV_READ, 0, CRN_BP_MAX_FRAME);
    bufferevent_setcb(p->bev, on_read, NULL, on_event, p);
    (void)bufferevent_enable(p->bev, EV_READ | EV_WRITE);
    crn_server_admit(s);
}
