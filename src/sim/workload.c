/* SPDX-License-Identifier: BSD-3-Clause */
/* First-fit over the classes, starting with the class that is the most jobs short of its share.
 * Smaller jobs fill the gaps, until a class lags its share by a whole job: then free nodes are
 * reserved for it. A plain list needs no reservation, but gives large jobs less than their
 * share: their nodes would go, one by one, to small jobs. */
#include "sim/workload.h"

static void workload_advance(struct crn_workload *w, double now_s)
{
    const struct crn_model *m = w->m;
    size_t i;

    for (i = 0; i < m->nclasses; i++)
        w->behind[i] += (m->cls[i].share * w->busy - w->running[i]) * (now_s - w->now_s);
    w->now_s = now_s;
}

void crn_workload_init(struct crn_workload *w, const struct crn_model *m, uint64_t seed)
{
    size_t i;

    *w = (struct crn_workload){.m = m};
    crn_rng_seed(&w->rng, seed);
    /* Every seed starts with a different deficit, so that classes whose share is not a whole
     * number of jobs have it on average from the start. */
    for (i = 0; i < m->nclasses; i++)
        w->behind[i] = (2 * crn_rng_unit(&w->rng) - 1) * m->cls[i].nodes * m->cls[i].work_s;
}

/* How far a class lags its share, in jobs. */
static double jobs_behind(const struct crn_workload *w, size_t i)
{
    return w->behind[i] / (w->m->cls[i].nodes * w->m->cls[i].work_s);
}

/* The same plus what it now runs below its share, to the nearest whole job. */
static double jobs_short(const struct crn_workload *w, size_t i)
{
    const struct crn_model_class *c = &w->m->cls[i];

    return jobs_behind(w, i) + (c->share * w->m->nodes - w->running[i]) / c->nodes - 0.5;
}

/* Returns nclasses for none. */
static size_t workload_choose(const struct crn_workload *w, double free_nodes)
{
    const struct crn_model *m = w->m;
    size_t best = m->nclasses;
    size_t i;

    for (i = 0; i < m->nclasses; i++)
        if (m->cls[i].nodes <= free_nodes &&
            (best == m->nclasses || jobs_short(w, i) > jobs_short(w, best)))
            best = i;
    for (i = 0; i < m->nclasses && best < m->nclasses; i++)
        if (m->cls[i].nodes > free_nodes && jobs_behind(w, i) > 1 &&
            jobs_short(w, i) > jobs_short(w, best))
            best = m->nclasses;
    return best;
}

int crn_workload_take(struct crn_workload *w, double now_s, double free_nodes,
                      struct crn_workload_job *ret)
{
    const struct crn_model *m = w->m;
    size_t i;

    workload_advance(w, now_s);
    i = workload_choose(w, free_nodes);
    if (i == m->nclasses)
        return 0;
    ret->cls = (uint32_t)i;
    ret->work_s = m->cls[i].work_s * (1 + m->spread * (2 * crn_rng_unit(&w->rng) - 1));
    w->running[i] += m->cls[i].nodes;
    w->busy += m->cls[i].nodes;
    return 1;
}

void crn_workload_end(struct crn_workload *w, double now_s, uint32_t cls)
{
    workload_advance(w, now_s);
    w->running[cls] -= w->m->cls[cls].nodes;
    w->busy -= w->m->cls[cls].nodes;
}
