/* SPDX-License-Identifier: BSD-3-Clause */
/* Waste of the strategies on Cielo at 80 GB/s, as the paper simulated it, all on the same seeds,
 * and the speed of the simulation on one core. Rounds are interleaved: every strategy takes its
 * part of the seeds in turn, so that a slow period of the machine affects all. The limit is the
 * bound of each strategy's jobs: ratio_to_limit is its progress over the progress that no strategy
 * can exceed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "sim/montecarlo.h"

#define ROUNDS 5

struct method {
    struct crn_strategy strategy;
    double *waste;          /* by seed */
    double seconds[ROUNDS]; /* for one simulation */
    struct crn_stats stats;
    double io_mean;
    double bound; /* of its jobs: no strategy that writes in this mode wastes less */
};

/* In the order of the report. */
static const char *const names[] = {
    "least-waste",      "ordered-nb-daly",   "ordered-nb-fixed", "ordered-daly",
    "ordered-fixed",    "oblivious-daly",    "oblivious-fixed",  "delay-cost",
    "delay-cost-async", "delay-cost-newest",
};
#define NMETHODS (sizeof(names) / sizeof(names[0]))

static int failed(const struct crn_errinfo *ei)
{
    (void)fprintf(stderr, "policies: %s\n", ei->msg);
    return 1;
}

static cairn_err run_round(const struct crn_platform *p, struct method *m, int round, uint64_t runs,
                           struct crn_errinfo *ei)
{
    struct crn_montecarlo mc = {.runs = runs / ROUNDS,
                                .first_seed = 1 + (uint64_t)round * (runs / ROUNDS),
                                .threads = 1,
                                .model = crn_model_defaults};
    struct crn_summary s;
    cairn_err rc = crn_montecarlo(p, &m->strategy, &mc, &s, m->waste + mc.first_seed - 1, ei);

    if (rc != CAIRN_OK)
        return rc;
    m->seconds[round] = s.wall_s / (double)mc.runs;
    m->io_mean += s.waste_io.mean / ROUNDS;
    m->bound += crn_montecarlo_bound(p, &s, &m->strategy, &mc.model) / ROUNDS;
    return CAIRN_OK;
}

static void begin_line(struct crn_json *j, const char *method, uint64_t n)
{
    crn_json_begin(j, stdout);
    crn_json_object(j, NULL);
    crn_json_str(j, "bench", "policies");
    crn_json_str(j, "case", "cielo-paper, 80 GB/s");
    crn_json_str(j, "method", method);
    crn_json_u64(j, "bytes", 0);
    crn_json_u64(j, "n", n);
}

static int report(struct method *m, uint64_t runs)
{
    struct crn_stats time;
    struct crn_json j;

    crn_stats_of(m->waste, runs, &m->stats);
    crn_stats_of(m->seconds, ROUNDS, &time);
    (void)fprintf(stderr, "%-18s %7.4f +- %.4f   quartiles %.3f %.3f %.3f   %6.0f runs/s\n",
                  m->strategy.name, m->stats.mean, m->stats.stderr_mean, m->stats.p25, m->stats.p50,
                  m->stats.p75, 1 / time.p50);
    begin_line(&j, m->strategy.name, runs);
    crn_json_f64(&j, "median_s", time.p50);
    crn_json_f64(&j, "min_s", time.min);
    crn_json_f64(&j, "max_s", time.max);
    crn_json_f64(&j, "ratio_to_limit", (1 - m->stats.mean) / (1 - m->bound));
    crn_json_f64(&j, "bound", m->bound);
    crn_json_f64(&j, "waste_mean", m->stats.mean);
    crn_json_f64(&j, "waste_stderr", m->stats.stderr_mean);
    crn_json_f64(&j, "waste_p10", m->stats.p10);
    crn_json_f64(&j, "waste_p25", m->stats.p25);
    crn_json_f64(&j, "waste_p50", m->stats.p50);
    crn_json_f64(&j, "waste_p75", m->stats.p75);
    crn_json_f64(&j, "waste_p90", m->stats.p90);
    crn_json_f64(&j, "waste_io_mean", m->io_mean);
    crn_json_f64(&j, "simulations_per_s", 1 / time.p50);
    crn_json_end_object(&j);
    return crn_json_finish(&j);
}

static int report_theorem1(double waste)
{
    struct crn_json j;

    (void)fprintf(stderr, "%-18s %7.4f\n", "theorem-1", waste);
    begin_line(&j, "theorem-1", 0);
    crn_json_f64(&j, "waste_mean", waste);
    crn_json_f64(&j, "waste_stderr", 0);
    crn_json_end_object(&j);
    return crn_json_finish(&j);
}

static int run(const struct crn_platform *p, struct method *methods, uint64_t runs)
{
    struct crn_errinfo ei = {0};
    struct crn_job_class storage[CRN_PLATFORM_CLASSES];
    struct crn_steady steady;
    struct crn_bound first;
    size_t i;
    int round;

    for (round = 0; round < ROUNDS; round++)
        for (i = 0; i < NMETHODS; i++)
            if (run_round(p, &methods[i], round, runs, &ei) != CAIRN_OK)
                return failed(&ei);
    crn_model_steady(p, storage, &steady);
    crn_bound_theorem1(&steady, NULL, &first);
    for (i = 0; i < NMETHODS; i++)
        if (report(&methods[i], runs) != 0)
            return 1;
    return report_theorem1(first.waste);
}

int main(int argc, char **argv)
{
    int is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    uint64_t runs = is_quick ? 200 : 1000;
    struct method methods[NMETHODS] = {0};
    struct crn_errinfo ei = {0};
    struct crn_platform p;
    int status = 1;
    size_t i;

    if (argc > 1 && !is_quick) {
        (void)fprintf(stderr, "usage: policies [--quick]\n");
        return 2;
    }
    if (crn_platform_load("cielo-paper", &p, &ei) != CAIRN_OK)
        return failed(&ei);
    p.bandwidth = 80e9;
    for (i = 0; i < NMETHODS; i++) {
        methods[i].waste = calloc(runs, sizeof(*methods[i].waste));
        if (methods[i].waste == NULL ||
            crn_strategy_parse(names[i], &methods[i].strategy, &ei) != CAIRN_OK) {
            status = failed(&ei);
            goto out;
        }
    }
    status = run(&p, methods, runs);
out:
    for (i = 0; i < NMETHODS; i++)
        free(methods[i].waste);
    return status;
}
