/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the bytes of a shard are, and how to read them. */
#ifndef CRN_AGGREGATE_SOURCE_H
#define CRN_AGGREGATE_SOURCE_H

#include "aggregate/plan.h"
#include "base/buf.h"
#include "base/fs.h"
#include "format/format.h"

struct crn_area;
struct crn_parts;

/* Memory regions lie in an image, in memory or in a file; file regions in files of their own.
 * Immutable while in use. */
struct crn_source {
    struct crn_shard shard;      /* owned by the caller */
    const uint64_t *at;          /* where each region begins in the image */
    const unsigned char *memory; /* the image, or NULL */
    int image_fd;                /* the image's file where memory is NULL; -1 otherwise */
    struct crn_area *area;       /* holds the image instead, at area_at; or NULL */
    uint64_t area_at, area_bytes;
    const int *region_fd; /* per region: its own file; -1: it is in the image. May be NULL. */
    uint32_t owner; /* 0: this node; otherwise the node to ask, and only shard and hashes are set */
    /* Checksums taken by the capture, per region, in units of hash_chunk_bytes. An entry is NULL
     * if its region has none; the array may be NULL. */
    const uint64_t *const *hashes;
    uint64_t hash_chunk_bytes;
    /* Variables inside the region files, for encoding; NULL: files are plain bytes. Owned by the
     * caller. */
    const struct crn_parts *parts;
};
/* The address of an extent in memory; NULL if it has to be read from a file. */
const unsigned char *crn_source_memory(const struct crn_source *s, const struct crn_extent *x);
/* Copies an extent to dst from memory or file. */
CAIRN_CHECKED cairn_err crn_source_read(const struct crn_source *s, const struct crn_extent *x,
                                        const struct crn_fs *fs, unsigned char *dst,
                                        struct crn_errinfo *ei);

/* The capture's checksum of n bytes at offset `at` of the extent; NULL if none covers exactly
 * these bytes. */
const uint64_t *crn_source_known(const struct crn_source *s, const struct crn_extent *x,
                                 uint64_t at, uint64_t n);
/* The same, computed from the bytes at p if the capture has none. */
uint64_t crn_source_hash(const struct crn_source *s, const struct crn_extent *x, uint64_t at,
                         const void *p, uint64_t n);

/* Encodes a request for the extents of a write to another node: their number, then rank, region,
 * offset and bytes of each. */
void crn_source_ask_encode(const struct crn_write *w, const struct crn_extent *extents,
                           const uint64_t *order, const struct crn_source *sources,
                           struct crn_buf *ret);

#endif
