/* SPDX-License-Identifier: BSD-3-Clause */
/* netCDF classic: the header tells where each variable begins. Three versions differ in the
 * width of counts and offsets. Every number is hostile: nothing is allocated for a count before
 * that many bytes of the header are present. */
#include "encode/extents.h"

#include <stdlib.h>
#include <string.h>

#define TAG_DIMENSION 10
#define TAG_VARIABLE  11
#define TAG_ATTRIBUTE 12
#define RANK_MAX      1024

/* A reader of big-endian numbers. */
struct nc {
    const unsigned char *data;
    size_t n, at;
    int is_short;  /* the header is truncated */
    int is_wrong;  /* the header is invalid */
    int is_64;     /* CDF-5: 64-bit counts */
    int offset_64; /* CDF-2 and CDF-5: 64-bit offsets */
};

struct variable {
    const char *name; /* not terminated */
    size_t name_n;
    cairn_type type;
    uint64_t begin, bytes; /* of one record, if it has records */
    unsigned ndims;        /* without the record dimension */
    const uint64_t *dims;  /* of RANK_MAX */
    int is_record;
};

static const unsigned char *extents_netcdf_take(struct nc *f, uint64_t n)
{
    const unsigned char *p = f->data + f->at;

    if (f->is_short || f->is_wrong || n > f->n - f->at) {
        f->is_short = !f->is_wrong;
        return NULL;
    }
    f->at += (size_t)n;
    return p;
}

static uint64_t extents_netcdf_number(struct nc *f, unsigned width)
{
    const unsigned char *p = extents_netcdf_take(f, width);
    uint64_t v = 0;

    while (p != NULL && width-- > 0)
        v = v << 8 | *p++;
    return v;
}

static uint64_t extents_netcdf_count(struct nc *f)
{
    uint64_t v = extents_netcdf_number(f, f->is_64 ? 8 : 4);

    if (v > INT64_MAX)
        f->is_wrong = 1;
    return v;
}

static uint64_t extents_netcdf_padded(uint64_t n)
{
    return (n + 3) & ~UINT64_C(3);
}

/* Reads a list's tag and returns its length; 0 if it is absent. */
static uint64_t extents_netcdf_list(struct nc *f, uint32_t tag)
{
    uint64_t found = extents_netcdf_number(f, 4);
    uint64_t n = extents_netcdf_count(f);

    if ((found != tag && found != 0) || (found == 0 && n != 0))
        f->is_wrong = 1;
    return f->is_wrong || f->is_short ? 0 : n;
}

static const char *extents_netcdf_name(struct nc *f, uint64_t *ret_n)
{
    *ret_n = extents_netcdf_count(f);
    return (const char *)extents_netcdf_take(f, extents_netcdf_padded(*ret_n));
}

static cairn_type type_of(struct nc *f)
{
    static const cairn_type types[] = {CAIRN_BYTES, CAIRN_I8,  CAIRN_U8,  CAIRN_I16,
                                       CAIRN_I32,   CAIRN_F32, CAIRN_F64, CAIRN_U8,
                                       CAIRN_U16,   CAIRN_U32, CAIRN_I64, CAIRN_U64};
    uint64_t t = extents_netcdf_number(f, 4);

    if (t < 1 || t >= sizeof(types) / sizeof(types[0])) {
        f->is_wrong = !f->is_short;
        t = 1;
    }
    return types[t];
}

static void skip_attributes(struct nc *f)
{
    uint64_t n = extents_netcdf_list(f, TAG_ATTRIBUTE);
    uint64_t len, values;

    while (n-- > 0 && !f->is_short && !f->is_wrong) {
        cairn_type type;

        (void)extents_netcdf_name(f, &len);
        type = type_of(f);
        values = extents_netcdf_count(f);
        if (values > INT64_MAX / 8)
            f->is_wrong = 1;
        else
            (void)extents_netcdf_take(f, extents_netcdf_padded(values * cairn_type_size(type)));
    }
}

/* Lengths of the dimensions; 0 marks the record dimension. NULL if there are none or too many. */
static uint64_t *extents_netcdf_dimensions(struct nc *f, uint64_t *ret_n)
{
    uint64_t n = extents_netcdf_list(f, TAG_DIMENSION);
    uint64_t i, len;
    uint64_t *d;

    *ret_n = 0;
    if (n > (f->n - f->at) / 8) /* each has a name length and a length */
        f->is_short = 1;
    if (n == 0 || f->is_short || f->is_wrong)
        return NULL;
    d = calloc((size_t)n, sizeof(*d));
    for (i = 0; d != NULL && i < n; i++) {
        (void)extents_netcdf_name(f, &len);
        d[i] = extents_netcdf_count(f);
    }
    *ret_n = d != NULL ? n : 0;
    return d;
}

/* One variable of the list; dims gets its shape. */
static void extents_netcdf_variable(struct nc *f, const uint64_t *dim, uint64_t ndim,
                                    uint64_t *dims, struct variable *v)
{
    uint64_t len, n, i;

    memset(v, 0, sizeof(*v));
    v->name = extents_netcdf_name(f, &len);
    v->name_n = (size_t)len;
    n = extents_netcdf_count(f);
    if (n > RANK_MAX)
        f->is_wrong = 1;
    for (i = 0; i < n && !f->is_short && !f->is_wrong; i++) {
        uint64_t id = extents_netcdf_count(f);

        if (f->is_short || id >= ndim || (dim[id] == 0 && i > 0)) {
            f->is_wrong = !f->is_short; /* the record dimension must be the outermost */
            return;
        }
        if (dim[id] == 0)
            v->is_record = 1;
        else
            dims[v->ndims++] = dim[id];
    }
    v->dims = dims;
    skip_attributes(f);
    v->type = type_of(f);
    (void)extents_netcdf_count(
        f); /* skip its size, which is too narrow for large variables and follows from the shape */
    v->begin = extents_netcdf_number(f, f->offset_64 ? 8 : 4);
    v->bytes = cairn_type_size(v->type);
    for (i = 0; i < v->ndims; i++)
        if (__builtin_mul_overflow(v->bytes, dims[i], &v->bytes) || v->bytes > INT64_MAX)
            f->is_wrong = 1;
}

/* Layout of the records: all variables of one record, then those of the next. */
struct records {
    uint64_t n, bytes, nvars;
    int is_known;
};

static void extents_netcdf_add(struct crn_file_extents *x, const struct variable *v,
                               const struct records *r, uint64_t file_bytes)
{
    const char *key = crn_extents_key(x, v->name, v->name_n);
    uint64_t shape[RANK_MAX + 1];
    uint64_t i;

    if (!v->is_record) {
        crn_extents_add(x, key, v->type, 1, v->begin, v->dims, v->ndims);
        return;
    }
    if (r->nvars == 1) { /* no gaps: one array */
        shape[0] = r->n;
        memcpy(shape + 1, v->dims, v->ndims * sizeof(*shape));
        crn_extents_add(x, key, v->type, 1, v->begin, shape, v->ndims + 1);
        return;
    }
    if (v->bytes < CRN_EXTENT_MIN || v->begin > file_bytes)
        return;
    for (i = 0; i < r->n && i <= (file_bytes - v->begin) / r->bytes; i++)
        crn_extents_add(x, key, v->type, 1, v->begin + i * r->bytes, v->dims, v->ndims);
}

/* Walks the list of variables. If the layout r is known, adds their extents; otherwise computes
 * it. */
static void extents_netcdf_variables(struct nc *f, const uint64_t *dim, uint64_t ndim,
                                     uint64_t file_bytes, struct records *r,
                                     struct crn_file_extents *x)
{
    uint64_t dims[RANK_MAX];
    uint64_t first = UINT64_MAX;
    uint64_t n = extents_netcdf_list(f, TAG_VARIABLE);
    struct variable v;
    uint64_t only = 0;

    while (n-- > 0 && !f->is_short && !f->is_wrong && !x->failed) {
        extents_netcdf_variable(f, dim, ndim, dims, &v);
        if (f->is_short || f->is_wrong)
            return;
        if (r->is_known) {
            extents_netcdf_add(x, &v, r, file_bytes);
        } else if (v.is_record) {
            only = v.bytes;
            r->nvars++;
            first = v.begin < first ? v.begin : first;
            if (__builtin_add_overflow(r->bytes, extents_netcdf_padded(v.bytes), &r->bytes))
                f->is_wrong = 1;
        }
    }
    if (r->is_known)
        return;
    if (r->nvars == 1)
        r->bytes = only;
    /* A file that is still being written may have more or fewer records than it says. */
    if (r->bytes == 0 || first > file_bytes)
        r->n = 0;
    else if (r->n > (file_bytes - first + 3) / r->bytes)
        r->n = (file_bytes - first + 3) / r->bytes;
}

static void extents_netcdf_parse(struct nc *f, uint64_t file_bytes, struct crn_file_extents *x)
{
    struct records r = {0};
    const unsigned char *magic = extents_netcdf_take(f, 4);
    uint64_t *dim;
    uint64_t ndim;
    size_t at;

    if (magic == NULL)
        return;
    if (memcmp(magic, "CDF", 3) != 0 || (magic[3] != 1 && magic[3] != 2 && magic[3] != 5)) {
        f->is_wrong = 1;
        return;
    }
    f->is_64 = magic[3] == 5;
    f->offset_64 = magic[3] != 1;
    /* all bits set: derive the number from the file size */
    r.n = extents_netcdf_number(f, f->is_64 ? 8 : 4);
    dim = extents_netcdf_dimensions(f, &ndim);
    skip_attributes(f);
    at = f->at;
    extents_netcdf_variables(f, dim, ndim, file_bytes, &r, x);
    r.is_known = 1;
    f->at = at;
    if (!f->is_short && !f->is_wrong)
        extents_netcdf_variables(f, dim, ndim, file_bytes, &r, x);
    free(dim);
}

int crn_extents_netcdf(const void *header, size_t n, uint64_t file_bytes,
                       struct crn_file_extents *ret)
{
    struct nc f = {.data = header, .n = n};

    memset(ret, 0, sizeof(*ret));
    if (header != NULL)
        extents_netcdf_parse(&f, file_bytes, ret);
    if (f.is_short || f.is_wrong)
        crn_extents_free(ret);
    return f.is_short && !f.is_wrong ? -1 : 0;
}
