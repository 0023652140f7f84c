/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock is taken once per part: a part takes at least a fraction of a millisecond. The thread
 * that submits a job works on it too, so the job finishes even if no helper ever joins. */
#include "base/team.h"

#include <errno.h>
#include <stdlib.h>

/* A job in progress, on the stack of the thread that submitted it. */
struct team_job {
    struct team_job *next; /* lock, as all below except the constant n, part and arg */
    uint64_t n, taken;
    int active;   /* threads working on it */
    int may_join; /* how many more helpers may join */
    cairn_err (*part)(void *arg, uint64_t i, struct crn_errinfo *ei);
    void *arg;
    struct crn_errinfo error; /* first failure */
};

struct crn_team {
    struct crn_team_options opt;
    struct crn_mutex mu;
    struct crn_cond brought; /* a job was submitted, or the team closes */
    struct crn_cond left;    /* the last thread left a job */
    struct team_job *jobs;   /* lock */
    int closing;             /* lock */
    int helpers;             /* number of threads started */
    pthread_t thread[];
};

static int is_over_locked(const struct team_job *j)
{
    return j->taken == j->n || j->error.code != CAIRN_OK;
}

static void work_locked(struct crn_team *t, struct team_job *j, int is_helper) CRN_REQUIRES(t->mu)
{
    int may_stay = 1;

    j->active++;
    while (may_stay && !is_over_locked(j)) {
        uint64_t i = j->taken++;
        struct crn_errinfo ei = {0};
        cairn_err rc;

        crn_unlock(&t->mu);
        rc = j->part(j->arg, i, &ei);
        if (is_helper && t->opt.sharers > 0 && !t->opt.stay)
            may_stay = crn_has_own_core();
        crn_lock(&t->mu);
        ei.code = rc;
        crn_err_keep(&j->error, &ei);
    }
    if (--j->active == 0)
        crn_cond_broadcast(&t->left);
}

static struct team_job *find_locked(const struct crn_team *t) CRN_REQUIRES(t->mu)
{
    struct team_job *j = t->jobs;

    while (j != NULL && (j->may_join == 0 || is_over_locked(j)))
        j = j->next;
    return j;
}

static void *team_help(void *arg)
{
    struct crn_team *t = arg;

    crn_thread_background(t->opt.nice);
    crn_lock(&t->mu);
    while (!t->closing) {
        struct team_job *j = find_locked(t);

        if (j != NULL) {
            j->may_join--;
            work_locked(t, j, 1);
        } else {
            crn_cond_wait(&t->brought, &t->mu);
        }
    }
    crn_unlock(&t->mu);
    return NULL;
}

static int helpers_now(const struct crn_team *t, uint64_t n)
{
    int most = n < (uint64_t)t->helpers ? (int)n : t->helpers;
    int idle = t->opt.sharers > 0 && most > 0 ? crn_idle_cores() : -1;

    return idle >= 0 && idle / t->opt.sharers < most ? idle / t->opt.sharers : most;
}

cairn_err crn_team_run(struct crn_team *t, uint64_t n,
                       cairn_err (*part)(void *arg, uint64_t i, struct crn_errinfo *ei), void *arg,
                       struct crn_errinfo *ei)
{
    struct team_job job = {.n = n, .part = part, .arg = arg};
    struct team_job **link;
    int i;

    job.may_join = n > 1 ? helpers_now(t, n - 1) : 0;
    crn_lock(&t->mu);
    job.next = t->jobs;
    t->jobs = &job;
    for (i = job.may_join; i > 0; i--)
        crn_cond_signal(&t->brought);
    work_locked(t, &job, 0);
    while (job.active > 0)
        crn_cond_wait(&t->left, &t->mu);
    for (link = &t->jobs; *link != &job; link = &(*link)->next)
        ;
    *link = job.next;
    crn_unlock(&t->mu);
    crn_err_keep(ei, &job.error);
    return job.error.code;
}

cairn_err crn_team_open(const struct crn_team_options *options, struct crn_team **ret,
                        struct crn_errinfo *ei)
{
    int most = options->helpers > 0 ? options->helpers : 0;
    struct crn_team *t = calloc(1, sizeof(*t) + (size_t)most * sizeof(t->thread[0]));
    cairn_err rc = CAIRN_OK;

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a team of threads");
    t->opt = *options;
    crn_mutex_init(&t->mu, CRN_RANK_LEAF);
    crn_cond_init(&t->brought);
    crn_cond_init(&t->left);
    while (rc == CAIRN_OK && t->helpers < most) {
        rc = crn_thread_start(&t->thread[t->helpers],
                              options->name != NULL ? options->name : "cairn-help", team_help, t,
                              ei);
        t->helpers += rc == CAIRN_OK;
    }
    if (rc != CAIRN_OK) {
        crn_team_close(t);
        return rc;
    }
    *ret = t;
    return CAIRN_OK;
}

void crn_team_close(struct crn_team *t)
{
    int i;

    if (t == NULL)
        return;
    crn_lock(&t->mu);
    t->closing = 1;
    crn_cond_broadcast(&t->brought);
    crn_unlock(&t->mu);
    for (i = 0; i < t->helpers; i++)
        (void)pthread_join(t->thread[i], NULL);
    crn_cond_fini(&t->left);
    crn_cond_fini(&t->brought);
    crn_mutex_fini(&t->mu);
    free(t);
}
