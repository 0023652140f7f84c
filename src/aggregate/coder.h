/* SPDX-License-Identifier: BSD-3-Clause */
/* What a writer thread needs to encode: scratch memory, and what it has learnt about each variable, which
 * it keeps for the versions that follow. One thread at a time. */
#ifndef CRN_AGGREGATE_CODER_H
#define CRN_AGGREGATE_CODER_H

#include "aggregate/piece.h"

struct crn_coder;

void crn_coder_close(struct crn_coder *c); /* NULL is fine */
/* Encodes a piece into its block, stream by stream, and writes it. Local extents are taken from where
 * they lie, those of other nodes from their places in the block: what is encoded is never longer, so
 * that it can be put over what is done already. The coder is made if it is not there yet. */
CAIRN_CHECKED cairn_err crn_coder_write(struct crn_coder **coder, struct crn_pieces *all,
                                        const struct crn_piece *p, struct crn_errinfo *ei);

#endif
