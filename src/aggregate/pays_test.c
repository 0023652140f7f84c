/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether encoding pays: nothing is encoded before the bandwidth is known, nor where the model or
 * the measured time is against it; a file that did not pay is followed by ever more plain ones. */
#include "base/test.h"

#include "aggregate/pays.h"

#define MB      ((uint64_t)1000000)
#define SIZE    (100 * MB)
#define SECOND  1000000000LL
#define THREADS 2

/* The time of SIZE bytes at so many MB/s. */
static int64_t ns_at(double rate)
{
    return (int64_t)((double)SIZE / rate * 1000);
}

static int plain(struct crn_pays *p, const char *name, double rate)
{
    crn_pays_plain(p, name, SIZE, ns_at(rate));
    return crn_pays(p, name, SIZE, THREADS);
}

static void the_bandwidth_comes_first(void **state)
{
    struct crn_pays p = {0};

    (void)state;
    assert_false(crn_pays(&p, "a", SIZE, THREADS));
    assert_true(plain(&p, "a", 100));
    assert_true(crn_pays(&p, "b", SIZE, THREADS)); /* all names have the same file system */
    assert_false(crn_pays(&p, "a", 100000, THREADS));
    assert_false(crn_pays(&p, "a", SIZE, 0)); /* no core is idle */
}

static void fast_file_systems_get_plain_files(void **state)
{
    struct crn_pays p = {0};
    int i;

    (void)state;
    for (i = 0; i < 1000; i++)
        assert_false(plain(&p, "a", 10000));
    assert_true(crn_pays(&p, "a", SIZE, 200)); /* so many threads are faster */
}

/* Files are encoded as long as that pays. One in some is plain nevertheless, to measure again. */
static void what_pays_goes_on(void **state)
{
    struct crn_pays p = {0};
    int encoded = 0, i;

    (void)state;
    crn_pays_plain(&p, "a", SIZE, ns_at(100));
    for (i = 0; i < 330; i++) {
        if (crn_pays(&p, "a", SIZE, THREADS)) {
            encoded++;
            crn_pays_encoded(&p, "a", SIZE, SIZE / 2, ns_at(120), ns_at(300));
        } else {
            crn_pays_plain(&p, "a", SIZE, ns_at(100));
        }
    }
    assert_int_equal(encoded, 320);
}

/* Returns how many of 1000 files were encoded. */
static int encoded_of(uint64_t file_bytes, double rate)
{
    struct crn_pays p = {0};
    int encoded = 0, i;

    crn_pays_plain(&p, "a", SIZE, ns_at(100));
    for (i = 0; i < 1000; i++) {
        if (crn_pays(&p, "a", SIZE, THREADS)) {
            encoded++;
            crn_pays_encoded(&p, "a", SIZE, file_bytes, ns_at(rate), ns_at(300));
        } else {
            crn_pays_plain(&p, "a", SIZE, ns_at(100));
        }
    }
    return encoded;
}

static void what_does_not_pay_is_tried_less_and_less(void **state)
{
    (void)state;
    assert_in_range(encoded_of(SIZE / 2, 90), 2, 20);           /* later than plain */
    assert_in_range(encoded_of(SIZE - SIZE / 100, 100), 2, 20); /* noise */
    assert_in_range(encoded_of(SIZE / 2, 98), 950, 1000);       /* within what may be lost */
}

/* Data that begins to compress is found again, and what was learnt of one name is not said of
 * another. */
static void names_differ(void **state)
{
    struct crn_pays p = {0};
    int waits = 0;
    char name[16];
    int i;

    (void)state;
    crn_pays_plain(&p, "noise", SIZE, ns_at(100));
    for (i = 0; i < 10; i++)
        crn_pays_encoded(&p, "noise", SIZE, SIZE, ns_at(100), ns_at(300));
    assert_false(crn_pays(&p, "noise", SIZE, THREADS));
    assert_true(crn_pays(&p, "wave", SIZE, THREADS));
    while (!crn_pays(&p, "noise", SIZE, THREADS)) {
        crn_pays_plain(&p, "noise", SIZE, ns_at(100));
        waits++;
    }
    assert_in_range(waits, 2, 64);
    for (i = 0; i < 3 * CRN_PAYS_NAMES; i++) { /* more names than are remembered */
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_true(crn_pays(&p, name, SIZE, THREADS));
    }
}

/* Sizes and times of nothing do no harm. */
static void nothing_is_learnt_of_nothing(void **state)
{
    struct crn_pays p = {0};

    (void)state;
    crn_pays_plain(&p, "a", 0, 0);
    crn_pays_plain(&p, "a", 100, SECOND);
    crn_pays_plain(&p, "a", SIZE, 0);
    assert_false(crn_pays(&p, "a", SIZE, THREADS));
    assert_true(p.bandwidth == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bandwidth_comes_first),
        cmocka_unit_test(fast_file_systems_get_plain_files),
        cmocka_unit_test(what_pays_goes_on),
        cmocka_unit_test(what_does_not_pay_is_tried_less_and_less),
        cmocka_unit_test(names_differ),
        cmocka_unit_test(nothing_is_learnt_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
