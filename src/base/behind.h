/* SPDX-License-Identifier: BSD-3-Clause */
/* Write-behind: starts writeback of each range as soon as it has been written through the page
 * cache, and evicts the range once it is on disk. The disk is busy from the first block on, the
 * final fsync finds little to write, and a file of any size needs little page cache. Any thread. */
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
    } run;                                     /* lock: contiguous, writeback not started */
    struct crn_range piece[CRN_BEHIND_PIECES]; /* lock: in flight, oldest first */
    unsigned first, n;
    uint64_t bytes;        /* lock: sum of the ranges in flight */
    atomic_int is_refused; /* the file system cannot do it: all calls do nothing */
};

void crn_behind_init(struct crn_behind *b);
void crn_behind_fini(struct crn_behind *b);
/* The caller has written a range of the file. May wait for writeback of older ranges. Fails if one
 * of those cannot be written: the kernel reports that error here, and a later fsync does not report
 * it again. what names the file. */
CAIRN_CHECKED cairn_err crn_behind_wrote(struct crn_behind *b, const struct crn_fs *fs, int fd,
                                         uint64_t offset, uint64_t bytes, const char *what,
                                         struct crn_errinfo *ei);

#endif
