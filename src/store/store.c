/* SPDX-License-Identifier: BSD-3-Clause */
/* The store's root, the directories of names and versions, and the writer's lock. A name's
 * directory and its .writer are never removed: a lock on an unlinked file would let two writers
 * in. */
#include "store/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/late.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

struct crn_where crn_where(const struct crn_store *st, const char *name, int64_t version,
                           const char *file)
{
    struct crn_where w;

    (void)snprintf(w.text, sizeof(w.text), "%s/%s/%lld%s%s", st->path, name, (long long)version,
                   file != NULL ? "/" : "", file != NULL ? file : "");
    return w;
}

void crn_version_text(int64_t version, char ret[CRN_VERSION_TEXT])
{
    (void)snprintf(ret, CRN_VERSION_TEXT, "%lld", (long long)version);
}

int crn_version_parse(const char *text, int64_t *ret)
{
    char again[CRN_VERSION_TEXT];
    long long v;

    if (text[0] < '0' || text[0] > '9')
        return -1;
    v = strtoll(text, NULL, 10);
    crn_version_text(v, again);
    if (strcmp(text, again) != 0)
        return -1;
    *ret = v;
    return 0;
}

int crn_store_is_temp_name(const char *name)
{
    static const char *const files[] = {CRN_MANIFEST, CRN_PIN, CRN_BAD, CRN_NUMBER,
                                        CRN_REMOVED_LIST};
    size_t i;

    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        size_t n = strlen(files[i]);

        if (name[0] != '.' || strncmp(name + 1, files[i], n) != 0 || name[1 + n] != '.')
            continue;
        name += n + 2;
        return strspn(name, "0123456789abcdef") == 8 && strcmp(name + 8, ".tmp") == 0;
    }
    return 0;
}

cairn_err crn_store_open(const struct crn_fs *fs, const char *path, int create,
                         struct crn_store *ret, struct crn_errinfo *ei)
{
    struct crn_store st = {.fs = fs, .dfd = -1};
    cairn_err rc = CAIRN_OK;

    st.path = strdup(path);
    if (st.path == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "open the store '%s'", path);
    if (create)
        rc = crn_fs_make_dirs(fs, AT_FDCWD, path, 0700, &st.dfd, ei);
    else
        st.dfd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (rc == CAIRN_OK && st.dfd < 0)
        rc = crn_fail_errno(ei, -st.dfd, "open the directory of checkpoints '%s'", path);
    if (rc != CAIRN_OK) {
        free(st.path);
        return rc;
    }
    *ret = st;
    return CAIRN_OK;
}

void crn_store_close(struct crn_store *st)
{
    if (st->fs != NULL && st->dfd >= 0)
        (void)st->fs->close(st->fs, st->dfd); /* was only read */
    free(st->path);
    memset(st, 0, sizeof(*st));
    st->dfd = -1;
}

cairn_err crn_store_name_dir(const struct crn_store *st, const char *name, int *ret_dfd,
                             struct crn_errinfo *ei)
{
    cairn_err rc = crn_check_name("checkpoint name", name, ei);
    int fd;

    if (rc != CAIRN_OK)
        return rc;
    fd = st->fs->openat(st->fs, st->dfd, name, DIR_FLAGS, 0);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no checkpoint '%s' in '%s'", name, st->path);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s'", st->path, name);
    *ret_dfd = fd;
    return CAIRN_OK;
}

cairn_err crn_store_make_name(const struct crn_store *st, const char *name, int *ret_dfd,
                              struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    struct stat sb;
    cairn_err rc = crn_check_name("checkpoint name", name, ei);
    int dfd;
    int fd;

    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_make_dirs(fs, st->dfd, name, 0700, &dfd, ei);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "'%s'", st->path);
    if (fs->fstatat(fs, dfd, CRN_WRITER, &sb) < 0) {
        fd = crn_fork_openat(fs, dfd, CRN_WRITER, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
        if (fd < 0) {
            (void)fs->close(fs, dfd);
            return crn_fail_errno(ei, -fd, "create '%s/%s/%s'", st->path, name, CRN_WRITER);
        }
        (void)fs->close(fs, fd); /* empty, so no data can be lost */
    }
    *ret_dfd = dfd;
    return CAIRN_OK;
}

cairn_err crn_store_version_dir(const struct crn_store *st, const char *name, int64_t version,
                                int *ret_dfd, struct crn_errinfo *ei)
{
    char text[CRN_VERSION_TEXT];
    cairn_err rc;
    int dfd = -1;
    int fd;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_version_text(version, text);
    fd = st->fs->openat(st->fs, dfd, text, DIR_FLAGS, 0);
    (void)st->fs->close(st->fs, dfd);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return crn_fail(ei, CAIRN_ENOENT, 0, "there is no version %s of '%s' in '%s'", text, name,
                        st->path);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s/%s'", st->path, name, text);
    *ret_dfd = fd;
    return CAIRN_OK;
}

cairn_err crn_store_late_dir(const struct crn_store *st, const char *name, int64_t version,
                             uint64_t changed_ns, int *ret_dfd, struct crn_errinfo *ei)
{
    struct crn_errinfo info;
    cairn_err rc;

    do {
        crn_err_clear(&info);
        rc = crn_store_version_dir(st, name, version, ret_dfd, &info);
    } while (rc == CAIRN_ENOENT && crn_late_again(st->fs, st->dfd, changed_ns));
    if (rc != CAIRN_OK)
        crn_err_keep(ei, &info);
    return rc;
}

cairn_err crn_store_remove_empty(const struct crn_store *st, const char *name, int64_t version,
                                 struct crn_errinfo *ei)
{
    char text[CRN_VERSION_TEXT];
    cairn_err rc;
    int dfd;
    int r;

    rc = crn_store_name_dir(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_version_text(version, text);
    r = st->fs->unlinkat(st->fs, dfd, text, AT_REMOVEDIR);
    (void)st->fs->close(st->fs, dfd);
    if (r < 0 && r != -ENOTEMPTY && r != -EEXIST && r != -ENOENT)
        return crn_fail_errno(ei, -r, "remove '%s'", crn_where(st, name, version, NULL).text);
    return CAIRN_OK;
}

/* Fails with the name of the run that has the lock. */
static cairn_err store_busy(const struct crn_store *st, int fd, const char *name,
                            struct crn_errinfo *ei)
{
    char who[200];
    ssize_t n = st->fs->pread(st->fs, fd, who, sizeof(who) - 1, 0);
    ssize_t i;

    for (i = 0; i < n; i++)
        if ((unsigned char)who[i] < 0x20 || who[i] == 0x7f)
            break;
    who[n > 0 ? i : 0] = '\0';
    return crn_fail(ei, CAIRN_EBUSY, 0, "'%s' in '%s' is being written by %s", name, st->path,
                    who[0] != '\0' ? who : "another run");
}

cairn_err crn_store_lock_name(const struct crn_store *st, const char *name, const char *who,
                              int *ret_fd, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = st->fs;
    cairn_err rc;
    int dfd;
    int fd;
    int r;

    rc = crn_store_make_name(st, name, &dfd, ei);
    if (rc != CAIRN_OK)
        return rc;
    fd = crn_fork_openat(fs, dfd, CRN_WRITER, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    (void)fs->close(fs, dfd);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "open '%s/%s/%s'", st->path, name, CRN_WRITER);
    r = fs->lock(fs, fd);
    if (r == -EAGAIN)
        rc = store_busy(st, fd, name, ei);
    else if (r < 0 && r != -ENOTSUP)
        rc = crn_fail_errno(ei, -r, "lock '%s/%s/%s'", st->path, name, CRN_WRITER);
    if (r < 0) {
        (void)fs->close(fs, fd);
        if (rc == CAIRN_OK)
            *ret_fd = -1; /* no locks on this file system: continue without */
        return rc;
    }
    /* Only for messages: a failure here does not affect the lock. */
    if (fs->ftruncate(fs, fd, 0) == 0)
        (void)fs->pwrite(fs, fd, who, strlen(who), 0);
    *ret_fd = fd;
    return CAIRN_OK;
}
