/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests: a file system that shows changes by another host late. One file has its old size, or
 * does not exist, for a number of lookups. */
#ifndef CRN_BASE_TEST_LATE_H
#define CRN_BASE_TEST_LATE_H

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fs.h"

struct late {
    struct crn_fs fs; /* first */
    struct crn_fs_type type;
    char file[64];    /* last component of its path */
    int64_t old_size; /* -1: the file does not exist yet */
    atomic_int looks; /* lookups that still see the old state; -1: all */
    atomic_int seen;  /* lookups that saw the old state */
    ino_t inode;
};

void late_init(struct late *l, unsigned late_s);

void late_hide(struct late *l, const char *file, int64_t old_size, int looks);

#endif
