/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves the first `argument` bytes to the end, so that numbers in a file without a known format begin
 * at the first byte. */
#include "encode/codec.h"

#include <string.h>

static size_t filter_rotate_bound(size_t n)
{
    return n;
}

/* by <= n */
static void rotate_bytes(unsigned char *dst, const unsigned char *src, size_t n, size_t by)
{
    memcpy(dst, src + by, n - by);
    memcpy(dst + (n - by), src, by);
}

static cairn_err filter_rotate_encode(const struct crn_stage_task *t, size_t *ret_n,
                                      struct crn_errinfo *ei)
{
    (void)ei;
    if (t->src_n > 0)
        rotate_bytes(t->dst, t->src, t->src_n, t->arg % t->src_n);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err filter_rotate_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    (void)ei;
    if (t->src_n > 0)
        rotate_bytes(t->dst, t->src, t->src_n, t->src_n - t->arg % t->src_n);
    return CAIRN_OK;
}

const struct crn_codec crn_filter_rotate = {
    .id = 38,
    .name = "rotate",
    .kind = CRN_STAGE_FILTER,
    .arg_min = 0,
    .arg_max = 15,
    .bound = filter_rotate_bound,
    .encode = filter_rotate_encode,
    .decode = filter_rotate_decode,
};
