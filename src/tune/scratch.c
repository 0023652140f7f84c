/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder that probes write in: .cairn-tune-XXXXXXXXXXXXXXXX with a file "lock". The lock is
 * taken before the file gets that name, so a folder with an unlocked "lock" is stale. */
#include "tune/tuner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/rng.h"

#define PREFIX ".cairn-tune-"

/* Removes the folder of a killed run. A folder that cannot be locked is in use or not ours. */
static void remove_stale(const struct crn_fs *fs, int parent, const char *name)
{
    int dfd = fs->openat(fs, parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    int fd = dfd >= 0 ? fs->openat(fs, dfd, "lock", O_RDWR | O_NOFOLLOW, 0) : -1;

    if (fd >= 0 && fs->lock(fs, fd) == 0 &&
        crn_fs_remove_tree(fs, parent, name, NULL) != CAIRN_OK) {
        /* it stays for the next run */
    }
    if (fd >= 0)
        (void)fs->close(fs, fd);
    if (dfd >= 0)
        (void)fs->close(fs, dfd);
}

static cairn_err scratch_sweep(const struct crn_fs *fs, int parent, const char *dir,
                               struct crn_errinfo *ei)
{
    struct crn_names names;
    size_t i;
    cairn_err rc = crn_fs_names(fs, parent, dir, &names, ei);

    if (rc != CAIRN_OK)
        return rc;
    for (i = 0; i < names.n; i++)
        if (strncmp(names.name[i], PREFIX, strlen(PREFIX)) == 0)
            remove_stale(fs, parent, names.name[i]);
    crn_names_free(&names);
    return CAIRN_OK;
}

static cairn_err take_lock(struct crn_scratch *s, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = s->fs;
    cairn_err rc;
    int held;

    s->lock = fs->openat(fs, s->dfd, "lock.new", O_RDWR | O_CREAT | O_EXCL, 0600);
    rc = crn_fs_check(s->lock, ei, "create the lock");
    if (rc != CAIRN_OK)
        return rc;
    held = fs->lock(fs, s->lock);
    if (held == -ENOTSUP)
        return CAIRN_OK; /* without locks no folder counts as stale */
    rc = crn_fs_check(held, ei, "lock");
    if (rc == CAIRN_OK)
        rc = crn_fs_check(fs->renameat(fs, s->dfd, "lock.new", s->dfd, "lock"), ei,
                          "rename the lock");
    return rc;
}

static cairn_err scratch_make(struct crn_scratch *s, const char *dir, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = s->fs;
    cairn_err rc;

    (void)snprintf(s->name, sizeof(s->name), PREFIX "%016llx",
                   (unsigned long long)crn_random_u64());
    rc =
        crn_fs_check(fs->mkdirat(fs, s->parent, s->name, 0700), ei, "create '%s/%s'", dir, s->name);
    if (rc != CAIRN_OK) {
        s->name[0] = '\0';
        return rc;
    }
    s->dfd = fs->openat(fs, s->parent, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    rc = crn_fs_check(s->dfd, ei, "open '%s/%s'", dir, s->name);
    return rc != CAIRN_OK ? rc : take_lock(s, ei);
}

cairn_err crn_scratch_open(const struct crn_fs *fs, const char *dir, struct crn_scratch *ret,
                           struct crn_errinfo *ei)
{
    struct crn_scratch s = {.fs = fs, .dfd = -1, .lock = -1};
    cairn_err rc;

    s.parent = fs->openat(fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    rc = crn_fs_check(s.parent, ei, "open directory '%s'", dir);
    if (rc == CAIRN_OK)
        rc = scratch_sweep(fs, s.parent, dir, ei);
    if (rc == CAIRN_OK)
        rc = scratch_make(&s, dir, ei);
    if (rc != CAIRN_OK) {
        cairn_err gone = crn_scratch_close(&s, NULL);

        (void)gone; /* the first error counts */
        return rc;
    }
    *ret = s;
    return CAIRN_OK;
}

cairn_err crn_scratch_close(struct crn_scratch *s, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = s->fs;
    cairn_err rc = CAIRN_OK;

    if (s->dfd >= 0)
        (void)fs->close(fs, s->dfd);
    if (s->name[0] != '\0')
        rc = crn_fs_remove_tree(fs, s->parent, s->name, ei);
    if (s->lock >= 0)
        (void)fs->close(fs, s->lock);
    if (s->parent >= 0)
        (void)fs->close(fs, s->parent);
    return rc;
}
