/* SPDX-License-Identifier: BSD-3-Clause */
/* What pass.c and pass_plan.c share. Inside src/restart only. */
#ifndef CRN_RESTART_PASS_IMPL_H
#define CRN_RESTART_PASS_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "base/queue.h"
#include "restart/pass.h"
#include "restart/version_impl.h"

/* Consecutive chunks of one extent within a block. */
struct crn_pass_part {
    const struct crn_extent *e;
    uint64_t chunk;  /* the first */
    uint64_t bytes;  /* of all its chunks in the block */
    uint64_t offset; /* in the block */
};

struct crn_pass_block {
    uint32_t file;
    int goes_on;         /* the thread that reads the previous block must read this one too */
    uint64_t begin, end; /* in the file, or in its streams */
    size_t piece, npieces;
    unsigned char *into; /* NULL: read into a buffer of the pool */
    /* Written by the reading thread before it queues the block. */
    unsigned char *data; /* NULL: failed */
    struct crn_errinfo failure;
};

struct crn_pass {
    struct crn_pass_options o;
    struct crn_pass_part *pieces;
    size_t npieces, pieces_cap;
    struct crn_pass_block *blocks;
    size_t nblocks, blocks_cap;
    int is_cut; /* planning only: a chunk of another share follows the last block, so the next chunk
                 * starts a new block */
    size_t *batches; /* index of the first block of each; nbatches */
    size_t nbatches;
    struct crn_pool pool;
    int has_pool;
    struct crn_queue ready;
    pthread_t *threads;
    unsigned nthreads;
    atomic_size_t next; /* the next batch that no thread has taken */
    atomic_int has_failed;
    size_t handed; /* used by the owner only: blocks taken from ready */
    struct crn_errinfo failure;
};

/* Plans what this share reads and in which order: pieces, blocks and batches. */
CAIRN_CHECKED cairn_err crn_pass_plan(struct crn_pass *p, struct crn_errinfo *ei);

#endif
