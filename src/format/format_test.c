/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of the formats: what is encoded comes back; what is damaged is refused, also when the
 * damage has a valid checksum; nothing is read beyond the input (the asan build proves it). */
#include "base/rng.h"
#include "base/test.h"
#include "format/format.h"

#define CHUNK 16

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
    r->type = r->kind == CRN_REGION_FILE ? CAIRN_BYTES : (uint8_t)crn_rng_below(rng, 13);
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

static void random_shard(struct crn_rng *rng, struct crn_shard *s, uint32_t rank)
{
    uint32_t i;

    s->rank = rank;
    s->nregions = (uint32_t)crn_rng_below(rng, 4);
    s->regions = s->nregions > 0 ? calloc(s->nregions, sizeof(*s->regions)) : NULL;
    for (i = 0; i < s->nregions; i++)
        random_region(rng, &s->regions[i], i);
}

/* Extents of random lengths over all regions, scattered in the file. */
static void random_extents(struct crn_rng *rng, struct crn_index *x)
{
    uint32_t s, r;

    x->extents = calloc(100000, sizeof(*x->extents));
    x->hashes = calloc(1000000, sizeof(*x->hashes));
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

/* Streams over the space of the extents, which are moved into them. */
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
    for (i = 0; i < x->nextents; i++) { /* one for each extent; some hold more than it */
        struct crn_stream *s = &x->streams[x->nstreams++];
        uint64_t left = x->extents[i].bytes + crn_rng_below(rng, 3);

        random_text(rng, s->key, "variable", (unsigned)i);
        s->type = (uint8_t)crn_rng_below(rng, 13);
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
            for (k = 0; k < 2U * c->nstages; k++)
                c->stages[k] = (uint8_t)crn_rng_u64(rng);
            left -= c->bytes;
        }
        if (crn_rng_below(rng, 2) == 0) { /* a map: what it says is not the format's business */
            s->bytes += 5;
            s->map_bytes = 3;
            s->map = calloc(1, 3);
        }
        start += s->bytes;
    }
}

static struct crn_base *random_bases(struct crn_rng *rng, uint32_t n, uint32_t file_no)
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

/* An encoded index with older versions behind it. */
static void random_chained(struct crn_rng *rng, struct crn_index *x)
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

/* A manifest of which at least the last file has older versions behind it. */
static void random_needy(struct crn_rng *rng, struct crn_manifest *m)
{
    uint32_t i;

    random_manifest(rng, m);
    for (i = 0; i < m->nfiles; i++) {
        m->files[i].nbases = (uint32_t)crn_rng_below(rng, 3) + (i + 1 == m->nfiles);
        m->files[i].bases = random_bases(rng, m->files[i].nbases, i);
    }
}

/* One codec as the tests see it: a random structure as bytes, and bytes -> structure -> bytes. */
struct codec {
    const char *name;
    void (*make)(struct crn_rng *rng, struct crn_buf *out);
    cairn_err (*again)(const void *data, size_t len, struct crn_buf *out, struct crn_errinfo *ei);
};

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

static const struct codec codecs[] = {
    {"shard", make_shard, again_shard},
    {"index", make_index, again_index},
    {"encoded index", make_encoded, again_encoded},
    {"chained index", make_chained, again_chained},
    {"manifest", make_manifest, again_manifest},
    {"needy manifest", make_needy, again_needy},
    {"trailer", make_trailer, again_trailer},
};
#define NCODECS (sizeof(codecs) / sizeof(codecs[0]))

static void random_structures_come_back(void **state)
{
    struct crn_rng rng;
    unsigned round;
    size_t c;

    (void)state;
    crn_rng_seed(&rng, 1);
    for (c = 0; c < NCODECS; c++)
        for (round = 0; round < 300; round++) {
            struct crn_errinfo info = {0}, *ei = &info;
            struct crn_buf a = {0}, b = {0};

            codecs[c].make(&rng, &a);
            assert_ok(codecs[c].again(a.data, a.len, &b, ei));
            assert_int_equal(a.len, b.len);
            assert_memory_equal(a.data, b.data, a.len);
            crn_buf_free(&a);
            crn_buf_free(&b);
        }
}

/* Writes length and checksum again, so that only the fields themselves can give damage away. */
static void reseal(unsigned char *data, size_t len)
{
    struct crn_buf b = {.data = data, .len = len, .cap = len};

    if (len < 40)
        return;
    crn_buf_set_u64(&b, 24, len);
    crn_buf_set_u64(&b, len - 8, crn_hash(data, len - 8));
}

/* A copy with exactly len bytes, so that the sanitizer sees the first byte read beyond. */
static unsigned char *exact(const void *data, size_t len)
{
    unsigned char *copy = malloc(len + 1);

    assert_non_null(copy);
    copy = realloc(copy, len > 0 ? len : 1);
    memcpy(copy, data, len);
    return copy;
}

static void refused(const struct codec *c, const unsigned char *data, size_t len)
{
    struct crn_errinfo info = {0};
    struct crn_buf out = {0};
    cairn_err rc = c->again(data, len, &out, &info);

    if (rc != CAIRN_EDAMAGED && rc != CAIRN_EFORMAT)
        fail_msg("%s of %zu bytes: %s", c->name, len, cairn_error_name(rc));
    crn_buf_free(&out);
}

/* Damage with a valid checksum: refused, or it is another valid object and encodes to itself. */
static void refused_or_exact(const struct codec *c, const unsigned char *data, size_t len)
{
    struct crn_errinfo info = {0};
    struct crn_buf out = {0};
    cairn_err rc = c->again(data, len, &out, &info);

    if (rc == CAIRN_OK) {
        assert_int_equal(out.len, len);
        assert_memory_equal(out.data, data, len);
    } else if (rc != CAIRN_EDAMAGED && rc != CAIRN_EFORMAT) {
        fail_msg("%s of %zu bytes: %s: %s", c->name, len, cairn_error_name(rc), info.msg);
    }
    crn_buf_free(&out);
}

static void every_flipped_byte_is_refused(void **state)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff};
    struct crn_rng rng;
    size_t c, i, m;
    int round;

    (void)state;
    crn_rng_seed(&rng, 2);
    for (c = 0; c < NCODECS; c++)
        for (round = 0; round < 4; round++) {
            struct crn_buf a = {0};
            unsigned char *data;

            codecs[c].make(&rng, &a);
            data = exact(a.data, a.len);
            for (i = 0; i < a.len; i++)
                for (m = 0; m < sizeof(masks); m++) {
                    memcpy(data, a.data, a.len);
                    data[i] ^= masks[m];
                    refused(&codecs[c], data, a.len);
                    if (i >= 8 && i < 24)
                        continue; /* versions and flags: below */
                    reseal(data, a.len);
                    refused_or_exact(&codecs[c], data, a.len);
                }
            free(data);
            crn_buf_free(&a);
        }
}

static void every_truncation_is_refused(void **state)
{
    struct crn_rng rng;
    size_t c, len;

    (void)state;
    crn_rng_seed(&rng, 3);
    for (c = 0; c < NCODECS; c++) {
        struct crn_buf a = {0};

        codecs[c].make(&rng, &a);
        for (len = 0; len < a.len; len++) {
            unsigned char *data = exact(a.data, len);

            refused(&codecs[c], data, len);
            reseal(data, len);
            refused_or_exact(&codecs[c], data, len);
            free(data);
        }
        crn_buf_u8(&a, 0); /* and one byte too many */
        refused(&codecs[c], a.data, a.len);
        reseal(a.data, a.len);
        refused(&codecs[c], a.data, a.len);
        crn_buf_free(&a);
    }
}

/* Random garbage behind a valid header: counts ask for more than there is. */
static void garbage_is_refused(void **state)
{
    struct crn_rng rng;
    unsigned round;
    size_t c, i;

    (void)state;
    crn_rng_seed(&rng, 4);
    for (c = 0; c < NCODECS; c++)
        for (round = 0; round < 2000; round++) {
            struct crn_buf a = {0};
            size_t from, n;

            codecs[c].make(&rng, &a);
            from = 32 + (size_t)crn_rng_below(&rng, a.len - 32);
            n = 1 + (size_t)crn_rng_below(&rng, 9);
            for (i = from; i < a.len && i < from + n; i++)
                a.data[i] = crn_rng_below(&rng, 2) == 0 ? 0xff : (unsigned char)crn_rng_u64(&rng);
            reseal(a.data, a.len);
            refused_or_exact(&codecs[c], a.data, a.len);
            crn_buf_free(&a);
        }
}

static void versions_and_flags_are_obeyed(void **state)
{
    struct crn_rng rng;
    size_t c;

    (void)state;
    crn_rng_seed(&rng, 5);
    for (c = 0; c < NCODECS; c++) {
        struct crn_errinfo info = {0}, *ei = &info;
        struct crn_buf a = {0}, out = {0};
        unsigned char flags;

        codecs[c].make(&rng, &a);
        flags = a.data[16];
        a.data[8] = CRN_FORMAT_MAJOR + 1;
        reseal(a.data, a.len);
        assert_int_equal(codecs[c].again(a.data, a.len, &out, ei), CAIRN_EFORMAT);
        assert_non_null(strstr(ei->msg, "format 2."));
        a.data[8] = CRN_FORMAT_MAJOR;
        a.data[16] = 4; /* an incompatible flag */
        reseal(a.data, a.len);
        assert_int_equal(codecs[c].again(a.data, a.len, &out, ei), CAIRN_EFORMAT);
        a.data[16] = flags;
        a.data[12] = 4; /* a compatible one */
        a.data[10] = CRN_FORMAT_MINOR + 1;
        reseal(a.data, a.len);
        crn_err_clear(ei);
        assert_ok(codecs[c].again(a.data, a.len, &out, ei));
        crn_buf_free(&out);
        crn_buf_free(&a);
    }
}

/* A newer minor version may add fields at the end of the body. */
static void fields_of_a_newer_minor_version_are_passed_over(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf a = {0}, out = {0};
    struct crn_rng rng;

    (void)state;
    crn_rng_seed(&rng, 6);
    make_manifest(&rng, &a);
    crn_buf_u64(&a, 0);
    reseal(a.data, a.len);
    assert_int_equal(again_manifest(a.data, a.len, &out, ei), CAIRN_EDAMAGED);
    a.data[10] = CRN_FORMAT_MINOR + 1;
    reseal(a.data, a.len);
    crn_err_clear(ei);
    assert_ok(again_manifest(a.data, a.len, &out, ei));
    assert_int_equal(out.len, a.len - 8);
    crn_buf_free(&out);
    crn_buf_free(&a);
}

static void writers_are_checked_too(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_region r = {
        .name = "t", .type = CAIRN_F64, .ndims = 2, .dims = {1U << 31, 1U << 31}};
    struct crn_shard s = {.nregions = 2};
    struct crn_buf out = {0};

    (void)state;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL); /* 2^65 bytes */
    r.dims[1] = 4;
    crn_err_clear(ei);
    assert_ok(crn_region_check(&r, ei));
    assert_int_equal(r.bytes, (uint64_t)1 << 36); /* beyond 4 GiB is normal */
    r.is_global = 1;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL); /* no global dims */
    r.global_dims[0] = UINT64_MAX;
    r.global_dims[1] = 4;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.global_dims[0] = ((uint64_t)1 << 31) + 5;
    r.offset[0] = 5;
    assert_ok(crn_region_check(&r, ei));
    r.offset[0] = 6;
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.offset[0] = 0;
    r.name[0] = '\033';
    assert_int_equal(crn_region_check(&r, ei), CAIRN_EINVAL);
    r.name[0] = 't';

    s.regions = calloc(2, sizeof(r));
    s.regions[0] = s.regions[1] = r;
    crn_err_clear(ei);
    assert_int_equal(crn_shard_encode(&s, &out, ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei->msg, "twice"));
    crn_shard_free(&s);
    crn_buf_free(&out);
}

/* A gap, an overlap and a surplus in the extents. */
static void extents_cover_every_region_once(void **state)
{
    struct crn_region region = {.name = "t", .type = CAIRN_U8, .ndims = 1, .dims = {100}};
    struct crn_extent extents[3] = {{.bytes = 50, .first_hash = 0},
                                    {.offset = 50, .bytes = 50, .first_hash = 4},
                                    {.offset = 100, .bytes = 1, .first_hash = 8}};
    uint64_t hashes[9] = {0};
    struct crn_shard shard = {.nregions = 1, .regions = &region};
    struct crn_index x = {.name = "n", .files = 1, .ranks = 1, .nodes = 1, .chunk_bytes = 16};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf out = {0};

    (void)state;
    assert_ok(crn_region_check(&region, ei));
    x.nshards = 1;
    x.shards = &shard;
    x.extents = extents;
    x.hashes = hashes;
    x.nextents = 2;
    x.nhashes = 8;
    assert_ok(crn_index_encode(&x, &out, ei));
    x.nextents = 1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nextents = 3;
    x.nhashes = 9;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nextents = 2;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL); /* a hash of nobody */
    x.nhashes = 8;
    extents[1].offset = 49;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    extents[1].offset = 50;
    extents[1].bytes = 51;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    extents[1].bytes = 50;
    extents[1].first_hash = 5;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    crn_buf_free(&out);
}

/* A chain names data files of the same number that can exist; only encoded files have one. */
static void chains_are_checked(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest m;
    struct crn_buf out = {0};
    struct crn_index x;
    struct crn_rng rng;

    (void)state;
    crn_rng_seed(&rng, 7);
    random_chained(&rng, &x);
    assert_ok(crn_index_encode(&x, &out, ei));
    crn_data_name(x.file_no + 1, 0, x.bases[0].file);
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    (void)snprintf(x.bases[0].file, sizeof(x.bases[0].file), "../../x");
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    crn_data_name(x.file_no, 0, x.bases[0].file);
    x.bases[0].version = -1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.bases[0].version = 1;
    x.bases[0].bytes = CRN_TRAILER_SIZE - 1;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.bases[0].bytes = CRN_TRAILER_SIZE;
    free(x.bases);
    x.nbases = CRN_MAX_BASES + 1;
    x.bases = random_bases(&rng, x.nbases, x.file_no);
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    x.nbases--;
    crn_err_clear(ei);
    assert_ok(crn_index_encode(&x, &out, ei));
    crn_streams_free(x.streams, x.nstreams);
    x.streams = NULL;
    x.nstreams = 0;
    assert_int_equal(crn_index_encode(&x, &out, ei), CAIRN_EINVAL);
    assert_non_null(strstr(ei->msg, "not encoded"));
    crn_index_free(&x);

    random_needy(&rng, &m);
    crn_data_name(m.nfiles, 0, m.files[m.nfiles - 1].bases[0].file);
    crn_err_clear(ei);
    assert_int_equal(crn_manifest_encode(&m, &out, ei), CAIRN_EINVAL);
    crn_manifest_free(&m);
    crn_buf_free(&out);
}

/* One file of a manifest travels alone, with its chain; what is equal, and a copy, say so. */
static void a_file_of_a_manifest_alone(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file f = {0};
    const struct crn_manifest_file *last;
    struct crn_base *copy;
    struct crn_manifest m;
    struct crn_buf out = {0};
    struct crn_view v;
    struct crn_rng rng;
    size_t len;

    (void)state;
    crn_rng_seed(&rng, 8);
    random_needy(&rng, &m);
    last = &m.files[m.nfiles - 1];
    crn_manifest_file_put(last, &out);
    v = crn_view_of(out.data, out.len);
    assert_ok(crn_manifest_file_take(&v, "test", &f, ei));
    assert_int_equal(crn_view_left(&v), 0);
    assert_string_equal(f.name, last->name);
    assert_int_equal(f.nranges, last->nranges);
    assert_true(crn_bases_equal(f.bases, f.nbases, last->bases, last->nbases));
    f.bases[f.nbases - 1].id.seq ^= 1;
    assert_false(crn_bases_equal(f.bases, f.nbases, last->bases, last->nbases));
    assert_false(crn_bases_equal(f.bases, f.nbases - 1, last->bases, last->nbases));
    crn_manifest_file_free(&f);
    crn_manifest_file_free(&f);
    assert_ok(crn_bases_copy(last->bases, last->nbases, &copy, ei));
    assert_true(crn_bases_equal(copy, last->nbases, last->bases, last->nbases));
    free(copy);
    for (len = 0; len < out.len; len++) {
        v = crn_view_of(out.data, len);
        if (crn_manifest_file_take(&v, "test", &f, ei) == CAIRN_OK && !v.failed)
            fail_msg("%zu of %zu bytes were taken for a file", len, out.len);
        crn_manifest_file_free(&f);
    }
    crn_manifest_free(&m);
    crn_buf_free(&out);
}

static void data_file_names(void **state)
{
    static const char *const bad[] = {"data-",      "data-1",       "data-0001.",   "data-0001.0",
                                      "data-00001", "data-0001.01", "data-+001",    "data- 001",
                                      "data-0001x", "Data-0001",    "data-1048576", "../data-0001",
                                      "",           "data-0001.1.1"};
    char name[CRN_FILE_NAME];
    uint32_t no, attempt;
    size_t i;

    (void)state;
    crn_data_name(3, 0, name);
    assert_string_equal(name, "data-0003");
    crn_data_name(CRN_MAX_FILES - 1, UINT32_MAX, name);
    assert_int_equal(crn_data_name_parse(name, &no, &attempt), 0);
    assert_int_equal(no, CRN_MAX_FILES - 1);
    assert_int_equal(attempt, UINT32_MAX);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (crn_data_name_parse(bad[i], &no, &attempt) != -1)
            fail_msg("'%s' was taken", bad[i]);
    assert_true(crn_name_is_valid("heat_2.d-x"));
    assert_false(crn_name_is_valid(".hidden"));
    assert_false(crn_name_is_valid("a/b"));
    assert_false(crn_name_is_valid(""));
}

/* 100,000 ranks with 4 regions in one file, and as a manifest of 1000 files. No clock is asserted;
 * the test's deadline would tell if something were quadratic. */
static void a_hundred_thousand_ranks(void **state)
{
    enum { RANKS = 100000, REGIONS = 4, FILES = 1000 };
    struct crn_index x = {.name = "big", .files = 1, .ranks = RANKS, .nodes = 1, .chunk_bytes = 64};
    struct crn_manifest m = {.name = "big", .ranks = RANKS, .nodes = FILES, .nfiles = FILES};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_buf a = {0}, b = {0};
    uint32_t i, r;

    (void)state;
    x.shards = calloc(RANKS, sizeof(*x.shards));
    x.extents = calloc((size_t)RANKS * REGIONS, sizeof(*x.extents));
    x.hashes = calloc((size_t)RANKS * REGIONS, sizeof(*x.hashes));
    for (i = 0; i < RANKS; i++) {
        x.shards[i] = (struct crn_shard){.rank = i, .nregions = REGIONS};
        x.shards[i].regions = calloc(REGIONS, sizeof(struct crn_region));
        for (r = 0; r < REGIONS; r++) {
            struct crn_region *region = &x.shards[i].regions[r];

            (void)snprintf(region->name, sizeof(region->name), "variable %u", (unsigned)r);
            region->type = CAIRN_U8;
            region->ndims = 1;
            region->dims[0] = 10;
            assert_ok(crn_region_check(region, ei));
            x.extents[x.nextents++] = (struct crn_extent){
                .shard = i, .region = r, .bytes = 10, .first_hash = x.nhashes++};
        }
    }
    x.nshards = RANKS;
    assert_ok(crn_index_encode(&x, &a, ei));
    crn_index_free(&x);
    assert_ok(again_index(a.data, a.len, &b, ei));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    crn_buf_free(&a);
    crn_buf_free(&b);

    m.files = calloc(FILES, sizeof(*m.files));
    for (i = 0; i < FILES; i++) {
        struct crn_manifest_file *f = &m.files[i];

        crn_data_name(i, 0, f->name);
        f->bytes = CRN_TRAILER_SIZE;
        f->nranges = RANKS / FILES; /* the worst case: every rank a range of its own */
        f->ranges = calloc(f->nranges, sizeof(*f->ranges));
        for (r = 0; r < f->nranges; r++)
            f->ranges[r] = (struct crn_rank_range){.first = i + r * FILES, .count = 1};
    }
    assert_ok(crn_manifest_encode(&m, &a, ei));
    crn_manifest_free(&m);
    assert_ok(again_manifest(a.data, a.len, &b, ei));
    assert_memory_equal(a.data, b.data, a.len);
    crn_buf_free(&a);
    crn_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_structures_come_back),
        cmocka_unit_test(every_flipped_byte_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(garbage_is_refused),
        cmocka_unit_test(versions_and_flags_are_obeyed),
        cmocka_unit_test(fields_of_a_newer_minor_version_are_passed_over),
        cmocka_unit_test(writers_are_checked_too),
        cmocka_unit_test(extents_cover_every_region_once),
        cmocka_unit_test(chains_are_checked),
        cmocka_unit_test(a_file_of_a_manifest_alone),
        cmocka_unit_test(data_file_names),
        cmocka_unit_test(a_hundred_thousand_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
