/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of the formats. Encoded structures decode to the same. Damage is refused, even with a
 * valid checksum. Nothing is read beyond the input, which the asan build verifies. */
#include "format/test_random.h"
static void random_structures_come_back(void **state)
{
    struct crn_rng rng;
    unsigned round;
    size_t c;

    (void)state;
    crn_rng_seed(&rng, 1);
    for (c = 0; c < RANDOM_CODECS; c++)
        for (round = 0; round < 300; round++) {
            struct crn_errinfo info = {0}, *ei = &info;
            struct crn_buf a = {0}, b = {0};

            random_codecs[c].make(&rng, &a);
            assert_ok(random_codecs[c].again(a.data, a.len, &b, ei));
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.data, b.data, a.len);
            crn_buf_free(&a);
            crn_buf_free(&b);
        }
}

/* Recomputes length and checksum, so that only the fields can reveal the damage. */
static void reseal(unsigned char *data, size_t len)
{
    struct crn_buf b = {.data = data, .len = len, .cap = len};

    if (len < 40)
        return;
    crn_buf_set_u64(&b, 24, len);
    crn_buf_set_u64(&b, len - 8, crn_hash(data, len - 8));
}

/* A copy of exactly len bytes, so that the sanitizer detects the first read beyond. */
static unsigned char *exact(const void *data, size_t len)
{
    unsigned char *copy = malloc(len + 1);

    assert_non_null(copy);
    copy = realloc(copy, len > 0 ? len : 1);
    memcpy(copy, data, len);
    return copy;
}

static void refused(const struct codec *c, const unsigned char *data, size_t len)
{
    struct crn_errinfo info = {0};
    struct crn_buf out = {0};
    cairn_err rc = c->again(data, len, &out, &info);

    if (rc != CAIRN_EDAMAGED && rc != CAIRN_EFORMAT)
        fail_msg("%s of %zu bytes: %s", c->name, len, cairn_error_name(rc));
    crn_buf_free(&out);
}

/* Damage with a valid checksum is refused, or gives another valid object that encodes to the same
 * bytes. */
static void refused_or_exact(const struct codec *c, const unsigned char *data, size_t len)
{
    struct crn_errinfo info = {0};
    struct crn_buf out = {0};
    cairn_err rc = c->again(data, len, &out, &info);

    if (rc == CAIRN_OK) {
        assert_int_equal(out.len, len);
        assert_memory_equal(out.data, data, len);
    } else if (rc != CAIRN_EDAMAGED && rc != CAIRN_EFORMAT) {
        fail_msg("%s of %zu bytes: %s: %s", c->name, len, cairn_error_name(rc), info.msg);
    }
    crn_buf_free(&out);
}

static void every_flipped_byte_is_refused(void **state)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    struct crn_rng rng;
    size_t c, i, m;
    int round;

    (void)state;
    crn_rng_seed(&rng, 2);
    for (c = 0; c < RANDOM_CODECS; c++)
        for (round = 0; round < 4; round++) {
            struct crn_buf a = {0};
            unsigned char *data;

            random_codecs[c].make(&rng, &a);
            data = exact(a.data, a.len);
            for (i = 0; i < a.len; i++)
                for (m = 0; m < sizeof(masks); m++) {
                    memcpy(data, a.data, a.len);
                    data[i] ^= masks[m];
                    refused(&random_codecs[c], data, a.len);
                    if (i >= 8 && i < 24)
                        continue; /* versions and flags are tested below */
                    reseal(data, a.len);
                    refused_or_exact(&random_codecs[c], data, a.len);
                }
            free(data);
            crn_buf_free(&a);
        }
}

static void every_truncation_is_refused(void **state)
{
    struct crn_rng rng;
    size_t c, len;

    (void)state;
    crn_rng_seed(&rng, 3);
    for (c = 0; c < RANDOM_CODECS; c++) {
        struct crn_buf a = {0};

        random_codecs[c].make(&rng, &a);
        for (len = 0; len < a.len; len++) {
            unsigned char *data = exact(a.data, len);

            refused(&random_codecs[c], data, len);
            reseal(data, len);
            refused_or_exact(&random_codecs[c], data, len);
            free(data);
        }
        crn_buf_u8(&a, 0); /* one byte too many */
        refused(&random_codecs[c], a.data, a.len);
        reseal(a.data, a.len);
        refused(&random_codecs[c], a.data, a.len);
        crn_buf_free(&a);
    }
}

/* Random garbage after a valid header: its counts ask for more than the input holds. */
static void garbage_is_refused(void **state)
{
    struct crn_rng rng;
    unsigned round;
    size_t c, i;

    (void)state;
    crn_rng_seed(&rng, 4);
    for (c = 0; c < RANDOM_CODECS; c++)
        for (round = 0; round < 2000; round++) {
            struct crn_buf a = {0};
            size_t from, n;

            random_codecs[c].make(&rng, &a);
            from = 32 + (size_t)crn_rng_below(&rng, a.len - 32);
            n = 1 + (size_t)crn_rng_below(&rng, 9);
            for (i = from; i < a.len && i < from + n; i++)
                a.data[i] = crn_rng_below(&rng, 2) == 0 ? 0xff : (unsigned char)crn_rng_u64(&rng);
            reseal(a.data, a.len);
            refused_or_exact(&random_codecs[c], a.data, a.len);
            crn_buf_free(&a);
        }
}

static void versions_and_flags_are_obeyed(void **state)
{
    struct crn_rng rng;
    size_t c;

    (void)state;
    crn_rng_seed(&rng, 5);
    for (c = 0; c < RANDOM_CODECS; c++) {
        struct crn_errinfo info = {0}, *ei = &info;
        struct crn_buf a = {0}, out = {0};
        unsigned char flags;

        random_codecs[c].make(&rng, &a);
        flags = a.data[16];
        a.data[8] = CRN_FORMAT_MAJOR + 1;
        reseal(a.data, a.len);
        assert_int_equal(random_codecs[c].again(a.data, a.len, &out, ei), CAIRN_EFORMAT);
        assert_non_null(strstr(ei->msg, "format 2."));
        a.data[8] = CRN_FORMAT_MAJOR;
        a.data[16] = 8; /* an incompatible flag */
        reseal(a.data, a.len);
        assert_int_equal(random_codecs[c].again(a.data, a.len, &out, ei), CAIRN_EFORMAT);
        a.data[16] = flags;
        a.data[12] = 4; /* a compatible flag */
        a.data[10] = CRN_FORMAT_MINOR + 1;
        reseal(a.data, a.len);
        crn_err_clear(ei);
        assert_ok(random_codecs[c].again(a.data, a.len, &out, ei));
        crn_buf_free(&out);
        crn_buf_free(&a);
    }
}

/* A newer minor version may add fields at the end of the body. */
static void fields_of_a_newer_minor_version_are_passed_over(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf a = {0}, out = {0};
    struct crn_rng rng;

    (void)state;
    crn_rng_seed(&rng, 6);
    random_codec("manifest")->make(&rng, &a);
    crn_buf_u64(&a, 0);
    reseal(a.data, a.len);
    assert_int_equal(random_codec("manifest")->again(a.data, a.len, &out, ei), CAIRN_EDAMAGED);
    a.data[10] = CRN_FORMAT_MINOR + 1;
    reseal(a.data, a.len);
    crn_err_clear(ei);
    assert_ok(random_codec("manifest")->again(a.data, a.len, &out, ei));
    assert_int_equal(out.len, a.len - 8);
    crn_buf_free(&out);
    crn_buf_free(&a);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_structures_come_back),
        cmocka_unit_test(every_flipped_byte_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(versions_and_flags_are_obeyed),
        cmocka_unit_test(fields_of_a_newer_minor_version_are_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
