/* SPDX-License-Identifier: BSD-3-Clause */
/* One simulation: a seed in, the use of the nodes out. Deterministic; memory does not grow with
 * simulated time. Any number of threads, each with its own simulation. */
#ifndef CRN_SIMULATE_H
#define CRN_SIMULATE_H

#include "base/err.h"
#include "sim/strategy.h"

/* What the nodes of a job do: always exactly one of these. */
enum crn_sim_use {
    CRN_USE_COMPUTE,
    CRN_USE_INPUT,
    CRN_USE_OUTPUT,
    CRN_USE_RECOVERY,
    CRN_USE_CHECKPOINT, /* blocked by a commit or a capture */
    CRN_USE_WAIT_INPUT, /* waits for the token, in the order of the four above */
    CRN_USE_WAIT_OUTPUT,
    CRN_USE_WAIT_RECOVERY,
    CRN_USE_WAIT_CHECKPOINT, /* blocking strategies only */
    CRN_SIM_USES
};
const char *crn_sim_use_name(enum crn_sim_use use);

/* Node-seconds within the measured days, and counts of what ended in them. */
struct crn_sim_class_result {
    double use[CRN_SIM_USES];
    double lost; /* of the computing: undone by failures */
    double io;   /* input and output that was not undone, at its speed without interference */
    double checkpoints; /* committed */
    double slowdown;    /* sum over them: time from request to commit, divided by C */
    double waits;       /* requests served */
    double wait_s;      /* sum of their waiting */
    double longest_wait_s;
    double jobs; /* ended */
    double failures;
};

struct crn_sim_result {
    struct crn_sim_class_result cls[CRN_PLATFORM_CLASSES];
    double idle;        /* nodes without a job */
    double device_busy; /* seconds in which the file system is busy */
};

CAIRN_CHECKED cairn_err crn_simulate(const struct crn_model *m, uint64_t seed,
                                     struct crn_sim_result *ret, struct crn_errinfo *ei);

double crn_sim_occupied(const struct crn_sim_class_result *c); /* node-seconds of all uses */
double crn_sim_work(const struct crn_sim_class_result *c);     /* computed and not lost */

#endif
