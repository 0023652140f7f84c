/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads data files. Decides what a whole data file is: a trailer that matches the size, an index
 * with the trailer's hash, and extents inside the data. src/format checks everything inside
 * them. */
#include "encode/pack.h"
#include "store/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

cairn_err crn_data_open(const struct crn_fs *fs, int dfd, const char *file, const char *what,
                        int *ret_fd, uint64_t *ret_bytes, struct crn_trailer *ret,
                        struct crn_errinfo *ei)
{
    unsigned char raw[CRN_TRAILER_SIZE];
    struct stat sb;
    uint64_t bytes = 0;
    cairn_err rc;
    int fd;

    /* O_NONBLOCK: a fifo in place of the file must not block the open. */
    fd = fs->openat(fs, dfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd == -ELOOP)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: not a regular file", what);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", what);
    rc = crn_fs_check(fs->fstat(fs, fd, &sb), ei, "stat '%s'", what);
    if (rc == CAIRN_OK && !S_ISREG(sb.st_mode))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: not a regular file", what);
    if (rc == CAIRN_OK) {
        bytes = (uint64_t)sb.st_size;
        if (bytes < CRN_TRAILER_SIZE)
            rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: too short for a data file", what);
    }
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, raw, sizeof(raw), bytes - CRN_TRAILER_SIZE, what, ei);
    if (rc == CAIRN_OK)
        rc = crn_trailer_decode(raw, bytes, what, ret, ei);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, fd);
        return rc;
    }
    *ret_fd = fd;
    *ret_bytes = bytes;
    return CAIRN_OK;
}

static int is_inside(uint64_t at, uint64_t bytes, uint64_t data_end)
{
    return at <= data_end && bytes <= data_end - at;
}

static cairn_err data_inside(const struct crn_index *x, uint64_t data_end, const char *what,
                             struct crn_errinfo *ei)
{
    uint64_t i;

    for (i = 0; i < x->nstreams; i++)
        if (!is_inside(crn_stream_end(&x->streams[i]), 0, data_end))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a stream lies outside the data", what);
    for (i = 0; x->nstreams == 0 && i < x->nextents; i++)
        if (!is_inside(x->extents[i].file_offset, x->extents[i].bytes, data_end))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: an extent lies outside the data", what);
    return CAIRN_OK;
}

/* Decodes an index that may be packed. */
static cairn_err decode_index(const void *raw, size_t n, const char *what, struct crn_index *ret,
                              struct crn_errinfo *ei)
{
    struct crn_buf plain = {0};
    struct crn_view packed;
    uint64_t bytes;
    cairn_err rc;

    if (!crn_index_is_packed(raw, n))
        return crn_index_decode(raw, n, what, ret, ei);
    rc = crn_index_unwrap(raw, n, what, &bytes, &packed, ei);
    if (rc == CAIRN_OK)
        rc = crn_err_context(ei, crn_unpack(packed, bytes, &plain, ei), "%s: the index", what);
    if (rc == CAIRN_OK)
        rc = crn_index_decode(plain.data, plain.len, what, ret, ei);
    crn_buf_free(&plain);
    return rc;
}

cairn_err crn_data_index(const struct crn_fs *fs, int fd, const struct crn_trailer *t,
                         const char *what, struct crn_index *ret, struct crn_errinfo *ei)
{
    struct crn_index x;
    cairn_err rc;
    void *raw;

    raw = malloc(t->index_bytes > 0 ? t->index_bytes : 1);
    if (raw == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%s: an index of %llu bytes", what,
                        (unsigned long long)t->index_bytes);
    rc = crn_fs_read_all(fs, fd, raw, t->index_bytes, t->index_offset, what, ei);
    if (rc == CAIRN_OK && crn_hash(raw, t->index_bytes) != t->index_hash)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: checksum of the index is wrong", what);
    if (rc == CAIRN_OK)
        rc = decode_index(raw, t->index_bytes, what, &x, ei);
    free(raw);
    if (rc != CAIRN_OK)
        return rc;
    rc = data_inside(&x, t->index_offset, what, ei);
    if (rc != CAIRN_OK) {
        crn_index_free(&x);
        return rc;
    }
    *ret = x;
    return CAIRN_OK;
}

size_t crn_data_chunk_bytes(const struct crn_index *x, const struct crn_extent *e, uint64_t chunk)
{
    uint64_t left = e->bytes - chunk * x->chunk_bytes;

    return (size_t)(left < x->chunk_bytes ? left : x->chunk_bytes);
}

cairn_err crn_data_check(const struct crn_index *x, const struct crn_extent *e, uint64_t chunk,
                         const void *buf, const char *what, struct crn_errinfo *ei)
{
    size_t n = crn_data_chunk_bytes(x, e, chunk);
    uint64_t at = e->offset + chunk * x->chunk_bytes;
    const struct crn_shard *s = &x->shards[e->shard];

    if (crn_hash(buf, n) == x->hashes[e->first_hash + chunk])
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EDAMAGED, 0,
                    "%s: rank %u, region '%s': checksum of bytes %llu to %llu is wrong (at %llu in "
                    "the %s)",
                    what, (unsigned)s->rank, s->regions[e->region].name, (unsigned long long)at,
                    (unsigned long long)(at + n),
                    (unsigned long long)(e->file_offset + chunk * x->chunk_bytes),
                    x->nstreams > 0 ? "streams" : "file");
}

cairn_err crn_data_chunk(const struct crn_data_file *f, const struct crn_extent *e, uint64_t chunk,
                         struct crn_decoder **decoder, void *buf, struct crn_errinfo *ei)
{
    const struct crn_index *x = f->index;
    size_t n = crn_data_chunk_bytes(x, e, chunk);
    uint64_t at = e->file_offset + chunk * x->chunk_bytes;
    const struct crn_shard *s = &x->shards[e->shard];
    unsigned long long begin = e->offset + chunk * x->chunk_bytes;
    cairn_err rc;

    if (x->nstreams > 0) {
        rc = crn_data_decoded(f, at, buf, n, decoder, ei);
        if (rc != CAIRN_OK)
            return crn_err_context(ei, rc, "%s: rank %u, region '%s', bytes %llu to %llu", f->what,
                                   (unsigned)s->rank, s->regions[e->region].name, begin, begin + n);
    } else {
        rc = crn_fs_read_all(f->fs, f->fd, buf, n, at, f->what, ei);
    }
    return rc != CAIRN_OK ? rc : crn_data_check(x, e, chunk, buf, f->what, ei);
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = (*(const struct crn_extent *const *)a)->file_offset;
    uint64_t y = (*(const struct crn_extent *const *)b)->file_offset;

    return x < y ? -1 : x > y;
}

/* The largest chunk; at least 1. */
static size_t buffer_bytes(const struct crn_index *x)
{
    uint64_t most = 1;
    uint64_t i;

    for (i = 0; i < x->nextents; i++)
        if (x->extents[i].bytes > most)
            most = x->extents[i].bytes;
    return (size_t)(most < x->chunk_bytes ? most : x->chunk_bytes);
}

/* The extents in the order in which they lie in the file or its streams; malloc'ed, NULL if out of
 * memory. */
static const struct crn_extent **in_order(const struct crn_index *x)
{
    const struct crn_extent **order = malloc((x->nextents + 1) * sizeof(*order));
    uint64_t i;

    if (order == NULL)
        return NULL;
    for (i = 0; i < x->nextents; i++)
        order[i] = &x->extents[i];
    order[x->nextents] = NULL;
    if (x->nextents > 1)
        qsort(order, x->nextents, sizeof(*order), by_place);
    return order;
}

cairn_err crn_data_verify(const struct crn_data_file *f, crn_data_tell *tell, void *arg,
                          struct crn_errinfo *ei)
{
    const struct crn_index *x = f->index;
    const struct crn_extent **order = in_order(x);
    void *buf = malloc(buffer_bytes(x));
    const struct crn_extent **e;
    struct crn_decoder *decoder = NULL;
    cairn_err result = CAIRN_OK;
    uint64_t chunk;

    if (order == NULL || buf == NULL) {
        result = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "verify '%s'", f->what);
        goto out;
    }
    for (e = order; *e != NULL; e++)
        for (chunk = 0; chunk * x->chunk_bytes < (*e)->bytes; chunk++) {
            struct crn_errinfo why = {0};
            cairn_err rc = crn_data_chunk(f, *e, chunk, &decoder, buf, &why);

            if (rc != CAIRN_OK) {
                crn_err_keep(ei, &why);
                result = result == CAIRN_OK ? rc : result;
            }
            if (tell != NULL)
                tell(arg, *e, chunk, rc != CAIRN_OK ? &why : NULL);
            else if (rc != CAIRN_OK)
                goto out;
        }
out:
    crn_decoder_free(decoder);
    free(order);
    free(buf);
    return result;
}

cairn_err crn_data_ranges(const struct crn_index *x, struct crn_rank_range **ret, uint32_t *ret_n,
                          struct crn_errinfo *ei)
{
    struct crn_rank_range *ranges;
    uint32_t n = 0;
    uint32_t i;

    ranges = calloc((size_t)x->nshards + 1, sizeof(*ranges));
    if (ranges == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "describe %u shards", (unsigned)x->nshards);
    for (i = 0; i < x->nshards; i++) {
        uint32_t rank = x->shards[i].rank;

        if (n > 0 && ranges[n - 1].first + ranges[n - 1].count == rank)
            ranges[n - 1].count++;
        else
            ranges[n++] = (struct crn_rank_range){.first = rank, .count = 1};
    }
    *ret = ranges;
    *ret_n = n;
    return CAIRN_OK;
}
