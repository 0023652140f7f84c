/* SPDX-License-Identifier: BSD-3-Clause */
/* Two bounded queues with a thread between them. A login belongs to the loop until it is pushed,
 * then to the thread, then to the loop again; nothing is shared. An eventfd signals results to
 * the loop. */
#include "broker/verifier.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/queue.h"

struct crn_verifier {
    struct crn_auth_config cfg; /* constant */
    struct crn_queue todo, done;
    pthread_t thread;
    int event_fd;
    size_t max;
    size_t under_way; /* owned by the loop */
};

static void *verifier_run(void *arg)
{
    struct crn_verifier *v = arg;
    struct crn_login *login;
    uint64_t one = 1;

    while ((login = crn_queue_pop(&v->todo)) != NULL) {
        const struct crn_auth_ops *ops = crn_auth_by_method(login->talk.hello.method);

        login->rc = ops->verify(&v->cfg, &login->talk, &login->proof, login->user, &login->back,
                                &login->error);
        if (crn_queue_push(&v->done, login) != 0)
            free(login); /* the loop has ended */
        if (write(v->event_fd, &one, sizeof(one)) < 0)
            continue; /* full: the loop has been signaled already */
    }
    return NULL;
}

static cairn_err verifier_init(struct crn_verifier *v, struct crn_errinfo *ei)
{
    cairn_err rc;

    v->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (v->event_fd < 0)
        return crn_fail_errno(ei, errno, "eventfd");
    rc = crn_queue_init(&v->todo, v->max, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_queue_init(&v->done, v->max, ei);
    if (rc == CAIRN_OK) {
        rc = crn_thread_start(&v->thread, "login", verifier_run, v, ei);
        if (rc == CAIRN_OK)
            return CAIRN_OK;
        crn_queue_fini(&v->done);
    }
    crn_queue_fini(&v->todo);
    return rc;
}

cairn_err crn_verifier_start(const struct crn_auth_config *cfg, size_t max,
                             struct crn_verifier **ret, struct crn_errinfo *ei)
{
    struct crn_verifier *v = calloc(1, sizeof(*v));
    cairn_err rc;

    if (v == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for logins");
    v->cfg = *cfg;
    v->max = max;
    rc = verifier_init(v, ei);
    if (rc == CAIRN_OK) {
        *ret = v;
        return CAIRN_OK;
    }
    if (v->event_fd >= 0)
        (void)close(v->event_fd);
    free(v);
    return rc;
}

void crn_verifier_stop(struct crn_verifier *v)
{
    struct crn_login *login;

    if (v == NULL)
        return;
    while ((login = crn_queue_try_pop(&v->todo)) != NULL)
        free(login);
    crn_queue_close(&v->todo);
    (void)pthread_join(v->thread, NULL);
    while ((login = crn_queue_try_pop(&v->done)) != NULL)
        free(login);
    crn_queue_fini(&v->todo);
    crn_queue_fini(&v->done);
    (void)close(v->event_fd);
    free(v);
}

int crn_verifier_fd(const struct crn_verifier *v)
{
    return v->event_fd;
}

int crn_verifier_submit(struct crn_verifier *v, const struct crn_login *login)
{
    struct crn_login *copy;

    if (v->under_way == v->max)
        return -1;
    copy = malloc(sizeof(*copy));
    if (copy == NULL)
        return -1;
    *copy = *login;
    v->under_way++; /* fewer than max are in the queues: push does not block */
    return crn_queue_push(&v->todo, copy);
}

int crn_verifier_result(struct crn_verifier *v, struct crn_login *ret)
{
    struct crn_login *login;
    uint64_t count;

    login = crn_queue_try_pop(&v->done);
    if (login == NULL) {
        if (read(v->event_fd, &count, sizeof(count)) < 0)
            return 0;
        login = crn_queue_try_pop(&v->done); /* a result that came before the read */
    }
    if (login == NULL)
        return 0;
    v->under_way--;
    *ret = *login;
    free(login);
    return 1;
}
