/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops over words of 1, 2, 4 or 8 bytes at any address; n counts words. Arithmetic is modulo
 * 2^bits. Buffers do not overlap, except where a function works in place. */
#ifndef CRN_WORDS_H
#define CRN_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Floating-point bits <-> integers in the same order. Self-inverse. */
void crn_words_order(unsigned width, void *dst, const void *src, size_t n);
void crn_words_reorder(unsigned width, void *x, size_t n); /* the same in place */

void crn_words_add(unsigned width, void *x, const void *b, size_t n);      /* x += b */
void crn_words_subtract(unsigned width, void *x, const void *b, size_t n); /* x -= b */

/* Each word minus the one stride words before it, if there is one. stride > 0. */
void crn_words_difference(unsigned width, void *dst, const void *src, size_t n, size_t stride);
void crn_words_sum(unsigned width, void *x, size_t n, size_t stride); /* the inverse */
void crn_words_sum_reorder(unsigned width, void *x, size_t n, size_t stride);

/* Signed 0, -1, 1, -2, ... <-> 0, 1, 2, 3, ...; after a difference. stride >= n: no difference. */
void crn_words_fold(unsigned width, void *dst, const void *src, size_t n, size_t stride);
void crn_words_unfold(unsigned width, void *dst, const void *src, size_t n, size_t stride);

#endif
