/* SPDX-License-Identifier: BSD-3-Clause */
#include "format/test_random.h"

#include <string.h>

static void random_text(struct crn_rng *rng, char *dst, const char *prefix, unsigned n)
{
    (void)snprintf(dst, CAIRN_MAX_NAME, "%s%u-%0*u", prefix, n, (int)crn_rng_below(rng, 100) + 1,
                   1U);
}

static void random_region(struct crn_rng *rng, struct crn_region *r, unsigned n)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned i;

    memset(r, 0, sizeof(*r));
    random_text(rng, r->name, "region", n);
    r->kind = crn_rng_below(rng, 4) == 0 ? CRN_REGION_FILE : CRN_REGION_MEMORY;
    r->type = r->kind == CRN_REGION_FILE ? CAIRN_BYTES : (uint8_t)crn_rng_below(rng, CRN_TYPES);
    r->ndims = r->kind == CRN_REGION_FILE ? 1 : (uint8_t)(1 + crn_rng_below(rng, CAIRN_MAX_DIMS));
    r->is_global = r->kind == CRN_REGION_MEMORY && crn_rng_below(rng, 2) == 0;
    for (i = 0; i < r->ndims; i++) {
        r->dims[i] = crn_rng_below(rng, 4);
        if (r->is_global) {
            r->offset[i] = crn_rng_below(rng, 5);
            r->global_dims[i] = r->dims[i] + r->offset[i] + crn_rng_below(rng, 3);
        }
    }
    assert_ok(crn_region_check(r, ei));
}

void random_shard(struct crn_rng *rng, struct crn_shard *s, uint32_t rank)
{
    uint32_t i;

    s->rank = rank;
    s->nregions = (uint32_t)crn_rng_below(rng, 4);
    s->regions = s->nregions > 0 ? calloc(s->nregions, sizeof(*s->regions)) : NULL;
    for (i = 0; i < s->nregions; i++)
        random_region(rng, &s->regions[i], i);
}

/* Extents of random lengths over all regions, scattered in the file. Each covers at least a quarter
 * of its region, except the last, so that even a small region has at most MOST of them. */
static void random_extents(struct crn_rng *rng, struct crn_index *x)
{
    enum { MOST = 7 };
    uint64_t extents = 0, hashes = 0;
    uint32_t s, r;

    for (s = 0; s < x->nshards; s++)
        for (r = 0; r < x->shards[s].nregions; r++) {
            extents += MOST;
            hashes += x->shards[s].regions[r].bytes / CHUNK + MOST;
        }
    x->extents = calloc(extents + 1, sizeof(*x->extents));
    x->hashes = calloc(hashes + 1, sizeof(*x->hashes));
    for (s = 0; s < x->nshards; s++)
        for (r = 0; r < x->shards[s].nregions; r++) {
            uint64_t bytes = x->shards[s].regions[r].bytes;
            uint64_t at = 0;

            while (at < bytes) {
                struct crn_extent *e = &x->extents[x->nextents++];
                uint64_t n = 1 + crn_rng_below(rng, bytes - at);
                uint64_t i;

                if (n < bytes / 4)
                    n = bytes - at < bytes / 4 ? bytes - at : bytes / 4;
                *e = (struct crn_extent){.shard = s, .region = r, .offset = at, .bytes = n};
                e->file_offset = crn_rng_below(rng, 1U << 30);
                e->first_hash = x->nhashes;
                for (i = 0; i < (n + CHUNK - 1) / CHUNK; i++)
                    x->hashes[x->nhashes++] = crn_rng_u64(rng);
                at += n;
            }
        }
}

static void random_index(struct crn_rng *rng, struct crn_index *x)
{
    uint32_t rank = 0;
    uint32_t i;

    memset(x, 0, sizeof(*x));
    memset(x->id.run, (int)crn_rng_below(rng, 256), sizeof(x->id.run));
    x->id.seq = crn_rng_u64(rng);
    x->id.generation = 1 + crn_rng_below(rng, 1000);
    random_text(rng, x->name, "heat.", 7);
    x->version = (int64_t)(crn_rng_u64(rng) >> 1);
    x->files = 1 + (uint32_t)crn_rng_below(rng, 5);
    x->file_no = (uint32_t)crn_rng_below(rng, x->files);
    x->created_ns = crn_rng_u64(rng);
    x->chunk_bytes = CHUNK;
    x->nshards = (uint32_t)crn_rng_below(rng, 4);
    x->shards = calloc(4, sizeof(*x->shards));
    for (i = 0; i < x->nshards; i++) {
        random_shard(rng, &x->shards[i], rank);
        rank += 1 + (uint32_t)crn_rng_below(rng, 3);
    }
    x->ranks = rank + 1;
    x->nodes = 1;
    random_extents(rng, x);
}

/* Adds random streams, and moves the extents into them. */
static void random_encoded(struct crn_rng *rng, struct crn_index *x)
{
    uint64_t start = 0;
    uint64_t i;
    uint32_t k;

    do {
        if (start++ > 0)
            crn_index_free(x);
        random_index(rng, x);
    } while (x->nextents == 0);
    start = 0;
    x->streams = calloc(x->nextents, sizeof(*x->streams));
    for (i = 0; i < x->nextents; i++) { /* one stream an extent; some are longer */
        struct crn_stream *s = &x->streams[x->nstreams++];
        uint64_t left = x->extents[i].bytes + crn_rng_below(rng, 3);

        random_text(rng, s->key, "variable", (unsigned)i);
        s->type = (uint8_t)crn_rng_below(rng, CRN_TYPES);
        s->start = x->extents[i].file_offset = start;
        s->bytes = left;
        s->file_offset = crn_rng_below(rng, 1U << 30);
        s->chunks = calloc(left, sizeof(*s->chunks));
        while (left > 0) {
            struct crn_stream_chunk *c = &s->chunks[s->nchunks++];

            c->bytes = (uint32_t)(1 + crn_rng_below(rng, left));
            c->encoded = (uint32_t)(1 + crn_rng_below(rng, c->bytes));
            c->hash = crn_rng_u64(rng);
            c->nstages = c->encoded == c->bytes ? 0 : (uint8_t)(1 + crn_rng_below(rng, 4));
            for (k = 0; k < 2U * c->nstages && k < sizeof(c->stages); k++)
                c->stages[k] = (uint8_t)crn_rng_u64(rng);
            left -= c->bytes;
        }
        if (crn_rng_below(rng, 2) == 0) { /* its content is opaque to the format */
            s->bytes += 5;
            s->map_bytes = 3;
            s->map = calloc(1, 3);
        }
        start += s->bytes;
    }
}

struct crn_base *random_bases(struct crn_rng *rng, uint32_t n, uint32_t file_no)
{
    struct crn_base *bases = calloc(n + 1, sizeof(*bases));
    uint32_t i;

    for (i = 0; i < n; i++) {
        bases[i].version = (int64_t)(crn_rng_u64(rng) >> 1);
        crn_data_name(file_no, (uint32_t)crn_rng_below(rng, 3), bases[i].file);
        memset(bases[i].id.run, (int)crn_rng_below(rng, 256), sizeof(bases[i].id.run));
        bases[i].id.seq = crn_rng_u64(rng);
        bases[i].bytes = CRN_TRAILER_SIZE + crn_rng_below(rng, 1U << 30);
        bases[i].index_hash = crn_rng_u64(rng);
    }
    return bases;
}

void random_chained(struct crn_rng *rng, struct crn_index *x)
{
    random_encoded(rng, x);
    x->nbases = 1 + (uint32_t)crn_rng_below(rng, 4);
    x->bases = random_bases(rng, x->nbases, x->file_no);
}

static void random_manifest(struct crn_rng *rng, struct crn_manifest *m)
{
    uint32_t rank = 0;
    uint32_t i, j;

    memset(m, 0, sizeof(*m));
    m->id.seq = crn_rng_u64(rng);
    m->id.generation = 1 + crn_rng_below(rng, 1000);
    random_text(rng, m->name, "heat.", 7);
    if (crn_rng_below(rng, 2) != 0)
        random_text(rng, m->job, "job ", 8);
    m->version = (int64_t)(crn_rng_u64(rng) >> 1);
    m->created_ns = crn_rng_u64(rng);
    m->committed_ns = crn_rng_u64(rng);
    m->data_bytes = crn_rng_u64(rng);
    m->nfiles = 1 + (uint32_t)crn_rng_below(rng, 4);
    m->files = calloc(m->nfiles, sizeof(*m->files));
    for (i = 0; i < m->nfiles; i++) {
        struct crn_manifest_file *f = &m->files[i];

        crn_data_name(i, (uint32_t)crn_rng_below(rng, 3), f->name);
        f->trailer.index_offset = crn_rng_below(rng, 1000);
        f->trailer.index_bytes = crn_rng_below(rng, 1000);
        f->trailer.index_hash = crn_rng_u64(rng);
        f->bytes = f->trailer.index_offset + f->trailer.index_bytes + CRN_TRAILER_SIZE;
        f->nranges = 1 + (uint32_t)crn_rng_below(rng, 3);
        f->ranges = calloc(f->nranges, sizeof(*f->ranges));
        for (j = 0; j < f->nranges; j++) {
            f->ranges[j].first = rank;
            f->ranges[j].count = 1 + (uint32_t)crn_rng_below(rng, 5);
            rank += f->ranges[j].count;
        }
    }
    m->ranks = rank;
    m->nodes = m->nfiles;
}

void random_needy(struct crn_rng *rng, struct crn_manifest *m)
{
    uint32_t i;

    random_manifest(rng, m);
    for (i = 0; i < m->nfiles; i++) {
        m->files[i].nbases = (uint32_t)crn_rng_below(rng, 3) + (i + 1 == m->nfiles);
        m->files[i].bases = random_bases(rng, m->files[i].nbases, i);
    }
}

#define CODEC(type)                                                                                \
    static void make_##type(struct crn_rng *rng, struct crn_buf *out)                              \
    {                                                                                              \
        struct crn_errinfo info = {0}, *ei = &info;                                                \
        struct crn_##type v;                                                                       \
                                                                                                   \
        random_##type(rng, &v);                                                                    \
        assert_ok(crn_##type##_encode(&v, out, ei));                                               \
        crn_##type##_free(&v);                                                                     \
    }                                                                                              \
    static cairn_err again_##type(const void *data, size_t len, struct crn_buf *out,               \
                                  struct crn_errinfo *ei)                                          \
    {                                                                                              \
        struct crn_##type v;                                                                       \
        cairn_err rc = crn_##type##_decode(data, len, "test", &v, ei);                             \
                                                                                                   \
        if (rc != CAIRN_OK)                                                                        \
            return rc;                                                                             \
        rc = crn_##type##_encode(&v, out, ei);                                                     \
        crn_##type##_free(&v);                                                                     \
        return rc;                                                                                 \
    }

static void random_shard_at_7(struct crn_rng *rng, struct crn_shard *s)
{
    random_shard(rng, s, 7);
}
#define random_shard(rng, s) random_shard_at_7(rng, s)
CODEC(shard)
#undef random_shard
CODEC(index)
#define crn_encoded        crn_index
#define crn_encoded_encode crn_index_encode
#define crn_encoded_decode crn_index_decode
#define crn_encoded_free   crn_index_free
CODEC(encoded)
#define crn_chained        crn_index
#define crn_chained_encode crn_index_encode
#define crn_chained_decode crn_index_decode
#define crn_chained_free   crn_index_free
CODEC(chained)
CODEC(manifest)
#define crn_needy        crn_manifest
#define crn_needy_encode crn_manifest_encode
#define crn_needy_decode crn_manifest_decode
#define crn_needy_free   crn_manifest_free
CODEC(needy)

static void random_parity(struct crn_rng *rng, struct crn_parity *p)
{
    uint32_t i;

    memset(p, 0, sizeof(*p));
    memset(p->id.run, (int)crn_rng_below(rng, 256), sizeof(p->id.run));
    p->id.seq = crn_rng_u64(rng);
    p->id.generation = crn_rng_u64(rng);
    random_text(rng, p->name, "heat.", 3);
    p->version = (int64_t)(crn_rng_u64(rng) >> 1);
    p->created_ns = crn_rng_u64(rng);
    p->nmembers = (uint8_t)(2 + crn_rng_below(rng, 6));
    p->nodes = p->nmembers * 3U;
    p->ranks = p->nodes + (uint32_t)crn_rng_below(rng, 5);
    p->scheme = (uint8_t)(1 + crn_rng_below(rng, 3));
    p->rows = (uint8_t)(1 + crn_rng_below(rng, p->nmembers - 1U));
    p->place = (uint8_t)crn_rng_below(rng, p->nmembers);
    p->cell_bytes = CHUNK;
    p->tail_bytes = CRN_TRAILER_SIZE + crn_rng_below(rng, 50);
    for (i = 0; i < p->nmembers; i++)
        p->member[i] =
            (struct crn_parity_member){3 * i + (uint32_t)crn_rng_below(rng, 3),
                                       p->tail_bytes + crn_rng_below(rng, 1000), crn_rng_u64(rng)};
    for (i = 0; i < p->rows; i++) {
        p->row_bytes[i] = crn_rng_below(rng, 200);
        p->nhashes += (p->row_bytes[i] + CHUNK - 1) / CHUNK;
    }
    p->hashes = calloc(p->nhashes + 1, sizeof(*p->hashes));
    p->tail = calloc(p->tail_bytes, 1);
    for (i = 0; i < p->nhashes; i++)
        p->hashes[i] = crn_rng_u64(rng);
}
CODEC(parity)

static void make_trailer(struct crn_rng *rng, struct crn_buf *out)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_trailer t = {.index_offset = 4096, .index_bytes = 300};

    t.index_hash = crn_rng_u64(rng);
    assert_ok(crn_trailer_encode(&t, out, ei));
}

static cairn_err again_trailer(const void *data, size_t len, struct crn_buf *out,
                               struct crn_errinfo *ei)
{
    struct crn_trailer t;
    cairn_err rc;

    if (len != CRN_TRAILER_SIZE)
        return CAIRN_EDAMAGED;
    rc = crn_trailer_decode(data, 4096 + 300 + CRN_TRAILER_SIZE, "test", &t, ei);
    return rc == CAIRN_OK ? crn_trailer_encode(&t, out, ei) : rc;
}

const struct codec random_codecs[RANDOM_CODECS] = {
    {"shard", make_shard, again_shard},
    {"index", make_index, again_index},
    {"encoded index", make_encoded, again_encoded},
    {"chained index", make_chained, again_chained},
    {"manifest", make_manifest, again_manifest},
    {"needy manifest", make_needy, again_needy},
    {"parity", make_parity, again_parity},
    {"trailer", make_trailer, again_trailer},
};

const struct codec *random_codec(const char *name)
{
    size_t i;

    for (i = 0; i < RANDOM_CODECS; i++)
        if (strcmp(random_codecs[i].name, name) == 0)
            return &random_codecs[i];
    fail_msg("no codec '%s'", name);
    return NULL;
}
