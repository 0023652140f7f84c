/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the shards of a group of nodes into one data file. It has a bounded block pool, W
 * writer threads, aligned append-only offsets handed out first come first served, checksums on
 * the way, the index at the end, and an fsync. Local data is written in place. Data of other
 * nodes is fetched into blocks of the pool, and the writers prefer arrived blocks. The threads
 * live as long as the engine. It writes one file at a time. */
#ifndef CRN_AGGREGATE_ENGINE_H
#define CRN_AGGREGATE_ENGINE_H

#include <stdatomic.h>

#include "aggregate/older.h"
#include "aggregate/outlet.h"
#include "aggregate/plan.h"
#include "aggregate/source.h"
#include "aggregate/stats.h"
#include "base/pool.h"
#include "store/store.h"

/* Requests data of other nodes. fetch is called on the thread of crn_engine_write and returns at
 * once. The bytes of the write's extents arrive in the block, concatenated. Then
 * crn_engine_arrived is called on any thread, exactly once, also after a failure. A write with
 * extents of several nodes is requested in several parts, each with its place in the block. Data
 * that is encoded against the previous version is requested twice, the second time for the older
 * bytes (is_older). */
struct crn_fetcher {
    void (*fetch)(void *arg, const struct crn_write *w, const struct crn_extent *extents,
                  const uint64_t *order, int is_older, void *block);
    /* The file exists and other nodes may assist from now on; see assist.h. NULL: no assistants. */
    void (*opened)(void *arg, const char *file, uint64_t generation);
    /* by owner: it writes its own data if it can; NULL: no owner does */
    const unsigned char *assists;
    void *arg;
};

struct crn_engine_options {
    uint64_t blocks;
    uint64_t block_bytes;
    uint64_t chunk_bytes;
    uint64_t align_bytes;
    int writers;
    /* Asked by every writer but the first before each write: may it take one? If not, it waits
     * until another writer finishes a write. Unencoded data has at most two writers, so the
     * others do not ask for it. NULL: always yes, without that limit. */
    int (*may_join)(void);
    int nice;
    atomic_uint_fast64_t *written; /* counts the data bytes written; may be NULL */
    struct crn_outlet_options outlet;
};

struct crn_engine; /* opaque */

/* The configured options. The caller sets nice, written and the outlet's callbacks. */
struct crn_engine_options crn_engine_configured(const struct crn_config *cfg);
CAIRN_CHECKED cairn_err crn_engine_open(const struct crn_engine_options *opt,
                                        struct crn_engine **ret, struct crn_errinfo *ei);
void crn_engine_close(struct crn_engine *e); /* NULL is fine */

/* Later files are encoded as configured for this checkpoint name. NULL (the default) means no
 * encoding. */
CAIRN_CHECKED cairn_err crn_engine_encode(struct crn_engine *e, const struct crn_config *cfg,
                                          const char *name, struct crn_errinfo *ei);
/* The next file may be encoded against the previous version, as far as the two match; older must
 * live until the file is written. NULL, which every crn_engine_encode restores, means a full
 * version. */
void crn_engine_against(struct crn_engine *e, const struct crn_older *older);

/* Writes a data file of the version that head describes into the store. head has id, name,
 * version, file_no, files, ranks, nodes and created_ns; the rest is filled here. sources are
 * sorted by rank; fetcher may be NULL if all are local. On success ret describes the durable
 * file, and the caller frees ret->ranges and ret_stats. On failure no file remains. */
CAIRN_CHECKED cairn_err crn_engine_write(struct crn_engine *e, const struct crn_store *st,
                                         const struct crn_index *head,
                                         const struct crn_source *sources, uint32_t nsources,
                                         const struct crn_fetcher *fetcher,
                                         struct crn_manifest_file *ret,
                                         struct crn_flush_stats *ret_stats, struct crn_errinfo *ei);
/* Did the last write fail before its first byte for lack of disk space? Then it may be retried. */
int crn_engine_lacks_room(const struct crn_engine *e);
/* A requested write, or a part of one, is in its block (error is NULL) or cannot be obtained. */
void crn_engine_arrived(struct crn_engine *e, const struct crn_write *w,
                        const struct crn_errinfo *error);
/* A node reports a send for the current capture: its owner number, and how long it gathered and
 * sent. Used for the statistics only; ignored if late or of another capture. Any thread. */
void crn_engine_sent(struct crn_engine *e, const struct crn_capture_id *id, uint32_t owner,
                     uint64_t bytes, int64_t gather_ns, int64_t send_ns);
/* Exchanges a block that others may still write to for a fresh one; see pool.h. */
void *crn_engine_replace(struct crn_engine *e, void *block);
/* The highest number of blocks in use at once since the engine was opened. */
size_t crn_engine_most_blocks(struct crn_engine *e);
/* An upper bound on the size of the file; for the check of free space. */
uint64_t crn_engine_estimate(const struct crn_engine *e, const struct crn_source *sources,
                             uint32_t nsources);

#endif
