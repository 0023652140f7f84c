/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "base/err.h"
#include "base/test.h"
#include "format/format.h"
#include "cli/compare.h"

static const struct cli_tolerance none;

static struct cli_difference compare(uint8_t type, const void *a, const void *b, uint64_t n,
                                     struct cli_tolerance tolerance)
{
    struct cli_difference d = {0};

    crn_compare(type, a, b, n, 0, &tolerance, &d);
    return d;
}

static void bits_count_without_tolerance(void **state)
{
    const double a[] = {0.0, 1, NAN, 4}, b[] = {-0.0, 1, NAN, 5};
    struct cli_difference d = compare(CAIRN_F64, a, b, 4, none);

    (void)state;
    assert_int_equal(d.elements, 4);
    assert_int_equal(d.differing, 2); /* -0.0 is a different pattern; the same NaN is equal */
    assert_int_equal(d.first, 0);
    assert_true(d.max_absolute == 1);
    assert_true(d.max_relative == 0.2);
    d = compare(CAIRN_F64, a, b, 4, (struct cli_tolerance){.absolute = 0.5});
    assert_int_equal(d.differing, 1);
    assert_int_equal(d.first, 3);
}

static void a_nan_is_far_from_every_number(void **state)
{
    const float a[] = {1, INFINITY, INFINITY}, b[] = {NAN, -INFINITY, 1};
    struct cli_difference d =
        compare(CAIRN_F32, a, b, 3, (struct cli_tolerance){.absolute = 1e30, .relative = 0.5});

    (void)state;
    assert_int_equal(d.differing, 3);
    assert_true(isinf(d.max_absolute));
}

static void integers_do_not_lose_bits(void **state)
{
    const int64_t a[] = {INT64_MIN, INT64_MAX}, b[] = {INT64_MAX, INT64_MAX - 1};
    const uint64_t x[] = {UINT64_MAX}, y[] = {UINT64_MAX - 1};
    struct cli_difference d = compare(CAIRN_I64, a, b, 2, none);

    (void)state;
    assert_int_equal(d.differing, 2);
    assert_true(d.max_absolute == 18446744073709551615.0);
    d = compare(CAIRN_U64, x, y, 1, none);
    assert_int_equal(d.differing, 1);
    assert_true(d.max_absolute == 1);
}

static void complex_numbers_by_their_modulus(void **state)
{
    const double a[] = {3, 0, 0, 0}, b[] = {0, 4, 0, 0};
    struct cli_difference d = compare(CAIRN_C128, a, b, 2, none);

    (void)state;
    assert_int_equal(d.differing, 1);
    assert_true(d.max_absolute == 5);
}

static void half_floats_are_numbers(void **state)
{
    /* 1, -2, the smallest subnormal, infinity; then 1.5, -2, 0, infinity */
    const uint16_t a[] = {0x3c00, 0xc000, 0x0001, 0x7c00}, b[] = {0x3e00, 0xc000, 0x0000, 0x7c00};
    const uint16_t c[] = {0x3f80}, d[] = {0xbf80}; /* bf16: 1 and -1 */
    struct cli_difference x = compare(CAIRN_F16, a, b, 4, none);

    (void)state;
    assert_int_equal(x.differing, 2);
    assert_true(x.max_absolute == 0.5);
    x = compare(CAIRN_F16, a + 2, b + 2, 1, none);
    assert_true(x.max_absolute == 0x1p-24);
    x = compare(CAIRN_BF16, c, d, 1, none);
    assert_true(x.max_absolute == 2);
}

static void every_type_has_its_size(void **state)
{
    unsigned char a[160] = {0}, b[160] = {0};
    int type;

    (void)state;
    for (type = CAIRN_BYTES; type < CRN_TYPES; type++) {
        size_t size = cairn_type_size((cairn_type)type);
        struct cli_difference d;

        memset(b, 0, sizeof(b));
        b[7 * size] = 1; /* element 7 of 10 */
        d = compare((uint8_t)type, a, b, 10, none);
        assert_int_equal(d.differing, 1);
        assert_int_equal(d.first, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_count_without_tolerance),
        cmocka_unit_test(a_nan_is_far_from_every_number),
        cmocka_unit_test(integers_do_not_lose_bits),
        cmocka_unit_test(complex_numbers_by_their_modulus),
        cmocka_unit_test(half_floats_are_numbers),
        cmocka_unit_test(every_type_has_its_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
