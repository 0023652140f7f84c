/* SPDX-License-Identifier: BSD-3-Clause */
/* The outbox keeps the order of messages: no message overtakes one that waits. */
#include "client/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"

struct crn_posted {
    struct crn_posted *next;
    size_t len;
    unsigned char data[];
};

void crn_link_init(struct crn_link *l)
{
    memset(l, 0, sizeof(*l));
    crn_mutex_init(&l->mu, CRN_RANK_LEAF);
    l->fd = -1;
    l->out_end = &l->out;
}

void crn_link_close(struct crn_link *l)
{
    crn_lock(&l->mu);
    if (l->fd >= 0)
        crn_fork_close(l->fd);
    l->fd = -1;
    crn_unlock(&l->mu);
}

static void free_posted(struct crn_posted *p)
{
    while (p != NULL) {
        struct crn_posted *next = p->next;

        free(p);
        p = next;
    }
}

void crn_link_fini(struct crn_link *l)
{
    crn_link_close(l);
    free_posted(l->out);
    crn_mutex_fini(&l->mu);
}

/* 1: sent. 0: not now. Marks a broken connection as lost. */
static int try_send_locked(struct crn_link *l, const void *data, size_t len) CRN_REQUIRES(l->mu)
{
    struct crn_errinfo why = {0};

    if (l->is_lost || l->fd < 0)
        return 0;
    if (crn_sock_send(l->fd, data, len, -1, &why) == CAIRN_OK)
        return 1;
    l->is_lost = why.sys_errno != EAGAIN && why.sys_errno != EWOULDBLOCK;
    return 0;
}

static void push_locked(struct crn_link *l) CRN_REQUIRES(l->mu)
{
    while (l->out != NULL && try_send_locked(l, l->out->data, l->out->len)) {
        struct crn_posted *p = l->out;

        l->out = p->next;
        if (l->out == NULL)
            l->out_end = &l->out;
        l->nout--;
        free(p);
    }
}

static cairn_err make_posted(const struct crn_buf *message, struct crn_posted **ret,
                             struct crn_errinfo *ei)
{
    struct crn_posted *p = malloc(sizeof(*p) + message->len);

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message to the node service");
    p->next = NULL;
    p->len = message->len;
    memcpy(p->data, message->data, message->len);
    *ret = p;
    return CAIRN_OK;
}

static cairn_err keep_locked(struct crn_link *l, const struct crn_buf *message,
                             struct crn_errinfo *ei) CRN_REQUIRES(l->mu)
{
    struct crn_posted *p;
    cairn_err rc;

    if (l->nout >= CRN_LINK_OUTBOX)
        return crn_fail(ei, CAIRN_ETIMEDOUT, 0,
                        "the node service has not read the last %u messages; is cairnd stopped, or "
                        "gone?",
                        l->nout);
    rc = make_posted(message, &p, ei);
    if (rc != CAIRN_OK)
        return rc;
    *l->out_end = p;
    l->out_end = &p->next;
    l->nout++;
    return CAIRN_OK;
}

cairn_err crn_link_post(struct crn_link *l, const struct crn_msg *n, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;

    rc = crn_msg_encode(n, &buf, ei);
    if (rc == CAIRN_OK) {
        crn_lock(&l->mu);
        push_locked(l);
        if (l->out != NULL || !try_send_locked(l, buf.data, buf.len))
            rc = keep_locked(l, &buf, ei);
        crn_unlock(&l->mu);
    }
    crn_buf_free(&buf);
    return rc;
}

void crn_link_push(struct crn_link *l)
{
    crn_lock(&l->mu);
    push_locked(l);
    crn_unlock(&l->mu);
}

static void connected_locked(struct crn_link *l, int fd) CRN_REQUIRES(l->mu)
{
    if (l->fd < 0) {
        l->fd = fd;
    } else if (dup3(fd, l->fd, O_CLOEXEC) >=
               0) { /* pollers of the old number now poll the new socket */
        crn_fork_close(fd);
    } else {
        crn_fork_close(l->fd);
        l->fd = fd;
    }
    l->is_lost = 0;
    push_locked(l);
}

void crn_link_connected(struct crn_link *l, int fd)
{
    crn_lock(&l->mu);
    connected_locked(l, fd);
    crn_unlock(&l->mu);
}

cairn_err crn_link_resume(struct crn_link *l, int fd, const struct crn_msg *first, size_t n,
                          struct crn_errinfo *ei)
{
    struct crn_posted *chain = NULL;
    struct crn_posted **end = &chain;
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        struct crn_buf buf = {0};

        rc = crn_msg_encode(&first[i], &buf, ei);
        if (rc == CAIRN_OK)
            rc = make_posted(&buf, end, ei);
        if (rc == CAIRN_OK)
            end = &(*end)->next;
        crn_buf_free(&buf);
    }
    if (rc != CAIRN_OK) {
        free_posted(chain);
        return rc;
    }
    crn_lock(&l->mu);
    if (chain != NULL) {
        *end = l->out;
        if (l->out == NULL)
            l->out_end = end;
        l->out = chain;
        l->nout += (uint32_t)n;
    }
    connected_locked(l, fd);
    crn_unlock(&l->mu);
    return CAIRN_OK;
}

void crn_link_lose(struct crn_link *l)
{
    crn_lock(&l->mu);
    l->is_lost = 1;
    crn_unlock(&l->mu);
}

int crn_link_is_lost(struct crn_link *l)
{
    int is_lost;

    crn_lock(&l->mu);
    is_lost = l->is_lost;
    crn_unlock(&l->mu);
    return is_lost;
}

int crn_link_is_full(struct crn_link *l)
{
    int is_full;

    crn_lock(&l->mu);
    is_full = l->nout >= CRN_LINK_OUTBOX;
    crn_unlock(&l->mu);
    return is_full;
}

void crn_link_wait(struct crn_link *l, int64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    struct pollfd p = {.fd = l->fd, .events = POLLIN};

    crn_lock(&l->mu);
    if (l->out != NULL && !l->is_lost)
        p.events |= POLLOUT;
    crn_unlock(&l->mu);
    (void)ppoll(&p, 1, &ts, NULL);
}
