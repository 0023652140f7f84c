/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the shards of a node into one data file: a bounded block pool, W writer threads, aligned
 * append-only offsets handed out first come first served, checksums on the way, index at the end,
 * fsync. The threads live as long as the engine. One write at a time. */
#ifndef CRN_AGGREGATE_ENGINE_H
#define CRN_AGGREGATE_ENGINE_H

#include "base/pool.h"
#include "store/store.h"

/* Where the bytes of one shard are: memory regions in an image in memory or in a file, file regions
 * in files of their own. Constant while the engine writes. */
struct crn_source {
    struct crn_shard shard;      /* owned by the caller */
    const uint64_t *at;          /* where each region begins in the image */
    const unsigned char *memory; /* the image, or NULL */
    int image_fd;                /* the image's file where memory is NULL; -1 otherwise */
    const int *region_fd; /* per region: the file of a file region, -1 otherwise; may be NULL */
};

struct crn_engine_options {
    uint64_t blocks;
    uint64_t block_bytes;
    uint64_t chunk_bytes;
    uint64_t align_bytes;
    int writers;
    int nice;
};

struct crn_write_stats {
    uint64_t bytes;
    double seconds;       /* all of it, with the fsync */
    double fsync_seconds; /* index and fsync */
    uint64_t pool_waits;
};

struct crn_engine; /* opaque */

CAIRN_CHECKED cairn_err crn_engine_open(const struct crn_engine_options *opt,
                                        struct crn_engine **ret, struct crn_errinfo *ei);
void crn_engine_close(struct crn_engine *e); /* NULL is fine */

/* Writes a data file of the version that head describes (id, name, version, file_no, files, ranks,
 * nodes, created_ns; the rest is filled here) into the store. On success ret describes the durable
 * file; the caller frees ret->ranges. On failure nothing is left behind. */
CAIRN_CHECKED cairn_err crn_engine_write(struct crn_engine *e, const struct crn_store *st,
                                         const struct crn_index *head,
                                         const struct crn_source *sources, uint32_t nsources,
                                         struct crn_manifest_file *ret,
                                         struct crn_write_stats *ret_stats, struct crn_errinfo *ei);
/* Bytes that such a file will take, at most; for the check of free space. */
uint64_t crn_engine_estimate(const struct crn_engine *e, const struct crn_source *sources,
                             uint32_t nsources);

#endif
