/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the bytes of one shard are, and how to get at them. */
#ifndef CRN_AGGREGATE_SOURCE_H
#define CRN_AGGREGATE_SOURCE_H

#include "aggregate/plan.h"
#include "base/buf.h"
#include "base/fs.h"
#include "format/format.h"

struct crn_area;
struct crn_parts;

/* Memory regions lie in an image in memory or in a file, file regions in files of their own. Constant
 * while somebody reads. */
struct crn_source {
    struct crn_shard shard;      /* owned by the caller */
    const uint64_t *at;          /* where each region begins in the image */
    const unsigned char *memory; /* the image, or NULL */
    int image_fd;                /* the image's file where memory is NULL; -1 otherwise */
    struct crn_area *area;       /* where the image lies instead, at area_at; NULL: it does not */
    uint64_t area_at, area_bytes;
    const int *region_fd; /* per region: the file of a file region, -1 otherwise; may be NULL */
    uint32_t owner;       /* 0: this node; otherwise whom to ask: only shard and hashes are set */
    /* Checksums that were taken with the capture, in units of hash_chunk_bytes: those of each region, or
     * NULL; may be NULL altogether. */
    const uint64_t *const *hashes;
    uint64_t hash_chunk_bytes;
    /* Variables inside its files, for encoding; NULL: files are bytes. Owned by the caller. */
    const struct crn_parts *parts;
};
/* Where an extent lies in memory; NULL where it has to be read from a file. */
const unsigned char *crn_source_memory(const struct crn_source *s, const struct crn_extent *x);
/* Brings an extent to dst, wherever it is. */
CAIRN_CHECKED cairn_err crn_source_read(const struct crn_source *s, const struct crn_extent *x,
                                        const struct crn_fs *fs, unsigned char *dst,
                                        struct crn_errinfo *ei);

/* The checksum of n bytes that lie at in the extent, as it was taken with the capture; NULL if none was
 * that covers just them. */
const uint64_t *crn_source_known(const struct crn_source *s, const struct crn_extent *x,
                                 uint64_t at, uint64_t n);
/* The same, taken now from the bytes at p if it is not known. */
uint64_t crn_source_hash(const struct crn_source *s, const struct crn_extent *x, uint64_t at,
                         const void *p, uint64_t n);

/* The extents of a write as one node asks another for them: their number, then rank, region, offset and
 * bytes of each. */
void crn_ask_encode(const struct crn_write *w, const struct crn_extent *extents,
                    const uint64_t *order, const struct crn_source *sources, struct crn_buf *ret);

#endif
