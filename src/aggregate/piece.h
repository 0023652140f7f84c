/* SPDX-License-Identifier: BSD-3-Clause */
/* One write of the plan, from where its bytes are to its place in the file: gathered if need be,
 * checksummed, written. Every extent and checksum has its place in the index beforehand, so that pieces
 * share nothing but the end of the file. */
#ifndef CRN_AGGREGATE_PIECE_H
#define CRN_AGGREGATE_PIECE_H

#include "aggregate/outfile.h"
#include "aggregate/plan.h"
#include "aggregate/source.h"

struct crn_coder;
struct crn_encoding;

/* What all pieces of a file have in common. */
struct crn_pieces {
    struct crn_outfile *out;
    const struct crn_source *sources;
    const struct crn_plan *plan;
    uint64_t *hashes; /* of the index; each entry has one writer */
    uint64_t chunk_bytes;
    int has_place; /* the leader of the file told where to: the pieces are an errand's, a single one */
    uint64_t place;
    const struct crn_encoding *encoding; /* NULL: as they are */
    struct crn_stream *streams;          /* of the index; those of a write have one writer */
    struct crn_repeats *repeats;         /* owned; NULL: each stream is encoded by itself */
    const struct crn_source *older;      /* as sources; for what has_older */
    uint64_t older_at;                   /* in a block, where the older bytes of other nodes lie */
};

struct crn_errand;

struct crn_piece {
    const struct crn_write *w;
    unsigned char *block;      /* NULL: written from where it lies */
    int has_arrived;           /* the block holds the bytes already, or those of other nodes */
    struct crn_errand *errand; /* owned; written for another node, or NULL */
    struct crn_coder **coder;  /* of the thread; for data that is encoded */
};

/* Whether a local write lies in one piece in memory and goes out as it is; otherwise it needs a
 * block. */
int crn_piece_in_place(const struct crn_pieces *all, const struct crn_write *w);
CAIRN_CHECKED cairn_err crn_piece_write(struct crn_pieces *all, const struct crn_piece *p,
                                        struct crn_errinfo *ei);

#endif
