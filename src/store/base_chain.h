/* SPDX-License-Identifier: BSD-3-Clause */
/* The structure of a loaded chain. Inside src/store only; data.h declares the calls for others. */
#ifndef CRN_STORE_BASE_CHAIN_H
#define CRN_STORE_BASE_CHAIN_H

#include "store/data.h"

/* Constant once loaded: any number of threads may decode through it. */
struct crn_base_chain_link {
    struct crn_index index; /* streams only; no shards, extents or hashes */
    size_t *first;          /* by stream: index of its first chunk in places */
    uint64_t *places;       /* file offset of every chunk in the base's file */
};
struct crn_base_chain {
    const struct crn_base *bases; /* of the index, which outlives the chain */
    uint32_t n;
    struct crn_base_chain_link links[];
};

/* The path of a base relative to the directory of a version: "../8/data-0000". */
#define CRN_BASE_PATH (CRN_FILE_NAME + 32)
void crn_base_chain_path(const struct crn_base *b, char ret[CRN_BASE_PATH]);
/* The name of a base in messages, derived from `what`, the file that needs it. */
struct crn_base_where {
    char text[400];
};
struct crn_base_where crn_base_where(const char *what, const struct crn_base *b);

/* Is a chunk encoded against the older version, according to its index entry? */
int crn_base_chain_needs_older(const struct crn_stream_chunk *c);

#endif
