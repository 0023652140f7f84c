/* SPDX-License-Identifier: BSD-3-Clause */
/* How the data of a checkpoint is encoded on its way to the file: what the configuration says, checked
 * and ready for use. Read-only once made; any thread. */
#ifndef CRN_AGGREGATE_ENCODING_H
#define CRN_AGGREGATE_ENCODING_H

#include "base/config.h"
#include "encode/choose.h"
#include "encode/merge.h"

/* A region that may lose something. */
struct crn_lossy {
    char region[CAIRN_MAX_NAME];
    struct crn_pipe pipe;
    double tolerance;
};

struct crn_encoding {
    enum crn_scheme scheme;
    uint64_t block_bytes; /* of the block schemes */
    uint64_t min_bytes;   /* smaller variables are taken together */
    size_t chunk_bytes;
    uint64_t full_every; /* versions; above 1 others may be encoded against the one before */
    int is_adaptive;     /* the pipeline is chosen for each variable; otherwise: */
    struct crn_pipe pipe[CAIRN_C128 + 1]; /* by type */
    struct crn_pipe small;                /* of what is smaller than min_bytes */
    struct crn_similar *similar;          /* owned; NULL: names must be equal */
    struct crn_lossy *lossy;              /* owned */
    uint32_t nlossy;
    enum crn_aim aim;
    double cpu_share; /* of a core that an encoding thread may take: above 0, up to 1 */
};

/* The encoding of a checkpoint name; *ret is NULL where the configuration says none. CAIRN_ECONFIG
 * names the key and what is wrong with it, CAIRN_ENOTSUP what this build lacks. */
CAIRN_CHECKED cairn_err crn_encoding_open(const struct crn_config *cfg, const char *name,
                                          struct crn_encoding **ret, struct crn_errinfo *ei);
void crn_encoding_close(struct crn_encoding *x); /* NULL is fine */
/* Opens the encodings of all names, to see whether they can be. */
CAIRN_CHECKED cairn_err crn_encoding_check(const struct crn_config *cfg, struct crn_errinfo *ei);
/* The entry of a region in lossy, or -1. */
int crn_encoding_lossy(const struct crn_encoding *x, const struct crn_region *r);

#endif
