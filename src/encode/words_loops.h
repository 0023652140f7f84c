/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of words.c for one width, included once for each. The includer defines WORD
 * (unsigned, of any alignment), SIGNED, BITS and NAME(x). */

/* Negative numbers are stored as sign and magnitude: flipping the magnitude puts them in order. */
CRN_INLINE WORD NAME(ordered)(WORD x)
{
    return (WORD)(x ^ ((WORD)((SIGNED)x >> (BITS - 1)) >> 1));
}

CRN_INLINE WORD NAME(folded)(WORD x)
{
    return (WORD)((WORD)(x << 1) ^ (WORD)((SIGNED)x >> (BITS - 1)));
}

CRN_INLINE WORD NAME(unfolded)(WORD x)
{
    return (WORD)((x >> 1) ^ (WORD)(0 - (x & 1)));
}

CRN_WIDE static void NAME(order)(WORD *restrict dst, const WORD *restrict src, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        dst[i] = NAME(ordered)(src[i]);
}

CRN_WIDE static void NAME(reorder)(WORD *x, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        x[i] = NAME(ordered)(x[i]);
}

CRN_WIDE static void NAME(add)(WORD *restrict x, const WORD *restrict b, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        x[i] = (WORD)(x[i] + b[i]);
}

CRN_WIDE static void NAME(subtract)(WORD *restrict x, const WORD *restrict b, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        x[i] = (WORD)(x[i] - b[i]);
}

CRN_WIDE static void NAME(difference)(WORD *restrict dst, const WORD *restrict src, size_t n,
                                      size_t stride)
{
    size_t i;

    for (i = 0; i < n && i < stride; i++)
        dst[i] = src[i];
    for (i = stride; i < n; i++)
        dst[i] = (WORD)(src[i] - src[i - stride]);
}

/* With a short stride each sum depends on the last one; with a long one, rows add up
 * independently. */
static void NAME(sum)(WORD *x, size_t n, size_t stride)
{
    WORD a = 0;
    size_t i;

    if (stride == 1)
        for (i = 0; i < n; i++)
            x[i] = a = (WORD)(a + x[i]);
    else if (stride < 8)
        for (i = stride; i < n; i++)
            x[i] = (WORD)(x[i] + x[i - stride]);
    else
        for (i = stride; i < n; i += stride)
            NAME(add)(x + i, x + i - stride, n - i < stride ? n - i : stride);
}

/* A row is reordered after it was added to the next. */
static void NAME(sum_reorder)(WORD *x, size_t n, size_t stride)
{
    size_t i = 0;

    if (stride < 8) {
        NAME(sum)(x, n, stride);
        stride = n;
    }
    for (; n - i > stride; i += stride) {
        NAME(add)(x + i + stride, x + i, n - i - stride < stride ? n - i - stride : stride);
        NAME(reorder)(x + i, stride);
    }
    NAME(reorder)(x + i, n - i);
}

CRN_WIDE static void NAME(fold)(WORD *restrict dst, const WORD *restrict src, size_t n,
                                size_t stride)
{
    size_t i;

    for (i = 0; i < n && i < stride; i++)
        dst[i] = NAME(folded)(src[i]);
    for (i = stride; i < n; i++)
        dst[i] = NAME(folded)((WORD)(src[i] - src[i - stride]));
}

CRN_WIDE static void NAME(unfold)(WORD *restrict dst, const WORD *restrict src, size_t n,
                                  size_t stride)
{
    WORD a = 0;
    size_t i;

    if (stride == 1) {
        for (i = 0; i < n; i++)
            dst[i] = a = (WORD)(a + NAME(unfolded)(src[i]));
        return;
    }
    for (i = 0; i < n; i++)
        dst[i] = NAME(unfolded)(src[i]);
    NAME(sum)(dst, n, stride);
}

#undef WORD
#undef SIGNED
#undef BITS
#undef NAME
