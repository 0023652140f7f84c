/* SPDX-License-Identifier: BSD-3-Clause */
/* Words to planes of bytes and back: plane p holds byte p of every word, at dst + p * words. */
#ifndef CRN_TRANSPOSE_H
#define CRN_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>

/* width: 1, 2, 4 or 8. */
void crn_transpose_planes_split(unsigned char *dst, const unsigned char *src, size_t words,
                                unsigned width);
void crn_transpose_planes_join(unsigned char *dst, const unsigned char *src, size_t words,
                               unsigned width);

/* Bit k of each of n bytes to row k of eight rows of n / 8 bytes; n is a multiple of 8. */
void crn_transpose_bits_split(unsigned char *dst, const unsigned char *src, size_t n);
void crn_transpose_bits_join(unsigned char *dst, const unsigned char *src, size_t n);

#endif
