/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs that wait for nodes. The list is endless and drawn as needed, so every class has its
 * share of the nodes under every strategy, and memory does not grow with simulated time. */
#ifndef CRN_WORKLOAD_H
#define CRN_WORKLOAD_H

#include "base/rng.h"
#include "sim/strategy.h"

struct crn_workload_job {
    uint32_t cls;
    double work_s;
};

struct crn_workload {
    const struct crn_model *m;
    struct crn_rng rng;
    double now_s;
    double busy;                          /* nodes in use */
    double running[CRN_PLATFORM_CLASSES]; /* of them: by class */
    double behind[CRN_PLATFORM_CLASSES];  /* node-seconds by which a class lags its share */
};

void crn_workload_init(struct crn_workload *w, const struct crn_model *m, uint64_t seed);
/* Takes the next job that fits into this many nodes; 0 if there is none. */
int crn_workload_take(struct crn_workload *w, double now_s, double free_nodes,
                      struct crn_workload_job *ret);
/* A job has released its nodes. */
void crn_workload_end(struct crn_workload *w, double now_s, uint32_t cls);

#endif
