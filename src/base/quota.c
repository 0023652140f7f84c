/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas as the kernel reports them (quotactl_fd, Linux 5.14). Any error counts as "no quota
 * known": an older kernel, a file system without quotas or with its own quota interface (Lustre,
 * NFS, btrfs), or no limit. The file system enforces its limits anyway, with EDQUOT. */
#include "base/quota.h"

#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef PRJQUOTA
#define PRJQUOTA 2
#endif

/* Bytes left below the limits. A soft limit applies once its grace period has ended. */
static uint64_t quota_left(const struct dqblk *q)
{
    uint64_t hard = (uint64_t)q->dqb_bhardlimit * 1024;
    uint64_t soft = (uint64_t)q->dqb_bsoftlimit * 1024;

    if (soft != 0 && q->dqb_curspace > soft && q->dqb_btime != 0 &&
        (uint64_t)time(NULL) >= q->dqb_btime)
        return 0;
    if (hard == 0)
        return UINT64_MAX;
    return q->dqb_curspace < hard ? hard - q->dqb_curspace : 0;
}

static void quota_bound(int fd, int type, const char *whose, unsigned id, struct crn_room *space)
{
    /* QCMD() of <sys/quota.h> shifts a signed number into its sign bit. */
    unsigned command = (unsigned)Q_GETQUOTA << SUBCMDSHIFT | ((unsigned)type & SUBCMDMASK);
    struct dqblk q = {0};

    if (syscall(SYS_quotactl_fd, fd, command, id, &q) != 0 || quota_left(&q) >= space->bytes)
        return;
    space->bytes = quota_left(&q);
    (void)snprintf(space->text, sizeof(space->text), "left of the quota of %s %u", whose, id);
}

void crn_quota_bound(int fd, struct crn_room *space)
{
    struct fsxattr attr = {0};
    struct stat st;

    if (geteuid() == 0 || fstat(fd, &st) < 0)
        return; /* quotas do not limit root */
    quota_bound(fd, USRQUOTA, "user", geteuid(), space);
    quota_bound(fd, GRPQUOTA, "group", (st.st_mode & S_ISGID) != 0 ? st.st_gid : getegid(), space);
    if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) == 0 && attr.fsx_projid != 0)
        quota_bound(fd, PRJQUOTA, "project", attr.fsx_projid, space);
}
