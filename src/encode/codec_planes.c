/* SPDX-License-Identifier: BSD-3-Clause */
/* Byte planes, each stored in the way that suits it (plane.h), then the bytes after the last
 * whole number. Argument: the level of zstd for planes with repeats; 0 disables zstd. */
#include "encode/codec.h"

#include <string.h>
#include "encode/plane.h"
#include "encode/transpose.h"
#include "encode/work.h"

static size_t codec_planes_bound(size_t n)
{
    /* Eight planes with their headers; a stored plane exceeds its raw size by at most a header. */
    return crn_plane_bound(n) + 8 * 16;
}

static cairn_err codec_planes_encode(const struct crn_stage_task *t, size_t *ret_n,
                                     struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    size_t tail = t->src_n % width;
    unsigned char *planes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words * width, &planes, ei);
    size_t at = 0;
    size_t size;
    unsigned p;

    if (rc != CAIRN_OK)
        return rc;
    crn_transpose_planes_split(planes, t->src, words, width);
    for (p = 0; p < width; p++) {
        rc = crn_plane_encode(t->work, t->arg, planes + p * words, words, t->dst + at, &size, ei);
        if (rc != CAIRN_OK)
            return rc;
        at += size;
    }
    memcpy(t->dst + at, t->src + words * width, tail);
    *ret_n = at + tail;
    return CAIRN_OK;
}

static cairn_err codec_planes_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->dst_n / width;
    size_t tail = t->dst_n % width;
    unsigned char *planes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words * width, &planes, ei);
    size_t at = 0;
    size_t used;
    unsigned p;

    if (rc != CAIRN_OK)
        return rc;
    for (p = 0; p < width; p++) {
        rc = crn_plane_decode(t->work, t->src + at, t->src_n - at, planes + p * words, words, &used,
                              ei);

        if (rc != CAIRN_OK)
            return rc;
        at += used;
    }
    if (t->src_n - at != tail)
        return CRN_DAMAGED(ei, "byte planes of %zu bytes have a wrong end", t->dst_n);
    crn_transpose_planes_join(t->dst, planes, words, width);
    memcpy(t->dst + words * width, t->src + at, tail);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_planes = {
    .id = 7,
    .name = "planes",
    .kind = CRN_STAGE_CODEC,
    .arg_max = 19,
    .arg_default = 1,
    .bound = codec_planes_bound,
    .encode = codec_planes_encode,
    .decode = codec_planes_decode,
};
