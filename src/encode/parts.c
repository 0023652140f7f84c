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

static struct crn_region *add(struct crn_parts *p, uint32_t region, uint64_t offset)
{
    struct crn_region *r = &p->shard.regions[p->shard.nregions];

    p->part[p->shard.nregions++] = (struct crn_part){region, offset};
    memset(r, 0, sizeof(*r));
    return r;
}

static void add_plain(struct crn_parts *p, uint32_t region, uint64_t offset, uint64_t bytes)
{
    struct crn_region *r;

    if (bytes == 0)
        return;
    r = add(p, region, offset);
    memcpy(r->name, CRN_PLAIN_KEY, sizeof(CRN_PLAIN_KEY));
    r->kind = CRN_REGION_FILE;
    r->type = CAIRN_BYTES;
    r->ndims = 1;
    r->dims[0] = r->bytes = bytes;
}

/* A file: what lies before each extent, the extent, what lies behind the last. */
static void add_file(struct crn_parts *p, uint32_t region, uint64_t bytes,
                     const struct crn_file_extents *x)
{
    uint64_t at = 0;
    size_t i;

    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent *e = &x->v[i];
        struct crn_region *r;

        add_plain(p, region, at, e->offset - at);
        r = add(p, region, e->offset);
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
            *add(&p, i, 0) = s->regions[i];
    }
    *ret = p;
    return CAIRN_OK;
}

cairn_err crn_parts_open(const struct crn_fs *fs, const struct crn_shard *s, const int *fds,
                         const char *hdf5, struct crn_parts **ret, struct crn_errinfo *ei)
{
    struct crn_file_extents *files = calloc(s->nregions + (size_t)1, sizeof(*files));
    struct crn_parts *p = calloc(1, sizeof(*p));
    cairn_err rc;
    uint32_t i;

    if (files == NULL || p == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the variables of %u files", s->nregions);
        goto out;
    }
    for (i = 0; i < s->nregions; i++) {
        if (fds[i] < 0)
            continue;
        crn_extents_read(fs, fds[i], hdf5, &files[i]);
        crn_extents_finish(&files[i], s->regions[i].bytes); /* it may have grown */
    }
    rc = crn_parts_make(s, files, p, ei);
    for (i = 0; i < s->nregions; i++)
        crn_extents_free(&files[i]);
out:
    free(files);
    if (rc == CAIRN_OK)
        *ret = p;
    else
        free(p);
    return rc;
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

    while (n > 1) { /* the last part that does not begin behind it */
        const struct crn_part *at = &p->part[first + n / 2];

        if (at->region < region || (at->region == region && at->offset <= offset)) {
            first += n / 2;
            n -= n / 2;
        } else {
            n /= 2;
        }
    }
    return first;
}
