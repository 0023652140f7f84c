/* SPDX-License-Identifier: BSD-3-Clause */
/* The recorded operations, shared by the files of the journal. */
#ifndef CRN_FS_JOURNAL_IMPL_H
#define CRN_FS_JOURNAL_IMPL_H

#include <assert.h>
#include <string.h>
#include "base/fs_journal.h"

#define MAX_FDS   4096
#define NAME_SIZE 256

enum kind { WRITE, TRUNCATE, LINK, UNLINK, RENAME, SYNC };

struct fs_journal_op {
    enum kind kind;
    int inode;            /* the file or directory that the operation concerns */
    int dir;              /* LINK, UNLINK, RENAME: the directory */
    char name[NAME_SIZE]; /* LINK, UNLINK: the entry; RENAME: the old name */
    char to[NAME_SIZE];   /* RENAME: the new name */
    uint64_t off;         /* WRITE: offset; TRUNCATE: new size */
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
    struct fs_journal_op *ops;
    size_t nops, cap;
    size_t nbase;         /* operations that create the initial tree: always durable */
    struct inode *inodes; /* inode 0 is the root */
    size_t ninodes;
    int fds[MAX_FDS]; /* inode of each open descriptor; -1: not below the root */
};

/* A test that runs out of memory has failed. */
static inline void *must(void *p)
{
    assert(p != NULL);
    return p;
}

static inline void set_name(char dst[NAME_SIZE], const char *src)
{
    size_t n = strlen(src);

    assert(n < NAME_SIZE);
    memcpy(dst, src, n + 1);
}

#endif
