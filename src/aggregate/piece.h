/* SPDX-License-Identifier: BSD-3-Clause */
/* One write of the plan, from its sources to its offset in the file: gathered if need be,
 * checksummed, written. Every extent and checksum has a preassigned place in the index, so
 * writes share only the end of the file. */
#ifndef CRN_AGGREGATE_PIECE_H
#define CRN_AGGREGATE_PIECE_H

#include "aggregate/outfile.h"
#include "aggregate/plan.h"
#include "aggregate/source.h"

struct crn_coder;
struct crn_encoding;

/* State shared by all writes of a file. */
struct crn_pieces {
    struct crn_outfile *out;
    const struct crn_source *sources;
    const struct crn_plan *plan;
    uint64_t *hashes; /* of the index; each entry has one writer */
    uint64_t chunk_bytes;
    int has_place; /* the leader assigned the offset: this is the single write of an errand */
    uint64_t place;
    const struct crn_encoding *encoding; /* NULL: not encoded */
    double bandwidth;                    /* known bandwidth of a thread; 0: unknown */
    struct crn_stream *streams;          /* of the index; those of a write have one writer */
    struct crn_repeats *repeats;         /* owned; NULL: each stream is encoded by itself */
    const struct crn_source *older;      /* like sources; for writes with has_older */
    uint64_t older_at;                   /* offset of the remote older bytes in a block */
};

struct crn_errand;

struct crn_piece {
    const struct crn_write *w;
    unsigned char *block;      /* NULL: written in place */
    int has_arrived;           /* the block holds the bytes already, or the remote ones */
    struct crn_errand *errand; /* owned; the errand it belongs to, or NULL */
    struct crn_coder **coder;  /* of the thread; for encoded data */
};

/* Is a local write contiguous in memory, and written without change? Otherwise it needs a block. */
int crn_piece_in_place(const struct crn_pieces *all, const struct crn_write *w);
CAIRN_CHECKED cairn_err crn_piece_write(struct crn_pieces *all, const struct crn_piece *p,
                                        struct crn_errinfo *ei);

#endif
