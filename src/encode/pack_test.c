/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed bytes are restored, whatever they are; every truncation and many changes are refused,
 * or give as many bytes as promised. */
#include "base/test.h"

#include "base/rng.h"
#include "encode/pack.h"

/* Something like an index: names, then records of six numbers. */
static size_t fill(unsigned char *p, size_t n)
{
    size_t at = 0;
    uint64_t i;

    for (i = 0; at + 40 < n / 2; i++)
        at += (size_t)snprintf((char *)p + at, 40, "Grid%05u/Density", (unsigned)i);
    for (i = 0; at + 40 <= n; i++) {
        uint64_t record[5] = {i, 0, 2048, 8192 * i, 3 * i};

        memcpy(p + at, record, sizeof(record));
        at += sizeof(record);
    }
    return at;
}

static void packed_comes_back(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 131072, 131073, 700000};
    unsigned char *src = malloc(700000);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_pipe gzip;
    int has_gzip = crn_pipe_parse("gzip", &gzip, NULL) == CAIRN_OK;
    size_t i;
    int k;

    (void)state;
    assert_non_null(src);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (k = 0; k <= has_gzip; k++) {
            size_t n = fill(src, sizes[i]);
            struct crn_buf packed = {0}, plain = {0};

            assert_ok(crn_pack(src, n, k ? &gzip : NULL, &packed, ei));
            assert_true(n < 5000 || packed.len < n / 4);
            assert_ok(crn_unpack(crn_view_of(packed.data, packed.len), n, &plain, ei));
            assert_int_equal(plain.len, n);
            if (n > 0)
                assert_memory_equal(plain.data, src, n);
            crn_buf_free(&packed);
            crn_buf_free(&plain);
        }
    free(src);
}

static void damage_is_refused(void **state)
{
    unsigned char src[6000];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf packed = {0};
    struct crn_rng rng;
    size_t n = fill(src, sizeof(src));
    size_t i;

    (void)state;
    crn_rng_seed(&rng, 4);
    assert_ok(crn_pack(src, n, NULL, &packed, ei));
    for (i = 0; i < packed.len; i++) {
        struct crn_buf plain = {0};

        assert_int_not_equal(crn_unpack(crn_view_of(packed.data, i), n, &plain, NULL), CAIRN_OK);
        crn_buf_free(&plain);
    }
    for (i = 0; i < 2000; i++) {
        size_t at = crn_rng_below(&rng, packed.len);
        unsigned char was = packed.data[at];
        struct crn_buf plain = {0};

        packed.data[at] = (unsigned char)crn_rng_u64(&rng);
        if (crn_unpack(crn_view_of(packed.data, packed.len), n, &plain, NULL) == CAIRN_OK)
            assert_int_equal(plain.len, n);
        packed.data[at] = was;
        crn_buf_free(&plain);
    }
    crn_buf_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_comes_back),
        cmocka_unit_test(damage_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
