/* SPDX-License-Identifier: BSD-3-Clause */
/* How often to checkpoint, and a lower bound on the waste of any schedule. Pure, any thread.
 * Seconds throughout.
 *
 * The steady state of Herault et al., APDCM 2018, section IV: n_i jobs of class i run on q_i
 * nodes each, forever; N nodes in all; a node fails every mu_ind seconds on average. */
#ifndef CRN_PERIOD_H
#define CRN_PERIOD_H

#include <stddef.h>

struct crn_job_class {
    double jobs;  /* n: running at a time; may be fractional */
    double nodes; /* q: of each */
    /* how long a checkpoint blocks the job; C unless the write is in the background */
    double block_s;
    double device_s; /* C: how long it occupies the file system; it is committed then */
    double recovery_s;
    /* For crn_bound_exact. A job ends after work_s of work (0: never). Before its first commit
     * failures cost input_s instead of recovery_s. Its own input and output take own_s. */
    double work_s, input_s, own_s;
};

struct crn_steady {
    const struct crn_job_class *cls;
    size_t n;
    double nodes;        /* N */
    double node_mtbf_s;  /* mu_ind; <= 0: nodes do not fail */
    double device_share; /* of the file system's time that checkpoints may use; 1 in the paper */
};

/* Young and Daly: sqrt(2 mu C); infinite without failures. job_mtbf_s = mu_ind / q. */
double crn_period_daly(double checkpoint_s, double job_mtbf_s);

/* Equation 3: share of a job's time without progress, first order in 1/mtbf. */
double crn_period_waste_first_order(double period_s, double checkpoint_s, double recovery_s,
                                    double job_mtbf_s);
/* The same exactly, for exponential failures that also strike checkpoints and recoveries. work_s
 * is the time between the end of one commit and the start of the next. */
double crn_period_waste_exact(double work_s, double checkpoint_s, double recovery_s,
                              double job_mtbf_s);
/* Share of time that such a job uses the file system, including aborted writes and reads. */
double crn_period_device_use(double work_s, double checkpoint_s, double recovery_s,
                             double job_mtbf_s);

struct crn_bound {
    double lambda;     /* price of the device; 0: it is not scarce */
    double device_use; /* F, of equation 6 */
    double waste;      /* W, of equation 7, or exact */
};

/* Theorem 1: equation 8 with the smallest lambda that meets equation 6, then equation 7.
 * ret_period: one per class; may be NULL. */
void crn_bound_theorem1(const struct crn_steady *s, double *ret_period, struct crn_bound *ret);
/* A bound without the first-order model: no schedule wastes less of the jobs' node-time, in
 * expectation, however it shares the device. The waste includes own_s. Lagrangian bound: jobs may
 * also be idle, which uses no device; failures strike at any time; a job needs no checkpoint after
 * its last work. With block_s < device_s the rest of the write is in the background, and the
 * checkpoint counts when it ends. ret_work: work between commits, one per class; may be NULL. */
void crn_bound_exact(const struct crn_steady *s, double *ret_work, struct crn_bound *ret);

#endif
