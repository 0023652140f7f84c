/* SPDX-License-Identifier: BSD-3-Clause */
/* gzip through zlib: a chunk that ends with this stage contains a stream that gunzip can read.
 * Argument: the level, 1 to 9. */
#include "encode/work.h"

static size_t codec_gzip_bound(size_t n)
{
    return n + n / 1000 + 64; /* above zlib's own bound: stored blocks and the gzip header */
}

#ifdef CRN_WITH_ZLIB
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* the largest window, with gzip's header and checksum */

static cairn_err codec_gzip_encode(const struct crn_stage_task *t, size_t *ret_n,
                                   struct crn_errinfo *ei)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)t->src, .next_out = t->dst};
    int r;

    if (t->src_n > UINT32_MAX || t->dst_n > UINT32_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "%zu bytes are too many for gzip", t->src_n);
    z.avail_in = (uInt)t->src_n;
    z.avail_out = (uInt)t->dst_n;
    if (deflateInit2(&z, t->arg, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zlib cannot start");
    r = deflate(&z, Z_FINISH);
    (void)deflateEnd(&z);
    if (r != Z_STREAM_END)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zlib cannot compress %zu bytes", t->src_n);
    *ret_n = z.total_out;
    return CAIRN_OK;
}

static cairn_err codec_gzip_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)t->src, .next_out = t->dst};
    unsigned char nothing;
    int r;

    if (t->src_n > UINT32_MAX || t->dst_n > UINT32_MAX)
        return CRN_DAMAGED(ei, "gzip data of %zu bytes is too long", t->src_n);
    z.avail_in = (uInt)t->src_n;
    z.avail_out = (uInt)t->dst_n;
    if (t->dst_n == 0) {
        z.next_out = &nothing;
        z.avail_out = 1;
    }
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zlib cannot start");
    r = inflate(&z, Z_FINISH);
    (void)inflateEnd(&z);
    if (r != Z_STREAM_END || z.total_out != t->dst_n || z.avail_in != 0)
        return CRN_DAMAGED(ei, "gzip data of %zu bytes is damaged", t->src_n);
    return CAIRN_OK;
}

#define ENCODE codec_gzip_encode
#define DECODE codec_gzip_decode
#else
#define ENCODE NULL
#define DECODE NULL
#endif

const struct crn_codec crn_codec_gzip = {
    .id = 3,
    .name = "gzip",
    .kind = CRN_STAGE_CODEC,
    .arg_min = 1,
    .arg_max = 9,
    .arg_default = 6,
    .bound = codec_gzip_bound,
    .encode = ENCODE,
    .decode = DECODE,
};
