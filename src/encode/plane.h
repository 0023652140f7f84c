/* SPDX-License-Identifier: BSD-3-Clause */
/* One plane of bytes (for example the n-th byte of every number), stored in the way that suits
 * it: as one value, raw, entropy coded, or through zstd if it has repeats. */
#ifndef CRN_PLANE_H
#define CRN_PLANE_H

#include "encode/codec.h"

/* Space that encoding n bytes may use. */
size_t crn_plane_bound(size_t n);
/* level: of zstd; 0 disables zstd. The size is in ret_n. Uses CRN_SLOT_PLANE. */
CAIRN_CHECKED cairn_err crn_plane_encode(struct crn_encode_work *w, int level,
                                         const unsigned char *src, size_t n, unsigned char *dst,
                                         size_t *ret_n, struct crn_errinfo *ei);
/* Decodes n bytes from src, which may be followed by other data; ret_used gets the bytes
 * consumed. */
CAIRN_CHECKED cairn_err crn_plane_decode(struct crn_encode_work *w, const unsigned char *src,
                                         size_t src_n, unsigned char *dst, size_t n,
                                         size_t *ret_used, struct crn_errinfo *ei);

/* Estimates the encoded size from samples, without tables and heads, which are negligible in a
 * plane of usual size. */
CAIRN_CHECKED cairn_err crn_plane_estimate(struct crn_encode_work *w, int level,
                                           const unsigned char *src, size_t n, double *ret_bytes,
                                           struct crn_errinfo *ei);

#endif
