/* SPDX-License-Identifier: BSD-3-Clause */
/* The file operations of the real system. No policy here: each entry is one call and returns
 * -errno. */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/lustre.h"
#include "base/quota.h"
#include "base/touch.h"

#define UNUSED(x) ((void)(x))
#define MAP_STEP  ((size_t)128 << 10) /* new pages are still cached when filled */

static int px_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    int fd;

    UNUSED(fs);
    fd = openat(dfd, path, flags | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

static int px_close(const struct crn_fs *fs, int fd)
{
    UNUSED(fs);
    crn_fork_disown(fd);
    return close(fd) < 0 ? -errno : 0;
}

static ssize_t px_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    ssize_t r;

    UNUSED(fs);
    r = pread(fd, buf, n, off);
    return r < 0 ? -errno : r;
}

static ssize_t px_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    ssize_t r;

    UNUSED(fs);
    r = pwrite(fd, buf, n, off);
    return r < 0 ? -errno : r;
}

static int px_fsync(const struct crn_fs *fs, int fd)
{
    UNUSED(fs);
    return fsync(fd) < 0 ? -errno : 0;
}

static int px_ftruncate(const struct crn_fs *fs, int fd, off_t size)
{
    UNUSED(fs);
    return ftruncate(fd, size) < 0 ? -errno : 0;
}

static int px_fallocate(const struct crn_fs *fs, int fd, off_t off, off_t bytes)
{
    UNUSED(fs);
    return fallocate(fd, 0, off, bytes) < 0 ? -errno : 0;
}

static int px_behind(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end)
{
    const unsigned all =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    UNUSED(fs);
    if (sync_file_range(fd, off, bytes, is_end ? all : SYNC_FILE_RANGE_WRITE) < 0)
        return -errno;
    if (is_end)
        (void)posix_fadvise(fd, off, bytes, POSIX_FADV_DONTNEED);
    return 0;
}

static int px_renameat(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                       const char *to)
{
    UNUSED(fs);
    return renameat(olddfd, from, newdfd, to) < 0 ? -errno : 0;
}

static int px_unlinkat(const struct crn_fs *fs, int dfd, const char *name, int flags)
{
    UNUSED(fs);
    return unlinkat(dfd, name, flags) < 0 ? -errno : 0;
}

static int px_mkdirat(const struct crn_fs *fs, int dfd, const char *name, mode_t mode)
{
    UNUSED(fs);
    return mkdirat(dfd, name, mode) < 0 ? -errno : 0;
}

static int px_fstat(const struct crn_fs *fs, int fd, struct stat *st)
{
    UNUSED(fs);
    return fstat(fd, st) < 0 ? -errno : 0;
}

static int px_fstatat(const struct crn_fs *fs, int dfd, const char *name, struct stat *st)
{
    UNUSED(fs);
    return fstatat(dfd, name, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int px_list(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg)
{
    struct dirent *de;
    int fd;
    int rc = 0;
    DIR *dir;

    UNUSED(fs);
    /* Needs its own descriptor: the stream moves the offset, and closedir closes it. */
    fd = openat(dfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (dir == NULL) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    for (;;) {
        errno = 0;
        de = readdir(dir);
        if (de == NULL) {
            rc = -errno;
            break;
        }
        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
            continue;
        rc = fn(arg, de->d_name);
        if (rc != 0)
            break;
    }
    (void)closedir(dir);
    return rc;
}

static const struct crn_fs_type *px_type(const struct crn_fs *fs, int fd)
{
    UNUSED(fs);
    return crn_fs_type_of(fd);
}

static int px_space(const struct crn_fs *fs, int fd, struct crn_room *ret)
{
    struct statvfs sv;

    UNUSED(fs);
    if (fstatvfs(fd, &sv) < 0)
        return -errno;
    ret->bytes = (uint64_t)sv.f_bavail * sv.f_frsize;
    (void)snprintf(ret->text, sizeof(ret->text), "free");
    crn_quota_bound(fd, ret);
    return 0;
}

/* The kernel grants a write lease only to the sole opener of a file. If another process opens the
 * file before the lease is dropped, the kernel signals us. We ask for SIGURG, which is ignored by
 * default. */
static int px_is_sole(const struct crn_fs *fs, int fd)
{
    const struct crn_fs_type *type = crn_fs_type_of(fd);
    struct stat sb;

    UNUSED(fs);
    if (!(type->is_disk || type->is_memory) || fstat(fd, &sb) < 0 || sb.st_nlink != 1)
        return 0;
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0 &&
           fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

static int px_stripe(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes)
{
    UNUSED(fs);
    return crn_lustre_stripe(&crn_lustre_real, dfd, count, bytes);
}

static int lock_range(int fd, off_t at, off_t bytes)
{
    struct flock lk = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = bytes};

    if (fcntl(fd, F_OFD_SETLK, &lk) == 0)
        return 0;
    if (errno == EACCES || errno == EAGAIN)
        return -EAGAIN;
    return errno == ENOSYS || errno == EINVAL || errno == ENOLCK || errno == EOPNOTSUPP ? -ENOTSUP
                                                                                        : -errno;
}

static int px_lock(const struct crn_fs *fs, int fd)
{
    UNUSED(fs);
    return lock_range(fd, 0, 0); /* to the end of any file */
}

static int px_lock_byte(const struct crn_fs *fs, int fd, uint32_t at)
{
    UNUSED(fs);
    return lock_range(fd, (off_t)at, 1);
}

static int px_map(const struct crn_fs *fs, int fd, size_t bytes, int prot, void **ret)
{
    void *p;

    UNUSED(fs);
    p = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    *ret = p;
    return 0;
}

static const struct crn_fs posix_table = {
    .openat = px_openat,
    .close = px_close,
    .pread = px_pread,
    .pwrite = px_pwrite,
    .fsync = px_fsync,
    .ftruncate = px_ftruncate,
    .fallocate = px_fallocate,
    .behind = px_behind,
    .renameat = px_renameat,
    .unlinkat = px_unlinkat,
    .mkdirat = px_mkdirat,
    .fstat = px_fstat,
    .fstatat = px_fstatat,
    .list = px_list,
    .space = px_space,
    .stripe = px_stripe,
    .is_sole = px_is_sole,
    .type = px_type,
    .lock = px_lock,
    .lock_byte = px_lock_byte,
    .map = px_map,
};

const struct crn_fs *crn_fs_posix(void)
{
    return &posix_table;
}
