/* SPDX-License-Identifier: BSD-3-Clause */
/* The field's laws, the plain arithmetic against the definition, and the fast one against both. With
 * ISA-L its own tables and encoder are the witness. */
#include "base/test.h"

#include "base/rng.h"
#include "protect/field.h"
#include "protect/scheme.h"

#ifdef CRN_WITH_ISAL
#include <isa-l/erasure_code.h>
#endif

static void test_laws(void **state)
{
    int a, b;

    (void)state;
    for (a = 0; a < 256; a++)
        for (b = 0; b < 256; b++) {
            uint8_t x = (uint8_t)a, y = (uint8_t)b;

            assert_int_equal(crn_field_mul(x, y), crn_field_mul(y, x));
            assert_int_equal(crn_field_mul(x, y ^ 1), crn_field_mul(x, y) ^ x);
#ifdef CRN_WITH_ISAL
            assert_int_equal(crn_field_mul(x, y), gf_mul(x, y));
#endif
        }
    for (a = 1; a < 256; a++)
        assert_int_equal(crn_field_mul((uint8_t)a, crn_field_inverse((uint8_t)a)), 1);
}

static void test_add(void **state)
{
    enum { N = 5000 };
    uint8_t src[N], plain[N], fast[N], before[N];
    struct crn_rng rng;
    size_t i, n;
    int f;

    (void)state;
    crn_rng_seed(&rng, 21);
    for (f = 0; f < 256; f++) {
        n = (size_t)(crn_rng_u64(&rng) % N);
        for (i = 0; i < N; i++) {
            src[i] = (uint8_t)crn_rng_u64(&rng);
            before[i] = plain[i] = fast[i] = (uint8_t)crn_rng_u64(&rng);
        }
        crn_field_add_plain(plain, src, (uint8_t)f, n);
        crn_field_add(fast, src, (uint8_t)f, n);
        for (i = 0; i < N; i++)
            assert_int_equal(plain[i],
                             i < n ? before[i] ^ crn_field_mul((uint8_t)f, src[i]) : before[i]);
        assert_memory_equal(plain, fast, N);
    }
}

static void test_invert(void **state)
{
    uint8_t m[16 * 16], inverse[16 * 16];
    struct crn_rng rng;
    uint32_t n, i, r, c;
    int inverted = 0;
    int round;

    (void)state;
    crn_rng_seed(&rng, 4);
    for (round = 0; round < 300; round++) {
        n = 1 + (uint32_t)(crn_rng_u64(&rng) % 16);
        for (i = 0; i < n * n; i++) /* many zeros, so that rows must be exchanged */
            m[i] = crn_rng_u64(&rng) % 2 == 0 ? 0 : (uint8_t)crn_rng_u64(&rng);
        memcpy(inverse, m, n * n);
        if (crn_field_invert(inverse, n) != 0)
            continue;
        inverted++;
        for (r = 0; r < n; r++)
            for (c = 0; c < n; c++) {
                uint8_t sum = 0;

                for (i = 0; i < n; i++)
                    sum ^= crn_field_mul(m[r * n + i], inverse[i * n + c]);
                assert_int_equal(sum, r == c);
            }
    }
    assert_true(inverted > 100);
    memset(m, 0, sizeof(m));
    assert_int_equal(crn_field_invert(m, 3), -1);
}

#ifdef CRN_WITH_ISAL
/* A stripe encoded by ISA-L's own encoder with the factors of the scheme. */
static void test_encoder(void **state)
{
    enum { K = 6, M = 3, BYTES = 4096 };
    static uint8_t data[K][BYTES], ours[M][BYTES], theirs[M][BYTES];
    struct crn_protection s = {CRN_SCHEME_RS, M};
    uint8_t *in[K], *out[M], factors[M * K], tables[M * K * 32];
    struct crn_rng rng;
    uint32_t c, r, i;

    (void)state;
    crn_rng_seed(&rng, 9);
    for (c = 0; c < K; c++) {
        in[c] = data[c];
        for (i = 0; i < BYTES; i++)
            data[c][i] = (uint8_t)crn_rng_u64(&rng);
    }
    for (r = 0; r < M; r++) {
        out[r] = theirs[r];
        for (c = 0; c < K; c++) {
            factors[r * K + c] = crn_scheme_factor(s, K, r, c);
            crn_field_add(ours[r], data[c], factors[r * K + c], BYTES);
        }
    }
    ec_init_tables(K, M, factors, tables);
    ec_encode_data(BYTES, K, M, tables, in, out);
    assert_memory_equal(ours, theirs, sizeof(ours));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_laws),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_invert),
#ifdef CRN_WITH_ISAL
        cmocka_unit_test(test_encoder),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
