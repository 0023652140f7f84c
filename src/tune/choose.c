/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Settings within this of each other count as equal, or within half the usual spread of the
 * repetitions. */
#define LEAST_NOISE 0.05
#define MOST_NOISE  0.20

static int choose_ascending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void crn_measure_add(struct crn_measure *m, double rate)
{
    double sorted[CRN_MAX_REPEATS];

    if (m->n == CRN_MAX_REPEATS)
        return;
    m->rate[m->n++] = rate;
    memcpy(sorted, m->rate, m->n * sizeof(*sorted));
    qsort(sorted, m->n, sizeof(*sorted), choose_ascending);
    m->min = sorted[0];
    m->max = sorted[m->n - 1];
    m->median = (sorted[(m->n - 1) / 2] + sorted[m->n / 2]) / 2;
}

/* Compares the cost of settings, the most important criterion first. */
static int choose_cheaper(const struct crn_probe *a, const struct crn_probe *b)
{
    if (a->writers != b->writers)
        return a->writers < b->writers;
    if (a->files != b->files)
        return a->files < b->files;
    if (a->method != b->method)
        return a->method < b->method;
    if (a->layout != b->layout)
        return a->layout == CRN_INTERLEAVED;
    return a->block_bytes < b->block_bytes;
}

/* Half of (max - min) / median; the median of that over all repeated probes. */
static double choose_noise(const struct crn_measure *m, size_t n)
{
    struct crn_measure spread = {0};
    size_t i;

    for (i = 0; i < n && spread.n < CRN_MAX_REPEATS; i++)
        if (m[i].n > 1)
            crn_measure_add(&spread, (m[i].max - m[i].min) / m[i].median / 2);
    return fmin(fmax(spread.median, LEAST_NOISE), MOST_NOISE);
}

const struct crn_measure *crn_tune_choose(const struct crn_measure *m, size_t n)
{
    const struct crn_measure *ret = NULL;
    double best = 0, equal = choose_noise(m, n);
    size_t i;

    for (i = 0; i < n; i++)
        if (m[i].n > 0 && m[i].median > best)
            best = m[i].median;
    for (i = 0; i < n; i++)
        if (m[i].n > 0 && m[i].median >= (1 - equal) * best &&
            (ret == NULL || choose_cheaper(&m[i].probe, &ret->probe)))
            ret = &m[i];
    return ret;
}
