/* SPDX-License-Identifier: BSD-3-Clause */
/* Can checkpoints be committed in a directory? Checked once, when a session opens, by doing what a
 * commit does first: creating a directory. Permission bits alone do not tell (ACLs, squashed users,
 * read-only mounts). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "store/layout.h"

#define PROBE ".cairn-probe-" /* and the host. No checkpoint name starts with '.' */
#define TRIES 16              /* races with other runs that probe on this host */

/* Runs of one host that probe at the same time may remove each other's directory. One left by a
 * dead run is removed by the next. Each host has its own, because a network file system may answer
 * EIO when its clients make and remove one name at the same time (GlusterFS does). */
static int try_directory(const struct crn_store *st)
{
    const struct crn_fs *fs = st->fs;
    char name[sizeof(PROBE) + 64] = PROBE;
    int tries = TRIES;
    int r;

    (void)gethostname(name + sizeof(PROBE) - 1, 64);
    name[sizeof(name) - 1] = '\0';
    while ((r = fs->mkdirat(fs, st->dfd, name, 0700)) == -EEXIST && tries-- > 0) {
        r = fs->unlinkat(fs, st->dfd, name, AT_REMOVEDIR);
        if (r < 0 && r != -ENOENT)
            return r;
    }
    if (r < 0)
        return r == -EEXIST ? 0 : r;
    r = fs->unlinkat(fs, st->dfd, name, AT_REMOVEDIR);
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
        /* A full file system is not a configuration error: a flush waits for free space, and says
         * so. */
        if (r == 0 || r == -ENOSPC || r == -EDQUOT)
            return CAIRN_OK;
        rc = crn_fail_errno(&why, -r, "make a directory in it");
    } else if (crn_errno_code(why.sys_errno) == CAIRN_ENOSPC) {
        return CAIRN_OK;
    }
    /* For an application CAIRN_ENOENT means that there is no version, which is not an error. */
    return crn_fail(ei, rc == CAIRN_ENOENT ? CAIRN_ECONFIG : rc, 0,
                    "checkpoints cannot be written to persistent='%s': %.200s; set persistent to a "
                    "directory that this user can write to on all nodes (to read a store that you "
                    "cannot write to, copy versions out of it with 'cairn cp')",
                    path, why.msg);
}
