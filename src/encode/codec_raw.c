/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies the bytes unchanged. */
#include "encode/codec.h"

#include <string.h>

static size_t codec_raw_bound(size_t n)
{
    return n;
}

static cairn_err codec_raw_encode(const struct crn_stage_task *t, size_t *ret_n,
                                  struct crn_errinfo *ei)
{
    (void)ei;
    if (t->src_n > 0)
        memcpy(t->dst, t->src, t->src_n);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err codec_raw_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    if (t->src_n != t->dst_n)
        return CRN_DAMAGED(ei, "%zu raw bytes are stored as %zu", t->dst_n, t->src_n);
    if (t->src_n > 0)
        memcpy(t->dst, t->src, t->src_n);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_raw = {
    .id = 0,
    .name = "raw",
    .kind = CRN_STAGE_CODEC,
    .bound = codec_raw_bound,
    .encode = codec_raw_encode,
    .decode = codec_raw_decode,
};
