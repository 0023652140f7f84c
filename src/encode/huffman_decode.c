/* SPDX-License-Identifier: BSD-3-Clause */
/* Decoder of entropy.h; huffman_encode.c describes a block. Input is hostile: a code is accepted
 * only if it is complete, so every bit pattern is valid. Streams are read within the block, and
 * a stream read beyond its own end is damaged. */
#include "encode/entropy.h"

#include "base/buf.h"
#include "encode/huffman_code.h"
#include "encode/simd.h"

#define CODED_MIN ((size_t)64)

struct huffman_decode_stream {
    const unsigned char *at; /* next byte to load */
    const unsigned char *end;
    uint64_t bits;
    unsigned have; /* valid bits; the bits above them will be loaded again, unchanged */
    unsigned char *dst;
    unsigned char *dst_end;
};

/* Refills to at least 56 bits; needs 8 readable bytes at s->at. */
CRN_INLINE void huffman_decode_refill(struct huffman_decode_stream *s)
{
    s->bits |= crn_load64(s->at) << s->have;
    s->at += (63 - s->have) >> 3;
    s->have |= 56;
}

/* A table entry gives one value or, if both codes fit into its bits, two. */
#define ENTRY(values, bits, n) ((uint32_t)((values) | (bits) << 16 | (n) << 24))
#define ENTRY_BITS(e)          ((e) >> 16 & 0xff)
#define ENTRY_VALUES(e)        ((e) >> 24)

CRN_INLINE void huffman_decode_step(struct huffman_decode_stream *s, const uint32_t *table)
{
    uint32_t entry = table[s->bits & (CRN_CODE_SIZE - 1)];

    memcpy(s->dst, &entry, 2); /* both; the next store overwrites an invalid second one */
    s->dst += ENTRY_VALUES(entry);
    s->bits >>= ENTRY_BITS(entry);
    s->have -= ENTRY_BITS(entry);
}

CRN_INLINE int is_fast(const struct huffman_decode_stream *s, const unsigned char *limit)
{
    return s->at <= limit && s->dst_end - s->dst >= 10;
}

/* Runs while each stream has space for 5 pairs and 8 bytes to load. */
CRN_WIDE static void decode_fast(struct huffman_decode_stream s[4], const unsigned char *limit,
                                 const uint32_t *table)
{
    struct huffman_decode_stream a = s[0];
    struct huffman_decode_stream b = s[1];
    struct huffman_decode_stream c = s[2];
    struct huffman_decode_stream d = s[3];
    int k;

    while (is_fast(&a, limit) && is_fast(&b, limit) && is_fast(&c, limit) && is_fast(&d, limit)) {
        huffman_decode_refill(&a);
        huffman_decode_refill(&b);
        huffman_decode_refill(&c);
        huffman_decode_refill(&d);
        for (k = 0; k < 5; k++) {
            huffman_decode_step(&a, table);
            huffman_decode_step(&b, table);
            huffman_decode_step(&c, table);
            huffman_decode_step(&d, table);
        }
    }
    s[0] = a;
    s[1] = b;
    s[2] = c;
    s[3] = d;
}

/* Decodes the rest of a stream, and checks that it has the announced length. */
static int decode_rest(struct huffman_decode_stream *s, const uint32_t *table)
{
    const unsigned char *next = s->at - s->have / 8; /* the first wholly unused byte */
    unsigned used = (8 - s->have % 8) % 8;           /* used bits of the byte before it */
    uint32_t entry;

    if (used > 0)
        next--;
    s->bits = 0;
    s->have = 0;
    if (next > s->end || (used > 0 && next == s->end))
        return -1;
    if (used > 0) {
        s->bits = (uint64_t)*next++ >> used;
        s->have = 8 - used;
    }
    for (; s->dst < s->dst_end; s->dst++) {
        while (s->have < CRN_CODE_BITS && next < s->end) {
            s->bits |= (uint64_t)*next++ << s->have;
            s->have += 8;
        }
        entry = table[s->bits & (CRN_CODE_SIZE - 1)];
        if (ENTRY_BITS(entry) > s->have)
            return -1;
        *s->dst = (unsigned char)entry;
        s->bits >>= ENTRY_BITS(entry);
        s->have -= ENTRY_BITS(entry);
    }
    return next == s->end && s->have < 8 ? 0 : -1;
}

/* The value of each pattern of CRN_CODE_BITS bits. */
static int build_single(struct crn_view *v, uint32_t table[CRN_CODE_SIZE])
{
    uint8_t length[256] = {0};
    uint16_t code[256];
    unsigned last = crn_view_u8(v);
    const unsigned char *nibbles = crn_view_take(v, last / 2 + 1);
    unsigned i;
    uint32_t at;

    if (nibbles == NULL)
        return -1;
    for (i = 0; i <= last; i++)
        length[i] = (uint8_t)((nibbles[i / 2] >> (i % 2 * 4)) & 15);
    if (crn_huffman_code_assign(length, code) != 0)
        return -1;
    for (i = 0; i <= last; i++)
        for (at = code[i]; length[i] > 0 && at < CRN_CODE_SIZE; at += 1U << length[i])
            table[at] = ENTRY(i, (uint32_t)length[i], 1U);
    return 0;
}

/* Adds the following value if its code lies in the same bits. */
static void build_pairs(uint32_t table[CRN_CODE_SIZE], const uint32_t single[CRN_CODE_SIZE])
{
    uint32_t i;

    for (i = 0; i < CRN_CODE_SIZE; i++) {
        uint32_t first = single[i];
        uint32_t second = single[i >> ENTRY_BITS(first)];
        uint32_t bits = ENTRY_BITS(first) + ENTRY_BITS(second);

        table[i] = first;
        if (bits <= CRN_CODE_BITS)
            table[i] = ENTRY((first & 0xff) | (second & 0xff) << 8, bits, 2U);
    }
}

static int get_coded(struct crn_view *v, unsigned char *dst, size_t n)
{
    uint32_t single[CRN_CODE_SIZE];
    uint32_t pairs[CRN_CODE_SIZE];
    struct huffman_decode_stream s[4] = {{0}};
    size_t quarter = (n + 3) / 4;
    uint16_t size[4];
    int i;

    if (n < CODED_MIN || build_single(v, single) != 0)
        return -1;
    for (i = 0; i < 4; i++)
        size[i] = crn_view_u16(v);
    for (i = 0; i < 4; i++) {
        s[i].at = crn_view_take(v, size[i]);
        if (s[i].at == NULL)
            return -1;
        s[i].end = s[i].at + size[i];
        s[i].dst = dst + quarter * (size_t)i;
        s[i].dst_end = i < 3 ? s[i].dst + quarter : dst + n;
    }
    build_pairs(pairs, single);
    if (v->len >= 8)
        decode_fast(s, v->data + v->len - 8, pairs);
    for (i = 0; i < 4; i++)
        if (decode_rest(&s[i], single) != 0)
            return -1;
    return 0;
}

static int get_block(struct crn_view *v, unsigned char *dst, size_t n)
{
    const void *p;

    switch (crn_view_u8(v)) {
    case 0:
        p = crn_view_take(v, n);
        if (p == NULL)
            return -1;
        memcpy(dst, p, n);
        return 0;
    case 1:
        memset(dst, crn_view_u8(v), n);
        return v->failed ? -1 : 0;
    case 2:
        return get_coded(v, dst, n);
    default:
        return -1;
    }
}

int crn_huffman_decode(const unsigned char *src, size_t src_n, unsigned char *dst, size_t n)
{
    struct crn_view v = crn_view_of(src, src_n);
    size_t i;

    for (i = 0; i < n; i += CRN_HUFFMAN_BLOCK)
        if (get_block(&v, dst + i, n - i < CRN_HUFFMAN_BLOCK ? n - i : CRN_HUFFMAN_BLOCK) != 0)
            return -1;
    return crn_view_left(&v) == 0 && !v.failed ? 0 : -1;
}
