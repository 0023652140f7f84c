/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the output of fpzip without a header, for one dimension at full precision. */
#ifndef CRN_FPZIP_H
#define CRN_FPZIP_H

#include <stddef.h>

/* n numbers of 4 or 8 bytes. 0, or -1 if src is not an encoding of them. */
int crn_fpzip_decode(const unsigned char *src, size_t src_n, unsigned char *dst, size_t n,
                     unsigned width);

#endif
