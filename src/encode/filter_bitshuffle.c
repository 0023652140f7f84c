/* SPDX-License-Identifier: BSD-3-Clause */
/* Bit shuffle: all lowest bits of the numbers, then all second bits, ... Numbers after the last
 * multiple of eight stay at the end. No argument. */
#include "encode/codec.h"

#include <string.h>
#include "encode/transpose.h"
#include "encode/work.h"

static size_t filter_bitshuffle_bound(size_t n)
{
    return n;
}

static cairn_err filter_bitshuffle_encode(const struct crn_stage_task *t, size_t *ret_n,
                                          struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width / 8 * 8;
    unsigned char *planes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words * width, &planes, ei);
    unsigned p;

    if (rc != CAIRN_OK)
        return rc;
    crn_transpose_planes_split(planes, t->src, words, width);
    for (p = 0; p < width; p++)
        crn_transpose_bits_split(t->dst + p * words, planes + p * words, words);
    memcpy(t->dst + words * width, t->src + words * width, t->src_n - words * width);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err filter_bitshuffle_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width / 8 * 8;
    unsigned char *planes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words * width, &planes, ei);
    unsigned p;

    if (rc != CAIRN_OK)
        return rc;
    for (p = 0; p < width; p++)
        crn_transpose_bits_join(planes + p * words, t->src + p * words, words);
    crn_transpose_planes_join(t->dst, planes, words, width);
    memcpy(t->dst + words * width, t->src + words * width, t->src_n - words * width);
    return CAIRN_OK;
}

const struct crn_codec crn_filter_bitshuffle = {
    .id = 33,
    .name = "bitshuffle",
    .kind = CRN_STAGE_FILTER,
    .bound = filter_bitshuffle_bound,
    .encode = filter_bitshuffle_encode,
    .decode = filter_bitshuffle_decode,
};
