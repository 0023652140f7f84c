/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart. Cairn agrees on a version that every rank can restore, and verifies it; files in the
 * prefix are verified here, against the version's tables. A file is found by the name that the
 * program gave it, in the table of this rank first, so that another number of ranks can restart. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr.h"
#include "scr_impl.h"

void crn_scr_found_close(struct crn_scr_found *f)
{
    crn_scr_dataset_free(&f->own);
    crn_scr_dataset_free(&f->other);
    f->id = -1;
    f->other_rank = -1;
}

cairn_err crn_scr_table(struct crn_scr *s, const char *store_name, int64_t id, int old_rank,
                        struct crn_scr_dataset *ret, struct crn_errinfo *ei)
{
    static const char *const regions[] = {CRN_SCR_REGION, NULL};
    struct cairn_array a = {.size = sizeof(a)};
    cairn_session *c = s->face.session;
    cairn_err rc, gone;
    char *text;

    memset(ret, 0, sizeof(*ret));
    rc = crn_face_result(cairn_region_info(c, store_name, id, old_rank, CRN_SCR_REGION, &a), ei);
    if (rc != CAIRN_OK)
        return rc;
    text = malloc(a.dims[0] + 1);
    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a table of files");
    rc = crn_face_result(cairn_protect(c, CRN_SCR_REGION, text, CAIRN_BYTES, a.dims[0]), ei);
    if (rc == CAIRN_OK) {
        rc = crn_face_result(cairn_restore_from(c, store_name, id, old_rank, regions), ei);
        gone = cairn_unprotect(c, CRN_SCR_REGION);
        if (gone != CAIRN_OK)
            crn_log(&s->face.log, CRN_DEBUG, "%s", cairn_last_error());
    }
    if (rc == CAIRN_OK)
        rc = crn_scr_dataset_parse(text, a.dims[0], ret, ei);
    free(text);
    return rc;
}

/* The tables of the old ranks that fall to this rank: its own is kept. All are checked. */
static cairn_err check_tables(struct crn_scr *s, struct crn_errinfo *ei)
{
    struct crn_scr_found *f = &s->found;
    cairn_err rc = CAIRN_OK;
    int old;

    for (old = s->rank; rc == CAIRN_OK && old < f->old_ranks; old += s->ranks) {
        struct crn_scr_dataset d;

        rc = crn_scr_table(s, CRN_SCR_CHECKPOINTS, f->id, old, &d, ei);
        if (rc == CAIRN_OK)
            rc = crn_scr_direct_check(s, &d, ei);
        if (old == s->rank)
            f->own = d;
        else
            crn_scr_dataset_free(&d);
    }
    return rc;
}

static cairn_err open_found(struct crn_scr *s, int64_t id, struct crn_errinfo *ei)
{
    struct cairn_version_info info = {.size = sizeof(info)};
    cairn_err rc;

    crn_scr_found_close(&s->found);
    s->found.id = id;
    rc = crn_face_result(cairn_version_info(s->face.session, CRN_SCR_CHECKPOINTS, id, &info), ei);
    s->found.old_ranks = info.ranks;
    if (rc == CAIRN_OK)
        rc = check_tables(s, ei);
    return rc;
}

/* Ranks that had no table of their own learn the name of the dataset. */
static cairn_err share_name(struct crn_scr *s, struct crn_errinfo *ei)
{
    char name[CRN_SCR_NAME];

    memcpy(name, s->found.own.name, sizeof(name));
    if (MPI_Bcast(name, (int)sizeof(name), MPI_CHAR, 0, s->comm) != MPI_SUCCESS)
        return crn_fail(ei, CAIRN_EMPI, 0, "cannot send the dataset's name to all ranks");
    memcpy(s->found.own.name, name, sizeof(name));
    return CAIRN_OK;
}

cairn_err crn_scr_search(struct crn_scr *s, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    int64_t id;

    while (rc == CAIRN_OK) {
        struct crn_errinfo why = {0};
        cairn_err bad;

        rc = crn_face_find(&s->face, CRN_SCR_CHECKPOINTS, s->bound, &id, ei);
        if (rc != CAIRN_OK)
            break;
        bad = crn_face_agree(s->comm, open_found(s, id, &why), &why);
        if (bad == CAIRN_OK)
            return share_name(s, ei);
        if (s->rank == 0 || bad != CAIRN_OK)
            crn_log(&s->face.log, s->rank == 0 ? CRN_WARN : CRN_INFO,
                    "dataset %" PRId64 " cannot be used, trying an older one: %s", id, why.msg);
        s->bound = id - 1;
    }
    crn_scr_found_close(&s->found);
    return rc == CAIRN_ENOENT ? CAIRN_OK : rc;
}

/* Files. --------------------------------------------------------------------------------------- */

/* The table that has the file, and its rank. */
static const struct crn_scr_file *find_file(struct crn_scr *s, const char *path, int *ret_rank)
{
    struct crn_scr_found *f = &s->found;
    const struct crn_scr_file *file = crn_scr_dataset_find(&f->own, path);
    int old;

    *ret_rank = s->rank;
    if (file != NULL)
        return file;
    if (f->other_rank >= 0 && (file = crn_scr_dataset_find(&f->other, path)) != NULL) {
        *ret_rank = f->other_rank;
        return file;
    }
    for (old = 0; old < f->old_ranks; old++) {
        struct crn_errinfo ignored = {0};

        if (old == s->rank || old == f->other_rank)
            continue;
        crn_scr_dataset_free(&f->other);
        f->other_rank = -1;
        if (crn_scr_table(s, CRN_SCR_CHECKPOINTS, f->id, old, &f->other, &ignored) != CAIRN_OK)
            continue;
        f->other_rank = *ret_rank = old;
        file = crn_scr_dataset_find(&f->other, path);
        if (file != NULL)
            return file;
    }
    return NULL;
}

cairn_err crn_scr_route_old(struct crn_scr *s, const char *name, char *file, struct crn_errinfo *ei)
{
    char cwd[PATH_MAX], path[PATH_MAX];
    const struct crn_scr_file *f;
    const char *inside;
    int is_direct, old;
    cairn_err rc;

    if (getcwd(cwd, sizeof(cwd)) == NULL)
        return crn_fail_errno(ei, errno, "the current directory");
    rc = crn_scr_path(s->cfg.prefix, cwd, name, path, &inside, ei);
    if (rc != CAIRN_OK)
        return rc;
    f = find_file(s, inside, &old);
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOENT, 0, "dataset '%s' has no file '%s'", s->found.own.name,
                        inside);
    is_direct = old == s->rank ? s->found.own.is_direct : s->found.other.is_direct;
    if (!is_direct)
        return crn_face_result(cairn_file_restore(s->face.session, CRN_SCR_CHECKPOINTS, s->found.id,
                                                  old, f->stored, file, SCR_MAX_FILENAME),
                               ei);
    if (strlen(path) >= SCR_MAX_FILENAME)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path '%.100s...' is too long", path);
    memcpy(file, path, strlen(path) + 1);
    return CAIRN_OK;
}

/* SCR's functions. ----------------------------------------------------------------------------- */

CRN_FACE_API int SCR_Have_restart(int *flag, char *name)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);

    if (s == NULL || flag == NULL)
        return 1;
    *flag = s->found.id >= 0;
    if (*flag && name != NULL)
        memcpy(name, s->found.own.name, strlen(s->found.own.name) + 1);
    return SCR_SUCCESS;
}

CRN_FACE_API int SCR_Start_restart(char *name)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    if (s == NULL)
        return 1;
    if (s->found.id < 0)
        return crn_scr_end(s, __func__,
                           crn_fail(&ei, CAIRN_ESTATE, 0, "there is no checkpoint to restart from"),
                           &ei);
    if (name != NULL)
        memcpy(name, s->found.own.name, strlen(s->found.own.name) + 1);
    s->state = CRN_SCR_RESTART;
    return SCR_SUCCESS;
}

/* Collective. */
static cairn_err complete_restart(struct crn_scr *s, int valid, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    int64_t id = s->found.id;
    cairn_err bad, rc;

    s->state = CRN_SCR_IDLE;
    bad = crn_face_agree(
        s->comm, valid ? CAIRN_OK : crn_fail(&why, CAIRN_EREJECTED, 0, "this rank cannot use it"),
        &why);
    if (bad == CAIRN_OK) {
        crn_scr_found_close(&s->found);
        return CAIRN_OK;
    }
    if (s->rank == 0 && cairn_reject(s->face.session, CRN_SCR_CHECKPOINTS, id,
                                     "SCR_Complete_restart(0)") != CAIRN_OK)
        crn_log(&s->face.log, CRN_WARN, "%s", cairn_last_error());
    s->bound = id - 1;
    rc = crn_scr_search(s, ei);
    return rc != CAIRN_OK
               ? rc
               : crn_fail(ei, bad, 0, "dataset %" PRId64 " is marked as bad: %s", id, why.msg);
}

CRN_FACE_API int SCR_Complete_restart(int valid)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_RESTART);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, complete_restart(s, valid, &ei), &ei);
}
