/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan: extents in file order, packed into blocks of whole chunks. A gap cheaper to read than
 * to seek over is read and ignored. Large extents that are wanted whole in this process become
 * blocks of their own, read straight to their destination. In encoded files the order is that of
 * the streams. Blocks that share a chunk of a stream form a batch, which one thread reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "restart/pass_impl.h"

#define GAP_BYTES ((uint64_t)64 << 10)

/* Makes space for one more, zeroed element in *array. Returns NULL if out of memory. */
static void *pass_plan_grow(void **array, size_t n, size_t *cap, size_t size)
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
    int goes_on; /* needs the same chunk of a stream as the chunk before it */
};

/* Can the chunk be appended to this block? */
static int pass_plan_fits(const struct crn_pass *p, const struct crn_pass_block *b, uint32_t file,
                          const struct chunk *c)
{
    const struct crn_pass_part *last = &p->pieces[b->piece + b->npieces - 1];

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
    struct crn_pass_part *last;

    if (b == NULL || p->is_cut || !pass_plan_fits(p, b, file, c)) {
        b = pass_plan_grow((void **)&p->blocks, p->nblocks, &p->blocks_cap, sizeof(*b));
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
        last = pass_plan_grow((void **)&p->pieces, p->npieces, &p->pieces_cap, sizeof(*last));
        if (last == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu pieces", p->npieces);
        p->npieces++;
        b->npieces++;
        *last = (struct crn_pass_part){.e = c->e, .chunk = c->no, .offset = c->at - b->begin};
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

/* The position in an index that the plan has reached. */
struct cursor {
    const struct crn_index *x;
    uint32_t stream, chunk;
    uint64_t at; /* where that chunk of the stream begins */
};

/* Where reading must begin to get the byte at `at`. In an unencoded file that is `at` itself. In an
 * encoded file it is the start of its stream chunk; a mapped stream is read as a whole. Callers ask
 * in ascending order. */
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

/* The size of the address space in which the extents of a file lie. */
static uint64_t space_bytes(const struct crn_version *v, uint32_t file)
{
    const struct crn_index *x = &v->files[file].index;
    const struct crn_stream *last = x->nstreams > 0 ? &x->streams[x->nstreams - 1] : NULL;

    return last != NULL ? last->start + last->bytes : v->m.files[file].trailer.index_offset;
}

static int is_read(const struct crn_pass *p, const struct crn_index *x, const struct crn_extent *e)
{
    const struct crn_shard *shard = &x->shards[e->shard];

    return (p->o.skip == NULL || !p->o.skip[shard->rank]) &&
           (!p->o.files_only || shard->regions[e->region].kind == CRN_REGION_FILE);
}

/* Lists the extents of one file in file order, without those that nobody wants. */
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
        if (is_read(p, x, &x->extents[i]))
            order[n++] = &x->extents[i];
    if (n > 1)
        qsort(order, n, sizeof(*order), by_place);
    *ret = order;
    *ret_n = n;
    return CAIRN_OK;
}

/* Adds the chunks of one file that this share reads: those assigned to it, and of the unassigned
 * ones those whose reading begins in [from, to) of the file. */
static cairn_err plan_file(struct crn_pass *p, uint32_t file, uint64_t from, uint64_t to,
                           struct crn_errinfo *ei)
{
    const struct crn_index *x = &p->o.v->files[file].index;
    const struct crn_extent **order = NULL;
    struct cursor cursor = {.x = x};
    uint64_t batch = 0; /* where reading of the current run of chunks begins */
    uint64_t end = 0;   /* of the previous chunk */
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
                batch = need;
            end = c.at + c.bytes;
            if (reader >= 0 ? reader == (int)p->o.share : batch >= from && batch < to)
                rc = add_chunk(p, file, &c, ei);
            else
                p->is_cut = 1;
        }
    }
    free(order);
    return rc;
}

static cairn_err list_batches(struct crn_pass *p, struct crn_errinfo *ei)
{
    size_t i;

    p->batches = calloc(p->nblocks + 1, sizeof(*p->batches));
    if (p->batches == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu reads", p->nblocks);
    for (i = 0; i < p->nblocks; i++)
        if (!p->blocks[i].goes_on)
            p->batches[p->nbatches++] = i;
    p->batches[p->nbatches] = p->nblocks;
    return CAIRN_OK;
}

cairn_err crn_pass_plan(struct crn_pass *p, struct crn_errinfo *ei)
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
    return rc != CAIRN_OK ? rc : list_batches(p, ei);
}
