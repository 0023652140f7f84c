/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies are cut into pieces; caller and helpers take the next piece from one counter, so an
 * unlucky helper (no core free) costs at most one piece. A capture below split_bytes never wakes a
 * helper. */
#include "capture/copier.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PIECE       ((uint64_t)2 << 20)
#define MAX_HELPERS 31

struct crn_copier {
    uint64_t split_bytes;
    int helpers;
    pthread_t thread[MAX_HELPERS];
    struct crn_mutex mu;
    struct crn_cond changed;
    uint64_t generation;           /* lock: of the work below */
    int active;                    /* lock: helpers inside it */
    int open;                      /* lock: helpers may join */
    int closing;                   /* lock */
    const struct crn_copy *copies; /* constant while open */
    uint32_t n;
    atomic_uint_fast64_t next; /* piece to take, counted over all copies */
};

static uint64_t pieces(uint64_t bytes)
{
    return (bytes + PIECE - 1) / PIECE;
}

static void copy_pieces(struct crn_copier *c)
{
    uint64_t before = 0; /* pieces of the copies before i */
    uint32_t i = 0;

    for (;;) {
        uint64_t k = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed);
        uint64_t at;
        uint64_t left;

        while (i < c->n && k - before >= pieces(c->copies[i].bytes))
            before += pieces(c->copies[i++].bytes);
        if (i == c->n)
            return;
        at = (k - before) * PIECE;
        left = c->copies[i].bytes - at;
        memcpy((char *)c->copies[i].dst + at, (const char *)c->copies[i].src + at,
               left < PIECE ? left : PIECE);
    }
}

static void *helper(void *arg)
{
    struct crn_copier *c = arg;
    uint64_t seen = 0;

    crn_lock(&c->mu);
    for (;;) {
        while (!c->closing && !(c->open && c->generation != seen))
            crn_cond_wait(&c->changed, &c->mu);
        if (c->closing)
            break;
        seen = c->generation;
        c->active++;
        crn_unlock(&c->mu);
        copy_pieces(c);
        crn_lock(&c->mu);
        if (--c->active == 0)
            crn_cond_broadcast(&c->changed);
    }
    crn_unlock(&c->mu);
    return NULL;
}

cairn_err crn_copier_open(int threads, uint64_t split_bytes, struct crn_copier **ret,
                          struct crn_errinfo *ei)
{
    struct crn_copier *c = calloc(1, sizeof(*c));
    cairn_err rc = CAIRN_OK;
    int i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copier");
    c->split_bytes = split_bytes;
    crn_mutex_init(&c->mu, CRN_RANK_LEAF);
    crn_cond_init(&c->changed);
    for (i = 0; rc == CAIRN_OK && i < threads - 1 && i < MAX_HELPERS; i++) {
        rc = crn_thread_start(&c->thread[i], "cairn-copy", helper, c, ei);
        c->helpers += rc == CAIRN_OK;
    }
    if (rc != CAIRN_OK) {
        crn_copier_close(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

void crn_copier_close(struct crn_copier *c)
{
    int i;

    if (c == NULL)
        return;
    crn_lock(&c->mu);
    c->closing = 1;
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    for (i = 0; i < c->helpers; i++)
        (void)pthread_join(c->thread[i], NULL);
    crn_cond_fini(&c->changed);
    crn_mutex_fini(&c->mu);
    free(c);
}

void crn_copier_run(struct crn_copier *c, const struct crn_copy *copies, uint32_t n)
{
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < n; i++)
        bytes += copies[i].bytes;
    if (c->helpers == 0 || bytes < c->split_bytes) {
        for (i = 0; i < n; i++)
            if (copies[i].bytes > 0)
                memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
        return;
    }
    crn_lock(&c->mu);
    c->copies = copies;
    c->n = n;
    atomic_store(&c->next, 0);
    c->generation++;
    c->open = 1;
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    copy_pieces(c);
    crn_lock(&c->mu);
    c->open = 0; /* a helper that wakes now has nothing to do */
    while (c->active > 0)
        crn_cond_wait(&c->changed, &c->mu);
    crn_unlock(&c->mu);
}
