/* SPDX-License-Identifier: BSD-3-Clause */
/* A stored array, read section by section: the region of one rank, or a global array assembled
 * from the blocks of all ranks. */
#ifndef CRN_CLI_ARRAY_H
#define CRN_CLI_ARRAY_H

#include "cli/items.h"

struct cli_array {
    struct crn_version *v;
    int is_whole;                  /* the global array, not the block of one rank */
    uint32_t rank, index;          /* unless is_whole */
    struct crn_region region;      /* name, type; dims are the array's, or the slice's */
    uint64_t from[CAIRN_MAX_DIMS]; /* where the slice begins in the stored array, ... */
    uint64_t full[CAIRN_MAX_DIMS]; /* ... and the dims of that */
    uint64_t bytes;
};

/* A section of an array that is contiguous in row-major order. */
struct cli_piece {
    uint64_t start[CAIRN_MAX_DIMS];
    uint64_t count[CAIRN_MAX_DIMS];
    uint64_t offset; /* of its first byte in the array */
    uint64_t bytes;
};

void crn_array_of_rank(struct cli_array *a, struct crn_version *v, const struct cli_item *item);
/* item: any block of the global array. */
CAIRN_CHECKED cairn_err crn_array_whole(struct cli_array *a, struct crn_version *v,
                                        const struct cli_item *item, struct crn_errinfo *ei);
/* Narrows the array to a slice such as "0:10,:,5": one word for each dimension, first and past the
 * last element; an empty bound means the end, a number alone one element. */
CAIRN_CHECKED cairn_err crn_array_slice(struct cli_array *a, const char *text,
                                        struct crn_errinfo *ei);
/* The first (is_first) or next section, of about max_bytes at most; 0 when there is none. */
int crn_array_piece(const struct cli_array *a, uint64_t max_bytes, int is_first,
                    struct cli_piece *piece);
CAIRN_CHECKED cairn_err crn_array_read(const struct cli_array *a, const struct cli_piece *piece,
                                       void *buf, struct crn_errinfo *ei);
/* Position of an element as text: "[3, 17]". */
void crn_array_position(const struct cli_array *a, uint64_t element, char *buf, size_t size);

#endif
