/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies are cut into pieces; caller and helpers take the next piece from one counter, so a slow
 * helper costs at most one piece. But a helper without a core of its own may hold its piece for as
 * long as the scheduler likes, so no more of them take part than cores are idle. A capture below
 * split_bytes never wakes one. */
#include "capture/copier.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/stream.h"

#define PIECE       ((uint64_t)1 << 20)
#define STREAM_MIN  ((uint64_t)2 << 20) /* less is copied through the caches */
#define MAX_HELPERS 31

struct crn_copier {
    uint64_t split_bytes;
    int sharers;
    int helpers;
    pthread_t thread[MAX_HELPERS];
    struct crn_mutex mu;
    struct crn_cond changed;
    uint64_t generation;           /* lock: of the work below */
    int active;                    /* lock: helpers inside it */
    int may_join;                  /* lock: so many helpers more */
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
        crn_stream_copy((char *)c->copies[i].dst + at, (const char *)c->copies[i].src + at,
                        left < PIECE ? left : PIECE);
    }
}

static void *helper(void *arg)
{
    struct crn_copier *c = arg;
    uint64_t seen = 0;

    crn_lock(&c->mu);
    for (;;) {
        while (!c->closing && !(c->may_join > 0 && c->generation != seen))
            crn_cond_wait(&c->changed, &c->mu);
        if (c->closing)
            break;
        seen = c->generation;
        c->may_join--;
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

cairn_err crn_copier_open(int threads, uint64_t split_bytes, int sharers, struct crn_copier **ret,
                          struct crn_errinfo *ei)
{
    struct crn_copier *c = calloc(1, sizeof(*c));
    cairn_err rc = CAIRN_OK;
    int i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copier");
    c->split_bytes = split_bytes;
    c->sharers = sharers;
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

static int helpers_now(const struct crn_copier *c)
{
    int idle;

    if (c->helpers == 0 || c->sharers == 0)
        return c->helpers;
    idle = crn_idle_cores();
    if (idle < 0)
        return c->helpers;
    return idle / c->sharers < c->helpers ? idle / c->sharers : c->helpers;
}

static void copy_alone(const struct crn_copy *copies, uint32_t n, int past_caches)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        if (copies[i].bytes == 0)
            continue; /* its pointers may be NULL */
        if (past_caches)
            crn_stream_copy(copies[i].dst, copies[i].src, copies[i].bytes);
        else
            memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
    }
}

void crn_copier_run(struct crn_copier *c, const struct crn_copy *copies, uint32_t n)
{
    uint64_t bytes = 0;
    int helpers = 0;
    uint32_t i;

    for (i = 0; i < n; i++)
        bytes += copies[i].bytes;
    if (bytes >= c->split_bytes)
        helpers = helpers_now(c);
    if (helpers == 0) {
        copy_alone(copies, n, bytes >= STREAM_MIN);
        return;
    }
    crn_lock(&c->mu);
    c->copies = copies;
    c->n = n;
    atomic_store(&c->next, 0);
    c->generation++;
    c->may_join = helpers;
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    copy_pieces(c);
    crn_lock(&c->mu);
    c->may_join = 0; /* a helper that wakes now has nothing to do */
    while (c->active > 0)
        crn_cond_wait(&c->changed, &c->mu);
    crn_unlock(&c->mu);
}
