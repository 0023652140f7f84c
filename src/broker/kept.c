/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread owns the client; mu protects the shared fields. */
#include "broker/kept.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

#define LOOK_NS (100 * 1000000LL) /* interval at which is_over is called */

struct crn_kept_turn {
    struct crn_broker *broker; /* owned by the thread */
    struct crn_turn_ask ask;
    pthread_t thread;
    int end_fd; /* eventfd: the transfer is done */
    struct crn_mutex mu;
    struct crn_cond changed;
    int is_free;     /* mu: the transfer may begin, or */
    int is_canceled; /* mu: it may not */
};

static void let_go(struct crn_kept_turn *t, int is_canceled)
{
    crn_lock(&t->mu);
    t->is_canceled = !t->is_free && is_canceled;
    t->is_free = 1;
    crn_cond_broadcast(&t->changed);
    crn_unlock(&t->mu);
}

static void *kept_run(void *arg)
{
    struct crn_kept_turn *t = arg;
    struct pollfd pfd[2] = {{.fd = crn_broker_fd(t->broker), .events = POLLIN},
                            {.fd = t->end_fd, .events = POLLIN}};
    int has_begun = 0;
    uint32_t ticket;

    if (crn_broker_ask(t->broker, &t->ask, &ticket, NULL) != CAIRN_OK) {
        let_go(t, 0);
        return NULL;
    }
    while (pfd[1].revents == 0) {
        enum crn_turn_state state = crn_broker_look(t->broker, ticket).state;

        if (!has_begun && state != CRN_TURN_WAITING) {
            has_begun = 1;
            let_go(t, state == CRN_TURN_CANCELED);
        }
        if (poll(pfd, 2, -1) < 0 && errno != EINTR)
            break;
        crn_broker_tick(t->broker);
    }
    let_go(t, 0);
    crn_broker_return(t->broker, ticket);
    return NULL;
}

static void free_turn(struct crn_kept_turn *t)
{
    crn_broker_close(t->broker);
    if (t->end_fd >= 0)
        (void)close(t->end_fd);
    crn_cond_fini(&t->changed);
    crn_mutex_fini(&t->mu);
    free(t);
}

static cairn_err kept_start(const struct crn_kept_options *o, struct crn_kept_turn *t,
                            struct crn_errinfo *ei)
{
    struct crn_broker_options opt;
    cairn_err rc;

    t->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->end_fd < 0)
        return crn_fail_errno(ei, errno, "eventfd");
    t->ask = (struct crn_turn_ask){.kind = o->kind, .bytes = o->bytes, .is_quiet = 1};
    crn_broker_token(o->cfg, t->ask.token);
    crn_broker_options_init(&opt, o->cfg, o->job, o->nodes, o->log);
    rc = crn_broker_open(&opt, &t->broker, ei);
    if (rc == CAIRN_OK)
        rc = crn_thread_start(&t->thread, "cairn-turn", kept_run, t, ei);
    return rc;
}

/* Waits for the turn; -1 if the transfer must not begin. */
static int wait_for(struct crn_kept_turn *t, int (*is_over)(void))
{
    const struct crn_clock *clock = crn_clock_real();
    int is_refused = 0;

    crn_lock(&t->mu);
    while (!t->is_free && !is_refused) {
        if (is_over == NULL)
            crn_cond_wait(&t->changed, &t->mu);
        else if (crn_cond_wait_until(&t->changed, &t->mu, clock->mono_ns(clock) + LOOK_NS) != 0)
            is_refused = is_over();
    }
    is_refused = is_refused || t->is_canceled;
    crn_unlock(&t->mu);
    return is_refused ? -1 : 0;
}

cairn_err crn_kept_turn_begin(const struct crn_kept_options *options, struct crn_kept_turn **ret,
                              struct crn_errinfo *ei)
{
    struct crn_kept_turn *t;
    struct crn_errinfo why = {0};

    *ret = NULL;
    if (options->cfg->broker[0] == '\0')
        return CAIRN_OK;
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return CAIRN_OK;
    t->end_fd = -1;
    crn_mutex_init(&t->mu, CRN_RANK_LEAF);
    crn_cond_init(&t->changed);
    if (kept_start(options, t, &why) != CAIRN_OK) {
        crn_log(options->log, CRN_WARN, "continuing without a turn: %s", why.msg);
        free_turn(t);
        return CAIRN_OK;
    }
    if (wait_for(t, options->is_over) != 0) {
        crn_kept_turn_end(t);
        return crn_fail(ei, CAIRN_ECANCELED, 0, "the broker's turn was canceled");
    }
    *ret = t;
    return CAIRN_OK;
}

void crn_kept_turn_end(struct crn_kept_turn *t)
{
    uint64_t one = 1;

    if (t == NULL)
        return;
    while (write(t->end_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    (void)pthread_join(t->thread, NULL);
    free_turn(t);
}
