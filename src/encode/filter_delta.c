/* SPDX-License-Identifier: BSD-3-Clause */
/* The plain filters: each number minus, or XOR, its predecessor (argument 0; the predecessor of
 * the first is 0) or the same number in the older version (argument 1). */
#include "encode/codec.h"

#include <string.h>
#include "encode/simd.h"
#include "encode/words.h"

#define PREVIOUS_VERSION 1

static size_t filter_delta_bound(size_t n)
{
    return n;
}

/* The older version, if the argument requests it. */
static cairn_err delta_older(const struct crn_stage_task *t, const unsigned char **ret,
                             struct crn_errinfo *ei)
{
    *ret = t->arg == PREVIOUS_VERSION ? t->data->previous : NULL;
    if (t->arg == PREVIOUS_VERSION && *ret == NULL)
        return crn_fail(ei, CAIRN_ESTATE, 0, "a chunk needs the version it was encoded against");
    return CAIRN_OK;
}

static cairn_err delta_encode(const struct crn_stage_task *t, size_t *ret_n, struct crn_errinfo *ei)
{
    struct crn_word word = crn_word_of(t->data->type);
    size_t words = t->src_n / word.width;
    const unsigned char *previous;
    cairn_err rc = delta_older(t, &previous, ei);

    if (rc != CAIRN_OK)
        return rc;
    memcpy(t->dst, t->src, t->src_n);
    if (previous != NULL)
        crn_words_subtract(word.width, t->dst, previous, words);
    else
        crn_words_difference(word.width, t->dst, t->src, words, word.count);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err delta_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    struct crn_word word = crn_word_of(t->data->type);
    size_t words = t->src_n / word.width;
    const unsigned char *previous;
    cairn_err rc = delta_older(t, &previous, ei);

    if (rc != CAIRN_OK)
        return rc;
    memcpy(t->dst, t->src, t->src_n);
    if (previous != NULL)
        crn_words_add(word.width, t->dst, previous, words);
    else
        crn_words_sum(word.width, t->dst, words, word.count);
    return CAIRN_OK;
}

CRN_WIDE static void xor_bytes(unsigned char *restrict dst, const unsigned char *restrict a,
                               const unsigned char *restrict b, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        dst[i] = a[i] ^ b[i];
}

/* Sequential: each element depends on its predecessor. */
static void running_xor(unsigned char *x, size_t n, size_t step)
{
    uint64_t last = 0;
    size_t i;

    if (step == 8)
        for (i = 0; i + 8 <= n; i += 8)
            crn_store64(x + i, last ^= crn_load64(x + i));
    else
        i = step;
    for (; i < n; i++)
        x[i] ^= i >= step ? x[i - step] : 0;
}

static cairn_err xor_encode(const struct crn_stage_task *t, size_t *ret_n, struct crn_errinfo *ei)
{
    size_t step = cairn_type_size(t->data->type);
    const unsigned char *previous;
    cairn_err rc = delta_older(t, &previous, ei);

    if (rc != CAIRN_OK)
        return rc;
    *ret_n = t->src_n;
    if (previous != NULL) {
        xor_bytes(t->dst, t->src, previous, t->src_n);
        return CAIRN_OK;
    }
    memcpy(t->dst, t->src, step < t->src_n ? step : t->src_n);
    if (step < t->src_n)
        xor_bytes(t->dst + step, t->src + step, t->src, t->src_n - step);
    return CAIRN_OK;
}

static cairn_err xor_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    const unsigned char *previous;
    cairn_err rc = delta_older(t, &previous, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (previous != NULL) {
        xor_bytes(t->dst, t->src, previous, t->src_n);
        return CAIRN_OK;
    }
    memcpy(t->dst, t->src, t->src_n);
    running_xor(t->dst, t->src_n, cairn_type_size(t->data->type));
    return CAIRN_OK;
}

const struct crn_codec crn_filter_delta = {
    .id = 34,
    .name = "delta",
    .kind = CRN_STAGE_FILTER,
    .arg_max = PREVIOUS_VERSION,
    .bound = filter_delta_bound,
    .encode = delta_encode,
    .decode = delta_decode,
};

const struct crn_codec crn_filter_xor = {
    .id = 35,
    .name = "xor",
    .kind = CRN_STAGE_FILTER,
    .arg_max = PREVIOUS_VERSION,
    .bound = filter_delta_bound,
    .encode = xor_encode,
    .decode = xor_decode,
};
