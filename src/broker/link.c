/* SPDX-License-Identifier: BSD-3-Clause */
/* Establishes a connection to the broker: look up the name (in a thread of the C library),
 * connect, send HELLO, answer the challenge, receive WELCOME; then exchange frames. A table of
 * states has the function that advances each. */
#include "broker/link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/rng.h"
#include "broker/address.h"

#define LOOKUP_POLL_NS 20000000LL /* the C library's lookup has no descriptor to poll */
#define MAX_OUT        (64u << 10)
#define NO_PROGRESS    1 /* a state function has nothing more to do now */

enum state { LOOKING_UP, CONNECTING, SAID_HELLO, PROVED, OPEN, STATES };

/* Outlives the link while the C library still uses it. */
struct lookup {
    struct gaicb cb;
    struct addrinfo hints;
    struct crn_address address;
};

struct crn_broker_link {
    struct crn_broker_link_config cfg;
    const struct crn_auth_ops *auth;
    enum state state;
    int fd;
    int is_looking;            /* the C library is using lookup */
    struct lookup *lookup;     /* LOOKING_UP ... */
    struct addrinfo *next;     /* ... CONNECTING: the next address to try */
    int64_t deadline_ns;       /* of the login */
    struct crn_auth_talk talk; /* filled in as the login proceeds */
    struct crn_bp_welcome welcome;
    struct crn_buf in, out;
    size_t in_at, out_at;
};

static cairn_err choose_method(struct crn_broker_link *link, int is_unix, struct crn_errinfo *ei)
{
    const char *name = link->cfg.method;

    if (name[0] == '\0' || strcmp(name, "auto") == 0)
        name = is_unix ? "peer" : link->cfg.auth.key_file[0] != '\0' ? "key" : "munge";
    link->auth = crn_auth_by_name(name);
    if (link->auth == NULL)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "unknown login method '%s'", name);
    return CAIRN_OK;
}

/* Output and input. ---------------------------------------------------------------------------- */

static cairn_err queue_message(struct crn_broker_link *link, const struct crn_bp_msg *msg,
                               struct crn_errinfo *ei)
{
    if (link->out.len - link->out_at > MAX_OUT)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "the broker does not read its input");
    crn_bp_encode(msg, &link->out);
    if (link->out.failed)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a message to the broker");
    return CAIRN_OK;
}

static cairn_err write_some(struct crn_broker_link *link, struct crn_errinfo *ei)
{
    while (link->out_at < link->out.len) {
        ssize_t n = send(link->fd, link->out.data + link->out_at, link->out.len - link->out_at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return CAIRN_OK;
        if (n < 0)
            return crn_fail_errno(ei, errno, "write to the broker");
        link->out_at += (size_t)n;
    }
    link->out.len = link->out_at = 0;
    return CAIRN_OK;
}

static cairn_err read_some(struct crn_broker_link *link, struct crn_errinfo *ei)
{
    unsigned char chunk[4096];
    ssize_t n;

    if (link->in_at > 0) { /* received messages were copied out: free the space */
        memmove(link->in.data, link->in.data + link->in_at, link->in.len - link->in_at);
        link->in.len -= link->in_at;
        link->in_at = 0;
    }
    while (link->in.len < CRN_BP_MAX_FRAME) {
        n = recv(link->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return CAIRN_OK;
        if (n < 0)
            return crn_fail_errno(ei, errno, "read from the broker");
        if (n == 0)
            return crn_fail(ei, CAIRN_EPEER, 0, "the broker closed the connection");
        crn_buf_put(&link->in, chunk, (size_t)n);
        if (link->in.failed)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a message of the broker");
    }
    return CAIRN_OK;
}

/* Size of the complete message in the buffer; 0: none. */
static size_t whole_message(const struct crn_broker_link *link, cairn_err *rc,
                            struct crn_errinfo *ei)
{
    size_t left = link->in.len - link->in_at;
    size_t size = 0;

    *rc = left > 0 ? crn_bp_frame(link->in.data + link->in_at, left, CRN_BP_MAX_FRAME, &size, ei)
                   : CAIRN_OK;
    return *rc == CAIRN_OK && size <= left ? size : 0;
}

static int next_message(struct crn_broker_link *link, struct crn_bp_msg *ret, cairn_err *rc,
                        struct crn_errinfo *ei)
{
    size_t size = whole_message(link, rc, ei);

    if (size == 0)
        return 0;
    *rc = crn_bp_decode(link->in.data + link->in_at, size, ret, ei);
    link->in_at += size;
    if (*rc == CAIRN_OK && ret->type == CRN_BP_BYE)
        *rc = crn_fail(ei, CAIRN_EPEER, 0, "the broker says: %s", ret->u.done.text);
    return *rc == CAIRN_OK;
}

/* States. -------------------------------------------------------------------------------------- */

static void end_lookup(struct crn_broker_link *link)
{
    struct lookup *l = link->lookup;

    link->lookup = NULL;
    link->next = NULL;
    if (l == NULL)
        return;
    if (link->is_looking && gai_error(&l->cb) == EAI_INPROGRESS &&
        gai_cancel(&l->cb) == EAI_NOTCANCELED)
        return; /* a thread of the C library still writes to it: leak it */
    if (l->cb.ar_result != NULL)
        freeaddrinfo(l->cb.ar_result);
    free(l);
}

static cairn_err begin_connect(struct crn_broker_link *link, const struct sockaddr *to,
                               socklen_t len, struct crn_errinfo *ei)
{
    int on = 1;

    if (link->fd >= 0)
        crn_fork_close(link->fd);
    link->fd = crn_fork_socket(to->sa_family, SOCK_STREAM);
    if (link->fd < 0)
        return crn_fail_errno(ei, -link->fd, "socket for the broker");
    if (to->sa_family != AF_UNIX) {
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(link->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
    link->state = CONNECTING;
    if (connect(link->fd, to, len) != 0 && errno != EINPROGRESS)
        return crn_fail_errno(ei, errno, "connect to the broker at %s", link->cfg.address);
    return CAIRN_OK;
}

/* Tries the name's next address; keeps the first error. */
static cairn_err try_next(struct crn_broker_link *link, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_EIO;

    while (link->next != NULL && rc != CAIRN_OK) {
        struct addrinfo *to = link->next;

        link->next = to->ai_next;
        rc = begin_connect(link, to->ai_addr, to->ai_addrlen, ei);
    }
    if (rc == CAIRN_OK && ei != NULL)
        crn_err_clear(ei);
    return rc;
}

/* Numeric addresses need no lookup, and so no thread of the C library. */
static int take_number(struct crn_broker_link *link, struct lookup *l)
{
    l->hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    if (getaddrinfo(l->address.host, l->address.port, &l->hints, &l->cb.ar_result) != 0)
        return 0;
    link->lookup = l;
    link->next = l->cb.ar_result;
    return 1;
}

static cairn_err begin_lookup(struct crn_broker_link *link, const struct crn_address *address,
                              struct crn_errinfo *ei)
{
    struct lookup *l = calloc(1, sizeof(*l));
    struct gaicb *list[1];
    int error;

    if (l == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory to look up '%s'", address->host);
    l->address = *address;
    l->hints.ai_socktype = SOCK_STREAM;
    if (take_number(link, l))
        return try_next(link, ei);
    l->hints.ai_flags = 0;
    l->cb.ar_name = l->address.host;
    l->cb.ar_service = l->address.port;
    l->cb.ar_request = &l->hints;
    list[0] = &l->cb;
    error = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (error != 0) {
        free(l);
        return crn_fail(ei, CAIRN_ENOENT, 0, "look up '%s': %s", address->host,
                        gai_strerror(error));
    }
    link->lookup = l;
    link->is_looking = 1;
    link->state = LOOKING_UP;
    return CAIRN_OK;
}

static int look_up(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei)
{
    int error = gai_error(&link->lookup->cb);

    if (error == EAI_INPROGRESS)
        return NO_PROGRESS;
    if (error != 0) {
        *rc = crn_fail(ei, CAIRN_ENOENT, 0, "look up '%s': %s", link->lookup->address.host,
                       gai_strerror(error));
        return NO_PROGRESS;
    }
    link->next = link->lookup->cb.ar_result;
    *rc = try_next(link, ei);
    return 0;
}

/* Over a Unix socket the kernel says who listens at the other end. */
static void ask_kernel_who(struct crn_broker_link *link)
{
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(at);
    struct ucred cred;
    socklen_t size = sizeof(cred);

    if (getsockname(link->fd, (struct sockaddr *)&at, &len) != 0 || at.ss_family != AF_UNIX ||
        getsockopt(link->fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0)
        return;
    link->talk.is_local = 1;
    link->talk.uid = cred.uid;
}

static cairn_err say_hello(struct crn_broker_link *link, struct crn_errinfo *ei)
{
    struct crn_bp_msg msg = {.type = CRN_BP_HELLO};
    struct crn_bp_hello *hello = &link->talk.hello;
    cairn_err rc;

    end_lookup(link);
    ask_kernel_who(link);
    hello->major = CRN_BP_MAJOR;
    hello->minor = CRN_BP_MINOR;
    hello->method = (uint8_t)link->auth->method;
    crn_random_bytes(hello->nonce, sizeof(hello->nonce));
    rc = link->auth->introduce(&link->cfg.auth, hello->user, ei);
    if (rc != CAIRN_OK)
        return rc;
    msg.u.hello = *hello;
    link->state = SAID_HELLO;
    return queue_message(link, &msg, ei);
}

static int finish_connect(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    int error = 0;
    socklen_t size = sizeof(error);

    if (getpeername(link->fd, (struct sockaddr *)&peer, &len) == 0) {
        *rc = say_hello(link, ei);
        return 0;
    }
    (void)getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0)
        return NO_PROGRESS;
    *rc = crn_fail_errno(ei, error, "connect to the broker at %s", link->cfg.address);
    if (link->next != NULL)
        *rc = try_next(link, ei);
    return 0;
}

static cairn_err link_expect(const struct crn_bp_msg *msg, enum crn_bp_type type,
                             struct crn_errinfo *ei)
{
    if (msg->type == type)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EFORMAT, 0, "the broker sent message %u instead of %u",
                    (unsigned)msg->type, (unsigned)type);
}

static int answer_challenge(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei)
{
    struct crn_bp_msg msg;

    if (!next_message(link, &msg, rc, ei))
        return NO_PROGRESS;
    *rc = link_expect(&msg, CRN_BP_CHALLENGE, ei);
    if (*rc != CAIRN_OK)
        return NO_PROGRESS;
    link->talk.challenge = msg.u.challenge;
    msg.type = CRN_BP_PROOF_MSG;
    *rc = link->auth->prove(&link->cfg.auth, &link->talk, &msg.u.proof, ei);
    if (*rc == CAIRN_OK)
        *rc = queue_message(link, &msg, ei);
    link->state = PROVED;
    return 0;
}

static int be_welcomed(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei)
{
    struct crn_bp_msg msg;

    if (!next_message(link, &msg, rc, ei))
        return NO_PROGRESS;
    *rc = link_expect(&msg, CRN_BP_WELCOME, ei);
    if (*rc == CAIRN_OK)
        *rc = link->auth->confirm(&link->cfg.auth, &link->talk, &msg.u.welcome.proof, ei);
    if (*rc != CAIRN_OK)
        return NO_PROGRESS;
    link->welcome = msg.u.welcome;
    link->state = OPEN;
    return 0;
}

static int stay_open(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei)
{
    (void)link;
    (void)rc;
    (void)ei;
    return NO_PROGRESS;
}

typedef int (*state_fn)(struct crn_broker_link *link, cairn_err *rc, struct crn_errinfo *ei);
static const state_fn move_on[STATES] = {
    [LOOKING_UP] = look_up,
    [CONNECTING] = finish_connect,
    [SAID_HELLO] = answer_challenge,
    [PROVED] = be_welcomed,
    [OPEN] = stay_open,
};

/* The handle. ---------------------------------------------------------------------------------- */

void crn_broker_link_configure(struct crn_broker_link_config *ret, const struct crn_config *cfg)
{
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->address, cfg->broker, sizeof(ret->address));
    memcpy(ret->method, cfg->broker_auth, sizeof(ret->method));
    memcpy(ret->auth.key_file, cfg->broker_key, sizeof(ret->auth.key_file));
    memcpy(ret->auth.broker_users, cfg->broker_user, sizeof(ret->auth.broker_users));
    memcpy(ret->auth.munge_socket, cfg->broker_munge, sizeof(ret->auth.munge_socket));
}

cairn_err crn_broker_link_open(const struct crn_broker_link_config *cfg, int64_t now_ns,
                               struct crn_broker_link **ret, struct crn_errinfo *ei)
{
    struct crn_address address;
    struct crn_broker_link *link;
    cairn_err rc;

    rc = crn_address_parse(cfg->address, CRN_BROKER_PORT, &address, ei);
    if (rc != CAIRN_OK)
        return rc;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a connection to the broker");
    link->cfg = *cfg;
    link->fd = -1;
    link->deadline_ns = now_ns + cfg->timeout_ns;
    rc = choose_method(link, address.is_unix, ei);
    if (rc == CAIRN_OK && address.is_unix)
        rc = begin_connect(link, (struct sockaddr *)&address.un, sizeof(address.un), ei);
    else if (rc == CAIRN_OK)
        rc = begin_lookup(link, &address, ei);
    if (rc == CAIRN_OK)
        *ret = link;
    else
        crn_broker_link_close(link);
    return rc;
}

void crn_broker_link_close(struct crn_broker_link *link)
{
    if (link == NULL)
        return;
    end_lookup(link);
    if (link->fd >= 0)
        crn_fork_close(link->fd);
    crn_buf_free(&link->in);
    crn_buf_free(&link->out);
    free(link);
}

cairn_err crn_broker_link_step(struct crn_broker_link *link, int64_t now_ns, struct crn_errinfo *ei)
{
    struct crn_errinfo end = {0};
    cairn_err end_rc = CAIRN_OK;
    cairn_err rc = CAIRN_OK;
    int done = 0;

    if (link->state > CONNECTING)
        end_rc = read_some(link, &end);
    while (rc == CAIRN_OK && done != NO_PROGRESS)
        done = move_on[link->state](link, &rc, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (end_rc != CAIRN_OK) /* read pending input first: it may say why the connection ended */
        return whole_message(link, &rc, ei) > 0 ? CAIRN_OK : crn_fail(ei, end_rc, 0, "%s", end.msg);
    if (link->state > CONNECTING)
        rc = write_some(link, ei);
    if (rc == CAIRN_OK && link->state != OPEN && now_ns >= link->deadline_ns)
        rc =
            crn_fail(ei, CAIRN_ETIMEDOUT, 0, "the broker at %s does not answer", link->cfg.address);
    return rc;
}

int crn_broker_link_fd(const struct crn_broker_link *link)
{
    return link->state == LOOKING_UP ? -1 : link->fd;
}

int crn_broker_link_wants_write(const struct crn_broker_link *link)
{
    return link->state == CONNECTING || link->out_at < link->out.len;
}

int64_t crn_broker_link_deadline(const struct crn_broker_link *link, int64_t now_ns)
{
    if (link->state == OPEN)
        return INT64_MAX;
    if (link->state == LOOKING_UP && now_ns + LOOKUP_POLL_NS < link->deadline_ns)
        return now_ns + LOOKUP_POLL_NS;
    return link->deadline_ns;
}

const struct crn_bp_welcome *crn_broker_link_welcome(const struct crn_broker_link *link)
{
    return link->state == OPEN ? &link->welcome : NULL;
}

cairn_err crn_broker_link_send(struct crn_broker_link *link, const struct crn_bp_msg *msg,
                               struct crn_errinfo *ei)
{
    return queue_message(link, msg, ei);
}

cairn_err crn_broker_link_receive(struct crn_broker_link *link, struct crn_bp_msg *ret,
                                  int *ret_is_there, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    *ret_is_there = next_message(link, ret, &rc, ei);
    return rc;
}
