/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking samples. The residuals of a sample are computed as a sum: the difference along several
 * strides is the alternating sum of the numbers at all corners of a box. */
#include "encode/sample.h"

#include <string.h>
#include "encode/entropy.h"
#include "encode/lorenzo.h"
#include "encode/lorenzo_values.h"
#include "encode/simd.h"
#include "encode/words.h"

/* The run that contains a word; words that no run covers form one more. */
static void find_run(const struct crn_sample *s, size_t words, size_t at, size_t *ret_begin,
                     size_t *ret_end, const struct crn_run **ret)
{
    static const struct crn_run rest = {.stride = {1, 0, 0}};
    size_t begin = 0;
    uint32_t i;

    for (i = 0; i < s->data->nruns; i++) {
        uint64_t n = s->data->runs[i].elements * s->word.count;

        if (n > words - begin)
            n = words - begin;
        if (at < begin + n) {
            *ret_begin = begin;
            *ret_end = begin + (size_t)n;
            *ret = &s->data->runs[i];
            return;
        }
        begin += (size_t)n;
    }
    *ret_begin = begin;
    *ret_end = words;
    *ret = &rest;
}

static void add_piece(struct crn_sample *s, size_t words, size_t at, size_t want)
{
    unsigned k = s->npieces++;
    const struct crn_run *run;
    size_t begin;
    size_t end;
    int d;

    find_run(s, words, at, &begin, &end, &run);
    if (end - at < want) /* the words before it in the run serve as well */
        at = end - begin < want ? begin : end - want;
    s->piece[k].begin = at;
    s->piece[k].words = end - at < want ? end - at : want;
    s->piece[k].run_begin = begin;
    for (d = 0; d < CRN_STRIDES; d++)
        s->piece[k].stride[d] = (size_t)run->stride[d] * s->word.count;
    s->words += s->piece[k].words;
}

void crn_sample_init(struct crn_sample *s, const struct crn_data *data, const void *src, size_t n,
                     size_t bytes)
{
    size_t words;
    size_t want;
    size_t k;

    memset(s, 0, sizeof(*s));
    s->data = data;
    s->src = src;
    s->word = crn_word_of(data->type);
    words = n / s->word.width;
    if (words == 0)
        return;
    if (n <= bytes && data->nruns <= 1) {
        add_piece(s, words, 0, words);
        return;
    }
    want = bytes / CRN_SAMPLE_PIECES / s->word.width + 1;
    for (k = 0; k < CRN_SAMPLE_PIECES; k++) /* the very beginning has no history */
        add_piece(s, words, words / (2 * CRN_SAMPLE_PIECES) * (2 * k + 1), want);
}

void crn_sample_words(const struct crn_sample *s, unsigned char *dst)
{
    unsigned k;

    for (k = 0; k < s->npieces; k++) {
        size_t n = s->piece[k].words * s->word.width;

        memcpy(dst, s->src + s->piece[k].begin * s->word.width, n);
        dst += n;
    }
}

int crn_sample_has_stride(const struct crn_sample *s, int d)
{
    unsigned k;

    for (k = 0; k < s->npieces; k++)
        if (s->piece[k].stride[d] > 0)
            return 1;
    return 0;
}

int crn_sample_has_short_rows(const struct crn_sample *s, size_t words)
{
    unsigned k;

    for (k = 0; k < s->npieces; k++)
        if (s->piece[k].stride[1] > 0 && s->piece[k].stride[1] < words)
            return 1;
    return 0;
}

/* dst +- the numbers at a distance before the sample, where the run has them. */
static void add_corner(const struct crn_sample *s, unsigned k, size_t distance, int is_minus,
                       const unsigned char *from, unsigned char *dst, unsigned char *tmp)
{
    unsigned width = s->word.width;
    size_t room = s->piece[k].begin - s->piece[k].run_begin;
    size_t skip = distance > room ? distance - room : 0;
    const unsigned char *x;
    size_t n;

    if (skip >= s->piece[k].words)
        return;
    n = s->piece[k].words - skip;
    x = from + (s->piece[k].begin + skip - distance) * width;
    if (s->word.is_float) {
        crn_words_order(width, tmp, x, n);
        x = tmp;
    }
    if (is_minus)
        crn_words_subtract(width, dst + skip * width, x, n);
    else
        crn_words_add(width, dst + skip * width, x, n);
}

/* One corner: how far before the sample it lies, its sign, and how often it counts (0: it is none).
 * steps: along each stride; the second difference is x[0] - 2 x[1] + x[2]. */
struct corner {
    size_t distance;
    int is_minus;
    unsigned times;
};

static struct corner corner_of(const struct crn_sample *s, unsigned k, unsigned arg,
                               const unsigned steps[CRN_STRIDES])
{
    unsigned most = (arg & CRN_LORENZO_TWICE) != 0 ? 2 : 1;
    struct corner c = {.times = 1};
    int d;

    for (d = 0; d < CRN_STRIDES; d++) {
        /* Where the run lacks the dimension, there is no difference along it. */
        int is_used = (arg >> d & 1) != 0 && s->piece[k].stride[d] > 0;

        if (steps[d] > (is_used ? most : 0))
            return (struct corner){0};
        c.distance += steps[d] * s->piece[k].stride[d];
        c.is_minus ^= (int)(steps[d] & 1);
        c.times *= most == 2 && steps[d] == 1 ? 2 : 1;
    }
    return c;
}

static void piece_residuals(const struct crn_sample *s, unsigned k, unsigned arg,
                            unsigned char *dst, unsigned char *tmp)
{
    unsigned number;
    unsigned i;

    memset(dst, 0, s->piece[k].words * s->word.width);
    for (number = 0; number < 27; number++) {
        const unsigned steps[CRN_STRIDES] = {number % 3, number / 3 % 3, number / 9};
        struct corner c = corner_of(s, k, arg, steps);

        for (i = 0; i < c.times; i++) {
            add_corner(s, k, c.distance, c.is_minus, s->src, dst, tmp);
            if ((arg & CRN_LORENZO_PREVIOUS) != 0)
                add_corner(s, k, c.distance, !c.is_minus, s->data->previous, dst, tmp);
        }
    }
}

_Static_assert(CRN_SAMPLE_ROOM >= CRN_VALUES_WINDOWS, "a sample may be one piece");

/* The prediction of values. 0: the run of this piece has no such dimension. */
static int values_residuals(const struct crn_sample *s, unsigned k, unsigned arg,
                            unsigned char *dst, unsigned char *tmp)
{
    struct crn_values v = {.is_twice = (arg & CRN_LORENZO_TWICE) != 0};
    const unsigned char *run = s->src + s->piece[k].run_begin * s->word.width;
    int d;

    for (d = CRN_STRIDES; d-- > 0;)
        if ((arg >> d & 1) != 0 && s->piece[k].stride[d] > 0)
            v.stride[v.n++] = s->piece[k].stride[d];
    if (v.n > 0)
        crn_lorenzo_values_sample(&v, s->word.width, run, s->piece[k].begin - s->piece[k].run_begin,
                                  s->piece[k].words, dst, tmp);
    return v.n > 0;
}

void crn_sample_residuals(const struct crn_sample *s, unsigned arg, unsigned char *dst,
                          unsigned char *tmp)
{
    int has_values =
        (arg & CRN_LORENZO_VALUES) != 0 && (arg & CRN_LORENZO_PREVIOUS) == 0 && s->word.is_float;
    size_t at = 0;
    unsigned k;

    for (k = 0; k < s->npieces; k++) {
        if (has_values && values_residuals(s, k, arg, dst + at, tmp)) {
            at += s->piece[k].words * s->word.width;
            continue;
        }
        piece_residuals(s, k, arg, tmp + s->piece[k].words * s->word.width, tmp);
        crn_words_fold(s->word.width, dst + at, tmp + s->piece[k].words * s->word.width,
                       s->piece[k].words, s->piece[k].words);
        at += s->piece[k].words * s->word.width;
    }
}

#define MAGNITUDES(name, word)                                                                     \
    CRN_WIDE static void name(const word *words, size_t n, unsigned char *magnitudes)              \
    {                                                                                              \
        size_t i;                                                                                  \
                                                                                                   \
        for (i = 0; i < n; i++) {                                                                  \
            uint64_t y = (uint64_t)words[i] + 1;                                                   \
                                                                                                   \
            magnitudes[i] = (unsigned char)(y == 0 ? 64 : 63 - __builtin_clzll(y));                \
        }                                                                                          \
    }

MAGNITUDES(magnitudes_64, crn_u64)
MAGNITUDES(magnitudes_32, crn_u32)
MAGNITUDES(magnitudes_16, crn_u16)
MAGNITUDES(magnitudes_8, uint8_t)

uint64_t crn_sample_magnitudes(const unsigned char *words, size_t n, unsigned width,
                               unsigned char *magnitudes, uint32_t count[256])
{
    uint64_t bits = 0;
    uint64_t i;

    if (width == 8)
        magnitudes_64((const crn_u64 *)words, n, magnitudes);
    else if (width == 4)
        magnitudes_32((const crn_u32 *)words, n, magnitudes);
    else if (width == 2)
        magnitudes_16((const crn_u16 *)words, n, magnitudes);
    else
        magnitudes_8(words, n, magnitudes);
    crn_entropy_histogram(magnitudes, n, count);
    for (i = 0; i < 64; i++)
        bits += count[i] * i;
    return bits;
}
