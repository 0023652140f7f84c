/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of file operations that fails, tears a write or kills the process at the k-th call. */
#ifndef CRN_FS_FAULTY_H
#define CRN_FS_FAULTY_H

#include <stdatomic.h>
#include "base/fs.h"

enum crn_fault_action {
    CRN_FAULT_FAIL,  /* the call does nothing and fails with sys_errno */
    CRN_FAULT_SHORT, /* a read or write transfers half of its bytes and succeeds */
    CRN_FAULT_TEAR,  /* a write transfers half of its bytes, then SIGKILL */
    CRN_FAULT_KILL,  /* SIGKILL before the call */
    CRN_FAULT_DELAY, /* the call takes longer */
};

/* Which calls are counted. */
enum crn_fault_op {
    CRN_OP_OPEN = 1 << 0,
    CRN_OP_CLOSE = 1 << 1,
    CRN_OP_READ = 1 << 2,
    CRN_OP_WRITE = 1 << 3,
    CRN_OP_SYNC = 1 << 4,
    CRN_OP_RENAME = 1 << 5,
    CRN_OP_UNLINK = 1 << 6,
    CRN_OP_MKDIR = 1 << 7,
    CRN_OP_SIZE = 1 << 8, /* ftruncate, fallocate, stripe */
    CRN_OP_STAT = 1 << 9, /* fstat, fstatat, list, space */
    CRN_OP_LOCK = 1 << 10,
    CRN_OP_MAP = 1 << 11,
    CRN_OP_ALL = (1 << 12) - 1,
};

struct crn_fs_faulty {
    struct crn_fs fs; /* first: the table handed out */
    const struct crn_fs *under;
    enum crn_fault_action action;
    int sys_errno;
    long delay_ms;
    unsigned ops;      /* bit set of crn_fault_op */
    long at;           /* number of the call to hit, from 1; 0: none */
    int sticky;        /* hit all later calls of these ops too */
    atomic_long calls; /* counted so far; any thread */
    int reads_fd;      /* every read is logged here as "offset bytes path"; -1: none */
};

/* The caller sets action, sys_errno, ops, at and sticky afterwards. */
void crn_fs_faulty_init(struct crn_fs_faulty *f, const struct crn_fs *under);

/* The table described by $CAIRN_FAULT_FS =
 * "at=17,action=fail|short|tear|kill|delay,errno=28,ms=5,ops=write+sync,sticky=1", parsed once per
 * process; NULL if unset. With action=kill and at=0 nothing is hit, and the number of calls is
 * written to the file $CAIRN_FAULT_COUNT at exit. All reads of the process are logged in the file
 * $CAIRN_FAULT_READS. */
const struct crn_fs *crn_fs_faulty_from_env(void);

#endif
