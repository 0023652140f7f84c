/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole reads and writes, durable replacement and durable directories, built from the table of file
 * operations. Only this file decides how a short write or EINTR is continued. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs_faulty.h"
#include "base/late.h"
#include "base/rng.h"

#define IO_STEP ((size_t)1 << 30) /* Linux moves at most 2 GiB a call */

const struct crn_fs *crn_fs_default(void)
{
#ifdef CRN_FAULTS
    const struct crn_fs *faulty = crn_fs_faulty_from_env();

    if (faulty != NULL)
        return faulty;
#endif
    return crn_fs_posix();
}

cairn_err crn_fs_check(int ret, struct crn_errinfo *ei, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (ret >= 0)
        return CAIRN_OK;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return crn_fail_errno(ei, -ret, "%s", text);
}

cairn_err crn_fs_write_all(const struct crn_fs *fs, int fd, const void *buf, size_t n, uint64_t off,
                           const char *what, struct crn_errinfo *ei)
{
    const char *p = buf;

    while (n > 0) {
        ssize_t r = fs->pwrite(fs, fd, p, n < IO_STEP ? n : IO_STEP, (off_t)off);

        if (r == -EINTR)
            continue;
        if (r < 0)
            return crn_fail_errno(ei, (int)-r, "write %zu bytes at %llu of '%s'", n,
                                  (unsigned long long)off, what);
        if (r == 0)
            return crn_fail(ei, CAIRN_EIO, 0, "write at %llu of '%s' made no progress",
                            (unsigned long long)off, what);
        p += r;
        n -= (size_t)r;
        off += (uint64_t)r;
    }
    return CAIRN_OK;
}

cairn_err crn_fs_read_all(const struct crn_fs *fs, int fd, void *buf, size_t n, uint64_t off,
                          const char *what, struct crn_errinfo *ei)
{
    char *p = buf;

    while (n > 0) {
        ssize_t r = fs->pread(fs, fd, p, n < IO_STEP ? n : IO_STEP, (off_t)off);

        if (r == -EINTR)
            continue;
        if (r < 0)
            return crn_fail_errno(ei, (int)-r, "read %zu bytes at %llu of '%s'", n,
                                  (unsigned long long)off, what);
        if (r == 0)
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' ends at %llu, %zu bytes are missing", what,
                            (unsigned long long)off, n);
        p += r;
        n -= (size_t)r;
        off += (uint64_t)r;
    }
    return CAIRN_OK;
}

cairn_err crn_fs_read_file(const struct crn_fs *fs, int dfd, const char *name, size_t max,
                           void **ret_buf, size_t *ret_len, struct crn_errinfo *ei)
{
    struct stat st;
    char *buf = NULL;
    cairn_err rc;
    int fd;

    /* Any kind of file may have this name: do not follow a link, and do not hang on a fifo. */
    fd = fs->openat(fs, dfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd == -ELOOP)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is a symbolic link", name);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s'", name);
    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "stat '%s'", name);
    if (rc == CAIRN_OK && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max))
        rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "'%s' is not a regular file of at most %zu bytes",
                      name, max);
    if (rc == CAIRN_OK) {
        buf = malloc((size_t)st.st_size + 1);
        if (buf == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "read '%s'", name);
    }
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, buf, (size_t)st.st_size, 0, name, ei);
    (void)fs->close(fs, fd); /* opened for reading: an error loses nothing */
    if (rc != CAIRN_OK) {
        free(buf);
        return rc;
    }
    buf[st.st_size] = '\0';
    *ret_buf = buf;
    *ret_len = (size_t)st.st_size;
    return CAIRN_OK;
}

cairn_err crn_fs_replace(const struct crn_fs *fs, int dfd, const char *name, const void *buf,
                         size_t len, struct crn_errinfo *ei)
{
    char tmp[192];
    cairn_err rc;
    int fd;

    if (snprintf(tmp, sizeof(tmp), ".%s.%08x.tmp", name, (unsigned)crn_random_u64()) >=
        (int)sizeof(tmp))
        return crn_fail(ei, CAIRN_EINVAL, 0, "name '%s' is too long", name);
    fd = fs->openat(fs, dfd, tmp, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "create '%s'", tmp);

    rc = crn_fs_write_all(fs, fd, buf, len, 0, tmp, ei);
    if (rc != CAIRN_OK)
        goto out;
    rc = crn_fs_check(fs->fsync(fs, fd), ei, "fsync '%s'", tmp);
    if (rc != CAIRN_OK)
        goto out;
    rc = crn_fs_check(fs->renameat(fs, dfd, tmp, dfd, name), ei, "rename '%s' to '%s'", tmp, name);
    if (rc != CAIRN_OK)
        goto out;
    rc = crn_fs_check(fs->fsync(fs, dfd), ei, "fsync the directory of '%s'", name);
out:
    (void)fs->close(fs, fd); /* already durable, or already failed */
    if (rc != CAIRN_OK)
        (void)fs->unlinkat(fs, dfd, tmp, 0); /* best effort; a sweep removes leftovers */
    return rc;
}

/* One step of crn_fs_make_dirs: opens or creates name below *dfd and moves *dfd there. */
static cairn_err fs_enter(const struct crn_fs *fs, int *dfd, const char *name, mode_t mode,
                          struct crn_errinfo *ei)
{
    uint64_t began_ns = crn_late_now();
    cairn_err rc;
    int fd;
    int made;

    do { /* another host may be creating it */
        made = fs->mkdirat(fs, *dfd, name, mode);
        fd = fs->openat(fs, *dfd, name, O_RDONLY | O_DIRECTORY, 0);
    } while (made == -EEXIST && fd == -ENOENT && crn_late_again(fs, *dfd, began_ns));
    if (fd < 0 && made < 0 && made != -EEXIST) /* the better reason, except on read-only mounts */
        return crn_fail_errno(ei, -made, "create the directory '%s'", name);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open the directory '%s'", name);
    if (made >= 0) {
        rc = crn_fs_check(fs->fsync(fs, *dfd), ei, "fsync the directory above '%s'", name);
        if (rc != CAIRN_OK) {
            (void)fs->close(fs, fd);
            return rc;
        }
    }
    (void)fs->close(fs, *dfd);
    *dfd = fd;
    return CAIRN_OK;
}

cairn_err crn_fs_make_dirs(const struct crn_fs *fs, int dfd, const char *path, mode_t mode,
                           int *ret_fd, struct crn_errinfo *ei)
{
    char *copy;
    char *save = NULL;
    char *part;
    cairn_err rc = CAIRN_OK;
    int cur;

    cur = fs->openat(fs, dfd, path, O_RDONLY | O_DIRECTORY, 0);
    if (cur >= 0) { /* the usual case: one request to a remote file system */
        *ret_fd = cur;
        return CAIRN_OK;
    }
    copy = strdup(path);
    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "create '%s'", path);
    cur = fs->openat(fs, dfd, path[0] == '/' ? "/" : ".", O_RDONLY | O_DIRECTORY, 0);
    if (cur < 0) {
        free(copy);
        return crn_fail_errno(ei, -cur, "open the directory above '%s'", path);
    }
    for (part = strtok_r(copy, "/", &save); part != NULL && rc == CAIRN_OK;
         part = strtok_r(NULL, "/", &save))
        rc = fs_enter(fs, &cur, part, mode, ei);
    free(copy);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, cur);
        return crn_err_context(ei, rc, "'%s'", path);
    }
    *ret_fd = cur;
    return CAIRN_OK;
}

cairn_err crn_fs_private_dir(const struct crn_fs *fs, const char *path, int *ret_fd,
                             struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc;
    int fd;
    int made;

    made = fs->mkdirat(fs, AT_FDCWD, path, 0700);
    if (made < 0 && made != -EEXIST)
        return crn_fail_errno(ei, -made, "create the private directory '%s'", path);
    fd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open the private directory '%s'", path);
    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "stat '%s'", path);
    if (rc == CAIRN_OK && (st.st_uid != geteuid() || (st.st_mode & 077) != 0))
        rc = crn_fail(ei, CAIRN_EPERM, 0,
                      "'%s' must belong to this user with mode 0700: remove it, or set run_dir to "
                      "another place",
                      path);
    if (rc != CAIRN_OK) {
        (void)fs->close(fs, fd);
        return rc;
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

static cairn_err remove_level(const struct crn_fs *fs, int dfd, const char *name, int depth,
                              struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    cairn_err rc;
    size_t i;
    int fd;
    int r;

    r = fs->unlinkat(fs, dfd, name, 0);
    if (r == 0 || r == -ENOENT)
        return CAIRN_OK;
    if ((r != -EISDIR && r != -EPERM) || depth == 0)
        return crn_fs_check(r, ei, "remove '%s'", name);
    fd = fs->openat(fs, dfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd == -ENOENT)
        return CAIRN_OK;
    if (fd < 0)
        return crn_fs_check(fd, ei, "open '%s'", name);
    rc = crn_fs_names(fs, fd, name, &names, ei);
    for (i = 0; rc == CAIRN_OK && i < names.n; i++)
        rc = remove_level(fs, fd, names.name[i], depth - 1, ei);
    crn_names_free(&names);
    (void)fs->close(fs, fd);
    if (rc != CAIRN_OK)
        return rc;
    r = fs->unlinkat(fs, dfd, name, AT_REMOVEDIR);
    return r == -ENOENT ? CAIRN_OK : crn_fs_check(r, ei, "remove '%s'", name);
}

cairn_err crn_fs_remove_tree(const struct crn_fs *fs, int dfd, const char *name,
                             struct crn_errinfo *ei)
{
    return remove_level(fs, dfd, name, 3, ei);
}

static int fs_collect(void *arg, const char *name)
{
    struct crn_names *names = arg;
    char **grown;

    if ((names->n & (names->n + 1)) == 0) { /* grow at 0, 1, 3, 7, ... */
        grown = realloc(names->name, (2 * names->n + 2) * sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        names->name = grown;
    }
    names->name[names->n] = strdup(name);
    if (names->name[names->n] == NULL)
        return -ENOMEM;
    names->n++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

cairn_err crn_fs_names(const struct crn_fs *fs, int dfd, const char *what, struct crn_names *ret,
                       struct crn_errinfo *ei)
{
    struct crn_names names = {0};
    int r;

    r = fs->list(fs, dfd, fs_collect, &names);
    if (r < 0) {
        crn_names_free(&names);
        return crn_fail_errno(ei, -r, "list the directory '%s'", what);
    }
    if (names.n > 1)
        qsort(names.name, names.n, sizeof(*names.name), by_name);
    *ret = names;
    return CAIRN_OK;
}

void crn_names_free(struct crn_names *names)
{
    size_t i;

    for (i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    memset(names, 0, sizeof(*names));
}
