/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of lorenzo_values.c for one type, included once for each. The includer defines REAL (of
 * any alignment), WORD, SIGNED, BITS and NAME(x). */

CRN_INLINE WORD NAME(ordered)(WORD x)
{
    return (WORD)(x ^ ((WORD)((SIGNED)x >> (BITS - 1)) >> 1));
}

/* A prediction as an ordered integer. The payload of a NaN differs between machines. */
CRN_INLINE WORD NAME(as_word)(REAL prediction)
{
    WORD word;

    memcpy(&word, &prediction, sizeof(word));
    return prediction == prediction ? NAME(ordered)(word) : 0;
}

/* The predictions q of n words from the words d before them. at: of the first, in its row. */
CRN_WIDE static void NAME(predict_row)(size_t stride, int is_twice, const REAL *d, size_t at,
                                       size_t n, REAL *q)
{
    size_t i = 0;

    for (; i < n && at + i < stride; i++)
        q[i] = 0;
    for (; i < n && (!is_twice || at + i - stride < stride); i++)
        q[i] = d[(ptrdiff_t)i - (ptrdiff_t)stride];
    for (; i < n; i++) {
        REAL before = d[(ptrdiff_t)i - (ptrdiff_t)stride];

        q[i] = (before + before) - d[(ptrdiff_t)i - 2 * (ptrdiff_t)stride];
    }
}

/* The words from .. from + n of a run along a stride. */
static void NAME(predict)(const struct crn_values *v, unsigned level, const REAL *d, size_t from,
                          size_t n, REAL *q)
{
    size_t done, some;

    for (done = 0; done < n; done += some) {
        size_t at = row_place(v, level, from + done);

        some = row_left(v, level, at, n - done);
        NAME(predict_row)(v->stride[level], v->is_twice, d + from + done, at, some, q + done);
    }
}

CRN_WIDE static void NAME(add)(REAL *p, const REAL *q, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = p[i] + q[i];
}

CRN_WIDE static void NAME(subtract)(REAL *to, const REAL *d, const REAL *q, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        to[i] = d[i] - q[i];
}

/* p may be dst. */
CRN_WIDE static void NAME(residuals)(WORD *dst, const WORD *src, const REAL *p, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        WORD word = (WORD)(NAME(ordered)(src[i]) - NAME(as_word)(p[i]));

        dst[i] = (WORD)((WORD)(word << 1) ^ (WORD)((SIGNED)word >> (BITS - 1)));
    }
}

/* tmp: twice n words. */
static void NAME(encode)(const struct crn_values *v, const void *src, size_t n, void *dst,
                         void *tmp)
{
    REAL *left[2] = {tmp, (REAL *)tmp + n};
    const REAL *d = src;
    REAL *p = dst; /* until there are residuals */
    REAL q[BLOCK];
    unsigned k;

    memset(p, 0, n * sizeof(*p));
    for (k = 0; k < v->n; k++) {
        size_t at, some;

        for (at = 0; at < n; at += some) {
            some = n - at < BLOCK ? n - at : BLOCK;
            NAME(predict)(v, k, d, at, some, q);
            NAME(add)(p + at, q, some);
            if (k + 1 < v->n)
                NAME(subtract)(left[k % 2] + at, d + at, q, some);
        }
        d = left[k % 2];
    }
    NAME(residuals)(dst, src, p, n);
}

/* A word from its residual, the sum of its other predictions, and the one along the last stride. */
CRN_INLINE REAL NAME(value)(WORD residual, REAL others, REAL own)
{
    WORD word = (WORD)((residual >> 1) ^ (WORD)(0 - (residual & 1)));
    REAL value;

    word = NAME(ordered)((WORD)(word + NAME(as_word)(others + own)));
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* The words from .. from + n of a run, in one row, of which the first is at. p: the sum of the predictions q
 * along all strides but the last; d: what those leave. With a stride of 1 the words before stay in
 * registers. */
CRN_INLINE void NAME(decode_row)(const WORD *src, size_t from, size_t at, size_t n, size_t stride,
                                 REAL *x, REAL *const *d, REAL (*q)[BLOCK], size_t in_block,
                                 const REAL *p, unsigned levels, int is_twice)
{
    REAL *last = d[levels - 1];
    REAL before = stride == 1 && at > 0 ? last[from - 1] : 0;
    REAL further = stride == 1 && at > 1 ? last[from - 2] : 0;
    size_t i;
    unsigned k;

    for (i = 0; i < n; i++) {
        REAL own, left;

        if (stride != 1) {
            before = at + i >= stride ? last[from + i - stride] : 0;
            further =
                at + i >= stride && at + i - stride >= stride ? last[from + i - 2 * stride] : 0;
        }
        own = before;
        if (is_twice && at + i >= stride && at + i - stride >= stride)
            own = (before + before) - further;
        left = NAME(value)(src[from + i], p[in_block + i], own);
        x[from + i] = left;
        for (k = 0; k + 1 < levels; k++) {
            left = left - q[k][in_block + i];
            d[k + 1][from + i] = left;
        }
        if (stride == 1) {
            further = before;
            before = left;
        }
    }
}

#define DECODE(levels, is_twice)                                                                   \
    if (stride == 1)                                                                               \
        NAME(decode_row)(src, from + done, at, some, 1, x, d, q, done, p, levels, is_twice);       \
    else                                                                                           \
        NAME(decode_row)(src, from + done, at, some, stride, x, d, q, done, p, levels, is_twice)

static void NAME(decode_block)(const struct crn_values *v, const WORD *src, size_t from, size_t n,
                               REAL *x, REAL *const *d, REAL (*q)[BLOCK], const REAL *p)
{
    size_t stride = v->stride[v->n - 1];
    size_t done, some;

    for (done = 0; done < n; done += some) {
        size_t at = row_place(v, v->n - 1, from + done);

        some = row_left(v, v->n - 1, at, n - done);
        if (v->n == 1 && v->is_twice) {
            DECODE(1, 1);
        } else if (v->n == 2 && v->is_twice) {
            DECODE(2, 1);
        } else if (v->is_twice) {
            DECODE(3, 1);
        } else if (v->n == 1) {
            DECODE(1, 0);
        } else if (v->n == 2) {
            DECODE(2, 0);
        } else {
            DECODE(3, 0);
        }
    }
}

#undef DECODE

/* Several rows at once: a row depends on those before it, but not on their ends, so a processor works on
 * all of them. Needs strides of whole rows. ------------------------------------------------------- */

CRN_INLINE REAL NAME(along)(const REAL *d, size_t stride, unsigned known)
{
    REAL before;

    if (known == 0)
        return 0;
    before = d[-(ptrdiff_t)stride];
    return known == 1 ? before : (before + before) - d[-2 * (ptrdiff_t)stride];
}

/* The rows from x on. planes: their stride, or 0; d: what the prediction from planes leaves. known: the number
 * of words to predict from, at most 2, along planes and along columns. */
CRN_INLINE void NAME(decode_group)(const WORD *src, REAL *x, REAL *d, size_t planes, size_t row,
                                   const unsigned known[][2], unsigned rows, int is_twice)
{
    REAL before[ROWS] = {0};
    REAL further[ROWS] = {0};
    size_t i;
    unsigned k;

    for (i = 0; i < row; i++)
        for (k = 0; k < rows; k++) {
            size_t at = k * row + i;
            REAL plane = planes > 0 ? NAME(along)(x + at, planes, known[k][0]) : 0;
            REAL column = NAME(along)((planes > 0 ? d : x) + at, row, known[k][1]);
            REAL own = is_twice && i > 1 ? (before[k] + before[k]) - further[k] : before[k];
            REAL left = NAME(value)(src[at], (0 + plane) + column, own);

            x[at] = left;
            if (planes > 0)
                d[at] = left = left - plane;
            further[k] = before[k];
            before[k] = left - column;
        }
}

CRN_WIDE static void NAME(decode_groups)(const struct crn_values *v, const WORD *src, size_t n,
                                         REAL *x, REAL *d)
{
    static const unsigned all[2][ROWS][2] = {{{1, 1}, {1, 1}, {1, 1}, {1, 1}},
                                             {{2, 2}, {2, 2}, {2, 2}, {2, 2}}};
    size_t planes = v->n == 3 ? v->stride[0] : 0;
    size_t row = v->stride[v->n - 2];
    unsigned most = v->is_twice ? 2 : 1;
    size_t at, rows;

    for (at = 0; at < n; at += rows * row) {
        unsigned known[ROWS][2];
        int is_inside = 1;
        unsigned k;

        rows = (n - at) / row < ROWS ? 1 : ROWS;
        for (k = 0; k < rows; k++) {
            size_t in_plane = planes > 0 ? (at + k * row) % planes : at + k * row;
            size_t above = planes > 0 ? (at + k * row) / planes : most;

            known[k][0] = above < most ? (unsigned)above : most;
            known[k][1] = in_plane / row < most ? (unsigned)(in_plane / row) : most;
            is_inside &= known[k][0] == most && known[k][1] == most;
        }
        if (rows == 1)
            NAME(decode_group)(src + at, x + at, d + at, planes, row, known, 1, v->is_twice);
        else if (!is_inside)
            NAME(decode_group)(src + at, x + at, d + at, planes, row, known, ROWS, v->is_twice);
        else if (v->is_twice && planes > 0)
            NAME(decode_group)(src + at, x + at, d + at, planes, row, all[1], ROWS, 1);
        else if (v->is_twice)
            NAME(decode_group)(src + at, x + at, d + at, 0, row, all[1], ROWS, 1);
        else if (planes > 0)
            NAME(decode_group)(src + at, x + at, d + at, planes, row, all[0], ROWS, 0);
        else
            NAME(decode_group)(src + at, x + at, d + at, 0, row, all[0], ROWS, 0);
    }
}

/* How many words of a run are in rows that can be decoded together. */
static size_t NAME(in_groups)(const struct crn_values *v, size_t n)
{
    size_t row = v->n > 1 ? v->stride[v->n - 2] : 0;

    if (row < ROW_MIN || v->stride[v->n - 1] != 1 ||
        (v->n == 3 && (v->stride[0] % row != 0 || v->stride[0] / row < ROWS)))
        return 0;
    return n / row * row;
}

/* tmp: twice n words. A block is no longer than the strides but the last, so that the words which
 * those predict it from are known. */
static void NAME(decode)(const struct crn_values *v, const void *src, size_t n, void *dst,
                         void *tmp)
{
    REAL *d[CRN_VALUES_STRIDES] = {dst, tmp, (REAL *)tmp + n};
    REAL q[CRN_VALUES_STRIDES][BLOCK] = {{0}};
    REAL p[BLOCK];
    size_t grouped = NAME(in_groups)(v, n);
    size_t block = BLOCK;
    size_t at, some;
    unsigned k;

    if (grouped > 0)
        NAME(decode_groups)(v, src, grouped, dst, d[1]);
    for (k = 0; k + 1 < v->n; k++)
        block = v->stride[k] < block ? v->stride[k] : block;
    for (at = grouped; at < n; at += some) {
        some = n - at < block ? n - at : block;
        memset(p, 0, sizeof(p));
        for (k = 0; k + 1 < v->n; k++) {
            NAME(predict)(v, k, d[k], at, some, q[k]);
            NAME(add)(p, q[k], some);
        }
        NAME(decode_block)(v, src, at, some, dst, d, q, p);
    }
}

/* A part of a run: words before it are computed again, as often as they are needed. ------------- */

/* What the first `level` strides leave of the words from .. from + n, which may begin before the
 * run. */
static void NAME(window)(const struct crn_values *v, unsigned level, const REAL *x, ptrdiff_t from,
                         size_t n, REAL *ret, REAL *tmp);

/* The predictions along the stride of a level. tmp: two windows for this level and those before. */
static void NAME(part)(const struct crn_values *v, unsigned level, const REAL *x, ptrdiff_t from,
                       size_t n, REAL *q, REAL *tmp)
{
    ptrdiff_t stride = (ptrdiff_t)v->stride[level];
    REAL *far = tmp;
    size_t i;

    NAME(window)(v, level, x, from - stride, n, q, tmp + n);
    if (v->is_twice)
        NAME(window)(v, level, x, from - 2 * stride, n, far, tmp + n);
    for (i = 0; i < n; i++) {
        ptrdiff_t at = from + (ptrdiff_t)i;
        ptrdiff_t in_row = at < 0 ? at : (ptrdiff_t)row_place(v, level, (size_t)at);

        if (in_row < stride)
            q[i] = 0;
        else if (v->is_twice && in_row - stride >= stride)
            q[i] = (q[i] + q[i]) - far[i];
    }
}

static void NAME(window)(const struct crn_values *v, unsigned level, const REAL *x, ptrdiff_t from,
                         size_t n, REAL *ret, REAL *tmp)
{
    size_t i;

    if (level == 0) {
        for (i = 0; i < n; i++)
            ret[i] = from + (ptrdiff_t)i < 0 ? 0 : x[from + (ptrdiff_t)i];
        return;
    }
    NAME(window)(v, level - 1, x, from, n, ret, tmp);
    NAME(part)(v, level - 1, x, from, n, tmp, tmp + n);
    NAME(subtract)(ret, ret, tmp, n);
}

/* tmp: CRN_VALUES_WINDOWS times n words. */
static void NAME(sample)(const struct crn_values *v, const void *src, size_t from, size_t n,
                         void *dst, void *tmp)
{
    REAL *p = tmp;
    REAL *q = p + n;
    unsigned k;

    memset(p, 0, n * sizeof(*p));
    for (k = 0; k < v->n; k++) {
        NAME(part)(v, k, src, (ptrdiff_t)from, n, q, q + n);
        NAME(add)(p, q, n);
    }
    NAME(residuals)(dst, (const WORD *)src + from, p, n);
}

#undef REAL
#undef WORD
#undef SIGNED
#undef BITS
#undef NAME
