/* SPDX-License-Identifier: BSD-3-Clause */
/* File mode: the application writes a file at a path in the spool and hands it over. The checkpoint
 * renames it, so that later writes to the path cannot reach it, and flushes it in place, without a
 * copy. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session.h"

#define COPY_BLOCK ((size_t)1 << 20)

static void routed_dir(const cairn_session *s, const char *name, int64_t version, char *dir,
                       size_t size)
{
    (void)snprintf(dir, size, "r-%u-%s-%" PRId64, s->rank, name, version);
}

static cairn_err give_path(const cairn_session *s, const char *dir, const char *file, char *path,
                           size_t size, struct crn_errinfo *ei)
{
    int n = snprintf(path, size, "%s/%s/%s", s->dir.spool, dir, file);

    if (n < 0 || (size_t)n >= size)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path of '%s' needs %d bytes", file, n + 1);
    return CAIRN_OK;
}

static cairn_err make_dir(const cairn_session *s, const char *dir, struct crn_errinfo *ei)
{
    int r = s->fs->mkdirat(s->fs, s->dir.spool_dfd, dir, 0700);

    return r == -EEXIST ? CAIRN_OK
                        : crn_fs_check(r, ei, "create the directory '%s/%s'", s->dir.spool, dir);
}

cairn_err cairn_file_route(cairn_session *s, const char *name, int64_t version, const char *file,
                           char *path, size_t path_size)
{
    char dir[CAIRN_MAX_NAME + 48];
    struct crn_errinfo ei = {0};
    struct crn_routed *r;
    cairn_err rc;

    rc = crn_arg_checkpoint(s, name, version, &ei);
    if (rc == CAIRN_OK)
        rc = crn_check_name("file", file, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_text("path", path, path_size, &ei);
    if (rc == CAIRN_OK && s->held.has_slot && s->held.info.version == version &&
        strcmp(s->held.info.name, name) == 0)
        rc = crn_fail(&ei, CAIRN_ESTATE, 0,
                      "%s@%" PRId64 " is captured already: route its files before cairn_capture",
                      name, version);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    routed_dir(s, name, version, dir, sizeof(dir));
    rc = make_dir(s, dir, &ei);
    if (rc == CAIRN_OK)
        rc = give_path(s, dir, file, path, path_size, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    for (r = s->routed; r != NULL; r = r->next)
        if (r->version == version && strcmp(r->name, name) == 0 && strcmp(r->file, file) == 0)
            return CAIRN_OK;
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return crn_api_end(&ei, crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "route '%s'", file));
    memcpy(r->name, name, strlen(name) + 1);
    memcpy(r->file, file, strlen(file) + 1);
    r->version = version;
    r->next = s->routed;
    s->routed = r;
    return CAIRN_OK;
}

cairn_err crn_files_announce(cairn_session *s, const char *name, int64_t version,
                             struct crn_shard *shard, uint32_t *ret_n, struct crn_errinfo *ei)
{
    const struct crn_routed *r;
    uint32_t n = 0;

    for (r = s->routed; r != NULL; r = r->next) {
        struct crn_region *grown;
        struct crn_region *region;

        if (r->version != version || strcmp(r->name, name) != 0)
            continue;
        grown = realloc(shard->regions, (shard->nregions + (size_t)1) * sizeof(*grown));
        if (grown == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "file '%s'", r->file);
        shard->regions = grown;
        region = &shard->regions[shard->nregions++];
        memset(region, 0, sizeof(*region));
        memcpy(region->name, r->file, sizeof(region->name));
        region->kind = CRN_REGION_FILE;
        region->type = CAIRN_BYTES;
        region->ndims = 1;
        n++;
    }
    *ret_n = n;
    return CAIRN_OK;
}

/* Forgets one routed file of a checkpoint, or all of them (file NULL). */
static void files_forget(cairn_session *s, const char *name, int64_t version, const char *file)
{
    struct crn_routed **link = &s->routed;

    while (*link != NULL) {
        struct crn_routed *r = *link;

        if (r->version == version && strcmp(r->name, name) == 0 &&
            (file == NULL || strcmp(r->file, file) == 0)) {
            *link = r->next;
            free(r);
        } else {
            link = &r->next;
        }
    }
}

void crn_files_abandon(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ignored = {0};
    char dir[CAIRN_MAX_NAME + 48];

    files_forget(s, name, version, NULL);
    routed_dir(s, name, version, dir, sizeof(dir));
    if (crn_fs_remove_tree(s->fs, s->dir.spool_dfd, dir, &ignored) != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", ignored.msg); /* removed with the run's directory */
}

/* Moves one file into the spool and sets the size of its region. */
static cairn_err take_one(cairn_session *s, const char *name, int64_t version, const char *to,
                          struct crn_region *region, struct crn_errinfo *ei)
{
    char dir[CAIRN_MAX_NAME + 48], from[2 * CAIRN_MAX_NAME + 64];
    struct stat st;
    cairn_err rc;

    routed_dir(s, name, version, dir, sizeof(dir));
    (void)snprintf(from, sizeof(from), "%s/%s", dir, region->name);
    rc = crn_fs_check(s->fs->fstatat(s->fs, s->dir.spool_dfd, from, &st), ei,
                      "the routed file '%s' of %s@%" PRId64 " was not written", region->name, name,
                      version);
    if (rc != CAIRN_OK)
        return rc;
    if (!S_ISREG(st.st_mode))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' is not a regular file", region->name);
    region->dims[0] = (uint64_t)st.st_size;
    rc = crn_region_check(region, ei);
    if (rc != CAIRN_OK)
        return rc;
    return crn_fs_check(s->fs->renameat(s->fs, s->dir.spool_dfd, from, s->dir.spool_dfd, to), ei,
                        "take over the file '%s'", region->name);
}

cairn_err crn_files_take(cairn_session *s, const char *name, int64_t version, uint64_t seq,
                         uint32_t first, struct crn_shard *shard, struct crn_errinfo *ei)
{
    char to[CRN_SPOOL_NAME], dir[CAIRN_MAX_NAME + 48];
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    for (i = first; rc == CAIRN_OK && i < shard->nregions; i++) {
        crn_rundir_spool_file_name(s->rank, seq, i, to);
        rc = take_one(s, name, version, to, &shard->regions[i], ei);
        if (rc == CAIRN_OK)
            files_forget(s, name, version, shard->regions[i].name);
    }
    routed_dir(s, name, version, dir, sizeof(dir));
    (void)s->fs->unlinkat(s->fs, s->dir.spool_dfd, dir, AT_REMOVEDIR); /* if empty */
    return rc;
}

void crn_files_free(cairn_session *s)
{
    while (s->routed != NULL) {
        struct crn_routed *r = s->routed;

        s->routed = r->next;
        free(r);
    }
}

/* Restore. ------------------------------------------------------------------------------------- */

static cairn_err write_out(cairn_session *s, struct crn_version *v, uint32_t rank, uint32_t region,
                           uint64_t bytes, int fd, const char *file, struct crn_errinfo *ei)
{
    unsigned char *block = malloc(COPY_BLOCK);
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    if (block == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "file '%s'", file);
    for (at = 0; rc == CAIRN_OK && at < bytes; at += COPY_BLOCK) {
        size_t n = bytes - at < COPY_BLOCK ? (size_t)(bytes - at) : COPY_BLOCK;

        rc = crn_version_read(v, rank, region, at, n, block, ei);
        if (rc == CAIRN_OK)
            rc = crn_fs_write_all(s->fs, fd, block, n, at, file, ei);
    }
    free(block);
    return rc;
}

static cairn_err bring_back(cairn_session *s, const char *name, int64_t version, uint32_t rank,
                            const char *file, const char *to, struct crn_errinfo *ei)
{
    const struct crn_shard *shard;
    struct crn_version *v;
    cairn_err rc;
    int64_t i;
    int fd;

    rc = crn_session_version(s, name, version, &v, ei);
    if (rc == CAIRN_OK)
        rc = crn_version_shard(v, rank, &shard, ei);
    if (rc != CAIRN_OK)
        return rc;
    i = crn_shard_find(shard, CRN_REGION_FILE, file);
    if (i < 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "rank %u of %s@%" PRId64 " has no file '%s'", rank,
                        name, version, file);
    fd = s->fs->openat(s->fs, s->dir.spool_dfd, to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    rc = crn_fs_check(fd, ei, "create '%s/%s'", s->dir.spool, to);
    if (rc != CAIRN_OK)
        return rc;
    rc = write_out(s, v, rank, (uint32_t)i, shard->regions[i].bytes, fd, file, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(s->fs->close(s->fs, fd), ei, "close '%s'", to);
    else
        (void)s->fs->close(s->fs, fd);
    return rc;
}

cairn_err cairn_file_restore(cairn_session *s, const char *name, int64_t version, int old_rank,
                             const char *file, char *path, size_t path_size)
{
    char dir[CAIRN_MAX_NAME + 64], to[2 * CAIRN_MAX_NAME + 64];
    struct crn_errinfo ei = {0};
    uint32_t rank;
    cairn_err rc;

    rc = crn_arg_shard(s, name, version, old_rank, &ei);
    if (rc == CAIRN_OK)
        rc = crn_check_name("file", file, &ei);
    if (rc == CAIRN_OK)
        rc = crn_arg_text("path", path, path_size, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    rank = old_rank == CAIRN_OWN_RANK ? s->rank : (uint32_t)old_rank;
    (void)snprintf(dir, sizeof(dir), "b-%u-%s-%" PRId64 "-%u", s->rank, name, version, rank);
    (void)snprintf(to, sizeof(to), "%s/%s", dir, file);
    rc = make_dir(s, dir, &ei);
    if (rc == CAIRN_OK)
        rc = give_path(s, dir, file, path, path_size, &ei);
    if (rc == CAIRN_OK)
        rc = bring_back(s, name, version, rank, file, to, &ei);
    if (rc == CAIRN_OK)
        crn_session_succeeds(s, name);
    return crn_api_end(&ei, rc);
}
