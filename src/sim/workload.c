/* SPDX-License-Identifier: BSD-3-Clause */
/* First-fit over the classes, the one that is most jobs short of its share first. Smaller jobs fill the
 * gaps, until a class has had a whole job less than its share: then free nodes are kept for it. A
 * plain list would do without that, but give large jobs less than their share: their nodes would go,
 * one by one, to small ones. */
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
    /* Every seed begins elsewhere, so that classes whose share is no whole number of jobs have it on
     * average from the start. */
    for (i = 0; i < m->nclasses; i++)
        w->behind[i] = (2 * crn_rng_unit(&w->rng) - 1) * m->cls[i].nodes * m->cls[i].work_s;
}

/* In jobs: what it has had less than its share. */
static double jobs_behind(const struct crn_workload *w, size_t i)
{
    return w->behind[i] / (w->m->cls[i].nodes * w->m->cls[i].work_s);
}

/* In jobs: that, and what it now runs less than its share, to the nearest whole job. */
static double jobs_short(const struct crn_workload *w, size_t i)
{
    const struct crn_model_class *c = &w->m->cls[i];

    return jobs_behind(w, i) + (c->share * w->m->nodes - w->running[i]) / c->nodes - 0.5;
}

/* nclasses: none. */
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
