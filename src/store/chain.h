/* SPDX-License-Identifier: BSD-3-Clause */
/* What a loaded chain consists of. Inside src/store only; data.h has what others call. */
#ifndef CRN_STORE_CHAIN_H
#define CRN_STORE_CHAIN_H

#include "store/data.h"

/* Constant once loaded: any number of threads decode through it. */
struct crn_chain_link {
    struct crn_index index; /* its streams; no shards, extents, hashes */
    size_t *first;          /* of each stream: where its chunks begin in */
    uint64_t *places;       /* of all chunks, in the base's file */
};
struct crn_base_chain {
    const struct crn_base *bases; /* of the index, which outlives the chain */
    uint32_t n;
    struct crn_chain_link links[];
};

/* From the directory of a version to a base: "../8/data-0000". */
#define CRN_BASE_PATH (CRN_FILE_NAME + 32)
void crn_base_path(const struct crn_base *b, char ret[CRN_BASE_PATH]);
/* The base's name in messages, beside `what` of who needs it. */
struct crn_base_where {
    char text[400];
};
struct crn_base_where crn_base_where(const char *what, const struct crn_base *b);

/* Whether a chunk was encoded against the older version, as its index says. */
int crn_chunk_needs_older(const struct crn_stream_chunk *c);

#endif
