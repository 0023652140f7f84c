/* SPDX-License-Identifier: BSD-3-Clause */
/* Restart: which version, agreed by all ranks and verified. A rank that finds its own shard keeps the
 * verified bytes in its arena, so that restoring (restore.c) is a copy and the PFS is read once. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/reading.h"
#include "client/session.h"

/* Versions. ------------------------------------------------------------------------------------------------ */

void crn_add_local_copies(const cairn_session *s, struct crn_version *v, const char *name,
                          int64_t version)
{
    struct crn_errinfo ei = {0};
    struct crn_names files = {0};
    struct crn_store local;
    char root[CRN_PATH_MAX];
    size_t i;
    int dfd;

    if (s->cfg.local[0] == '\0' || crn_local_root(&s->cfg, root, sizeof(root), &ei) != CAIRN_OK ||
        crn_store_open(s->fs, root, 0, &local, &ei) != CAIRN_OK)
        return;
    if (crn_store_version_dir(&local, name, version, &dfd, &ei) == CAIRN_OK) {
        if (crn_fs_names(s->fs, dfd, name, &files, &ei) == CAIRN_OK)
            for (i = 0; i < files.n; i++)
                if (strncmp(files.name[i], "data-", 5) == 0 &&
                    crn_version_add_copy(v, dfd, files.name[i], &ei) != CAIRN_OK)
                    crn_err_clear(&ei); /* of another capture, or half a file */
        crn_names_free(&files);
        (void)s->fs->close(s->fs, dfd);
    }
    crn_store_close(&local);
}

cairn_err crn_session_version(cairn_session *s, const char *name, int64_t version,
                              struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_track *mine = crn_track_find(s, name, version);
    struct crn_store st;
    cairn_err rc;

    /* Taken by this session and still on its way: it is there in a moment. */
    if (mine != NULL && mine->level < CAIRN_PERSISTENT && mine->error.code == CAIRN_OK &&
        cairn_wait(s, name, version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "%s, continuing", cairn_last_error());

    if (s->open_version != NULL) {
        const struct crn_manifest *m = crn_version_manifest(s->open_version);

        if (m->version == version && strcmp(m->name, name) == 0) {
            *ret = s->open_version;
            return CAIRN_OK;
        }
        crn_version_close(s->open_version);
        s->open_version = NULL;
    }
    rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_version_open(&st, name, version, &s->open_version, ei);
    crn_store_close(&st);
    if (rc != CAIRN_OK)
        return rc;
    crn_add_local_copies(s, s->open_version, name, version);
    *ret = s->open_version;
    return CAIRN_OK;
}

/* The arena as a cache. -------------------------------------------------------------------------------------- */

static int has_files(const struct crn_shard *shard)
{
    uint32_t i;

    for (i = 0; i < shard->nregions; i++)
        if (shard->regions[i].kind == CRN_REGION_FILE)
            return 1;
    return 0;
}

/* Reads this rank's shard, verified, into a slot of the arena. CAIRN_EBUSY or CAIRN_ENOSPC when it
 * has no room. */
static cairn_err load_shard(cairn_session *s, struct crn_version *v, const struct crn_shard *shard,
                            struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    struct crn_slot_info info = {.id = m->id, .version = m->version, .created_ns = 0};
    struct crn_buf descriptor = {0};
    struct crn_image image = {0};
    cairn_err rc;
    uint32_t slot;
    uint32_t i;

    rc = crn_shard_encode(shard, &descriptor, ei);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(shard, descriptor.len, &image, ei);
    if (rc == CAIRN_OK)
        rc = crn_arena_ensure(s, image.bytes, ei);
    if (rc != CAIRN_OK)
        goto out;
    memcpy(info.name, m->name, sizeof(info.name));
    info.descriptor_bytes = descriptor.len;
    info.bytes = info.image_bytes = image.bytes;
    rc = crn_arena_take(s->arena, CRN_SLOT_READING, &info, &slot, ei);
    if (rc != CAIRN_OK)
        goto out;
    memcpy(crn_slot_memory(s->arena, &info), descriptor.data, descriptor.len);
    for (i = 0; rc == CAIRN_OK && i < shard->nregions; i++)
        rc = crn_version_read(v, shard->rank, i, 0, shard->regions[i].bytes,
                              crn_slot_memory(s->arena, &info) + image.at[i], ei);
    (void)crn_slot_move(s->arena, slot, info.id.seq, CRN_SLOT_READING,
                        rc == CAIRN_OK ? CRN_SLOT_READ : CRN_SLOT_FREE);
out:
    crn_image_free(&image);
    crn_buf_free(&descriptor);
    return rc;
}

/* Verifies what this rank answers for: its own shard, or its share of the old ranks. */
static cairn_err check_share(cairn_session *s, struct crn_version *v, struct crn_errinfo *ei)
{
    const struct crn_manifest *m = crn_version_manifest(v);
    const struct crn_shard *shard;
    struct crn_errinfo why = {0};
    cairn_err rc = CAIRN_OK;
    uint32_t r;

    if (m->ranks == s->ranks) {
        if (s->arena != NULL && crn_arena_find(s->arena, &m->id) >= 0)
            return CAIRN_OK; /* still in memory, never written to since */
        rc = crn_version_shard(v, s->rank, &shard, ei);
        if (rc != CAIRN_OK)
            return rc;
        rc = has_files(shard) || crn_tiers_are_open(s) ? CAIRN_ENOSPC
                                                       : load_shard(s, v, shard, &why);
        if (rc != CAIRN_ENOSPC && rc != CAIRN_EBUSY) {
            crn_err_keep(ei, &why);
            return rc;
        }
        return crn_version_check_rank(v, s->rank, NULL, ei);
    }
    for (r = s->rank; rc == CAIRN_OK && r < m->ranks; r += s->ranks)
        rc = crn_version_check_rank(v, r, NULL, ei);
    return rc;
}

/* Finding. ------------------------------------------------------------------------------------------------------ */

struct candidates {
    int64_t *version; /* newest first */
    int64_t n;
    uint64_t bytes; /* of the newest; first rank only */
};

static cairn_err list_on_root(cairn_session *s, const char *name, int64_t bound,
                              struct candidates *ret, struct crn_errinfo *ei)
{
    struct crn_catalog catalog = {0};
    struct crn_store st;
    cairn_err rc;
    size_t i;

    rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, ei);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK; /* no directory: no versions */
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_store_catalog(&st, name, &catalog, ei);
    crn_store_close(&st);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK)
        return rc;
    ret->version = calloc(catalog.n + 1, sizeof(*ret->version));
    if (ret->version == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu versions", catalog.n);
    for (i = catalog.n; rc == CAIRN_OK && i > 0; i--) {
        const struct crn_version_entry *e = &catalog.v[i - 1];

        if (e->version > bound)
            continue;
        if (e->state == CRN_VERSION_OK && ret->n == 0)
            ret->bytes = e->data_bytes;
        if (e->state == CRN_VERSION_OK)
            ret->version[ret->n++] = e->version;
        else if (e->state != CRN_VERSION_PARTIAL)
            crn_log(&s->log, CRN_WARN, "%s@%" PRId64 " is passed over, continuing: %s", name,
                    e->version, e->why);
    }
    crn_catalog_free(&catalog);
    return rc;
}

/* What is still on its way is part of the choice: wait for it. */
static void settle(cairn_session *s)
{
    if (cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "before a restart, continuing: %s", cairn_last_error());
}

static cairn_err list_candidates(cairn_session *s, const char *name, int64_t bound,
                                 struct candidates *ret, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    cairn_err rc = CAIRN_OK;

    memset(ret, 0, sizeof(*ret));
    settle(s);
    rc = s->comm->ops->barrier(s->comm, ei); /* nobody's flush is open any more */
    if (rc != CAIRN_OK)
        return rc;
    if (s->rank == 0)
        rc = list_on_root(s, name, bound, ret, &why);
    crn_err_keep(ei, &why);
    if (rc != CAIRN_OK)
        ret->n = 0;
    rc = crn_agree(s, rc, "listing the versions", ei);
    if (rc == CAIRN_OK)
        rc = s->comm->ops->bcast(s->comm, &ret->n, sizeof(ret->n), 0, ei);
    if (rc == CAIRN_OK && s->rank != 0) {
        ret->version = calloc((size_t)ret->n + 1, sizeof(*ret->version));
        if (ret->version == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%" PRId64 " versions", ret->n);
    }
    rc = crn_agree(s, rc, "listing the versions", ei);
    if (rc == CAIRN_OK && ret->n > 0)
        rc = s->comm->ops->bcast(s->comm, ret->version, (size_t)ret->n * sizeof(*ret->version), 0,
                                 ei);
    return rc;
}

/* Collective: can every rank restore it? */
static cairn_err check_version(cairn_session *s, const char *name, int64_t version,
                               struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_version *v;
    cairn_err rc;

    crn_version_close(s->open_version); /* read it anew: it may have been replaced or repaired */
    s->open_version = NULL;
    rc = crn_session_version(s, name, version, &v, &why);
    if (rc == CAIRN_OK)
        rc = check_share(s, v, &why);
    if (rc != CAIRN_OK) {
        crn_log(&s->log, CRN_WARN, "%s@%" PRId64 " cannot be restored, continuing: %s", name,
                version, why.msg);
        crn_err_keep(ei, &why);
    }
    return crn_agree(s, rc, "verifying the version", ei);
}

static cairn_err find_newest(cairn_session *s, const char *name, int64_t bound,
                             cairn_err (*accept)(cairn_session *, const char *, int64_t, void *,
                                                 struct crn_errinfo *),
                             void *arg, int64_t *ret_version, struct crn_errinfo *ei)
{
    struct crn_reading *turn = NULL;
    struct candidates c;
    cairn_err rc;
    int64_t i;

    rc = crn_check_name("checkpoint", name, ei);
    if (rc == CAIRN_OK)
        rc = list_candidates(s, name, bound, &c, ei);
    else
        return rc;
    if (rc == CAIRN_OK && c.n > 0)
        rc = crn_reading_begin(s, c.bytes, &turn, ei);
    for (i = 0; rc == CAIRN_OK && i < c.n; i++) {
        struct crn_errinfo why = {0};

        if (check_version(s, name, c.version[i], &why) == CAIRN_OK &&
            (accept == NULL || accept(s, name, c.version[i], arg, &why) == CAIRN_OK)) {
            *ret_version = c.version[i];
            break;
        }
        if (why.code == CAIRN_EMISMATCH || why.code == CAIRN_EMPI) {
            /* An older version would not fit better. */
            crn_err_keep(ei, &why);
            rc = why.code;
        }
    }
    if (rc == CAIRN_OK && i == c.n)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "'%s' holds no version of '%s' that can be restored%s",
                      s->cfg.persistent, name, c.n > 0 ? "; see 'cairn explain'" : "");
    crn_reading_end(turn);
    free(c.version);
    return rc;
}

cairn_err cairn_find(cairn_session *s, const char *name, int64_t not_newer_than,
                     int64_t *ret_version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, find_newest(s, name, not_newer_than, NULL, NULL, ret_version, &ei));
}

/* Collective: does every rank have it in memory? */
static int all_hold(cairn_session *s, const char *name, int64_t version)
{
    int64_t holds = crn_own_shard(s, name, version) != NULL;
    struct crn_errinfo ignored = {0};

    return s->comm->ops->allreduce(s->comm, &holds, 1, CRN_COMM_MIN, &ignored) == CAIRN_OK && holds;
}

cairn_err cairn_find_version(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};
    struct crn_reading *turn = NULL;
    struct candidates c = {0};
    cairn_err rc;

    rc = crn_check_name("checkpoint", name, &ei);
    if (rc == CAIRN_OK && all_hold(s, name, version))
        return CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = list_candidates(s, name, version, &c, &ei);
    if (rc == CAIRN_OK && (c.n == 0 || c.version[0] != version))
        rc = crn_fail(&ei, CAIRN_ENOENT, 0,
                      "%s@%" PRId64 " is not there, not whole or rejected; see 'cairn explain %s'",
                      name, version, name);
    if (rc == CAIRN_OK)
        rc = crn_reading_begin(s, c.bytes, &turn, &ei);
    if (rc == CAIRN_OK)
        rc = check_version(s, name, version, &ei);
    crn_reading_end(turn);
    free(c.version);
    return crn_api_end(&ei, rc);
}

cairn_err cairn_reject(cairn_session *s, const char *name, int64_t version, const char *reason)
{
    struct crn_errinfo ei = {0};
    struct crn_store st;
    cairn_err rc;

    rc = crn_check_name("checkpoint", name, &ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, &ei);
    if (rc == CAIRN_OK) {
        rc = crn_store_reject(&st, name, version, reason != NULL ? reason : "", &ei);
        crn_store_close(&st);
    }
    return crn_api_end(&ei, rc);
}

/* Both in one. -------------------------------------------------------------------------------------- */

static cairn_err restore_everywhere(cairn_session *s, const char *name, int64_t version, void *arg,
                                    struct crn_errinfo *ei)
{
    const char *const *const *regions = arg;
    cairn_err rc = crn_restore(s, name, version, CAIRN_OWN_RANK, *regions, ei);

    if (rc != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "%s@%" PRId64 " was not restored, continuing: %s", name, version,
                ei->msg);
    return crn_agree(s, rc, "restoring", ei);
}

cairn_err cairn_restart(cairn_session *s, const char *name, const char *const *regions,
                        int64_t *ret_version)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(
        &ei, find_newest(s, name, CAIRN_NEWEST, restore_everywhere, &regions, ret_version, &ei));
}
