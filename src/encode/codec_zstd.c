/* SPDX-License-Identifier: BSD-3-Clause */
/* zstd. Argument: the level, 1 to 19. */
#include "encode/zstd.h"

#include "encode/work.h"

#ifdef CRN_WITH_ZSTD
#include <zstd.h>

static void destroy_c(void *p)
{
    (void)ZSTD_freeCCtx(p);
}

static void destroy_d(void *p)
{
    (void)ZSTD_freeDCtx(p);
}

int crn_zstd_is_there(void)
{
    return 1;
}

size_t crn_zstd_bound(size_t n)
{
    return ZSTD_compressBound(n);
}

size_t crn_zstd_compress(struct crn_encode_work *w, int level, const void *src, size_t n, void *dst,
                         size_t dst_n)
{
    void **context = crn_work_context(w, CRN_CONTEXT_ZSTD_C, destroy_c);
    size_t r;

    if (*context == NULL)
        *context = ZSTD_createCCtx();
    if (*context == NULL)
        return 0;
    r = ZSTD_compressCCtx(*context, dst, dst_n, src, n, level);
    return ZSTD_isError(r) ? 0 : r;
}

int crn_zstd_decompress(struct crn_encode_work *w, const void *src, size_t src_n, void *dst,
                        size_t n)
{
    void **context = crn_work_context(w, CRN_CONTEXT_ZSTD_D, destroy_d);
    size_t r;

    if (*context == NULL)
        *context = ZSTD_createDCtx();
    if (*context == NULL)
        return -1;
    r = ZSTD_decompressDCtx(*context, dst, n, src, src_n);
    return !ZSTD_isError(r) && r == n ? 0 : -1;
}

static cairn_err codec_zstd_encode(const struct crn_stage_task *t, size_t *ret_n,
                                   struct crn_errinfo *ei)
{
    size_t r = crn_zstd_compress(t->work, t->arg, t->src, t->src_n, t->dst, t->dst_n);

    if (r == 0)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "zstd cannot compress %zu bytes", t->src_n);
    *ret_n = r;
    return CAIRN_OK;
}

static cairn_err codec_zstd_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    if (crn_zstd_decompress(t->work, t->src, t->src_n, t->dst, t->dst_n) != 0)
        return CRN_DAMAGED(ei, "zstd data of %zu bytes is damaged", t->src_n);
    return CAIRN_OK;
}

#define ENCODE codec_zstd_encode
#define DECODE codec_zstd_decode
#else

int crn_zstd_is_there(void)
{
    return 0;
}

size_t crn_zstd_bound(size_t n)
{
    return n + n / 128 + 64;
}

size_t crn_zstd_compress(struct crn_encode_work *w, int level, const void *src, size_t n, void *dst,
                         size_t dst_n)
{
    (void)w, (void)level, (void)src, (void)n, (void)dst, (void)dst_n;
    return 0;
}

int crn_zstd_decompress(struct crn_encode_work *w, const void *src, size_t src_n, void *dst,
                        size_t n)
{
    (void)w, (void)src, (void)src_n, (void)dst, (void)n;
    return -1;
}

#define ENCODE NULL
#define DECODE NULL
#endif

const struct crn_codec crn_codec_zstd = {
    .id = 1,
    .name = "zstd",
    .kind = CRN_STAGE_CODEC,
    .arg_min = 1,
    .arg_max = 19,
    .arg_default = 1,
    .bound = crn_zstd_bound,
    .encode = ENCODE,
    .decode = DECODE,
};
