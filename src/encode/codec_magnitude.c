/* SPDX-License-Identifier: BSD-3-Clause */
/* For residuals: each number is its length in bits, which has structure and is kept as a plane, and
 * the bits below its highest one, which have none and are kept as they are. What is spent on a number
 * follows its size bit by bit, where byte planes round up to whole bytes.
 *
 *     u32 size           of the packed bits
 *     packed bits        of all numbers, lowest bit first
 *     plane              of lengths (plane.h)
 *     bytes beyond the last whole number
 *
 * Argument: the level of zstd for the lengths; 0 leaves zstd out. */
#include "encode/codec.h"

#include <string.h>
#include "encode/plane.h"
#include "encode/simd.h"
#include "encode/work.h"

#define HEAD  4
#define SLACK 16 /* stores of 8 bytes end beyond the last bit */

static int fits(const struct crn_data *data)
{
    return crn_word_of(data->type).width > 1;
}

static size_t bound(size_t n)
{
    return HEAD + n + SLACK + crn_plane_bound(n / 2) + 8;
}

/* Where the next bit goes: the bits before it in their byte are kept until the byte is full. */
struct packer {
    unsigned char *at;
    uint64_t bits;
    unsigned used; /* below 8 */
};

CRN_INLINE void pack(struct packer *p, uint64_t low, unsigned len) /* len <= 56 */
{
    p->bits |= low << p->used;
    p->used += len;
    crn_store64(p->at, p->bits);
    p->at += p->used >> 3;
    p->bits >>= p->used & ~7U;
    p->used &= 7;
}

CRN_INLINE void pack_number(struct packer *p, uint64_t x, unsigned char *length)
{
    unsigned n = x == 0 ? 0 : 64 - (unsigned)__builtin_clzll(x);
    unsigned len = n > 0 ? n - 1 : 0;
    uint64_t low = x & (((uint64_t)1 << len) - 1);

    *length = (unsigned char)n;
    if (__builtin_expect(len > 56, 0)) {
        pack(p, low & 0xffffffff, 32);
        low >>= 32;
        len -= 32;
    }
    pack(p, low, len);
}

CRN_WIDE static size_t pack_all(const unsigned char *src, size_t words, unsigned width,
                                unsigned char *dst, unsigned char *lengths)
{
    struct packer p = {.at = dst};
    size_t i;

    if (width == 8)
        for (i = 0; i < words; i++)
            pack_number(&p, crn_load64(src + 8 * i), &lengths[i]);
    else if (width == 4)
        for (i = 0; i < words; i++)
            pack_number(&p, crn_load32(src + 4 * i), &lengths[i]);
    else if (width == 2)
        for (i = 0; i < words; i++)
            pack_number(&p, *(const crn_u16 *)(src + 2 * i), &lengths[i]);
    else
        for (i = 0; i < words; i++)
            pack_number(&p, src[i], &lengths[i]);
    return (size_t)(p.at - dst) + (p.used > 0);
}

static cairn_err encode(const struct crn_task *t, size_t *ret_n, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    size_t tail = t->src_n % width;
    unsigned char *lengths;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words, &lengths, ei);
    size_t packed;
    size_t plane;
    int i;

    if (rc != CAIRN_OK)
        return rc;
    packed = pack_all(t->src, words, width, t->dst + HEAD, lengths);
    for (i = 0; i < HEAD; i++)
        t->dst[i] = (unsigned char)(packed >> (8 * i));
    rc = crn_plane_encode(t->work, t->arg, lengths, words, t->dst + HEAD + packed, &plane, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(t->dst + HEAD + packed + plane, t->src + words * width, tail);
    *ret_n = HEAD + packed + plane + tail;
    return CAIRN_OK;
}

/* Bits at a place near the end, where 8 bytes cannot be loaded. */
static uint64_t careful(const unsigned char *src, size_t n, uint64_t at)
{
    unsigned char last[16] = {0};
    size_t from = (size_t)(at >> 3);

    if (from < n)
        memcpy(last, src + from, n - from < 9 ? n - from : 9);
    return crn_load64(last) >> (at & 7) | (at & 7 ? (uint64_t)last[8] << (64 - (at & 7)) : 0);
}

/* n bytes may be loaded; the lengths have been checked against them. */
CRN_INLINE uint64_t unpack(const unsigned char *src, size_t n, uint64_t *at, unsigned length)
{
    unsigned len = length > 0 ? length - 1 : 0;
    size_t from = (size_t)(*at >> 3);
    uint64_t bits;

    if (__builtin_expect(from + 8 > n || len > 56, 0))
        bits = careful(src, n, *at);
    else
        bits = crn_load64(src + from) >> (*at & 7);
    *at += len;
    return (bits & (((uint64_t)1 << len) - 1)) | (uint64_t)(length > 0) << len;
}

CRN_WIDE static void unpack_all(const unsigned char *src, size_t n, const unsigned char *lengths,
                                size_t words, unsigned width, unsigned char *dst)
{
    uint64_t at = 0;
    size_t i;

    if (width == 8)
        for (i = 0; i < words; i++)
            crn_store64(dst + 8 * i, unpack(src, n, &at, lengths[i]));
    else if (width == 4)
        for (i = 0; i < words; i++)
            ((crn_u32 *)dst)[i] = (uint32_t)unpack(src, n, &at, lengths[i]);
    else if (width == 2)
        for (i = 0; i < words; i++)
            ((crn_u16 *)dst)[i] = (uint16_t)unpack(src, n, &at, lengths[i]);
    else
        for (i = 0; i < words; i++)
            dst[i] = (unsigned char)unpack(src, n, &at, lengths[i]);
}

/* Bits that the lengths ask for; SIZE_MAX if one is too long. */
CRN_WIDE static size_t count_bits(const unsigned char *lengths, size_t words, unsigned width)
{
    size_t sum = 0;
    unsigned longest = 0;
    size_t i;

    for (i = 0; i < words; i++) {
        sum += lengths[i] > 0 ? lengths[i] - 1U : 0;
        longest |= lengths[i] > 8 * width;
    }
    return longest ? SIZE_MAX : sum;
}

static cairn_err decode(const struct crn_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->dst_n / width;
    size_t tail = t->dst_n % width;
    unsigned char *lengths;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words, &lengths, ei);
    size_t packed;
    size_t used;
    size_t bits;

    if (rc != CAIRN_OK)
        return rc;
    if (t->src_n < HEAD || (packed = crn_load32(t->src)) > t->src_n - HEAD)
        return CRN_DAMAGED(ei, "packed numbers of %zu bytes are cut off", t->dst_n);
    rc = crn_plane_decode(t->work, t->src + HEAD + packed, t->src_n - HEAD - packed, lengths, words,
                          &used, ei);
    if (rc != CAIRN_OK)
        return rc;
    bits = count_bits(lengths, words, width);
    if (bits == SIZE_MAX || (bits + 7) / 8 != packed || t->src_n - HEAD - packed - used != tail)
        return CRN_DAMAGED(ei, "packed numbers of %zu bytes are damaged", t->dst_n);
    unpack_all(t->src + HEAD, t->src_n - HEAD, lengths, words, width, t->dst);
    memcpy(t->dst + words * width, t->src + HEAD + packed + used, tail);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_magnitude = {
    .id = 8,
    .name = "magnitude",
    .kind = CRN_STAGE_CODEC,
    .arg_max = 19,
    .arg_default = 1,
    .fits = fits,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
