/* SPDX-License-Identifier: BSD-3-Clause */
/* The copies are cut into pieces; caller and helpers take the next few from one counter, so a slow
 * helper costs at most these. But a helper without a core of its own may hold its piece for as
 * long as the scheduler likes, so no more of them take part than cores are idle. A capture below
 * split_bytes never wakes one. */
#include "capture/copier.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/hashed.h"
#include "capture/stream.h"

#define PIECE       ((uint64_t)1 << 20)
#define CHUNK_MIN   ((uint64_t)64 << 10) /* of chunks that are worth summing side by side */
#define CHUNK_MAX   ((uint64_t)4 << 20)
#define STREAM_MIN  ((uint64_t)2 << 20) /* less is copied through the caches */
#define MAX_HELPERS 31

struct crn_copier {
    uint64_t split_bytes;
    uint64_t chunk_bytes;
    enum crn_hashed_way way;
    int sharers;
    int helpers;
    pthread_t thread[MAX_HELPERS];
    struct crn_mutex mu;
    struct crn_cond changed;
    uint64_t generation;           /* lock: of the work below */
    int active;                    /* lock: helpers inside it */
    int may_join;                  /* lock: so many helpers more */
    int closing;                   /* lock */
    const struct crn_copy *copies; /* constant while open, as what follows */
    uint32_t n;
    int has_hashes; /* all of them, or none */
    uint64_t piece_bytes;
    int take;                  /* so many pieces at a time */
    atomic_uint_fast64_t next; /* piece to take, counted over all copies */
};

/* A place among the pieces of all copies. */
struct cursor {
    uint64_t before; /* pieces of the copies before i */
    uint32_t i;
};

static uint64_t pieces(const struct crn_copier *c, uint32_t i)
{
    return (c->copies[i].bytes + c->piece_bytes - 1) / c->piece_bytes;
}

/* Piece k; 0 behind the last. */
static int seek(const struct crn_copier *c, struct cursor *at, uint64_t k, struct crn_lane *ret)
{
    const struct crn_copy *copy;
    uint64_t done, left;

    while (at->i < c->n && k - at->before >= pieces(c, at->i))
        at->before += pieces(c, at->i++);
    if (at->i == c->n)
        return 0;
    copy = &c->copies[at->i];
    done = (k - at->before) * c->piece_bytes;
    left = copy->bytes - done;
    *ret = (struct crn_lane){.dst = (char *)copy->dst + done,
                             .src = (const char *)copy->src + done,
                             .bytes = left < c->piece_bytes ? left : c->piece_bytes,
                             .hash = copy->hashes != NULL ? &copy->hashes[k - at->before] : NULL};
    return 1;
}

static void copy_lanes(const struct crn_copier *c, const struct crn_lane *lanes, int n)
{
    int i;

    if (c->has_hashes) {
        crn_hashed_copy_by(c->way, lanes, n);
        return;
    }
    for (i = 0; i < n; i++)
        crn_stream_copy(lanes[i].dst, lanes[i].src, lanes[i].bytes);
}

static void copy_pieces(struct crn_copier *c)
{
    struct crn_lane lanes[CRN_LANES];
    struct cursor at = {0};
    int n;

    do {
        uint64_t k = atomic_fetch_add_explicit(&c->next, (uint64_t)c->take, memory_order_relaxed);

        for (n = 0; n < c->take && seek(c, &at, k + (uint64_t)n, &lanes[n]); n++)
            ;
        copy_lanes(c, lanes, n);
    } while (n == c->take);
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

cairn_err crn_copier_open(int threads, uint64_t split_bytes, int sharers, uint64_t chunk_bytes,
                          struct crn_copier **ret, struct crn_errinfo *ei)
{
    struct crn_copier *c = calloc(1, sizeof(*c));
    cairn_err rc = CAIRN_OK;
    int i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copier");
    c->split_bytes = split_bytes;
    c->sharers = sharers;
    c->chunk_bytes = chunk_bytes;
    c->way = crn_hashed_way();
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

int crn_copier_hashes(const struct crn_copier *c, uint64_t bytes)
{
    return bytes >= STREAM_MIN && c->way != CRN_HASHED_PLAIN && c->chunk_bytes >= CHUNK_MIN &&
           c->chunk_bytes <= CHUNK_MAX;
}

static void copy_cached(const struct crn_copy *copies, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++)
        if (copies[i].bytes > 0) /* or its pointers may be NULL */
            memcpy(copies[i].dst, copies[i].src, copies[i].bytes);
}

static void share(struct crn_copier *c, int helpers)
{
    crn_lock(&c->mu);
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

void crn_copier_run(struct crn_copier *c, const struct crn_copy *copies, uint32_t n)
{
    uint64_t bytes = 0;
    int helpers = 0;
    uint32_t i;

    c->copies = copies;
    c->n = n;
    c->has_hashes = n > 0 && copies[0].hashes != NULL;
    c->piece_bytes = c->has_hashes ? c->chunk_bytes : PIECE;
    c->take = c->has_hashes ? CRN_LANES : 1;
    atomic_store(&c->next, 0);
    for (i = 0; i < n; i++)
        bytes += copies[i].bytes;
    if (bytes >= c->split_bytes)
        helpers = helpers_now(c);
    if (bytes < STREAM_MIN && !c->has_hashes)
        copy_cached(copies, n);
    else if (helpers == 0)
        copy_pieces(c);
    else
        share(c, helpers);
}
