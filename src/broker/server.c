/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and stops the broker: listeners, timers, signals, in a table of steps that is rolled
 * back in reverse. */
#include "broker/server_priv.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/address.h"
#include "broker/changes.h"
#include "broker/decisions.h"

#define TELL_NS   60000000000LL /* between two warnings of a kind */
#define SPARE_FDS 128           /* in addition to connections: listeners, HTTP, key file, MUNGE */

/* Accepting. ----------------------------------------------------------------------------------- */

/* Resumes after an error of accept. */
void crn_server_admit(struct crn_server *s)
{
    size_t i;

    if (s->is_accepting)
        return;
    for (i = 0; i < s->nlisteners; i++)
        (void)evconnlistener_enable(s->listener[i]);
    s->is_accepting = 1;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
                      int len, void *arg)
{
    (void)listener;
    (void)len;
    crn_peer_accept(arg, fd, from);
}

/* For example out of descriptors: libevent would retry at once, forever. The tick resumes
 * accepting. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    struct crn_server *s = arg;

    crn_log(&s->log, CRN_WARN, "accept: %s; pausing for a moment", strerror(errno));
    (void)evconnlistener_disable(listener);
    s->is_accepting = 0;
}

static cairn_err add_listener(struct crn_server *s, const struct sockaddr *at, socklen_t len,
                              const char *text, struct crn_errinfo *ei)
{
    struct evconnlistener *l;

    if (s->nlisteners == MAX_LISTENERS)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "listen: more than %d addresses", MAX_LISTENERS);
    l = evconnlistener_new_bind(s->base, on_accept, s,
                                LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
                                SOMAXCONN, at, (int)len);
    if (l == NULL)
        return crn_fail_errno(ei, errno, "listen on %s", text);
    evconnlistener_set_error_cb(l, on_accept_error);
    s->listener[s->nlisteners++] = l;
    return CAIRN_OK;
}

/* Removes a stale socket that a killed broker left, but not one that a process listens on. */
static cairn_err listen_unix(struct crn_server *s, const struct crn_address *address,
                             const char *text, struct crn_errinfo *ei)
{
    const struct sockaddr *at = (const struct sockaddr *)&address->un;
    struct stat st;
    mode_t mask;
    cairn_err rc;
    int fd, error;

    if (lstat(address->un.sun_path, &st) == 0 && S_ISSOCK(st.st_mode)) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        error = fd < 0 || connect(fd, at, sizeof(address->un)) == 0 ? 0 : errno;
        if (fd >= 0)
            (void)close(fd);
        if (error == ECONNREFUSED)
            (void)unlink(address->un.sun_path);
    }
    mask = umask(0); /* every local user may connect; the login identifies the user */
    rc = add_listener(s, at, sizeof(address->un), text, ei);
    (void)umask(mask);
    if (rc == CAIRN_OK)
        memcpy(s->unix_path[s->nlisteners - 1], address->un.sun_path, sizeof(address->un.sun_path));
    return rc;
}

static cairn_err listen_tcp(struct crn_server *s, const struct crn_address *address,
                            const char *text, struct crn_errinfo *ei)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list, *ai;
    cairn_err rc = CAIRN_OK;
    int error;

    error =
        getaddrinfo(address->host[0] != '\0' ? address->host : NULL, address->port, &hints, &list);
    if (error != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0, "listen on %s: %s", text, gai_strerror(error));
    for (ai = list; rc == CAIRN_OK && ai != NULL; ai = ai->ai_next)
        rc = add_listener(s, ai->ai_addr, ai->ai_addrlen, text, ei);
    freeaddrinfo(list);
    return rc;
}

static void tell_listener(const struct crn_server *s, size_t i)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (s->unix_path[i][0] != '\0')
        crn_log(&s->log, CRN_INFO, "listening on unix:%s", s->unix_path[i]);
    else if (getsockname(evconnlistener_get_fd(s->listener[i]), (struct sockaddr *)&at, &len) ==
                 0 &&
             getnameinfo((struct sockaddr *)&at, len, host, sizeof(host), port, sizeof(port),
                         NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        crn_log(&s->log, CRN_INFO, "listening on %s port %s", host, port);
}

static cairn_err open_listeners(struct crn_server *s, struct crn_errinfo *ei)
{
    const char *at = s->conf->listen;
    char text[CRN_PATH_MAX];
    struct crn_address address;
    cairn_err rc = CAIRN_OK;
    size_t i;

    while (rc == CAIRN_OK && crn_address_next(&at, text, sizeof(text))) {
        rc = crn_address_parse(text, CRN_BROKER_PORT, &address, ei);
        if (rc == CAIRN_OK)
            rc = address.is_unix ? listen_unix(s, &address, text, ei)
                                 : listen_tcp(s, &address, text, ei);
    }
    s->is_accepting = 1;
    for (i = 0; rc == CAIRN_OK && i < s->nlisteners; i++)
        tell_listener(s, i);
    return rc;
}

static void close_listeners(struct crn_server *s)
{
    size_t i;

    for (i = 0; i < s->nlisteners; i++) {
        evconnlistener_free(s->listener[i]);
        if (s->unix_path[i][0] != '\0')
            (void)unlink(s->unix_path[i]);
    }
    s->nlisteners = 0;
}

/* Time. ---------------------------------------------------------------------------------------- */

static void resume_paused(struct crn_server *s)
{
    uint32_t i, left = s->npaused;

    for (i = 0; left > 0 && i < s->nslots; i++)
        if (s->peer[i].is_paused) {
            left--;
            crn_peer_resume(&s->peer[i]);
        }
}

static void note_history(struct crn_server *s)
{
    struct crn_turns_totals totals;
    size_t i;

    for (i = 0; i < crn_turns_tokens(s->turns); i++) {
        crn_turns_totals(s->turns, server_now(s), i, &totals);
        crn_history_note(s->history, server_now(s), i, &totals.row);
    }
}

/* Says BYE, so that jobs know at once to reconnect, or to proceed on their own. */
static void server_leave(struct crn_server *s, const char *why)
{
    const struct timeval moment = {.tv_usec = 200000};
    uint32_t i;

    for (i = 0; i < s->nslots; i++)
        if (s->peer[i].state == PEER_OPEN)
            crn_peer_bye(&s->peer[i], CAIRN_ESERVICE, why);
    (void)event_base_loopexit(s->base, &moment);
}

static void step_down(struct crn_server *s)
{
    if (s->watch == NULL || s->replaced_by != 0 || s->is_ending)
        return;
    s->replaced_by = crn_standby_watch_seen(s->watch);
    if (s->replaced_by == 0)
        return;
    crn_log(&s->log, CRN_WARN, "another broker has taken over: stepping down");
    server_leave(s, "another broker has taken over");
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct crn_server *s = arg;

    (void)fd;
    (void)what;
    step_down(s);
    crn_turns_tick(s->turns, server_now(s));
    note_history(s);
    crn_peer_expire_logins(s);
    crn_peer_expire_idle(s);
    resume_paused(s);
    crn_server_admit(s);
    crn_peer_pump(s);
}

static cairn_err open_tick(struct crn_server *s, struct crn_errinfo *ei)
{
    const struct crn_broker_conf *c = s->conf;
    uint64_t shortest = c->lease_ns < c->grace_ns ? c->lease_ns : c->grace_ns;
    uint64_t us = shortest / 8000;
    struct timeval every;

    if (c->settle_ns > 0 && c->settle_ns / 8000 < us)
        us = c->settle_ns / 8000;
    us = us < 5000 ? 5000 : us > 500000 ? 500000 : us;
    every.tv_sec = 0;
    every.tv_usec = (suseconds_t)us;
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    if (s->tick == NULL || event_add(s->tick, &every) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a timer");
    return CAIRN_OK;
}

static void close_tick(struct crn_server *s)
{
    if (s->tick != NULL)
        event_free(s->tick);
}

int crn_server_may_tell(struct crn_server *s, enum tell kind)
{
    int64_t now = server_now(s);

    if (s->told_ns[kind] != 0 && now - s->told_ns[kind] < TELL_NS)
        return 0;
    s->told_ns[kind] = now;
    return 1;
}

static void on_decision(void *arg, const struct crn_turns_decision *d)
{
    struct crn_server *s = arg;
    struct crn_errinfo ei = {0};
    int64_t time_ns;

    time_ns = s->clock->wall_ns(s->clock) - (server_now(s) - d->at_ns);
    if (crn_decisions_append(s->conf->decisions, d, time_ns, &ei) != CAIRN_OK &&
        crn_server_may_tell(s, TELL_DECISIONS))
        crn_log(&s->log, CRN_WARN, "decisions are not noted, continuing: %s", ei.msg);
}

/* Steps. --------------------------------------------------------------------------------------- */

/* Each connection needs a descriptor. */
static cairn_err raise_limit(struct crn_server *s, struct crn_errinfo *ei)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)s->conf->max_connections + s->conf->max_logins + SPARE_FDS;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return crn_fail_errno(ei, errno, "getrlimit");
    if (limit.rlim_cur >= want)
        return CAIRN_OK;
    limit.rlim_cur = want;
    if (limit.rlim_max < want)
        limit.rlim_max = want; /* root may raise it; the unit file sets LimitNOFILE for others */
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return crn_fail_errno(ei, errno,
                              "max_connections = %llu needs %llu descriptors; raise the limit "
                              "(LimitNOFILE) or lower max_connections",
                              (unsigned long long)s->conf->max_connections,
                              (unsigned long long)want);
    return CAIRN_OK;
}

static cairn_err open_core(struct crn_server *s, struct crn_errinfo *ei)
{
    struct crn_turns_token token[CRN_BROKER_TOKENS];
    struct crn_turns_config cfg;
    uint32_t i, n = (uint32_t)(s->conf->max_connections + s->conf->max_logins);
    unsigned unknown = 0;
    cairn_err rc;

    s->peer = calloc(n, sizeof(*s->peer));
    if (s->peer == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for %u connections", n);
    s->nslots = n;
    for (i = 0; i < n; i++)
        s->peer[i].next_free = i + 1;
    s->first_login = s->last_login = NO_PEER;
    crn_broker_conf_turns(s->conf, s->epoch, token, &cfg);
    if (s->conf->decisions[0] != '\0') {
        cfg.decided = on_decision;
        cfg.decided_arg = s;
    }
    rc = crn_turns_new(&cfg, server_now(s), &s->turns, ei);
    if (rc == CAIRN_OK)
        rc = crn_history_new(s->conf->ntokens, (int64_t)s->conf->history_ns, server_now(s),
                             &s->history, ei);
    if (rc == CAIRN_OK && s->conf->state[0] != '\0')
        rc = crn_changes_load(s->conf->state, s->turns, &unknown, ei);
    if (unknown > 0)
        crn_log(&s->log, CRN_WARN, "'%s': ignoring %u changes of unknown tokens or policies",
                s->conf->state, unknown);
    return rc;
}

static void close_core(struct crn_server *s)
{
    uint32_t i;

    for (i = 0; s->peer != NULL && i < s->nslots; i++)
        if (s->peer[i].state != PEER_FREE)
            crn_peer_drop(&s->peer[i]);
    crn_turns_free(s->turns);
    crn_history_free(s->history);
    free(s->peer);
    crn_buf_free(&s->scratch);
}

static cairn_err open_base(struct crn_server *s, struct crn_errinfo *ei)
{
    s->base = event_base_new();
    if (s->base == NULL)
        return crn_fail(ei, CAIRN_EIO, 0, "libevent cannot start");
    return CAIRN_OK;
}

static void close_base(struct crn_server *s)
{
    if (s->base != NULL)
        event_base_free(s->base);
}

static void on_results(evutil_socket_t fd, short what, void *arg)
{
    struct crn_server *s = arg;
    struct crn_login login;

    (void)fd;
    (void)what;
    while (crn_worker_result(s->verifier, &login))
        crn_peer_login(s, &login);
    crn_peer_pump(s);
}

static cairn_err open_verifier(struct crn_server *s, struct crn_errinfo *ei)
{
    const struct crn_worker_work work = {.name = "login",
                                         .size = sizeof(struct crn_login),
                                         .max = s->conf->max_logins,
                                         .answer = crn_login_answer,
                                         .arg = &s->conf->login};
    cairn_err rc;

    rc = crn_worker_start(&work, &s->verifier, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->results =
        event_new(s->base, crn_worker_fd(s->verifier), EV_READ | EV_PERSIST, on_results, s);
    if (s->results == NULL || event_add(s->results, NULL) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for an event");
    return CAIRN_OK;
}

static void close_verifier(struct crn_server *s)
{
    if (s->results != NULL)
        event_free(s->results);
    crn_worker_stop(s->verifier);
}

static void on_facts(evutil_socket_t fd, short what, void *arg)
{
    struct crn_server *s = arg;
    struct crn_batch batch;

    (void)fd;
    (void)what;
    while (crn_worker_result(s->batch, &batch))
        crn_peer_batch(s, &batch);
}

static cairn_err open_batch(struct crn_server *s, struct crn_errinfo *ei)
{
    const struct crn_worker_work work = {.name = "slurm",
                                         .size = sizeof(struct crn_batch),
                                         .max = s->conf->max_connections,
                                         .answer = crn_batch_answer};
    cairn_err rc;

    if (!s->conf->slurm)
        return CAIRN_OK;
    rc = crn_worker_start(&work, &s->batch, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->facts = event_new(s->base, crn_worker_fd(s->batch), EV_READ | EV_PERSIST, on_facts, s);
    if (s->facts == NULL || event_add(s->facts, NULL) != 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for an event");
    return CAIRN_OK;
}

static void close_batch(struct crn_server *s)
{
    if (s->facts != NULL)
        event_free(s->facts);
    crn_worker_stop(s->batch);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct crn_server *s = arg;

    (void)what;
    crn_log(&s->log, CRN_INFO, "signal %d: stopping", (int)number);
    s->is_ending = 1;
    server_leave(s, "the broker stops");
}

static cairn_err open_signals(struct crn_server *s, struct crn_errinfo *ei)
{
    static const int number[2] = {SIGTERM, SIGINT};
    size_t i;

    (void)signal(SIGPIPE, SIG_IGN);
    for (i = 0; i < 2; i++) {
        s->signals[i] = evsignal_new(s->base, number[i], on_signal, s);
        if (s->signals[i] == NULL || event_add(s->signals[i], NULL) != 0)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for a signal");
    }
    return CAIRN_OK;
}

static void close_signals(struct crn_server *s)
{
    size_t i;

    for (i = 0; i < 2; i++)
        if (s->signals[i] != NULL)
            event_free(s->signals[i]);
}

static void close_metrics(struct crn_server *s)
{
    if (s->http != NULL)
        evhttp_free(s->http);
}

static cairn_err open_watch(struct crn_server *s, struct crn_errinfo *ei)
{
    return s->conf->peers[0] != '\0' ? crn_standby_watch_start(s->conf, s->epoch, &s->watch, ei)
                                     : CAIRN_OK;
}

static void close_watch(struct crn_server *s)
{
    crn_standby_watch_stop(s->watch);
}

static void server_nothing(struct crn_server *s)
{
    (void)s;
}

/* close is also called for the step that failed. */
static const struct step {
    cairn_err (*open)(struct crn_server *s, struct crn_errinfo *ei);
    void (*close)(struct crn_server *s);
} steps[] = {
    {raise_limit, server_nothing},     {open_base, close_base},
    {open_core, close_core},           {open_verifier, close_verifier},
    {open_batch, close_batch},         {open_signals, close_signals},
    {open_tick, close_tick},           {crn_metrics_open, close_metrics},
    {open_listeners, close_listeners}, {open_watch, close_watch},
};
#define NSTEPS (sizeof(steps) / sizeof(steps[0]))

static void close_steps(struct crn_server *s, size_t n)
{
    while (n > 0)
        steps[--n].close(s);
    free(s);
}

cairn_err crn_server_open(const struct crn_broker_conf *conf, const struct crn_log *log,
                          uint64_t newest, struct crn_server **ret, struct crn_errinfo *ei)
{
    struct crn_server *s = calloc(1, sizeof(*s));
    cairn_err rc;
    size_t i;

    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the broker");
    s->conf = conf;
    s->log = *log;
    s->clock = crn_clock_real();
    s->started_ns = server_now(s);
    s->epoch = (uint64_t)s->clock->wall_ns(s->clock);
    if (s->epoch <= newest)
        s->epoch = newest + 1;
    for (i = 0; i < NSTEPS; i++) {
        rc = steps[i].open(s, ei);
        if (rc != CAIRN_OK) {
            close_steps(s, i + 1);
            return rc;
        }
    }
    *ret = s;
    return CAIRN_OK;
}

cairn_err crn_server_run(struct crn_server *s, struct crn_errinfo *ei)
{
    if (event_base_dispatch(s->base) < 0)
        return crn_fail(ei, CAIRN_EIO, 0, "the event loop failed");
    return CAIRN_OK;
}

uint64_t crn_server_replaced_by(const struct crn_server *s)
{
    return s->replaced_by;
}

void crn_server_close(struct crn_server *s)
{
    if (s != NULL)
        close_steps(s, NSTEPS);
}
