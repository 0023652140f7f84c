/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/test_late.h"

static struct late *late_of(const struct crn_fs *fs)
{
    return (struct late *)(uintptr_t)fs;
}

static int late_is_it(const struct late *l, const char *path)
{
    const char *last = strrchr(path, '/');

    return l->file[0] != '\0' && strcmp(last != NULL ? last + 1 : path, l->file) == 0;
}

/* Counts one lookup; true if it sees the old state. */
static int late_sees_old(struct late *l)
{
    if (atomic_load(&l->looks) == 0)
        return 0;
    if (atomic_load(&l->looks) > 0)
        (void)atomic_fetch_sub(&l->looks, 1);
    (void)atomic_fetch_add(&l->seen, 1);
    return 1;
}

static int late_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    struct late *l = late_of(fs);
    struct stat sb;

    if (late_is_it(l, path) && l->old_size < 0 && late_sees_old(l))
        return -ENOENT;
    if (late_is_it(l, path) && crn_fs_posix()->fstatat(crn_fs_posix(), dfd, path, &sb) == 0)
        l->inode = sb.st_ino;
    return crn_fs_posix()->openat(crn_fs_posix(), dfd, path, flags, mode);
}

static int late_fstatat(const struct crn_fs *fs, int dfd, const char *path, struct stat *sb)
{
    struct late *l = late_of(fs);
    int r = crn_fs_posix()->fstatat(crn_fs_posix(), dfd, path, sb);

    if (r < 0 || !late_is_it(l, path) || !late_sees_old(l))
        return r;
    sb->st_size = l->old_size;
    return l->old_size < 0 ? -ENOENT : 0;
}

static int late_fstat(const struct crn_fs *fs, int fd, struct stat *sb)
{
    struct late *l = late_of(fs);
    int r = crn_fs_posix()->fstat(crn_fs_posix(), fd, sb);

    if (r == 0 && sb->st_ino == l->inode && l->old_size >= 0 && late_sees_old(l))
        sb->st_size = l->old_size;
    return r;
}

static const struct crn_fs_type *late_type(const struct crn_fs *fs, int fd)
{
    (void)fd;
    return &late_of(fs)->type;
}

void late_init(struct late *l, unsigned late_s)
{
    memset(l, 0, sizeof(*l));
    l->fs = *crn_fs_posix();
    l->fs.openat = late_openat;
    l->fs.fstatat = late_fstatat;
    l->fs.fstat = late_fstat;
    l->fs.type = late_type;
    l->type = (struct crn_fs_type){.name = "late", .late_s = late_s};
}

void late_hide(struct late *l, const char *file, int64_t old_size, int looks)
{
    (void)strncpy(l->file, file, sizeof(l->file) - 1);
    l->old_size = old_size;
    l->inode = 0;
    atomic_store(&l->seen, 0);
    atomic_store(&l->looks, looks);
}
