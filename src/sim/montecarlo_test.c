/* SPDX-License-Identifier: BSD-3-Clause */
/* Many simulations: reproducible with any number of threads, with the behaviour that section VI
 * of the paper reports. Seeds are fixed, so the results are deterministic; margins are in
 * standard errors of the paired differences. */
#include "base/test.h"

#include <math.h>
#include "sim/montecarlo.h"

#define FEW  16  /* for large differences */
#define RUNS 48  /* for comparisons */
#define MANY 256 /* for small differences */

static struct crn_platform cielo_paper(double gigabytes_per_s, double system_mtbf_h)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p;

    assert_ok(crn_platform_load("cielo-paper", &p, ei));
    p.bandwidth = gigabytes_per_s * 1e9;
    p.node_mtbf_s = system_mtbf_h * 3600 * p.nodes;
    return p;
}

static struct crn_summary run_many(const struct crn_platform *p, const char *name, uint64_t runs,
                                   double *ret_waste)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_montecarlo mc = {.runs = runs, .first_seed = 1, .model = crn_model_defaults};
    struct crn_strategy s;
    struct crn_summary sum;

    assert_ok(crn_strategy_parse(name, &s, ei));
    assert_ok(crn_montecarlo(p, &s, &mc, &sum, ret_waste, ei));
    return sum;
}

static struct crn_summary run(const struct crn_platform *p, const char *name)
{
    return run_many(p, name, FEW, NULL);
}

/* `better` wastes less than `worse` on the same seeds, by more than three standard errors. */
static void less(const struct crn_platform *p, const char *better, const char *worse, uint64_t runs)
{
    double a[MANY], b[MANY];
    struct crn_stats diff;
    uint64_t i;

    (void)run_many(p, better, runs, a);
    (void)run_many(p, worse, runs, b);
    for (i = 0; i < runs; i++)
        b[i] -= a[i];
    crn_stats_of(b, runs, &diff);
    if (!(diff.mean > 3 * diff.stderr_mean))
        fail_msg("%s against %s at %g GB/s: %g +- %g", better, worse, p->bandwidth / 1e9, diff.mean,
                 diff.stderr_mean);
}

static void count_runs(void *arg, uint64_t runs)
{
    (void)__atomic_fetch_add((uint64_t *)arg, runs, __ATOMIC_RELAXED);
}

static void test_threads_do_not_matter(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_platform p = cielo_paper(60, 1);
    struct crn_montecarlo mc = {.runs = 50, .first_seed = 9, .model = crn_model_defaults};
    struct crn_summary one, many;
    double waste_one[50], waste_many[50];
    struct crn_strategy s;
    uint64_t done = 0;

    (void)state;
    assert_ok(crn_strategy_parse("least-waste", &s, ei));
    mc.model.days = 10;
    mc.threads = 1;
    assert_ok(crn_montecarlo(&p, &s, &mc, &one, waste_one, ei));
    mc.threads = 4;
    mc.progress = count_runs;
    mc.progress_arg = &done;
    assert_ok(crn_montecarlo(&p, &s, &mc, &many, waste_many, ei));
    assert_int_equal(done, 50);
    assert_memory_equal(waste_one, waste_many, sizeof(waste_one));
    one.wall_s = many.wall_s = 0;
    assert_memory_equal(&one, &many, sizeof(one));
    mc.runs = 0;
    assert_int_equal(crn_montecarlo(&p, &s, &mc, &many, NULL, NULL), CAIRN_EINVAL);
}

/* No strategy wastes less than the bound of its jobs. */
static void check_bound(const struct crn_platform *p, const char *name)
{
    struct crn_summary sum = run_many(p, name, FEW / 2, NULL);
    struct crn_strategy s;
    double bound;

    assert_int_equal(crn_strategy_parse(name, &s, NULL), CAIRN_OK);
    bound = crn_montecarlo_bound(p, &sum, &s, &crn_model_defaults);
    assert_true(bound > 0);
    if (!(sum.waste.mean > bound - 3 * sum.waste.stderr_mean))
        fail_msg("%s, %g GB/s, node MTBF %g y: %s wastes %g +- %g, bound %g", p->name,
                 p->bandwidth / 1e9, p->node_mtbf_s / 31557600, name, sum.waste.mean,
                 sum.waste.stderr_mean, bound);
}

/* Over the grids of figures 2 and 3, and on all shipped platforms. */
static void test_bound(void **state)
{
    static const double bandwidth[] = {40, 50, 60, 70, 80, 100, 120, 140, 160};
    static const double mtbf[] = {1.5, 2, 3, 4, 6, 10, 15, 25};
    struct crn_errinfo info = {0}, *ei = &info;
    const struct crn_text *text;
    const char *const *name;
    size_t i;

    (void)state;
    for (name = crn_strategy_names; *name != NULL; name++) {
        for (i = 0; i < sizeof(bandwidth) / sizeof(bandwidth[0]); i++) {
            struct crn_platform p = cielo_paper(bandwidth[i], 1);

            check_bound(&p, *name);
        }
        for (i = 0; i < sizeof(mtbf) / sizeof(mtbf[0]); i++) {
            struct crn_platform p = cielo_paper(40, mtbf[i]);

            check_bound(&p, *name);
        }
        for (text = crn_platform_texts; text->name != NULL; text++) {
            struct crn_platform p;

            assert_ok(crn_platform_load(text->name, &p, ei));
            check_bound(&p, *name);
        }
    }
}

static void test_order_of_strategies(void **state)
{
    static const double bandwidth[] = {80, 160};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct crn_platform p = cielo_paper(bandwidth[i], 1);

        less(&p, "least-waste", "ordered-nb-daly", RUNS);
        less(&p, "ordered-nb-daly", "ordered-daly", RUNS);
        less(&p, "ordered-daly", "oblivious-daly", RUNS);
    }
}

/* At 40 GB/s Least-Waste is not the best: first come, first served with longer periods beats it.
 * Short requests always cost less, so Silverton, the largest class, is hardly ever served. */
static void test_least_waste_starves(void **state)
{
    struct crn_platform p = cielo_paper(40, 1);
    struct crn_summary least = run(&p, "least-waste");
    struct crn_summary fair = run(&p, "ordered-nb-daly");

    (void)state;
    less(&p, "ordered-nb-theorem1", "least-waste", RUNS);
    assert_string_equal(least.cls[2].name, "Silverton");
    assert_true(least.cls[2].waste > 0.85);
    assert_true(fair.cls[2].waste < 0.75);
}

/* Our policy is better than Least-Waste wherever bandwidth is scarce, and every class is better
 * off than with first come, first served. */
static void test_delay_cost(void **state)
{
    static const double bandwidth[] = {40, 60, 80, 100, 120};
    size_t i, c;

    (void)state;
    for (i = 0; i < 5; i++) {
        struct crn_platform p = cielo_paper(bandwidth[i], 1);
        struct crn_summary ours = run(&p, "delay-cost");
        struct crn_summary fair = run(&p, "ordered-nb-daly");

        less(&p, "delay-cost", "least-waste", bandwidth[i] < 90 ? RUNS : MANY);
        for (c = 0; c < ours.nclasses; c++)
            if (!(ours.cls[c].waste < fair.cls[c].waste))
                fail_msg("%s at %g GB/s: %g, not below %g", ours.cls[c].name, bandwidth[i],
                         ours.cls[c].waste, fair.cls[c].waste);
    }
}

/* Figure 2, 160 GB/s: blocking with a fixed period stays above 40 %; computing while waiting
 * comes near the bound; blocking with Daly's period lies between. */
static void test_three_classes_of_figure_2(void **state)
{
    struct crn_platform low = cielo_paper(40, 1);
    struct crn_platform high = cielo_paper(160, 1);

    (void)state;
    assert_true(run(&high, "oblivious-fixed").waste.mean > 0.4);
    assert_true(run(&high, "ordered-fixed").waste.mean > 0.4);
    assert_true(run(&high, "ordered-nb-daly").waste.mean < 0.2);
    assert_true(run(&high, "ordered-nb-fixed").waste.mean < 0.2);
    assert_true(run(&high, "least-waste").waste.mean < 0.2);
    assert_true(run(&low, "oblivious-daly").waste.mean > 0.6);
    assert_true(run(&low, "ordered-daly").waste.mean > 0.6);
    assert_true(run(&high, "oblivious-daly").waste.mean < 0.32);
    assert_true(run(&high, "ordered-daly").waste.mean < 0.32);
}

/* Figure 3, 40 GB/s: with rare failures blocking with a fixed period still wastes as much;
 * blocking with Daly's period improves from far above; the others are near the bound early. */
static void test_three_classes_of_figure_3(void **state)
{
    struct crn_platform often = cielo_paper(40, 1);
    struct crn_platform some = cielo_paper(40, 4);
    struct crn_platform rare = cielo_paper(40, 24);

    (void)state;
    assert_true(run(&rare, "oblivious-fixed").waste.mean > 0.7);
    assert_true(run(&rare, "ordered-fixed").waste.mean > 0.7);
    assert_true(run(&often, "ordered-daly").waste.mean > 0.6);
    assert_true(run(&rare, "ordered-daly").waste.mean < 0.12);
    assert_true(run(&rare, "oblivious-daly").waste.mean < 0.12);
    assert_true(run(&some, "ordered-nb-daly").waste.mean < 0.2);
    assert_true(run(&some, "least-waste").waste.mean < 0.2);
}

static void test_least_bandwidth(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_montecarlo mc = {.runs = 16, .first_seed = 1, .model = crn_model_defaults};
    struct crn_platform p = cielo_paper(10, 1);
    struct crn_strategy s;
    struct crn_summary jobs;
    double ours, again, bound;

    (void)state;
    assert_ok(crn_strategy_parse("delay-cost", &s, ei));
    assert_ok(crn_montecarlo_least_bandwidth(&p, &s, 0.2, &mc, &ours, ei));
    p.bandwidth = ours;
    assert_ok(crn_montecarlo(&p, &s, &mc, &jobs, NULL, ei));
    bound = crn_montecarlo_least_bandwidth_bound(&p, &jobs, &s, 0.2, &mc.model);
    assert_true(bound < ours && ours < 1.15 * bound);
    assert_true(bound < crn_montecarlo_least_bandwidth_theorem1(&p, 0.2));
    p.bandwidth = 1.5 * ours; /* the same from above */
    assert_ok(crn_montecarlo_least_bandwidth(&p, &s, 0.2, &mc, &again, ei));
    assert_true(fabs(again / ours - 1) < 0.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_order_of_strategies),
        cmocka_unit_test(test_least_waste_starves),
        cmocka_unit_test(test_delay_cost),
        cmocka_unit_test(test_three_classes_of_figure_2),
        cmocka_unit_test(test_three_classes_of_figure_3),
        cmocka_unit_test(test_least_bandwidth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
