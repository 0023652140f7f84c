/* SPDX-License-Identifier: BSD-3-Clause */
/* The payload of SHARDS: a follower's description of its sources for its leader. It contains their
 * descriptors, the variables inside their files, and the checksums taken at capture. So no node
 * recomputes the checksums, and damage in transit is detected. Pure. */
#ifndef CRN_SERVICE_SHARDS_H
#define CRN_SERVICE_SHARDS_H

#include "aggregate/source.h"

/* Sources of other nodes. */
struct crn_remote {
    struct crn_source *sources; /* owned, with their shards, parts and hashes */
    uint32_t n;
};

CAIRN_CHECKED cairn_err crn_shards_encode(const struct crn_source *sources, uint32_t n,
                                          struct crn_buf *ret, struct crn_errinfo *ei);
/* Appends the sources that a node described; owner as in struct crn_source. */
CAIRN_CHECKED cairn_err crn_shards_decode(const void *payload, size_t bytes, uint32_t node,
                                          uint32_t owner, struct crn_remote *r,
                                          struct crn_errinfo *ei);
void crn_remote_free(struct crn_remote *r);

#endif
