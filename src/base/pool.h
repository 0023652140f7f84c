/* SPDX-License-Identifier: BSD-3-Clause */
/* The block pool: a fixed number of equal, page-aligned buffers, allocated once. Taking one from an empty
 * pool waits. The pool counts, so that a test can prove the bound. The kernel makes the pages of a block when
 * it is used first: all at once took the cores from a restart, which comes when the pool is new, and a flush
 * is no slower. What was used last is used first, so a pool that is larger than needed costs no memory. */
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
    void **other;     /* blocks entries: what took the place of a block, or NULL; see pool.c */
    size_t nreplaced; /* if any, memory is never given back */
    int is_kept;      /* as then */
    size_t nmissing;  /* blocks that nothing could replace */
    size_t most_used; /* high-water mark */
    uint64_t waits;   /* how often a taker had to wait */
};

CAIRN_CHECKED cairn_err crn_pool_init(struct crn_pool *p, size_t blocks, size_t block_bytes,
                                      struct crn_errinfo *ei);
void crn_pool_fini(struct crn_pool *p); /* all blocks are back by then */
void *crn_pool_get(struct crn_pool *p);
void *crn_pool_try_get(struct crn_pool *p);
void crn_pool_put(struct crn_pool *p, void *block);
/* The memory of all blocks stays for ever, with the pool or without: others may read it. */
void crn_pool_keep(struct crn_pool *p);
/* Another block in exchange for one that others may still write to, which is never used again. NULL
 * without memory for it; that put back makes the pool smaller. Here and below any address inside a block
 * stands for it. */
void *crn_pool_replace(struct crn_pool *p, void *block);
/* Which block of the pool it is, from 0; what took its place has its number. */
size_t crn_pool_number(struct crn_pool *p, const void *block);
/* The block with this number as it is now: the one that was taken, or what it was replaced with. */
void *crn_pool_block(struct crn_pool *p, size_t number);

#endif
