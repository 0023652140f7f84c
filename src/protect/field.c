/* SPDX-License-Identifier: BSD-3-Clause */
/* The products of a factor come from two tables of 16 entries, for the halves of a byte. A factor of 1,
 * which is all that partner and xor use, needs no table. */
#include "protect/field.h"

#include <string.h>

#ifdef CRN_WITH_ISAL
#include <isa-l/erasure_code.h>
#endif

#define POLYNOMIAL 0x1d /* x^8 + x^4 + x^3 + x^2 + 1, without its first term */

uint8_t crn_field_mul(uint8_t a, uint8_t b)
{
    unsigned product = 0;
    unsigned x = a;

    for (; b != 0; b = (uint8_t)(b >> 1)) {
        if ((b & 1) != 0)
            product ^= x;
        x = (x << 1) ^ ((x & 0x80) != 0 ? 0x100U | POLYNOMIAL : 0U);
    }
    return (uint8_t)product;
}

/* a to the power 254: every element but 0 to the power 255 is 1. */
uint8_t crn_field_inverse(uint8_t a)
{
    uint8_t power = a;
    uint8_t result = 1;
    int i;

    for (i = 1; i < 8; i++) {
        power = crn_field_mul(power, power);
        result = crn_field_mul(result, power);
    }
    return result;
}

static void field_xor(uint8_t *restrict dst, const uint8_t *restrict src, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        dst[i] ^= src[i];
}

void crn_field_add_plain(uint8_t *dst, const uint8_t *src, uint8_t factor, size_t n)
{
    uint8_t low[16], high[16];
    size_t i;

    if (factor <= 1) {
        if (factor == 1)
            field_xor(dst, src, n);
        return;
    }
    for (i = 0; i < 16; i++) {
        low[i] = crn_field_mul(factor, (uint8_t)i);
        high[i] = crn_field_mul(factor, (uint8_t)(i << 4));
    }
    for (i = 0; i < n; i++)
        dst[i] ^= low[src[i] & 15] ^ high[src[i] >> 4];
}

void crn_field_add(uint8_t *dst, const uint8_t *src, uint8_t factor, size_t n)
{
#ifdef CRN_WITH_ISAL
    unsigned char tables[32];
    size_t part;

    if (factor > 1) {
        /* Its layout is that of ec_encode_data_update on this processor: since ISA-L 2.31 with GFNI not that of
         * gf_vect_mul_init. */
        ec_init_tables(1, 1, &factor, tables);
        for (; n > 0; n -= part, dst += part, src += part) {
            unsigned char *out = dst;

            part = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
            ec_encode_data_update((int)part, 1, 1, 0, tables, (unsigned char *)(uintptr_t)src,
                                  &out);
        }
        return;
    }
#endif
    crn_field_add_plain(dst, src, factor, n);
}

static void swap_rows(uint8_t *a, uint8_t *b, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        uint8_t t = a[i];

        a[i] = b[i];
        b[i] = t;
    }
}

static void scale_row(uint8_t *row, uint8_t factor, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        row[i] = crn_field_mul(row[i], factor);
}

/* Gauss and Jordan, in place: the column of the pivot becomes that of the inverse. Rows are exchanged
 * on the way, so columns are exchanged back at the end. */
int crn_field_invert(uint8_t *m, uint32_t n)
{
    uint32_t from[256];
    uint32_t c, r, i;

    for (c = 0; c < n; c++) {
        uint8_t pivot;

        for (r = c; r < n && m[(size_t)r * n + c] == 0; r++)
            ;
        if (r == n)
            return -1;
        from[c] = r;
        swap_rows(m + (size_t)c * n, m + (size_t)r * n, r == c ? 0 : n);
        pivot = m[(size_t)c * n + c];
        m[(size_t)c * n + c] = 1;
        scale_row(m + (size_t)c * n, crn_field_inverse(pivot), n);
        for (r = 0; r < n; r++) {
            uint8_t factor = m[(size_t)r * n + c];

            if (r == c)
                continue;
            m[(size_t)r * n + c] = 0;
            crn_field_add_plain(m + (size_t)r * n, m + (size_t)c * n, factor, n);
        }
    }
    for (c = n; c-- > 0;)
        for (i = 0; from[c] != c && i < n; i++) {
            uint8_t t = m[(size_t)i * n + c];

            m[(size_t)i * n + c] = m[(size_t)i * n + from[c]];
            m[(size_t)i * n + from[c]] = t;
        }
    return 0;
}
