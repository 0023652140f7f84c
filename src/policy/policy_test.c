/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies: the worked example, Least-Waste against the explicit sum, order, ties. */
#include "base/test.h"

#include <math.h>
#include "base/rng.h"
#include "policy/policy.h"

#define MU 6.4e7

static struct crn_io_request request(enum crn_io_kind kind, double q, double v, double d,
                                     uint64_t ticket)
{
    struct crn_io_request r = {0};

    r.kind = kind;
    r.nodes = q;
    r.duration_s = v;
    r.recovery_s = v;
    r.node_mtbf_s = MU;
    r.since_s = kind == CRN_IO_CHECKPOINT ? -10.0 : -d;
    r.last_checkpoint_s = -d;
    r.ticket = ticket;
    return r;
}

static void test_worked_example(void **state)
{
    struct crn_io_request r[3] = {
        request(CRN_IO_OUTPUT, 1024, 1300, 200, 1),
        request(CRN_IO_CHECKPOINT, 2048, 5700, 40000, 2),
        request(CRN_IO_CHECKPOINT, 256, 380, 30000, 3),
    };
    struct crn_io_queue q = {.now_s = 0, .req = r, .n = 3};
    double w[3];

    (void)state;
    assert_int_equal(crn_policy_pick(&crn_policy_least_waste, &q, 0, w), 2);
    assert_true(fabs(w[0] - 3990178.8) < 0.05);
    assert_true(fabs(w[1] - 6235556.9) < 0.05);
    assert_true(fabs(w[2] - 1736749.9) < 0.05);
}

/* W_i as in the paper's text, pair by pair. */
static double written_out(const struct crn_io_queue *q, size_t i)
{
    double v = q->req[i].duration_s;
    double w = 0;
    size_t j;

    for (j = 0; j < q->n; j++) {
        const struct crn_io_request *r = &q->req[j];

        if (j == i)
            continue;
        if (r->kind == CRN_IO_CHECKPOINT)
            w += v / r->node_mtbf_s * r->nodes * r->nodes *
                 (r->recovery_s + q->now_s - r->last_checkpoint_s + v / 2);
        else
            w += r->nodes * (q->now_s - r->since_s + v);
    }
    return w;
}

static size_t random_queue(struct crn_rng *rng, struct crn_io_request *r, size_t max)
{
    size_t n = 1 + (size_t)crn_rng_below(rng, max);
    size_t i;

    for (i = 0; i < n; i++)
        r[i] = request((enum crn_io_kind)crn_rng_below(rng, CRN_IO_KINDS),
                       1 + (double)crn_rng_below(rng, 4000), 1 + 6000 * crn_rng_unit(rng),
                       50000 * crn_rng_unit(rng), i + 1);
    return n;
}

static void test_least_waste_sums(void **state)
{
    struct crn_io_request r[40];
    double w[40];
    struct crn_rng rng;
    int round;

    (void)state;
    crn_rng_seed(&rng, 1);
    for (round = 0; round < 500; round++) {
        struct crn_io_queue q = {.now_s = 0, .req = r, .n = random_queue(&rng, r, 40)};
        size_t i;

        crn_policy_least_waste.score(&q, w);
        for (i = 0; i < q.n; i++) {
            double want = written_out(&q, i);

            assert_true(fabs(w[i] - want) <= 1e-9 * (fabs(want) + fabs(w[i]) + 1e9));
        }
    }
}

static void test_order_is_sorted_and_whole(void **state)
{
    struct crn_io_request r[60];
    double score[60];
    size_t order[60];
    size_t npolicies, p;
    const struct crn_policy *const *all = crn_policy_table(&npolicies);
    struct crn_rng rng;
    int round;

    (void)state;
    crn_rng_seed(&rng, 2);
    for (round = 0; round < 200; round++) {
        struct crn_io_queue q = {.now_s = 0, .req = r, .n = random_queue(&rng, r, 60)};

        for (p = 0; p < npolicies; p++) {
            unsigned char seen[60] = {0};
            size_t i;

            crn_policy_order(all[p], &q, score, order);
            for (i = 0; i < q.n; i++) {
                assert_true(score[i] <= INFINITY); /* not NaN */
                assert_false(seen[order[i]]);
                seen[order[i]] = 1;
                if (i > 0)
                    assert_true(score[order[i - 1]] < score[order[i]] ||
                                (score[order[i - 1]] <= score[order[i]] &&
                                 r[order[i - 1]].ticket < r[order[i]].ticket));
            }
            assert_int_equal(crn_policy_pick(all[p], &q, 0, score), order[0]);
        }
    }
}

static void test_first_come_first_served(void **state)
{
    struct crn_io_request r[3] = {
        request(CRN_IO_INPUT, 1, 10, 5, 7),
        request(CRN_IO_OUTPUT, 1, 10, 5, 3),
        request(CRN_IO_RECOVERY, 1000, 10, 1, 1),
    };
    struct crn_io_queue q = {.now_s = 0, .req = r, .n = 3};
    double scratch[3];

    (void)state;
    assert_int_equal(crn_policy_pick(&crn_policy_ordered, &q, 0, scratch), 1);
    assert_int_equal(crn_policy_pick(&crn_policy_ordered_nb, &q, 0, scratch), 1);
    q.n = 0;
    assert_true(crn_policy_pick(&crn_policy_ordered, &q, 0, scratch) == CRN_PICK_NONE);
}

/* q / v for a blocked job, q^2 (d - P) / mu / v for one that waits to checkpoint. */
static void test_delay_cost(void **state)
{
    struct crn_io_request r[4] = {
        request(CRN_IO_RECOVERY, 1000, 2000, 7, 1),
        request(CRN_IO_CHECKPOINT, 2000, 1000, 17000, 2),
        request(CRN_IO_CHECKPOINT, 2000, 1000, 9000, 3),
        request(CRN_IO_CHECKPOINT, 500, 100, 20000, 4),
    };
    struct crn_io_queue q = {.now_s = 0, .req = r, .n = 4};
    const size_t want[4] = {0, 1, 3, 2};
    double score[4];
    size_t order[4];
    size_t i;

    (void)state;
    for (i = 1; i < 4; i++)
        r[i].period_s = 10000;
    crn_policy_order(&crn_policy_delay_cost, &q, score, order);
    assert_true(fabs(score[0] + 0.5) < 1e-12);
    assert_true(fabs(score[1] + 2000.0 * 2000 * 7000 / MU / 1000) < 1e-9);
    assert_true(score[2] > 0); /* not yet due */
    assert_memory_equal(order, want, sizeof(want));
    r[1].last_checkpoint_s = -25000; /* overdue: before the blocked job */
    assert_int_equal(crn_policy_pick(&crn_policy_delay_cost, &q, 0, score), 1);
    r[0].duration_s = 0; /* an unknown size must do no harm */
    assert_int_equal(crn_policy_pick(&crn_policy_delay_cost, &q, 0, score), 0);
}

static void test_find(void **state)
{
    size_t n, i;
    const struct crn_policy *const *all = crn_policy_table(&n);

    (void)state;
    for (i = 0; i < n; i++)
        assert_ptr_equal(crn_policy_find(all[i]->name), all[i]);
    assert_null(crn_policy_find("no-such-policy"));
    assert_string_equal(crn_io_kind_name(CRN_IO_RECOVERY), "recovery");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_least_waste_sums),
        cmocka_unit_test(test_order_is_sorted_and_whole),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_delay_cost),
        cmocka_unit_test(test_find),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
