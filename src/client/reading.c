/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's client on a thread of its own, because the application's thread is busy reading while
 * the token has to be kept alive. The thread owns the client; what is shared is under mu. */
#include "client/reading.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "broker/client.h"

struct crn_reading {
    struct crn_broker *broker; /* the thread's */
    struct crn_turn_ask ask;
    pthread_t thread;
    int end_fd; /* eventfd: the read is done */
    struct crn_mutex mu;
    struct crn_cond changed;
    int is_free; /* mu: the read may begin */
};

static void let_go(struct crn_reading *r)
{
    crn_lock(&r->mu);
    r->is_free = 1;
    crn_cond_broadcast(&r->changed);
    crn_unlock(&r->mu);
}

static void *run(void *arg)
{
    struct crn_reading *r = arg;
    struct pollfd pfd[2] = {{.fd = crn_broker_fd(r->broker), .events = POLLIN},
                            {.fd = r->end_fd, .events = POLLIN}};
    int has_begun = 0;
    uint32_t ticket;

    if (crn_broker_ask(r->broker, &r->ask, &ticket, NULL) != CAIRN_OK) {
        let_go(r);
        return NULL;
    }
    while (pfd[1].revents == 0) {
        if (!has_begun && crn_broker_look(r->broker, ticket).state != CRN_TURN_WAITING) {
            has_begun = 1;
            let_go(r); /* canceled or not: an application that restarts needs its data */
        }
        if (poll(pfd, 2, -1) < 0 && errno != EINTR)
            break;
        crn_broker_tick(r->broker);
    }
    let_go(r);
    crn_broker_return(r->broker, ticket);
    return NULL;
}

static void free_reading(struct crn_reading *r)
{
    crn_broker_close(r->broker);
    if (r->end_fd >= 0)
        (void)close(r->end_fd);
    crn_cond_fini(&r->changed);
    crn_mutex_fini(&r->mu);
    free(r);
}

static cairn_err start(cairn_session *s, uint64_t bytes, struct crn_reading *r,
                       struct crn_errinfo *ei)
{
    struct crn_broker_options opt;
    cairn_err rc;

    r->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->end_fd < 0)
        return crn_fail_errno(ei, errno, "eventfd");
    r->ask = (struct crn_turn_ask){.kind = CRN_IO_RECOVERY, .bytes = bytes, .is_quiet = 1};
    memcpy(r->ask.token, s->cfg.broker_token, sizeof(r->ask.token));
    crn_broker_options_init(&opt, &s->cfg, s->cfg.job, s->nodes, &s->log);
    rc = crn_broker_open(&opt, &r->broker, ei);
    if (rc == CAIRN_OK)
        rc = crn_thread_start(&r->thread, "cairn-turn", run, r, ei);
    return rc;
}

/* The first rank: waits until it is let go. NULL: there is nothing to wait for. */
static struct crn_reading *wait_turn(cairn_session *s, uint64_t bytes)
{
    struct crn_reading *r = calloc(1, sizeof(*r));
    struct crn_errinfo ei = {0};

    if (r == NULL)
        return NULL;
    r->end_fd = -1;
    crn_mutex_init(&r->mu, CRN_RANK_LEAF);
    crn_cond_init(&r->changed);
    if (start(s, bytes, r, &ei) != CAIRN_OK) {
        crn_log(&s->log, CRN_WARN, "reading without a turn, continuing: %s", ei.msg);
        free_reading(r);
        return NULL;
    }
    crn_lock(&r->mu);
    while (!r->is_free)
        crn_cond_wait(&r->changed, &r->mu);
    crn_unlock(&r->mu);
    return r;
}

cairn_err crn_reading_begin(cairn_session *s, uint64_t bytes, struct crn_reading **ret,
                            struct crn_errinfo *ei)
{
    *ret = NULL;
    if (s->cfg.broker[0] == '\0')
        return CAIRN_OK;
    if (s->rank == 0)
        *ret = wait_turn(s, bytes);
    return s->comm->ops->barrier(s->comm, ei);
}

void crn_reading_end(struct crn_reading *r)
{
    uint64_t one = 1;

    if (r == NULL)
        return;
    while (write(r->end_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    (void)pthread_join(r->thread, NULL);
    free_reading(r);
}
