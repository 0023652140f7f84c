/* SPDX-License-Identifier: BSD-3-Clause */
/* A probe is one PROBE and one SERVING on a connection of its own, with blocking calls that have
 * time limits. Only this file's callers wait for them: a broker that does not serve yet, and the
 * thread of one that does. */
#include "broker/standby.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/address.h"

#define NS_PER_S 1000000000LL
#define PROBES   4 /* in the time `takeover` */

static int64_t standby_now(void)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock);
}

static int64_t probe_interval(const struct crn_broker_conf *conf)
{
    return (int64_t)conf->takeover_ns / PROBES;
}

/* One probe. ----------------------------------------------------------------------------------- */

/* 0, or -1 at the deadline. */
static int probe_poll(int fd, short events, int64_t deadline_ns)
{
    struct pollfd pfd = {.fd = fd, .events = events};
    int64_t left = deadline_ns - standby_now();

    return left > 0 && poll(&pfd, 1, (int)(left / 1000000) + 1) > 0 ? 0 : -1;
}

/* A connected socket, or -1. */
static int probe_connect(const struct sockaddr *to, socklen_t len, int64_t deadline_ns)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;
    socklen_t size = sizeof(error);

    if (fd < 0)
        return -1;
    if (connect(fd, to, len) != 0 &&
        (errno != EINPROGRESS || probe_poll(fd, POLLOUT, deadline_ns) != 0))
        error = ETIMEDOUT;
    else
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int probe_open(const struct crn_address *address, int64_t deadline_ns)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list, *ai;
    int fd = -1;

    if (address->is_unix)
        return probe_connect((const struct sockaddr *)&address->un, sizeof(address->un),
                             deadline_ns);
    if (getaddrinfo(address->host, address->port, &hints, &list) != 0)
        return -1;
    for (ai = list; fd < 0 && ai != NULL; ai = ai->ai_next)
        fd = probe_connect(ai->ai_addr, ai->ai_addrlen, deadline_ns);
    freeaddrinfo(list);
    return fd;
}

/* Receives one whole frame; 0, or -1. */
static int probe_receive(int fd, int64_t deadline_ns, struct crn_bp_msg *ret)
{
    unsigned char data[CRN_BP_MAX_LOGIN];
    size_t size = 0, have = 0;

    while (size == 0 || have < size) {
        ssize_t n;

        if (probe_poll(fd, POLLIN, deadline_ns) != 0)
            return -1;
        n = recv(fd, data + have, sizeof(data) - have, 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return -1;
        have += (size_t)n;
        if (crn_bp_frame(data, have, sizeof(data), &size, NULL) != CAIRN_OK)
            return -1;
    }
    return crn_bp_decode(data, size, ret, NULL) == CAIRN_OK ? 0 : -1;
}

/* The epoch of the broker that serves at the address; 0: none does. */
static uint64_t probe_one(const char *text, int64_t deadline_ns)
{
    struct crn_bp_msg msg = {.type = CRN_BP_PROBE,
                             .u.probe = {.major = CRN_BP_MAJOR, .minor = CRN_BP_MINOR}};
    struct crn_address address;
    struct crn_buf out = {0};
    uint64_t epoch = 0;
    int fd;

    if (crn_address_parse(text, CRN_BROKER_PORT, &address, NULL) != CAIRN_OK)
        return 0;
    fd = probe_open(&address, deadline_ns);
    if (fd < 0)
        return 0;
    crn_bp_encode(&msg, &out);
    if (!out.failed && send(fd, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len &&
        probe_receive(fd, deadline_ns, &msg) == 0 && msg.type == CRN_BP_SERVING)
        epoch = msg.u.serving.epoch;
    crn_buf_free(&out);
    (void)close(fd);
    return epoch;
}

/* Asks all peers, one after the other. Returns the highest epoch of those that serve, but not of
 * a broker of the epoch own; 0: none answers. Blocks for a while. */
static uint64_t standby_probe(const struct crn_broker_conf *conf, uint64_t own)
{
    const char *at = conf->peers;
    char text[CRN_BROKER_LIST];
    uint64_t best = 0;

    while (crn_address_next(&at, text, sizeof(text))) {
        uint64_t epoch = probe_one(text, standby_now() + probe_interval(conf));

        if (epoch != own && epoch > best)
            best = epoch;
    }
    return best;
}

/* Before it serves. ---------------------------------------------------------------------------- */

/* Sleeps; 1: a signal asks the program to end. */
static int standby_sleep(const sigset_t *ends, int64_t ns)
{
    const struct timespec t = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};

    return sigtimedwait(ends, NULL, &t) > 0;
}

static int wait_for_turn(const struct crn_broker_conf *conf, const struct crn_log *log,
                         const sigset_t *ends, uint64_t *newest)
{
    int64_t heard_ns = standby_now();
    uint64_t told = 0;

    for (;;) {
        uint64_t epoch = standby_probe(conf, 0);

        if (epoch > 0)
            heard_ns = standby_now();
        if (epoch > *newest)
            *newest = epoch;
        if (epoch > 0 && epoch != told)
            crn_log(log, CRN_INFO, "standing by: another broker serves (%s)", conf->peers);
        told = epoch > 0 ? epoch : told;
        if (standby_now() - heard_ns >= (int64_t)conf->takeover_ns)
            return 1;
        if (standby_sleep(ends, probe_interval(conf)))
            return 0;
    }
}

int crn_standby_wait(const struct crn_broker_conf *conf, const struct crn_log *log,
                     uint64_t *newest)
{
    sigset_t ends, before;
    int is_turn;

    if (conf->peers[0] == '\0')
        return 1;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &ends, &before);
    is_turn = wait_for_turn(conf, log, &ends, newest);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_turn)
        crn_log(log, CRN_INFO, "no other broker has answered for %.1f s: serving",
                (double)conf->takeover_ns * 1e-9);
    return is_turn;
}

/* While it serves. ----------------------------------------------------------------------------- */

struct crn_standby_watch {
    const struct crn_broker_conf *conf;
    uint64_t own;
    pthread_t thread;
    struct crn_mutex mu;
    struct crn_cond changed;
    int is_over;   /* mu */
    uint64_t seen; /* mu */
};

static void *watch_run(void *arg)
{
    struct crn_standby_watch *w = arg;

    crn_lock(&w->mu);
    while (!w->is_over && w->seen == 0) {
        int64_t next_ns = standby_now() + probe_interval(w->conf);
        uint64_t epoch;

        crn_unlock(&w->mu);
        epoch = standby_probe(w->conf, w->own);
        crn_lock(&w->mu);
        if (epoch > w->own)
            w->seen = epoch;
        while (!w->is_over && crn_cond_wait_until(&w->changed, &w->mu, next_ns) == 0)
            ;
    }
    crn_unlock(&w->mu);
    return NULL;
}

cairn_err crn_standby_watch_start(const struct crn_broker_conf *conf, uint64_t own,
                                  struct crn_standby_watch **ret, struct crn_errinfo *ei)
{
    struct crn_standby_watch *w = calloc(1, sizeof(*w));
    cairn_err rc;

    if (w == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory to watch the other brokers");
    w->conf = conf;
    w->own = own;
    crn_mutex_init(&w->mu, CRN_RANK_LEAF);
    crn_cond_init(&w->changed);
    rc = crn_thread_start(&w->thread, "peers", watch_run, w, ei);
    if (rc == CAIRN_OK) {
        *ret = w;
        return CAIRN_OK;
    }
    crn_cond_fini(&w->changed);
    crn_mutex_fini(&w->mu);
    free(w);
    return rc;
}

uint64_t crn_standby_watch_seen(struct crn_standby_watch *w)
{
    uint64_t seen;

    crn_lock(&w->mu);
    seen = w->seen;
    crn_unlock(&w->mu);
    return seen;
}

void crn_standby_watch_stop(struct crn_standby_watch *w)
{
    if (w == NULL)
        return;
    crn_lock(&w->mu);
    w->is_over = 1;
    crn_cond_broadcast(&w->changed);
    crn_unlock(&w->mu);
    (void)pthread_join(w->thread, NULL);
    crn_cond_fini(&w->changed);
    crn_mutex_fini(&w->mu);
    free(w);
}
