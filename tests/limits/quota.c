/* SPDX-License-Identifier: BSD-3-Clause */
/* A user whose quota is used up while the file system has space: the flush pauses, names the
 * quota, and continues when there is space.
 *
 * usage: quota real        on an ext4 image with quotas, as another user than root; skipped (77)
 *                           if the kernel or the permissions do not allow that
 *        quota pretended   simulates the kernel's answer: works on every kernel */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "require.h"

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

enum { DATA = 4 << 20, LIMIT = 16 << 20, NOBODY = 65534, SKIPPED = 77 };

static unsigned char a[DATA];
static int is_pretended;
static atomic_long used; /* of the pretended quota */

/* Intercepts libcairn's calls; passes all but this one on to the system. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    long (*next)(long, ...);
    struct dqblk *q;
    long arg[6];
    va_list ap;
    int i;

    va_start(ap, number);
    for (i = 0; i < 6; i++)
        arg[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_quotactl_fd && is_pretended) {
        if ((unsigned)arg[1] != ((unsigned)Q_GETQUOTA << SUBCMDSHIFT | USRQUOTA) ||
            arg[2] != geteuid()) {
            errno = ESRCH;
            return -1;
        }
        q = (struct dqblk *)arg[3];
        q->dqb_bhardlimit = LIMIT / 1024;
        q->dqb_curspace = (uint64_t)atomic_load(&used);
        return 0;
    }
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static int use_up(const char *path)
{
    static char zeros[1 << 16];
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ssize_t n;

    if (fd < 0)
        return -1;
    atomic_store(&used, LIMIT);
    do
        n = is_pretended ? 0 : write(fd, zeros, sizeof(zeros));
    while (n > 0);
    if (!is_pretended && errno != EDQUOT) {
        (void)close(fd);
        return -1;
    }
    return close(fd);
}

static int make_room(const char *path)
{
    atomic_store(&used, 0);
    return unlink(path);
}

static int pauses_and_goes_on(const char *base)
{
    char persistent[300], shm_dir[300], run_dir[300], filler[300];
    const char *settings[] = {persistent,        shm_dir,    run_dir,
                              "log_level=error", "blocks=2", "free_reserve_bytes=64K",
                              "block_bytes=1M",  NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int64_t v;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/disk/p", base);
    (void)snprintf(shm_dir, sizeof(shm_dir), "shm_dir=%s", base);
    (void)snprintf(run_dir, sizeof(run_dir), "run_dir=%s/run", base);
    (void)snprintf(filler, sizeof(filler), "%s/disk/filler", base);
    REQUIRE(cairn_open(&opt, &s) == CAIRN_OK);
    REQUIRE(cairn_protect(s, "a", a, CAIRN_BYTES, DATA) == CAIRN_OK);
    memset(a, 1, DATA);
    REQUIRE(cairn_checkpoint(s, "quota", 1, NULL) == CAIRN_OK);
    REQUIRE(cairn_wait(s, "quota", 1, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    REQUIRE(use_up(filler) == 0);
    memset(a, 2, DATA);
    REQUIRE(cairn_checkpoint(s, "quota", 2, NULL) == CAIRN_OK);
    do
        REQUIRE(cairn_wait(s, "quota", 2, CAIRN_PERSISTENT, 100) == CAIRN_ETIMEDOUT);
    while (strstr(cairn_last_error(), "pauses") == NULL);
    REQUIRE(strstr(cairn_last_error(), "left of the quota of user 65534") != NULL);
    REQUIRE(make_room(filler) == 0);
    REQUIRE(cairn_wait(s, "quota", 2, CAIRN_PERSISTENT, 60000) == CAIRN_OK);
    memset(a, 0, DATA);
    REQUIRE(cairn_restart(s, "quota", NULL, &v) == CAIRN_OK);
    REQUIRE(v == 2 && a[0] == 2 && a[DATA - 1] == 2);
    REQUIRE(cairn_close(s) == CAIRN_OK);
    return 0;
}

/* An ext4 image with quotas at base/disk, on which no user may use more than LIMIT. */
static int mount_with_quota(const char *base)
{
    struct dqblk q = {.dqb_bhardlimit = LIMIT / 1024, .dqb_valid = QIF_BLIMITS};
    char cmd[600];
    int fd;

    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return SKIPPED;
    (void)snprintf(cmd, sizeof(cmd),
                   "truncate -s 128M '%s/image' && mkfs.ext4 -q -O quota '%s/image' && "
                   "mount -o loop,usrquota '%s/image' '%s/disk' && chown %d '%s/disk'",
                   base, base, base, base, NOBODY, base);
    if (system(cmd) != 0)
        return SKIPPED;
    (void)snprintf(cmd, sizeof(cmd), "%s/disk", base);
    fd = open(cmd, O_RDONLY | O_DIRECTORY);
    REQUIRE(fd >= 0);
    REQUIRE(syscall(SYS_quotactl_fd, fd, (unsigned)Q_SETQUOTA << SUBCMDSHIFT | USRQUOTA, NOBODY,
                    &q) == 0);
    REQUIRE(close(fd) == 0);
    return 0;
}

static int as_nobody(const char *base)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) < 0)
            _exit(SKIPPED);
        exit(pauses_and_goes_on(base));
    }
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    char base[] = "/tmp/cairn-quota-XXXXXX";
    char disk[64], cmd[256];
    int status = SKIPPED;

    is_pretended = argc > 1 && strcmp(argv[1], "pretended") == 0;
    if (mkdtemp(base) == NULL)
        return 1;
    (void)snprintf(disk, sizeof(disk), "%s/disk", base);
    if (mkdir(disk, 0700) < 0)
        return 1;
    if (geteuid() == 0 && chown(base, NOBODY, NOBODY) == 0 && chown(disk, NOBODY, NOBODY) == 0) {
        status = is_pretended ? 0 : mount_with_quota(base);
        if (status == 0)
            status = as_nobody(base);
        (void)umount2(disk, MNT_DETACH);
    }
    if (status == SKIPPED)
        (void)fprintf(stderr, "skipped: no file system with quotas can be had here\n");
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", base);
    return system(cmd) == 0 ? status : 1;
}
