/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"
#include "base/test.h"

static void round_trip(void **state)
{
    struct crn_buf b = {0};
    struct crn_view v;
    char s[8];

    (void)state;
    crn_buf_u8(&b, 7);
    crn_buf_u16(&b, 0x1234);
    crn_buf_u32(&b, 0xdeadbeef);
    crn_buf_u64(&b, 0x0102030405060708);
    crn_buf_str(&b, "cairn");
    crn_buf_set_u32(&b, 3, 42);
    assert_int_equal(b.failed, 0);
    assert_int_equal(b.len, 1 + 2 + 4 + 8 + 2 + 5);
    assert_int_equal(b.data[1], 0x34); /* little-endian */

    v = crn_view_of(b.data, b.len);
    assert_int_equal(crn_view_u8(&v), 7);
    assert_int_equal(crn_view_u16(&v), 0x1234);
    assert_int_equal(crn_view_u32(&v), 42);
    assert_int_equal(crn_view_u64(&v), 0x0102030405060708);
    crn_view_str(&v, s, sizeof(s));
    assert_string_equal(s, "cairn");
    assert_int_equal(crn_view_left(&v), 0);
    assert_int_equal(v.failed, 0);
    crn_buf_free(&b);
}

static void hostile_input_fails_once_and_for_all(void **state)
{
    static const unsigned char raw[] = {5, 0, 'a', 'b', 0, 'c', 'd', 9};
    struct crn_view v = crn_view_of(raw, sizeof(raw));
    char s[16];

    (void)state;
    crn_view_str(&v, s, sizeof(s)); /* contains a 0 byte */
    assert_true(v.failed);
    assert_int_equal(crn_view_u8(&v), 0);

    v = crn_view_of(raw, sizeof(raw));
    crn_view_str(&v, s, 5); /* too long for the destination */
    assert_true(v.failed);

    v = crn_view_of(raw, 3);
    crn_view_str(&v, s, sizeof(s)); /* truncated */
    assert_true(v.failed);
    assert_null(crn_view_take(&v, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(hostile_input_fails_once_and_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
