/* SPDX-License-Identifier: BSD-3-Clause */
/* A codec for residuals. It adds 1 to each number. The number's magnitude (the position of its
 * highest bit: 0 for 0, 1 for 1 and 2, 2 for 3 to 6, ...) has structure and is stored as a
 * plane. The bits below it have none and are stored as they are. The cost of a number thus
 * follows its size bit by bit, where byte planes round up to whole bytes. (The largest number of
 * 64 bits has the magnitude 64 and no bits.)
 *
 *     u32 size           of the packed bits
 *     packed bits        of all numbers, lowest bit first
 *     plane              of magnitudes (plane.h)
 *     bytes beyond the last whole number
 *
 * Argument: the level of zstd for the magnitudes; 0 leaves zstd out. */
#include "encode/codec.h"

#include <string.h>
#include "encode/plane.h"
#include "encode/simd.h"
#include "encode/work.h"

#define HEAD  4
#define SLACK 16 /* an 8-byte store may end beyond the last bit */

static int codec_magnitude_fits(const struct crn_data *data)
{
    return crn_word_of(data->type).width > 1;
}

static size_t codec_magnitude_bound(size_t n)
{
    return HEAD + n + SLACK + crn_plane_bound(n / 2) + 8;
}

/* The position of the next bit. The bits before it in their byte are buffered until the byte is
 * full. */
struct bit_packer {
    unsigned char *at;
    uint64_t bits;
    unsigned used; /* below 8 */
};

CRN_INLINE void magnitude_pack(struct bit_packer *p, uint64_t low, unsigned len) /* len <= 56 */
{
    p->bits |= low << p->used;
    p->used += len;
    crn_store64(p->at, p->bits);
    p->at += p->used >> 3;
    p->bits >>= p->used & ~7U;
    p->used &= 7;
}

/* A number's magnitude, and the bits below its highest one. */
CRN_INLINE unsigned magnitude_of(uint64_t x, uint64_t *ret_low)
{
    uint64_t y = x + 1;
    unsigned len = 63 - (unsigned)__builtin_clzll(y | (y == 0));

    *ret_low = y & (((uint64_t)1 << len) - 1);
    return y == 0 ? 64 : len;
}

CRN_INLINE void pack_number(struct bit_packer *p, uint64_t x, unsigned char *magnitude)
{
    uint64_t low;
    unsigned len = magnitude_of(x, &low);

    *magnitude = (unsigned char)len;
    len &= 63;
    if (__builtin_expect(len > 56, 0)) {
        magnitude_pack(p, low & 0xffffffff, 32);
        low >>= 32;
        len -= 32;
    }
    magnitude_pack(p, low, len);
}

/* Packs two numbers at once, since each pack depends on the one before. Numbers of at most 32
 * bits. */
CRN_INLINE void pack_two(struct bit_packer *p, uint64_t x, uint64_t y, unsigned char magnitude[2])
{
    uint64_t low_x;
    uint64_t low_y;
    unsigned a = magnitude_of(x, &low_x);
    unsigned b = magnitude_of(y, &low_y);

    magnitude[0] = (unsigned char)a;
    magnitude[1] = (unsigned char)b;
    if (__builtin_expect(a + b > 56, 0)) {
        magnitude_pack(p, low_x, a);
        magnitude_pack(p, low_y, b);
    } else {
        magnitude_pack(p, low_x | low_y << a, a + b);
    }
}

/* A macro, so that each width gets its own loop. */
#define PACK_ALL(name, word)                                                                       \
    CRN_WIDE static size_t name(const word *src, size_t words, unsigned char *dst,                 \
                                unsigned char *magnitudes)                                         \
    {                                                                                              \
        struct bit_packer p = {.at = dst};                                                         \
        size_t i = 0;                                                                              \
                                                                                                   \
        for (; sizeof(word) <= 4 && i + 2 <= words; i += 2)                                        \
            pack_two(&p, src[i], src[i + 1], &magnitudes[i]);                                      \
        for (; i < words; i++)                                                                     \
            pack_number(&p, src[i], &magnitudes[i]);                                               \
        return (size_t)(p.at - dst) + (p.used > 0);                                                \
    }

PACK_ALL(pack_64, crn_u64)
PACK_ALL(pack_32, crn_u32)
PACK_ALL(pack_16, crn_u16)
PACK_ALL(pack_8, uint8_t)

static size_t pack_all(const unsigned char *src, size_t words, unsigned width, unsigned char *dst,
                       unsigned char *magnitudes)
{
    if (width == 8)
        return pack_64((const crn_u64 *)src, words, dst, magnitudes);
    if (width == 4)
        return pack_32((const crn_u32 *)src, words, dst, magnitudes);
    if (width == 2)
        return pack_16((const crn_u16 *)src, words, dst, magnitudes);
    return pack_8(src, words, dst, magnitudes);
}

static cairn_err codec_magnitude_encode(const struct crn_stage_task *t, size_t *ret_n,
                                        struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->src_n / width;
    size_t tail = t->src_n % width;
    unsigned char *magnitudes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words, &magnitudes, ei);
    size_t packed;
    size_t plane;
    int i;

    if (rc != CAIRN_OK)
        return rc;
    packed = pack_all(t->src, words, width, t->dst + HEAD, magnitudes);
    for (i = 0; i < HEAD; i++)
        t->dst[i] = (unsigned char)(packed >> (8 * i));
    rc = crn_plane_encode(t->work, t->arg, magnitudes, words, t->dst + HEAD + packed, &plane, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(t->dst + HEAD + packed + plane, t->src + words * width, tail);
    *ret_n = HEAD + packed + plane + tail;
    return CAIRN_OK;
}

#define BATCH 8

/* Loads bits near the end, where 8 bytes cannot be loaded, or more than 56 bits. */
static uint64_t magnitude_careful(const unsigned char *src, size_t n, uint64_t at)
{
    unsigned char last[16] = {0};
    size_t from = (size_t)(at >> 3);

    if (from < n)
        memcpy(last, src + from, n - from < 9 ? n - from : 9);
    return crn_load64(last) >> (at & 7) | (at & 7 ? (uint64_t)last[8] << (64 - (at & 7)) : 0);
}

/* bits: at least as many valid bits as the magnitude needs, with others above them. */
CRN_INLINE uint64_t number_of(uint64_t bits, unsigned magnitude)
{
    uint64_t mask = ((uint64_t)1 << (magnitude & 63)) - 1;

    return magnitude == 64 ? UINT64_MAX : (bits & mask) + mask;
}

CRN_INLINE uint64_t unpack_slow(const unsigned char *src, size_t n, uint64_t *at,
                                unsigned magnitude)
{
    uint64_t x = number_of(magnitude_careful(src, n, *at), magnitude);

    *at += magnitude & 63;
    return x;
}

/* Requires 9 loadable bytes. */
CRN_INLINE uint64_t magnitude_unpack(const unsigned char *src, uint64_t *at, unsigned magnitude,
                                     unsigned width)
{
    const unsigned char *from = src + (*at >> 3);
    unsigned shift = (unsigned)*at & 7;
    uint64_t bits = crn_load64(from) >> shift;
    uint64_t mask = ((uint64_t)1 << (magnitude & 63)) - 1;

    *at += magnitude & 63;
    if (width == 8 && __builtin_expect(magnitude > 56, 0))
        return number_of(bits | (uint64_t)from[8] << 1 << (63 - shift), magnitude);
    return (bits & mask) + mask;
}

/* Two numbers from one load: magnitudes of at most PAIR_MAX. Returns the first. */
#define PAIR_MAX 28
CRN_INLINE uint64_t unpack_pair(const unsigned char *src, uint64_t *at,
                                const unsigned char magnitude[2], uint64_t *ret_second)
{
    uint64_t bits = crn_load64(src + (*at >> 3)) >> (*at & 7);
    uint64_t a = magnitude[0];
    uint64_t b = magnitude[1];
    uint64_t mask_a = ((uint64_t)1 << a) - 1;
    uint64_t mask_b = ((uint64_t)1 << b) - 1;

    *at += a + b;
    *ret_second = (bits >> a & mask_b) + mask_b;
    return (bits & mask_a) + mask_a;
}

/* src has n bytes; the magnitudes, the largest of which is max, were checked against them. */
#define UNPACK_ALL(name, word)                                                                     \
    CRN_WIDE static void name(const unsigned char *src, size_t n, const unsigned char *magnitudes, \
                              unsigned max, size_t words, void *to)                                \
    {                                                                                              \
        word *const dst = to; /* NOLINT(bugprone-macro-parentheses): a type */                     \
        uint64_t second;                                                                           \
        uint64_t at = 0;                                                                           \
        size_t i = 0;                                                                              \
        size_t k;                                                                                  \
                                                                                                   \
        while (max <= PAIR_MAX && i + BATCH <= words && (at >> 3) + 8 * BATCH + 9 <= n)            \
            for (k = 0; k < BATCH; k += 2, i += 2) {                                               \
                dst[i] = (word)unpack_pair(src, &at, magnitudes + i, &second);                     \
                dst[i + 1] = (word)second;                                                         \
            }                                                                                      \
        while (i + BATCH <= words && (at >> 3) + 8 * BATCH + 9 <= n)                               \
            for (k = 0; k < BATCH; k++, i++)                                                       \
                dst[i] = (word)magnitude_unpack(src, &at, magnitudes[i], sizeof(word));            \
        for (; i < words; i++)                                                                     \
            dst[i] = (word)unpack_slow(src, n, &at, magnitudes[i]);                                \
    }

UNPACK_ALL(unpack_64, crn_u64)
UNPACK_ALL(unpack_32, crn_u32)
UNPACK_ALL(unpack_16, crn_u16)
UNPACK_ALL(unpack_8, uint8_t)

static void unpack_all(const unsigned char *src, size_t n, const unsigned char *magnitudes,
                       unsigned max, size_t words, unsigned width, unsigned char *dst)
{
    if (width == 8)
        unpack_64(src, n, magnitudes, max, words, dst);
    else if (width == 4)
        unpack_32(src, n, magnitudes, max, words, dst);
    else if (width == 2)
        unpack_16(src, n, magnitudes, max, words, dst);
    else
        unpack_8(src, n, magnitudes, max, words, dst);
}

/* The number of bits that the magnitudes need, and the largest magnitude. */
CRN_WIDE static size_t count_bits(const unsigned char *magnitudes, size_t words, unsigned *ret_max)
{
    const size_t block = 512; /* sums of this many fit into 16 bits */
    unsigned char max = 0;
    size_t bits = 0;
    size_t i;
    size_t k;

    for (i = 0; i < words; i += block) {
        size_t n = words - i < block ? words - i : block;
        uint16_t sum = 0;

        for (k = i; k < i + n; k++) {
            sum = (uint16_t)(sum + (magnitudes[k] & 63));
            max = magnitudes[k] > max ? magnitudes[k] : max;
        }
        bits += sum;
    }
    *ret_max = max;
    return bits;
}

static cairn_err codec_magnitude_decode(const struct crn_stage_task *t, struct crn_errinfo *ei)
{
    unsigned width = crn_word_of(t->data->type).width;
    size_t words = t->dst_n / width;
    size_t tail = t->dst_n % width;
    unsigned char *magnitudes;
    cairn_err rc = crn_work_scratch(t->work, CRN_SLOT_STAGE, words, &magnitudes, ei);
    size_t packed;
    size_t used;
    size_t bits;
    unsigned max;

    if (rc != CAIRN_OK)
        return rc;
    if (t->src_n < HEAD || (packed = crn_load32(t->src)) > t->src_n - HEAD)
        return CRN_DAMAGED(ei, "packed numbers of %zu bytes are cut off", t->dst_n);
    rc = crn_plane_decode(t->work, t->src + HEAD + packed, t->src_n - HEAD - packed, magnitudes,
                          words, &used, ei);
    if (rc != CAIRN_OK)
        return rc;
    bits = count_bits(magnitudes, words, &max);
    if (max > 8 * width || (bits + 7) / 8 != packed || t->src_n - HEAD - packed - used != tail)
        return CRN_DAMAGED(ei, "packed numbers of %zu bytes are damaged", t->dst_n);
    unpack_all(t->src + HEAD, t->src_n - HEAD, magnitudes, max, words, width, t->dst);
    memcpy(t->dst + words * width, t->src + HEAD + packed + used, tail);
    return CAIRN_OK;
}

const struct crn_codec crn_codec_magnitude = {
    .id = 8,
    .name = "magnitude",
    .kind = CRN_STAGE_CODEC,
    .arg_max = 19,
    .arg_default = 1,
    .fits = codec_magnitude_fits,
    .bound = codec_magnitude_bound,
    .encode = codec_magnitude_encode,
    .decode = codec_magnitude_decode,
};
