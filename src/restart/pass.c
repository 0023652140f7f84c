/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan: the extents in the order of the file, packed into blocks of whole chunks. A gap that is
 * shorter than a seek is worth is read over. Large extents that are wanted here as they are become
 * blocks of their own, which are read into their place. In encoded files the order is that of the
 * streams; blocks that share a chunk of a stream are read by one thread, which decodes it once. The
 * plan is constant once the threads run; they share only the number of the next lane of blocks. */
#include "restart/pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/queue.h"
#include "base/touch.h"
#include "restart/version_impl.h"

#define GAP_BYTES ((uint64_t)64 << 10)
#define STEP_BYTES                                                                                 \
    ((size_t)1 << 20) /* of one read, if no chunk is larger: verified while it is in the cache */

struct piece {
    const struct crn_extent *e;
    uint64_t chunk;  /* the first */
    uint64_t bytes;  /* of all of its chunks in the block */
    uint64_t offset; /* in the block */
};

struct crn_pass_block {
    uint32_t file;
    int goes_on;         /* the thread that has read the block before reads this one */
    uint64_t begin, end; /* in the file, or in its streams */
    size_t piece, npieces;
    unsigned char *into; /* NULL: a block of the pool */
    /* Written by the thread that reads it, before it is queued. */
    unsigned char *data; /* NULL: failed */
    struct crn_errinfo failure;
};

struct crn_pass {
    struct crn_pass_options o;
    struct piece *pieces;
    size_t npieces, pieces_cap;
    struct crn_pass_block *blocks;
    size_t nblocks, blocks_cap;
    int is_cut; /* of the plan: another share's chunk follows the last block, and is not read over */
    size_t *lanes; /* first blocks; nlanes */
    size_t nlanes;
    struct crn_pool pool;
    int has_pool;
    struct crn_queue ready;
    pthread_t *threads;
    unsigned nthreads;
    atomic_size_t next; /* lane that no thread has taken yet */
    atomic_int has_failed;
    size_t handed; /* owner's: blocks that came out of ready */
    struct crn_errinfo failure;
};

/* The plan. --------------------------------------------------------------------------------------- */

/* One element more in *array; NULL without memory. */
static void *grow(void **array, size_t n, size_t *cap, size_t size)
{
    void *grown;
    size_t more;

    if (n == *cap || *array == NULL) {
        more = *cap > 0 ? 2 * *cap : 64;
        grown = realloc(*array, more * size);
        if (grown == NULL)
            return NULL;
        *array = grown;
        *cap = more;
    }
    return memset((char *)*array + n * size, 0, size);
}

struct chunk {
    const struct crn_extent *e;
    uint64_t no;
    uint64_t bytes;
    uint64_t at; /* in the file, or in its streams */
    unsigned char *into;
    int goes_on; /* needs what the chunk before needs */
};

/* Can the chunk go to the end of this block? */
static int fits(const struct crn_pass *p, const struct crn_pass_block *b, uint32_t file,
                const struct chunk *c)
{
    const struct piece *last = &p->pieces[b->piece + b->npieces - 1];

    if (b->file != file || c->at < b->end || c->at - b->end > GAP_BYTES ||
        c->at + c->bytes - b->begin > p->o.block_bytes)
        return 0;
    if (b->into != NULL || c->into != NULL)
        return b->into != NULL && c->into != NULL && last->e == c->e && c->at == b->end;
    return 1;
}

static cairn_err add_chunk(struct crn_pass *p, uint32_t file, const struct chunk *c,
                           struct crn_errinfo *ei)
{
    struct crn_pass_block *b = p->nblocks > 0 ? &p->blocks[p->nblocks - 1] : NULL;
    struct piece *last;

    if (b == NULL || p->is_cut || !fits(p, b, file, c)) {
        b = grow((void **)&p->blocks, p->nblocks, &p->blocks_cap, sizeof(*b));
        if (b == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu reads", p->nblocks);
        p->nblocks++;
        *b = (struct crn_pass_block){
            .file = file, .begin = c->at, .piece = p->npieces, .into = c->into};
        b->goes_on = c->goes_on;
        p->is_cut = 0;
    }
    last = b->npieces > 0 ? &p->pieces[p->npieces - 1] : NULL;
    if (last == NULL || last->e != c->e || c->at != b->end) {
        last = grow((void **)&p->pieces, p->npieces, &p->pieces_cap, sizeof(*last));
        if (last == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu pieces", p->npieces);
        p->npieces++;
        b->npieces++;
        *last = (struct piece){.e = c->e, .chunk = c->no, .offset = c->at - b->begin};
    }
    last->bytes += c->bytes;
    b->end = c->at + c->bytes;
    return CAIRN_OK;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = (*(const struct crn_extent *const *)a)->file_offset;
    uint64_t y = (*(const struct crn_extent *const *)b)->file_offset;

    return x < y ? -1 : x > y;
}

/* The place in an index up to which the plan has come. */
struct cursor {
    const struct crn_index *x;
    uint32_t stream, chunk;
    uint64_t at; /* where that chunk of the stream begins */
};

/* Where reading has to begin for the byte at `at`: there or, in an encoded file, with its chunk of the
 * stream; a stream that is mapped is read as a whole. Asked in ascending order. */
static uint64_t read_from(struct cursor *c, uint64_t at)
{
    if (c->x->nstreams == 0)
        return at;
    for (;;) {
        const struct crn_stream *s = &c->x->streams[c->stream];

        if (at >= s->start + s->bytes) {
            c->at = s->start + s->bytes;
            c->stream++;
            c->chunk = 0;
        } else if (s->map_bytes > 0) {
            return s->start;
        } else if (at >= c->at + s->chunks[c->chunk].bytes) {
            c->at += s->chunks[c->chunk++].bytes;
        } else {
            return c->at;
        }
    }
}

/* What the extents of a file lie in. */
static uint64_t space_bytes(const struct crn_version *v, uint32_t file)
{
    const struct crn_index *x = &v->files[file].index;
    const struct crn_stream *last = x->nstreams > 0 ? &x->streams[x->nstreams - 1] : NULL;

    return last != NULL ? last->start + last->bytes : v->m.files[file].trailer.index_offset;
}

/* Extents of one file, in order. */
static cairn_err order_extents(const struct crn_pass *p, const struct crn_index *x,
                               const struct crn_extent ***ret, uint64_t *ret_n,
                               struct crn_errinfo *ei)
{
    const struct crn_extent **order = malloc((x->nextents + 1) * sizeof(*order));
    uint64_t n = 0;
    uint64_t i;

    if (order == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the order of %llu extents",
                        (unsigned long long)x->nextents);
    for (i = 0; i < x->nextents; i++)
        if (p->o.skip == NULL || !p->o.skip[x->shards[x->extents[i].shard].rank])
            order[n++] = &x->extents[i];
    if (n > 1)
        qsort(order, n, sizeof(*order), by_place);
    *ret = order;
    *ret_n = n;
    return CAIRN_OK;
}

/* The chunks of one file that are this share's: those that were given to it, and of the others those whose
 * reading begins in [from, to) of the file. */
static cairn_err plan_file(struct crn_pass *p, uint32_t file, uint64_t from, uint64_t to,
                           struct crn_errinfo *ei)
{
    const struct crn_index *x = &p->o.v->files[file].index;
    const struct crn_extent **order = NULL;
    struct cursor cursor = {.x = x};
    uint64_t lane = 0; /* where the reading of the chunks in hand begins */
    uint64_t end = 0;  /* of the chunk before */
    uint64_t n = 0;
    uint64_t i, no;
    cairn_err rc;

    rc = order_extents(p, x, &order, &n, ei);
    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        const struct crn_extent *e = order[i];
        unsigned char *into = NULL;
        int reader = -1;

        if (p->o.reader != NULL && e->bytes >= p->o.direct_bytes && x->nstreams == 0)
            reader = p->o.reader[x->shards[e->shard].rank];
        if (p->o.place != NULL && e->bytes >= p->o.direct_bytes)
            into = p->o.place(p->o.arg, x->shards[e->shard].rank, e->region);
        for (no = 0; rc == CAIRN_OK && no * x->chunk_bytes < e->bytes; no++) {
            uint64_t skip = no * x->chunk_bytes;
            struct chunk c = {.e = e, .no = no, .at = e->file_offset + skip};
            uint64_t need = read_from(&cursor, c.at);

            c.bytes = crn_data_chunk_bytes(x, e, no);
            c.into = into != NULL ? into + e->offset + skip : NULL;
            c.goes_on = need < end && x->nstreams > 0;
            if (!c.goes_on)
                lane = need;
            end = c.at + c.bytes;
            if (reader >= 0 ? reader == (int)p->o.share : lane >= from && lane < to)
                rc = add_chunk(p, file, &c, ei);
            else
                p->is_cut = 1;
        }
    }
    free(order);
    return rc;
}

static cairn_err list_lanes(struct crn_pass *p, struct crn_errinfo *ei)
{
    size_t i;

    p->lanes = calloc(p->nblocks + 1, sizeof(*p->lanes));
    if (p->lanes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu reads", p->nblocks);
    for (i = 0; i < p->nblocks; i++)
        if (!p->blocks[i].goes_on)
            p->lanes[p->nlanes++] = i;
    p->lanes[p->nlanes] = p->nblocks;
    return CAIRN_OK;
}

static cairn_err plan(struct crn_pass *p, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint64_t total = 0;
    uint64_t at = 0;
    uint64_t from, to;
    uint32_t i;

    for (i = 0; i < p->o.nfiles; i++)
        total += space_bytes(p->o.v, p->o.files[i]);
    from = total / p->o.shares * p->o.share;
    to = p->o.share + 1 < p->o.shares ? from + total / p->o.shares : total;
    for (i = 0; rc == CAIRN_OK && i < p->o.nfiles; i++) {
        rc = plan_file(p, p->o.files[i], from > at ? from - at : 0, to > at ? to - at : 0, ei);
        at += space_bytes(p->o.v, p->o.files[i]);
    }
    return rc != CAIRN_OK ? rc : list_lanes(p, ei);
}

/* Reading. ---------------------------------------------------------------------------------------- */

/* A thread's own. */
struct hand {
    int fd;
    uint32_t file; /* of fd */
    struct crn_decoder *decoder;
};

static cairn_err open_file(const struct crn_pass *p, struct hand *h, uint32_t file,
                           struct crn_errinfo *ei)
{
    const struct crn_version *v = p->o.v;
    int fd;

    if (h->fd >= 0 && h->file == file)
        return CAIRN_OK;
    if (h->fd >= 0)
        (void)v->fs->close(v->fs, h->fd);
    h->fd = -1;
    fd = v->fs->openat(v->fs, v->dfd, v->m.files[file].name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd == -ENOENT) /* its index was there */
        return crn_fail(ei, CAIRN_EDAMAGED, ENOENT, "open '%s'", v->files[file].what);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", v->files[file].what);
    h->fd = fd;
    h->file = file;
    return CAIRN_OK;
}

/* Reads on until need bytes of the block are there. */
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
        crn_populate(data + *done, n); /* cheaper than a fault for each page */
    rc = crn_fs_read_all(p->o.v->fs, h->fd, data + *done, n, b->begin + *done,
                         p->o.v->files[b->file].what, ei);
    *done += n;
    return rc;
}

static cairn_err read_block(const struct crn_pass *p, struct hand *h,
                            const struct crn_pass_block *b, unsigned char *data,
                            struct crn_errinfo *ei)
{
    const struct crn_source *s = &p->o.v->files[b->file];
    const struct crn_index *x = &s->index;
    struct crn_data_file f;
    size_t there = 0; /* read, from the beginning of the block */
    cairn_err rc;
    size_t i;

    rc = open_file(p, h, b->file, ei);
    f = crn_source_data(p->o.v, s, h->fd);
    for (i = 0; rc == CAIRN_OK && i < b->npieces; i++) {
        const struct piece *q = &p->pieces[b->piece + i];
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

/* buf is the block of the pool to read to; it is the block's then, or free again. */
static void do_block(struct crn_pass *p, struct hand *h, struct crn_pass_block *b, void *buf)
{
    unsigned char *data = b->into != NULL ? b->into : buf;

    if (!atomic_load(&p->has_failed) && read_block(p, h, b, data, &b->failure) == CAIRN_OK)
        b->data = data;
    else
        atomic_store(&p->has_failed, 1);
    if (b->data != buf)
        crn_pool_put(&p->pool, buf);
    (void)crn_queue_push(&p->ready, b); /* has room for all */
}

static void *run(void *arg)
{
    struct crn_pass *p = arg;
    struct hand h = {.fd = -1};

    for (;;) {
        void *buf = crn_pool_get(&p->pool); /* first: who has a lane can begin it */
        size_t lane = atomic_fetch_add(&p->next, 1);
        size_t i;

        if (lane >= p->nlanes) {
            crn_pool_put(&p->pool, buf);
            break;
        }
        for (i = p->lanes[lane]; i < p->lanes[lane + 1]; i++) {
            if (i > p->lanes[lane])
                buf = crn_pool_get(&p->pool);
            do_block(p, &h, &p->blocks[i], buf);
        }
    }
    if (h.fd >= 0)
        (void)p->o.v->fs->close(p->o.v->fs, h.fd);
    crn_decoder_free(h.decoder);
    return NULL;
}

/* For the owner. ---------------------------------------------------------------------------------- */

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
    const struct piece *q;

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
    free(p->lanes);
    free(p->pieces);
    free(p->blocks);
    free(p);
}

/* No chunk is cut; no more blocks than there are reads. */
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

static cairn_err start(struct crn_pass *p, struct crn_errinfo *ei)
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
    if (p->o.threads > p->nlanes)
        p->o.threads = (unsigned)p->nlanes;
    p->threads = calloc(p->o.threads, sizeof(*p->threads));
    if (p->threads == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u threads", p->o.threads);
    while (p->nthreads < p->o.threads &&
           crn_thread_start(&p->threads[p->nthreads], "cairn-read", run, p, &why) == CAIRN_OK)
        p->nthreads++;
    if (p->nthreads > 0)
        return CAIRN_OK; /* fewer will do */
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
    rc = plan(p, ei);
    if (rc == CAIRN_OK && p->nblocks > 0)
        rc = start(p, ei);
    if (rc != CAIRN_OK) {
        crn_pass_close(p);
        return rc;
    }
    *ret = p;
    return CAIRN_OK;
}
