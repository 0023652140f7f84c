/* SPDX-License-Identifier: BSD-3-Clause */
/* Datasets by name. The store is the index: rank 0 reads the names of its versions when somebody
 * first asks for one, and keeps the list up to date. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scr.h"
#include "scr_impl.h"

void crn_scr_known_add(struct crn_scr *s, int64_t id, const struct crn_scr_dataset *d)
{
    struct crn_scr_known *grown;
    size_t at = s->nknown;

    if (s->rank != 0)
        return;
    grown = realloc(s->known, (s->nknown + 1) * sizeof(*grown));
    if (grown == NULL)
        return; /* the dataset cannot be addressed by name in this run */
    s->known = grown;
    while (at > 0 && grown[at - 1].id > id)
        at--;
    memmove(&grown[at + 1], &grown[at], (s->nknown - at) * sizeof(*grown));
    s->nknown++;
    grown[at] = (struct crn_scr_known){
        .id = id, .flags = d->flags, .is_direct = d->is_direct, .is_flushed = d->is_flushed};
    memcpy(grown[at].name, d->name, sizeof(d->name));
}

static int index_knows(const struct crn_scr *s, int64_t id)
{
    size_t i;

    for (i = 0; i < s->nknown; i++)
        if (s->known[i].id == id)
            return 1;
    return 0;
}

/* Rank 0: reads the names of one kind of datasets. */
static cairn_err index_learn(struct crn_scr *s, const char *store_name, struct crn_errinfo *ei)
{
    int64_t *ids = NULL;
    size_t n = 0, room, i;
    cairn_err rc;

    rc = crn_face_result(cairn_list(s->face.session, store_name, NULL, 0, &n), ei);
    room = n;
    if (rc == CAIRN_OK && n > 0) {
        ids = calloc(n, sizeof(*ids));
        rc = ids == NULL
                 ? crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu datasets", n)
                 : crn_face_result(cairn_list(s->face.session, store_name, ids, room, &n), ei);
    }
    for (i = 0; rc == CAIRN_OK && i < n && i < room; i++) {
        struct crn_errinfo why = {0};
        struct crn_scr_dataset d;

        if (index_knows(s, ids[i]))
            continue;
        if (crn_scr_table(s, store_name, ids[i], 0, &d, &why) != CAIRN_OK) {
            crn_log(&s->face.log, CRN_DEBUG, "dataset %lld has no name: %s", (long long)ids[i],
                    why.msg);
            continue;
        }
        crn_scr_known_add(s, ids[i], &d);
        crn_scr_dataset_free(&d);
    }
    free(ids);
    return rc;
}

static cairn_err index_know(struct crn_scr *s, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;

    if (s->has_known)
        return CAIRN_OK;
    rc = index_learn(s, CRN_SCR_CHECKPOINTS, ei);
    if (rc == CAIRN_OK)
        rc = index_learn(s, CRN_SCR_OUTPUTS, ei);
    s->has_known = rc == CAIRN_OK;
    return rc;
}

cairn_err crn_scr_lookup(struct crn_scr *s, const char *name, struct crn_scr_known *ret,
                         struct crn_errinfo *ei)
{
    cairn_err rc = s->rank == 0 ? index_know(s, ei) : CAIRN_OK;
    size_t i;

    memset(ret, 0, sizeof(*ret));
    ret->id = -1;
    for (i = 0; rc == CAIRN_OK && i < s->nknown; i++)
        if (strcmp(s->known[i].name, name) == 0)
            *ret = s->known[i];
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(ret, (int)sizeof(*ret), MPI_BYTE, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send a dataset's number to all ranks");
    return rc;
}

/* Removing. ------------------------------------------------------------------------------------ */

/* Removes the files of one rank from the prefix, and directories that are empty then. */
static void remove_files(const struct crn_scr *s, const struct crn_scr_dataset *d)
{
    char path[PATH_MAX];
    size_t i;

    for (i = 0; i < d->n; i++) {
        char *slash;

        (void)snprintf(path, sizeof(path), "%s/%s", s->cfg.prefix, d->file[i].path);
        if (unlink(path) != 0 && errno != ENOENT)
            crn_log(&s->face.log, CRN_WARN, "cannot remove '%s': %s", path, strerror(errno));
        while ((slash = strrchr(path, '/')) != NULL && slash > path + strlen(s->cfg.prefix)) {
            *slash = '\0';
            if (rmdir(path) != 0)
                break;
        }
    }
}

cairn_err crn_scr_forget(struct crn_scr *s, const struct crn_scr_known *k, int with_files,
                         struct crn_errinfo *ei)
{
    struct cairn_version_info info = {.size = sizeof(info)};
    const char *store_name = crn_scr_store_name(k->flags);
    struct crn_scr_dataset *tables = NULL;
    cairn_err rc = CAIRN_OK;
    int64_t id = k->id;
    int n = 0;
    size_t i;

    if (with_files && cairn_version_info(s->face.session, store_name, id, &info) == CAIRN_OK)
        tables = calloc((size_t)info.ranks, sizeof(*tables));
    for (n = 0; tables != NULL && rc == CAIRN_OK && n < info.ranks; n++)
        rc = crn_scr_table(s, store_name, id, n, &tables[n], ei);
    /* First the version: no crash may leave one whose files are gone. */
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_remove(s->face.session, store_name, id), ei);
    for (n = 0; tables != NULL && n < info.ranks; n++) {
        if (rc == CAIRN_OK)
            remove_files(s, &tables[n]);
        crn_scr_dataset_free(&tables[n]);
    }
    free(tables);
    for (i = 0; i < s->nknown && s->known[i].id != id; i++)
        ;
    if (rc == CAIRN_OK && i < s->nknown)
        memmove(&s->known[i], &s->known[i + 1], (--s->nknown - i) * sizeof(*s->known));
    return rc;
}

void crn_scr_window(struct crn_scr *s)
{
    uint64_t cached = s->cfg.cache_size > 2 ? s->cfg.cache_size : 2;
    struct crn_errinfo ei = {0};
    uint64_t seen = 0;
    size_t i;

    if (s->rank != 0 || (s->cfg.is_direct && s->cfg.prefix_size == 0) ||
        index_know(s, &ei) != CAIRN_OK)
        return;
    for (i = s->nknown; i > 0; i--) {
        const struct crn_scr_known k = s->known[i - 1];
        int is_old = s->cfg.prefix_size > 0 && seen >= s->cfg.prefix_size;
        int was_cached = !k.is_flushed && seen >= cached;

        if (!(k.flags & SCR_FLAG_CHECKPOINT))
            continue;
        seen++;
        if ((is_old && !(k.flags & SCR_FLAG_OUTPUT)) || was_cached) {
            crn_err_clear(&ei);
            if (crn_scr_forget(s, &k, is_old, &ei) != CAIRN_OK)
                crn_log(&s->face.log, CRN_DEBUG, "'%s' stays: %s", k.name, ei.msg);
        }
    }
}

/* SCR's functions. ----------------------------------------------------------------------------- */

/* Collective. What drop and delete share. */
static cairn_err take_away(struct crn_scr *s, const char *name, int with_files,
                           struct crn_errinfo *ei)
{
    struct crn_scr_known k;
    cairn_err rc;

    if (name == NULL || strlen(name) >= CRN_SCR_NAME)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of the dataset is not valid");
    crn_scr_settle(s, 1);
    rc = crn_scr_lookup(s, name, &k, ei);
    if (rc == CAIRN_OK && k.id < 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "there is no dataset '%s'", name);
    while (rc == CAIRN_OK && k.id >= 0) { /* older ones may have the same name */
        if (s->rank == 0)
            rc = crn_scr_forget(s, &k, with_files, ei);
        rc = crn_face_agree(s->comm, rc, ei);
        if (rc == CAIRN_OK && k.id == s->unflushed)
            s->unflushed = -1;
        if (rc == CAIRN_OK)
            rc = crn_scr_lookup(s, name, &k, ei);
    }
    if (rc == CAIRN_OK && s->found.id >= 0 && strcmp(s->found.own.name, name) == 0) {
        crn_scr_found_close(&s->found);
        rc = crn_scr_search(s, ei); /* SCR_Have_restart offers the next one */
    }
    return rc;
}

CRN_FACE_API int SCR_Drop(const char *name)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, take_away(s, name, 0, &ei), &ei);
}

CRN_FACE_API int SCR_Delete(const char *name)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, take_away(s, name, 1, &ei), &ei);
}

static cairn_err index_current(struct crn_scr *s, const char *name, struct crn_errinfo *ei)
{
    struct crn_scr_known k;
    cairn_err rc;

    if (name == NULL || strlen(name) >= CRN_SCR_NAME)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the name of the dataset is not valid");
    rc = crn_scr_lookup(s, name, &k, ei);
    if (rc == CAIRN_OK && k.id < 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no dataset '%s'", name);
    if (rc != CAIRN_OK)
        return rc;
    crn_scr_found_close(&s->found);
    s->bound = k.id;
    return crn_scr_search(s, ei);
}

CRN_FACE_API int SCR_Current(const char *name)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    return s == NULL ? 1 : crn_scr_end(s, __func__, index_current(s, name, &ei), &ei);
}
