/* SPDX-License-Identifier: BSD-3-Clause */
/* Can checkpoints be committed in a directory? Asked once, when a session opens, and answered by doing
 * what a commit does first: making a directory. Permission bits alone do not tell (ACLs, squashed
 * users, read-only mounts). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "store/layout.h"

#define PROBE ".cairn-probe" /* no name of a checkpoint: it begins with a '.' */
#define TRIES 16             /* of runs that ask at the same time */

/* Runs that ask at the same time may remove each other's probe. One that died leaves it to the next. */
static int try_directory(const struct crn_store *st)
{
    const struct crn_fs *fs = st->fs;
    int tries = TRIES;
    int r;

    while ((r = fs->mkdirat(fs, st->dfd, PROBE, 0700)) == -EEXIST && tries-- > 0) {
        r = fs->unlinkat(fs, st->dfd, PROBE, AT_REMOVEDIR);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    if (r < 0)
        return r == -EEXIST ? 0 : r;
    r = fs->unlinkat(fs, st->dfd, PROBE, AT_REMOVEDIR);
    return r == -ENOENT ? 0 : r;
}

cairn_err crn_store_check(const struct crn_fs *fs, const char *path, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_store st;
    cairn_err rc;
    int r;

    rc = crn_store_open(fs, path, 1, &st, &why);
    if (rc == CAIRN_OK) {
        r = try_directory(&st);
        crn_store_close(&st);
        /* A flush waits for room, and says so: a full file system is no wrong configuration. */
        if (r == 0 || r == -ENOSPC || r == -EDQUOT)
            return CAIRN_OK;
        rc = crn_fail_errno(&why, -r, "make a directory in it");
    } else if (crn_errno_code(why.sys_errno) == CAIRN_ENOSPC) {
        return CAIRN_OK;
    }
    /* To an application CAIRN_ENOENT means that there is no version, which is no reason to stop. */
    return crn_fail(ei, rc == CAIRN_ENOENT ? CAIRN_ECONFIG : rc, 0,
                    "checkpoints cannot be written to persistent='%s': %.200s; set persistent to a "
                    "directory that this user can write to on all nodes (to read a store that you "
                    "cannot write to, copy versions out of it with 'cairn cp')",
                    path, why.msg);
}
