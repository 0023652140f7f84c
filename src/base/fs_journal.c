/* SPDX-License-Identifier: BSD-3-Clause */
/* Records operations by inode, so that a state can be rebuilt from any subset of them. If a
 * rename reached the disk but the creation of the file did not, the file still appears under its
 * new name. */
#include "base/fs_journal_impl.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static struct crn_fs_journal *fs_journal_self(const struct crn_fs *fs)
{
    return (struct crn_fs_journal *)(uintptr_t)fs;
}

static struct fs_journal_op *journal_record(struct crn_fs_journal *j, enum kind kind, int inode)
{
    if (j->nops == j->cap) {
        j->cap = j->cap > 0 ? 2 * j->cap : 64;
        j->ops = must(realloc(j->ops, j->cap * sizeof(*j->ops)));
    }
    memset(&j->ops[j->nops], 0, sizeof(*j->ops));
    j->ops[j->nops].kind = kind;
    j->ops[j->nops].inode = inode;
    return &j->ops[j->nops++];
}

static void record_entry(struct crn_fs_journal *j, enum kind kind, int inode, int dir,
                         const char *name, const char *to)
{
    struct fs_journal_op *op = journal_record(j, kind, inode);

    op->dir = dir;
    set_name(op->name, name);
    set_name(op->to, to);
}

static void record_write(struct crn_fs_journal *j, int inode, const void *data, size_t len,
                         uint64_t off)
{
    struct fs_journal_op *op = journal_record(j, WRITE, inode);

    op->off = off;
    op->len = len;
    op->data = must(malloc(len));
    memcpy(op->data, data, len);
}

/* Inode numbers are reused after an unlink: the latest owner counts. */
static int find_inode(const struct crn_fs_journal *j, const struct stat *sb)
{
    size_t i;

    for (i = j->ninodes; i-- > 0;)
        if (j->inodes[i].dev == sb->st_dev && j->inodes[i].ino == sb->st_ino)
            return (int)i;
    return -1;
}

static int new_inode(struct crn_fs_journal *j, const struct stat *sb)
{
    j->inodes = must(realloc(j->inodes, (j->ninodes + 1) * sizeof(*j->inodes)));
    j->inodes[j->ninodes] = (struct inode){sb->st_dev, sb->st_ino, S_ISDIR(sb->st_mode)};
    return (int)j->ninodes++;
}

static int inode_of(const struct crn_fs_journal *j, int fd)
{
    return fd >= 0 && fd < MAX_FDS ? j->fds[fd] : -1;
}

/* The inode of a directory entry, or -1. */
static int journal_entry(const struct crn_fs_journal *j, int dfd, const char *name)
{
    struct stat sb;

    return j->under->fstatat(j->under, dfd, name, &sb) == 0 ? find_inode(j, &sb) : -1;
}

/* The table. ----------------------------------------------------------------------------------- */

static int j_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int dir = inode_of(j, dfd);
    struct stat sb;
    int is_new;
    int inode;
    int fd;

    is_new = dir >= 0 && (flags & O_CREAT) != 0 &&
             j->under->fstatat(j->under, dfd, path, &sb) == -ENOENT;
    fd = j->under->openat(j->under, dfd, path, flags, mode);
    if (fd < 0 || fd >= MAX_FDS)
        return fd;
    inode = j->under->fstat(j->under, fd, &sb) == 0 && !is_new ? find_inode(j, &sb) : -1;
    if (is_new) {
        inode = new_inode(j, &sb);
        record_entry(j, LINK, inode, dir, path, "");
    } else if (inode >= 0 && (flags & O_TRUNC) != 0) {
        journal_record(j, TRUNCATE, inode)->off = 0;
    }
    j->fds[fd] = inode;
    return fd;
}

static int j_close(const struct crn_fs *fs, int fd)
{
    if (fd >= 0 && fd < MAX_FDS)
        fs_journal_self(fs)->fds[fd] = -1;
    return fs_journal_self(fs)->under->close(fs_journal_self(fs)->under, fd);
}

static ssize_t j_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    return fs_journal_self(fs)->under->pread(fs_journal_self(fs)->under, fd, buf, n, off);
}

/* Recorded as two halves: a power loss may leave one of them. */
static ssize_t j_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    ssize_t r = j->under->pwrite(j->under, fd, buf, n, off);
    int inode = inode_of(j, fd);
    size_t half;

    if (r <= 0 || inode < 0)
        return r;
    half = ((size_t)r + 1) / 2;
    record_write(j, inode, buf, half, (uint64_t)off);
    if (half < (size_t)r)
        record_write(j, inode, (const char *)buf + half, (size_t)r - half, (uint64_t)off + half);
    return r;
}

static int j_fsync(const struct crn_fs *fs, int fd)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int inode = inode_of(j, fd);

    /* The test is not about the real disk, so do not wait for it. */
    if (inode >= 0)
        (void)journal_record(j, SYNC, inode);
    return 0;
}

static int j_ftruncate(const struct crn_fs *fs, int fd, off_t size)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int r = j->under->ftruncate(j->under, fd, size);
    int inode = inode_of(j, fd);

    if (r == 0 && inode >= 0)
        journal_record(j, TRUNCATE, inode)->off = (uint64_t)size;
    return r;
}

static int j_fallocate(const struct crn_fs *fs, int fd, off_t off, off_t bytes)
{
    (void)fs;
    (void)fd;
    (void)off;
    (void)bytes;
    return -EOPNOTSUPP; /* only a hint: callers must work without it */
}

static int j_behind(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end)
{
    (void)fs;
    (void)fd;
    (void)off;
    (void)bytes;
    (void)is_end;
    return 0; /* makes nothing durable */
}

static int j_renameat(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                      const char *to)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int dir = inode_of(j, olddfd);
    int to_dir = inode_of(j, newdfd);
    int inode = journal_entry(j, olddfd, from);
    int r = j->under->renameat(j->under, olddfd, from, newdfd, to);

    if (r < 0)
        return r;
    if (dir == to_dir && dir >= 0) {
        record_entry(j, RENAME, inode, dir, from, to);
        return r;
    }
    /* Between directories: either change may be durable without the other. */
    if (to_dir >= 0)
        record_entry(j, LINK, inode, to_dir, to, "");
    if (dir >= 0)
        record_entry(j, UNLINK, inode, dir, from, "");
    return r;
}

static int j_unlinkat(const struct crn_fs *fs, int dfd, const char *name, int flags)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int inode = journal_entry(j, dfd, name);
    int r = j->under->unlinkat(j->under, dfd, name, flags);

    if (r == 0 && inode_of(j, dfd) >= 0)
        record_entry(j, UNLINK, inode, inode_of(j, dfd), name, "");
    return r;
}

static int j_mkdirat(const struct crn_fs *fs, int dfd, const char *name, mode_t mode)
{
    struct crn_fs_journal *j = fs_journal_self(fs);
    int r = j->under->mkdirat(j->under, dfd, name, mode);
    struct stat sb;

    if (r == 0 && inode_of(j, dfd) >= 0 && j->under->fstatat(j->under, dfd, name, &sb) == 0)
        record_entry(j, LINK, new_inode(j, &sb), inode_of(j, dfd), name, "");
    return r;
}

static int j_fstat(const struct crn_fs *fs, int fd, struct stat *st)
{
    return fs_journal_self(fs)->under->fstat(fs_journal_self(fs)->under, fd, st);
}

static int j_fstatat(const struct crn_fs *fs, int dfd, const char *name, struct stat *st)
{
    return fs_journal_self(fs)->under->fstatat(fs_journal_self(fs)->under, dfd, name, st);
}

static int j_list(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg)
{
    return fs_journal_self(fs)->under->list(fs_journal_self(fs)->under, dfd, fn, arg);
}

static int j_space(const struct crn_fs *fs, int fd, struct crn_room *ret)
{
    return fs_journal_self(fs)->under->space(fs_journal_self(fs)->under, fd, ret);
}

static int j_stripe(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes)
{
    return fs_journal_self(fs)->under->stripe(fs_journal_self(fs)->under, dfd, count, bytes);
}

static int j_is_sole(const struct crn_fs *fs, int fd)
{
    return fs_journal_self(fs)->under->is_sole(fs_journal_self(fs)->under, fd);
}

static const struct crn_fs_type *j_type(const struct crn_fs *fs, int fd)
{
    return fs_journal_self(fs)->under->type(fs_journal_self(fs)->under, fd);
}

static int j_lock(const struct crn_fs *fs, int fd)
{
    return fs_journal_self(fs)->under->lock(fs_journal_self(fs)->under, fd);
}

static int j_lock_byte(const struct crn_fs *fs, int fd, uint32_t at)
{
    return fs_journal_self(fs)->under->lock_byte(fs_journal_self(fs)->under, fd, at);
}

/* For reading: writes through the mapping are not recorded. */
static int j_map(const struct crn_fs *fs, int fd, size_t bytes, int prot, void **ret)
{
    return fs_journal_self(fs)->under->map(fs_journal_self(fs)->under, fd, bytes, prot, ret);
}

static const struct crn_fs table = {.openat = j_openat,
                                    .close = j_close,
                                    .pread = j_pread,
                                    .pwrite = j_pwrite,
                                    .fsync = j_fsync,
                                    .ftruncate = j_ftruncate,
                                    .fallocate = j_fallocate,
                                    .behind = j_behind,
                                    .renameat = j_renameat,
                                    .unlinkat = j_unlinkat,
                                    .mkdirat = j_mkdirat,
                                    .fstat = j_fstat,
                                    .fstatat = j_fstatat,
                                    .list = j_list,
                                    .space = j_space,
                                    .stripe = j_stripe,
                                    .is_sole = j_is_sole,
                                    .type = j_type,
                                    .lock = j_lock,
                                    .lock_byte = j_lock_byte,
                                    .map = j_map};

/* The initial tree, as operations. ------------------------------------------------------------- */

static int journal_scan(struct crn_fs_journal *j, int dfd, int dir)
{
    struct crn_errinfo info = {0};
    struct crn_names names;
    struct stat sb;
    int ok = 1;
    size_t i;

    if (crn_fs_names(j->under, dfd, "", &names, &info) != CAIRN_OK)
        return -1;
    for (i = 0; i < names.n && ok; i++) {
        int fd = j->under->openat(j->under, dfd, names.name[i], O_RDONLY, 0);
        int inode;

        ok = fd >= 0 && j->under->fstat(j->under, fd, &sb) == 0;
        if (ok) {
            inode = new_inode(j, &sb);
            record_entry(j, LINK, inode, dir, names.name[i], "");
            if (S_ISDIR(sb.st_mode)) {
                ok = journal_scan(j, fd, inode) == 0;
            } else if (sb.st_size > 0) {
                unsigned char *data = must(malloc((size_t)sb.st_size));

                ok = crn_fs_read_all(j->under, fd, data, (size_t)sb.st_size, 0, "", &info) ==
                     CAIRN_OK;
                record_write(j, inode, data, (size_t)sb.st_size, 0);
                free(data);
            }
        }
        if (fd >= 0)
            (void)j->under->close(j->under, fd);
    }
    crn_names_free(&names);
    return ok ? 0 : -1;
}

struct crn_fs_journal *crn_fs_journal_open(const struct crn_fs *under, const char *root)
{
    struct crn_fs_journal *j = must(calloc(1, sizeof(*j)));
    struct stat sb;
    int ok;
    int fd;
    int i;

    j->fs = table;
    j->under = under;
    for (i = 0; i < MAX_FDS; i++)
        j->fds[i] = -1;
    j->root = must(strdup(root));
    fd = under->openat(under, AT_FDCWD, root, O_RDONLY | O_DIRECTORY, 0);
    ok = fd >= 0 && under->fstat(under, fd, &sb) == 0;
    if (ok) {
        (void)new_inode(j, &sb);
        ok = journal_scan(j, fd, 0) == 0;
    }
    if (fd >= 0)
        (void)under->close(under, fd);
    if (!ok) {
        crn_fs_journal_close(j);
        return NULL;
    }
    j->nbase = j->nops;
    return j;
}

void crn_fs_journal_close(struct crn_fs_journal *j)
{
    size_t i;

    if (j == NULL)
        return;
    for (i = 0; i < j->nops; i++)
        free(j->ops[i].data);
    free(j->ops);
    free(j->inodes);
    free(j->root);
    free(j);
}

const struct crn_fs *crn_fs_journal_fs(struct crn_fs_journal *j)
{
    return &j->fs;
}

size_t crn_fs_journal_now(const struct crn_fs_journal *j)
{
    return j->nops;
}
