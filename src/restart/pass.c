/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that read and verify what pass_plan.c planned, and the queue from which the owner takes
 * the blocks. The plan is constant once the threads run; they share only the index of the next batch
 * (a group of blocks that one thread must read). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/touch.h"
#include "restart/pass_impl.h"

/* Size of one read, unless a chunk is larger: small enough to verify while still in the CPU
 * cache. */
#define STEP_BYTES ((size_t)1 << 20)

/* Reading. ------------------------------------------------------------------------------------- */

/* State of one reading thread. */
struct hand {
    int fd;
    uint32_t file; /* the file that fd refers to */
    struct crn_decoder *decoder;
};

static cairn_err open_file(const struct crn_pass *p, struct hand *h, uint32_t file,
                           struct crn_errinfo *ei)
{
    const struct crn_version *v = p->o.v;

    if (h->fd >= 0 && h->file == file)
        return CAIRN_OK;
    if (h->fd >= 0)
        (void)v->fs->close(v->fs, h->fd);
    h->fd = -1;
    h->file = file;
    return crn_version_open_file(v, file, &h->fd, ei);
}

/* Reads until the first `need` bytes of the block are in memory. */
static cairn_err read_up_to(const struct crn_pass *p, const struct hand *h,
                            const struct crn_pass_block *b, unsigned char *data, size_t need,
                            size_t *done, struct crn_errinfo *ei)
{
    size_t left = (size_t)(b->end - b->begin) - *done;
    size_t n = left < STEP_BYTES ? left : STEP_BYTES;
    cairn_err rc;

    if (need <= *done)
        return CAIRN_OK;
    if (n < need - *done)
        n = need - *done;
    if (b->into != NULL)
        (void)crn_touch_populate(data + *done, n); /* cheaper than a fault for each page */
    rc = crn_fs_read_all(p->o.v->fs, h->fd, data + *done, n, b->begin + *done,
                         p->o.v->files[b->file].what, ei);
    *done += n;
    return rc;
}

static cairn_err read_block(const struct crn_pass *p, struct hand *h,
                            const struct crn_pass_block *b, unsigned char *data,
                            struct crn_errinfo *ei)
{
    const struct crn_version_file *s = &p->o.v->files[b->file];
    const struct crn_index *x = &s->index;
    struct crn_data_file f;
    size_t there = 0; /* bytes read so far, from the start of the block */
    cairn_err rc;
    size_t i;

    rc = open_file(p, h, b->file, ei);
    f = crn_version_source_data(p->o.v, s, h->fd);
    for (i = 0; rc == CAIRN_OK && i < b->npieces; i++) {
        const struct crn_pass_part *q = &p->pieces[b->piece + i];
        uint64_t no = q->chunk;
        uint64_t done = 0;

        for (; rc == CAIRN_OK && done < q->bytes; no++) {
            size_t at = (size_t)(q->offset + done);

            done += crn_data_chunk_bytes(x, q->e, no);
            if (x->nstreams > 0) {
                rc = crn_data_chunk(&f, q->e, no, &h->decoder, data + at, ei);
                continue;
            }
            rc = read_up_to(p, h, b, data, (size_t)(q->offset + done), &there, ei);
            if (rc == CAIRN_OK)
                rc = crn_data_check(x, q->e, no, data + at, s->what, ei);
        }
    }
    return rc;
}

/* buf is a buffer of the pool. On success a block without a place of its own keeps it; otherwise it
 * returns to the pool. */
static void do_block(struct crn_pass *p, struct hand *h, struct crn_pass_block *b, void *buf)
{
    unsigned char *data = b->into != NULL ? b->into : buf;

    if (!atomic_load(&p->has_failed) && read_block(p, h, b, data, &b->failure) == CAIRN_OK)
        b->data = data;
    else
        atomic_store(&p->has_failed, 1);
    if (b->data != buf)
        crn_pool_put(&p->pool, buf);
    (void)crn_queue_push(&p->ready, b); /* has capacity for all blocks */
}

static void *pass_run(void *arg)
{
    struct crn_pass *p = arg;
    struct hand h = {.fd = -1};

    for (;;) {
        void *buf = crn_pool_get(&p->pool); /* first: a thread with a batch can start it */
        size_t batch = atomic_fetch_add(&p->next, 1);
        size_t i;

        if (batch >= p->nbatches) {
            crn_pool_put(&p->pool, buf);
            break;
        }
        for (i = p->batches[batch]; i < p->batches[batch + 1]; i++) {
            if (i > p->batches[batch])
                buf = crn_pool_get(&p->pool);
            do_block(p, &h, &p->blocks[i], buf);
        }
    }
    if (h.fd >= 0)
        (void)p->o.v->fs->close(p->o.v->fs, h.fd);
    crn_decoder_free(h.decoder);
    return NULL;
}

/* For the owner. ------------------------------------------------------------------------------- */

struct crn_pass_block *crn_pass_next(struct crn_pass *p, int wait)
{
    struct crn_pass_block *b;

    if (p->handed == p->nblocks)
        return NULL;
    b = wait ? crn_queue_pop(&p->ready) : crn_queue_try_pop(&p->ready);
    if (b == NULL)
        return NULL;
    p->handed++;
    if (b->failure.code != CAIRN_OK)
        crn_err_keep(&p->failure, &b->failure);
    return b;
}

int crn_pass_is_over(const struct crn_pass *p)
{
    return p->handed == p->nblocks;
}

int crn_pass_piece(const struct crn_pass *p, const struct crn_pass_block *b, size_t i,
                   struct crn_pass_piece *ret)
{
    const struct crn_index *x = &p->o.v->files[b->file].index;
    const struct crn_shard *shard;
    const struct crn_pass_part *q;

    if (i >= b->npieces)
        return 0;
    q = &p->pieces[b->piece + i];
    shard = &x->shards[q->e->shard];
    ret->rank = shard->rank;
    ret->region = q->e->region;
    ret->is_file = shard->regions[q->e->region].kind == CRN_REGION_FILE;
    ret->begin = q->e->offset + q->chunk * x->chunk_bytes;
    ret->end = ret->begin + q->bytes;
    ret->data = b->data != NULL ? b->data + q->offset : NULL;
    ret->is_placed = b->into != NULL;
    return 1;
}

void crn_pass_put(struct crn_pass *p, struct crn_pass_block *b)
{
    if (b->data != NULL && b->into == NULL)
        crn_pool_put(&p->pool, b->data);
    b->data = NULL;
}

const struct crn_errinfo *crn_pass_failure(const struct crn_pass *p)
{
    return p->failure.code != CAIRN_OK ? &p->failure : NULL;
}

void crn_pass_abandon(struct crn_pass *p)
{
    atomic_store(&p->has_failed, 1);
    crn_pool_keep(&p->pool);
}

void crn_pass_close(struct crn_pass *p)
{
    struct crn_pass_block *b;

    if (p == NULL)
        return;
    atomic_store(&p->has_failed, 1);
    while (p->nthreads > 0 && (b = crn_pass_next(p, 1)) != NULL)
        crn_pass_put(p, b);
    while (p->nthreads > 0)
        (void)pthread_join(p->threads[--p->nthreads], NULL);
    crn_queue_fini(&p->ready);
    if (p->has_pool)
        crn_pool_fini(&p->pool);
    free(p->threads);
    free(p->batches);
    free(p->pieces);
    free(p->blocks);
    free(p);
}

/* Makes each buffer as large as the largest read, so that no chunk is split, and no more buffers
 * than there are reads. */
static cairn_err make_pool(struct crn_pass *p, struct crn_errinfo *ei)
{
    size_t blocks = 2 * (size_t)p->o.threads;
    size_t most = 1;
    cairn_err rc;
    size_t i;

    for (i = 0; i < p->nblocks; i++)
        if (p->blocks[i].into == NULL && p->blocks[i].end - p->blocks[i].begin > most)
            most = (size_t)(p->blocks[i].end - p->blocks[i].begin);
    rc = crn_pool_init(&p->pool, blocks < p->nblocks ? blocks : p->nblocks, most, ei);
    p->has_pool = rc == CAIRN_OK;
    return rc;
}

static cairn_err pass_start(struct crn_pass *p, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = crn_version_dir(p->o.v, ei);
    if (rc == CAIRN_OK)
        rc = make_pool(p, ei);
    if (rc == CAIRN_OK)
        rc = crn_queue_init(&p->ready, p->nblocks, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (p->o.threads > p->nbatches)
        p->o.threads = (unsigned)p->nbatches;
    p->threads = calloc(p->o.threads, sizeof(*p->threads));
    if (p->threads == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u threads", p->o.threads);
    while (p->nthreads < p->o.threads &&
           (p->o.cores == CRN_CORES_ALL ? crn_thread_start_near : crn_thread_start)(
               &p->threads[p->nthreads], "cairn-read", pass_run, p, &why) == CAIRN_OK)
        p->nthreads++;
    if (p->nthreads > 0)
        return CAIRN_OK; /* the threads that did start suffice */
    crn_err_keep(ei, &why);
    return why.code;
}

cairn_err crn_pass_open(const struct crn_pass_options *options, struct crn_pass **ret,
                        struct crn_errinfo *ei)
{
    struct crn_pass *p = calloc(1, sizeof(*p));
    cairn_err rc;

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a pass over %u files", options->nfiles);
    p->o = *options;
    rc = crn_pass_plan(p, ei);
    if (rc == CAIRN_OK && p->nblocks > 0)
        rc = pass_start(p, ei);
    if (rc != CAIRN_OK) {
        crn_pass_close(p);
        return rc;
    }
    *ret = p;
    return CAIRN_OK;
}
