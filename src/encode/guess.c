/* SPDX-License-Identifier: BSD-3-Clause */
/* The length of a record is the distance at which most bytes repeat. Within it each width, byte order
 * and first byte of numbers is judged by what the differences to the record before would take. All of
 * this sees only a window of the chunk. */
#include "encode/guess.h"

#include <string.h>
#include "encode/entropy.h"
#include "encode/lorenzo.h"
#include "encode/sample.h"
#include "encode/simd.h"
#include "encode/work.h"

#define LAG_MAX   512
#define WINDOW    ((size_t)12 << 10)
#define WORTH     0.02 /* of the bytes must repeat beyond what chance gives */
#define SHORTER   0.97 /* a shorter record may repeat a little less */
#define JUDGED    ((size_t)6 << 10)
#define MUST_GAIN 0.98 /* a wider, swapped or floating-point number over a simpler one */

void crn_as_data(const struct crn_data *data, struct crn_as as, size_t n, struct crn_run *run,
                 struct crn_data *ret)
{
    *ret = *data;
    if (as.stride == 0)
        return;
    *run = (struct crn_run){.elements = n / crn_word_of(as.type).width,
                            .stride = {1, as.stride > 1 ? as.stride : 0, 0}};
    ret->type = as.type;
    ret->runs = run;
    ret->nruns = 1;
    ret->previous = NULL; /* the older version is not taken that way */
}

CRN_WIDE static size_t repeats_at(const unsigned char *p, size_t n, size_t lag)
{
    size_t sum = 0;
    size_t i;

    while (n > 0) {
        size_t m = n < 128 ? n : 128;
        unsigned char part = 0;

        for (i = 0; i < m; i++)
            part = (unsigned char)(part + (p[i] == (p - lag)[i]));
        sum += part;
        p += m;
        n -= m;
    }
    return sum;
}

/* The distance at which most bytes of the window repeat; 0 if none stands out. */
static size_t best_lag(const unsigned char *window, size_t n)
{
    const unsigned char *p = window + LAG_MAX;
    size_t most = n - LAG_MAX;
    size_t repeats[LAG_MAX + 1];
    uint32_t count[256];
    double chance = 0;
    size_t best = 1;
    size_t lag;

    crn_entropy_histogram(window, n, count);
    for (lag = 0; lag < 256; lag++)
        chance += (double)count[lag] / (double)n * ((double)count[lag] / (double)n);
    for (lag = 1; lag <= LAG_MAX; lag++) {
        repeats[lag] = repeats_at(p, most, lag);
        if (repeats[lag] > repeats[best])
            best = lag;
    }
    if ((double)repeats[best] < (chance + WORTH) * (double)most)
        return 0;
    for (lag = 1; (double)repeats[lag] < SHORTER * (double)repeats[best]; lag++)
        ;
    return lag;
}

struct judge {
    struct crn_encode_work *work;
    const unsigned char *window;
    size_t n;
    size_t lag;
    unsigned char *space; /* five times JUDGED and LAG_MAX */
    double least;
    struct crn_guess best;
};

/* Bytes per byte that the differences take, if the numbers are such ones. */
static void judge_one(struct judge *j, cairn_type type, unsigned rotate, int is_swapped)
{
    struct crn_word word = crn_word_of(type);
    struct crn_as as = {type, (uint32_t)(j->lag / word.width)};
    size_t words = (JUDGED + LAG_MAX) / word.width;
    unsigned char *residuals = j->space + JUDGED + LAG_MAX;
    unsigned char *tmp = residuals + JUDGED + LAG_MAX;
    const unsigned char *src = j->window + rotate;
    struct crn_data data = {.type = CAIRN_BYTES};
    struct crn_data taken;
    struct crn_sample s;
    struct crn_run run;
    uint32_t count[256];
    double bytes;

    if (is_swapped) {
        crn_filter_swap_words(j->space, src, words, word.width);
        src = j->space;
    }
    crn_as_data(&data, as, words * word.width, &run, &taken);
    crn_sample_init(&s, &taken, src, words * word.width, words * word.width);
    crn_sample_residuals(&s, as.stride > 1 ? CRN_LORENZO_COLUMN : CRN_LORENZO_ROW, residuals, tmp);
    bytes = (double)crn_sample_magnitudes(residuals, s.words, word.width, tmp, count);
    bytes = (bytes + crn_entropy_bits(count, s.words)) / 8 / (double)(words * word.width);
    if (bytes < j->least * MUST_GAIN) {
        j->least = bytes;
        j->best = (struct crn_guess){.as = as, .rotate = (uint8_t)rotate, .is_swapped = is_swapped};
    }
}

static void judge_width(struct judge *j, cairn_type type)
{
    unsigned width = crn_word_of(type).width;
    unsigned rotate;

    if (j->lag % width != 0)
        return;
    for (rotate = 0; rotate < width; rotate++) {
        judge_one(j, type, rotate, 0);
        if (width > 1)
            judge_one(j, type, rotate, 1);
    }
}

cairn_err crn_guess(struct crn_encode_work *w, const unsigned char *src, size_t n,
                    int *ret_is_found, struct crn_guess *ret, struct crn_errinfo *ei)
{
    size_t window = n < WINDOW ? n : WINDOW;
    struct judge j = {.work = w, .least = 1, .n = window};
    cairn_err rc;

    *ret_is_found = 0;
    if (n < WINDOW)
        return CAIRN_OK; /* too little to pay */
    /* A multiple of 16, so that the first byte of numbers is that of the chunk. */
    j.window = src + (n - window) / 2 / 16 * 16;
    j.lag = best_lag(j.window, window);
    if (j.lag == 0)
        return CAIRN_OK;
    rc = crn_work_scratch(w, CRN_SLOT_SAMPLE, 5 * (JUDGED + LAG_MAX), &j.space, ei);
    if (rc != CAIRN_OK)
        return rc;
    judge_width(&j, CAIRN_U8);
    judge_width(&j, CAIRN_U16);
    judge_width(&j, CAIRN_U32);
    judge_width(&j, CAIRN_U64);
    if (j.least >= 1)
        return CAIRN_OK;
    /* The bits of negative floating-point numbers run backwards. */
    if (j.best.as.type == CAIRN_U32)
        judge_one(&j, CAIRN_F32, j.best.rotate, j.best.is_swapped);
    if (j.best.as.type == CAIRN_U64)
        judge_one(&j, CAIRN_F64, j.best.rotate, j.best.is_swapped);
    *ret_is_found = 1;
    *ret = j.best;
    return CAIRN_OK;
}
