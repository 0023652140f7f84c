/* SPDX-License-Identifier: BSD-3-Clause */
/* Entropy coding alone, as a stage. No argument. */
#include "encode/codec.h"

#include "encode/entropy.h"

static cairn_err codec_huffman_encode(const struct crn_stage_task *t, size_t *ret_n,
                                      struct crn_errinfo *ei)
{
    (void)ei;
    *ret_n = crn_huffman_encode(t->src, t->src_n, t->dst);
    return CAIRN_OK;
}

static cairn_err codec_huffman_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    if (crn_huffman_decode(t->src, t->src_n, t->dst, t->dst_n) != 0)
        return CRN_DAMAGED(ei, "entropy-coded data of %zu bytes is damaged", t->src_n);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_huffman = {
    .id = 6,
    .name = "huffman",
    .kind = CRN_STAGE_CODEC,
    .bound = crn_huffman_bound,
    .encode = codec_huffman_encode,
    .decode = codec_huffman_decode,
};
