/* SPDX-License-Identifier: BSD-3-Clause */
/* Means and counts of each bucket, at whatever times the notes arrive. */
#include "base/test.h"

#include <math.h>
#include "base/rng.h"
#include "broker/history.h"

#define MS 1000000LL
#define S  (1000 * MS)

static struct crn_history *history_open(int64_t span_ns)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_history *h = NULL;

    assert_ok(crn_history_new(2, span_ns, 5 * S, &h, ei));
    return h;
}

static void note(struct crn_history *h, int64_t now_ns, uint32_t holders, uint32_t waiting,
                 uint64_t granted)
{
    struct crn_bp_token_row row = {.holders = holders,
                                   .waiting = waiting,
                                   .granted = granted,
                                   .oldest_ns = (uint64_t)(waiting * S)};

    crn_history_note(h, now_ns, 1, &row);
}

static void means_of_a_bucket(void **state)
{
    struct crn_history *h = history_open(CRN_HISTORY_BUCKETS * S);
    struct crn_history_bucket b[CRN_HISTORY_BUCKETS];

    (void)state;
    assert_int_equal(crn_history_read(h, 1, b), 1);
    note(h, 5 * S, 1, 4, 1);
    note(h, 5 * S + 250 * MS, 0, 0, 1);
    note(h, 5 * S + 750 * MS, 1, 2, 3);
    note(h, 8 * S, 0, 0, 3);
    assert_int_equal(crn_history_read(h, 1, b), 4);
    assert_true(fabs(b[0].holders - 0.5) < 1e-9);
    assert_true(fabs(b[0].waiting - 1.5) < 1e-9);
    assert_true(fabs(b[0].oldest_s - 4) < 1e-9);
    assert_int_equal(b[0].granted, 3);
    assert_true(fabs(b[1].holders - 1) < 1e-9); /* a gap has the state before it */
    assert_true(fabs(b[2].waiting - 2) < 1e-9);
    assert_true(b[3].holders <= 0 && b[3].waiting <= 0);
    assert_int_equal(crn_history_read(h, 0, b), 1); /* the other token: nothing */
    crn_history_free(h);
}

/* However long it runs: the ring has the last buckets, and time is conserved. */
static void the_ring_goes_round(void **state)
{
    struct crn_history *h = history_open(CRN_HISTORY_BUCKETS * S);
    struct crn_history_bucket b[CRN_HISTORY_BUCKETS];
    double want = 0, got = 0;
    int64_t now = 5 * S;
    struct crn_rng rng;
    uint32_t holders = 0;
    size_t i, n;

    (void)state;
    crn_rng_seed(&rng, 11);
    while (now < 1005 * S) {
        int64_t step = 1 + (int64_t)crn_rng_below(&rng, (uint64_t)(3 * S));
        int64_t begin = (1005 - CRN_HISTORY_BUCKETS + 1) * S;
        int64_t next = now + step < 1005 * S ? now + step : 1005 * S;

        if (next > begin)
            want += (double)(next - (now > begin ? now : begin)) * 1e-9 * holders;
        now = next;
        holders = (uint32_t)crn_rng_below(&rng, 3);
        note(h, now, holders, 0, 0);
    }
    n = crn_history_read(h, 1, b);
    assert_int_equal(n, CRN_HISTORY_BUCKETS);
    for (i = 0; i < n; i++)
        got += b[i].holders;
    assert_true(fabs(got - want) < 1e-6);
    crn_history_free(h);
}

/* A restarted broker counts from zero. */
static void counters_that_fall_are_no_grants(void **state)
{
    struct crn_history *h = history_open(CRN_HISTORY_BUCKETS * S);
    struct crn_history_bucket b[CRN_HISTORY_BUCKETS];

    (void)state;
    note(h, 5 * S, 0, 0, 10);
    note(h, 5 * S + MS, 0, 0, 2);
    note(h, 5 * S + 2 * MS, 0, 0, 3);
    assert_int_equal(crn_history_read(h, 1, b), 1);
    assert_int_equal(b[0].granted, 11);
    crn_history_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_of_a_bucket),
        cmocka_unit_test(the_ring_goes_round),
        cmocka_unit_test(counters_that_fall_are_no_grants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
