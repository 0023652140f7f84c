/* SPDX-License-Identifier: BSD-3-Clause */
/* One encoded chunk: a head that describes the encoding, then the bytes. A chunk as long as its
 * contents is raw and has no head; any other is shorter. Each chunk decodes independently. It
 * carries no checksum: the file that contains it does (docs/format.md). */
#ifndef CRN_CHUNK_H
#define CRN_CHUNK_H

#include "encode/pipe.h"

#define CRN_RUNS_MAX 1024 /* per chunk; with more, the chunk counts as one-dimensional */

/* The contents of the head of a chunk that is not raw. */
struct crn_chunk_info {
    struct crn_pipe pipe;
    cairn_type type;
    size_t bytes; /* decoded */
    uint32_t nruns;
};

/* Encodes n <= CRN_CHUNK_MAX_BYTES bytes; dst has space for n. If the pipeline cannot represent
 * the bytes or does not make them smaller, a simple pipeline is used, or the chunk stays raw
 * (ret_n is n then). ret_pipe (may be NULL) tells which. Fails only if out of memory. */
CAIRN_CHECKED cairn_err crn_chunk_encode(struct crn_encode_work *w, const struct crn_pipe *pipe,
                                         const struct crn_data *data, const void *src, size_t n,
                                         void *dst, size_t *ret_n, struct crn_pipe *ret_pipe,
                                         struct crn_errinfo *ei);
/* Reads the head of a chunk that is not raw. */
CAIRN_CHECKED cairn_err crn_chunk_inspect(const void *src, size_t src_n, struct crn_chunk_info *ret,
                                          struct crn_errinfo *ei);
/* Decodes a chunk that must hold exactly dst_n bytes. previous: the same bytes in the older
 * version if the chunk was encoded against one (CAIRN_ESTATE if it is missing). */
CAIRN_CHECKED cairn_err crn_chunk_decode(struct crn_encode_work *w, const void *src, size_t src_n,
                                         const void *previous, void *dst, size_t dst_n,
                                         struct crn_errinfo *ei);

#endif
