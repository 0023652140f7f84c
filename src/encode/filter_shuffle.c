/* SPDX-License-Identifier: BSD-3-Clause */
/* Byte shuffle: all first bytes of the numbers, then all second ones, ... Bytes after the last
 * whole number stay at the end. No argument. */
#include "encode/codec.h"

#include <string.h>
#include "encode/transpose.h"

static int filter_shuffle_fits(const struct crn_data *data)
{
    return crn_word_of(data->type).width > 1;
}

static size_t filter_shuffle_bound(size_t n)
{
    return n;
}

static cairn_err filter_shuffle_encode(const struct crn_stage_task *t, size_t *ret_n,
                                       struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;

    (void)ei;
    crn_transpose_planes_split(t->dst, t->src, words, width);
    memcpy(t->dst + words * width, t->src + words * width, t->src_n % width);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err filter_shuffle_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;

    (void)ei;
    crn_transpose_planes_join(t->dst, t->src, words, width);
    memcpy(t->dst + words * width, t->src + words * width, t->src_n % width);
    return CAIRN_OK;
}

const struct crn_codec crn_filter_shuffle = {
    .id = 32,
    .name = "shuffle",
    .kind = CRN_STAGE_FILTER,
    .fits = filter_shuffle_fits,
    .bound = filter_shuffle_bound,
    .encode = filter_shuffle_encode,
    .decode = filter_shuffle_decode,
};
