/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of a communicator: its beginning and end, and the thread that pushes. */
#include "comm/ucx_link.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GOODBYE_NS 1000000000LL

/* Pushing. ------------------------------------------------------------------------------------- */

void crn_ucx_lock(struct ucx_link *l)
{
    (void)pthread_mutex_lock(&l->mu);
}

static void *ucx_link_push(void *arg)
{
    struct ucx_link *l = arg;
    struct pollfd pfd = {.fd = l->fd, .events = POLLIN};

    (void)pthread_setname_np(pthread_self(), "cairn-push");
    crn_ucx_lock(l);
    while (!l->is_closing) {
        int is_armed;

        crn_ucx_progress(l);
        if (l->unsent == 0) {
            (void)pthread_cond_wait(&l->push, &l->mu);
            continue;
        }
        is_armed = ucp_worker_arm(l->worker) == UCS_OK;
        (void)pthread_mutex_unlock(&l->mu);
        (void)(is_armed ? poll(&pfd, 1, UCX_WAIT_MS) : sched_yield());
        crn_ucx_lock(l);
    }
    (void)pthread_mutex_unlock(&l->mu);
    return NULL;
}

static void start_pushing(struct ucx_link *l)
{
    sigset_t all, before;

    if (l->has_pusher) {
        (void)pthread_cond_signal(&l->push);
        return;
    }
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    l->has_pusher =
        pthread_create(&l->pusher, NULL, ucx_link_push, l) == 0; /* or the next call retries */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void crn_ucx_unlock(struct ucx_link *l)
{
    if (l->unsent > 0 && !l->is_polled && !l->is_closing)
        start_pushing(l);
    (void)pthread_mutex_unlock(&l->mu);
}

static void stop_pushing(struct ucx_link *l)
{
    crn_ucx_lock(l);
    l->is_closing = 1;
    (void)pthread_cond_signal(&l->push);
    (void)pthread_mutex_unlock(&l->mu);
    if (l->has_pusher)
        (void)pthread_join(l->pusher, NULL);
}

/* Beginning and end. --------------------------------------------------------------------------- */

cairn_err crn_ucx_link_open(struct ucx_net *net, struct ucx_link **ret, struct crn_errinfo *ei)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    struct ucx_link *l = calloc(1, sizeof(*l));
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id = UCX_AM_ID,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = crn_ucx_on_message,
        .arg = l,
    };
    pthread_mutexattr_t attr;
    cairn_err rc;

    if (l == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&l->mu, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    (void)pthread_cond_init(&l->push, NULL);
    atomic_fetch_add(&net->users, 1);
    l->net = net;
    l->posts_end = &l->posts;
    rc = crn_ucx_check(ucp_worker_create(net->context, &params, &l->worker), "a worker of UCX", ei);
    if (rc == CAIRN_OK)
        rc =
            crn_ucx_check(ucp_worker_get_efd(l->worker, &l->fd), "the event descriptor of UCX", ei);
    if (rc == CAIRN_OK)
        rc = crn_ucx_check(ucp_worker_set_am_recv_handler(l->worker, &handler), "messages of UCX",
                           ei);
    if (rc != CAIRN_OK) {
        crn_ucx_link_close(l);
        return rc;
    }
    *ret = l;
    return CAIRN_OK;
}

cairn_err crn_ucx_link_address(struct ucx_link *l, void **ret, size_t *ret_bytes,
                               struct crn_errinfo *ei)
{
    ucp_address_t *address;
    size_t bytes;
    cairn_err rc = crn_ucx_check(ucp_worker_get_address(l->worker, &address, &bytes),
                                 "the address of a worker of UCX", ei);

    if (rc != CAIRN_OK)
        return rc;
    *ret = malloc(bytes);
    if (*ret != NULL)
        memcpy(*ret, address, bytes);
    ucp_worker_release_address(l->worker, address);
    *ret_bytes = bytes;
    return *ret != NULL ? CAIRN_OK : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "an address");
}

cairn_err crn_ucx_link_join(struct ucx_link *l, uint32_t rank, uint32_t size,
                            struct ucx_card *cards, unsigned char *addresses, size_t address_room,
                            struct crn_errinfo *ei)
{
    uint32_t i;

    l->rank = rank;
    l->size = size;
    l->cards = cards;
    l->addresses = addresses;
    l->address_room = address_room;
    l->id = cards[0].id;
    l->peers = calloc(size, sizeof(*l->peers));
    if (l->peers == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u ranks", size);
    for (i = 0; i < size; i++)
        l->peers[i].link = l;
    return CAIRN_OK;
}

static int64_t ucx_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A connection that closes with data under way may lose it, so the peers close together. */
static void say_goodbye(struct ucx_link *l)
{
    int64_t until = ucx_now() + GOODBYE_NS;
    struct crn_errinfo ignored = {0};
    int tries = 0;
    int open = 1;
    uint32_t i;

    for (i = 0; i < l->size; i++)
        if (i != l->rank && (l->peers[i].ep != NULL || l->peers[i].received > 0) &&
            l->peers[i].failed == UCS_OK &&
            crn_ucx_send(l, UCX_BYE, i, 0, NULL, 0, NULL, &ignored) != CAIRN_OK)
            crn_err_clear(&ignored);
    while (open && ucx_now() < until) {
        crn_ucx_progress(l);
        open = l->unsent > 0;
        for (i = 0; i < l->size && !open; i++)
            open = l->peers[i].ep != NULL && !l->peers[i].is_gone && l->peers[i].failed == UCS_OK;
        if (open)
            crn_ucx_sleep(l, &tries);
    }
}

static void free_list(struct ucx_link *l, struct ucx_in *in)
{
    while (in != NULL) {
        struct ucx_in *next = in->next;

        crn_ucx_in_free(l, in);
        in = next;
    }
}

void crn_ucx_link_close(struct ucx_link *l)
{
    uint32_t i;

    stop_pushing(l);
    if (l->peers != NULL) {
        say_goodbye(l);
        for (i = 0; i < l->size; i++) {
            free_list(l, l->peers[i].early);
            l->peers[i].early = NULL;
        }
        free_list(l, l->posts);
        free_list(l, l->others);
        l->others = l->posts = NULL;
        l->posts_end = &l->posts;
        for (i = 0; i < l->size; i++)
            crn_ucx_close_endpoint(&l->peers[i]);
    }
    if (l->worker != NULL)
        ucp_worker_destroy(l->worker);
    while (l->waiting != NULL) {
        struct ucx_transfer *t = l->waiting;

        l->waiting = t->next;
        free(t);
    }
    crn_ucx_net_put(l->net);
    (void)pthread_cond_destroy(&l->push);
    (void)pthread_mutex_destroy(&l->mu);
    free(l->peers);
    free(l->cards);
    free(l->addresses);
    free(l);
}
