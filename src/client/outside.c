/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/outside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/slurm.h"
#include "store/halt.h"

#define SECOND       ((int64_t)1000000000)
#define HALT_PERIOD  (2 * SECOND)   /* one open() of two files that usually are not there */
#define SLURM_PERIOD (600 * SECOND) /* the controller serves thousands of jobs */
#define SLURM_RETRY  (120 * SECOND)
#define CLOSE_WAIT   2 /* s */

struct crn_outside {
    struct crn_mutex mu;
    struct crn_cond changed;
    pthread_t thread;
    int is_closing, has_ended; /* guarded by mu; the later of close and the thread frees */
    struct crn_outside_view view;
    int64_t limit_ns; /* Slurm's end of the job, monotonic; 0: none, or wall_limit holds */
    char told[256];   /* the request that was logged last */
    /* Copies: the thread may outlive the session. */
    struct crn_config cfg;
    struct crn_log log;
};

static void outside_free(struct crn_outside *o)
{
    crn_cond_fini(&o->changed);
    crn_mutex_fini(&o->mu);
    free(o);
}

static int64_t outside_mono(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Asks Slurm. Returns when to ask again. */
static int64_t ask_slurm(struct crn_outside *o, const char *job)
{
    struct crn_errinfo ei = {0};
    int64_t left;
    cairn_err rc = crn_slurm_time_left(job, &left, &ei);

    if (rc == CAIRN_OK) {
        if (o->limit_ns == 0)
            crn_log(&o->log, CRN_INFO, "Slurm ends job %s in %lld min", job,
                    (long long)(left / 60));
        o->limit_ns = outside_mono() + left * SECOND;
    } else if (rc == CAIRN_ENOENT) {
        o->limit_ns = 0;
    } else {
        crn_log(&o->log, CRN_DEBUG, "time left is unknown: %s", ei.msg);
        return outside_mono() + SLURM_RETRY;
    }
    return outside_mono() + SLURM_PERIOD;
}

static void outside_tell(struct crn_outside *o, const struct crn_halt *h)
{
    char text[sizeof(o->told)];

    crn_halt_text(h, text, sizeof(text));
    if (h->kind != CRN_HALT_NONE && strcmp(text, o->told) != 0)
        crn_log(&o->log, CRN_WARN, "cairn halt: %s; `cairn halt undo` withdraws it", text);
    else if (h->kind == CRN_HALT_NONE && o->told[0] != '\0')
        crn_log(&o->log, CRN_WARN, "cairn halt: the request was withdrawn");
    (void)snprintf(o->told, sizeof(o->told), "%s", h->kind == CRN_HALT_NONE ? "" : text);
}

/* Not through the session's table of file operations: tests count those of the application. */
static void look_for_halt(struct crn_outside *o, struct crn_outside_view *view)
{
    struct crn_errinfo ei = {0};
    struct crn_halt h;

    if (crn_halt_read(crn_fs_posix(), o->cfg.persistent, o->cfg.job, &h, &ei) != CAIRN_OK) {
        crn_log(&o->log, CRN_DEBUG, "cairn halt: %s", ei.msg);
        return;
    }
    outside_tell(o, &h);
    view->is_now = h.kind == CRN_HALT_NOW;
    view->is_next = h.kind == CRN_HALT_CHECKPOINT;
    if (h.kind == CRN_HALT_AT) {
        int64_t in = (int64_t)h.at_ns - crn_clock_real()->wall_ns(crn_clock_real());
        int64_t at = outside_mono() + in;

        view->end_ns = view->end_ns == 0 || at < view->end_ns ? at : view->end_ns;
        if (view->end_ns <= 0)
            view->end_ns = 1; /* long ago */
    }
}

static void *outside_run(void *arg)
{
    struct crn_outside *o = arg;
    const char *job = o->cfg.wall_limit_ns == 0 ? crn_slurm_job() : NULL;
    int64_t ask_at = 0;
    int is_last;

    crn_lock(&o->mu);
    while (!o->is_closing) {
        struct crn_outside_view view = {0};

        crn_unlock(&o->mu);
        if (job != NULL && outside_mono() >= ask_at)
            ask_at = ask_slurm(o, job);
        view.end_ns = o->limit_ns;
        look_for_halt(o, &view);
        crn_lock(&o->mu);
        o->view = view;
        if (!o->is_closing)
            (void)crn_cond_wait_until(&o->changed, &o->mu, outside_mono() + HALT_PERIOD);
    }
    o->has_ended = 1;
    is_last = o->is_closing == 2;
    crn_unlock(&o->mu);
    if (is_last)
        outside_free(o);
    return NULL;
}

struct crn_outside *crn_outside_open(const cairn_session *s)
{
    struct crn_outside *o = calloc(1, sizeof(*o));
    struct crn_errinfo ei = {0};

    if (o == NULL)
        return NULL;
    crn_mutex_init(&o->mu, CRN_RANK_LEAF);
    crn_cond_init(&o->changed);
    o->cfg = s->cfg;
    o->cfg.overrides = NULL; /* not ours */
    o->cfg.noverrides = 0;
    o->log = s->log;
    o->log.file = o->cfg.log_file;
    if (crn_thread_start(&o->thread, "cairn-outside", outside_run, o, &ei) != CAIRN_OK) {
        crn_log(&s->log, CRN_WARN, "no advice about time limits and `cairn halt`: %s", ei.msg);
        outside_free(o);
        return NULL;
    }
    return o;
}

void crn_outside_close(struct crn_outside *o)
{
    struct timespec until;
    int has_ended;

    if (o == NULL)
        return;
    crn_lock(&o->mu);
    o->is_closing = 1;
    crn_cond_signal(&o->changed);
    crn_unlock(&o->mu);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT;
    if (pthread_timedjoin_np(o->thread, NULL, &until) == 0) {
        outside_free(o);
        return;
    }
    (void)pthread_detach(o->thread);
    crn_lock(&o->mu);
    has_ended = o->has_ended;
    o->is_closing = 2; /* the thread frees */
    crn_unlock(&o->mu);
    if (has_ended)
        outside_free(o);
}

struct crn_outside_view crn_outside_look(struct crn_outside *o)
{
    struct crn_outside_view view;

    crn_lock(&o->mu);
    view = o->view;
    crn_unlock(&o->mu);
    return view;
}
