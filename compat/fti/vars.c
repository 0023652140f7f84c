/* SPDX-License-Identifier: BSD-3-Clause */
/* Types, variables, their names, and arrays that all processes share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fti.h"
#include "fti_impl.h"

CRN_FACE_API fti_id_t FTI_CHAR = 0, FTI_SHRT = 1, FTI_INTG = 2, FTI_LONG = 3;
CRN_FACE_API fti_id_t FTI_UCHR = 4, FTI_USHT = 5, FTI_UINT = 6, FTI_ULNG = 7;
CRN_FACE_API fti_id_t FTI_SFLT = 8, FTI_DBLE = 9, FTI_LDBE = 10;

/* Types. --------------------------------------------------------------------------------------- */

static cairn_err add_type(struct crn_fti *f, size_t size, cairn_type type, fti_id_t *ret,
                          struct crn_errinfo *ei)
{
    struct crn_fti_type *grown = realloc(f->type, (f->ntypes + 1) * sizeof(*grown));

    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a type");
    f->type = grown;
    grown[f->ntypes] = (struct crn_fti_type){size, type};
    *ret = (fti_id_t)f->ntypes++;
    return CAIRN_OK;
}

cairn_err crn_fti_types_init(struct crn_fti *f, struct crn_errinfo *ei)
{
    const struct crn_fti_type known[] = {
        {sizeof(char), CAIRN_I8},    {sizeof(short), CAIRN_I16},        {sizeof(int), CAIRN_I32},
        {sizeof(long), CAIRN_I64},   {sizeof(char), CAIRN_U8},          {sizeof(short), CAIRN_U16},
        {sizeof(int), CAIRN_U32},    {sizeof(long), CAIRN_U64},         {sizeof(float), CAIRN_F32},
        {sizeof(double), CAIRN_F64}, {sizeof(long double), CAIRN_BYTES}};
    cairn_err rc = CAIRN_OK;
    fti_id_t id;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < sizeof(known) / sizeof(known[0]); i++)
        rc = add_type(f, known[i].size, known[i].type, &id, ei);
    return rc;
}

CRN_FACE_API int FTI_InitType(fti_id_t *type, int size)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    rc = type == NULL || size <= 0 ? crn_fail(&ei, CAIRN_EINVAL, 0, "a type of %d bytes", size)
                                   : add_type(f, (size_t)size, CAIRN_BYTES, type, &ei);
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API fti_id_t FTI_InitCompositeType(const char *name, size_t size, FTIT_H5Group *h5group)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    fti_id_t id = FTI_NSCS;
    cairn_err rc;

    (void)name;
    (void)h5group;
    if (f == NULL)
        return FTI_NSCS;
    rc = size == 0 ? crn_fail(&ei, CAIRN_EINVAL, 0, "a type of 0 bytes")
                   : add_type(f, size, CAIRN_BYTES, &id, &ei);
    return rc == CAIRN_OK ? id : crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

static int is_type(const struct crn_fti *f, fti_id_t id)
{
    return id >= 0 && (size_t)id < f->ntypes;
}

/* Does a field lie inside of its struct? Cairn stores the struct's bytes as they are. */
static cairn_err check_field(const struct crn_fti *f, fti_id_t id, fti_id_t field, int64_t offset,
                             uint64_t count, struct crn_errinfo *ei)
{
    if (!is_type(f, id) || !is_type(f, field))
        return crn_fail(ei, CAIRN_EINVAL, 0, "there is no type %d", is_type(f, id) ? field : id);
    if (offset < 0 || (uint64_t)offset + count * f->type[field].size > f->type[id].size)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the field at %lld does not fit into %zu bytes",
                        (long long)offset, f->type[id].size);
    return CAIRN_OK;
}

CRN_FACE_API int FTI_AddScalarField(fti_id_t id, const char *name, fti_id_t fid, int64_t offset)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    (void)name;
    return f == NULL
               ? FTI_NSCS
               : crn_fti_end(f, __func__, FTI_NSCS, check_field(f, id, fid, offset, 1, &ei), &ei);
}

CRN_FACE_API int FTI_AddVectorField(fti_id_t id, const char *name, fti_id_t tid, int64_t offset,
                                    int ndims, int64_t *dims)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    uint64_t n = 1;
    int i;

    (void)name;
    if (f == NULL)
        return FTI_NSCS;
    for (i = 0; i < ndims && dims != NULL; i++)
        n *= (uint64_t)dims[i];
    return crn_fti_end(f, __func__, FTI_NSCS, check_field(f, id, tid, offset, n, &ei), &ei);
}

/* Variables. ----------------------------------------------------------------------------------- */

struct crn_fti_var *crn_fti_var(struct crn_fti *f, int id)
{
    size_t i;

    for (i = 0; i < f->nvars; i++)
        if (f->var[i].id == id)
            return &f->var[i];
    return NULL;
}

static struct crn_fti_var *var_get(struct crn_fti *f, int id, struct crn_errinfo *ei)
{
    struct crn_fti_var *v = crn_fti_var(f, id);
    struct crn_fti_var *grown;

    if (v != NULL)
        return v;
    grown = realloc(f->var, (f->nvars + 1) * sizeof(*grown));
    if (grown == NULL) {
        (void)!crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "variable %d", id);
        return NULL;
    }
    f->var = grown;
    v = &grown[f->nvars++];
    memset(v, 0, sizeof(*v));
    v->id = id;
    v->block.did = -1;
    return v;
}

void crn_fti_vars_free(struct crn_fti *f)
{
    size_t i;

    for (i = 0; i < f->nvars; i++)
        free(f->var[i].copy);
    free(f->var);
    free(f->type);
    free(f->array);
    free(f->known);
}

static cairn_err vars_protect(struct crn_fti *f, int id, void *ptr, int64_t count, fti_id_t tid,
                              struct crn_errinfo *ei)
{
    struct crn_fti_var *v;
    size_t bytes;

    if (!is_type(f, tid))
        return crn_fail(ei, CAIRN_EINVAL, 0, "there is no type %d", tid);
    if (count < 0 || (ptr == NULL && count > 0) ||
        __builtin_mul_overflow((size_t)count, f->type[tid].size, &bytes))
        return crn_fail(ei, CAIRN_EINVAL, 0, "variable %d: %lld elements at %p", id,
                        (long long)count, ptr);
    v = var_get(f, id, ei);
    if (v == NULL)
        return CAIRN_ENOMEM;
    v->ptr = ptr;
    v->count = count;
    v->bytes = bytes;
    v->type = f->type[tid].type;
    return CAIRN_OK;
}

CRN_FACE_API int FTI_Protect(int id, void *ptr, int64_t count, fti_id_t tid)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    return f == NULL
               ? FTI_NSCS
               : crn_fti_end(f, __func__, FTI_NSCS, vars_protect(f, id, ptr, count, tid, &ei), &ei);
}

static cairn_err must_have(struct crn_fti *f, int id, struct crn_fti_var **ret,
                           struct crn_errinfo *ei)
{
    *ret = crn_fti_var(f, id);
    return *ret != NULL ? CAIRN_OK
                        : crn_fail(ei, CAIRN_EINVAL, 0, "variable %d is not protected", id);
}

static cairn_err set_name(struct crn_fti *f, struct crn_fti_var *v, const char *name,
                          struct crn_errinfo *ei)
{
    if (strlen(name) >= FTI_BUFS || strchr(name, '\n') != NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of variable %d is not valid", v->id);
    memcpy(v->name, name, strlen(name) + 1);
    return crn_fti_name_add(f, v->id, name, ei);
}

CRN_FACE_API int FTI_SetAttribute(int id, FTIT_attribute attribute, FTIT_attributeFlag flag)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    struct crn_fti_var *v;
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    rc = must_have(f, id, &v, &ei);
    if (rc == CAIRN_OK && (flag & FTI_ATTRIBUTE_NAME)) {
        attribute.name[FTI_BUFS - 1] = '\0';
        rc = set_name(f, v, attribute.name, &ei);
    }
    if (rc == CAIRN_OK && (flag & FTI_ATTRIBUTE_DIM))
        v->dim = attribute.dim;
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API int FTI_DefineDataset(int id, int rank, int64_t *dims, const char *name,
                                   FTIT_H5Group *h5group)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    struct crn_fti_var *v;
    cairn_err rc;
    int i;

    (void)h5group;
    if (f == NULL)
        return FTI_NSCS;
    rc = must_have(f, id, &v, &ei);
    if (rc == CAIRN_OK && (rank < 0 || rank > 32 || (rank > 0 && dims == NULL)))
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "variable %d has %d dimensions", id, rank);
    if (rc == CAIRN_OK && name != NULL)
        rc = set_name(f, v, name, &ei);
    for (i = 0; rc == CAIRN_OK && i < rank; i++)
        v->dim.count[i] = dims[i];
    if (rc == CAIRN_OK)
        v->dim.ndims = rank;
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

/* Names. --------------------------------------------------------------------------------------- */

/* NULL: it has none. */
static const char *fti_name_of(const struct crn_fti *f, int id)
{
    size_t i;

    for (i = 0; i < f->nknown; i++)
        if (f->known[i].id == id)
            return f->known[i].name;
    return NULL;
}

cairn_err crn_fti_name_add(struct crn_fti *f, int id, const char *name, struct crn_errinfo *ei)
{
    struct crn_fti_name *grown;
    size_t i;

    for (i = 0; i < f->nknown && f->known[i].id != id; i++)
        ;
    if (i == f->nknown) {
        grown = realloc(f->known, (f->nknown + 1) * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the name '%s'", name);
        f->known = grown;
        f->nknown++;
    }
    f->known[i].id = id;
    (void)snprintf(f->known[i].name, FTI_BUFS, "%s", name);
    return CAIRN_OK;
}

static int id_of(const struct crn_fti *f, const char *name)
{
    size_t i;

    for (i = 0; i < f->nknown; i++)
        if (strcmp(f->known[i].name, name) == 0)
            return f->known[i].id;
    return -1;
}

CRN_FACE_API int FTI_getIDFromString(const char *name)
{
    struct crn_fti *f = crn_fti_get(__func__);

    return f != NULL && name != NULL ? id_of(f, name) : -1;
}

CRN_FACE_API int FTI_setIDFromString(const char *name)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    int id;

    if (f == NULL || name == NULL || strlen(name) >= FTI_BUFS || strchr(name, '\n') != NULL)
        return FTI_NSCS;
    id = id_of(f, name);
    if (id >= 0)
        return id;
    for (id = 0; crn_fti_var(f, id) != NULL || fti_name_of(f, id) != NULL; id++)
        ;
    return crn_fti_end(f, __func__, FTI_NSCS, crn_fti_name_add(f, id, name, &ei), &ei) == FTI_SCES
               ? id
               : FTI_NSCS;
}

/* Shared arrays. ------------------------------------------------------------------------------- */

const struct crn_fti_array *crn_fti_array(const struct crn_fti *f, int did)
{
    size_t i;

    for (i = 0; i < f->narrays; i++)
        if (f->array[i].id == did)
            return &f->array[i];
    return NULL;
}

static cairn_err set_dims(struct crn_fti_array *a, int rank, const FTIT_hsize_t *dims,
                          struct crn_errinfo *ei)
{
    int i;

    if (rank < 1 || rank > CRN_FTI_DIMS || dims == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "dataset %d has %d dimensions: 1 to %d", a->id, rank,
                        CRN_FTI_DIMS);
    a->ndims = rank;
    for (i = 0; i < rank; i++)
        a->dims[i] = a->span[i] = dims[i];
    return CAIRN_OK;
}

CRN_FACE_API int FTI_DefineGlobalDataset(int id, int rank, FTIT_hsize_t *dims, const char *name,
                                         FTIT_H5Group *h5group, fti_id_t tid)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_fti_array a = {.id = id, .type = tid};
    struct crn_errinfo ei = {0};
    struct crn_fti_array *grown;
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    rc = set_dims(&a, rank, dims, &ei);
    if (rc == CAIRN_OK && (!is_type(f, tid) || crn_fti_array(f, id) != NULL || name == NULL))
        rc = crn_fail(&ei, CAIRN_EINVAL, 0,
                      "dataset %d: unknown type, a number that is taken, or no name", id);
    if (rc == CAIRN_OK) {
        (void)snprintf(a.name, sizeof(a.name), "%s%s%s", h5group != NULL ? h5group->name : "",
                       h5group != NULL ? "/" : "", name);
        grown = realloc(f->array, (f->narrays + 1) * sizeof(*grown));
        if (grown == NULL) {
            rc = crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "dataset %d", id);
        } else {
            f->array = grown;
            grown[f->narrays++] = a;
        }
    }
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API int FTI_UpdateGlobalDataset(int id, int rank, FTIT_hsize_t *dims)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    size_t i;

    if (f == NULL)
        return FTI_NSCS;
    for (i = 0; i < f->narrays; i++)
        if (f->array[i].id == id)
            return crn_fti_end(f, __func__, FTI_NSCS, set_dims(&f->array[i], rank, dims, &ei), &ei);
    return crn_fti_end(f, __func__, FTI_NSCS,
                       crn_fail(&ei, CAIRN_EINVAL, 0, "there is no dataset %d", id), &ei);
}

static cairn_err set_block(struct crn_fti *f, int id, int rank, const FTIT_hsize_t *offset,
                           const FTIT_hsize_t *count, int did, struct crn_errinfo *ei)
{
    const struct crn_fti_array *a = crn_fti_array(f, did);
    struct crn_fti_var *v;
    uint64_t n = 1;
    cairn_err rc;
    size_t k;
    int i;

    rc = must_have(f, id, &v, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (a == NULL || rank != a->ndims || offset == NULL || count == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "variable %d: there is no dataset %d of %d dimensions",
                        id, did, rank);
    for (k = 0; k < f->nvars; k++)
        if (f->var[k].block.did == did && f->var[k].id != id)
            return crn_fail(ei, CAIRN_ENOTSUP, 0,
                            "variables %d and %d are both parts of dataset %d: a process can have "
                            "one part",
                            f->var[k].id, id, did);
    for (i = 0; i < rank; i++)
        n *= count[i];
    if (n * f->type[a->type].size != v->bytes)
        return crn_fail(ei, CAIRN_EMISMATCH, 0,
                        "variable %d has %zu bytes, its part of dataset %d "
                        "%llu elements",
                        id, v->bytes, did, (unsigned long long)n);
    v->block.did = did;
    for (i = 0; i < rank; i++) {
        v->block.offset[i] = offset[i];
        v->block.count[i] = count[i];
    }
    return CAIRN_OK;
}

CRN_FACE_API int FTI_AddSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count, int did)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    return f == NULL ? FTI_NSCS
                     : crn_fti_end(f, __func__, FTI_NSCS,
                                   set_block(f, id, rank, offset, count, did, &ei), &ei);
}

CRN_FACE_API int FTI_UpdateSubset(int id, int rank, FTIT_hsize_t *offset, FTIT_hsize_t *count,
                                  int did)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    return f == NULL ? FTI_NSCS
                     : crn_fti_end(f, __func__, FTI_NSCS,
                                   set_block(f, id, rank, offset, count, did, &ei), &ei);
}

CRN_FACE_API int FTI_GetDatasetRank(int did)
{
    struct crn_fti *f = crn_fti_get(__func__);
    const struct crn_fti_array *a = f != NULL ? crn_fti_array(f, did) : NULL;

    return a != NULL ? a->ndims : FTI_NSCS;
}

CRN_FACE_API FTIT_hsize_t *FTI_GetDatasetSpan(int did, int rank)
{
    struct crn_fti *f = crn_fti_get(__func__);
    size_t i;

    for (i = 0; f != NULL && i < f->narrays; i++)
        if (f->array[i].id == did && f->array[i].ndims == rank)
            return f->array[i].span;
    return NULL;
}

CRN_FACE_API int FTI_InitGroup(FTIT_H5Group *h5group, const char *name, FTIT_H5Group *parent)
{
    if (h5group == NULL || name == NULL || strlen(name) >= FTI_BUFS)
        return FTI_NSCS;
    h5group->id = parent != NULL ? parent->id + 1 : 1;
    if ((size_t)snprintf(h5group->name, FTI_BUFS, "%s%s%s", parent != NULL ? parent->name : "",
                         parent != NULL && parent->name[0] != '\0' ? "/" : "", name) >= FTI_BUFS)
        return FTI_NSCS;
    return FTI_SCES;
}

CRN_FACE_API int FTI_RenameGroup(FTIT_H5Group *h5group, const char *name)
{
    char *last;

    if (h5group == NULL || name == NULL)
        return FTI_NSCS;
    last = strrchr(h5group->name, '/');
    last = last != NULL ? last + 1 : h5group->name;
    if ((size_t)(last - h5group->name) + strlen(name) >= FTI_BUFS)
        return FTI_NSCS;
    memcpy(last, name, strlen(name) + 1);
    return FTI_SCES;
}

/* To Cairn. ------------------------------------------------------------------------------------ */

cairn_err crn_fti_declare(struct crn_fti *f, const struct crn_fti_var *v, const void *memory,
                          char *region, struct crn_errinfo *ei)
{
    const struct crn_fti_array *a = v->block.did >= 0 ? crn_fti_array(f, v->block.did) : NULL;
    void *ptr = (void *)(uintptr_t)memory;
    struct cairn_array part = {.size = sizeof(part)};

    if (a == NULL) {
        (void)snprintf(region, CAIRN_MAX_NAME, "v%d", v->id);
        return crn_face_result(
            cairn_protect(f->face.session, region, ptr, v->type,
                          v->type == CAIRN_BYTES ? v->bytes : (uint64_t)v->count),
            ei);
    }
    crn_settings_name(a->name, region, CAIRN_MAX_NAME);
    part.type = v->type;
    part.ndims = a->ndims;
    memcpy(part.dims, v->block.count, sizeof(part.dims));
    memcpy(part.global_dims, a->dims, sizeof(part.global_dims));
    memcpy(part.offset, v->block.offset, sizeof(part.offset));
    return crn_face_result(cairn_protect_array(f->face.session, region, ptr, &part), ei);
}

/* Failure injection. --------------------------------------------------------------------------- */

CRN_FACE_API int FTI_BitFlip(int datasetID)
{
    struct crn_fti *f = crn_fti_get(__func__);
    const FTIT_injection *inj;
    struct crn_fti_var *v;
    unsigned char *byte;
    double now;

    if (f == NULL)
        return FTI_NSCS;
    inj = &f->cfg.all.injection;
    v = crn_fti_var(f, datasetID);
    now = MPI_Wtime();
    if (f->rank != inj->rank || v == NULL || f->flips >= inj->number || inj->position < 0 ||
        inj->index < 0 || now - f->last_flip < inj->frequency * 60.0 ||
        (v->type != CAIRN_F32 && v->type != CAIRN_F64) || inj->index >= v->count ||
        (size_t)inj->position >= 8 * cairn_type_size(v->type))
        return FTI_NSCS;
    byte =
        (unsigned char *)v->ptr + (size_t)inj->index * cairn_type_size(v->type) + inj->position / 8;
    *byte ^= (unsigned char)(1U << (inj->position % 8));
    f->flips++;
    f->last_flip = now;
    crn_log(&f->face.log, CRN_WARN, "bit %d of element %d of variable %d is flipped", inj->position,
            inj->index, datasetID);
    return FTI_SCES;
}
