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
    uint64_t at;   /* in the file, or in its streams */
    uint64_t need; /* where reading must begin to get it */
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

/* Lists the extents of one file in file order. */
static cairn_err order_extents(const struct crn_index *x, const struct crn_extent ***ret,
                               struct crn_errinfo *ei)
{
    const struct crn_extent **order = malloc((x->nextents + 1) * sizeof(*order));
    int is_sorted = 1;
    uint64_t i;

    if (order == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the order of %llu extents",
                        (unsigned long long)x->nextents);
    for (i = 0; i < x->nextents; i++) {
        order[i] = &x->extents[i];
        is_sorted = is_sorted && (i == 0 || by_place(&order[i - 1], &order[i]) < 0);
    }
    if (!is_sorted)
        qsort(order, x->nextents, sizeof(*order), by_place);
    *ret = order;
    return CAIRN_OK;
}

/* All chunks of the files, in file order, each with the share that reads it. */
struct pass_walk {
    const struct crn_pass_options *o;
    cairn_err (*visit)(struct pass_walk *w, struct chunk *c, uint32_t share,
                       struct crn_errinfo *ei);
    void *arg;
    uint32_t file;
    const struct crn_index *x; /* of that file */
    uint64_t base, total;      /* where the file begins, and where the last one ends */
};

/* The share in which a position of the files, laid end to end, lies. */
static uint32_t share_at(const struct pass_walk *w, uint64_t at)
{
    uint64_t each = w->total / w->o->shares;
    uint64_t share = each > 0 ? at / each : w->o->shares - 1;

    return share < w->o->shares ? (uint32_t)share : w->o->shares - 1;
}

static cairn_err walk_extent(struct pass_walk *w, struct cursor *cursor, const struct crn_extent *e,
                             uint64_t *batch, uint64_t *end, struct crn_errinfo *ei)
{
    const struct crn_index *x = w->x;
    cairn_err rc = CAIRN_OK;
    int reader = -1;
    uint64_t no;

    if (w->o->reader != NULL && e->bytes >= w->o->direct_bytes && x->nstreams == 0)
        reader = w->o->reader[x->shards[e->shard].rank];
    for (no = 0; rc == CAIRN_OK && no * x->chunk_bytes < e->bytes; no++) {
        struct chunk c = {.e = e, .no = no, .at = e->file_offset + no * x->chunk_bytes};

        c.need = read_from(cursor, c.at);
        c.bytes = crn_data_chunk_bytes(x, e, no);
        if (c.need >= *end || x->nstreams == 0)
            *batch = c.need;
        *end = c.at + c.bytes;
        rc = w->visit(w, &c, reader >= 0 ? (uint32_t)reader : share_at(w, w->base + *batch), ei);
    }
    return rc;
}

static cairn_err walk_file(struct pass_walk *w, struct crn_errinfo *ei)
{
    const struct crn_extent **order = NULL;
    struct cursor cursor = {.x = w->x};
    uint64_t batch = 0; /* where reading of the current run of chunks begins */
    uint64_t end = 0;   /* of the previous chunk */
    cairn_err rc;
    uint64_t i;

    rc = order_extents(w->x, &order, ei);
    for (i = 0; rc == CAIRN_OK && i < w->x->nextents; i++)
        rc = walk_extent(w, &cursor, order[i], &batch, &end, ei);
    free(order);
    return rc;
}

static cairn_err walk_files(struct pass_walk *w, struct crn_errinfo *ei)
{
    const struct crn_pass_options *o = w->o;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; i < o->nfiles; i++)
        w->total += space_bytes(o->v, o->files[i]);
    for (i = 0; rc == CAIRN_OK && i < o->nfiles; i++) {
        w->file = o->files[i];
        w->x = &o->v->files[w->file].index;
        rc = walk_file(w, ei);
        w->base += space_bytes(o->v, w->file);
    }
    return rc;
}

/* Where a chunk lies in its region. */
static uint64_t chunk_begin(const struct pass_walk *w, const struct chunk *c)
{
    return c->e->offset + c->no * w->x->chunk_bytes;
}

struct pass_routing {
    crn_pass_fn fn;
    void *arg;
};

static cairn_err visit_route(struct pass_walk *w, struct chunk *c, uint32_t share,
                             struct crn_errinfo *ei)
{
    const struct pass_routing *r = w->arg;
    uint64_t begin = chunk_begin(w, c);

    return r->fn(r->arg, w->x->shards[c->e->shard].rank, c->e->region, begin, begin + c->bytes,
                 share, ei);
}

cairn_err crn_pass_route(const struct crn_pass_options *options, crn_pass_fn fn, void *arg,
                         struct crn_errinfo *ei)
{
    struct pass_routing r = {fn, arg};
    struct pass_walk w = {.o = options, .visit = visit_route, .arg = &r};

    return walk_files(&w, ei);
}

/* What the plan remembers from chunk to chunk. */
struct pass_planning {
    struct crn_pass *p;
    uint32_t file;
    uint64_t end;               /* of the last chunk added, in that file */
    const struct crn_extent *e; /* into is its place */
    unsigned char *into;
};

static cairn_err visit_plan(struct pass_walk *w, struct chunk *c, uint32_t share,
                            struct crn_errinfo *ei)
{
    const struct crn_pass_options *o = w->o;
    uint32_t rank = w->x->shards[c->e->shard].rank;
    uint64_t begin = chunk_begin(w, c);
    struct pass_planning *g = w->arg;

    if (share != o->share) {
        g->p->is_cut = 1;
        return CAIRN_OK;
    }
    if (o->files_only && w->x->shards[c->e->shard].regions[c->e->region].kind != CRN_REGION_FILE)
        return CAIRN_OK;
    if (o->wants != NULL && !o->wants(o->arg, rank, c->e->region, begin, begin + c->bytes))
        return CAIRN_OK;
    if (g->file != w->file)
        g->end = 0;
    g->file = w->file;
    if (g->e != c->e) {
        g->e = c->e;
        g->into =
            o->place != NULL && c->e->bytes >= o->direct_bytes
                ? o->place(o->arg, rank, c->e->region, c->e->offset, c->e->offset + c->e->bytes)
                : NULL;
    }
    c->into = g->into != NULL ? g->into + c->no * w->x->chunk_bytes : NULL;
    c->goes_on = w->x->nstreams > 0 && c->need < g->end;
    g->end = c->at + c->bytes;
    return add_chunk(g->p, w->file, c, ei);
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
    struct pass_planning g = {.p = p, .file = UINT32_MAX};
    struct pass_walk w = {.o = &p->o, .visit = visit_plan, .arg = &g};
    cairn_err rc = walk_files(&w, ei);

    return rc != CAIRN_OK ? rc : list_batches(p, ei);
}
