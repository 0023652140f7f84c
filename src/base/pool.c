/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOST MAP_FAILED /* in other: no memory for a replacement block */

cairn_err crn_pool_init(struct crn_pool *p, size_t blocks, size_t block_bytes,
                        struct crn_errinfo *ei)
{
    size_t i;

    memset(p, 0, sizeof(*p));
    if (blocks == 0 || block_bytes == 0 || blocks > SIZE_MAX / block_bytes)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a pool of %zu blocks of %zu bytes", blocks,
                        block_bytes);
    p->free_list = calloc(2 * blocks, sizeof(*p->free_list));
    if (p->free_list == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a pool of %zu blocks", blocks);
    p->memory = mmap(NULL, blocks * block_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->memory == MAP_FAILED) {
        free(p->free_list);
        p->free_list = NULL;
        return crn_fail(ei, CAIRN_ENOMEM, errno,
                        "%zu blocks of %zu bytes: lower the configuration keys blocks or "
                        "block_bytes",
                        blocks, block_bytes);
    }
    (void)madvise(p->memory, blocks * block_bytes, MADV_HUGEPAGE);
    p->other = p->free_list + blocks;
    p->blocks = blocks;
    p->block_bytes = block_bytes;
    for (i = 0; i < blocks; i++)
        p->free_list[i] = p->memory + (blocks - 1 - i) * block_bytes;
    p->nfree = blocks;
    crn_mutex_init(&p->mu, CRN_RANK_POOL);
    crn_cond_init(&p->freed);
    return CAIRN_OK;
}

void crn_pool_fini(struct crn_pool *p)
{
    if (p->free_list == NULL)
        return;
    assert(p->nfree + p->nmissing == p->blocks);
    if (p->nreplaced == 0 && !p->is_kept)
        (void)munmap(p->memory, p->blocks * p->block_bytes);
    free(p->free_list);
    p->free_list = NULL;
    crn_cond_fini(&p->freed);
    crn_mutex_fini(&p->mu);
}

static void *get_locked(struct crn_pool *p) CRN_REQUIRES(p->mu)
{
    size_t used;

    p->nfree--;
    used = p->blocks - p->nfree;
    if (used > p->most_used)
        p->most_used = used;
    return p->free_list[p->nfree];
}

void *crn_pool_get(struct crn_pool *p)
{
    void *block;

    crn_lock(&p->mu);
    if (p->nfree == 0)
        p->waits++;
    while (p->nfree == 0)
        crn_cond_wait(&p->freed, &p->mu);
    block = get_locked(p);
    crn_unlock(&p->mu);
    return block;
}

void *crn_pool_try_get(struct crn_pool *p)
{
    void *block = NULL;

    crn_lock(&p->mu);
    if (p->nfree > 0)
        block = get_locked(p);
    crn_unlock(&p->mu);
    return block;
}

void crn_pool_put(struct crn_pool *p, void *block)
{
    crn_lock(&p->mu);
    if (block != NULL)
        p->free_list[p->nfree++] = block;
    else
        p->nmissing++;
    crn_cond_signal(&p->freed);
    crn_unlock(&p->mu);
}

static size_t number_locked(const struct crn_pool *p, const void *block) CRN_REQUIRES(p->mu)
{
    size_t at = (size_t)((uintptr_t)block - (uintptr_t)p->memory) / p->block_bytes;
    size_t i;

    if (at < p->blocks)
        return at;
    for (i = 0; i + 1 < p->blocks; i++)
        if (p->other[i] != NULL &&
            (size_t)((uintptr_t)block - (uintptr_t)p->other[i]) < p->block_bytes)
            break;
    return i;
}

size_t crn_pool_number(struct crn_pool *p, const void *block)
{
    size_t number;

    crn_lock(&p->mu);
    number = number_locked(p, block);
    crn_unlock(&p->mu);
    return number;
}

void *crn_pool_block(struct crn_pool *p, size_t number)
{
    void *block;

    crn_lock(&p->mu);
    block = p->other[number] != NULL ? p->other[number] : p->memory + number * p->block_bytes;
    crn_unlock(&p->mu);
    return block != LOST ? block : NULL;
}

void crn_pool_keep(struct crn_pool *p)
{
    crn_lock(&p->mu);
    p->is_kept = 1;
    crn_unlock(&p->mu);
}

void *crn_pool_replace(struct crn_pool *p, void *block)
{
    void *other =
        mmap(NULL, p->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    crn_lock(&p->mu); /* the old block is leaked on purpose */
    p->other[number_locked(p, block)] = other;
    p->nreplaced++;
    crn_unlock(&p->mu);
    return other != LOST ? other : NULL;
}
