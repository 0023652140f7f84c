/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the ranks of a job without a launcher: forked processes that exchange their blobs
 * through shared memory. */
#ifndef UCX_RANKS_H
#define UCX_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cairn/cairn_ucx.h"

#define RANKS_MAX  8
#define BLOB_BYTES 8192

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #cond,                    \
                          cairn_last_error());                                                     \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct meeting {
    pthread_barrier_t barrier;
    unsigned char blob[RANKS_MAX][BLOB_BYTES];
    int flag;
};

struct attendance {
    struct meeting *m;
    int rank, ranks;
};

static inline int meet(void *arg, const void *in, size_t bytes, void *out)
{
    struct attendance *a = arg;
    int i;

    REQUIRE(bytes <= BLOB_BYTES);
    memcpy(a->m->blob[a->rank], in, bytes);
    (void)pthread_barrier_wait(&a->m->barrier);
    for (i = 0; i < a->ranks; i++)
        memcpy((char *)out + (size_t)i * bytes, a->m->blob[i], bytes);
    (void)pthread_barrier_wait(&a->m->barrier);
    return 0;
}

static inline struct meeting *arrange(int ranks)
{
    struct meeting *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;

    REQUIRE(m != MAP_FAILED);
    (void)pthread_barrierattr_init(&attr);
    (void)pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    REQUIRE(pthread_barrier_init(&m->barrier, &attr, (unsigned)ranks) == 0);
    return m;
}

/* Runs body in one process per rank. Returns the number of processes that exit with a status
 * other than 0. */
static inline int run_ranks(int ranks, void (*body)(struct attendance *a, void *arg), void *arg)
{
    struct meeting *m = arrange(ranks);
    int bad = 0;
    int i;

    for (i = 0; i < ranks; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
            struct attendance a = {m, i, ranks};

            body(&a, arg);
            exit(0);
        }
    }
    for (i = 0; i < ranks; i++) {
        int status;

        REQUIRE(wait(&status) > 0); /* in any order: a dead rank must not stay a zombie */
        bad += status != 0;
    }
    (void)munmap(m, sizeof(*m));
    return bad;
}

#endif
