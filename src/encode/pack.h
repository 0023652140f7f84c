/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata as chunks: bytes of any kind (an index) cut into pieces that are encoded one by one. */
#ifndef CRN_PACK_H
#define CRN_PACK_H

#include "base/buf.h"
#include "encode/pipe.h"

/* Appends n bytes, packed, to dst. pipe: for all pieces; NULL: the adaptive choice. */
CAIRN_CHECKED cairn_err crn_pack(const void *src, size_t n, const struct crn_pipe *pipe,
                                 struct crn_buf *dst, struct crn_errinfo *ei);
/* Appends the n bytes that packed holds to dst. Treats packed as hostile. */
CAIRN_CHECKED cairn_err crn_unpack(struct crn_view packed, uint64_t n, struct crn_buf *dst,
                                   struct crn_errinfo *ei);

#endif
