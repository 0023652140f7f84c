/* SPDX-License-Identifier: BSD-3-Clause */
/* The file tier: a private directory that lives as long as the process, with one file for each stay
 * of a checkpoint. Checksums of the blocks are kept in memory: what comes back from the disk is what
 * went there, or CAIRN_EDAMAGED. A directory whose process died is removed by the next one that opens
 * a tier beside it; the lock in it says who lives. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tier/tier.h"

#define PREFIX "cairn-tier-"
#define NHASH  1024
#define NAME   40

struct file {
    struct file *next;
    uint64_t id;
    uint64_t nblocks, cap;
    uint64_t *hash; /* owned; of each block */
};

struct dir_tier {
    struct crn_tier tier;
    const struct crn_fs *fs;
    int parent_fd, dfd, lock_fd;
    char name[NAME];
    struct crn_mutex mu;
    struct file *files[NHASH]; /* lock */
};

/* What is known of the files. ------------------------------------------------------------------------ */

static struct file **slot_locked(struct dir_tier *d, uint64_t id)
{
    struct file **f = &d->files[id % NHASH];

    while (*f != NULL && (*f)->id != id)
        f = &(*f)->next;
    return f;
}

static cairn_err note_block(struct dir_tier *d, uint64_t id, uint64_t block, uint64_t hash,
                            struct crn_errinfo *ei)
{
    struct file **slot;
    struct file *f;
    uint64_t *grown;
    cairn_err rc = CAIRN_OK;

    crn_lock(&d->mu);
    slot = slot_locked(d, id);
    if (*slot == NULL)
        *slot = calloc(1, sizeof(**slot));
    f = *slot;
    if (f != NULL && block >= f->cap) {
        grown = realloc(f->hash, 2 * (block + 8) * sizeof(*grown));
        if (grown != NULL) {
            f->hash = grown;
            f->cap = 2 * (block + 8);
        }
    }
    if (f == NULL || block >= f->cap) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "checksums of a tier's file");
    } else {
        f->id = id;
        f->hash[block] = hash;
        f->nblocks = block + 1;
    }
    crn_unlock(&d->mu);
    return rc;
}

static cairn_err check_block(struct dir_tier *d, uint64_t id, uint64_t block, uint64_t hash,
                             struct crn_errinfo *ei)
{
    const struct file *f;
    int is_good;

    crn_lock(&d->mu);
    f = *slot_locked(d, id);
    is_good = f != NULL && block < f->nblocks && f->hash[block] == hash;
    crn_unlock(&d->mu);
    if (!is_good)
        return crn_fail(ei, CAIRN_EDAMAGED, 0,
                        "block %" PRIu64 " of '%s/%" PRIu64 "' in the local directory is damaged",
                        block, d->name, id);
    return CAIRN_OK;
}

/* Blocks. --------------------------------------------------------------------------------------------- */

static cairn_err open_file(struct dir_tier *d, uint64_t id, int flags, char name[NAME], int *ret,
                           struct crn_errinfo *ei)
{
    (void)snprintf(name, NAME, "%" PRIu64, id);
    *ret = d->fs->openat(d->fs, d->dfd, name, flags | O_CLOEXEC, 0600);
    return crn_fs_check(*ret, ei, "open '%s/%s' in the local directory", d->name, name);
}

static cairn_err put(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, const void *src,
                     uint64_t bytes, struct crn_errinfo *ei)
{
    struct dir_tier *d = (struct dir_tier *)t;
    char name[NAME];
    cairn_err rc;
    int fd;

    rc = open_file(d, spot->id, at == 0 ? O_WRONLY | O_CREAT | O_TRUNC : O_WRONLY, name, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_write_all(d->fs, fd, src, bytes, at, name, ei);
    if (rc == CAIRN_OK)
        rc = crn_fs_check(d->fs->close(d->fs, fd), ei, "close '%s/%s'", d->name, name);
    else
        (void)d->fs->close(d->fs, fd);
    if (rc == CAIRN_OK)
        rc = note_block(d, spot->id, at / CRN_TIER_BLOCK, crn_hash(src, bytes), ei);
    return rc;
}

static cairn_err get(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, void *dst,
                     uint64_t bytes, struct crn_errinfo *ei)
{
    struct dir_tier *d = (struct dir_tier *)t;
    char name[NAME];
    cairn_err rc;
    int fd;

    rc = open_file(d, spot->id, O_RDONLY, name, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_fs_read_all(d->fs, fd, dst, bytes, at, name, ei);
    (void)d->fs->close(d->fs, fd);
    if (rc == CAIRN_OK)
        rc = check_block(d, spot->id, at / CRN_TIER_BLOCK, crn_hash(dst, bytes), ei);
    return rc;
}

static void release(struct crn_tier *t, const struct crn_spot *spot)
{
    struct dir_tier *d = (struct dir_tier *)t;
    struct file **slot;
    struct file *f;
    char name[NAME];

    crn_lock(&d->mu);
    slot = slot_locked(d, spot->id);
    f = *slot;
    if (f != NULL)
        *slot = f->next;
    crn_unlock(&d->mu);
    if (f == NULL)
        return;
    free(f->hash);
    free(f);
    (void)snprintf(name, sizeof(name), "%" PRIu64, spot->id);
    (void)d->fs->unlinkat(d->fs, d->dfd, name, 0); /* else it goes with the directory */
}

/* Life. ----------------------------------------------------------------------------------------------- */

static void close_dir(struct crn_tier *t)
{
    struct dir_tier *d = (struct dir_tier *)t;
    struct crn_errinfo ignored = {0};
    size_t i;

    for (i = 0; i < NHASH; i++) {
        while (d->files[i] != NULL) {
            struct file *f = d->files[i];

            d->files[i] = f->next;
            free(f->hash);
            free(f);
        }
    }
    if (d->dfd >= 0)
        (void)d->fs->close(d->fs, d->dfd);
    if (d->name[0] != '\0' &&
        crn_fs_remove_tree(d->fs, d->parent_fd, d->name, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored); /* the next tier beside it sweeps it */
    if (d->lock_fd >= 0)
        (void)d->fs->close(d->fs, d->lock_fd);
    if (d->parent_fd >= 0)
        (void)d->fs->close(d->fs, d->parent_fd);
    crn_mutex_fini(&d->mu);
    free(d);
}

static const struct crn_tier_ops dir_ops = {
    .kind = "directory",
    .put = put,
    .get = get,
    .release = release,
    .close = close_dir,
};

/* Directories of processes that are no more: their lock can be had. Best effort. */
static void sweep(struct dir_tier *d)
{
    struct crn_errinfo ei = {0};
    struct crn_names names = {0};
    size_t i;

    if (crn_fs_names(d->fs, d->parent_fd, "the local directory", &names, &ei) != CAIRN_OK)
        return;
    for (i = 0; i < names.n; i++) {
        char path[512];
        int fd;

        if (strncmp(names.name[i], PREFIX, strlen(PREFIX)) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/lock", names.name[i]);
        fd = d->fs->openat(d->fs, d->parent_fd, path, O_RDWR | O_CLOEXEC, 0);
        if (fd < 0)
            continue; /* being made, or being removed */
        if (d->fs->lock(d->fs, fd) == 0 &&
            crn_fs_remove_tree(d->fs, d->parent_fd, names.name[i], &ei) != CAIRN_OK)
            crn_err_clear(&ei);
        (void)d->fs->close(d->fs, fd);
    }
    crn_names_free(&names);
}

static cairn_err make_dir(struct dir_tier *d, const char *path, struct crn_errinfo *ei)
{
    char name[NAME];
    cairn_err rc;
    int r;

    rc = crn_fs_make_dirs(d->fs, AT_FDCWD, path, 0700, &d->parent_fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    sweep(d);
    (void)snprintf(name, sizeof(name), PREFIX "%016" PRIx64, crn_random_u64());
    rc = crn_fs_check(d->fs->mkdirat(d->fs, d->parent_fd, name, 0700), ei, "create '%s/%s'", path,
                      name);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(d->name, name, sizeof(name));
    d->dfd = d->fs->openat(d->fs, d->parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    rc = crn_fs_check(d->dfd, ei, "open '%s/%s'", path, name);
    if (rc != CAIRN_OK)
        return rc;
    d->lock_fd = d->fs->openat(d->fs, d->dfd, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rc = crn_fs_check(d->lock_fd, ei, "create '%s/%s/lock'", path, name);
    if (rc != CAIRN_OK)
        return rc;
    r = d->fs->lock(d->fs, d->lock_fd);
    return r == -ENOTSUP ? CAIRN_OK : crn_fs_check(r, ei, "lock '%s/%s/lock'", path, name);
}

cairn_err crn_tier_dir(const struct crn_fs *fs, const char *path, uint64_t capacity,
                       struct crn_tier **ret, struct crn_errinfo *ei)
{
    struct dir_tier *d = calloc(1, sizeof(*d));
    cairn_err rc;

    if (d == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a directory tier");
    crn_mutex_init(&d->mu, CRN_RANK_LEAF);
    d->fs = fs;
    d->parent_fd = d->dfd = d->lock_fd = -1;
    d->tier.ops = &dir_ops;
    d->tier.chain = (struct crn_chain_tier){.capacity = capacity, .align = 4096, .is_told = 1};
    rc = make_dir(d, path, ei);
    if (rc != CAIRN_OK) {
        close_dir(&d->tier);
        return rc;
    }
    *ret = &d->tier;
    return CAIRN_OK;
}
