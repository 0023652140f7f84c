/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of fork.h. One mutex guards it. The fork handlers keep it locked across fork(), so
 * that the child finds the registry consistent although the parent's other threads are gone. The
 * child's handler calls only fstat and close, which are async-signal-safe. */
#include "base/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct owned {
    int fd;
    dev_t dev;
    ino_t ino;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below except process */
static struct owned *table;
static size_t nowned, nroom;
static uint64_t nforks;
static atomic_uint process; /* written only by the child's single thread */

static void before_fork(void)
{
    (void)pthread_mutex_lock(&mutex);
    nforks++;
}

static void after_fork(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* A registered number may have been closed elsewhere and reused for another file. That file stays
 * open. */
static void in_child(void)
{
    struct stat st;
    size_t i;

    for (i = 0; i < nowned; i++)
        if (fstat(table[i].fd, &st) == 0 && st.st_dev == table[i].dev && st.st_ino == table[i].ino)
            (void)close(table[i].fd);
    nowned = 0;
    atomic_fetch_add_explicit(&process, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&mutex);
}

static void fork_install(void)
{
    (void)pthread_atfork(before_fork, after_fork, in_child); /* fails only if out of memory */
}

/* Blocks fork() in all threads until fork_release(). Returns how often this process has forked. */
static uint64_t fork_hold(void)
{
    (void)pthread_once(&once, fork_install);
    (void)pthread_mutex_lock(&mutex);
    return nforks;
}

static void fork_release(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

static void forget_locked(int fd)
{
    size_t i;

    for (i = 0; i < nowned; i++)
        if (table[i].fd == fd)
            table[i--] = table[--nowned];
}

/* Registers fd. The caller has blocked fork() since before fd was created. Returns 0 or a negative
 * errno; fd stays open. */
static int own_locked(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    forget_locked(fd);
    if (nowned == nroom) {
        size_t room = nroom != 0 ? 2 * nroom : 16;
        struct owned *grown = realloc(table, room * sizeof(*grown));

        if (grown == NULL)
            return -ENOMEM;
        table = grown;
        nroom = room;
    }
    table[nowned++] = (struct owned){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

void crn_fork_disown(int fd)
{
    (void)fork_hold();
    forget_locked(fd);
    fork_release();
}

void crn_fork_close(int fd)
{
    crn_fork_disown(fd);
    (void)close(fd);
}

/* An open may take long, so it must not block fork(). If another thread forks meanwhile, the child
 * has inherited this descriptor, so the file is opened again. */
int crn_fork_openat(const struct crn_fs *fs, int dfd, const char *name, int flags, mode_t mode)
{
    for (;;) {
        uint64_t before = fork_hold();
        int is_ours;
        int r = 0;
        int fd;

        fork_release();
        fd = fs->openat(fs, dfd, name, flags, mode);
        if (fd < 0)
            return fd;
        is_ours = fork_hold() == before;
        if (is_ours)
            r = own_locked(fd);
        fork_release();
        if (is_ours && r == 0)
            return fd;
        (void)fs->close(fs, fd);
        if (r < 0)
            return r;
    }
}

/* Registers the descriptor that socket() or accept4() returned. */
static int own_result_locked(int fd)
{
    int r;

    if (fd < 0)
        return -errno;
    r = own_locked(fd);
    if (r == 0)
        return fd;
    (void)close(fd);
    return r;
}

int crn_fork_socket(int family, int type)
{
    int fd;

    (void)fork_hold();
    fd = own_result_locked(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    fork_release();
    return fd;
}

int crn_fork_accept(int listen_fd)
{
    int fd;

    (void)fork_hold();
    fd = own_result_locked(accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    fork_release();
    return fd;
}

unsigned crn_fork_process(void)
{
    (void)pthread_once(&once, fork_install);
    return atomic_load_explicit(&process, memory_order_relaxed);
}
