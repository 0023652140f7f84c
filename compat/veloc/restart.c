/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart. Cairn agrees on a version that every rank can read. Recovery is then local, and verifies the
 * data as it reads; a rank that finds damage rejects the version, so the next VELOC_Restart_test passes
 * over it on all ranks. A rank reads the shard of the same
 * rank of the run that wrote the version, which may have had more ranks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "client/open.h"
#include "veloc.h"

/* Can each process read what the process of its rank wrote? */
static cairn_err has_enough_ranks(struct crn_vlc_client *c, const char *cairn_name, int version,
                                  struct crn_errinfo *ei)
{
    struct cairn_version_info info = {.size = sizeof(info)};
    cairn_err rc;

    if (crn_session_holds(c->face.session, cairn_name, version))
        return CAIRN_OK; /* of this run, and perhaps not committed */
    rc = crn_face_result(cairn_version_info(c->face.session, cairn_name, version, &info), ei);
    if (rc == CAIRN_OK && cairn_ranks(c->face.session) > info.ranks)
        rc = crn_fail(ei, CAIRN_EMISMATCH, 0,
                      "%s@%d was written by %d processes and cannot be restored by %d", cairn_name,
                      version, (int)info.ranks, cairn_ranks(c->face.session));
    return rc;
}

static cairn_err restart_test(struct crn_vlc_client *c, const char *name, int version, int *ret,
                              struct crn_errinfo *ei)
{
    char cairn_name[CAIRN_MAX_NAME];
    struct crn_errinfo why = {0};
    int64_t bound = version == 0 ? INT_MAX : version;
    int64_t found = 0;
    int is_passed_over = 0;
    cairn_err rc;

    rc = crn_vlc_name(name, c->id, cairn_name, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (version < 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "version %d of '%s' is negative", version, name);
    do {
        crn_err_clear(&why);
        rc = crn_face_result(cairn_find(c->face.session, cairn_name, bound, &found), ei);
        if (rc == CAIRN_OK)
            rc = has_enough_ranks(c, cairn_name, (int)found, &why);
        if (rc == CAIRN_EMISMATCH) {
            crn_log(&c->face.log, CRN_WARN, "%s", why.msg);
            is_passed_over = 1;
        }
        bound = found - 1;
    } while (rc == CAIRN_EMISMATCH);
    crn_err_keep(ei, &why);
    if (rc == CAIRN_OK)
        *ret = (int)found;
    if (rc == CAIRN_ENOENT && !is_passed_over) /* the program will start from the beginning */
        crn_session_succeeds(c->face.session, cairn_name);
    return rc;
}

void crn_vlc_restart_close(struct crn_vlc_restart *r)
{
    free(r->group);
    memset(r, 0, sizeof(*r));
}

static cairn_err restart_begin(struct crn_vlc_client *c, const char *name, int version,
                               struct crn_errinfo *ei)
{
    struct crn_vlc_restart *r = &c->restart;
    char cairn_name[CAIRN_MAX_NAME];
    cairn_err rc;

    if (c->phase.is_open)
        return crn_fail(ei, CAIRN_ESTATE, 0, "call VELOC_Checkpoint_end first");
    rc = crn_vlc_name(name, c->id, cairn_name, ei);
    if (rc == CAIRN_OK && version < 0)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "version %d of '%s' is negative", version, name);
    if (rc == CAIRN_OK)
        rc = crn_face_result(cairn_find_version(c->face.session, cairn_name, version), ei);
    if (rc == CAIRN_OK)
        rc = has_enough_ranks(c, cairn_name, version, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_vlc_restart_close(r);
    r->group = strdup(name);
    if (r->group == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a restart");
    memcpy(r->name, cairn_name, sizeof(r->name));
    r->version = version;
    r->is_open = 1;
    crn_vlc_hints_name(c, cairn_name);
    return CAIRN_OK;
}

static cairn_err must_be_open(const struct crn_vlc_client *c, struct crn_errinfo *ei)
{
    return c->restart.is_open ? CAIRN_OK
                              : crn_fail(ei, CAIRN_ESTATE, 0, "call VELOC_Restart_begin first");
}

/* Recover. ------------------------------------------------------------------------------------- */

/* The regions to read, by name, declared to Cairn with their stored sizes. */
struct wanted {
    char (*name)[CAIRN_MAX_NAME];
    const char **list; /* NULL at the end */
    size_t n;
};

static void wanted_free(struct wanted *w)
{
    free(w->name);
    free(w->list);
}

static cairn_err restart_add(struct wanted *w, const char *name, struct crn_errinfo *ei)
{
    void *grown = realloc(w->name, (w->n + 1) * sizeof(*w->name));

    if (grown == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions", w->n + 1);
    w->name = grown;
    memcpy(w->name[w->n++], name, strlen(name) + 1);
    return CAIRN_OK;
}

/* One stored region: is it wanted, and is there memory for it? */
static cairn_err restart_match(struct crn_vlc_client *c, const char *name,
                               const struct cairn_array *stored, struct wanted *w,
                               struct crn_errinfo *ei)
{
    uint64_t bytes = stored->dims[0] * cairn_type_size(stored->type);
    const struct crn_vlc_group *g = crn_vlc_group_of(&c->regions, c->restart.group);
    const struct crn_vlc_region *r = crn_vlc_find(g, atoi(name));
    cairn_err rc;

    if (r == NULL)
        return crn_fail(ei, CAIRN_EMISMATCH, 0, "id %s of %s@%d is not protected", name,
                        c->restart.group, c->restart.version);
    if (r->bytes < bytes)
        return crn_fail(ei, CAIRN_EMISMATCH, 0,
                        "id %s of %s@%d has %llu bytes, the protected memory only %llu", name,
                        c->restart.group, c->restart.version, (unsigned long long)bytes,
                        (unsigned long long)r->bytes);
    rc = crn_face_result(
        cairn_protect(c->face.session, name, r->ptr, stored->type, stored->dims[0]), ei);
    return rc != CAIRN_OK ? rc : restart_add(w, name, ei);
}

static cairn_err match_all(struct crn_vlc_client *c, int mode, const int *ids, int id_count,
                           struct wanted *w, struct crn_errinfo *ei)
{
    struct cairn_array a = {.size = sizeof(a)};
    char name[CAIRN_MAX_NAME];
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = 0; rc == CAIRN_OK; i++) {
        rc = cairn_region_at(c->face.session, c->restart.name, c->restart.version,
                             cairn_rank(c->face.session), i, name, sizeof(name), &a);
        if (rc == CAIRN_ENOENT)
            break;
        rc = crn_face_result(rc, ei);
        if (rc == CAIRN_OK && crn_vlc_takes(mode, ids, id_count, atoi(name)))
            rc = restart_match(c, name, &a, w, ei);
    }
    return rc == CAIRN_ENOENT ? CAIRN_OK : rc;
}

static cairn_err restart_recover(struct crn_vlc_client *c, int mode, const int *ids, int id_count,
                                 struct crn_errinfo *ei)
{
    struct wanted w = {0};
    cairn_err rc;
    size_t i;

    rc = must_be_open(c, ei);
    if (rc == CAIRN_OK)
        rc = crn_vlc_check_mode(mode, ids, id_count, ei);
    if (rc == CAIRN_OK)
        rc = match_all(c, mode, ids, id_count, &w, ei);
    if (rc == CAIRN_OK) {
        w.list = calloc(w.n + 1, sizeof(*w.list));
        if (w.list == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu regions", w.n);
    }
    for (i = 0; rc == CAIRN_OK && i < w.n; i++)
        w.list[i] = w.name[i];
    if (rc == CAIRN_OK)
        rc =
            crn_face_result(cairn_restore_from(c->face.session, c->restart.name, c->restart.version,
                                               cairn_rank(c->face.session), w.list),
                            ei);
    if (rc == CAIRN_EDAMAGED &&
        cairn_reject(c->face.session, c->restart.name, c->restart.version, ei->msg) != CAIRN_OK)
        crn_log(&c->face.log, CRN_WARN, "%s", cairn_last_error());
    wanted_free(&w);
    return rc;
}

static cairn_err size_of(struct crn_vlc_client *c, int id, int *ret, struct crn_errinfo *ei)
{
    struct cairn_array a = {.size = sizeof(a)};
    uint64_t bytes = 0;
    char name[16];
    cairn_err rc;

    rc = must_be_open(c, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)snprintf(name, sizeof(name), "%d", id);
    rc = crn_face_result(cairn_region_info(c->face.session, c->restart.name, c->restart.version,
                                           cairn_rank(c->face.session), name, &a),
                         ei);
    if (rc == CAIRN_OK)
        bytes = a.dims[0] * cairn_type_size(a.type);
    if (bytes > INT_MAX)
        return crn_fail(ei, CAIRN_ELIMIT, 0, "id %d has %llu bytes, more than INT_MAX", id,
                        (unsigned long long)bytes);
    if (rc == CAIRN_OK)
        *ret = (int)bytes;
    return rc;
}

cairn_err crn_vlc_route_old(struct crn_vlc_client *c, struct crn_errinfo *ei)
{
    struct crn_vlc_restart *r = &c->restart;
    cairn_err rc;

    if (r->path[0] != '\0')
        return CAIRN_OK;
    rc = crn_face_result(cairn_file_restore(c->face.session, r->name, r->version,
                                            cairn_rank(c->face.session), CRN_VLC_FILE, r->path,
                                            VELOC_MAX_NAME),
                         ei);
    if (rc != CAIRN_OK)
        r->path[0] = '\0';
    return rc;
}

/* VELOC's functions. --------------------------------------------------------------------------- */

VELOC_API int VELOC_Restart_test(const char *name, int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    int found = VELOC_FAILURE;
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    rc = restart_test(c, name, version, &found, &ei);
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT) /* "none" is an answer, not an error */
        (void)crn_vlc_end(c, __func__, rc, &ei);
    return found;
}

VELOC_API int VELOC_Restart_begin(const char *name, int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, restart_begin(c, name, version, &ei), &ei);
}

VELOC_API int VELOC_Recover_selective(int mode, int *ids, int id_count)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, restart_recover(c, mode, ids, id_count, &ei), &ei);
}

VELOC_API int VELOC_Recover_mem(void)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL
               ? VELOC_FAILURE
               : crn_vlc_end(c, __func__, restart_recover(c, VELOC_RECOVER_ALL, NULL, 0, &ei), &ei);
}

VELOC_API int VELOC_Recover_size(int id)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    int bytes = -1;
    cairn_err rc;

    if (c == NULL)
        return -1;
    rc = size_of(c, id, &bytes, &ei);
    if (rc != CAIRN_OK && rc != CAIRN_ENOENT)
        (void)crn_vlc_end(c, __func__, rc, &ei);
    return bytes;
}

VELOC_API int VELOC_Restart_end(int success)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    (void)success; /* the program chooses the version to try next */
    return c == NULL ? VELOC_FAILURE : crn_vlc_end(c, __func__, must_be_open(c, &ei), &ei);
}

VELOC_API int VELOC_Restart(const char *name, int version)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    rc = restart_begin(c, name, version, &ei);
    if (rc == CAIRN_OK)
        rc = restart_recover(c, VELOC_RECOVER_ALL, NULL, 0, &ei);
    return crn_vlc_end(c, __func__, rc, &ei);
}
