/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic of parity: bytes are elements of GF(256) with the polynomial 0x11d. Addition is
 * exclusive or. */
#ifndef CRN_PROTECT_FIELD_H
#define CRN_PROTECT_FIELD_H

#include <stddef.h>
#include <stdint.h>

uint8_t crn_field_mul(uint8_t a, uint8_t b);
uint8_t crn_field_inverse(uint8_t a); /* a is not 0 */
/* dst[i] += factor * src[i], for n bytes. The two do not overlap. */
void crn_field_add(uint8_t *dst, const uint8_t *src, uint8_t factor, size_t n);
/* The same in plain C, whatever was found at build time. */
void crn_field_add_plain(uint8_t *dst, const uint8_t *src, uint8_t factor, size_t n);
/* Inverts a matrix of n x n in place: 0, or -1 if it has no inverse. */
int crn_field_invert(uint8_t *matrix, uint32_t n);

#endif
