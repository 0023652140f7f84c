/* SPDX-License-Identifier: BSD-3-Clause */
/* Intervals of levels against brute force, and against what is known in closed form. */
#include "policy/levels.h"

#include <math.h>

#include "base/rng.h"
#include "base/test.h"
#include "policy/period.h"

static struct crn_rng rng;

/* The least waste over a fine grid of periods. */
static double try_periods(const struct crn_level_costs *l, size_t n, const uint32_t *every)
{
    double best = INFINITY, period;
    size_t i;

    for (period = 1; period < 1e6; period *= 1.002) {
        double waste = crn_levels_waste(l, n, period, every);

        for (i = 0; i < n; i++)
            if (every[i] * period < l[i].least_s * (1 - 1e-9))
                waste = INFINITY;
        best = waste < best ? waste : best;
    }
    return best;
}

static double brute_force(const struct crn_level_costs *l, size_t n, uint32_t most)
{
    uint32_t every[CRN_LEVELS_MAX] = {1, 1, 1};
    double best = INFINITY;

    for (every[1] = 1; every[1] <= (n > 1 ? most : 1); every[1]++)
        for (every[2] = every[1]; every[2] <= (n > 2 ? most : every[1]); every[2]++)
            best = fmin(best, try_periods(l, n, every));
    return best;
}

static double between(double low, double high)
{
    return low * pow(high / low, crn_rng_unit(&rng));
}

/* As on real machines: the safer a level, the dearer it is and the rarer it is needed. */
static void draw(struct crn_level_costs *l, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        l[i] = (struct crn_level_costs){.cost_s = between(1, 10) * pow(5, (double)i),
                                        .recovery_s = between(1, 100),
                                        .mtbf_s = between(3e3, 3e4) * pow(3, (double)i)};
        if (crn_rng_below(&rng, 3) == 0)
            l[i].least_s = l[i].cost_s * between(1, 100);
    }
}

static void nothing_is_better(void **state)
{
    struct crn_level_costs l[CRN_LEVELS_MAX];
    struct crn_level_plan plan;
    double brute;
    int round;
    size_t n;

    (void)state;
    crn_rng_seed(&rng, 21);
    for (round = 0; round < 24; round++) {
        n = 1 + (size_t)round % 3;
        draw(l, n);
        crn_levels_best(l, n, &plan);
        brute = brute_force(l, n, n == 3 ? 24 : 60);
        assert_true(plan.waste <= brute * (1 + 1e-9));
        assert_true(fabs(crn_levels_waste(l, n, plan.period_s, plan.every) - plan.waste) < 1e-12);
        if (plan.every[n - 1] <=
            24) /* within what was tried; a limit may lie between two periods */
            assert_true(plan.waste >= brute * (1 - 0.003));
    }
}

static void one_level_is_daly(void **state)
{
    struct crn_level_costs l = {.cost_s = 7, .recovery_s = 20, .mtbf_s = 50000};
    struct crn_level_plan plan;

    (void)state;
    crn_levels_best(&l, 1, &plan);
    assert_true(fabs(plan.period_s / crn_period_daly(7, 50000) - 1) < 1e-12);
    assert_int_equal(plan.every[0], 1);
    assert_true(fabs(plan.waste - crn_period_waste_first_order(plan.period_s, 7, 20, 50000)) <
                1e-12);
}

/* Two levels: the numbers are near the ratio of the periods that each would have alone. */
static void two_levels(void **state)
{
    struct crn_level_costs l[] = {{.cost_s = 1, .mtbf_s = 20000},
                                  {.cost_s = 100, .mtbf_s = 200000}};
    struct crn_level_plan plan;

    (void)state;
    crn_levels_best(l, 2, &plan);
    assert_in_range(plan.every[1], 31, 32); /* sqrt(1000) */
    assert_in_range((uint64_t)plan.period_s, 198, 202);
}

static void limits(void **state)
{
    struct crn_level_costs l[] = {{.cost_s = 1, .mtbf_s = 20000},
                                  {.cost_s = 1, .mtbf_s = 20000, .least_s = 5000}};
    struct crn_level_plan plan;

    (void)state;
    crn_levels_best(l, 2, &plan);
    assert_true(plan.every[1] * plan.period_s >= 5000 * (1 - 1e-9));
    assert_true(plan.every[1] > 10);
    l[1] = (struct crn_level_costs){.cost_s = 100}; /* needed by no failure */
    crn_levels_best(l, 2, &plan);
    assert_int_equal(plan.every[1], CRN_LEVEL_EVERY_MAX);
    l[0].mtbf_s = 0; /* no failures at all */
    crn_levels_best(l, 2, &plan);
    assert_true(isinf(plan.period_s));
    l[1].mtbf_s = 20000; /* all failures need the last level: none stays below it */
    crn_levels_best(l, 2, &plan);
    assert_int_equal(plan.every[1], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_better),
        cmocka_unit_test(one_level_is_daly),
        cmocka_unit_test(two_levels),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
