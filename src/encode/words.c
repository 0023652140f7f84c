/* SPDX-License-Identifier: BSD-3-Clause */
/* Instantiates the loops of words_loops.h for every width, and dispatches by width. */
#include "encode/words.h"

#include "encode/simd.h"

#define WORD    crn_u64
#define SIGNED  int64_t
#define BITS    64
#define NAME(x) x##_64
#include "encode/words_loops.h"

#define WORD    crn_u32
#define SIGNED  int32_t
#define BITS    32
#define NAME(x) x##_32
#include "encode/words_loops.h"

#define WORD    crn_u16
#define SIGNED  int16_t
#define BITS    16
#define NAME(x) x##_16
#include "encode/words_loops.h"

#define WORD    uint8_t
#define SIGNED  int8_t
#define BITS    8
#define NAME(x) x##_8
#include "encode/words_loops.h"

/* unfold_32 along a row, four sums at a time. */
CRN_WIDE static void unfold_row_32(unsigned char *restrict dst, const unsigned char *restrict src,
                                   size_t n)
{
    typedef uint32_t four __attribute__((vector_size(16)));
    four before = {0};
    size_t i = 0;
    four x;

    for (; i + 4 <= n; i += 4) {
        memcpy(&x, src + 4 * i, sizeof(x));
        x = (x >> 1) ^ -(x & 1);
        x += (four){0, x[0], x[1], x[2]};
        x += (four){0, 0, x[0], x[1]};
        x += before;
        memcpy(dst + 4 * i, &x, sizeof(x));
        before = (four){x[3], x[3], x[3], x[3]};
    }
    for (; i < n; i++) {
        before[0] += unfolded_32(crn_load32(src + 4 * i));
        memcpy(dst + 4 * i, &before, 4);
    }
}

#define DISPATCH(f, width, ...)                                                                    \
    do {                                                                                           \
        if ((width) == 8)                                                                          \
            f##_64(__VA_ARGS__);                                                                   \
        else if ((width) == 4)                                                                     \
            f##_32(__VA_ARGS__);                                                                   \
        else if ((width) == 2)                                                                     \
            f##_16(__VA_ARGS__);                                                                   \
        else                                                                                       \
            f##_8(__VA_ARGS__);                                                                    \
    } while (0)

void crn_words_order(unsigned width, void *dst, const void *src, size_t n)
{
    DISPATCH(order, width, dst, src, n);
}

void crn_words_reorder(unsigned width, void *x, size_t n)
{
    DISPATCH(reorder, width, x, n);
}

void crn_words_add(unsigned width, void *x, const void *b, size_t n)
{
    DISPATCH(add, width, x, b, n);
}

void crn_words_subtract(unsigned width, void *x, const void *b, size_t n)
{
    DISPATCH(subtract, width, x, b, n);
}

void crn_words_difference(unsigned width, void *dst, const void *src, size_t n, size_t stride)
{
    DISPATCH(difference, width, dst, src, n, stride);
}

void crn_words_sum(unsigned width, void *x, size_t n, size_t stride)
{
    DISPATCH(sum, width, x, n, stride);
}

void crn_words_sum_reorder(unsigned width, void *x, size_t n, size_t stride)
{
    DISPATCH(sum_reorder, width, x, n, stride);
}

void crn_words_fold(unsigned width, void *dst, const void *src, size_t n, size_t stride)
{
    DISPATCH(fold, width, dst, src, n, stride);
}

void crn_words_unfold(unsigned width, void *dst, const void *src, size_t n, size_t stride)
{
    if (width == 4 && stride == 1)
        unfold_row_32(dst, src, n);
    else
        DISPATCH(unfold, width, dst, src, n, stride);
}
