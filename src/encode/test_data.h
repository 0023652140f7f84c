/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents shared by the tests of the encoders: every kind of bit pattern that a checkpoint can
 * have, generated from a seed. */
#ifndef CRN_TEST_DATA_H
#define CRN_TEST_DATA_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "cairn/cairn.h"
#include "encode/codec.h"

enum content {
    CONTENT_ZEROS,
    CONTENT_ONE_VALUE,
    CONTENT_RANDOM,
    CONTENT_SMOOTH,   /* a wave over rows, in the given type */
    CONTENT_SPECIALS, /* NaN payloads, infinities, denormals, zeros of both signs among others */
    CONTENT_TEXT,     /* few byte values, with repeats */
    CONTENT_STEPS,    /* counters */
    CONTENT_COUNT
};

static inline void test_fill_specials(struct crn_rng *rng, unsigned char *p, size_t n,
                                      unsigned width)
{
    static const uint64_t d[] = {
        0x0000000000000000, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000,
        0x7ff8000000000000, 0xfff8000000000001, 0x7ff0000000000001, 0xfff7ffffffffffff,
        0x7fffffffffffffff, 0xffffffffffffffff, 0x0000000000000001, 0x800fffffffffffff,
        0x7fefffffffffffff, 0xffefffffffffffff, 0x0010000000000000, 0x3ff0000000000000};
    static const uint32_t f[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000,
                                 0x7fc00000, 0xffc00001, 0x7f800001, 0xffbfffff,
                                 0x7fffffff, 0xffffffff, 0x00000001, 0x807fffff,
                                 0x7f7fffff, 0xff7fffff, 0x00800000, 0x3f800000};
    size_t i;

    for (i = 0; i + width <= n; i += width) {
        size_t k = (size_t)crn_rng_below(rng, 24);

        if (k < 16 && width == 8)
            memcpy(p + i, &d[k], 8);
        else if (k < 16 && width == 4)
            memcpy(p + i, &f[k], 4);
        else {
            uint64_t x = crn_rng_u64(rng);

            memcpy(p + i, &x, width);
        }
    }
}

static inline void test_fill_smooth(struct crn_rng *rng, unsigned char *p, size_t n,
                                    cairn_type type)
{
    struct crn_word w = crn_word_of(type);
    double phase = crn_rng_unit(rng);
    size_t i;

    for (i = 0; (i + 1) * w.width <= n; i++) {
        double v = sin(0.01 * (double)i + phase) * (1 + 0.001 * floor((double)i / 50));
        float f = (float)v;
        int64_t x = (int64_t)(v * 100);

        if (w.is_float && w.width == 8)
            memcpy(p + i * 8, &v, 8);
        else if (w.is_float)
            memcpy(p + i * 4, &f, 4);
        else
            memcpy(p + i * w.width, &x, w.width);
    }
}

/* Fills all n bytes. */
static inline void test_fill(struct crn_rng *rng, enum content content, cairn_type type,
                             unsigned char *p, size_t n)
{
    struct crn_word w = crn_word_of(type);
    unsigned char one = (unsigned char)crn_rng_u64(rng);
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = content == CONTENT_ZEROS       ? 0
               : content == CONTENT_ONE_VALUE ? one
               : content == CONTENT_TEXT && i > 100 && crn_rng_below(rng, 4) > 0
                   ? p[i - 64]
                   : (unsigned char)(content == CONTENT_TEXT ? 'a' + crn_rng_below(rng, 6)
                                                             : crn_rng_u64(rng));
    if (content == CONTENT_SPECIALS)
        test_fill_specials(rng, p, n, w.width);
    if (content == CONTENT_SMOOTH)
        test_fill_smooth(rng, p, n, type);
    if (content == CONTENT_STEPS)
        for (i = 0; (i + 1) * w.width <= n; i++) {
            uint64_t x = 1000 + 3 * i;

            memcpy(p + i * w.width, &x, w.width);
        }
}

#endif
