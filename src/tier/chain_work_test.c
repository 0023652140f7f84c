/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain's cost is proportional to the history: twice the checkpoints, about twice the items
 * examined. The test counts them instead of measuring time. */
#include "base/test.h"

#include "tier/chain_impl.h"

#define PAGE ((uint64_t)4096)

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct scene {
    const char *name;
    uint64_t host; /* checkpoints that fit in the middle tier; 0: all of them */
    int reverse;   /* order of the reads */
    int stale;     /* hints that never come true, before all others */
    int failing;   /* every so many-th background copy fails; 0: none */
    int discard;
    int twice;         /* two hints for each checkpoint */
    int external_only; /* an earlier run left all checkpoints */
};

static const struct scene scenes[] = {
    {.name = "all in memory"},
    {.name = "all in memory, backwards", .reverse = 1},
    {.name = "more than fits", .host = 32},
    {.name = "more than fits, backwards", .host = 32, .reverse = 1},
    {.name = "hints of what is never read", .stale = 8},
    {.name = "the same, more than fits", .host = 32, .stale = 8, .reverse = 1},
    {.name = "copies fail", .failing = 7},
    {.name = "read once", .discard = 1},
    {.name = "hinted twice", .twice = 1},
    {.name = "of an earlier run", .external_only = 1},
};

static struct crn_chain *open_chain(const struct scene *s, uint64_t n)
{
    struct crn_chain_options opt = {.ntiers = 3, .discard_consumed = s->discard};
    struct crn_chain *c;

    opt.tier[0] = (struct crn_chain_tier){.capacity = 16 * PAGE, .depth = 2};
    opt.tier[1] = (struct crn_chain_tier){.capacity = (s->host != 0 ? s->host : n + 64) * PAGE};
    opt.tier[2] = (struct crn_chain_tier){.capacity = UINT64_MAX, .is_external = 1};
    assert_ok(crn_chain_open(&opt, &c, ei));
    return c;
}

/* Runs all background copies that are due now. */
static void run_background(struct crn_chain *c, const struct scene *s, int64_t *now, long *copies)
{
    struct crn_tier_transfer t;
    int is_busy = 1;

    while (is_busy) {
        is_busy = 0;
        if (crn_chain_down(c, 0, *now, &t) || crn_chain_up(c, 0, *now, &t) ||
            crn_chain_up(c, 1, *now, &t)) {
            cairn_err rc = s->failing != 0 && ++*copies % s->failing == 0 ? CAIRN_EBUSY : CAIRN_OK;

            (void)crn_chain_done(c, &t, rc, *now += 1000);
            is_busy = 1;
        }
        (void)crn_chain_retry_ns(c, *now);
    }
}

static void write_one(struct crn_chain *c, const struct scene *s, uint64_t key, int64_t *now,
                      long *copies)
{
    struct crn_tier_transfer t;

    crn_err_clear(ei);
    while (crn_chain_write(c, key, PAGE, 0, *now, &t, ei) == CAIRN_EBUSY) {
        crn_err_clear(ei);
        *now += RETRY_MAX; /* failed copies are retried */
        run_background(c, s, now, copies);
    }
    assert_int_equal(ei->code, CAIRN_OK);
    assert_int_equal(crn_chain_done(c, &t, CAIRN_OK, *now += 1000), CAIRN_OK);
    run_background(c, s, now, copies);
}

static void read_one(struct crn_chain *c, const struct scene *s, uint64_t key, int64_t *now,
                     long *copies)
{
    struct crn_tier_transfer t;
    cairn_err rc;

    crn_err_clear(ei);
    rc = crn_chain_read(c, key, *now, &t, ei);
    assert_true(rc == CAIRN_OK || rc == CAIRN_ENOENT); /* only on the external tier */
    if (rc == CAIRN_OK)
        assert_int_equal(crn_chain_done(c, &t, CAIRN_OK, *now += 1000), CAIRN_OK);
    run_background(c, s, now, copies);
}

/* A forward pass over n checkpoints and a backward pass. */
static uint64_t play(const struct scene *s, uint64_t n)
{
    struct crn_chain *c = open_chain(s, n);
    int64_t now = 1;
    long copies = 0;
    uint64_t work;
    uint64_t i;
    int k;

    for (i = 0; i < (uint64_t)s->stale; i++) {
        assert_ok(crn_chain_hint(c, n + i, ei));
        write_one(c, s, n + i, &now, &copies);
        crn_chain_flushed(c, n + i);
    }
    for (k = 0; k <= s->twice; k++)
        for (i = 0; i < n; i++)
            assert_ok(crn_chain_hint(c, s->reverse ? n - 1 - i : i, ei));
    for (i = 0; i < n; i++) {
        if (s->external_only)
            assert_ok(crn_chain_adopt(c, i, PAGE, 0, ei));
        else
            write_one(c, s, i, &now, &copies);
        crn_chain_flushed(c, i);
    }
    crn_chain_start(c);
    run_background(c, s, &now, &copies);
    for (k = 0; k <= s->twice; k++)
        for (i = 0; i < n; i++)
            read_one(c, s, s->reverse ? n - 1 - i : i, &now, &copies);
    work = crn_chain_work(c);
    crn_chain_close(c);
    return work;
}

static void test_proportional(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        uint64_t once = play(&scenes[i], 1000);
        uint64_t twice = play(&scenes[i], 2000);

        if (getenv("VERBOSE") != NULL)
            print_message("%s: %llu %llu\n", scenes[i].name, (unsigned long long)once,
                          (unsigned long long)twice);
        if (twice > once * 5 / 2)
            fail_msg("%s: %llu steps for 1000 checkpoints, %llu for 2000", scenes[i].name,
                     (unsigned long long)once, (unsigned long long)twice);
    }
}

/* A tier that lost its device reports each checkpoint once, and examines each once. */
static void test_lost(void **state)
{
    uint64_t work[2];
    uint64_t n;

    (void)state;
    for (n = 1; n <= 2; n++) {
        const struct scene s = {0};
        struct crn_chain *c = open_chain(&s, 1000 * n);
        uint64_t key;
        uint64_t i;
        uint64_t told = 0;
        int64_t now = 1;
        long copies = 0;

        for (i = 0; i < 1000 * n; i++)
            write_one(c, &s, i, &now, &copies);
        work[n - 1] = crn_chain_work(c);
        crn_chain_lost(c, 0);
        crn_chain_lost(c, 1);
        while (crn_chain_next_lost(c, &key))
            told++;
        assert_int_equal(told, 1000 * n);
        work[n - 1] = crn_chain_work(c) - work[n - 1];
        crn_chain_close(c);
    }
    assert_true(work[1] <= work[0] * 5 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proportional),
        cmocka_unit_test(test_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
