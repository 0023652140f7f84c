/* SPDX-License-Identifier: BSD-3-Clause */
/* For test programs under mpirun: a failed check ends the whole job with the place and the
 * library's last error. */
#ifndef CRN_MPI_TEST_H
#define CRN_MPI_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CRN_TEST_SINGLE
#include "cairn/cairn.h"
#define GIVE_UP() exit(1)
#else
#include "cairn/cairn_mpi.h"
#ifdef CRN_TEST_UCX
#include "cairn/cairn_ucx.h"
#endif
#define GIVE_UP() ((void)MPI_Abort(MPI_COMM_WORLD, 1), exit(1))
#endif

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__,      \
                          #cond, cairn_last_error());                                              \
            GIVE_UP();                                                                             \
        }                                                                                          \
    } while (0)

#define OK(call)          REQUIRE((call) == CAIRN_OK)
#define FAILS(code, call) REQUIRE((call) == (code))

/* Does data change slowly from version to version? One element of sixteen does. */
static inline int is_slow(void)
{
    static int slow = -1;

    if (slow < 0)
        slow = getenv("CAIRN_TEST_SLOWLY") != NULL;
    return slow;
}

/* A value for each element that depends on everything that could be confused. No encoding makes
 * the data smaller. A single multiplication would leave planes that repeat, which the adaptive
 * choice may detect. */
static inline uint64_t pattern(uint64_t version, uint64_t rank, uint64_t i)
{
    uint64_t v = is_slow() && i % 16 != 0 ? 0 : version;
    uint64_t x = v * 0x9e3779b97f4a7c15U + rank * 0xbf58476d1ce4e5b9U + i;

    x = (x ^ (x >> 31)) * 0x94d049bb133111ebU;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9U;
    return x ^ (x >> 32);
}

static inline void fill(uint64_t *a, uint64_t n, uint64_t version, uint64_t rank)
{
    uint64_t i;

    for (i = 0; i < n; i++)
        a[i] = pattern(version, rank, i);
}

static inline int holds(const uint64_t *a, uint64_t n, uint64_t version, uint64_t rank)
{
    uint64_t i;

    for (i = 0; i < n; i++)
        if (a[i] != pattern(version, rank, i))
            return 0;
    return 1;
}

/* A directory in memory that is emptied when the test has ended (tests/support/deadline.c). */
static inline const char *memory_dir(void)
{
    const char *dir = getenv("CAIRN_TEST_MEMORY");

    return dir != NULL ? dir : "/dev/shm";
}

#ifndef CRN_TEST_SINGLE
/* A fresh directory for all files of the job, in memory, made and removed by rank 0. With
 * several hosts it is on the file system that CAIRN_TEST_CLUSTER names. */
static inline void shared_dir(char *path, size_t size)
{
    const char *shared = getenv("CAIRN_TEST_SHARED");
    int rank;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)snprintf(path, size, "%s/cairn-mpi-XXXXXX", shared != NULL ? shared : memory_dir());
    if (rank == 0)
        REQUIRE(mkdtemp(path) != NULL);
    (void)MPI_Bcast(path, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* The directory of a host for its own files: arenas and sockets. */
static inline const char *host_dir(const char *shared)
{
    return getenv("CAIRN_TEST_CLUSTER") != NULL ? "/dev/shm" : shared;
}

#ifdef CRN_TEST_UCX
static inline int gather_over_mpi(void *arg, const void *in, size_t bytes, void *out)
{
    return MPI_Allgather(in, (int)bytes, MPI_BYTE, out, (int)bytes, MPI_BYTE, *(MPI_Comm *)arg);
}
#endif

/* Over MPI, or over UCX with CAIRN_TEST_COMM=ucx. */
static inline cairn_err open_over(MPI_Comm comm, const struct cairn_options *opt,
                                  cairn_session **ret)
{
#ifdef CRN_TEST_UCX
    const char *over = getenv("CAIRN_TEST_COMM");
    int rank, ranks;

    if (over != NULL && strcmp(over, "ucx") == 0) {
        (void)MPI_Comm_rank(comm, &rank);
        (void)MPI_Comm_size(comm, &ranks);
        return cairn_open_ucx(rank, ranks, gather_over_mpi, &comm, opt, ret);
    }
#endif
    return cairn_open_mpi(comm, opt, ret);
}

/* A session whose files, arenas and sockets lie below dir. Sessions of a test replace each
 * other's versions. Both lists end with NULL; the second may be NULL. */
static inline cairn_session *open_below(MPI_Comm comm, const char *dir, const char *const *settings,
                                        const char *const *more)
{
    char persistent[300], shm[300], run[300];
    const char *all[24] = {persistent, shm, run, "fresh=on"};
    struct cairn_options opt = {.size = sizeof(opt), .settings = all};
    cairn_session *s;
    int n = 4;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", host_dir(dir));
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", host_dir(dir));
    while (*settings != NULL && n < 23)
        all[n++] = *settings++;
    while (more != NULL && *more != NULL && n < 23)
        all[n++] = *more++;
    REQUIRE(*settings == NULL && (more == NULL || *more == NULL));
    OK(open_over(comm, &opt, &s));
    return s;
}

static inline void remove_dir(const char *path)
{
    char cmd[600];
    int rank;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", path);
    if (rank == 0)
        REQUIRE(system(cmd) == 0);
}
#endif

#endif
