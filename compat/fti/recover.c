/* SPDX-License-Identifier: BSD-3-Clause */
/* Recovery. The version was chosen and verified by FTI_Init, or is the last one that this run took;
 * so every call here is local, and checks everything before it writes a byte. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fti.h"
#include "fti_impl.h"

static cairn_err must_have(const struct crn_fti *f, struct crn_errinfo *ei)
{
    return f->from != NULL ? CAIRN_OK : crn_fail(ei, CAIRN_ENOENT, 0, "there is no checkpoint");
}

/* Names. --------------------------------------------------------------------------------------- */

static cairn_err parse_meta(struct crn_fti *f, char *text, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    char *line = strsep(&text, "\n");
    int level;

    if (line == NULL || sscanf(line, "fti 1 %d %d", &f->ckpt_id, &level) != 2)
        return crn_fail(ei, CAIRN_EFORMAT, 0, "'" CRN_FTI_META "' is not a table of variables");
    while (rc == CAIRN_OK && (line = strsep(&text, "\n")) != NULL) {
        int at = 0;
        int id;

        if (sscanf(line, "name %d %n", &id, &at) == 1 && at > 0)
            rc = crn_fti_name_add(f, id, line + at, ei);
    }
    return rc;
}

cairn_err crn_fti_read_meta(struct crn_fti *f, struct crn_errinfo *ei)
{
    static const char *const regions[] = {CRN_FTI_META, NULL};
    struct cairn_array a = {.size = sizeof(a)};
    cairn_session *c = f->face.session;
    cairn_err rc;
    char *text;

    rc = crn_face_result(cairn_region_info(c, f->from, f->from_version, f->rank, CRN_FTI_META, &a),
                         ei);
    if (rc != CAIRN_OK)
        return rc;
    text = calloc(1, a.dims[0] + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of variables");
    rc = crn_face_result(cairn_protect(c, CRN_FTI_META, text, CAIRN_BYTES, a.dims[0]), ei);
    if (rc == CAIRN_OK) {
        rc = crn_face_result(cairn_restore_from(c, f->from, f->from_version, f->rank, regions), ei);
        if (cairn_unprotect(c, CRN_FTI_META) != CAIRN_OK)
            crn_log(&f->face.log, CRN_DEBUG, "%s", cairn_last_error());
    }
    if (rc == CAIRN_OK)
        rc = parse_meta(f, text, ei);
    free(text);
    return rc;
}

/* Data. ---------------------------------------------------------------------------------------- */

/* The stored shape of a variable of this rank. CAIRN_ENOENT: it is not stored. */
static cairn_err recover_stored(struct crn_fti *f, int id, struct cairn_array *ret,
                                size_t *ret_bytes, struct crn_errinfo *ei)
{
    char region[CAIRN_MAX_NAME];
    cairn_err rc;
    int i;

    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    (void)snprintf(region, sizeof(region), "v%d", id);
    rc = crn_face_result(
        cairn_region_info(f->face.session, f->from, f->from_version, f->rank, region, ret), ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret_bytes = cairn_type_size(ret->type);
    for (i = 0; i < ret->ndims; i++)
        *ret_bytes *= ret->dims[i];
    return CAIRN_OK;
}

/* Declares the memory of a variable with the shape that is stored. */
static cairn_err recover_prepare(struct crn_fti *f, const struct crn_fti_var *v, char *region,
                                 struct crn_errinfo *ei)
{
    struct cairn_array a;
    size_t bytes = 0;
    cairn_err rc;

    if (v->block.did >= 0)
        return crn_fti_declare(f, v, v->ptr, region, ei);
    rc = recover_stored(f, v->id, &a, &bytes, ei);
    if (rc == CAIRN_OK && bytes != v->bytes)
        return crn_fail(ei, CAIRN_EMISMATCH, 0,
                        "variable %d has %zu bytes in the checkpoint and %zu in memory", v->id,
                        bytes, v->bytes);
    (void)snprintf(region, CAIRN_MAX_NAME, "v%d", v->id);
    if (rc == CAIRN_OK)
        rc = crn_face_result(
            cairn_protect(f->face.session, region, v->ptr, a.type,
                          cairn_type_size(a.type) > 0 ? bytes / cairn_type_size(a.type) : 0),
            ei);
    return rc;
}

/* Fills n variables. A block of a shared array may come from several old ranks. */
static cairn_err recover_restore(struct crn_fti *f, const struct crn_fti_var *v, size_t n,
                                 struct crn_errinfo *ei)
{
    char(*region)[CAIRN_MAX_NAME] = calloc(n + 1, sizeof(*region));
    const char **own = calloc(n + 1, sizeof(*own));
    const char **shared = calloc(n + 1, sizeof(*shared));
    size_t nown = 0, nshared = 0;
    cairn_err rc = CAIRN_OK;
    size_t i;

    if (region == NULL || own == NULL || shared == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu variables", n);
    for (i = 0; rc == CAIRN_OK && i < n; i++) {
        rc = recover_prepare(f, &v[i], region[i], ei);
        if (v[i].block.did >= 0)
            shared[nshared++] = region[i];
        else
            own[nown++] = region[i];
    }
    if (rc == CAIRN_OK && nown > 0)
        rc = crn_face_result(
            cairn_restore_from(f->face.session, f->from, f->from_version, f->rank, own), ei);
    if (rc == CAIRN_OK && nshared > 0)
        rc = crn_face_result(cairn_restore(f->face.session, f->from, f->from_version, shared), ei);
    free(region);
    free(own);
    free(shared);
    return rc;
}

cairn_err crn_fti_recover(struct crn_fti *f, struct crn_errinfo *ei)
{
    cairn_err rc = must_have(f, ei);

    if (rc == CAIRN_OK && f->nvars == 0)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "no variable is protected");
    if (rc == CAIRN_OK)
        rc = recover_restore(f, f->var, f->nvars, ei);
    if (rc == CAIRN_OK)
        f->status = 0;
    return rc;
}

/* FTI's functions. ----------------------------------------------------------------------------- */

CRN_FACE_API int FTI_Recover(void)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    return f == NULL ? FTI_NSCS : crn_fti_end(f, __func__, FTI_NREC, crn_fti_recover(f, &ei), &ei);
}

CRN_FACE_API int FTI_RecoverVarInit(void)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};

    return f == NULL ? FTI_NSCS : crn_fti_end(f, __func__, FTI_NREC, must_have(f, &ei), &ei);
}

CRN_FACE_API int FTI_RecoverVar(int id)
{
    struct crn_fti *f = crn_fti_get(__func__);
    const struct crn_fti_var *v;
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    v = crn_fti_var(f, id);
    rc = must_have(f, &ei);
    if (rc == CAIRN_OK)
        rc = v == NULL ? crn_fail(&ei, CAIRN_EINVAL, 0, "variable %d is not protected", id)
                       : recover_restore(f, v, 1, &ei);
    return crn_fti_end(f, __func__, FTI_NREC, rc, &ei);
}

CRN_FACE_API int FTI_RecoverVarFinalize(void)
{
    struct crn_fti *f = crn_fti_get(__func__);

    if (f == NULL)
        return FTI_NSCS;
    f->status = 0;
    return FTI_SCES;
}

CRN_FACE_API int64_t FTI_GetStoredSize(int id)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    struct cairn_array a;
    size_t bytes = 0;

    if (f == NULL || f->from == NULL || recover_stored(f, id, &a, &bytes, &ei) != CAIRN_OK)
        return 0;
    return (int64_t)bytes;
}

CRN_FACE_API void *FTI_Realloc(int id, void *ptr)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_fti_var *v = f != NULL ? crn_fti_var(f, id) : NULL;
    int64_t bytes = FTI_GetStoredSize(id);
    struct crn_errinfo ei = {0};
    void *grown;

    if (f == NULL)
        return NULL;
    if (v == NULL || v->count == 0 || bytes == 0) {
        (void)crn_fti_end(f, __func__, FTI_NSCS,
                          crn_fail(&ei, CAIRN_EINVAL, 0,
                                   v == NULL ? "variable %d is not protected"
                                             : "variable %d is not in the checkpoint",
                                   id),
                          &ei);
        return ptr;
    }
    grown = realloc(ptr, (size_t)bytes);
    if (grown == NULL) {
        (void)crn_fti_end(f, __func__, FTI_NSCS,
                          crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "variable %d", id), &ei);
        return NULL;
    }
    v->count = bytes / (int64_t)(v->bytes / (size_t)v->count);
    v->bytes = (size_t)bytes;
    v->ptr = grown;
    return grown;
}

/* The shape of a shared array in the checkpoint becomes its shape here. */
CRN_FACE_API int FTI_RecoverDatasetDimension(int did)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct cairn_array a = {.size = sizeof(a)};
    const struct crn_fti_array *array;
    char region[CAIRN_MAX_NAME];
    struct crn_errinfo ei = {0};
    FTIT_hsize_t dims[CRN_FTI_DIMS];
    cairn_err rc;
    int i;

    if (f == NULL)
        return FTI_NSCS;
    array = crn_fti_array(f, did);
    rc = must_have(f, &ei);
    if (rc == CAIRN_OK && array == NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "there is no dataset %d", did);
    if (rc == CAIRN_OK) {
        crn_settings_name(array->name, region, sizeof(region));
        rc = crn_face_result(
            cairn_region_info(f->face.session, f->from, f->from_version, 0, region, &a), &ei);
    }
    for (i = 0; rc == CAIRN_OK && i < CRN_FTI_DIMS; i++)
        dims[i] = a.global_dims[i];
    if (rc != CAIRN_OK)
        return crn_fti_end(f, __func__, FTI_NREC, rc, &ei);
    return FTI_UpdateGlobalDataset(did, a.ndims, dims);
}
