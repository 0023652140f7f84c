/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that return before their memory is read (CAIRN_LAZY, CAIRN_STREAM_ORDERED). The
 * application's thread finds space and writes the descriptor; the thread cairn-capture reads the
 * memory, or waits for the GPU, and hands the image over. It has one capture at a time. While it
 * does, the application's thread touches neither the copier nor the write lanes of the GPUs: every
 * call that might waits first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/session.h"

enum deferred_state { DEFERRED_IDLE, DEFERRED_GIVEN, DEFERRED_ENDED };

struct crn_deferred {
    cairn_session *s;
    struct crn_mutex mu;
    struct crn_cond changed;
    enum deferred_state state; /* lock */
    int is_stopping;           /* lock */
    pthread_t thread;
    /* Owned by the thread while GIVEN, else by the application's thread. */
    struct crn_capture capture;
    uint64_t seq, bytes;
    struct crn_target target;
    struct crn_errinfo error;
};

static cairn_err deferred_read(struct crn_deferred *d, struct crn_errinfo *ei)
{
    cairn_session *s = d->s;
    int64_t start = s->clock->mono_ns(s->clock);
    cairn_err rc = crn_capture_finish(s, &d->capture, ei);

    if (rc == CAIRN_OK)
        rc = crn_capture_hand_over(s, &d->capture, d->bytes, &d->target,
                                   s->clock->mono_ns(s->clock) - start, ei);
    return rc;
}

static void deferred_run(struct crn_deferred *d)
{
    char name[CAIRN_MAX_NAME];
    int64_t version = d->capture.info.version;

    memcpy(name, d->capture.info.name, sizeof(name));
    if (deferred_read(d, &d->error) == CAIRN_OK)
        return;
    crn_capture_drop(d->s, &d->capture);
    crn_checkpoint_tell_failure(d->s, d->seq, name, version, &d->error);
}

static void *deferred_work(void *arg)
{
    struct crn_deferred *d = arg;

    crn_lock(&d->mu);
    for (;;) {
        while (d->state != DEFERRED_GIVEN && !d->is_stopping)
            crn_cond_wait(&d->changed, &d->mu);
        if (d->state != DEFERRED_GIVEN)
            break;
        crn_unlock(&d->mu);
        deferred_run(d);
        crn_lock(&d->mu);
        d->state = DEFERRED_ENDED;
        crn_cond_broadcast(&d->changed);
    }
    crn_unlock(&d->mu);
    return NULL;
}

cairn_err crn_deferred_ready(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_deferred *d;
    cairn_err rc;

    if (s->deferred != NULL)
        return CAIRN_OK;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a capture in the background");
    d->s = s;
    crn_mutex_init(&d->mu, CRN_RANK_SESSION);
    crn_cond_init(&d->changed);
    rc = crn_thread_start(&d->thread, "cairn-capture", deferred_work, d, ei);
    if (rc != CAIRN_OK) {
        crn_cond_fini(&d->changed);
        crn_mutex_fini(&d->mu);
        free(d);
        return rc;
    }
    s->deferred = d;
    return CAIRN_OK;
}

void crn_deferred_give(cairn_session *s, struct crn_capture *c, const struct crn_track *t)
{
    struct crn_deferred *d = s->deferred;

    d->capture = *c;
    d->seq = t->seq;
    d->bytes = t->bytes;
    d->target = t->target;
    crn_err_clear(&d->error);
    memset(c, 0, sizeof(*c));
    crn_lock(&d->mu);
    d->state = DEFERRED_GIVEN;
    crn_cond_broadcast(&d->changed);
    crn_unlock(&d->mu);
}

/* Returns 1 if a capture has ended since the last call. */
static int deferred_await(struct crn_deferred *d)
{
    int has_ended;

    crn_lock(&d->mu);
    while (d->state == DEFERRED_GIVEN)
        crn_cond_wait(&d->changed, &d->mu);
    has_ended = d->state == DEFERRED_ENDED;
    d->state = DEFERRED_IDLE;
    crn_unlock(&d->mu);
    return has_ended;
}

/* Waits for the capture that the thread has, if any, and notes in the track what it cost. Returns why
 * it failed. */
static cairn_err deferred_settle(cairn_session *s, struct crn_errinfo *ei)
{
    struct crn_deferred *d = s->deferred;
    int64_t start;
    struct crn_track *t;

    if (d == NULL)
        return CAIRN_OK;
    start = s->clock->mono_ns(s->clock);
    if (!deferred_await(d))
        return CAIRN_OK;
    if (s->rejoin.seq < d->seq)
        s->rejoin.seq = d->seq;
    t = crn_track_seq(s, d->seq);
    if (t != NULL)
        t->copy_seconds += (double)(s->clock->mono_ns(s->clock) - start) * 1e-9;
    if (t != NULL && d->error.code != CAIRN_OK && t->error.code == CAIRN_OK) {
        t->error = d->error;
        s->may_have_failures = 1;
    }
    crn_err_keep(ei, &d->error);
    return d->error.code;
}

void crn_deferred_wait(cairn_session *s)
{
    struct crn_errinfo noted = {0};

    if (deferred_settle(s, &noted) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", noted.msg);
}

void crn_deferred_close(cairn_session *s)
{
    struct crn_deferred *d = s->deferred;

    if (d == NULL)
        return;
    crn_deferred_wait(s);
    crn_lock(&d->mu);
    d->is_stopping = 1;
    crn_cond_broadcast(&d->changed);
    crn_unlock(&d->mu);
    (void)pthread_join(d->thread, NULL);
    crn_cond_fini(&d->changed);
    crn_mutex_fini(&d->mu);
    free(d);
    s->deferred = NULL;
}

cairn_err cairn_source_free(cairn_session *s)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_session(s, &ei);
    struct crn_track *t;

    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    rc = deferred_settle(s, &ei);
    if (rc == CAIRN_OK)
        return CAIRN_OK;
    t = crn_track_seq(s, s->deferred->seq);
    if (t != NULL)
        t->is_reported = 1;
    return crn_api_end(&ei, rc);
}
