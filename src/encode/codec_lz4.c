/* SPDX-License-Identifier: BSD-3-Clause */
/* lz4 blocks. Argument: 0 for the fast compressor, 3 to 12 for the levels of the thorough one. */
#include "encode/work.h"

static size_t codec_lz4_bound(size_t n)
{
    return n + n / 255 + 16; /* the bound that lz4 guarantees */
}

#ifdef CRN_WITH_LZ4
#include <lz4.h>
#include <lz4hc.h>

static cairn_err codec_lz4_encode(const struct crn_stage_task *t, size_t *ret_n,
                                  struct crn_errinfo *ei)
{
    const char *src = (const char *)t->src;
    char *dst = (char *)t->dst;
    int r;

    if (t->src_n > LZ4_MAX_INPUT_SIZE || t->dst_n > INT32_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%zu bytes are too many for lz4", t->src_n);
    r = t->arg == 0 ? LZ4_compress_default(src, dst, (int)t->src_n, (int)t->dst_n)
                    : LZ4_compress_HC(src, dst, (int)t->src_n, (int)t->dst_n, t->arg);
    if (r <= 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "lz4 cannot compress %zu bytes", t->src_n);
    *ret_n = (size_t)r;
    return CAIRN_OK;
}

static cairn_err codec_lz4_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    int r = -1;

    if (t->src_n <= INT32_MAX && t->dst_n <= INT32_MAX)
        r = LZ4_decompress_safe((const char *)t->src, (char *)t->dst, (int)t->src_n, (int)t->dst_n);
    if (r < 0 || (size_t)r != t->dst_n)
        return CRN_DAMAGED(ei, "lz4 data of %zu bytes is damaged", t->src_n);
    return CAIRN_OK;
}

#define ENCODE codec_lz4_encode
#define DECODE codec_lz4_decode
#else
#define ENCODE NULL
#define DECODE NULL
#endif

const struct crn_codec crn_codec_lz4 = {
    .id = 2,
    .name = "lz4",
    .kind = CRN_STAGE_CODEC,
    .arg_max = 12,
    .bound = codec_lz4_bound,
    .encode = ENCODE,
    .decode = DECODE,
};
