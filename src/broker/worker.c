/* SPDX-License-Identifier: BSD-3-Clause */
/* Two bounded queues with a thread between them. An item belongs to the loop until it is pushed,
 * then to the thread, then to the loop again; nothing is shared. An eventfd signals answers to
 * the loop. */
#include "broker/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/queue.h"

struct crn_worker {
    struct crn_worker_work work; /* constant */
    struct crn_queue todo, done;
    pthread_t thread;
    int event_fd;
    size_t under_way; /* owned by the loop */
};

static void *worker_run(void *arg)
{
    struct crn_worker *w = arg;
    uint64_t one = 1;
    void *item;

    while ((item = crn_queue_pop(&w->todo)) != NULL) {
        w->work.answer(w->work.arg, item);
        if (crn_queue_push(&w->done, item) != 0)
            free(item); /* the loop has ended */
        if (write(w->event_fd, &one, sizeof(one)) < 0)
            continue; /* full: the loop has been signaled already */
    }
    return NULL;
}

static cairn_err worker_init(struct crn_worker *w, struct crn_errinfo *ei)
{
    cairn_err rc;

    w->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->event_fd < 0)
        return crn_fail_errno(ei, errno, "eventfd");
    rc = crn_queue_init(&w->todo, w->work.max, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_queue_init(&w->done, w->work.max, ei);
    if (rc == CAIRN_OK) {
        rc = crn_thread_start(&w->thread, w->work.name, worker_run, w, ei);
        if (rc == CAIRN_OK)
            return CAIRN_OK;
        crn_queue_fini(&w->done);
    }
    crn_queue_fini(&w->todo);
    return rc;
}

cairn_err crn_worker_start(const struct crn_worker_work *work, struct crn_worker **ret,
                           struct crn_errinfo *ei)
{
    struct crn_worker *w = calloc(1, sizeof(*w));
    cairn_err rc;

    if (w == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the thread '%s'", work->name);
    w->work = *work;
    rc = worker_init(w, ei);
    if (rc == CAIRN_OK) {
        *ret = w;
        return CAIRN_OK;
    }
    if (w->event_fd >= 0)
        (void)close(w->event_fd);
    free(w);
    return rc;
}

void crn_worker_stop(struct crn_worker *w)
{
    void *item;

    if (w == NULL)
        return;
    while ((item = crn_queue_try_pop(&w->todo)) != NULL)
        free(item);
    crn_queue_close(&w->todo);
    (void)pthread_join(w->thread, NULL);
    while ((item = crn_queue_try_pop(&w->done)) != NULL)
        free(item);
    crn_queue_fini(&w->todo);
    crn_queue_fini(&w->done);
    (void)close(w->event_fd);
    free(w);
}

int crn_worker_fd(const struct crn_worker *w)
{
    return w->event_fd;
}

int crn_worker_submit(struct crn_worker *w, const void *item)
{
    void *copy;

    if (w->under_way == w->work.max)
        return -1;
    copy = malloc(w->work.size);
    if (copy == NULL)
        return -1;
    memcpy(copy, item, w->work.size);
    w->under_way++; /* fewer than max are in the queues: push does not block */
    return crn_queue_push(&w->todo, copy);
}

int crn_worker_result(struct crn_worker *w, void *ret)
{
    uint64_t count;
    void *item;

    item = crn_queue_try_pop(&w->done);
    if (item == NULL) {
        if (read(w->event_fd, &count, sizeof(count)) < 0)
            return 0;
        item = crn_queue_try_pop(&w->done); /* an answer that came before the read */
    }
    if (item == NULL)
        return 0;
    w->under_way--;
    memcpy(ret, item, w->work.size);
    free(item);
    return 1;
}
