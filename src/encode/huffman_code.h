/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefix codes: lengths from counts, codes from lengths. Shared by encoder and decoder. */
#ifndef CRN_HUFFMAN_CODE_H
#define CRN_HUFFMAN_CODE_H

#include <stdint.h>

#define CRN_CODE_BITS 11
#define CRN_CODE_SIZE (1U << CRN_CODE_BITS)

/* Lengths of a complete code (0: the value does not occur), none above CRN_CODE_BITS. At least
 * two counts must be nonzero. */
void crn_huffman_code_lengths(const uint32_t count[256], uint8_t length[256]);
/* Codes, lowest bit first. -1 unless the lengths form a complete code. */
int crn_huffman_code_assign(const uint8_t length[256], uint16_t code[256]);

#endif
