/* SPDX-License-Identifier: BSD-3-Clause */
/* The state a writer thread needs to encode: scratch memory, and what it has learnt about each
 * variable, which it keeps for later versions. One thread at a time. */
#ifndef CRN_AGGREGATE_CODER_H
#define CRN_AGGREGATE_CODER_H

#include "aggregate/piece.h"

struct crn_coder;

void crn_coder_close(struct crn_coder *c); /* NULL is fine */
/* CPU time of all encoding so far, in ns; 0 for NULL. */
int64_t crn_coder_cpu_ns(const struct crn_coder *c);
/* Encodes a write into its block, stream by stream, and writes it. Local extents are read in
 * place, remote ones from their places in the block. Encoded data is never longer than its
 * input, so it can overwrite input already consumed. Creates the coder on first use. */
CAIRN_CHECKED cairn_err crn_coder_write(struct crn_coder **coder, struct crn_pieces *all,
                                        const struct crn_piece *p, struct crn_errinfo *ei);

#endif
