/* SPDX-License-Identifier: BSD-3-Clause */
/* Periods, and the waste of one job that has the file system to itself. */
#include "policy/period.h"

#include <math.h>

double crn_period_daly(double checkpoint_s, double job_mtbf_s)
{
    return job_mtbf_s > 0 ? sqrt(2 * job_mtbf_s * checkpoint_s) : INFINITY;
}

double crn_period_waste_first_order(double period_s, double checkpoint_s, double recovery_s,
                                    double job_mtbf_s)
{
    double failures = job_mtbf_s > 0 ? (period_s / 2 + recovery_s) / job_mtbf_s : 0;

    return checkpoint_s / period_s + failures;
}

/* With r = 1 / mtbf, an attempt at w + C succeeds with probability exp(-r (w + C)); every failure
 * costs what was done and a recovery that may itself fail. The expected time of one segment is
 * exp(r R) (exp(r (w + C)) - 1) / r, of which w is progress. */
double crn_period_waste_exact(double work_s, double checkpoint_s, double recovery_s,
                              double job_mtbf_s)
{
    if (job_mtbf_s <= 0)
        return checkpoint_s / (work_s + checkpoint_s);
    return 1 - work_s / job_mtbf_s * exp(-recovery_s / job_mtbf_s) /
                   expm1((work_s + checkpoint_s) / job_mtbf_s);
}

/* One segment writes for (exp(r C) - 1) / r on average, the attempts that failures cut short
 * included, and reads for (exp(r (w + C)) - 1) (exp(r R) - 1) / r. */
double crn_period_device_use(double work_s, double checkpoint_s, double recovery_s,
                             double job_mtbf_s)
{
    double reads;

    if (job_mtbf_s <= 0)
        return checkpoint_s / (work_s + checkpoint_s);
    reads = -expm1(-recovery_s / job_mtbf_s);
    return reads + (1 - reads) * expm1(checkpoint_s / job_mtbf_s) /
                       expm1((work_s + checkpoint_s) / job_mtbf_s);
}
