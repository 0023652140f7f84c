/* SPDX-License-Identifier: BSD-3-Clause */
/* Defines the names of everything that a run leaves on its node, creates the directories with
 * private modes, and removes them. Nothing here needs to survive a power loss.
 *
 * A removal takes many calls and may be interrupted. It therefore starts with a rename, which says
 * that nothing in the directory is needed any more. A drain finishes the removal of directories
 * with that name. */
#include "service/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"

static cairn_err user_root(const struct crn_fs *fs, const char *base, char *path, size_t size,
                           struct crn_errinfo *ei)
{
    cairn_err rc;
    int fd;

    if (snprintf(path, size, "%s/cairn-%u", base, (unsigned)geteuid()) >= (int)size)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the path '%s' is too long", base);
    rc = crn_fs_make_dirs(fs, AT_FDCWD, base, 0777, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)fs->close(fs, fd);
    rc = crn_fs_private_dir(fs, path, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)fs->close(fs, fd);
    return CAIRN_OK;
}

cairn_err crn_rundir_shm_root(const struct crn_fs *fs, const struct crn_config *cfg, char *path,
                              size_t size, struct crn_errinfo *ei)
{
    return user_root(fs, cfg->shm_dir, path, size, ei);
}

cairn_err crn_rundir_local_root(const struct crn_fs *fs, const struct crn_config *cfg, char *path,
                                size_t size, struct crn_errinfo *ei)
{
    return user_root(fs, cfg->local, path, size, ei);
}

cairn_err crn_rundir_socket_dir(const struct crn_config *cfg, char *path, size_t size,
                                struct crn_errinfo *ei)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    cairn_err rc;
    int fd;
    int n;

    if (cfg->run_dir[0] != '\0')
        n = snprintf(path, size, "%s", cfg->run_dir);
    else if (xdg != NULL && access(xdg, W_OK) == 0)
        n = snprintf(path, size, "%s/cairn", xdg);
    else
        n = snprintf(path, size, "/tmp/cairn-%u", (unsigned)geteuid());
    if (n >= (int)size)
        return crn_fail(ei, CAIRN_EINVAL, 0, "run_dir is too long");
    rc = crn_fs_private_dir(crn_fs_posix(), path, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)close(fd);
    return CAIRN_OK;
}

cairn_err crn_rundir_paths(const struct crn_fs *fs, const struct crn_config *cfg,
                           const uint8_t run[16], uint32_t node, struct crn_rundir *ret,
                           struct crn_errinfo *ei)
{
    char root[CRN_PATH_MAX];
    char hex[CRN_RUN_HEX];
    cairn_err rc;

    memset(ret, 0, sizeof(*ret));
    ret->fs = fs;
    ret->dfd = ret->spool_dfd = -1;
    crn_run_hex(run, hex);
    rc = crn_rundir_shm_root(fs, cfg, root, sizeof(root), ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)snprintf(ret->path, sizeof(ret->path), "%s/%s-n%u", root, hex, node);
    if (cfg->local[0] == '\0') {
        memcpy(ret->spool, ret->path, sizeof(ret->spool));
        return CAIRN_OK;
    }
    rc = crn_rundir_local_root(fs, cfg, root, sizeof(root), ei);
    if (rc == CAIRN_OK)
        (void)snprintf(ret->spool, sizeof(ret->spool), "%s/spool-%s-n%u", root, hex, node);
    return rc;
}

static cairn_err open_dir(const struct crn_fs *fs, const char *path, int create, int *ret_fd,
                          struct crn_errinfo *ei)
{
    int fd;

    if (create)
        return crn_fs_private_dir(fs, path, ret_fd, ei);
    fd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", path);
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_rundir_open(const struct crn_fs *fs, const struct crn_config *cfg,
                          const uint8_t run[16], uint32_t node, int create, struct crn_rundir *ret,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_rundir_paths(fs, cfg, run, node, ret, ei);
    if (rc == CAIRN_OK)
        rc = open_dir(fs, ret->path, create, &ret->dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (strcmp(ret->path, ret->spool) == 0) {
        ret->spool_dfd = ret->dfd;
        return CAIRN_OK;
    }
    rc = open_dir(fs, ret->spool, create, &ret->spool_dfd, ei);
    if (rc != CAIRN_OK)
        crn_rundir_close(ret);
    return rc;
}

void crn_rundir_close(struct crn_rundir *rd)
{
    if (rd->spool_dfd >= 0 && rd->spool_dfd != rd->dfd)
        (void)rd->fs->close(rd->fs, rd->spool_dfd);
    if (rd->dfd >= 0)
        (void)rd->fs->close(rd->fs, rd->dfd);
    rd->dfd = rd->spool_dfd = -1;
}

#define GONE_PATH (CRN_PATH_MAX + 64 + sizeof(CRN_RUNDIR_GONE))

static void gone_path(const struct crn_rundir *rd, char ret[GONE_PATH])
{
    (void)snprintf(ret, GONE_PATH, "%s" CRN_RUNDIR_GONE, rd->path);
}

cairn_err crn_rundir_remove(const struct crn_rundir *rd, struct crn_errinfo *ei)
{
    char gone[GONE_PATH];
    int r;

    gone_path(rd, gone);
    r = rd->fs->renameat(rd->fs, AT_FDCWD, rd->path, AT_FDCWD, gone);
    if (r < 0 && r != -ENOENT)
        return crn_fail_errno(ei, -r, "rename '%s' to remove it", rd->path);
    return crn_rundir_finish(rd, ei);
}

cairn_err crn_rundir_finish(const struct crn_rundir *rd, struct crn_errinfo *ei)
{
    char gone[GONE_PATH];
    cairn_err rc = CAIRN_OK;

    gone_path(rd, gone);
    /* The spool first: only run.ini in the directory says where it is. */
    if (strcmp(rd->spool, rd->path) != 0)
        rc = crn_fs_remove_tree(rd->fs, AT_FDCWD, rd->spool, ei);
    return rc == CAIRN_OK ? crn_fs_remove_tree(rd->fs, AT_FDCWD, gone, ei) : rc;
}

void crn_rundir_tidy(const struct crn_rundir *rd)
{
    if (strcmp(rd->spool, rd->path) != 0)
        (void)rmdir(rd->spool);
    (void)rmdir(rd->path);
}

/* Locks one byte, or the whole file if at < 0. */
static cairn_err rundir_lock(const struct crn_rundir *rd, int create, int64_t at, int *ret_fd,
                             struct crn_errinfo *ei)
{
    const struct crn_fs *fs = rd->fs;
    int fd;
    int r;

    fd = crn_fork_openat(fs, rd->dfd, "lock", O_RDWR | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/lock'", rd->path);
    r = at < 0 ? fs->lock(fs, fd) : fs->lock_byte(fs, fd, (uint32_t)at);
    if (r < 0) {
        (void)fs->close(fs, fd);
        if (r == -EAGAIN)
            return crn_fail(ei, CAIRN_EBUSY, 0, "%s",
                            at < 0 ? "the service of the run is alive, or one of its ranks"
                                   : "a drain works on the run, or another process acts for it");
        return crn_fail_errno(ei, -r, "lock '%s/lock'", rd->path);
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_rundir_lock(const struct crn_rundir *rd, int *ret_fd, struct crn_errinfo *ei)
{
    return rundir_lock(rd, 0, -1, ret_fd, ei);
}

cairn_err crn_rundir_lock_service(const struct crn_rundir *rd, int *ret_fd, struct crn_errinfo *ei)
{
    return rundir_lock(rd, 1, 0, ret_fd, ei);
}

#define RANK_BYTE(local) ((local) + 1)

cairn_err crn_rundir_lock_rank(const struct crn_rundir *rd, uint32_t local, int *ret_fd,
                               struct crn_errinfo *ei)
{
    return rundir_lock(rd, 0, RANK_BYTE(local), ret_fd, ei);
}

/* Does another process lock a byte of the range? len 0: up to the end of any file. */
static int is_locked(const struct crn_rundir *rd, off_t start, off_t len)
{
    struct flock lk = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
    int fd = crn_fork_openat(rd->fs, rd->dfd, "lock", O_RDWR | O_NOFOLLOW, 0);
    int is_known;

    if (fd < 0)
        return 0;
    is_known = fcntl(fd, F_OFD_GETLK, &lk) == 0;
    crn_fork_close(fd);
    return is_known && lk.l_type != F_UNLCK;
}

int crn_rundir_has_living(const struct crn_rundir *rd)
{
    return is_locked(rd, RANK_BYTE(0), 0);
}

int crn_rundir_has_service(const struct crn_rundir *rd)
{
    return is_locked(rd, 0, 1);
}

int crn_rundir_rank_is_dead(const struct crn_rundir *rd, int service_fd, uint32_t local)
{
    return rd->fs->lock_byte(rd->fs, service_fd, RANK_BYTE(local)) == 0;
}

void crn_rundir_arena_name(uint32_t rank, char name[CRN_SPOOL_NAME])
{
    (void)snprintf(name, CRN_SPOOL_NAME, "arena-%u", rank);
}

void crn_rundir_spill_name(uint32_t rank, uint64_t seq, char name[CRN_SPOOL_NAME])
{
    (void)snprintf(name, CRN_SPOOL_NAME, "s-%u-%" PRIu64, rank, seq);
}

void crn_rundir_area_name(uint32_t rank, char name[CRN_SPOOL_NAME])
{
    (void)snprintf(name, CRN_SPOOL_NAME, "tier-%u", rank);
}

void crn_rundir_spool_file_name(uint32_t rank, uint64_t seq, uint32_t region,
                                char name[CRN_SPOOL_NAME])
{
    (void)snprintf(name, CRN_SPOOL_NAME, "f-%u-%" PRIu64 "-%u", rank, seq, region);
}

int crn_rundir_parse(const char *name, uint8_t id[16], uint32_t *node, int *is_gone)
{
    unsigned byte;
    int end = 0;
    int i;

    if (strlen(name) < 35)
        return 0;
    for (i = 0; i < 16; i++) {
        if (sscanf(name + 2 * (size_t)i, "%2x", &byte) != 1)
            return 0;
        id[i] = (uint8_t)byte;
    }
    if (sscanf(name + 32, "-n%u%n", node, &end) != 1)
        return 0;
    *is_gone = strcmp(name + 32 + end, CRN_RUNDIR_GONE) == 0;
    return *is_gone || name[32 + end] == '\0';
}
