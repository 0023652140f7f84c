/* SPDX-License-Identifier: BSD-3-Clause */
/* Reverses the bytes of each number: for numbers of big-endian files, which predictors cannot
 * read otherwise. Bytes after the last whole number stay at the end. No argument. */
#include "encode/codec.h"

#include <string.h>

static int filter_swap_fits(const struct crn_data *data)
{
    return crn_word_of(data->type).width > 1;
}

static size_t filter_swap_bound(size_t n)
{
    return n;
}

void crn_filter_swap_words(unsigned char *dst, const unsigned char *src, size_t words,
                           unsigned width)
{
    size_t i;

    for (i = 0; i < words; i++, src += width, dst += width) {
        uint16_t h;
        uint32_t s;
        uint64_t d;

        switch (width) {
        case 2:
            memcpy(&h, src, 2);
            h = __builtin_bswap16(h);
            memcpy(dst, &h, 2);
            break;
        case 4:
            memcpy(&s, src, 4);
            s = __builtin_bswap32(s);
            memcpy(dst, &s, 4);
            break;
        case 8:
            memcpy(&d, src, 8);
            d = __builtin_bswap64(d);
            memcpy(dst, &d, 8);
            break;
        default:
            *dst = *src;
        }
    }
}

static void swap_words(const struct crn_stage_task *t)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t whole = t->src_n / width * width;

    crn_filter_swap_words(t->dst, t->src, t->src_n / width, width);
    memcpy(t->dst + whole, t->src + whole, t->src_n - whole);
}

static cairn_err filter_swap_encode(const struct crn_stage_task *t, size_t *ret_n,
                                    struct crn_errinfo *ei)
{
    (void)ei;
    swap_words(t);
    *ret_n = t->src_n;
    return CAIRN_OK;
}

static cairn_err filter_swap_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    (void)ei;
    swap_words(t);
    return CAIRN_OK;
}

const struct crn_codec crn_filter_swap = {
    .id = 37,
    .name = "swap",
    .kind = CRN_STAGE_FILTER,
    .fits = filter_swap_fits,
    .bound = filter_swap_bound,
    .encode = filter_swap_encode,
    .decode = filter_swap_decode,
};
