/* SPDX-License-Identifier: BSD-3-Clause */
/* A dead mount for unchanged programs. Loaded with LD_PRELOAD, it blocks the threads named in
 * $HANG_THREADS when they open something below $HANG_DIR, as long as the file $HANG_SWITCH exists. It
 * appends the name of a thread that begins to wait to $HANG_SWITCH.log. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef int (*open_fn)(const char *path, int flags, ...);
typedef int (*openat_fn)(int dfd, const char *path, int flags, ...);
int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int openat(int dfd, const char *path, int flags, ...);
int openat64(int dfd, const char *path, int flags, ...);

static void say(const char *hang_switch, const char *name)
{
    char line[20], log[400];
    size_t n = (size_t)snprintf(line, sizeof(line), "%s\n", name);
    int fd;

    if (strlen(hang_switch) + 5 > sizeof(log))
        return;
    (void)strcpy(log, hang_switch);
    (void)strcat(log, ".log");
    fd = openat(AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, n) != (ssize_t)n)
        abort();
    (void)close(fd);
}

static void wait_if_dead(const char *path)
{
    const struct timespec while_ms = {.tv_nsec = 10000000};
    const char *dir = getenv("HANG_DIR");
    const char *threads = getenv("HANG_THREADS");
    const char *hang_switch = getenv("HANG_SWITCH");
    char name[17] = "";
    int is_waiting = 0;

    if (dir == NULL || threads == NULL || hang_switch == NULL ||
        strncmp(path, dir, strlen(dir)) != 0)
        return;
    (void)prctl(PR_GET_NAME, name);
    while (strstr(threads, name) != NULL && access(hang_switch, F_OK) == 0) {
        if (!is_waiting)
            say(hang_switch, name);
        is_waiting = 1;
        (void)nanosleep(&while_ms, NULL);
    }
}

static int open_then(const char *symbol, const char *path, int flags, mode_t mode)
{
    open_fn next;

    *(void **)&next = dlsym(RTLD_NEXT, symbol);
    wait_if_dead(path);
    return next(path, flags, mode);
}

static int openat_then(const char *symbol, int dfd, const char *path, int flags, mode_t mode)
{
    openat_fn next;

    *(void **)&next = dlsym(RTLD_NEXT, symbol);
    wait_if_dead(path);
    return next(dfd, path, flags, mode);
}

int openat(int dfd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    return openat_then("openat", dfd, path, flags, mode);
}

int openat64(int dfd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    return openat_then("openat64", dfd, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    return open_then("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = va_arg(args, mode_t);
    va_end(args);
    return open_then("open64", path, flags, mode);
}
