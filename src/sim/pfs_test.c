/* SPDX-License-Identifier: BSD-3-Clause */
/* The file system: concurrent requests end at the computed times. */
#include "base/test.h"

#include <math.h>
#include "sim/pfs.h"

static void ask(struct crn_pfs *d, uint32_t item, double nodes, double duration_s, double now_s)
{
    struct crn_io_request r = {.kind = CRN_IO_CHECKPOINT,
                               .nodes = nodes,
                               .duration_s = duration_s,
                               .since_s = now_s,
                               .node_mtbf_s = 1e6};

    crn_pfs_ask(d, item, &r);
    while (crn_pfs_start(d, now_s) != CRN_HEAP_OUT)
        ;
}

/* Waits for the next end and checks its item and time. */
static void ends(struct crn_pfs *d, uint32_t item, double at_s)
{
    double next_s = crn_pfs_next_s(d);

    if (!(fabs(next_s - at_s) < 1e-9))
        fail_msg("ends at %.12g, not %.12g", next_s, at_s);
    assert_int_equal(crn_pfs_finish(d, next_s), item);
    while (crn_pfs_start(d, next_s) != CRN_HEAP_OUT)
        ;
}

static void test_oblivious(void **state)
{
    struct crn_pfs d;

    (void)state;
    assert_int_equal(crn_pfs_init(&d, &crn_policy_oblivious, 4), 0);
    ask(&d, 0, 8, 10, 100); /* equal sizes: both take twice as long */
    ask(&d, 1, 8, 10, 100);
    ends(&d, 0, 120);
    ends(&d, 1, 120);
    ask(&d, 0, 1, 10, 200); /* one quarter and three quarters of the bandwidth */
    ask(&d, 1, 3, 10, 200);
    ends(&d, 1, 200 + 40.0 / 3);
    ends(&d, 0, 220);
    ask(&d, 0, 1, 10, 300); /* the second arrives when half is done, the third leaves early */
    ask(&d, 1, 1, 10, 305);
    ask(&d, 2, 2, 10, 309);
    crn_pfs_cancel(&d, 2, 313);
    ends(&d, 0, 317);
    ends(&d, 1, 322);
    assert_true(isinf(crn_pfs_next_s(&d)) != 0);
    crn_pfs_fini(&d);
}

static void test_ordered(void **state)
{
    struct crn_pfs d;

    (void)state;
    assert_int_equal(crn_pfs_init(&d, &crn_policy_ordered, 4), 0);
    ask(&d, 1, 8, 10, 100);
    ask(&d, 0, 8, 10, 100);
    ends(&d, 1, 110);
    ends(&d, 0, 120);
    ask(&d, 2, 8, 10, 200); /* the holder leaves: the next starts at that instant */
    ask(&d, 1, 8, 10, 201);
    ask(&d, 0, 8, 10, 202);
    crn_pfs_cancel(&d, 1, 203); /* and a waiting one */
    crn_pfs_cancel(&d, 2, 204);
    assert_int_equal(crn_pfs_start(&d, 204), 0);
    ends(&d, 0, 214);
    crn_pfs_fini(&d);
}

/* One of each set at a time; the sets share by their weights: 10^-2 and 10^-3. */
static void test_sets(void **state)
{
    static const double period_s[] = {100, 100, 1000, 2000};
    struct crn_pfs d;
    uint32_t i;

    (void)state;
    assert_int_equal(crn_pfs_init(&d, &crn_policy_set10, 4), 0);
    for (i = 0; i < 4; i++) {
        struct crn_io_request r = {.kind = CRN_IO_CHECKPOINT,
                                   .nodes = 1,
                                   .duration_s = 10,
                                   .since_s = 100 + i,
                                   .period_s = period_s[i]};

        crn_pfs_ask(&d, i, &r);
    }
    assert_int_equal(crn_pfs_start(&d, 104), 0);
    assert_int_equal(crn_pfs_start(&d, 104), 2);
    assert_true(crn_pfs_start(&d, 104) == CRN_HEAP_OUT);
    ends(&d, 0, 115); /* at 10/11 of the bandwidth */
    ends(&d, 1, 126);
    ends(&d, 2, 134); /* 2 s' worth are done, the rest is alone */
    ends(&d, 3, 144);
    assert_int_equal(d.busy, 0);
    crn_pfs_fini(&d);
}

static void test_no_interference(void **state)
{
    struct crn_pfs d;

    (void)state;
    assert_int_equal(crn_pfs_init(&d, NULL, 2), 0);
    ask(&d, 0, 8, 10, 100);
    ask(&d, 1, 8, 7, 104);
    ends(&d, 0, 110);
    ends(&d, 1, 111);
    crn_pfs_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oblivious),
        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_no_interference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
