/* SPDX-License-Identifier: BSD-3-Clause */
/* zstd frames without checksum and with known size, for the codec and for planes. */
#ifndef CRN_ZSTD_H
#define CRN_ZSTD_H

#include "encode/codec.h"

int crn_zstd_is_there(void);
size_t crn_zstd_bound(size_t n);
/* Returns 0 if the result does not fit or zstd fails; then it is not used. */
size_t crn_zstd_compress(struct crn_encode_work *w, int level, const void *src, size_t n, void *dst,
                         size_t dst_n);
/* 0, or -1 if src is not an encoding of exactly n bytes. */
int crn_zstd_decompress(struct crn_encode_work *w, const void *src, size_t src_n, void *dst,
                        size_t n);

#endif
