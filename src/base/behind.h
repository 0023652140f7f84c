/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing behind: what was put into a file through the page cache goes to the disk at once, beside the
 * writes that follow, and leaves the page cache when it is there. The disk is busy from the first block
 * on, the fsync at the end finds little to do, and a file of any size takes little memory. Any thread. */
#ifndef CRN_BEHIND_H
#define CRN_BEHIND_H

#include <stdatomic.h>
#include "base/fs.h"
#include "base/thread.h"

#define CRN_BEHIND_PIECES 64

struct crn_behind {
    struct crn_mutex mu;
    struct crn_range {
        uint64_t offset, bytes;
    } run;                                     /* lock: written, in a row, and not on its way */
    struct crn_range piece[CRN_BEHIND_PIECES]; /* lock: on their way, the oldest at first */
    unsigned first, n;
    uint64_t bytes;        /* lock: of them */
    atomic_int is_refused; /* the file system knows no such thing: nothing is done */
};

void crn_behind_init(struct crn_behind *b);
void crn_behind_fini(struct crn_behind *b);
/* A range of the file was written. May wait for older ones; fails if one of them cannot be written to
 * disk, which no fsync would tell any more. what names the file. */
CAIRN_CHECKED cairn_err crn_behind_wrote(struct crn_behind *b, const struct crn_fs *fs, int fd,
                                         uint64_t offset, uint64_t bytes, const char *what,
                                         struct crn_errinfo *ei);

#endif
