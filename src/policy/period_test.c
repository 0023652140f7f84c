/* SPDX-License-Identifier: BSD-3-Clause */
/* Periods and bounds: worked example, scaling, optimality of theorem 1, exact against first
 * order. */
#include "base/test.h"

#include <math.h>
#include "base/rng.h"
#include "policy/period.h"

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.12g, want %.12g +- %g", got, want, tolerance);
}

static void test_daly(void **state)
{
    (void)state;
    assert_near(crn_period_daly(600, 3.6e5), 20784.609690826528, 1e-6);
    assert_true(isinf(crn_period_daly(600, 0)) != 0);
}

static void test_worked_example(void **state)
{
    struct crn_job_class c = {
        .jobs = 40, .nodes = 100, .block_s = 600, .device_s = 600, .recovery_s = 600};
    struct crn_steady s = {
        .cls = &c, .n = 1, .nodes = 4000, .node_mtbf_s = 3.6e7, .device_share = 1};
    struct crn_bound b;
    double period;

    (void)state;
    crn_bound_theorem1(&s, &period, &b);
    assert_near(period, 24000, 1e-6);
    assert_near(b.lambda, 0.00833333, 1e-8);
    assert_near(b.device_use, 1, 1e-12);
    assert_near(b.waste, 0.06, 1e-12);
}

/* The four APEX classes on 17,784 nodes, at a bandwidth in GB/s. */
static struct crn_steady apex(struct crn_job_class c[4], double bandwidth, double node_mtbf_s)
{
    static const double share[4] = {0.66, 0.055, 0.165, 0.12};
    static const double nodes[4] = {1024, 256, 2048, 1875};
    static const double checkpoint[4] = {1.6, 1.85, 3.5, 0.85};
    int i;

    for (i = 0; i < 4; i++) {
        c[i] = (struct crn_job_class){.jobs = share[i] * 17784 / nodes[i], .nodes = nodes[i]};
        c[i].block_s = c[i].device_s = c[i].recovery_s = nodes[i] * 32 * checkpoint[i] / bandwidth;
    }
    return (struct crn_steady){
        .cls = c, .n = 4, .nodes = 17784, .node_mtbf_s = node_mtbf_s, .device_share = 1};
}

/* Half the bandwidth with twice the MTBF is the same system at half speed. */
static void test_scaling(void **state)
{
    static const double bandwidths[] = {40, 80, 160, 640};
    struct crn_job_class c[4], d[4];
    size_t i;

    (void)state;
    for (i = 0; i < 4; i++) {
        struct crn_steady s = apex(c, bandwidths[i], 6.4e7);
        struct crn_steady slow = apex(d, bandwidths[i] / 2, 12.8e7);
        struct crn_bound a, b;

        crn_bound_theorem1(&s, NULL, &a);
        crn_bound_theorem1(&slow, NULL, &b);
        assert_near(b.lambda, a.lambda, 1e-12 * (1 + a.lambda));
        assert_near(b.device_use, a.device_use, 1e-12);
        assert_near(b.waste, a.waste, 1e-12);
        crn_bound_exact(&s, NULL, &a);
        crn_bound_exact(&slow, NULL, &b);
        assert_near(b.waste, a.waste, 1e-7);
    }
}

/* With bandwidth to spare the price is zero and the periods are Daly's. */
static void test_enough_bandwidth(void **state)
{
    struct crn_job_class c[4];
    struct crn_steady s = apex(c, 1000, 6.4e7);
    struct crn_bound b;
    double period[4];
    int i;

    (void)state;
    crn_bound_theorem1(&s, period, &b);
    assert_near(b.lambda, 0, 0);
    assert_true(b.device_use < 1);
    for (i = 0; i < 4; i++)
        assert_near(period[i], crn_period_daly(c[i].block_s, 6.4e7 / c[i].nodes), 1e-9);
}

/* No other periods that fit the device waste less than theorem 1's. */
static void test_theorem1_is_optimal(void **state)
{
    struct crn_job_class c[4];
    struct crn_steady s = apex(c, 60, 6.4e7);
    struct crn_bound b;
    struct crn_rng rng;
    double period[4];
    int round;

    (void)state;
    crn_bound_theorem1(&s, period, &b);
    assert_near(b.device_use, 1, 1e-9);
    crn_rng_seed(&rng, 3);
    for (round = 0; round < 2000; round++) {
        double use = 0, waste = 0, p[4];
        int i;

        for (i = 0; i < 4; i++) {
            p[i] = period[i] * (0.5 + crn_rng_unit(&rng));
            use += c[i].jobs * c[i].device_s / p[i];
        }
        for (i = 0; i < 4; i++) {
            if (use > 1)
                p[i] *= use; /* stretched until they fit */
            waste += c[i].jobs * c[i].nodes / s.nodes *
                     crn_period_waste_first_order(p[i], c[i].block_s, c[i].recovery_s,
                                                  s.node_mtbf_s / c[i].nodes);
        }
        assert_true(waste >= b.waste - 1e-12);
    }
}

static void test_exact_meets_first_order(void **state)
{
    struct crn_job_class c[4];
    struct crn_steady s = apex(c, 4000, 6.4e9); /* failures are rare, checkpoints short */
    struct crn_bound first, exact;

    (void)state;
    assert_near(crn_period_waste_exact(23400, 600, 600, 3.6e7),
                crn_period_waste_first_order(24000, 600, 600, 3.6e7), 1e-5);
    assert_near(crn_period_waste_exact(100, 25, 7, 0), 0.2, 1e-15);
    crn_bound_theorem1(&s, NULL, &first);
    crn_bound_exact(&s, NULL, &exact);
    assert_near(exact.waste / first.waste, 1, 0.01);
}

/* Weak duality: any feasible choice of work between commits is above the exact bound. */
static void test_exact_is_a_bound(void **state)
{
    struct crn_job_class c[4];
    struct crn_steady s = apex(c, 80, 6.4e7);
    struct crn_bound b;
    struct crn_rng rng;
    double work[4];
    int round, feasible = 0;

    (void)state;
    crn_bound_exact(&s, work, &b);
    crn_rng_seed(&rng, 4);
    for (round = 0; round < 5000; round++) {
        double use = 0, waste = 0;
        int i;

        for (i = 0; i < 4; i++) {
            double mtbf = s.node_mtbf_s / c[i].nodes;
            double w = work[i] * (0.3 + 3 * crn_rng_unit(&rng));

            use += c[i].jobs * crn_period_device_use(w, c[i].device_s, c[i].recovery_s, mtbf);
            waste += c[i].jobs * c[i].nodes / s.nodes *
                     crn_period_waste_exact(w, c[i].block_s, c[i].recovery_s, mtbf);
        }
        if (use > 1)
            continue;
        feasible++;
        assert_true(waste >= b.waste - 1e-9);
    }
    assert_true(feasible > 100);
}

/* A job with an end: the closed forms of one segment without a checkpoint, and of a job so long
 * that its end does not matter. A shorter job wastes less. */
static void test_jobs_that_end(void **state)
{
    struct crn_job_class c = {.jobs = 1,
                              .nodes = 10,
                              .block_s = 600,
                              .device_s = 600,
                              .recovery_s = 600,
                              .work_s = 50,
                              .input_s = 30,
                              .own_s = 40};
    struct crn_steady s = {
        .cls = &c, .n = 1, .nodes = 10, .node_mtbf_s = 200000, .device_share = 1};
    struct crn_bound b;
    double last = 0, mtbf = 20000;
    int k;

    (void)state;
    crn_bound_exact(&s, NULL, &b);
    assert_near(b.waste, 1 - 50 / (40 + mtbf * exp(30 / mtbf) * expm1(50 / mtbf)), 1e-12);
    for (k = 0; k < 16; k++) {
        c.work_s *= 3;
        c.own_s = 0;
        crn_bound_exact(&s, NULL, &b);
        assert_true(b.waste > last);
        last = b.waste;
    }
    c.work_s = 0;
    crn_bound_exact(&s, NULL, &b);
    assert_near(last, b.waste, 1e-4);
    assert_true(last < b.waste);
}

/* In the background a job stops less, but a checkpoint counts only when its write has ended. */
static void test_background(void **state)
{
    struct crn_job_class c = {
        .jobs = 1, .nodes = 10, .block_s = 60, .device_s = 600, .recovery_s = 600};
    struct crn_steady s = {
        .cls = &c, .n = 1, .nodes = 10, .node_mtbf_s = 200000, .device_share = 1};
    struct crn_bound behind, front, none;
    double work = 0, mtbf = 20000;

    (void)state;
    crn_bound_exact(&s, &work, &behind);
    assert_near(1 - behind.waste,
                exp(-540 / mtbf) * (1 - crn_period_waste_exact(work, 60, 600, mtbf)), 1e-12);
    c.block_s = 600;
    crn_bound_exact(&s, NULL, &front);
    c.block_s = c.device_s = 60; /* a faster file system is better still */
    crn_bound_exact(&s, NULL, &none);
    assert_true(none.waste < behind.waste && behind.waste < front.waste);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daly),
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_enough_bandwidth),
        cmocka_unit_test(test_theorem1_is_optimal),
        cmocka_unit_test(test_exact_meets_first_order),
        cmocka_unit_test(test_exact_is_a_bound),
        cmocka_unit_test(test_jobs_that_end),
        cmocka_unit_test(test_background),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
