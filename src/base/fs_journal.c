/* SPDX-License-Identifier: BSD-3-Clause */
/* Records operations by inode, so that a state can be rebuilt from any subset of them: a rename that
 * reached the disk shows its file under the new name even where its creation did not. */
#include "base/fs_journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

#define MAX_FDS   4096
#define NAME_SIZE 256

enum kind { WRITE, TRUNCATE, LINK, UNLINK, RENAME, SYNC };

struct op {
    enum kind kind;
    int inode;            /* what is written, synced, linked or moved */
    int dir;              /* LINK, UNLINK, RENAME: the directory */
    char name[NAME_SIZE]; /* LINK, UNLINK: the entry; RENAME: the old one */
    char to[NAME_SIZE];   /* RENAME */
    uint64_t off;         /* WRITE; TRUNCATE: the size */
    unsigned char *data;  /* WRITE; owned */
    size_t len;
};

struct inode {
    dev_t dev;
    ino_t ino;
    int is_dir;
};

struct crn_fs_journal {
    struct crn_fs fs; /* first: the table handed out */
    const struct crn_fs *under;
    char *root;
    struct op *ops;
    size_t nops, cap;
    size_t nbase;         /* operations that make the tree as it was at the start: always durable */
    struct inode *inodes; /* number 0 is the root */
    size_t ninodes;
    int fds[MAX_FDS]; /* inode of each open descriptor; -1: not below the root */
};

static struct crn_fs_journal *self(const struct crn_fs *fs)
{
    return (struct crn_fs_journal *)(uintptr_t)fs;
}

/* A test that runs out of memory has failed. */
static void *must(void *p)
{
    assert(p != NULL);
    return p;
}

static struct op *record(struct crn_fs_journal *j, enum kind kind, int inode)
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

static void set_name(char dst[NAME_SIZE], const char *src)
{
    size_t n = strlen(src);

    assert(n < NAME_SIZE);
    memcpy(dst, src, n + 1);
}

static void record_entry(struct crn_fs_journal *j, enum kind kind, int inode, int dir,
                         const char *name, const char *to)
{
    struct op *op = record(j, kind, inode);

    op->dir = dir;
    set_name(op->name, name);
    set_name(op->to, to);
}

static void record_write(struct crn_fs_journal *j, int inode, const void *data, size_t len,
                         uint64_t off)
{
    struct op *op = record(j, WRITE, inode);

    op->off = off;
    op->len = len;
    op->data = must(malloc(len));
    memcpy(op->data, data, len);
}

/* Inode numbers are used again after an unlink: the latest owner counts. */
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

/* The inode of an entry, or -1. */
static int entry(const struct crn_fs_journal *j, int dfd, const char *name)
{
    struct stat sb;

    return j->under->fstatat(j->under, dfd, name, &sb) == 0 ? find_inode(j, &sb) : -1;
}

/* The table. --------------------------------------------------------------------------------------- */

static int j_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    struct crn_fs_journal *j = self(fs);
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
        record(j, TRUNCATE, inode)->off = 0;
    }
    j->fds[fd] = inode;
    return fd;
}

static int j_close(const struct crn_fs *fs, int fd)
{
    if (fd >= 0 && fd < MAX_FDS)
        self(fs)->fds[fd] = -1;
    return self(fs)->under->close(self(fs)->under, fd);
}

static ssize_t j_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    return self(fs)->under->pread(self(fs)->under, fd, buf, n, off);
}

/* In two halves: a power loss may leave one of them. */
static ssize_t j_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    struct crn_fs_journal *j = self(fs);
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
    struct crn_fs_journal *j = self(fs);
    int inode = inode_of(j, fd);

    /* The disk below is not what is tested: no need to wait for it. */
    if (inode >= 0)
        (void)record(j, SYNC, inode);
    return 0;
}

static int j_ftruncate(const struct crn_fs *fs, int fd, off_t size)
{
    struct crn_fs_journal *j = self(fs);
    int r = j->under->ftruncate(j->under, fd, size);
    int inode = inode_of(j, fd);

    if (r == 0 && inode >= 0)
        record(j, TRUNCATE, inode)->off = (uint64_t)size;
    return r;
}

static int j_fallocate(const struct crn_fs *fs, int fd, off_t off, off_t bytes)
{
    (void)fs;
    (void)fd;
    (void)off;
    (void)bytes;
    return -EOPNOTSUPP; /* a hint that callers must be able to do without */
}

static int j_renameat(const struct crn_fs *fs, int olddfd, const char *from, int newdfd,
                      const char *to)
{
    struct crn_fs_journal *j = self(fs);
    int dir = inode_of(j, olddfd);
    int inode = entry(j, olddfd, from);
    int r;

    if (dir != inode_of(j, newdfd))
        return -EXDEV; /* not modelled */
    r = j->under->renameat(j->under, olddfd, from, newdfd, to);
    if (r == 0 && dir >= 0)
        record_entry(j, RENAME, inode, dir, from, to);
    return r;
}

static int j_unlinkat(const struct crn_fs *fs, int dfd, const char *name, int flags)
{
    struct crn_fs_journal *j = self(fs);
    int inode = entry(j, dfd, name);
    int r = j->under->unlinkat(j->under, dfd, name, flags);

    if (r == 0 && inode_of(j, dfd) >= 0)
        record_entry(j, UNLINK, inode, inode_of(j, dfd), name, "");
    return r;
}

static int j_mkdirat(const struct crn_fs *fs, int dfd, const char *name, mode_t mode)
{
    struct crn_fs_journal *j = self(fs);
    int r = j->under->mkdirat(j->under, dfd, name, mode);
    struct stat sb;

    if (r == 0 && inode_of(j, dfd) >= 0 && j->under->fstatat(j->under, dfd, name, &sb) == 0)
        record_entry(j, LINK, new_inode(j, &sb), inode_of(j, dfd), name, "");
    return r;
}

static int j_fstat(const struct crn_fs *fs, int fd, struct stat *st)
{
    return self(fs)->under->fstat(self(fs)->under, fd, st);
}

static int j_fstatat(const struct crn_fs *fs, int dfd, const char *name, struct stat *st)
{
    return self(fs)->under->fstatat(self(fs)->under, dfd, name, st);
}

static int j_list(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg)
{
    return self(fs)->under->list(self(fs)->under, dfd, fn, arg);
}

static int j_space(const struct crn_fs *fs, int fd, struct crn_room *ret)
{
    return self(fs)->under->space(self(fs)->under, fd, ret);
}

static int j_stripe(const struct crn_fs *fs, int dfd, uint64_t count, uint64_t bytes)
{
    return self(fs)->under->stripe(self(fs)->under, dfd, count, bytes);
}

static int j_on_disk(const struct crn_fs *fs, int fd)
{
    return self(fs)->under->on_disk(self(fs)->under, fd);
}

static int j_lock(const struct crn_fs *fs, int fd)
{
    return self(fs)->under->lock(self(fs)->under, fd);
}

static const struct crn_fs table = {.openat = j_openat,
                                    .close = j_close,
                                    .pread = j_pread,
                                    .pwrite = j_pwrite,
                                    .fsync = j_fsync,
                                    .ftruncate = j_ftruncate,
                                    .fallocate = j_fallocate,
                                    .renameat = j_renameat,
                                    .unlinkat = j_unlinkat,
                                    .mkdirat = j_mkdirat,
                                    .fstat = j_fstat,
                                    .fstatat = j_fstatat,
                                    .list = j_list,
                                    .space = j_space,
                                    .stripe = j_stripe,
                                    .on_disk = j_on_disk,
                                    .lock = j_lock};

/* The tree at the start, as operations. ------------------------------------------------------------ */

static int scan(struct crn_fs_journal *j, int dfd, int dir)
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
                ok = scan(j, fd, inode) == 0;
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
        ok = scan(j, fd, 0) == 0;
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

/* States. -------------------------------------------------------------------------------------------- */

static int is_durable(const struct crn_fs_journal *j, size_t i, size_t n)
{
    const struct op *op = &j->ops[i];
    int inode = op->kind == WRITE || op->kind == TRUNCATE ? op->inode : op->dir;
    size_t s;

    if (i < j->nbase || op->kind == SYNC)
        return 1;
    for (s = i + 1; s < n; s++)
        if (j->ops[s].kind == SYNC && j->ops[s].inode == inode)
            return 1;
    return 0;
}

size_t *crn_fs_journal_unsynced(const struct crn_fs_journal *j, size_t n, size_t *ret_count)
{
    size_t *list = must(calloc(n + 1, sizeof(*list)));
    size_t count = 0;
    size_t i;

    for (i = 0; i < n; i++)
        if (!is_durable(j, i, n))
            list[count++] = i;
    *ret_count = count;
    if (count == 0) {
        free(list);
        return NULL;
    }
    return list;
}

struct dirent_of {
    char name[NAME_SIZE];
    int inode;
};

struct node {
    unsigned char *data;
    size_t len;
    struct dirent_of *entries; /* in the order of names */
    size_t nentries;
};

static void resize(struct node *f, size_t len)
{
    if (len > f->len) {
        f->data = must(realloc(f->data, len));
        memset(f->data + f->len, 0, len - f->len);
    }
    f->len = len;
}

static void set_entry(struct node *dir, const char *name, int inode)
{
    size_t i = 0;

    while (i < dir->nentries && strcmp(dir->entries[i].name, name) < 0)
        i++;
    if (i == dir->nentries || strcmp(dir->entries[i].name, name) != 0) {
        dir->entries = must(realloc(dir->entries, (dir->nentries + 1) * sizeof(*dir->entries)));
        memmove(&dir->entries[i + 1], &dir->entries[i],
                (dir->nentries - i) * sizeof(*dir->entries));
        dir->nentries++;
        set_name(dir->entries[i].name, name);
    }
    dir->entries[i].inode = inode;
}

/* Only if it is still this inode: an earlier operation may not have reached the disk. */
static void drop_entry(struct node *dir, const char *name, int inode)
{
    size_t i;

    for (i = 0; i < dir->nentries; i++)
        if (strcmp(dir->entries[i].name, name) == 0 && dir->entries[i].inode == inode) {
            memmove(&dir->entries[i], &dir->entries[i + 1],
                    (dir->nentries - i - 1) * sizeof(*dir->entries));
            dir->nentries--;
            return;
        }
}

static void apply_op(struct node *nodes, const struct op *op)
{
    struct node *f = &nodes[op->inode];

    switch (op->kind) {
    case WRITE:
        if (f->len < op->off + op->len)
            resize(f, op->off + op->len);
        if (f->data != NULL) /* no write is empty */
            memcpy(f->data + op->off, op->data, op->len);
        break;
    case TRUNCATE:
        resize(f, op->off);
        break;
    case LINK:
        set_entry(&nodes[op->dir], op->name, op->inode);
        break;
    case UNLINK:
        drop_entry(&nodes[op->dir], op->name, op->inode);
        break;
    case RENAME:
        drop_entry(&nodes[op->dir], op->name, op->inode);
        set_entry(&nodes[op->dir], op->to, op->inode);
        break;
    case SYNC:
        break;
    }
}

static struct node *make_state(const struct crn_fs_journal *j, size_t n, const unsigned char *apply)
{
    struct node *nodes = must(calloc(j->ninodes, sizeof(*nodes)));
    size_t i;

    for (i = 0; i < n; i++)
        if (apply[i] || is_durable(j, i, n))
            apply_op(nodes, &j->ops[i]);
    return nodes;
}

static void free_state(const struct crn_fs_journal *j, struct node *nodes)
{
    size_t i;

    for (i = 0; i < j->ninodes; i++) {
        free(nodes[i].data);
        free(nodes[i].entries);
    }
    free(nodes);
}

/* The tree as bytes: directories by name, files by content. */
static void flatten(const struct crn_fs_journal *j, const struct node *nodes, int inode,
                    struct crn_buf *buf)
{
    const struct node *f = &nodes[inode];
    size_t i;

    if (!j->inodes[inode].is_dir) {
        crn_buf_u64(buf, f->len);
        crn_buf_put(buf, f->data, f->len);
        return;
    }
    crn_buf_u64(buf, UINT64_MAX - f->nentries);
    for (i = 0; i < f->nentries; i++) {
        crn_buf_str(buf, f->entries[i].name);
        flatten(j, nodes, f->entries[i].inode, buf);
    }
}

uint64_t crn_fs_journal_hash(const struct crn_fs_journal *j, size_t n, const unsigned char *apply)
{
    struct node *nodes = make_state(j, n, apply);
    struct crn_buf buf = {0};
    uint64_t hash;

    flatten(j, nodes, 0, &buf);
    hash = crn_hash(buf.data, buf.len);
    crn_buf_free(&buf);
    free_state(j, nodes);
    return hash;
}

static int build_dir(const struct crn_fs_journal *j, const struct node *nodes, int inode, int dfd)
{
    const struct node *dir = &nodes[inode];
    int ok = 1;
    size_t i;

    for (i = 0; i < dir->nentries && ok; i++) {
        const char *name = dir->entries[i].name;
        int child = dir->entries[i].inode;
        int is_dir = j->inodes[child].is_dir;
        int fd;

        if (is_dir && mkdirat(dfd, name, 0700) < 0)
            return -1;
        fd = openat(dfd, name, is_dir ? O_RDONLY | O_DIRECTORY : O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd < 0)
            return -1;
        if (is_dir)
            ok = build_dir(j, nodes, child, fd) == 0;
        else if (nodes[child].len > 0)
            ok = write(fd, nodes[child].data, nodes[child].len) == (ssize_t)nodes[child].len;
        (void)close(fd);
    }
    return ok ? 0 : -1;
}

int crn_fs_journal_build(const struct crn_fs_journal *j, size_t n, const unsigned char *apply,
                         const char *dir)
{
    struct node *nodes;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return -1;
    nodes = make_state(j, n, apply);
    r = build_dir(j, nodes, 0, fd);
    free_state(j, nodes);
    (void)close(fd);
    return r;
}

void crn_fs_journal_describe(const struct crn_fs_journal *j, size_t op, char *buf, size_t size)
{
    static const char *const names[] = {"write", "truncate", "create", "unlink", "rename", "fsync"};
    const struct op *o = &j->ops[op];

    (void)snprintf(buf, size, "%zu: %s inode %d %s%s%s", op, names[o->kind], o->inode, o->name,
                   o->kind == RENAME ? " -> " : "", o->to);
}
