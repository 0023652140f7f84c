/* SPDX-License-Identifier: BSD-3-Clause */
/* A slow file system for unchanged programs. Loaded with LD_PRELOAD, it makes all processes that
 * write below $SLOW_PFS_DIR share a bandwidth. The few bytes of the writer's lock are exempt,
 * because a job takes it before its turn. It appends to $SLOW_PFS_LOG a line "JOB BEGIN END
 * PATH" for each write, on a clock that all processes share. */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BANDWIDTH 8e6 /* bytes/s, unless $SLOW_PFS_BANDWIDTH says otherwise */

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off);
ssize_t pwrite64(int fd, const void *buf, size_t n, off_t off);

static _Atomic int64_t *free_at;
static int log_fd = -1;
static const char *dir;
static double bandwidth = BANDWIDTH;

static int64_t now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((constructor)) static void start(void)
{
    const char *log_path = getenv("SLOW_PFS_LOG");
    const char *shared = getenv("SLOW_PFS_SHARED");
    void *map;
    int fd;

    dir = getenv("SLOW_PFS_DIR");
    if (getenv("SLOW_PFS_BANDWIDTH") != NULL)
        bandwidth = strtod(getenv("SLOW_PFS_BANDWIDTH"), NULL);
    if (dir == NULL || log_path == NULL || shared == NULL)
        return;
    fd = open(shared, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*free_at)) != 0)
        return;
    map = mmap(NULL, sizeof(*free_at), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map != MAP_FAILED)
        free_at = map;
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Each write moves the time at which the file system is free again. */
static void wait_turn(size_t n)
{
    int64_t cost = (int64_t)((double)n / bandwidth * 1e9);
    int64_t old = atomic_load(free_at);
    struct timespec until;
    int64_t begin;

    do
        begin = old > now() ? old : now();
    while (!atomic_compare_exchange_weak(free_at, &old, begin + cost));
    until.tv_sec = (begin + cost) / 1000000000;
    until.tv_nsec = (begin + cost) % 1000000000;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
}

static int is_ours(int fd, char *path, size_t size)
{
    const char *name;
    char link[64];
    ssize_t n;

    if (free_at == NULL || log_fd < 0)
        return 0;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, size - 1);
    if (n < 0)
        return 0;
    path[n] = '\0';
    name = strrchr(path, '/');
    /* Files of a name that belong to no version (.writer, .generation, .journal) need no turn. */
    return strncmp(path, dir, strlen(dir)) == 0 && name != NULL && name[1] != '.';
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    char path[1024], line[1200];
    const char *job = getenv("SLOW_PFS_JOB");
    int64_t begin = now();
    ssize_t done;
    int len;

    if (real == NULL)
        real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    if (!is_ours(fd, path, sizeof(path)))
        return real(fd, buf, n, off);
    wait_turn(n);
    done = real(fd, buf, n, off);
    len = snprintf(line, sizeof(line), "%s %" PRId64 " %" PRId64 " %s\n", job != NULL ? job : "?",
                   begin, now(), path);
    if (write(log_fd, line, (size_t)len) != len)
        return -1;
    return done;
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off_t off)
{
    return pwrite(fd, buf, n, off);
}
