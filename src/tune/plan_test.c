/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan, sizes within their limits, and the choice. */
#include "base/test.h"

#include "tune/tuner.h"

#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

static size_t plan(int is_full, enum crn_stage stage, struct crn_probe base, struct crn_probe *ret)
{
    struct crn_tune_options opt = crn_tune_defaults(is_full);
    size_t n = crn_tune_plan(&opt, stage, &base, ret);
    size_t i, k;

    assert_in_range(n, 1, CRN_STAGE_MAX);
    for (i = 0; i < n; i++) {
        assert_in_range(ret[i].writers, 1, 16);
        assert_in_range(ret[i].files, 1, 8);
        assert_int_equal(ret[i].bytes % ret[i].block_bytes, 0);
        assert_true(ret[i].bytes <= base.bytes);
        for (k = 0; k < i; k++)
            assert_memory_not_equal(&ret[i], &ret[k], sizeof(ret[i]));
    }
    return n;
}

static int has(const struct crn_probe *p, size_t n, uint32_t writers, uint32_t files,
               enum crn_layout layout)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (p[i].writers == writers && p[i].files == files && p[i].layout == layout)
            return 1;
    return 0;
}

static void test_stages(void **state)
{
    struct crn_probe base, p[CRN_STAGE_MAX];
    size_t n;
    int full;

    (void)state;
    memset(&base, 0, sizeof(base));
    base = (struct crn_probe){.writers = 4, .files = 2, .block_bytes = 2 * M, .bytes = 64 * M};
    for (full = 0; full < 2; full++) {
        n = plan(full, CRN_STAGE_THREADS, base, p);
        assert_true(has(p, n, 1, 1, CRN_INTERLEAVED) && !has(p, n, 1, 1, CRN_CONTIGUOUS));
        assert_true(has(p, n, 16, 1, CRN_INTERLEAVED) && has(p, n, 16, 1, CRN_CONTIGUOUS));
        assert_true(has(p, n, 8, 4, CRN_INTERLEAVED) && has(p, n, 8, 4, CRN_CONTIGUOUS));
        assert_int_equal(has(p, n, 16, 8, CRN_CONTIGUOUS), full);
        assert_int_equal(plan(full, CRN_STAGE_METHODS, base, p), CRN_METHODS * 3);
        n = plan(full, CRN_STAGE_BLOCKS, base, p);
        assert_int_equal(p[n - 1].block_bytes, base.block_bytes); /* 2 MiB is not in the sweep */
        assert_int_equal(p[n - 2].block_bytes, 16 * M); /* 64 MiB would give too few blocks */
        assert_int_equal(p[0].block_bytes, full ? CRN_BLOCK_MIN : M);
        assert_int_equal(plan(full, CRN_STAGE_RECEIVED, base, p), 4);
        assert_int_equal(p[3].received, 90);
        assert_int_equal(p[3].layout, CRN_INTERLEAVED);
    }
    base.writers = 16;
    assert_int_equal(plan(0, CRN_STAGE_METHODS, base, p), CRN_METHODS * 2); /* no 32 */
    base.writers = 1;
    assert_int_equal(plan(0, CRN_STAGE_METHODS, base, p), CRN_METHODS * 2); /* no 0 */
}

/* At any speed, the plan stays within the limits and the free space. */
static void test_sizes(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_tune_options opt = crn_tune_defaults(0);
    struct crn_probe p = {0};
    double rate = 1e4;
    int i;

    (void)state;
    for (i = 0; i < 8; i++) {
        rate *= 10;
        assert_ok(crn_tune_size(&opt, rate, 100 * G, &p, ei));
        assert_true(p.bytes <= opt.space_bytes);
        assert_true((crn_tune_runs(&opt) + 1) * p.bytes <= opt.written_bytes);
        assert_int_equal(p.bytes % (32 * p.block_bytes), 0);
        assert_true(p.bytes >= 32 * p.block_bytes);
        assert_true((double)p.bytes * crn_tune_runs(&opt) <= rate * opt.seconds ||
                    p.bytes == 32 * CRN_BLOCK_MIN);
    }
    opt.written_bytes = 100000 * G;
    opt.space_bytes = 100 * G;
    assert_ok(crn_tune_size(&opt, 1e13, 100 * G, &p, ei));
    assert_int_equal(p.block_bytes, CRN_BLOCK_BASE);
    assert_true(p.bytes <= 50 * G); /* never more than half of the free space */
    assert_ok(crn_tune_size(&opt, 1e13, 200 * M, &p, ei));
    assert_true(p.bytes <= 68 * M);
}

static void test_refused(void **state)
{
    struct crn_errinfo ei = {0};
    struct crn_tune_options opt = crn_tune_defaults(0);
    struct crn_probe p = {0};

    (void)state;
    assert_int_equal(crn_tune_size(&opt, 1e9, 70 * M, &p, &ei), CAIRN_ENOSPC);
    assert_non_null(strstr(ei.msg, "full"));
    assert_non_null(strstr(ei.msg, "70 MiB free"));
    assert_int_equal(crn_tune_size(&opt, 1e9, 0, &p, NULL), CAIRN_ENOSPC);
    opt.space_bytes = 7 * M;
    assert_int_equal(crn_tune_size(&opt, 1e9, 100 * G, &p, NULL), CAIRN_EINVAL);
    opt = crn_tune_defaults(0);
    opt.written_bytes = 100 * M;
    assert_int_equal(crn_tune_size(&opt, 1e9, 100 * G, &p, NULL), CAIRN_EINVAL);
}

static void test_median(void **state)
{
    struct crn_measure m = {0};
    int i;

    (void)state;
    crn_measure_add(&m, 5);
    assert_true(m.median == 5 && m.min == 5 && m.max == 5);
    crn_measure_add(&m, 1);
    assert_true(m.median == 3 && m.min == 1 && m.max == 5);
    crn_measure_add(&m, 100);
    assert_true(m.median == 5 && m.min == 1 && m.max == 100);
    for (i = 0; i < 100; i++)
        crn_measure_add(&m, 7);
    assert_int_equal(m.n, CRN_MAX_REPEATS);
    assert_true(m.median == 7);
}

static struct crn_measure of(double rate, uint32_t writers, uint32_t files, enum crn_method method)
{
    struct crn_measure m = {.probe = {.writers = writers, .files = files, .method = method}};

    if (rate > 0)
        crn_measure_add(&m, rate);
    return m;
}

static void test_choose(void **state)
{
    struct crn_measure m[6];

    (void)state;
    m[0] = of(100, 16, 4, CRN_BUFFERED);
    m[1] = of(97, 8, 4, CRN_BUFFERED);
    m[2] = of(96, 8, 1, CRN_DIRECT);
    m[3] = of(96, 8, 1, CRN_BEHIND);
    m[4] = of(94, 1, 1, CRN_BUFFERED);
    m[5] = of(0, 1, 1, CRN_BUFFERED); /* not measured */
    assert_ptr_equal(crn_tune_choose(m, 6), &m[3]);
    m[4] = of(95.5, 1, 1, CRN_BUFFERED); /* close enough and cheapest */
    assert_ptr_equal(crn_tune_choose(m, 6), &m[4]);
    m[0] = of(1000, 16, 8, CRN_DIRECT); /* far better */
    assert_ptr_equal(crn_tune_choose(m, 6), &m[0]);
    m[1] = m[0];
    m[0].probe.layout = CRN_CONTIGUOUS;
    m[1].probe.layout = CRN_INTERLEAVED;
    assert_ptr_equal(crn_tune_choose(m, 6), &m[1]);
    assert_null(crn_tune_choose(&m[5], 1));
    assert_null(crn_tune_choose(m, 0));
}

/* If repetitions differ much, smaller differences mean nothing. */
static void test_choose_noisy(void **state)
{
    struct crn_measure m[2];

    (void)state;
    m[0] = of(100, 8, 1, CRN_BUFFERED);
    m[1] = of(88, 2, 1, CRN_BUFFERED);
    assert_ptr_equal(crn_tune_choose(m, 2), &m[0]);
    crn_measure_add(&m[0], 115);
    crn_measure_add(&m[0], 85); /* +-15 % */
    assert_ptr_equal(crn_tune_choose(m, 2), &m[1]);
    crn_measure_add(&m[0], 10); /* an outlier does not make everything equal */
    m[1] = of(70, 2, 1, CRN_BUFFERED);
    assert_ptr_equal(crn_tune_choose(m, 2), &m[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),  cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_median),
        cmocka_unit_test(test_choose),  cmocka_unit_test(test_choose_noisy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
