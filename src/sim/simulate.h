/* SPDX-License-Identifier: BSD-3-Clause */
/* One simulation: a seed in, what the nodes did out. Deterministic; memory does not grow with simulated
 * time. Any number of threads, each with its own. */
#ifndef CRN_SIMULATE_H
#define CRN_SIMULATE_H

#include "base/err.h"
#include "sim/strategy.h"

/* What the nodes of a job do. They always do exactly one of these. */
enum crn_sim_use {
    CRN_USE_COMPUTE,
    CRN_USE_INPUT,
    CRN_USE_OUTPUT,
    CRN_USE_RECOVERY,
    CRN_USE_CHECKPOINT, /* stopped by a commit or a capture */
    CRN_USE_WAIT_INPUT, /* for the token; in the order of the four above */
    CRN_USE_WAIT_OUTPUT,
    CRN_USE_WAIT_RECOVERY,
    CRN_USE_WAIT_CHECKPOINT, /* strategies that block */
    CRN_SIM_USES
};
const char *crn_sim_use_name(enum crn_sim_use use);

/* Node-seconds within the measured days, and counts of what ended there. */
struct crn_sim_class_result {
    double use[CRN_SIM_USES];
    double lost;        /* of the computing: undone by failures */
    double io;          /* input and output that served, at the speed they have alone */
    double checkpoints; /* committed */
    double slowdown;    /* sum over them: from request to commit, over C */
    double waits;       /* requests that were served */
    double wait_s;      /* sum of their waiting */
    double longest_wait_s;
    double jobs; /* ended */
    double failures;
};

struct crn_sim_result {
    struct crn_sim_class_result cls[CRN_PLATFORM_CLASSES];
    double idle;        /* nodes without a job */
    double device_busy; /* seconds in which the file system works */
};

CAIRN_CHECKED cairn_err crn_simulate(const struct crn_model *m, uint64_t seed,
                                     struct crn_sim_result *ret, struct crn_errinfo *ei);

double crn_sim_occupied(const struct crn_sim_class_result *c); /* node-seconds of all uses */
double crn_sim_work(const struct crn_sim_class_result *c);     /* computed and not lost */

#endif
