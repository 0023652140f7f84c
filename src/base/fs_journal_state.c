/* SPDX-License-Identifier: BSD-3-Clause */
/* The states that a crash may leave: which operations may be missing, and the tree that results
 * from the others. */
#include "base/fs_journal_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static int is_durable(const struct crn_fs_journal *j, size_t i, size_t n)
{
    const struct fs_journal_op *op = &j->ops[i];
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
    struct dirent_of *entries; /* sorted by name */
    size_t nentries;
};

static void journal_state_resize(struct node *f, size_t len)
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

/* Only if the name still refers to this inode: an earlier operation may be missing on disk. */
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

static void apply_op(struct node *nodes, const struct fs_journal_op *op)
{
    struct node *f = &nodes[op->inode];

    switch (op->kind) {
    case WRITE:
        if (f->len < op->off + op->len)
            journal_state_resize(f, op->off + op->len);
        if (f->data != NULL) /* no write is empty */
            memcpy(f->data + op->off, op->data, op->len);
        break;
    case TRUNCATE:
        journal_state_resize(f, op->off);
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

/* Serialises the tree: directories by name, files by content. */
static void journal_state_flatten(const struct crn_fs_journal *j, const struct node *nodes,
                                  int inode, struct crn_buf *buf)
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
        journal_state_flatten(j, nodes, f->entries[i].inode, buf);
    }
}

uint64_t crn_fs_journal_hash(const struct crn_fs_journal *j, size_t n, const unsigned char *apply)
{
    struct node *nodes = make_state(j, n, apply);
    struct crn_buf buf = {0};
    uint64_t hash;

    journal_state_flatten(j, nodes, 0, &buf);
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
    const struct fs_journal_op *o = &j->ops[op];

    (void)snprintf(buf, size, "%zu: %s inode %d %s%s%s", op, names[o->kind], o->inode, o->name,
                   o->kind == RENAME ? " -> " : "", o->to);
}
