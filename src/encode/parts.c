/* SPDX-License-Identifier: BSD-3-Clause */
#include "encode/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void crn_parts_free(struct crn_parts *p)
{
    crn_shard_free(&p->shard);
    free(p->part);
    p->part = NULL;
}

static struct crn_region *parts_add(struct crn_parts *p, uint32_t region, uint64_t offset)
{
    struct crn_region *r = &p->shard.regions[p->shard.nregions];

    p->part[p->shard.nregions++] = (struct crn_part_place){region, offset};
    memset(r, 0, sizeof(*r));
    return r;
}

static void add_plain(struct crn_parts *p, uint32_t region, uint64_t offset, uint64_t bytes)
{
    struct crn_region *r;

    if (bytes == 0)
        return;
    r = parts_add(p, region, offset);
    memcpy(r->name, CRN_PLAIN_KEY, sizeof(CRN_PLAIN_KEY));
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = r->bytes = bytes;
}

/* Cuts a file: the bytes before each extent, the extent, the bytes after the last. */
static void add_file(struct crn_parts *p, uint32_t region, uint64_t bytes,
                     const struct crn_file_extents *x)
{
    uint64_t at = 0;
    size_t i;

    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent *e = &x->v[i];
        struct crn_region *r;

        add_plain(p, region, at, e->offset - at);
        r = parts_add(p, region, e->offset);
        memcpy(r->name, e->key, strlen(e->key) + 1);
        r->kind = CRN_REGION_FILE;
        r->type = (uint8_t)e->type;
        r->ndims = e->ndims;
        memcpy(r->dims, e->dims, sizeof(r->dims));
        r->bytes = e->bytes;
        at = e->offset + e->bytes;
    }
    add_plain(p, region, at, bytes - at);
}

cairn_err crn_parts_make(const struct crn_shard *s, const struct crn_file_extents *files,
                         struct crn_parts *ret, struct crn_errinfo *ei)
{
    static const struct crn_file_extents none;
    struct crn_parts p = {.shard = {.rank = s->rank}};
    size_t room = 1;
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        room += 1 + (files != NULL ? 2 * files[i].n : 0);
    p.shard.regions = calloc(room, sizeof(*p.shard.regions));
    p.part = calloc(room, sizeof(*p.part));
    if (p.shard.regions == NULL || p.part == NULL) {
        crn_parts_free(&p);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu parts of a shard", room);
    }
    for (i = 0; i < s->nregions; i++) {
        if (s->regions[i].kind == CRN_REGION_FILE)
            add_file(&p, i, s->regions[i].bytes, files != NULL ? &files[i] : &none);
        else
            *parts_add(&p, i, 0) = s->regions[i];
    }
    *ret = p;
    return CAIRN_OK;
}

/* files: the extents of each region; freed here. */
static cairn_err parts_make(const struct crn_shard *s, struct crn_file_extents *files,
                            struct crn_parts **ret, struct crn_errinfo *ei)
{
    struct crn_parts *p = calloc(1, sizeof(*p));
    cairn_err rc;
    uint32_t i;

    rc = p == NULL ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the parts of a shard") : CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = crn_parts_make(s, files, p, ei);
    for (i = 0; i < s->nregions; i++)
        crn_extents_free(&files[i]);
    free(files);
    if (rc == CAIRN_OK)
        *ret = p;
    else
        free(p);
    return rc;
}

cairn_err crn_parts_open(const struct crn_fs *fs, const struct crn_shard *s, const int *fds,
                         const char *hdf5, struct crn_parts **ret, struct crn_errinfo *ei)
{
    struct crn_file_extents *files = calloc(s->nregions + (size_t)1, sizeof(*files));
    uint32_t i;

    if (files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the variables of %u files", s->nregions);
    for (i = 0; i < s->nregions; i++) {
        if (fds[i] < 0)
            continue;
        crn_extents_read(fs, fds[i], hdf5, &files[i]);
        crn_extents_finish(&files[i], s->regions[i].bytes); /* the file may have changed */
    }
    return parts_make(s, files, ret, ei);
}

void crn_parts_close(struct crn_parts *p)
{
    if (p != NULL)
        crn_parts_free(p);
    free(p);
}

uint32_t crn_parts_find(const struct crn_parts *p, uint32_t region, uint64_t offset)
{
    uint32_t first = 0;
    uint32_t n = p->shard.nregions;

    while (n > 1) { /* the last part that does not begin after it */
        const struct crn_part_place *at = &p->part[first + n / 2];

        if (at->region < region || (at->region == region && at->offset <= offset)) {
            first += n / 2;
            n -= n / 2;
        } else {
            n /= 2;
        }
    }
    return first;
}

/* On the wire. --------------------------------------------------------------------------------- */

static int is_variable(const struct crn_region *r)
{
    return r->kind == CRN_REGION_FILE && strcmp(r->name, CRN_PLAIN_KEY) != 0;
}

void crn_parts_encode(const struct crn_parts *p, struct crn_buf *buf)
{
    uint32_t i;
    unsigned d;

    for (i = 0; i < p->shard.nregions; i++) {
        const struct crn_region *r = &p->shard.regions[i];

        if (!is_variable(r))
            continue;
        crn_buf_u32(buf, p->part[i].region);
        crn_buf_u64(buf, p->part[i].offset);
        crn_buf_u8(buf, r->type);
        crn_buf_u8(buf, r->ndims);
        crn_buf_str(buf, r->name);
        for (d = 0; d < r->ndims; d++)
            crn_buf_u64(buf, r->dims[d]);
    }
}

/* 0, or -1 if it is not a variable of a file of the shard. */
static int decode_one(struct crn_view *v, const struct crn_shard *s, struct crn_file_extents *files)
{
    uint32_t region = crn_view_u32(v);
    uint64_t offset = crn_view_u64(v);
    cairn_type type = (cairn_type)crn_view_u8(v);
    uint8_t ndims = crn_view_u8(v);
    uint64_t dims[CAIRN_MAX_DIMS] = {0};
    char key[CAIRN_MAX_NAME];
    unsigned d;

    crn_view_str(v, key, sizeof(key));
    if (v->failed || region >= s->nregions || s->regions[region].kind != CRN_REGION_FILE ||
        ndims < 1 || ndims > CAIRN_MAX_DIMS)
        return -1;
    for (d = 0; d < ndims; d++)
        dims[d] = crn_view_u64(v);
    if (!v->failed)
        crn_extents_add(&files[region], crn_extents_key(&files[region], key, strlen(key)), type, 0,
                        offset, dims, ndims);
    return v->failed ? -1 : 0;
}

cairn_err crn_parts_decode(const void *data, size_t n, const struct crn_shard *s,
                           struct crn_parts **ret, struct crn_errinfo *ei)
{
    struct crn_file_extents *files = calloc(s->nregions + (size_t)1, sizeof(*files));
    struct crn_view v = crn_view_of(data, n);
    int is_damaged = 0;
    uint32_t i;

    if (files == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the variables of %u files", s->nregions);
    while (!is_damaged && crn_view_left(&v) > 0)
        is_damaged = decode_one(&v, s, files) != 0;
    for (i = 0; i < s->nregions; i++) {
        if (is_damaged)
            crn_extents_free(&files[i]);
        crn_extents_finish(&files[i], s->regions[i].bytes);
    }
    return parts_make(s, files, ret, ei);
}
