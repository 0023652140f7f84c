/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs are cut into blocks of fixed length. A thread takes the next block, sums it up in order
 * and stores the sums in the block's entry. At the end the blocks are added in order, so not
 * even rounding depends on the threads. */
#include "sim/montecarlo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/thread.h"

#define BLOCK       16
#define MAX_THREADS 256

struct montecarlo_block {
    struct crn_sim_result sum;
};

struct montecarlo_work {
    const struct crn_montecarlo *mc;
    struct crn_model model, baseline;
    /* By run; written by the thread that took the block. */
    double *waste, *waste_io, *slowdown, *baseline_work;
    struct montecarlo_block *blocks;
    uint64_t nblocks;
    struct crn_mutex mu;
    uint64_t next;         /* next free block; CRN_GUARDED_BY(mu) */
    struct crn_errinfo ei; /* the first error; CRN_GUARDED_BY(mu) */
};

static void add_class(struct crn_sim_class_result *a, const struct crn_sim_class_result *b)
{
    int u;

    for (u = 0; u < CRN_SIM_USES; u++)
        a->use[u] += b->use[u];
    a->lost += b->lost;
    a->io += b->io;
    a->checkpoints += b->checkpoints;
    a->slowdown += b->slowdown;
    a->waits += b->waits;
    a->wait_s += b->wait_s;
    a->longest_wait_s = fmax(a->longest_wait_s, b->longest_wait_s);
    a->jobs += b->jobs;
    a->failures += b->failures;
}

static void add_result(struct crn_sim_result *a, const struct crn_sim_result *b, size_t nclasses)
{
    size_t i;

    for (i = 0; i < nclasses; i++)
        add_class(&a->cls[i], &b->cls[i]);
    a->idle += b->idle;
    a->device_busy += b->device_busy;
}

/* The sum over the classes of a run. */
static struct crn_sim_class_result montecarlo_total(const struct crn_sim_result *r, size_t nclasses)
{
    struct crn_sim_class_result sum = {0};
    size_t i;

    for (i = 0; i < nclasses; i++)
        add_class(&sum, &r->cls[i]);
    return sum;
}

static cairn_err one_run(struct montecarlo_work *w, uint64_t run, struct crn_sim_result *sum,
                         struct crn_errinfo *ei)
{
    uint64_t seed = w->mc->first_seed + run;
    struct crn_sim_result r;
    struct crn_sim_class_result base, mine;
    cairn_err rc;

    rc = crn_simulate(&w->baseline, seed, &r, ei);
    if (rc != CAIRN_OK)
        return rc;
    base = montecarlo_total(&r, w->baseline.nclasses);
    w->baseline_work[run] = crn_sim_work(&base);
    rc = crn_simulate(&w->model, seed, &r, ei);
    if (rc != CAIRN_OK)
        return rc;
    mine = montecarlo_total(&r, w->model.nclasses);
    w->waste[run] = 1 - crn_sim_work(&mine) / crn_sim_work(&base);
    w->waste_io[run] =
        1 - (crn_sim_work(&mine) + mine.io) /
                (crn_sim_work(&base) + base.use[CRN_USE_INPUT] + base.use[CRN_USE_OUTPUT]);
    w->slowdown[run] = mine.checkpoints > 0 ? mine.slowdown / mine.checkpoints : 1;
    add_result(sum, &r, w->model.nclasses);
    return CAIRN_OK;
}

static void *montecarlo_worker(void *arg)
{
    struct montecarlo_work *w = arg;
    struct crn_errinfo ei = {0};

    for (;;) {
        uint64_t block, run, end;

        crn_lock(&w->mu);
        crn_err_keep(&w->ei, &ei);
        block = w->ei.code == CAIRN_OK ? w->next++ : w->nblocks;
        crn_unlock(&w->mu);
        if (block >= w->nblocks)
            return NULL;
        end = (block + 1) * BLOCK < w->mc->runs ? (block + 1) * BLOCK : w->mc->runs;
        for (run = block * BLOCK; run < end && ei.code == CAIRN_OK; run++)
            if (one_run(w, run, &w->blocks[block].sum, &ei) == CAIRN_OK && w->mc->progress != NULL)
                w->mc->progress(w->mc->progress_arg, 1);
    }
}

/* The calling thread takes part; a thread that cannot be started is skipped. */
static void run_threads(struct montecarlo_work *w)
{
    pthread_t threads[MAX_THREADS];
    int want = w->mc->threads > 0 ? w->mc->threads : crn_cores();
    int n = 0;

    if ((uint64_t)want > w->nblocks)
        want = (int)w->nblocks;
    while (n + 1 < want && n < MAX_THREADS &&
           crn_thread_start(&threads[n], "sim", montecarlo_worker, w, NULL) == CAIRN_OK)
        n++;
    (void)montecarlo_worker(w);
    while (n > 0)
        (void)pthread_join(threads[--n], NULL);
}

static void summarize_class(const struct crn_sim_class_result *c, double occupied, uint64_t runs,
                            struct crn_summary_class *ret)
{
    double own = crn_sim_occupied(c);

    ret->share = own / occupied;
    ret->waste = own > 0 ? 1 - crn_sim_work(c) / own : 0;
    ret->mean_wait_s = c->waits > 0 ? c->wait_s / c->waits : 0;
    ret->longest_wait_s = c->longest_wait_s;
    ret->checkpoints = c->checkpoints / (double)runs;
}

static void montecarlo_summarize(struct montecarlo_work *w, struct crn_summary *ret,
                                 double *ret_waste)
{
    const struct crn_model *m = &w->model;
    uint64_t runs = w->mc->runs;
    struct crn_sim_result sum = {0};
    struct crn_sim_class_result all;
    double seconds = (double)runs * (m->end_s - m->start_s);
    double occupied;
    uint64_t b;
    size_t i;
    int u;

    for (b = 0; b < w->nblocks; b++)
        add_result(&sum, &w->blocks[b].sum, m->nclasses);
    all = montecarlo_total(&sum, m->nclasses);
    occupied = crn_sim_occupied(&all);
    ret->runs = runs;
    ret->nclasses = m->nclasses;
    for (u = 0; u < CRN_SIM_USES; u++)
        ret->use[u] = all.use[u] / occupied;
    ret->lost = all.lost / occupied;
    ret->idle = sum.idle / (sum.idle + occupied);
    ret->device_busy = sum.device_busy / seconds;
    for (b = 0; b < runs; b++)
        ret->baseline += w->baseline_work[b] / seconds;
    for (i = 0; i < m->nclasses; i++) {
        summarize_class(&sum.cls[i], occupied, runs, &ret->cls[i]);
        ret->cls[i].nodes = crn_sim_occupied(&sum.cls[i]) / seconds;
        memcpy(ret->cls[i].name, m->cls[i].name, sizeof(ret->cls[i].name));
    }
    if (ret_waste != NULL)
        memcpy(ret_waste, w->waste, runs * sizeof(*ret_waste));
    crn_stats_of(w->waste, runs, &ret->waste);
    crn_stats_of(w->waste_io, runs, &ret->waste_io);
    crn_stats_of(w->slowdown, runs, &ret->slowdown);
}

static cairn_err run_all(struct montecarlo_work *w, struct crn_summary *ret, double *ret_waste,
                         struct crn_errinfo *ei)
{
    uint64_t runs = w->mc->runs;

    w->nblocks = (runs + BLOCK - 1) / BLOCK;
    w->waste = calloc(runs, sizeof(*w->waste));
    w->waste_io = calloc(runs, sizeof(*w->waste_io));
    w->slowdown = calloc(runs, sizeof(*w->slowdown));
    w->baseline_work = calloc(runs, sizeof(*w->baseline_work));
    w->blocks = calloc(w->nblocks, sizeof(*w->blocks));
    if (w->waste == NULL || w->waste_io == NULL || w->slowdown == NULL ||
        w->baseline_work == NULL || w->blocks == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%llu simulations", (unsigned long long)runs);
    run_threads(w);
    if (w->ei.code != CAIRN_OK) {
        crn_err_keep(ei, &w->ei);
        return w->ei.code;
    }
    montecarlo_summarize(w, ret, ret_waste);
    return CAIRN_OK;
}

cairn_err crn_montecarlo(const struct crn_platform *p, const struct crn_strategy *strategy,
                         const struct crn_montecarlo *mc, struct crn_summary *ret,
                         double *ret_waste, struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t begin_ns = clock->mono_ns(clock);
    const struct crn_strategy none = {.name = "baseline"};
    struct montecarlo_work w = {.mc = mc};
    cairn_err rc;

    if (mc->runs == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "no simulations asked for");
    *ret = (struct crn_summary){0};
    crn_model_init(&w.model, p, strategy, &mc->model);
    crn_model_init(&w.baseline, p, &none, &mc->model);
    crn_mutex_init(&w.mu, CRN_RANK_LEAF);
    rc = run_all(&w, ret, ret_waste, ei);
    crn_mutex_fini(&w.mu);
    free(w.waste);
    free(w.waste_io);
    free(w.slowdown);
    free(w.baseline_work);
    free(w.blocks);
    ret->wall_s = (double)(clock->mono_ns(clock) - begin_ns) * 1e-9;
    return rc;
}

/* The bound. ----------------------------------------------------------------------------------- */

double crn_montecarlo_bound(const struct crn_platform *p, const struct crn_summary *s,
                            const struct crn_strategy *mode, const struct crn_model_options *opt)
{
    struct crn_job_class storage[CRN_PLATFORM_CLASSES];
    struct crn_steady steady;
    struct crn_bound bound;
    double nodes = 0;
    size_t i;

    crn_model_steady(p, storage, &steady);
    for (i = 0; i < p->nclasses; i++) {
        storage[i].jobs = s->cls[i].nodes / p->cls[i].nodes;
        storage[i].work_s = p->cls[i].work_s;
        storage[i].input_s = p->cls[i].input_bytes / p->bandwidth;
        storage[i].own_s = storage[i].input_s + p->cls[i].output_bytes / p->bandwidth;
        if (mode != NULL && mode->is_async)
            storage[i].block_s = fmin(opt->capture_s, storage[i].block_s);
        nodes += s->cls[i].nodes;
    }
    steady.nodes = nodes;
    crn_bound_exact(&steady, NULL, &bound);
    return 1 - nodes * (1 - bound.waste) / s->baseline;
}

/* Least bandwidth. ----------------------------------------------------------------------------- */

/* A search between a bandwidth that is too low and one that is enough. */
struct montecarlo_search {
    double low, high;
    double try_next;
    double first;
};

static struct montecarlo_search search_begin(double first)
{
    return (struct montecarlo_search){
        .low = 0, .high = INFINITY, .try_next = first, .first = first};
}

/* 0 when the search has ended. */
static int search_next(struct montecarlo_search *s, int is_enough)
{
    if (is_enough)
        s->high = s->try_next;
    else
        s->low = s->try_next;
    if (isinf(s->high))
        s->try_next = 4 * s->low;
    else
        s->try_next = s->low > 0 ? sqrt(s->low * s->high) : s->high / 4;
    return s->high / s->low > 1.01 && s->low < 1e6 * s->first && s->high > 1e-6 * s->first;
}

cairn_err crn_montecarlo_least_bandwidth(const struct crn_platform *p,
                                         const struct crn_strategy *strategy, double waste,
                                         const struct crn_montecarlo *mc, double *ret,
                                         struct crn_errinfo *ei)
{
    struct montecarlo_search s = search_begin(p->bandwidth);
    struct crn_platform at = *p;
    struct crn_summary sum;

    do {
        cairn_err rc;

        at.bandwidth = s.try_next;
        rc = crn_montecarlo(&at, strategy, mc, &sum, NULL, ei);
        if (rc != CAIRN_OK)
            return rc;
    } while (search_next(&s, sum.waste.mean <= waste));
    *ret = s.high;
    return CAIRN_OK;
}

double crn_montecarlo_least_bandwidth_theorem1(const struct crn_platform *p, double waste)
{
    struct montecarlo_search s = search_begin(p->bandwidth);
    struct crn_platform at = *p;
    struct crn_job_class storage[CRN_PLATFORM_CLASSES];
    struct crn_steady steady;
    struct crn_bound b;

    do {
        at.bandwidth = s.try_next;
        crn_model_steady(&at, storage, &steady);
        crn_bound_theorem1(&steady, NULL, &b);
    } while (search_next(&s, b.waste <= waste));
    return s.high;
}

double crn_montecarlo_least_bandwidth_bound(const struct crn_platform *p,
                                            const struct crn_summary *s,
                                            const struct crn_strategy *mode, double waste,
                                            const struct crn_model_options *opt)
{
    struct montecarlo_search search = search_begin(p->bandwidth);
    struct crn_platform at = *p;

    do
        at.bandwidth = search.try_next;
    while (search_next(&search, crn_montecarlo_bound(&at, s, mode, opt) <= waste));
    return search.high;
}
