/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap and the statistics, compared with plain loops. */
#include "base/test.h"

#include <math.h>
#include "base/rng.h"
#include "sim/heap.h"
#include "sim/stats.h"

#define ITEMS 50

static uint32_t smallest(const double *key, const int *is_in)
{
    uint32_t best = CRN_HEAP_OUT;
    uint32_t i;

    for (i = 0; i < ITEMS; i++)
        if (is_in[i] && (best == CRN_HEAP_OUT || key[i] < key[best]))
            best = i;
    return best;
}

static void test_heap_is_a_sorted_set(void **state)
{
    struct crn_heap h;
    struct crn_rng rng;
    double key[ITEMS] = {0};
    int is_in[ITEMS] = {0};
    int step;

    (void)state;
    crn_rng_seed(&rng, 5);
    assert_int_equal(crn_heap_init(&h, ITEMS), 0);
    for (step = 0; step < 20000; step++) {
        uint32_t item = (uint32_t)crn_rng_below(&rng, ITEMS);

        if (crn_rng_below(&rng, 3) == 0) {
            crn_heap_remove(&h, item);
            is_in[item] = 0;
        } else {
            key[item] = (double)crn_rng_below(&rng, 20); /* ties */
            crn_heap_set(&h, item, key[item]);
            is_in[item] = 1;
        }
        assert_int_equal(crn_heap_top(&h), smallest(key, is_in));
    }
    crn_heap_fini(&h);
}

static void test_stats(void **state)
{
    double v[11] = {10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5};
    struct crn_stats s;

    (void)state;
    crn_stats_of(v, 11, &s);
    assert_true(fabs(s.mean - 5) < 1e-12);
    assert_true(fabs(s.stderr_mean - 1) < 1e-12); /* sqrt(11 / 11) */
    assert_true(fabs(s.p10 - 1) < 1e-12 && fabs(s.p25 - 2.5) < 1e-12);
    assert_true(fabs(s.p75 - 7.5) < 1e-12 && fabs(s.p90 - 9) < 1e-12);
    crn_stats_of(v, 1, &s);
    assert_true(fabs(s.p90) < 1e-12 && fabs(s.stderr_mean) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_is_a_sorted_set),
        cmocka_unit_test(test_stats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
