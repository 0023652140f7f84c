/* SPDX-License-Identifier: BSD-3-Clause */
/* The block pool: a fixed number of equal, page-aligned buffers, mapped once. Getting a block from
 * an empty pool waits. The pool counts its use, so that a test can prove the bound. The kernel
 * allocates the pages of a block on first use: touching all of them up front would compete for
 * cores with a restart, which runs while the pool is new, and makes no flush faster. Free blocks
 * are reused last in, first out, so unused blocks of a large pool cost no memory. */
#ifndef CRN_POOL_H
#define CRN_POOL_H

#include <stdint.h>
#include "base/thread.h"

struct crn_pool {
    struct crn_mutex mu;
    struct crn_cond freed;
    unsigned char *memory; /* blocks x block_bytes */
    size_t block_bytes;
    size_t blocks;
    void **free_list; /* stack of free blocks, blocks entries */
    size_t nfree;
    void **other;     /* blocks entries: what replaced each block, or NULL */
    size_t nreplaced; /* if > 0, memory is never unmapped */
    int is_kept;      /* same: memory is never unmapped */
    size_t nmissing;  /* blocks that could not be replaced */
    size_t most_used; /* high-water mark */
    uint64_t waits;   /* how often crn_pool_get had to wait */
};

CAIRN_CHECKED cairn_err crn_pool_init(struct crn_pool *p, size_t blocks, size_t block_bytes,
                                      struct crn_errinfo *ei);
void crn_pool_fini(struct crn_pool *p); /* all blocks must have been put back */
void *crn_pool_get(struct crn_pool *p);
void *crn_pool_try_get(struct crn_pool *p);
void crn_pool_put(struct crn_pool *p, void *block);
/* The memory of all blocks stays mapped forever, even after fini: others may still read it. */
void crn_pool_keep(struct crn_pool *p);
/* Exchanges a block that others may still write to for a new one. The old block is never used
 * again. NULL if out of memory; crn_pool_put of that NULL shrinks the pool. Here and below, any
 * address inside a block identifies it. */
void *crn_pool_replace(struct crn_pool *p, void *block);
/* The number of a block, from 0. A replacement has the number of the block it replaced. */
size_t crn_pool_number(struct crn_pool *p, const void *block);
/* The current block with this number: the original, or its replacement. */
void *crn_pool_block(struct crn_pool *p, size_t number);

#endif
