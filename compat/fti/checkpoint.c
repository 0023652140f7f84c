/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints: a version of the execution's Cairn name for each, whatever id the program gives it.
 * The table of variables, with their names, travels along as the region CRN_FTI_META. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fti.h"
#include "fti_impl.h"

/* Taking. -------------------------------------------------------------------------------------- */

static cairn_err write_meta(const struct crn_fti *f, int id, int level, char **ret, size_t *ret_len,
                            struct crn_errinfo *ei)
{
    FILE *out = open_memstream(ret, ret_len);
    size_t i;

    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of variables");
    (void)fprintf(out, "fti 1 %d %d\n", id, level);
    for (i = 0; i < f->nvars; i++)
        (void)fprintf(out, "var %d %zu\n", f->var[i].id, f->var[i].bytes);
    for (i = 0; i < f->nknown; i++)
        (void)fprintf(out, "name %d %s\n", f->known[i].id, f->known[i].name);
    return fclose(out) == 0 ? CAIRN_OK
                            : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the table of variables");
}

struct selection {
    char (*region)[CAIRN_MAX_NAME];
    const char **list; /* NULL at the end */
};

static void selection_free(struct selection *s)
{
    free(s->region);
    free(s->list);
}

static cairn_err declare_all(struct crn_fti *f, struct selection *ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    size_t i;

    ret->region = calloc(f->nvars + 1, sizeof(*ret->region));
    ret->list = calloc(f->nvars + 2, sizeof(*ret->list));
    if (ret->region == NULL || ret->list == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu variables", f->nvars);
    for (i = 0; rc == CAIRN_OK && i < f->nvars; i++) {
        const struct crn_fti_var *v = &f->var[i];

        rc = crn_fti_declare(f, v, v->copy != NULL ? v->copy : v->ptr, ret->region[i], ei);
        ret->list[i] = ret->region[i];
    }
    ret->list[f->nvars] = CRN_FTI_META;
    return rc;
}

static const struct crn_face_level *level_of(int level)
{
    static const char *const names[] = {NULL, "L1", "L2", "L3", "L4"};

    return crn_face_level(names[level == FTI_L4_H5_SINGLE ? 4 : level > 4 ? level - 4 : level]);
}

/* Collective. Only the levels that promise it go to the file system. */
static cairn_err checkpoint_take(struct crn_fti *f, const char *name, int id, int level,
                                 struct crn_errinfo *ei)
{
    cairn_session *c = f->face.session;
    char scheme[CRN_FACE_SCHEME];
    struct cairn_checkpoint_options o = {
        .size = sizeof(o), .level = level_of(level)->level, .protect = scheme};
    struct selection sel = {0};
    char *meta = NULL;
    size_t len = 0;
    cairn_err rc;

    crn_face_scheme(level_of(level), (uint32_t)f->cfg.all.topology.groupSize / 2, scheme);
    rc = write_meta(f, id, level, &meta, &len, ei);
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_protect(c, CRN_FTI_META, meta, CAIRN_BYTES, len), ei);
    if (rc == CAIRN_OK)
        rc = declare_all(f, &sel, ei);
    rc = crn_face_agree(f->comm, rc, ei);
    o.regions = sel.list;
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_checkpoint_with(c, name, f->next, &o), ei);
    if (cairn_unprotect(c, CRN_FTI_META) != CAIRN_OK)
        crn_log(&f->face.log, CRN_DEBUG, "%s", cairn_last_error());
    selection_free(&sel);
    free(meta);
    return crn_face_agree(f->comm, rc, ei);
}

/* What the program's level promises before the call returns. */
static cairn_err checkpoint_reach(struct crn_fti *f, const char *name, int64_t version, int level,
                                  struct crn_errinfo *ei)
{
    int plain = level == FTI_L4_H5_SINGLE ? 4 : level > 4 ? level - 4 : level;
    const struct crn_face_level *l = level_of(level);
    int waits = plain == 1 || f->cfg.all.ckpt[plain].isInline;
    cairn_err rc;

    rc = crn_face_result(cairn_wait(f->face.session, name, version,
                                    waits ? l->level : CAIRN_CAPTURED, CAIRN_WAIT_CONFIG),
                         ei);
    return crn_face_agree(f->comm, rc, ei);
}

static cairn_err fti_checkpoint(struct crn_fti *f, int id, int level, struct crn_errinfo *ei)
{
    const char *name = level == FTI_L4_H5_SINGLE ? f->single : f->name;
    cairn_err rc;

    if (level < FTI_MIN_LEVEL_ID || level > FTI_MAX_LEVEL_ID)
        return crn_fail(ei, CAIRN_EINVAL, 0, "there is no level %d", level);
    rc = checkpoint_take(f, name, id, level, ei);
    if (rc == CAIRN_OK)
        rc = checkpoint_reach(f, name, f->next, level, ei);
    if (rc != CAIRN_OK) {
        f->next++; /* never the same number twice */
        return rc;
    }
    f->from = name;
    f->from_version = f->next++;
    f->has_single |= level == FTI_L4_H5_SINGLE;
    f->ckpt_id = id;
    if (name == f->name)
        crn_fti_taken(f);
    return CAIRN_OK;
}

CRN_FACE_API int FTI_Checkpoint(int id, int level)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    rc = f->icp_level != 0 ? crn_fail(&ei, CAIRN_ESTATE, 0, "call FTI_FinalizeICP first")
                           : fti_checkpoint(f, id, level, &ei);
    return rc == CAIRN_OK ? FTI_DONE : crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

/* In steps. ------------------------------------------------------------------------------------ */

static void drop_copies(struct crn_fti *f)
{
    size_t i;

    for (i = 0; i < f->nvars; i++) {
        free(f->var[i].copy);
        f->var[i].copy = NULL;
    }
}

CRN_FACE_API int FTI_InitICP(int id, int level, bool activate)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc = CAIRN_OK;

    if (f == NULL)
        return FTI_NSCS;
    if (f->icp_level != 0)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "call FTI_FinalizeICP first");
    else if (level < FTI_MIN_LEVEL_ID || level > FTI_MAX_LEVEL_ID)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "there is no level %d", level);
    if (rc == CAIRN_OK) {
        f->icp_id = id;
        f->icp_level = activate ? level : -1;
    }
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API int FTI_AddVarICP(int varID)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    struct crn_fti_var *v;
    cairn_err rc = CAIRN_OK;

    if (f == NULL)
        return FTI_NSCS;
    if (f->icp_level < 0)
        return FTI_SCES;
    v = crn_fti_var(f, varID);
    if (f->icp_level == 0)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "call FTI_InitICP first");
    else if (v == NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "variable %d is not protected", varID);
    else if (v->copy != NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "variable %d is added already", varID);
    else if ((v->copy = malloc(v->bytes + 1)) == NULL)
        rc = crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "a copy of variable %d", varID);
    else
        memcpy(v->copy, v->ptr, v->bytes);
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

CRN_FACE_API int FTI_FinalizeICP(void)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc = CAIRN_OK;

    if (f == NULL)
        return FTI_NSCS;
    if (f->icp_level == 0)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0, "call FTI_InitICP first");
    else if (f->icp_level > 0)
        rc = fti_checkpoint(f, f->icp_id, f->icp_level, &ei);
    drop_copies(f);
    f->icp_level = 0;
    return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
}

/* By the clock. -------------------------------------------------------------------------------- */

/* First rank: the highest level whose interval has passed since the last look; 0: none. */
static int due_level(struct crn_fti *f, double now)
{
    int minute = (int)((now - f->begun) / 60);
    int level = 0, l, m;

    for (m = f->minute + 1; m <= minute; m++)
        for (l = 1; l <= 4; l++)
            if (f->cfg.all.ckpt[l].ckptIntv > 0 && m % f->cfg.all.ckpt[l].ckptIntv == 0 &&
                l > level)
                level = l;
    f->minute = minute;
    return level;
}

/* Collective at every f->every-th call: what is due, and when to look again. */
static cairn_err checkpoint_look(struct crn_fti *f, int *ret_level, struct crn_errinfo *ei)
{
    double now = MPI_Wtime();
    int64_t said[2] = {0, 1};

    if (f->rank == 0) {
        double passed = now - f->last_look;

        said[0] = due_level(f, now);
        said[1] = (int64_t)f->every; /* about once a second */
        if (passed < 0.5 && said[1] < f->cfg.sync_intv)
            said[1] *= 2;
        else if (passed > 1 && said[1] > 1)
            said[1] /= 2;
    }
    if (MPI_Bcast(said, 2, MPI_INT64_T, 0, f->comm) != MPI_SUCCESS)
        return crn_fail(ei, CAIRN_EMPI, 0, "cannot agree on what is due");
    f->last_look = now;
    f->every = (uint64_t)said[1];
    f->calls = 0;
    *ret_level = (int)said[0];
    return CAIRN_OK;
}

CRN_FACE_API int FTI_Snapshot(void)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    int level = 0;
    cairn_err rc = CAIRN_OK;

    if (f == NULL)
        return FTI_NSCS;
    if (f->status != 0)
        return crn_fti_end(f, __func__, FTI_NREC, crn_fti_recover(f, &ei), &ei);
    if (++f->calls >= f->every)
        rc = checkpoint_look(f, &level, &ei);
    if (rc == CAIRN_OK && level > 0)
        rc = fti_checkpoint(f, f->ckpt_id + 1, level, &ei);
    if (rc != CAIRN_OK)
        return crn_fti_end(f, __func__, FTI_NSCS, rc, &ei);
    return level > 0 ? FTI_DONE : FTI_SCES;
}
