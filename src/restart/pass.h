/* SPDX-License-Identifier: BSD-3-Clause */
/* One pass over data files: large reads in the order of the file, by several threads, every chunk
 * verified. The files, one behind the other, are cut into equal shares, one for each process that
 * reads, so that together they read every byte once. What was read is handed out block by block, in
 * any order, to the one thread that owns the pass. Memory: the blocks of the pool. */
#ifndef CRN_RESTART_PASS_H
#define CRN_RESTART_PASS_H

#include "base/config.h"
#include "restart/version.h"

struct crn_pass; /* opaque */

struct crn_pass_options {
    struct crn_version *v; /* indexes of the files are loaded; not used otherwise meanwhile */
    const uint32_t *files;
    uint32_t nfiles;
    uint32_t share; /* 0 .. shares-1 */
    uint32_t shares;
    const uint8_t *skip;   /* by rank of the version: 1 if nobody needs its shard; NULL: read all */
    uint64_t direct_bytes; /* extents that are at least as large have a reader and a place */
    /* By rank of the version: the share that reads its shard, because it is wanted there; -1: whoever's
     * share it lies in. The same for all shares. NULL, and encoded files: by place alone. */
    const int *reader;
    unsigned threads;
    enum crn_background_cores
        cores;          /* where they run: near the caller's memory, or where the caller does */
    size_t block_bytes; /* of a read, if no chunk is larger */
    /* Where a region is wanted whole, and lies in memory of this process: it is read straight to
     * there. NULL, also for the function: it is not. Called by crn_pass_open only. */
    unsigned char *(*place)(void *arg, uint32_t rank, uint32_t region);
    void *arg;
};

/* Bytes of one region, one behind the other. */
struct crn_pass_piece {
    uint32_t rank;
    uint32_t region;
    int is_file;
    uint64_t begin, end; /* in the region */
    unsigned char *data; /* NULL: the block failed */
    int is_placed;       /* data is where options.place said */
};
struct crn_pass_block; /* opaque */

CAIRN_CHECKED cairn_err crn_pass_open(const struct crn_pass_options *options, struct crn_pass **ret,
                                      struct crn_errinfo *ei);
/* A block that has been read or has failed; NULL: none now. wait: until there is one, and NULL is the
 * end. After a failure the blocks that were not begun fail unread. */
struct crn_pass_block *crn_pass_next(struct crn_pass *p, int wait);
int crn_pass_is_over(const struct crn_pass *p); /* all blocks have been handed out */
/* The pieces of a block, from 0 on; 0: there is no such piece. */
int crn_pass_piece(const struct crn_pass *p, const struct crn_pass_block *b, size_t i,
                   struct crn_pass_piece *ret);
void crn_pass_put(struct crn_pass *p, struct crn_pass_block *b); /* its memory is free again */
/* The first failure, of a file or of memory; NULL: none so far that was handed out. */
const struct crn_errinfo *crn_pass_failure(const struct crn_pass *p);
/* The memory of its blocks stays for ever, and nothing is read to it any more. */
void crn_pass_abandon(struct crn_pass *p);
void crn_pass_close(struct crn_pass *p); /* all blocks are put back, or never taken; NULL is fine */

#endif
