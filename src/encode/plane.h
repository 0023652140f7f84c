/* SPDX-License-Identifier: BSD-3-Clause */
/* One plane of bytes (the n-th byte of every number, say), kept in the way that suits it: as one
 * value, as it is, entropy coded, or through zstd where it repeats itself. */
#ifndef CRN_PLANE_H
#define CRN_PLANE_H

#include "encode/codec.h"

/* Room that encoding n bytes may use. */
size_t crn_plane_bound(size_t n);
/* level: of zstd; 0 leaves zstd out. Returns the size in ret_n. Uses CRN_SLOT_PLANE. */
CAIRN_CHECKED cairn_err crn_plane_encode(struct crn_encode_work *w, int level,
                                         const unsigned char *src, size_t n, unsigned char *dst,
                                         size_t *ret_n, struct crn_errinfo *ei);
/* Decodes n bytes from src, which may be followed by other things; how much it used in ret_used. */
CAIRN_CHECKED cairn_err crn_plane_decode(struct crn_encode_work *w, const unsigned char *src,
                                         size_t src_n, unsigned char *dst, size_t n,
                                         size_t *ret_used, struct crn_errinfo *ei);

/* About how many bytes encoding would leave, from pieces; without the tables and heads, which do not
 * count in a plane of usual size. */
CAIRN_CHECKED cairn_err crn_plane_estimate(struct crn_encode_work *w, int level,
                                           const unsigned char *src, size_t n, double *ret_bytes,
                                           struct crn_errinfo *ei);

#endif
