/* SPDX-License-Identifier: BSD-3-Clause */
/* The index of a data file: which range of which region lies where, and its checksums. Writers and
 * readers apply the same checks: the extents cover every region exactly once. Only the reader can
 * check their positions, because it knows the file. docs/format.md, section 4. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define SHARD_MIN    8  /* bytes of an encoded shard without regions */
#define EXTENT_BYTES 40 /* of every encoded extent */
#define UNPROMISED   1U /* compatible flag */
#define HAS_STREAMS  1U /* incompatible flags */
#define HAS_BASES    2U
#define IS_PACKED    8U /* alone */

static const struct crn_object_kind index_kind = {"CRNINDEX", "index",
                                                  HAS_STREAMS | HAS_BASES | CRN_OBJECT_NEW_TYPES};

void crn_index_free(struct crn_index *x)
{
    uint32_t i;

    for (i = 0; x->shards != NULL && i < x->nshards; i++)
        crn_shard_free(&x->shards[i]);
    free(x->shards);
    free(x->extents);
    free(x->hashes);
    crn_streams_free(x->streams, x->nstreams);
    free(x->bases);
    memset(x, 0, sizeof(*x));
}

static const char *head_fault(const struct crn_index *x)
{
    uint32_t i;

    if (!crn_name_is_valid(x->name))
        return "the checkpoint's name is not valid";
    if (x->version < 0)
        return "the version is negative";
    if (x->files > CRN_MAX_FILES || x->file_no >= x->files)
        return "the file number is out of range";
    if (x->ranks < 1 || x->ranks > CRN_MAX_RANKS || x->nodes > x->ranks || x->nshards > x->ranks)
        return "the number of ranks, nodes or shards is out of range";
    if (x->chunk_bytes < 1 || x->chunk_bytes > CRN_CHUNK_MAX)
        return "the chunk size is out of range";
    for (i = 0; i < x->nshards; i++)
        if (x->shards[i].rank >= x->ranks || (i > 0 && x->shards[i].rank <= x->shards[i - 1].rank))
            return "the ranks are not ascending or out of range";
    return NULL;
}

/* Walks shards, regions and extents in step. */
static const char *extents_fault(const struct crn_index *x)
{
    const struct crn_extent *e = x->extents;
    const struct crn_extent *end = x->extents + x->nextents;
    uint64_t hashes = 0;
    uint32_t s, r;

    for (s = 0; s < x->nshards; s++) {
        for (r = 0; r < x->shards[s].nregions; r++) {
            uint64_t bytes = x->shards[s].regions[r].bytes;
            uint64_t covered = 0;

            for (; covered < bytes; e++) {
                uint64_t n;

                if (e == end || e->shard != s || e->region != r || e->offset != covered)
                    return "the extents do not cover every region in order";
                if (e->bytes == 0 || e->bytes > bytes - covered)
                    return "an extent is empty or reaches beyond its region";
                if (e->file_offset > (uint64_t)INT64_MAX - e->bytes)
                    return "an extent lies beyond any file";
                n = (e->bytes - 1) / x->chunk_bytes + 1;
                if (n > x->nhashes || e->first_hash > x->nhashes - n)
                    return "an extent's checksums are not there";
                hashes += n;
                if (hashes > x->nhashes)
                    return "checksums are used twice";
                covered += e->bytes;
            }
        }
    }
    if (e != end || hashes != x->nhashes)
        return "there are extents or checksums of no region";
    return NULL;
}

static cairn_err index_check(const struct crn_index *x, const char *what, cairn_err code,
                             struct crn_errinfo *ei)
{
    const char *fault = head_fault(x);

    if (fault == NULL)
        fault = extents_fault(x);
    if (fault == NULL)
        fault = crn_streams_fault(x);
    if (fault == NULL && x->nbases > 0 && x->nstreams == 0)
        fault = "a file that is not encoded has a chain of older versions";
    if (fault == NULL)
        fault = crn_bases_fault(x->bases, x->nbases, x->file_no);
    if (fault != NULL)
        return crn_fail(ei, code, 0, "%s: %s", what, fault);
    return CAIRN_OK;
}

static int has_new_types(const struct crn_index *x)
{
    uint32_t i;

    for (i = 0; i < x->nshards; i++)
        if (crn_shard_has_new_types(&x->shards[i]))
            return 1;
    for (i = 0; i < x->nstreams; i++)
        if (crn_shard_type_is_new(x->streams[i].type))
            return 1;
    return 0;
}

static uint32_t flags_of(const struct crn_index *x)
{
    return (x->nstreams > 0 ? HAS_STREAMS : 0) | (x->nbases > 0 ? HAS_BASES : 0) |
           (has_new_types(x) ? CRN_OBJECT_NEW_TYPES : 0);
}

cairn_err crn_index_encode(const struct crn_index *x, struct crn_buf *buf, struct crn_errinfo *ei)
{
    static const char what[] = "encode an index";
    cairn_err rc = CAIRN_OK;
    size_t at;
    uint64_t i;

    for (i = 0; i < x->nshards && rc == CAIRN_OK; i++)
        rc = crn_shard_check(&x->shards[i], what, CAIRN_EINVAL, ei);
    if (rc == CAIRN_OK)
        rc = index_check(x, what, CAIRN_EINVAL, ei);
    if (rc != CAIRN_OK)
        return rc;

    at = crn_object_begin(&index_kind, buf);
    crn_capture_id_put(&x->id, buf);
    crn_buf_str(buf, x->name);
    crn_buf_u64(buf, (uint64_t)x->version);
    crn_buf_u32(buf, x->file_no);
    crn_buf_u32(buf, x->files);
    crn_buf_u32(buf, x->ranks);
    crn_buf_u32(buf, x->nodes);
    crn_buf_u64(buf, x->created_ns);
    crn_buf_u64(buf, x->chunk_bytes);
    crn_buf_u32(buf, x->nshards);
    crn_buf_u64(buf, x->nextents);
    crn_buf_u64(buf, x->nhashes);
    for (i = 0; i < x->nshards; i++)
        crn_shard_put(&x->shards[i], buf);
    for (i = 0; i < x->nextents; i++) {
        const struct crn_extent *e = &x->extents[i];

        crn_buf_u32(buf, e->shard);
        crn_buf_u32(buf, e->region);
        crn_buf_u64(buf, e->offset);
        crn_buf_u64(buf, e->bytes);
        crn_buf_u64(buf, e->file_offset);
        crn_buf_u64(buf, e->first_hash);
    }
    for (i = 0; i < x->nhashes; i++)
        crn_buf_u64(buf, x->hashes[i]);
    crn_object_set_flags(buf, at, flags_of(x));
    crn_object_set_compat(buf, at, x->is_unpromised ? UNPROMISED : 0);
    if (x->nstreams > 0)
        crn_streams_put(x, buf);
    if (x->nbases > 0)
        crn_bases_put(x->bases, x->nbases, buf);
    crn_object_put_generation(buf, at, x->id.generation);
    return crn_object_end(&index_kind, at, buf, ei);
}

/* Checks all counts against the bytes left, before anything is allocated for them. */
static int counts_fit(const struct crn_index *x, size_t left)
{
    if (x->nshards > left / SHARD_MIN)
        return 0;
    left -= x->nshards * (size_t)SHARD_MIN;
    if (x->nextents > left / EXTENT_BYTES)
        return 0;
    left -= x->nextents * EXTENT_BYTES;
    return x->nhashes <= left / sizeof(uint64_t);
}

static cairn_err take_head(struct crn_view *v, const char *what, struct crn_index *x,
                           struct crn_errinfo *ei)
{
    crn_capture_id_take(v, &x->id);
    crn_view_str(v, x->name, sizeof(x->name));
    x->version = (int64_t)crn_view_u64(v);
    x->file_no = crn_view_u32(v);
    x->files = crn_view_u32(v);
    x->ranks = crn_view_u32(v);
    x->nodes = crn_view_u32(v);
    x->created_ns = crn_view_u64(v);
    x->chunk_bytes = crn_view_u64(v);
    x->nshards = crn_view_u32(v);
    x->nextents = crn_view_u64(v);
    x->nhashes = crn_view_u64(v);
    if (v->failed || !counts_fit(x, crn_view_left(v)))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the index is cut off", what);
    x->shards = calloc((size_t)x->nshards + 1, sizeof(*x->shards));
    x->extents = calloc(x->nextents + 1, sizeof(*x->extents));
    x->hashes = calloc(x->nhashes + 1, sizeof(*x->hashes));
    if (x->shards == NULL || x->extents == NULL || x->hashes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for an index of %zu bytes", what,
                        v->len);
    return CAIRN_OK;
}

static void take_extent(struct crn_view *v, struct crn_extent *e)
{
    e->shard = crn_view_u32(v);
    e->region = crn_view_u32(v);
    e->offset = crn_view_u64(v);
    e->bytes = crn_view_u64(v);
    e->file_offset = crn_view_u64(v);
    e->first_hash = crn_view_u64(v);
}

cairn_err crn_index_decode(const void *data, size_t len, const char *what, struct crn_index *ret,
                           struct crn_errinfo *ei)
{
    struct crn_index x = {0};
    struct crn_view body;
    cairn_err rc;
    uint64_t i;

    rc = crn_object_open(&index_kind, data, len, what, &body, ei);
    if (rc == CAIRN_OK)
        rc = take_head(&body, what, &x, ei);
    for (i = 0; rc == CAIRN_OK && i < x.nshards; i++)
        rc = crn_shard_take(&body, what, &x.shards[i], ei);
    for (i = 0; rc == CAIRN_OK && i < x.nextents && !body.failed; i++)
        take_extent(&body, &x.extents[i]);
    for (i = 0; rc == CAIRN_OK && i < x.nhashes && !body.failed; i++)
        x.hashes[i] = crn_view_u64(&body);
    if (rc == CAIRN_OK && (crn_object_flags(data) & HAS_STREAMS) != 0)
        rc = crn_streams_take(&body, what, &x, ei);
    if (rc == CAIRN_OK && (crn_object_flags(data) & HAS_BASES) != 0)
        rc = crn_bases_take(&body, what, &x.bases, &x.nbases, ei);
    if (rc == CAIRN_OK)
        x.id.generation = crn_object_take_generation(data, &body);
    if (rc == CAIRN_OK)
        rc = crn_object_close(&index_kind, data, &body, what, ei);
    if (rc == CAIRN_OK)
        rc = index_check(&x, what, CAIRN_EDAMAGED, ei);
    if (rc == CAIRN_OK && crn_object_flags(data) != flags_of(&x))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0,
                      "%s: the flags of the index do not match what it holds", what);
    if (rc != CAIRN_OK) {
        crn_index_free(&x);
        return rc;
    }
    x.is_unpromised = (crn_object_compat(data) & UNPROMISED) != 0;
    *ret = x;
    return CAIRN_OK;
}

/* Packed. -------------------------------------------------------------------------------------- */

static const struct crn_object_kind packed_kind = {"CRNINDEX", "index", IS_PACKED};

cairn_err crn_index_wrap(uint64_t bytes, const void *packed, size_t n, struct crn_buf *buf,
                         struct crn_errinfo *ei)
{
    size_t at = crn_object_begin(&packed_kind, buf);

    crn_object_set_flags(buf, at, IS_PACKED);
    crn_buf_u64(buf, bytes);
    crn_buf_put(buf, packed, n);
    return crn_object_end(&packed_kind, at, buf, ei);
}

int crn_index_is_packed(const void *data, size_t len)
{
    return len >= CRN_OBJECT_HEADER && crn_object_flags(data) == IS_PACKED;
}

cairn_err crn_index_unwrap(const void *data, size_t len, const char *what, uint64_t *ret_bytes,
                           struct crn_view *ret_packed, struct crn_errinfo *ei)
{
    struct crn_view body;
    cairn_err rc = crn_object_open(&packed_kind, data, len, what, &body, ei);
    uint64_t bytes;

    if (rc != CAIRN_OK)
        return rc;
    bytes = crn_view_u64(&body);
    if (body.failed || bytes > CRN_INDEX_MAX || bytes / CRN_INDEX_GAIN > crn_view_left(&body))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the packed index is damaged", what);
    *ret_bytes = bytes;
    *ret_packed = body;
    return CAIRN_OK;
}
