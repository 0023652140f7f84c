/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CRN_STATS_H
#define CRN_STATS_H

#include <stddef.h>

struct crn_stats {
    double mean, stderr_mean;
    double min, p10, p25, p50, p75, p90, max;
};

/* Sorts values; n > 0. */
void crn_stats_of(double *values, size_t n, struct crn_stats *ret);

#endif
