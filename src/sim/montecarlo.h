/* SPDX-License-Identifier: BSD-3-Clause */
/* Many simulations of one strategy on one platform, on all cores. The result depends only on the
 * seeds, not on the number of threads. */
#ifndef CRN_MONTECARLO_H
#define CRN_MONTECARLO_H

#include "sim/simulate.h"
#include "sim/stats.h"

struct crn_montecarlo {
    uint64_t runs; /* seeds first_seed, first_seed + 1, ...: the same for every strategy */
    uint64_t first_seed;
    int threads; /* 0: all cores */
    struct crn_model_options model;
    /* Called by any thread with the number of runs that ended since the last call; may be NULL. */
    void (*progress)(void *arg, uint64_t runs);
    void *progress_arg;
};

struct crn_summary_class {
    char name[32];
    double share;          /* of the node-time that jobs received */
    double nodes;          /* busy with it, on average */
    double waste;          /* 1 - work / node-time of the class */
    double mean_wait_s;    /* from request to service */
    double longest_wait_s; /* in any run */
    double checkpoints;    /* of the class in one run */
};

struct crn_summary {
    uint64_t runs;
    struct crn_stats waste;    /* 1 - work / work of the baseline: progress alone */
    struct crn_stats waste_io; /* 1 - (work + I/O) / (work + I/O of the baseline) */
    struct crn_stats slowdown; /* of checkpoints: time from request to commit, divided by C */
    double use[CRN_SIM_USES];  /* shares of the node-time that jobs received */
    double lost;               /* of it: computed and undone */
    double idle;               /* share of all node-time */
    double device_busy;        /* share of time */
    double baseline;           /* node-seconds of work that the baseline does in a second */
    struct crn_summary_class cls[CRN_PLATFORM_CLASSES];
    size_t nclasses;
    double wall_s;
};

/* ret_waste: one value per run, in order of the seeds; may be NULL. */
CAIRN_CHECKED cairn_err crn_montecarlo(const struct crn_platform *p,
                                       const struct crn_strategy *strategy,
                                       const struct crn_montecarlo *mc, struct crn_summary *ret,
                                       double *ret_waste, struct crn_errinfo *ei);

/* A lower bound on the expected waste of any schedule of the jobs that ran in these simulations,
 * each of which lasts as long as is typical for its class: crn_bound_exact for their mix, relative
 * to the same baseline. With mode NULL or in the foreground jobs stop for the whole write; else
 * for the capture. p may have another bandwidth than was simulated. */
double crn_montecarlo_bound(const struct crn_platform *p, const struct crn_summary *s,
                            const struct crn_strategy *mode, const struct crn_model_options *opt);

/* The smallest bandwidth (bytes/s, to 1 %) at which a strategy's average waste is at most waste;
 * infinite if 1e6 times the platform's own is not enough. */
CAIRN_CHECKED cairn_err crn_montecarlo_least_bandwidth(const struct crn_platform *p,
                                                       const struct crn_strategy *strategy,
                                                       double waste,
                                                       const struct crn_montecarlo *mc, double *ret,
                                                       struct crn_errinfo *ei);
/* The same for theorem 1, and for crn_montecarlo_bound. */
double crn_montecarlo_least_bandwidth_theorem1(const struct crn_platform *p, double waste);
double crn_montecarlo_least_bandwidth_bound(const struct crn_platform *p,
                                            const struct crn_summary *s,
                                            const struct crn_strategy *mode, double waste,
                                            const struct crn_model_options *opt);

#endif
