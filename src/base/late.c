/* SPDX-License-Identifier: BSD-3-Clause */
/* NFS revalidates attributes on open, so reopen the file before each retry. Other file systems let
 * cached attributes expire. */
#include "base/late.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

#include "base/clock.h"

#define SECOND 1000000000ULL

uint64_t crn_late_now(void)
{
    return (uint64_t)crn_clock_real()->wall_ns(crn_clock_real());
}

int crn_late_again(const struct crn_fs *fs, int dfd, uint64_t changed_ns)
{
    static const struct timespec moment = {.tv_nsec = 20 * 1000000};
    uint64_t now_ns = crn_late_now();
    uint64_t apart_ns = now_ns > changed_ns ? now_ns - changed_ns : changed_ns - now_ns;

    /* Clocks of hosts differ: without the absolute value, a timestamp far ahead would mean a long
     * wait. */
    if (apart_ns >= fs->type(fs, dfd)->late_s * SECOND)
        return 0;
    (void)nanosleep(&moment, NULL);
    return 1;
}

static int is_as_before(int r, const struct stat *sb, uint64_t bytes)
{
    return r == -ENOENT || r == -ESTALE || (r == 0 && (uint64_t)sb->st_size != bytes);
}

static int late_look(const struct crn_fs *fs, int dfd, const char *path, struct stat *ret)
{
    int fd = fs->openat(fs, dfd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return fd;
    r = fs->fstat(fs, fd, ret);
    (void)fs->close(fs, fd);
    return r;
}

int crn_late_stat(const struct crn_fs *fs, int dfd, const char *path, uint64_t bytes,
                  uint64_t changed_ns, struct stat *ret)
{
    int r = fs->fstatat(fs, dfd, path, ret);

    while (is_as_before(r, ret, bytes) && crn_late_again(fs, dfd, changed_ns))
        r = late_look(fs, dfd, path, ret);
    return r;
}

uint64_t crn_late_changed(const struct crn_fs *fs, int dfd, const char *path)
{
    struct stat sb;

    if (fs->fstatat(fs, dfd, path, &sb) < 0)
        return 0;
    return (uint64_t)sb.st_mtim.tv_sec * SECOND + (uint64_t)sb.st_mtim.tv_nsec;
}
