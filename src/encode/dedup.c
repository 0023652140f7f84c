/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting: a hash rolls over the words; a block ends where its upper bits are zero. A bit leaves
 * the hash after 16 words, so equal contents are cut in the same way wherever they begin. Blocks
 * of a single value are left to the codecs, which store them in fewer bytes than a reference
 * takes. */
#include "encode/dedup.h"

#include <stdlib.h>
#include "base/rng.h"
#include "encode/simd.h"
#include "encode/varint.h"

#define BLOCK_MIN  ((size_t)2 << 10)
#define BLOCK_MAX  ((size_t)32 << 10)
#define CUT_BITS   9  /* for 8-byte words: on average 4 KiB more than BLOCK_MIN */
#define TABLE_BITS 12 /* initial */

struct dedup_block {
    uint64_t hash[2];
    uint64_t source;
    uint32_t bytes; /* 0: empty */
};

struct crn_dedup {
    unsigned width;
    uint64_t seed;
    uint64_t bytes;
    uint64_t new_bytes;
    size_t used;
    size_t size; /* a power of two */
    struct dedup_block *table;
};

cairn_err crn_dedup_open(unsigned width, struct crn_dedup **ret, struct crn_errinfo *ei)
{
    struct crn_dedup *d = calloc(1, sizeof(*d));

    if (d != NULL)
        d->table = calloc((size_t)1 << TABLE_BITS, sizeof(*d->table));
    if (d == NULL || d->table == NULL) {
        free(d);
        return crn_fail(ei, CAIRN_ENOMEM, 0, "table of repeated blocks");
    }
    d->width = width >= 8 ? 8 : width >= 4 ? 4 : 1;
    d->size = (size_t)1 << TABLE_BITS;
    d->seed = crn_random_u64();
    *ret = d;
    return CAIRN_OK;
}

void crn_dedup_close(struct crn_dedup *d)
{
    if (d == NULL)
        return;
    free(d->table);
    free(d);
}

void crn_dedup_stats(const struct crn_dedup *d, uint64_t *ret_bytes, uint64_t *ret_new)
{
    *ret_bytes = d->bytes;
    *ret_new = d->new_bytes;
}

#define MIX 0x9e3779b97f4a7c15U

/* The end of the block that begins at p, which has n bytes, more than BLOCK_MIN. The hash has
 * rolled over 16 words before the first candidate. A macro: one loop for each width. */
#define CUT(name, word, bits)                                                                      \
    CRN_WIDE static size_t name(const word *p, size_t n)                                           \
    {                                                                                              \
        size_t i = BLOCK_MIN / sizeof(word) - 16;                                                  \
        uint64_t h = 0;                                                                            \
                                                                                                   \
        for (; i < BLOCK_MIN / sizeof(word); i++)                                                  \
            h = (h << 4) + p[i] * MIX;                                                             \
        for (; i < n; i++) {                                                                       \
            h = (h << 4) + p[i] * MIX;                                                             \
            if (h >> (64 - (bits)) == 0)                                                           \
                return i + 1;                                                                      \
        }                                                                                          \
        return n;                                                                                  \
    }

CUT(cut_8, crn_u64, CUT_BITS)
CUT(cut_4, crn_u32, CUT_BITS + 1)
CUT(cut_1, uint8_t, CUT_BITS + 3)

static size_t block_bytes(const struct crn_dedup *d, const unsigned char *p, size_t n)
{
    if (n > BLOCK_MAX)
        n = BLOCK_MAX;
    if (n <= BLOCK_MIN)
        return n;
    if (d->width == 8)
        return n < 8 ? n : 8 * cut_8((const crn_u64 *)p, n / 8);
    if (d->width == 4)
        return 4 * cut_4((const crn_u32 *)p, n / 4);
    return cut_1(p, n);
}

static struct dedup_block *dedup_find(struct dedup_block *table, size_t size,
                                      const struct dedup_block *b)
{
    size_t i = (size_t)b->hash[0] & (size - 1);

    while (table[i].bytes != 0 && (table[i].hash[0] != b->hash[0] ||
                                   table[i].hash[1] != b->hash[1] || table[i].bytes != b->bytes))
        i = (i + 1) & (size - 1);
    return &table[i];
}

static cairn_err dedup_grow(struct crn_dedup *d, struct crn_errinfo *ei)
{
    struct dedup_block *larger = calloc(2 * d->size, sizeof(*larger));
    size_t i;

    if (larger == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "table of repeated blocks");
    for (i = 0; i < d->size; i++)
        if (d->table[i].bytes != 0)
            *dedup_find(larger, 2 * d->size, &d->table[i]) = d->table[i];
    free(d->table);
    d->table = larger;
    d->size *= 2;
    return CAIRN_OK;
}

/* Looks up an earlier occurrence of a block; enters the block if there is none. */
static cairn_err look_up(struct crn_dedup *d, const unsigned char *p, size_t n, uint64_t *ret_seen,
                         struct crn_errinfo *ei)
{
    struct dedup_block b = {.bytes = (uint32_t)n, .source = d->new_bytes};
    struct dedup_block *at;
    cairn_err rc = CAIRN_OK;

    *ret_seen = CRN_BLOCK_NEW;
    if (n < BLOCK_MIN || memcmp(p, p + 8, n - 8) == 0)
        return CAIRN_OK; /* too short, or of a single value */
    if (2 * (d->used + 1) > d->size)
        rc = dedup_grow(d, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_hash128(p, n, d->seed, b.hash);
    at = dedup_find(d->table, d->size, &b);
    if (at->bytes != 0) {
        *ret_seen = at->source;
        return CAIRN_OK;
    }
    *at = b;
    d->used++;
    return CAIRN_OK;
}

cairn_err crn_dedup_put(struct crn_dedup *d, const void *bytes, size_t n, crn_dedup_sink *sink,
                        void *ctx, struct crn_errinfo *ei)
{
    const unsigned char *p = bytes;
    const unsigned char *end = p + n;
    const unsigned char *fresh = p; /* new bytes not passed to the sink yet */

    while (p < end) {
        size_t m = block_bytes(d, p, (size_t)(end - p));
        uint64_t seen;
        cairn_err rc = look_up(d, p, m, &seen, ei);

        if (rc == CAIRN_OK && seen != CRN_BLOCK_NEW) {
            if (p > fresh)
                rc = sink(ctx, fresh, (size_t)(p - fresh), CRN_BLOCK_NEW, ei);
            if (rc == CAIRN_OK)
                rc = sink(ctx, p, m, seen, ei);
            fresh = p + m;
        }
        if (rc != CAIRN_OK)
            return rc;
        d->bytes += m;
        d->new_bytes += seen == CRN_BLOCK_NEW ? m : 0;
        p += m;
    }
    return fresh < end ? sink(ctx, fresh, (size_t)(end - fresh), CRN_BLOCK_NEW, ei) : CAIRN_OK;
}

cairn_err crn_map_add(struct crn_map *m, uint64_t bytes, uint64_t seen, struct crn_errinfo *ei)
{
    uint64_t source = seen == CRN_BLOCK_NEW ? m->new_bytes : seen;
    struct crn_map_item *last = m->n > 0 ? &m->items[m->n - 1] : NULL;

    if (bytes == 0)
        return CAIRN_OK;
    m->bytes += bytes;
    if (source + bytes > m->new_bytes)
        m->new_bytes = source + bytes;
    if (last != NULL && last->source + last->bytes == source) {
        last->bytes += bytes;
        return CAIRN_OK;
    }
    if (m->n == m->room) {
        size_t room = m->room > 0 ? 2 * m->room : 16;
        struct crn_map_item *grown = realloc(m->items, room * sizeof(*grown));

        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "map of repeated blocks");
        m->items = grown;
        m->room = room;
    }
    m->items[m->n].bytes = bytes;
    m->items[m->n++].source = source;
    return CAIRN_OK;
}

void crn_map_free(struct crn_map *m)
{
    free(m->items);
    memset(m, 0, sizeof(*m));
}

static void put_varint(struct crn_buf *buf, uint64_t v)
{
    unsigned char raw[CRN_VARINT_MAX];

    crn_buf_put(buf, raw, crn_varint_put(raw, v));
}

void crn_map_encode(const struct crn_map *m, struct crn_buf *buf)
{
    uint64_t known = 0;
    size_t i;

    put_varint(buf, m->n);
    for (i = 0; i < m->n; i++) {
        const struct crn_map_item *it = &m->items[i];

        put_varint(buf, it->bytes);
        put_varint(buf, known - it->source);
        if (it->source + it->bytes > known)
            known = it->source + it->bytes;
    }
}

cairn_err crn_map_decode(struct crn_view *v, struct crn_map *ret, struct crn_errinfo *ei)
{
    struct crn_map m = {0};
    uint64_t n = crn_varint_get(v);
    cairn_err rc = CAIRN_OK;

    if (v->failed || n > crn_view_left(v) / 2) /* each item takes at least two bytes */
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "a map of blocks is cut off");
    for (; n > 0 && rc == CAIRN_OK; n--) {
        uint64_t bytes = crn_varint_get(v);
        uint64_t back = crn_varint_get(v);

        if (v->failed || bytes == 0 || back > m.new_bytes || bytes > INT64_MAX - m.bytes)
            rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "a map of blocks is damaged");
        else
            rc = crn_map_add(&m, bytes, m.new_bytes - back, ei);
    }
    if (rc != CAIRN_OK) {
        crn_map_free(&m);
        return rc;
    }
    *ret = m;
    return CAIRN_OK;
}
