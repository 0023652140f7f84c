/* SPDX-License-Identifier: BSD-3-Clause */
/* The Lorenzo predictor on floating-point values. Differences of numbers, not of their ordered
 * integers, hold across powers of two and signs. Every machine must predict the same bits. So IEEE
 * arithmetic is used, each operation rounded to its type and to nearest, with subnormals, whatever
 * the program has set; this file is compiled without contraction; and a NaN predicts zero. */
#include "encode/lorenzo_values.h"

#include <fenv.h>
#include <float.h>
#include <string.h>

#include "encode/simd.h"

_Static_assert(FLT_EVAL_METHOD == 0, "predictions must be rounded to the type of the numbers");

#define BLOCK   256
#define ROWS    4 /* at once */
#define ROW_MIN 4 /* words */

/* Where a word of a run is in its row (column: in its plane), that is the next longer stride. */
static size_t row_place(const struct crn_values *v, unsigned level, size_t at)
{
    return level > 0 ? at % v->stride[level - 1] : at;
}

/* The words from there to the end of the row, at most n. */
static size_t row_left(const struct crn_values *v, unsigned level, size_t at, size_t n)
{
    return level > 0 && v->stride[level - 1] - at < n ? v->stride[level - 1] - at : n;
}

typedef double __attribute__((aligned(1), may_alias)) real64;
typedef float __attribute__((aligned(1), may_alias)) real32;

#define REAL    real64
#define WORD    crn_u64
#define SIGNED  int64_t
#define BITS    64
#define NAME(x) x##_64
#include "encode/lorenzo_values_loops.h"

#define REAL    real32
#define WORD    crn_u32
#define SIGNED  int32_t
#define BITS    32
#define NAME(x) x##_32
#include "encode/lorenzo_values_loops.h"

void crn_lorenzo_values_encode(const struct crn_values *v, unsigned width, const void *src,
                               size_t n, void *dst, void *tmp)
{
    fenv_t before;

    (void)fegetenv(&before);
    (void)fesetenv(FE_DFL_ENV);
    if (width == 8)
        encode_64(v, src, n, dst, tmp);
    else
        encode_32(v, src, n, dst, tmp);
    (void)fesetenv(&before);
}

void crn_lorenzo_values_decode(const struct crn_values *v, unsigned width, const void *src,
                               size_t n, void *dst, void *tmp)
{
    fenv_t before;

    (void)fegetenv(&before);
    (void)fesetenv(FE_DFL_ENV);
    if (width == 8)
        decode_64(v, src, n, dst, tmp);
    else
        decode_32(v, src, n, dst, tmp);
    (void)fesetenv(&before);
}

void crn_lorenzo_values_sample(const struct crn_values *v, unsigned width, const void *src,
                               size_t from, size_t n, void *dst, void *tmp)
{
    fenv_t before;

    (void)fegetenv(&before);
    (void)fesetenv(FE_DFL_ENV);
    if (width == 8)
        sample_64(v, src, from, n, dst, tmp);
    else
        sample_32(v, src, from, n, dst, tmp);
    (void)fesetenv(&before);
}
