/* SPDX-License-Identifier: BSD-3-Clause */
/* The gate on a clock that the test advances: never more than the cap over any second, nothing lost
 * to late wake-ups, less while calm, paused while the application is busy, but never longer than
 * the patience of a flush. */
#include "base/gate.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/test.h"

#define SECOND 1000000000LL
#define MS     1000000LL

static int flag(void *arg)
{
    return *(int *)arg;
}

/* Asks again after the time the gate names. Returns the time of admission. */
static int64_t pass_at(struct crn_gate *g, uint64_t bytes, int64_t now_ns)
{
    int64_t wait_ns;

    while ((wait_ns = crn_gate_ask(g, bytes, now_ns)) > 0)
        now_ns += wait_ns;
    return now_ns;
}

static void the_cap_holds(void **state)
{
    struct crn_gate g;
    int64_t now = 5 * SECOND;
    int64_t start = now;
    uint64_t sent = 0;

    (void)state;
    crn_gate_init(&g, 10000000, 0, NULL, NULL);
    while (now < start + 10 * SECOND) {
        now = pass_at(&g, 65536, now);
        sent += 65536;
    }
    assert_in_range(sent, 99900000, 100500000); /* 10 s at 10 MB/s */
    now += 100 * SECOND;                        /* unused bandwidth is not saved up */
    start = now;
    for (sent = 0; now < start + SECOND; sent += 65536)
        now = pass_at(&g, 65536, now);
    assert_in_range(sent, 9900000, 10000000 + 4 * 65536 + 200000);
    crn_gate_fini(&g);
}

/* Threads that wake up to 15 ms late still get the whole bandwidth, and no more. */
static void late_wake_ups_cost_nothing(void **state)
{
    struct crn_rng rng;
    struct crn_gate g;
    int64_t now = SECOND;
    uint64_t sent = 0;

    (void)state;
    crn_rng_seed(&rng, 3);
    crn_gate_init(&g, 10000000, 0, NULL, NULL);
    while (now < 21 * SECOND) {
        now = pass_at(&g, 1 << 20, now);
        sent += 1 << 20;
        now += (int64_t)(crn_rng_u64(&rng) % (15 * MS));
    }
    assert_in_range(sent, 197000000, 202000000);
    crn_gate_fini(&g);
}

static void the_application_goes_first(void **state)
{
    struct crn_gate g;
    int busy = 0;

    (void)state;
    crn_gate_init(&g, 0, 500 * MS, flag, &busy);
    assert_int_equal(crn_gate_ask(&g, 1, 1 * MS), 0);
    busy = 1;
    assert_true(crn_gate_ask(&g, 1, 10 * MS) > 0);
    assert_true(crn_gate_ask(&g, 1, 110 * MS) > 0);
    busy = 0;
    assert_int_equal(crn_gate_ask(&g, 1, 111 * MS), 0);
    busy = 1; /* 100 of 500 ms are used up; the time since does not count */
    assert_true(crn_gate_ask(&g, 1, 1000 * MS) > 0);
    assert_true(crn_gate_ask(&g, 1, 1200 * MS) > 0);
    assert_true(crn_gate_ask(&g, 1, 1399 * MS) > 0);
    assert_int_equal(crn_gate_ask(&g, 1, 1400 * MS), 0); /* open for the rest of the flush */
    assert_int_equal(crn_gate_ask(&g, 1, 1401 * MS), 0);
    crn_gate_begin(&g);
    assert_true(crn_gate_ask(&g, 1, 1500 * MS) > 0);
    crn_gate_open(&g);
    assert_int_equal(crn_gate_ask(&g, 1, 1501 * MS), 0);
    crn_gate_fini(&g);
}

/* The application never ends its phase: all threads together wait for the patience once, not each
 * of them. */
static void patience_is_shared(void **state)
{
    struct crn_gate g;
    int busy = 1;
    int64_t now;
    int i;

    (void)state;
    crn_gate_init(&g, 0, SECOND, flag, &busy);
    for (now = SECOND; now < 2 * SECOND; now += 2 * MS)
        for (i = 0; i < 8; i++)
            assert_true(crn_gate_ask(&g, 1, now + i) > 0);
    for (i = 0; i < 8; i++)
        assert_int_equal(crn_gate_ask(&g, 1, now + MS), 0);
    crn_gate_fini(&g);
}

/* Bytes that pass within a second from *now on. The gate never asks for a longer wait than that. */
static uint64_t in_a_second(struct crn_gate *g, int64_t *now)
{
    int64_t until = *now + SECOND;
    uint64_t sent = 0;
    int64_t wait_ns;

    while (*now < until) {
        wait_ns = crn_gate_ask(g, 65536, *now);
        sent += wait_ns == 0 ? 65536 : 0;
        *now += wait_ns;
    }
    return sent;
}

static void calm_is_less_than_the_cap(void **state)
{
    struct crn_gate g;
    int64_t now = SECOND;

    (void)state;
    crn_gate_init(&g, 100000000, 0, NULL, NULL);
    crn_gate_calm(&g, 10000000, now);
    assert_in_range(in_a_second(&g, &now), 9900000, 10400000);
    assert_int_equal(crn_gate_step(&g), 1 << 20);
    crn_gate_calm(&g, 400000, now);
    assert_int_equal(crn_gate_step(&g), 65536);
    crn_gate_calm(&g, 1000000000, now); /* the cap still applies */
    assert_in_range(in_a_second(&g, &now), 99000000, 103000000);
    crn_gate_calm(&g, 0, now);
    assert_in_range(in_a_second(&g, &now), 99000000, 103000000);
    crn_gate_fini(&g);
}

/* The cap holds however often the rate changes between calm and full. */
static void changes_do_not_lift_the_cap(void **state)
{
    struct crn_gate g;
    int64_t now = SECOND;
    uint64_t sent = 0;
    int64_t wait_ns;
    int i;

    (void)state;
    crn_gate_init(&g, 10000000, 0, NULL, NULL);
    for (i = 0; now < 11 * SECOND; i++) {
        crn_gate_calm(&g, i % 2 == 0 ? 1000000000 : 0, now);
        wait_ns = crn_gate_ask(&g, 65536, now);
        sent += wait_ns == 0 ? 65536 : 0;
        now += wait_ns;
    }
    assert_in_range(sent, 99000000, 101000000);
    /* After a calm period at a tenth of the rate, the outstanding wait shrinks to what the cap
     * requires. */
    crn_gate_calm(&g, 1000000, now);
    assert_int_equal(crn_gate_ask(&g, 1000000, now), 0); /* a second's worth, less the catch-up */
    crn_gate_calm(&g, 0, now);
    assert_in_range(crn_gate_ask(&g, 1, now), 95 * MS, 100 * MS);
    crn_gate_fini(&g);
}

/* When the calm rate is lifted, its outstanding wait is dropped. The time spent waiting is still
 * counted. */
static void a_hurry_begins_at_once(void **state)
{
    struct crn_gate g;

    (void)state;
    crn_gate_init(&g, 0, 0, NULL, NULL);
    crn_gate_calm(&g, 1, SECOND);
    assert_int_equal(crn_gate_ask(&g, 1 << 20, SECOND), 0);
    assert_true(crn_gate_ask(&g, 1, 2 * SECOND) > 3600 * SECOND);
    assert_true(crn_gate_ask(&g, 1, 3 * SECOND) > 3600 * SECOND);
    assert_int_equal(crn_gate_waited_ns(&g), 0);
    crn_gate_calm(&g, 0, 4 * SECOND);
    assert_int_equal(crn_gate_ask(&g, 1 << 20, 4 * SECOND), 0);
    assert_int_equal(crn_gate_ask(&g, 1 << 20, 4 * SECOND), 0);
    assert_int_equal(crn_gate_waited_ns(&g), 2 * SECOND);
    assert_int_equal(crn_gate_waited_ns(NULL), 0);
    crn_gate_fini(&g);
}

static void *waiter(void *arg)
{
    crn_gate_pass(arg, 1 << 20);
    return NULL;
}

static void waiting_threads(void **state)
{
    pthread_t thread;
    struct crn_gate g;
    int busy = 1;

    (void)state;
    crn_gate_init(&g, 1, 3600 * SECOND, flag, &busy); /* would wait forever */
    assert_int_equal(crn_gate_step(&g), 65536);
    assert_int_equal(pthread_create(&thread, NULL, waiter, &g), 0);
    crn_gate_open(&g);
    assert_int_equal(pthread_join(thread, NULL), 0);
    crn_gate_fini(&g);
    crn_gate_init(&g, 0, 0, NULL, NULL);
    assert_true(crn_gate_step(&g) == UINT64_MAX);
    crn_gate_pass(&g, UINT64_MAX);
    /* Calm forever, until the rate is lifted. */
    crn_gate_calm(&g, 1, crn_clock_real()->mono_ns(crn_clock_real()));
    crn_gate_pass(&g, 1 << 20);
    assert_int_equal(pthread_create(&thread, NULL, waiter, &g), 0);
    crn_gate_calm(&g, 0, crn_clock_real()->mono_ns(crn_clock_real()));
    assert_int_equal(pthread_join(thread, NULL), 0);
    crn_gate_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cap_holds),
        cmocka_unit_test(late_wake_ups_cost_nothing),
        cmocka_unit_test(the_application_goes_first),
        cmocka_unit_test(patience_is_shared),
        cmocka_unit_test(calm_is_less_than_the_cap),
        cmocka_unit_test(changes_do_not_lift_the_cap),
        cmocka_unit_test(a_hurry_begins_at_once),
        cmocka_unit_test(waiting_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
