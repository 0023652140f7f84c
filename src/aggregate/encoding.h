/* SPDX-License-Identifier: BSD-3-Clause */
/* How the data of a checkpoint is encoded on its way to the file: the configured settings,
 * validated and ready for use. Immutable once opened; any thread. */
#ifndef CRN_AGGREGATE_ENCODING_H
#define CRN_AGGREGATE_ENCODING_H

#include "base/config.h"
#include "encode/choose.h"
#include "encode/merge.h"

/* A region with lossy encoding. */
struct crn_lossy {
    char region[CAIRN_MAX_NAME];
    struct crn_pipe pipe;
    double tolerance;
};

struct crn_encoding {
    enum crn_scheme scheme;
    uint64_t block_bytes; /* of the block codecs */
    uint64_t group_bytes; /* smaller streams are joined: encode/merge.h */
    size_t chunk_bytes;
    /* one version in so many is full; above 1, the others may refer to the previous one */
    uint64_t full_every;
    int is_adaptive; /* the pipeline is chosen per variable; otherwise by the two fields below */
    struct crn_pipe pipe[CRN_TYPES]; /* by type */
    struct crn_pipe small;           /* for small variables (encode/merge.h) */
    struct crn_similar *similar;     /* owned; NULL: names must be equal */
    struct crn_lossy *lossy;         /* owned */
    uint32_t nlossy;
    enum crn_aim aim;
    int may_skip; /* files are left unencoded where that is faster: pays.h */
};

/* The encoding of a checkpoint name; *ret is NULL if none is configured. CAIRN_ECONFIG names the
 * bad key and the reason, CAIRN_ENOTSUP the feature that this build lacks. */
CAIRN_CHECKED cairn_err crn_encoding_open(const struct crn_config *cfg, const char *name,
                                          struct crn_encoding **ret, struct crn_errinfo *ei);
void crn_encoding_close(struct crn_encoding *x); /* NULL is fine */
/* Validates the encoding settings of all names. */
CAIRN_CHECKED cairn_err crn_encoding_check(const struct crn_config *cfg, struct crn_errinfo *ei);
/* The entry of a region in lossy, or -1. */
int crn_encoding_lossy(const struct crn_encoding *x, const struct crn_region *r);

#endif
