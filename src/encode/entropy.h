/* SPDX-License-Identifier: BSD-3-Clause */
/* Entropy coding of bytes without matches: blocks of CRN_HUFFMAN_BLOCK bytes, each with a prefix
 * code of its own (at most 11 bits), in four streams that are decoded side by side. */
#ifndef CRN_ENTROPY_H
#define CRN_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#define CRN_HUFFMAN_BLOCK ((size_t)64 << 10)

/* The most bytes that encoding may write; more than it returns, because of the last store. */
size_t crn_huffman_bound(size_t n);
/* Returns the encoded size; dst has crn_huffman_bound(n) bytes. */
size_t crn_huffman_encode(const unsigned char *src, size_t n, unsigned char *dst);
/* 0, or -1 if src cannot be an encoding of n bytes. */
int crn_huffman_decode(const unsigned char *src, size_t src_n, unsigned char *dst, size_t n);

/* Counts of the 256 values. */
void crn_entropy_histogram(const unsigned char *src, size_t n, uint32_t count[256]);
/* Bits that an ideal code for these counts needs for all n. */
double crn_entropy_bits(const uint32_t count[256], size_t n);
/* Bits that the code of a block needs, without its table: at least one per byte, unless all
 * bytes are equal. */
double crn_huffman_bits(const uint32_t count[256]);

#endif
