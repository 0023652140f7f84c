/* SPDX-License-Identifier: BSD-3-Clause */
/* One pass over data files: large sequential reads by several threads, every chunk verified. The
 * files, laid end to end, are divided into equal shares, one for each reading process, so that
 * together the processes read every byte once. The thread that owns the pass receives the data
 * block by block, in any order. Memory use: the blocks of the pool. */
#ifndef CRN_RESTART_PASS_H
#define CRN_RESTART_PASS_H

#include "base/config.h"
#include "restart/version.h"

struct crn_pass; /* opaque */

struct crn_pass_options {
    struct crn_version *v; /* the files' indexes are loaded; the pass alone uses it while it runs */
    const uint32_t *files;
    uint32_t nfiles;
    uint32_t share; /* 0 .. shares-1 */
    uint32_t shares;
    int files_only; /* reads no regions of memory */
    /* Does any rank want some of these bytes of a region? NULL: all are read. Only crn_pass_open
     * calls it. */
    int (*wants)(void *arg, uint32_t rank, uint32_t region, uint64_t begin, uint64_t end);
    uint64_t direct_bytes; /* extents of at least this size honour reader and place */
    /* By rank of the version: the share that reads its shard, because the data is wanted there; -1:
     * the share in which the bytes lie. Must be the same for all shares. NULL, and always for
     * encoded files: the position alone decides. */
    const int *reader;
    unsigned threads;
    enum crn_background_cores
        cores;          /* where threads run: near the caller's memory, or on the caller's cores */
    size_t block_bytes; /* size of a read, unless a chunk is larger */
    /* Returns the memory of this process where these bytes of a region are wanted, as they are; the
     * pass reads straight into it. Returns NULL if there is none; the function itself may be NULL.
     * Only crn_pass_open calls it. */
    unsigned char *(*place)(void *arg, uint32_t rank, uint32_t region, uint64_t begin,
                            uint64_t end);
    void *arg;
};

/* Consecutive bytes of one region. */
struct crn_pass_piece {
    uint32_t rank;
    uint32_t region;
    int is_file;
    uint64_t begin, end; /* in the region */
    unsigned char *data; /* NULL: the block failed */
    int is_placed;       /* data is where options.place said */
};
struct crn_pass_block; /* opaque */

/* Calls fn for consecutive bytes of regions, in the order of the files, with the share that reads
 * them. Of the options it uses v, files, shares, direct_bytes and reader. Every process gets the same
 * answer; a failure of fn ends it. */
typedef cairn_err (*crn_pass_fn)(void *arg, uint32_t rank, uint32_t region, uint64_t begin,
                                 uint64_t end, uint32_t share, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_pass_route(const struct crn_pass_options *options, crn_pass_fn fn,
                                       void *arg, struct crn_errinfo *ei);

CAIRN_CHECKED cairn_err crn_pass_open(const struct crn_pass_options *options, struct crn_pass **ret,
                                      struct crn_errinfo *ei);
/* Returns a block that was read or has failed. Returns NULL if none is ready; with wait it blocks,
 * and NULL means the end. After a failure, blocks not yet started fail unread. */
struct crn_pass_block *crn_pass_next(struct crn_pass *p, int wait);
int crn_pass_is_over(const struct crn_pass *p); /* all blocks have been handed out */
/* Gets piece i of a block, counting from 0. Returns 0 if there is no such piece. */
int crn_pass_piece(const struct crn_pass *p, const struct crn_pass_block *b, size_t i,
                   struct crn_pass_piece *ret);
void crn_pass_put(struct crn_pass *p, struct crn_pass_block *b); /* frees its memory */
/* The first failure, of a file or of memory, among the blocks handed out; NULL: none so far. */
const struct crn_errinfo *crn_pass_failure(const struct crn_pass *p);
/* Leaks the memory of the blocks on purpose, because MPI may still use it. Nothing is read into it
 * any more. */
void crn_pass_abandon(struct crn_pass *p);
void crn_pass_close(struct crn_pass *p); /* all blocks taken were put back; p may be NULL */

#endif
