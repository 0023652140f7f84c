/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes a stored version before a restore; and drops local copies. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/session.h"

cairn_err cairn_version_info(cairn_session *s, const char *name, int64_t version,
                             struct cairn_version_info *ret_info)
{
    struct cairn_version_info *ret = ret_info;
    struct crn_errinfo ei = {0};
    const struct crn_manifest *m;
    struct crn_version *v;
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_struct("ret_info", ret, "cairn_version_info", sizeof(*ret), &ei);
    if (rc == CAIRN_OK)
        rc = crn_session_version(s, name, version, &v, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    m = crn_version_manifest(v);
    ret->version = m->version;
    ret->ranks = (int32_t)m->ranks;
    ret->files = (int32_t)m->nfiles;
    ret->bytes = m->data_bytes;
    ret->created_ns = (int64_t)m->created_ns;
    return CAIRN_OK;
}

static cairn_err open_shard(cairn_session *s, const char *name, int64_t version, int old_rank,
                            const struct cairn_array *ret, const struct crn_shard **ret_shard,
                            struct crn_errinfo *ei)
{
    struct crn_version *v;
    uint32_t rank;
    cairn_err rc;

    rc = crn_arg_shard(s, name, version, old_rank, ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_struct("ret_array", ret, "cairn_array", sizeof(*ret), ei);
    if (rc != CAIRN_OK)
        return rc;
    rank = old_rank == CAIRN_OWN_RANK ? s->rank : (uint32_t)old_rank;
    *ret_shard = rank == s->rank ? crn_restore_own_shard(s, name, version) : NULL;
    if (*ret_shard != NULL)
        return CAIRN_OK;
    rc = crn_session_version(s, name, version, &v, ei);
    if (rc == CAIRN_OK)
        rc = crn_version_shard(v, rank, ret_shard, ei);
    return rc;
}

static void look_describe(const struct crn_region *r, struct cairn_array *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->size = sizeof(*ret);
    ret->type = (cairn_type)r->type;
    ret->ndims = r->ndims;
    memcpy(ret->dims, r->dims, sizeof(ret->dims));
    memcpy(ret->global_dims, r->global_dims, sizeof(ret->global_dims));
    memcpy(ret->offset, r->offset, sizeof(ret->offset));
}

cairn_err cairn_region_info(cairn_session *s, const char *name, int64_t version, int old_rank,
                            const char *region, struct cairn_array *ret_array)
{
    struct crn_errinfo ei = {0};
    const struct crn_shard *shard;
    cairn_err rc;
    int64_t i;

    rc = crn_arg_pointer("region", region, &ei);
    if (rc == CAIRN_OK)
        rc = open_shard(s, name, version, old_rank, ret_array, &shard, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    i = crn_shard_find(shard, CRN_REGION_MEMORY, region);
    if (i < 0)
        return crn_api_end(&ei, crn_fail(&ei, CAIRN_ENOENT, 0,
                                         "rank %u of %s@%" PRId64 " has no region '%s'",
                                         shard->rank, name, version, region));
    look_describe(&shard->regions[i], ret_array);
    return CAIRN_OK;
}

cairn_err cairn_region_at(cairn_session *s, const char *name, int64_t version, int old_rank,
                          uint32_t index, char *region, size_t region_size,
                          struct cairn_array *ret_array)
{
    struct crn_errinfo ei = {0};
    const struct crn_shard *shard;
    cairn_err rc;
    uint32_t i;

    rc = crn_arg_text("region", region, region_size, &ei);
    if (rc == CAIRN_OK)
        rc = open_shard(s, name, version, old_rank, ret_array, &shard, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    for (i = 0; i < shard->nregions; i++) {
        const struct crn_region *r = &shard->regions[i];

        if (r->kind != CRN_REGION_MEMORY || index-- > 0)
            continue;
        if ((size_t)snprintf(region, region_size, "%s", r->name) >= region_size)
            return crn_api_end(&ei, crn_fail(&ei, CAIRN_EINVAL, 0,
                                             "the name of region '%s' needs %zu bytes", r->name,
                                             strlen(r->name) + 1));
        look_describe(r, ret_array);
        return CAIRN_OK;
    }
    return crn_api_end(&ei, crn_fail(&ei, CAIRN_ENOENT, 0,
                                     "rank %u of %s@%" PRId64 " has no more regions", shard->rank,
                                     name, version));
}

cairn_err cairn_list(cairn_session *s, const char *name, int64_t *versions, size_t max,
                     size_t *ret_n)
{
    struct crn_catalog catalog = {0};
    struct crn_errinfo ei = {0};
    struct crn_store st;
    size_t n = 0;
    cairn_err rc;
    size_t i;

    rc = crn_arg_checkpoint(s, name, 0, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_pointer("ret_n", ret_n, &ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    rc = crn_store_catalog(&st, name, &catalog, &ei);
    crn_store_close(&st);
    if (rc == CAIRN_ENOENT) { /* a name without versions has no directory */
        *ret_n = 0;
        return CAIRN_OK;
    }
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    for (i = catalog.n; i > 0; i--) {
        if (catalog.v[i - 1].state != CRN_VERSION_OK)
            continue;
        if (versions != NULL && n < max)
            versions[n] = catalog.v[i - 1].version;
        n++;
    }
    crn_catalog_free(&catalog);
    *ret_n = n;
    return CAIRN_OK;
}

cairn_err cairn_remove(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};
    struct crn_store st;
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, &ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(s->fs, s->cfg.persistent, 0, &st, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    if (s->open_version != NULL) { /* it may be this one */
        crn_version_close(s->open_version);
        s->open_version = NULL;
    }
    rc = crn_store_remove(&st, name, version, &ei);
    crn_store_close(&st);
    return crn_api_end(&ei, rc);
}

cairn_err cairn_drop_local(cairn_session *s, const char *name)
{
    struct crn_errinfo ei = {0};
    struct crn_errinfo why = {0};
    char root[CRN_PATH_MAX];
    int tries = 0;
    cairn_err rc;
    int dfd;

    rc = crn_arg_checkpoint(s, name, 0, &ei);
    if (rc != CAIRN_OK || s->cfg.local[0] == '\0')
        return crn_api_end(&ei, rc);
    crn_version_close(s->open_version); /* it may read those copies */
    s->open_version = NULL;
    rc = crn_rundir_local_root(crn_fs_posix(), &s->cfg, root, sizeof(root), &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    dfd = s->fs->openat(s->fs, AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0);
    rc = crn_fs_check(dfd, &ei, "open '%s'", root);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    /* The other ranks of the node remove it too, and a flush may add a new copy meanwhile:
     * retry. */
    do {
        crn_err_clear(&why);
        rc = crn_fs_remove_tree(s->fs, dfd, name, &why);
    } while ((why.sys_errno == ENOENT || why.sys_errno == ENOTEMPTY) && ++tries < 16);
    (void)s->fs->close(s->fs, dfd);
    if (why.sys_errno == ENOENT || why.sys_errno == ENOTEMPTY)
        return CAIRN_OK;
    crn_err_keep(&ei, &why);
    return crn_api_end(&ei, rc);
}
