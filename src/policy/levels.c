/* SPDX-License-Identifier: BSD-3-Clause */
/* Intervals of several levels. For given numbers e the waste is A / T + B T with
 *
 *   A = sum of cost_i / e_i,   B = sum of e_i / (2 mtbf_i)
 *
 * so the best period is sqrt(A / B), or the shortest that no level forbids. In the logarithms of T
 * and e this is convex: the best number of the last level is found by bisection; those between the
 * first and the last are tried one by one. */
#include "policy/levels.h"

#include <math.h>
#include <string.h>

#define EVERY_TRIED 512 /* of a level between the first and the last */

double crn_levels_waste(const struct crn_level_costs *levels, size_t n, double period_s,
                        const uint32_t *every)
{
    double waste = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        if (levels[i].mtbf_s > 0)
            waste += (every[i] * period_s / 2 + levels[i].recovery_s) / levels[i].mtbf_s;
        waste += levels[i].cost_s / (every[i] * period_s);
    }
    return waste;
}

/* The best period for these numbers. */
static double levels_period(const struct crn_level_costs *levels, size_t n, const uint32_t *every)
{
    double a = 0, b = 0, least = 0, period;
    size_t i;

    for (i = 0; i < n; i++) {
        a += levels[i].cost_s / every[i];
        if (levels[i].mtbf_s > 0)
            b += every[i] / levels[i].mtbf_s / 2;
        if (levels[i].least_s / every[i] > least)
            least = levels[i].least_s / every[i];
    }
    period = b > 0 ? sqrt(a / b) : INFINITY;
    return period > least ? period : least;
}

static double levels_try(const struct crn_level_costs *levels, size_t n, const uint32_t *every)
{
    return crn_levels_waste(levels, n, levels_period(levels, n, every), every);
}

/* The waste of the last level is convex in its number: the first number whose successor is no
 * better. */
static void best_last(const struct crn_level_costs *levels, size_t n, uint32_t *every)
{
    uint32_t low = every[n - 2];
    uint32_t high = CRN_LEVEL_EVERY_MAX;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        double here, next;

        every[n - 1] = middle;
        here = levels_try(levels, n, every);
        every[n - 1] = middle + 1;
        next = levels_try(levels, n, every);
        if (next < here)
            low = middle + 1;
        else
            high = middle;
    }
    every[n - 1] = low;
}

static void levels_take(const struct crn_level_costs *levels, size_t n, const uint32_t *every,
                        struct crn_level_plan *best)
{
    double waste = levels_try(levels, n, every);

    if (waste >= best->waste)
        return;
    best->waste = waste;
    best->period_s = levels_period(levels, n, every);
    memcpy(best->every, every, n * sizeof(*every));
}

void crn_levels_best(const struct crn_level_costs *levels, size_t n, struct crn_level_plan *ret)
{
    struct crn_level_plan best = {.period_s = INFINITY, .every = {1, 1, 1}, .waste = INFINITY};
    uint32_t every[CRN_LEVELS_MAX] = {1, 1, 1};

    for (every[1] = 1; every[1] <= (n > 2 ? EVERY_TRIED : 1); every[1]++) {
        uint32_t tried[CRN_LEVELS_MAX] = {1, every[1], 1};

        if (n > 1)
            best_last(levels, n, tried);
        levels_take(levels, n, tried, &best);
    }
    *ret = best;
}
