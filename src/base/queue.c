/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

cairn_err crn_queue_init(struct crn_queue *q, size_t cap, struct crn_errinfo *ei)
{
    memset(q, 0, sizeof(*q));
    q->slot = calloc(cap, sizeof(*q->slot));
    if (q->slot == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a queue of %zu items", cap);
    q->cap = cap;
    crn_mutex_init(&q->mu, CRN_RANK_QUEUE);
    crn_cond_init(&q->changed);
    return CAIRN_OK;
}

void crn_queue_fini(struct crn_queue *q)
{
    if (q->slot == NULL)
        return;
    free(q->slot);
    q->slot = NULL;
    crn_cond_fini(&q->changed);
    crn_mutex_fini(&q->mu);
}

int crn_queue_push(struct crn_queue *q, void *item)
{
    int rc = -1;

    crn_lock(&q->mu);
    while (q->len == q->cap && !q->closed)
        crn_cond_wait(&q->changed, &q->mu);
    if (!q->closed) {
        q->slot[(q->head + q->len) % q->cap] = item;
        q->len++;
        crn_cond_broadcast(&q->changed);
        rc = 0;
    }
    crn_unlock(&q->mu);
    return rc;
}

static void *pop_locked(struct crn_queue *q) CRN_REQUIRES(q->mu)
{
    void *item = q->slot[q->head];

    q->head = (q->head + 1) % q->cap;
    q->len--;
    crn_cond_broadcast(&q->changed);
    return item;
}

void *crn_queue_pop(struct crn_queue *q)
{
    void *item = NULL;

    crn_lock(&q->mu);
    while (q->len == 0 && !q->closed)
        crn_cond_wait(&q->changed, &q->mu);
    if (q->len > 0)
        item = pop_locked(q);
    crn_unlock(&q->mu);
    return item;
}

void *crn_queue_try_pop(struct crn_queue *q)
{
    void *item = NULL;

    crn_lock(&q->mu);
    if (q->len > 0)
        item = pop_locked(q);
    crn_unlock(&q->mu);
    return item;
}

void crn_queue_close(struct crn_queue *q)
{
    crn_lock(&q->mu);
    q->closed = 1;
    crn_cond_broadcast(&q->changed);
    crn_unlock(&q->mu);
}
