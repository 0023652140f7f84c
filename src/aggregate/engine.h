/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the shards of a group of nodes into one data file: a bounded block pool, W writer threads,
 * aligned append-only offsets handed out first come first served, checksums on the way, index at the
 * end, fsync. Local data goes out from where it lies; data of other nodes is fetched into blocks of
 * the pool, and the writers prefer what has arrived. The threads live as long as the engine. One
 * write at a time. */
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

/* How data of other nodes is asked for. fetch is called on the thread of crn_engine_write and returns
 * at once; the bytes of the write's extents, one behind another, come into the block, and
 * crn_engine_arrived is called then, exactly once, also when it failed. Any thread. A write that has
 * extents of several nodes is asked for in parts, each with its place in the block; what is encoded
 * against the version before is asked for twice, the second time for its bytes (is_older). */
struct crn_fetcher {
    void (*fetch)(void *arg, const struct crn_write *w, const struct crn_extent *extents,
                  const uint64_t *order, int is_older, void *block);
    /* The file is there and other nodes may assist from now on; see assist.h. NULL: none does. */
    void (*opened)(void *arg, const char *file, uint64_t generation);
    const unsigned char *assists; /* by owner: it writes its own data if it can. NULL: none does */
    void *arg;
};

struct crn_engine_options {
    uint64_t blocks;
    uint64_t block_bytes;
    uint64_t chunk_bytes;
    uint64_t align_bytes;
    int writers;
    /* Asked by all writers but the first before each write: whether they may take it; if not they wait for the
     * end of another's. Not asked where it would not help: of plain data two write to a disk at most and four
     * into memory, and one where others have files of their own there. NULL: always. */
    int (*may_join)(void);
    int nice;
    atomic_uint_fast64_t *written; /* counts the bytes of data that were written; may be NULL */
    struct crn_outlet_options outlet;
};

struct crn_engine; /* opaque */

/* As the configuration says; nice, written, and who else has a say in the outlet are up to the caller. */
struct crn_engine_options crn_engine_configured(const struct crn_config *cfg);
CAIRN_CHECKED cairn_err crn_engine_open(const struct crn_engine_options *opt,
                                        struct crn_engine **ret, struct crn_errinfo *ei);
void crn_engine_close(struct crn_engine *e); /* NULL is fine */

/* The data of the files to come is encoded as the configuration says for this checkpoint name. NULL for
 * it, as in the beginning: not at all. */
CAIRN_CHECKED cairn_err crn_engine_encode(struct crn_engine *e, const struct crn_config *cfg,
                                          const char *name, struct crn_errinfo *ei);
/* The next file may be encoded against the version before, as far as they are alike; older lives until it
 * is written. NULL, as after each crn_engine_encode: by itself. */
void crn_engine_against(struct crn_engine *e, const struct crn_older *older);

/* Writes a data file of the version that head describes (id, name, version, file_no, files, ranks,
 * nodes, created_ns; the rest is filled here) into the store. sources are sorted by rank; fetcher may
 * be NULL where all are local. On success ret describes the durable
 * file; the caller frees ret->ranges and ret_stats. On failure nothing is left behind. */
CAIRN_CHECKED cairn_err crn_engine_write(struct crn_engine *e, const struct crn_store *st,
                                         const struct crn_index *head,
                                         const struct crn_source *sources, uint32_t nsources,
                                         const struct crn_fetcher *fetcher,
                                         struct crn_manifest_file *ret,
                                         struct crn_flush_stats *ret_stats, struct crn_errinfo *ei);
/* Whether the last write failed before its first byte, for want of room: it may be tried again. */
int crn_engine_lacks_room(const struct crn_engine *e);
/* A write, or a part of one, that was asked for: it is in its block (error is NULL), or not to be had. */
void crn_engine_arrived(struct crn_engine *e, const struct crn_write *w,
                        const struct crn_errinfo *error);
/* What a node that was asked tells of a send of the capture in hand: which source owner it is, how
 * long it gathered and how long it sent. For the statistics alone; of another capture, or too late:
 * forgotten. Any thread. */
void crn_engine_sent(struct crn_engine *e, const struct crn_capture_id *id, uint32_t owner,
                     uint64_t bytes, int64_t gather_ns, int64_t send_ns);
/* Another block in exchange for one that may still be written to by others; see pool.h. */
void *crn_engine_replace(struct crn_engine *e, void *block);
/* The most blocks that were in use at once, since the engine was opened. */
size_t crn_engine_most_blocks(struct crn_engine *e);
/* Bytes that such a file will take, at most; for the check of free space. */
uint64_t crn_engine_estimate(const struct crn_engine *e, const struct crn_source *sources,
                             uint32_t nsources);

#endif
