/* SPDX-License-Identifier: BSD-3-Clause */
/* The encoding of each source: its descriptor and the variables inside its files, each preceded by
 * its length; then the chunk size of its checksums (0: none) and the checksum words, in the layout
 * of an image (tier/image.h). */
#include "service/shards.h"

#include <errno.h>
#include <stdlib.h>

#include "encode/parts.h"
#include "tier/image.h"

static void encode_hashes(const struct crn_source *s, struct crn_buf *ret)
{
    uint64_t unit = s->hash_chunk_bytes;
    uint64_t at;
    uint32_t i;

    crn_buf_u64(ret, unit);
    for (i = 0; unit != 0 && i < s->shard.nregions; i++) {
        const struct crn_region *r = &s->shard.regions[i];

        if (r->kind == CRN_REGION_FILE)
            continue;
        crn_buf_u64(ret, s->hashes[i] != NULL);
        for (at = 0; at < r->bytes; at += unit)
            crn_buf_u64(ret, s->hashes[i] != NULL ? s->hashes[i][at / unit] : 0);
    }
}

static cairn_err encode_one(const struct crn_source *s, struct crn_buf *ret, struct crn_errinfo *ei)
{
    size_t at = ret->len;
    cairn_err rc;

    crn_buf_u32(ret, 0);
    rc = crn_shard_encode(&s->shard, ret, ei);
    crn_buf_set_u32(ret, at, (uint32_t)(ret->len - at - 4));
    at = ret->len;
    crn_buf_u32(ret, 0);
    if (s->parts != NULL)
        crn_parts_encode(s->parts, ret);
    crn_buf_set_u32(ret, at, (uint32_t)(ret->len - at - 4));
    encode_hashes(s, ret);
    return rc;
}

cairn_err crn_shards_encode(const struct crn_source *sources, uint32_t n, struct crn_buf *ret,
                            struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    crn_buf_u32(ret, n);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = encode_one(&sources[i], ret, ei);
    if (rc == CAIRN_OK && ret->failed)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the description of %u shards", n);
    return rc;
}

static cairn_err shards_garbage(uint32_t node, struct crn_errinfo *ei)
{
    return crn_fail(ei, CAIRN_EDAMAGED, 0, "node %u sent an invalid description of its shards",
                    node);
}

/* One allocation: a pointer for each region, followed by the words. */
static cairn_err decode_hashes(struct crn_view *v, uint32_t node, struct crn_source *s,
                               struct crn_errinfo *ei)
{
    uint64_t unit = crn_view_u64(v);
    const uint64_t **table;
    uint64_t *words;
    uint64_t i, n;

    if (unit == 0)
        return v->failed ? shards_garbage(node, ei) : CAIRN_OK;
    n = crn_image_hash_words(&s->shard, unit);
    if (n > crn_view_left(v) / 8)
        return shards_garbage(node, ei);
    table = malloc(s->shard.nregions * sizeof(*table) + n * sizeof(*words) + 1);
    if (table == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the checksums of a shard of node %u", node);
    words = (uint64_t *)(table + s->shard.nregions);
    for (i = 0; i < n; i++)
        words[i] = crn_view_u64(v);
    crn_image_hashes(&s->shard, unit, words, table);
    s->hashes = table;
    s->hash_chunk_bytes = unit;
    return CAIRN_OK;
}

static void free_one(struct crn_source *s)
{
    crn_shard_free(&s->shard);
    crn_parts_close((struct crn_parts *)(uintptr_t)s->parts);
    free((void *)(uintptr_t)s->hashes);
}

static cairn_err decode_one(struct crn_view *v, uint32_t node, uint32_t owner,
                            struct crn_source *ret, struct crn_errinfo *ei)
{
    uint32_t len = crn_view_u32(v);
    const void *data = crn_view_take(v, len);
    uint32_t parts_len = crn_view_u32(v);
    const void *parts = crn_view_take(v, parts_len);
    struct crn_parts *inside = NULL;
    cairn_err rc;

    *ret = (struct crn_source){.image_fd = -1, .owner = owner};
    if (v->failed)
        return shards_garbage(node, ei);
    rc = crn_shard_decode(data, len, "a shard of another node", &ret->shard, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (parts_len > 0)
        rc = crn_parts_decode(parts, parts_len, &ret->shard, &inside, ei);
    ret->parts = inside;
    if (rc == CAIRN_OK)
        rc = decode_hashes(v, node, ret, ei);
    if (rc != CAIRN_OK)
        free_one(ret);
    return rc;
}

cairn_err crn_shards_decode(const void *payload, size_t bytes, uint32_t node, uint32_t owner,
                            struct crn_remote *r, struct crn_errinfo *ei)
{
    struct crn_view v = crn_view_of(payload, bytes);
    uint32_t count = crn_view_u32(&v);
    struct crn_source *grown;
    cairn_err rc = CAIRN_OK;

    if (v.failed || count > crn_view_left(&v) / 8)
        return shards_garbage(node, ei);
    grown = realloc(r->sources, (r->n + (size_t)count + 1) * sizeof(*grown));
    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u shards of node %u", count, node);
    r->sources = grown;
    for (; rc == CAIRN_OK && count > 0; count--) {
        rc = decode_one(&v, node, owner, &r->sources[r->n], ei);
        r->n += rc == CAIRN_OK;
    }
    return crn_err_context(ei, rc, "node %u", node);
}

void crn_remote_free(struct crn_remote *r)
{
    uint32_t i;

    for (i = 0; i < r->n; i++)
        free_one(&r->sources[i]);
    free(r->sources);
    *r = (struct crn_remote){0};
}
