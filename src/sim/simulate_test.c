/* SPDX-License-Identifier: BSD-3-Clause */
/* One simulation: arithmetic for two jobs, the closed form for one, conservation of node-time. */
#include "base/test.h"

#include <math.h>
#include "sim/montecarlo.h"

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.12g, want %.12g +- %g", got, want, tolerance);
}

/* Endless jobs of 10 nodes fill the machine; a checkpoint takes 600 s. */
static struct crn_platform endless(double jobs, double job_mtbf_s)
{
    struct crn_platform p = {.name = "endless",
                             .nodes = 10 * jobs,
                             .bandwidth = 1,
                             .node_mtbf_s = 10 * job_mtbf_s,
                             .nclasses = 1};

    p.cls[0] = (struct crn_platform_class){.name = "a",
                                           .share = 1,
                                           .nodes = 10,
                                           .work_s = 1e12,
                                           .input_bytes = 0,
                                           .output_bytes = 1,
                                           .checkpoint_bytes = 600};
    return p;
}

static struct crn_strategy strategy(const char *name)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_strategy s;

    assert_ok(crn_strategy_parse(name, &s, ei));
    return s;
}

static struct crn_sim_result simulate(const struct crn_platform *p, const char *name, double days)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_strategy s = strategy(name);
    struct crn_model_options opt = crn_model_defaults;
    struct crn_sim_result r;
    struct crn_model m;

    opt.days = days;
    crn_model_init(&m, p, &s, &opt);
    assert_ok(crn_simulate(&m, 7, &r, ei));
    return r;
}

/* Both ask at 3000 s. Sharing, they commit at 4200 s; one after the other, at 3600 and 4200 s. */
static void test_two_jobs(void **state)
{
    struct crn_platform p = endless(2, 0);
    double days = 4320.0 / 86400;
    struct crn_sim_result r = simulate(&p, "oblivious-fixed", days);

    (void)state;
    assert_near(r.cls[0].checkpoints, 2, 0);
    assert_near(r.cls[0].slowdown, 4, 1e-9);
    assert_near(r.cls[0].use[CRN_USE_COMPUTE], 10 * 2 * 3120.0, 1e-6);
    assert_near(r.cls[0].use[CRN_USE_CHECKPOINT], 10 * 2 * 1200.0, 1e-6);
    assert_near(r.device_busy, 1200, 1e-9);

    r = simulate(&p, "ordered-fixed", days);
    assert_near(r.cls[0].checkpoints, 2, 0);
    assert_near(r.cls[0].slowdown, 3, 1e-9);
    assert_near(r.cls[0].use[CRN_USE_COMPUTE], 10 * (3720.0 + 3120), 1e-6);
    assert_near(r.cls[0].use[CRN_USE_WAIT_CHECKPOINT], 10 * 600.0, 1e-6);
    assert_near(r.cls[0].longest_wait_s, 600, 1e-9);

    r = simulate(&p, "ordered-nb-fixed", days); /* the second works on while it waits */
    assert_near(r.cls[0].use[CRN_USE_COMPUTE], 10 * 2 * 3720.0, 1e-6);
    assert_near(r.cls[0].use[CRN_USE_WAIT_CHECKPOINT], 0, 0);

    r = simulate(&p, "delay-cost-fixed-async", days); /* stopped for the capture alone */
    assert_near(r.cls[0].checkpoints, 2, 0);
    assert_near(r.cls[0].use[CRN_USE_CHECKPOINT], 10 * 2 * 60.0, 1e-6);
    assert_near(r.device_busy, 1200, 1e-9);
}

/* Jobs that capture every 3600 s at times of their own. Both captures of the end of the first hour
 * wait for one device: 3600 s of work and 60 s of capture, then the first is written until 4260 s,
 * the second until 4860 s. A capture that a newer one replaces while it waits is never written. */
static void test_newest_capture(void **state)
{
    struct crn_platform p = endless(2, 0);
    struct crn_sim_result r;

    (void)state;
    r = simulate(&p, "delay-cost-fixed-newest", 4320.0 / 86400);
    assert_near(r.cls[0].checkpoints, 1, 0);
    assert_near(r.cls[0].use[CRN_USE_CHECKPOINT], 10 * 2 * 60.0, 1e-6);
    assert_near(r.cls[0].use[CRN_USE_COMPUTE], 10 * 2 * 4260.0, 1e-6);
    assert_near(r.device_busy, 660, 1e-9);
    assert_near(r.cls[0].longest_wait_s, 600, 1e-9);

    p = endless(8, 0); /* a round of writes takes 4800 s: more than a period */
    r = simulate(&p, "delay-cost-fixed-newest", 10);
    assert_near(r.device_busy, 8 * 86400, 1e-6);
    assert_near(r.cls[0].checkpoints, 8 * 86400 / 600, 1);
    assert_near(r.cls[0].use[CRN_USE_CHECKPOINT], 80.0 * 8 * 86400 * 60 / 3660, 80 * 60 * 2);
    assert_true(r.cls[0].longest_wait_s < 4800);
}

/* A single job: exponential failures strike work, commits and recoveries. */
static void test_closed_form(void **state)
{
    static const char *const names[] = {"oblivious-daly", "ordered-daly", "least-waste",
                                        "delay-cost", "ordered-nb-fixed"};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p = endless(1, 20000);
    struct crn_montecarlo mc = {.runs = 32, .first_seed = 100, .model = crn_model_defaults};
    size_t i;

    (void)state;
    mc.model.days = 2000;
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct crn_strategy s = strategy(names[i]);
        struct crn_summary sum;
        double period = s.rule == CRN_PERIOD_FIXED ? 3600 : crn_period_daly(600, 20000);

        assert_ok(crn_montecarlo(&p, &s, &mc, &sum, NULL, ei));
        assert_near(sum.waste.mean, crn_period_waste_exact(period - 600, 600, 600, 20000),
                    4 * sum.waste.stderr_mean);
        assert_true(sum.waste.stderr_mean < 0.001);
    }
}

/* Every node does exactly one thing at any time. */
static void test_conservation(void **state)
{
    static const char *const platforms[] = {"cielo-paper", "cielo", "prospective"};
    struct crn_errinfo info = {0}, *ei = &info;
    const char *const *name;
    size_t k;

    (void)state;
    for (k = 0; k < 3; k++) {
        struct crn_platform p;

        assert_ok(crn_platform_load(platforms[k], &p, ei));
        p.bandwidth /= 3;
        for (name = crn_strategy_names; *name != NULL; name++) {
            struct crn_sim_result r = simulate(&p, *name, 20);
            double sum = r.idle;
            size_t i;

            for (i = 0; i < p.nclasses; i++) {
                sum += crn_sim_occupied(&r.cls[i]);
                assert_true(crn_sim_work(&r.cls[i]) <= r.cls[i].use[CRN_USE_COMPUTE]);
                assert_true(r.cls[i].lost >= 0);
            }
            assert_near(sum / (p.nodes * 18 * 86400), 1, 1e-9);
            assert_true(r.device_busy <= 18 * 86400 + 1e-6);
        }
    }
}

/* Under any strategy the nodes are busy, and each class has its share. */
static void test_shares(void **state)
{
    static const char *const names[] = {"baseline", "oblivious-daly", "delay-cost"};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_montecarlo mc = {.runs = 64, .first_seed = 1, .model = crn_model_defaults};
    struct crn_platform p;
    struct crn_summary s;
    size_t i, k;

    (void)state;
    assert_ok(crn_platform_load("cielo-paper", &p, ei));
    for (k = 0; k < 3; k++) {
        struct crn_strategy st = strategy(names[k]);

        assert_ok(crn_montecarlo(&p, &st, &mc, &s, NULL, ei));
        assert_true(s.idle < 0.02);
        for (i = 0; i < p.nclasses; i++)
            assert_near(s.cls[i].share, p.cls[i].share, 0.01);
        if (k == 0)
            assert_near(s.waste.mean, 0, 1e-12);
    }
}

static void test_strategy_names(void **state)
{
    struct crn_errinfo ei = {0};
    struct crn_strategy s;

    (void)state;
    s = strategy("ordered-nb-theorem1");
    assert_ptr_equal(s.policy, &crn_policy_ordered_nb);
    assert_int_equal(s.rule, CRN_PERIOD_THEOREM1);
    s = strategy("least-waste");
    assert_int_equal(s.rule, CRN_PERIOD_DALY);
    assert_false(s.is_async);
    assert_int_equal(crn_strategy_parse("most-waste", &s, &ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei.msg, "most-waste"));
    crn_err_clear(&ei);
    assert_int_equal(crn_strategy_parse("ordered-daly-async", &s, &ei), CAIRN_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_jobs),    cmocka_unit_test(test_newest_capture),
        cmocka_unit_test(test_closed_form), cmocka_unit_test(test_conservation),
        cmocka_unit_test(test_shares),      cmocka_unit_test(test_strategy_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
