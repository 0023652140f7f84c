/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoder of entropy.h. A block is
 *
 *     u8 mode            0: the bytes follow; 1: all are the one byte that follows; 2: coded
 *     u8 last            2 only: the largest value that occurs
 *     nibbles            lengths of the codes of 0..last, low nibble first
 *     u16 size[4]        of the streams, which follow; each has a quarter of the block, rounded up
 *
 * Streams are bits from the lowest one up, ended with zeros to a whole byte. */
#include "encode/entropy.h"

#include <math.h>
#include "encode/huffman_code.h"
#include "encode/simd.h"

#define MODE_RAW   0
#define MODE_CONST 1
#define MODE_CODED 2
#define CODED_MIN  ((size_t)64) /* below this a table never pays */

size_t crn_huffman_bound(size_t n)
{
    /* The worst block is raw; a coded one is discarded only when complete. */
    return n + n / 2 + (n / CRN_HUFFMAN_BLOCK + 1) * (1 + 1 + 128 + 8) + 16;
}

CRN_WIDE void crn_entropy_histogram(const unsigned char *src, size_t n, uint32_t count[256])
{
    uint32_t part[4][256] = {{0}}; /* four tables avoid store-to-load stalls on equal neighbours */
    size_t i;

    for (i = 0; i + 8 <= n; i += 8) {
        uint64_t v = crn_load64(src + i);

        part[0][v & 255]++;
        part[1][(v >> 8) & 255]++;
        part[2][(v >> 16) & 255]++;
        part[3][(v >> 24) & 255]++;
        part[0][(v >> 32) & 255]++;
        part[1][(v >> 40) & 255]++;
        part[2][(v >> 48) & 255]++;
        part[3][v >> 56]++;
    }
    for (; i < n; i++)
        part[0][src[i]]++;
    for (i = 0; i < 256; i++)
        count[i] = part[0][i] + part[1][i] + part[2][i] + part[3][i];
}

double crn_entropy_bits(const uint32_t count[256], size_t n)
{
    double bits = 0;
    int i;

    for (i = 0; i < 256; i++)
        if (count[i] > 0)
            bits += (double)count[i] * log2((double)n / (double)count[i]);
    return bits;
}

double crn_huffman_bits(const uint32_t count[256])
{
    uint8_t length[256];
    double bits = 0;
    int i;

    crn_huffman_code_lengths(count, length);
    for (i = 0; i < 256; i++)
        bits += (double)count[i] * length[i];
    return bits;
}

/* Writes n values to dst, and up to 8 bytes more than it returns. */
CRN_WIDE static size_t put_stream(const unsigned char *src, size_t n, const uint32_t table[256],
                                  unsigned char *dst)
{
    unsigned char *at = dst;
    uint64_t bits = 0;
    unsigned used = 0;
    size_t i;

    for (i = 0; i + 4 <= n; i += 4) {
        int k;

        for (k = 0; k < 4; k++) { /* at most 7 + 44 bits */
            uint32_t entry = table[src[i + (size_t)k]];

            bits |= (uint64_t)(entry & 0xffff) << used;
            used += entry >> 16;
        }
        crn_store64(at, bits);
        at += used >> 3;
        bits >>= used & ~7U;
        used &= 7;
    }
    for (; i < n; i++) {
        uint32_t entry = table[src[i]];

        bits |= (uint64_t)(entry & 0xffff) << used;
        used += entry >> 16;
    }
    crn_store64(at, bits);
    return (size_t)(at - dst) + (used + 7) / 8;
}

static size_t put_lengths(const uint8_t length[256], unsigned char *dst)
{
    int last = 255;
    int i;

    while (length[last] == 0)
        last--;
    dst[0] = (unsigned char)last;
    for (i = 0; i <= last; i += 2)
        dst[1 + i / 2] = (unsigned char)(length[i] | (i < last ? length[i + 1] << 4 : 0));
    return 1 + (size_t)last / 2 + 1;
}

static size_t put_coded(const unsigned char *src, size_t n, const uint32_t count[256],
                        unsigned char *dst)
{
    size_t quarter = (n + 3) / 4;
    uint8_t length[256];
    uint16_t code[256];
    uint32_t table[256];
    unsigned char *sizes;
    size_t at;
    int i;

    crn_huffman_code_lengths(count, length);
    if (crn_huffman_code_assign(length, code) != 0)
        return SIZE_MAX; /* cannot happen; the block would stay raw */
    for (i = 0; i < 256; i++)
        table[i] = code[i] | (uint32_t)length[i] << 16;
    at = put_lengths(length, dst);
    sizes = dst + at;
    at += 8;
    for (i = 0; i < 4; i++) {
        size_t from = quarter * (size_t)i;
        size_t m = i < 3 ? quarter : n - from;
        size_t size = put_stream(src + from, m, table, dst + at);

        sizes[2 * i] = (unsigned char)size;
        sizes[2 * i + 1] = (unsigned char)(size >> 8);
        at += size;
    }
    return at;
}

static size_t put_block(const unsigned char *src, size_t n, unsigned char *dst)
{
    uint32_t count[256];
    size_t size = SIZE_MAX;

    crn_entropy_histogram(src, n, count);
    if (count[src[0]] == n) {
        dst[0] = MODE_CONST;
        dst[1] = src[0];
        return 2;
    }
    if (n >= CODED_MIN && crn_entropy_bits(count, n) < 7.95 * (double)n)
        size = put_coded(src, n, count, dst + 1);
    if (size < n) {
        dst[0] = MODE_CODED;
        return 1 + size;
    }
    dst[0] = MODE_RAW;
    memcpy(dst + 1, src, n);
    return 1 + n;
}

size_t crn_huffman_encode(const unsigned char *src, size_t n, unsigned char *dst)
{
    size_t at = 0;
    size_t i;

    for (i = 0; i < n; i += CRN_HUFFMAN_BLOCK)
        at += put_block(src + i, n - i < CRN_HUFFMAN_BLOCK ? n - i : CRN_HUFFMAN_BLOCK, dst + at);
    return at;
}
