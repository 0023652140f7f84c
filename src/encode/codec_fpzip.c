/* SPDX-License-Identifier: BSD-3-Clause */
/* fpzip, lossless and in one dimension, as in paper 2. Encoding needs libfpzip. Decoding does
 * not: libfpzip reads its input without bounds and trusts it. The decoder here is therefore our
 * own (fpzip_decode.c), and every build can read these chunks. No argument. */
#include "encode/codec.h"

#include "encode/fpzip.h"

static int codec_fpzip_fits(const struct crn_data *data)
{
    return crn_word_of(data->type).is_float;
}

static size_t codec_fpzip_bound(size_t n)
{
    return n + n / 4 + 1024;
}

#ifdef CRN_WITH_FPZIP
#include <fpzip.h>
#include <string.h>

static cairn_err codec_fpzip_encode(const struct crn_stage_task *t, size_t *ret_n,
                                    struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    size_t tail = t->src_n % width;
    size_t size = 0;
    FPZ *z;

    if (words > 0) {
        z = fpzip_write_to_buffer(t->dst, t->dst_n - tail);
        if (z == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "fpzip cannot start");
        z->type = width == 8 ? FPZIP_TYPE_DOUBLE : FPZIP_TYPE_FLOAT;
        z->nx = (int)words;
        size = fpzip_write(z, t->src);
        fpzip_write_close(z);
        if (size == 0)
            return crn_fail(ei, CAIRN_ENOTSUP, 0, "fpzip cannot compress %zu bytes", t->src_n);
    }
    memcpy(t->dst + size, t->src + words * width, tail);
    *ret_n = size + tail;
    return CAIRN_OK;
}
#define ENCODE codec_fpzip_encode
#else
#define ENCODE NULL
#endif

static cairn_err codec_fpzip_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t tail = t->dst_n % (width < 4 ? 4 : width);

    if (width < 4 || t->src_n < tail ||
        crn_fpzip_decode(t->src, t->src_n - tail, t->dst, (t->dst_n - tail) / width, width) != 0)
        return CRN_DAMAGED(ei, "fpzip data of %zu bytes is damaged", t->src_n);
    for (; tail > 0; tail--)
        t->dst[t->dst_n - tail] = t->src[t->src_n - tail];
    return CAIRN_OK;
}

const struct crn_codec crn_codec_fpzip = {
    .id = 5,
    .name = "fpzip",
    .kind = CRN_STAGE_CODEC,
    .fits = codec_fpzip_fits,
    .bound = codec_fpzip_bound,
    .encode = ENCODE,
    .decode = codec_fpzip_decode,
};
