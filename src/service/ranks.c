/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections of the ranks: accept, greet, read, close. If the service has no descriptor left
 * for a rank, it tells the rank so, using the one descriptor that it keeps in reserve. On the loop
 * thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "service/job.h"

#define PAUSE_NS 1000000000LL /* pause of the listener if it can neither accept nor refuse */

void crn_ranks_reserve(struct crn_service *svc)
{
    if (svc->spare_fd < 0)
        svc->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Accepts every waiting rank on the spare descriptor, tells it why it is refused, and closes the
 * connection. Returns 0 if there is no spare descriptor. */
static int turn_away(struct crn_service *svc, const struct crn_errinfo *why)
{
    struct crn_msg no = {.type = CRN_MSG_WELCOME, .welcome.error = *why};
    struct crn_errinfo ei = {0};
    int n = 0;
    int fd;

    if (svc->spare_fd < 0)
        return 0;
    (void)close(svc->spare_fd);
    svc->spare_fd = -1;
    while (crn_sock_accept(svc->listen_fd, &fd, &ei) == CAIRN_OK) {
        if (crn_sock_send_msg(fd, &no, -1, &ei) != CAIRN_OK)
            crn_err_clear(&ei); /* the rank is gone */
        crn_fork_close(fd);
        n++;
    }
    crn_ranks_reserve(svc);
    return n;
}

/* Logs a shortage once, however long it lasts, and avoids a busy loop. */
static void run_short(struct crn_service *svc, struct crn_errinfo *why, int64_t now_ns)
{
    (void)!crn_err_context(why, why->code, "the node service cannot take another rank");
    if (!svc->is_short)
        crn_log(&svc->log, CRN_WARN, "%s; ranks are turned away until that changes", why->msg);
    svc->is_short = 1;
    if (turn_away(svc, why) == 0)
        svc->accept_ns = now_ns + PAUSE_NS;
}

void crn_ranks_accept(struct crn_service *svc, int64_t now_ns)
{
    struct crn_msg welcome = {.type = CRN_MSG_WELCOME,
                              .welcome.address = (uint32_t)svc->comm->rank};
    struct crn_errinfo ei = {0};
    struct crn_client *c;
    int fd;

    if (crn_sock_accept(svc->listen_fd, &fd, &ei) != CAIRN_OK) {
        if (crn_err_is_shortage(ei.code))
            run_short(svc, &ei, now_ns);
        else
            crn_log(&svc->log, CRN_WARN, "a connection was refused, continuing: %s", ei.msg);
        return;
    }
    svc->is_short = 0;
    crn_ranks_reserve(svc);
    c = calloc(1, sizeof(*c));
    if (c == NULL || crn_sock_send_msg(fd, &welcome, -1, &ei) != CAIRN_OK) {
        free(c);
        crn_fork_close(fd);
        return;
    }
    c->fd = fd;
    c->next = svc->clients;
    svc->clients = c;
}

static cairn_err join_job(struct crn_service *svc, struct crn_client *c, const struct crn_hello *h,
                          struct crn_errinfo *ei)
{
    struct crn_job *job = crn_service_job(svc, h->run);
    cairn_err rc;

    if (job == NULL) {
        if (atomic_load(&svc->is_closed))
            return crn_fail(ei, CAIRN_ESERVICE, 0, "the node service is stopping");
        rc = crn_job_open(svc, h, &job, ei);
        if (rc != CAIRN_OK)
            return rc;
        job->next = svc->jobs;
        svc->jobs = job;
    }
    if (job->nlocal != h->nlocal || job->node != h->node || job->clients[h->local] != NULL ||
        crn_node_has_left(job->core, h->local) || !crn_takeover_fits(job, h))
        return crn_fail(ei, CAIRN_EINVAL, 0, "rank %u does not fit its job on this node", h->rank);
    c->job = job;
    c->rank = h->rank;
    c->local = h->local;
    job->clients[h->local] = c;
    job->rank_of[h->local] = h->rank;
    crn_node_joined(job->core, h->local, h->rank);
    return CAIRN_OK;
}

void crn_ranks_ready(struct crn_service *svc, struct crn_client *c, const struct crn_errinfo *error)
{
    struct crn_msg ready = {.type = CRN_MSG_READY, .ready.error = *error};
    struct crn_errinfo ignored = {0};

    if (crn_sock_send_msg(c->fd, &ready, -1, &ignored) != CAIRN_OK)
        crn_log(&svc->log, CRN_DEBUG, "rank %u: %s", c->rank, ignored.msg);
}

static void on_hello(struct crn_service *svc, struct crn_client *c, const void *data, size_t len)
{
    struct crn_errinfo ei = {0};
    struct crn_hello h = {0};
    cairn_err rc;

    rc = crn_hello_decode(data, len, &h, &ei);
    if (rc == CAIRN_OK)
        rc = join_job(svc, c, &h, &ei);
    if (rc != CAIRN_OK)
        crn_log(&svc->log, CRN_WARN, "a rank was refused, continuing: %s", ei.msg);
    if (rc == CAIRN_OK && c->job->taken != NULL)
        crn_takeover_hello(c->job, c, &h);
    else if (rc != CAIRN_OK || !c->job->is_opening)
        crn_ranks_ready(svc, c, &ei);
    crn_hello_free(&h);
}

void crn_ranks_answer(struct crn_job *job, const struct crn_errinfo *error)
{
    uint32_t i;

    job->is_opening = 0;
    job->is_refused = error->code != CAIRN_OK;
    if (job->is_refused)
        crn_log(&job->log, CRN_WARN, "a job was refused, continuing: %s", error->msg);
    for (i = 0; i < job->nlocal; i++) {
        struct crn_client *c = job->clients[i];

        if (c == NULL)
            continue;
        crn_ranks_ready(job->svc, c, error);
        if (job->is_refused)
            c->job = NULL;
    }
}

static void rank_gone(struct crn_client *c, int is_dead)
{
    if (c->is_gone)
        return;
    c->is_gone = 1;
    if (c->job != NULL && !crn_takeover_left(c->job, c))
        crn_job_rank_left(c->job, c, is_dead);
}

static void on_packet(struct crn_service *svc, struct crn_client *c, const void *data, size_t len,
                      int fd)
{
    struct crn_errinfo ei = {0};
    struct crn_msg n;

    if (crn_msg_type(data, len) == CRN_MSG_HELLO && c->job == NULL) {
        on_hello(svc, c, data, len);
    } else if (crn_msg_decode(data, len, &n, &ei) != CAIRN_OK) {
        crn_log(&svc->log, CRN_WARN, "closing a connection: %s", ei.msg);
        rank_gone(c, 1);
    } else if (c->job == NULL && n.type == CRN_MSG_BYE) {
        rank_gone(c, 0); /* its session has failed to open, and says why */
    } else if (c->job == NULL || !crn_msg_is_of_rank(n.type)) {
        crn_log(&svc->log, CRN_WARN, "closing a connection: unexpected %s", crn_msg_name(n.type));
        crn_msg_free(&n);
        rank_gone(c, 1);
    } else if (n.type == CRN_MSG_BYE) {
        if (c->rank == 0)
            c->job->totals.waited_ns = n.bye.waited_ns;
        rank_gone(c, 0);
    } else {
        crn_job_message(c->job, c, &n, fd);
        crn_msg_free(&n);
        return; /* the job owns the descriptor now */
    }
    if (fd >= 0)
        (void)close(fd);
}

void crn_rank_read(struct crn_service *svc, struct crn_client *c)
{
    struct crn_errinfo ei = {0};
    size_t len;
    int fd;

    while (!c->is_gone) {
        if (crn_sock_recv(c->fd, svc->packet, CRN_PROTO_MAX, &len, &fd, &ei) != CAIRN_OK) {
            rank_gone(c, 1);
            return;
        }
        if (len == 0)
            return;
        on_packet(svc, c, svc->packet, len, fd);
    }
}

void crn_ranks_free_gone(struct crn_service *svc)
{
    struct crn_client **link = &svc->clients;

    while (*link != NULL) {
        struct crn_client *c = *link;

        if (!c->is_gone) {
            link = &c->next;
            continue;
        }
        *link = c->next;
        crn_fork_close(c->fd);
        free(c);
    }
}
