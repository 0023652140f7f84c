/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/stats.h"

#include <math.h>
#include <stdlib.h>

static int stats_ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of sorted values, interpolated; share 0 .. 1. */
static double stats_quantile(const double *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t low = (size_t)at;

    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

void crn_stats_of(double *values, size_t n, struct crn_stats *ret)
{
    double sum = 0, squares = 0;
    size_t i;

    qsort(values, n, sizeof(*values), stats_ascending);
    for (i = 0; i < n; i++)
        sum += values[i];
    ret->mean = sum / (double)n;
    for (i = 0; i < n; i++)
        squares += (values[i] - ret->mean) * (values[i] - ret->mean);
    ret->stderr_mean = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0;
    ret->min = values[0];
    ret->p10 = stats_quantile(values, n, 0.10);
    ret->p25 = stats_quantile(values, n, 0.25);
    ret->p50 = stats_quantile(values, n, 0.50);
    ret->p75 = stats_quantile(values, n, 0.75);
    ret->p90 = stats_quantile(values, n, 0.90);
    ret->max = values[n - 1];
}
