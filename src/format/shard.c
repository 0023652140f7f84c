/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions and shards, the data of one rank. Defines which shapes are valid. Sizes are computed from
 * type and dims, never stored. docs/format.md, section 3. */
#include "format/object.h"

#include <stdlib.h>
#include <string.h>

#define REGION_MIN 14 /* bytes of the shortest encoded region: empty name, one dimension */

static const struct crn_object_kind shard_kind = {"CRNSHARD", "shard descriptor",
                                                  CRN_OBJECT_NEW_TYPES};

/* *ret = product of dims and the element size. -1 if it exceeds 63 bits: offsets in files and
 * regions must fit into off_t. */
static int shard_volume(const uint64_t *dims, unsigned ndims, size_t element, uint64_t *ret)
{
    uint64_t bytes = element;
    int is_empty = 0;
    unsigned i;

    for (i = 0; i < ndims; i++) {
        if (dims[i] == 0)
            is_empty = 1;
        else if (__builtin_mul_overflow(bytes, dims[i], &bytes))
            return -1;
    }
    *ret = is_empty ? 0 : bytes;
    return bytes > INT64_MAX ? -1 : 0;
}

static const char *region_fault(struct crn_region *r)
{
    size_t element = cairn_type_size((cairn_type)r->type);
    uint64_t bytes;
    unsigned i;

    if (memchr(r->name, 0, sizeof(r->name)) == NULL || r->name[0] == '\0' ||
        !crn_object_text_is_clean(r->name))
        return "its name is empty, too long or not printable";
    if (element == 0)
        return "its type is unknown";
    if (r->ndims < 1 || r->ndims > CAIRN_MAX_DIMS)
        return "it needs 1 to 8 dimensions";
    if (r->kind == CRN_REGION_FILE && (r->type != CAIRN_BYTES || r->ndims != 1 || r->is_global))
        return "a file is a row of bytes";
    if (r->kind > CRN_REGION_FILE || r->is_global > 1)
        return "its kind is unknown";
    if (shard_volume(r->dims, r->ndims, element, &r->bytes) != 0)
        return "its size does not fit into 63 bits";
    if (!r->is_global)
        return NULL;
    if (shard_volume(r->global_dims, r->ndims, element, &bytes) != 0)
        return "the size of its global array does not fit into 63 bits";
    for (i = 0; i < r->ndims; i++)
        if (r->dims[i] > r->global_dims[i] || r->offset[i] > r->global_dims[i] - r->dims[i])
            return "its block does not lie inside the global array";
    return NULL;
}

cairn_err crn_region_check(struct crn_region *r, struct crn_errinfo *ei)
{
    const char *fault = region_fault(r);

    if (fault != NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region '%.*s': %s", CAIRN_MAX_NAME, r->name, fault);
    return CAIRN_OK;
}

int64_t crn_shard_find(const struct crn_shard *s, enum crn_region_kind kind, const char *name)
{
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        if (s->regions[i].kind == kind && strcmp(s->regions[i].name, name) == 0)
            return i;
    return -1;
}

void crn_shard_free(struct crn_shard *s)
{
    free(s->regions);
    memset(s, 0, sizeof(*s));
}

static int by_kind_and_name(const void *a, const void *b)
{
    const struct crn_region *const *x = a;
    const struct crn_region *const *y = b;

    if ((*x)->kind != (*y)->kind)
        return (*x)->kind < (*y)->kind ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

static cairn_err names_unique(const struct crn_shard *s, const char *what, cairn_err code,
                              struct crn_errinfo *ei)
{
    const struct crn_region **sorted;
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (s->nregions < 2)
        return CAIRN_OK;
    sorted = calloc(s->nregions, sizeof(const struct crn_region *));
    if (sorted == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u regions", what,
                        (unsigned)s->nregions);
    for (i = 0; i < s->nregions; i++)
        sorted[i] = &s->regions[i];
    qsort(sorted, s->nregions, sizeof(const struct crn_region *), by_kind_and_name);
    for (i = 1; i < s->nregions && rc == CAIRN_OK; i++)
        if (by_kind_and_name(&sorted[i - 1], &sorted[i]) == 0)
            rc = crn_fail(ei, code, 0, "%s: rank %u has region '%s' twice", what, (unsigned)s->rank,
                          sorted[i]->name);
    free(sorted);
    return rc;
}

cairn_err crn_shard_check(const struct crn_shard *s, const char *what, cairn_err code,
                          struct crn_errinfo *ei)
{
    uint32_t i;

    if (s->rank >= CRN_MAX_RANKS || s->nregions > CRN_MAX_REGIONS)
        return crn_fail(ei, code, 0, "%s: rank %u with %u regions is beyond the limits", what,
                        (unsigned)s->rank, (unsigned)s->nregions);
    for (i = 0; i < s->nregions; i++) {
        struct crn_region r = s->regions[i];
        const char *fault = region_fault(&r);

        if (fault == NULL && r.bytes != s->regions[i].bytes)
            fault = "its bytes are not those of its dims";
        if (fault != NULL)
            return crn_fail(ei, code, 0, "%s: rank %u, region %u: %s", what, (unsigned)s->rank,
                            (unsigned)i, fault);
    }
    return names_unique(s, what, code, ei);
}

static void put_dims(struct crn_buf *buf, const uint64_t *dims, unsigned ndims)
{
    unsigned i;

    for (i = 0; i < ndims; i++)
        crn_buf_u64(buf, dims[i]);
}

int crn_shard_type_is_new(uint8_t type)
{
    return type > CAIRN_C128;
}

int crn_shard_has_new_types(const struct crn_shard *s)
{
    uint32_t i;

    for (i = 0; i < s->nregions; i++)
        if (crn_shard_type_is_new(s->regions[i].type))
            return 1;
    return 0;
}

static uint32_t shard_flags(const struct crn_shard *s)
{
    return crn_shard_has_new_types(s) ? CRN_OBJECT_NEW_TYPES : 0;
}

void crn_shard_put(const struct crn_shard *s, struct crn_buf *buf)
{
    uint32_t i;

    crn_buf_u32(buf, s->rank);
    crn_buf_u32(buf, s->nregions);
    for (i = 0; i < s->nregions; i++) {
        const struct crn_region *r = &s->regions[i];

        crn_buf_str(buf, r->name);
        crn_buf_u8(buf, r->kind);
        crn_buf_u8(buf, r->type);
        crn_buf_u8(buf, r->ndims);
        crn_buf_u8(buf, r->is_global);
        put_dims(buf, r->dims, r->ndims);
        if (r->is_global) {
            put_dims(buf, r->global_dims, r->ndims);
            put_dims(buf, r->offset, r->ndims);
        }
    }
}

/* Must match crn_shard_encode. */
uint64_t crn_shard_bytes(const struct crn_shard *s)
{
    uint64_t bytes = CRN_OBJECT_HEADER + 4 + 4 + CRN_OBJECT_CHECKSUM;
    uint32_t i;

    for (i = 0; i < s->nregions; i++) {
        const struct crn_region *r = &s->regions[i];

        bytes += 2 + strlen(r->name) + 4 + (uint64_t)(r->is_global ? 3 : 1) * 8 * r->ndims;
    }
    return bytes;
}

static void take_dims(struct crn_view *v, uint64_t *dims, unsigned ndims)
{
    unsigned i;

    for (i = 0; i < ndims; i++)
        dims[i] = crn_view_u64(v);
}

static void take_region(struct crn_view *v, struct crn_region *r)
{
    unsigned ndims;

    crn_view_str(v, r->name, sizeof(r->name));
    r->kind = crn_view_u8(v);
    r->type = crn_view_u8(v);
    r->ndims = crn_view_u8(v);
    r->is_global = crn_view_u8(v);
    ndims = r->ndims <= CAIRN_MAX_DIMS ? r->ndims : 0; /* the check refuses it later */
    take_dims(v, r->dims, ndims);
    if (r->is_global) {
        take_dims(v, r->global_dims, ndims);
        take_dims(v, r->offset, ndims);
    }
}

cairn_err crn_shard_take(struct crn_view *v, const char *what, struct crn_shard *ret,
                         struct crn_errinfo *ei)
{
    struct crn_shard s = {0};
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    s.rank = crn_view_u32(v);
    s.nregions = crn_view_u32(v);
    if (v->failed || s.nregions > CRN_MAX_REGIONS || s.nregions > crn_view_left(v) / REGION_MIN)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: a shard is cut off or has too many regions",
                        what);
    if (s.nregions > 0) {
        s.regions = calloc(s.nregions, sizeof(*s.regions));
        if (s.regions == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "%s: no memory for %u regions", what,
                            (unsigned)s.nregions);
    }
    for (i = 0; i < s.nregions && !v->failed; i++) {
        take_region(v, &s.regions[i]);
        (void)region_fault(&s.regions[i]); /* computes bytes; the check reports faults */
    }
    if (v->failed)
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the shard of rank %u is cut off", what,
                      (unsigned)s.rank);
    if (rc == CAIRN_OK)
        rc = crn_shard_check(&s, what, CAIRN_EDAMAGED, ei);
    if (rc != CAIRN_OK) {
        crn_shard_free(&s);
        return rc;
    }
    *ret = s;
    return CAIRN_OK;
}

cairn_err crn_shard_encode(const struct crn_shard *s, struct crn_buf *buf, struct crn_errinfo *ei)
{
    size_t at;
    cairn_err rc;

    rc = crn_shard_check(s, "encode a shard", CAIRN_EINVAL, ei);
    if (rc != CAIRN_OK)
        return rc;
    at = crn_object_begin(&shard_kind, buf);
    crn_object_set_flags(buf, at, shard_flags(s));
    crn_shard_put(s, buf);
    return crn_object_end(&shard_kind, at, buf, ei);
}

cairn_err crn_shard_decode(const void *data, size_t len, const char *what, struct crn_shard *ret,
                           struct crn_errinfo *ei)
{
    struct crn_shard s;
    struct crn_view body;
    cairn_err rc;

    rc = crn_object_open(&shard_kind, data, len, what, &body, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_shard_take(&body, what, &s, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_object_close(&shard_kind, data, &body, what, ei);
    if (rc == CAIRN_OK && crn_object_flags(data) != shard_flags(&s))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "%s: the flag of new types is wrong", what);
    if (rc != CAIRN_OK) {
        crn_shard_free(&s);
        return rc;
    }
    *ret = s;
    return CAIRN_OK;
}
