/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs against the headers of the drop-in libraries, under mpirun or alone: checks that end
 * the job, a fresh directory, and a process that knows its rank. Compiles as C and as C++. */
#ifndef COMPAT_TEST_H
#define COMPAT_TEST_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mpi.h>

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "rank %d: %s:%d: %s is false\n", rank, __FILE__, __LINE__,       \
                          #cond);                                                                  \
            (void)MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                          \
    } while (0)

static int rank, ranks;
static char dir[64]; /* everything of this test */

/* A value for each byte that depends on everything that may be mixed up. */
static inline unsigned char pattern(int version, int who, int id, size_t i)
{
    uint64_t x = (uint64_t)version * 0x9e3779b97f4a7c15U + (uint64_t)who * 0xbf58476d1ce4e5b9U +
                 (uint64_t)id * 0x94d049bb133111ebU + i;

    x ^= x >> 29;
    x *= 0x9e3779b97f4a7c15U;
    return (unsigned char)(x >> 56);
}

static inline void fill(void *memory, size_t n, int version, int who, int id)
{
    unsigned char *p = (unsigned char *)memory;
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = pattern(version, who, id, i);
}

static inline int holds(const void *memory, size_t n, int version, int who, int id)
{
    const unsigned char *p = (const unsigned char *)memory;
    size_t i;

    for (i = 0; i < n; i++)
        if (p[i] != pattern(version, who, id, i))
            return 0;
    return 1;
}

static inline void barrier(void)
{
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

/* MPI, and a directory in memory of which Cairn's own places are part too. */
static inline void start(int *argc, char ***argv)
{
    (void)MPI_Init(argc, argv); /* as such programs do: no word of threads */
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (void)snprintf(dir, sizeof(dir), "%s/cairn-compat-XXXXXX",
                   getenv("CAIRN_TEST_MEMORY") != NULL ? getenv("CAIRN_TEST_MEMORY") : "/dev/shm");
    if (rank == 0)
        REQUIRE(mkdtemp(dir) != NULL);
    (void)MPI_Bcast(dir, (int)sizeof(dir), MPI_BYTE, 0, MPI_COMM_WORLD);
    (void)setenv("CAIRN_SHM_DIR", dir, 1);
    (void)setenv("CAIRN_RUN_DIR", dir, 1);
    (void)setenv("CAIRN_BLOCK_BYTES", "1M", 0);
}

static inline int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int shell(const char *format, ...)
{
    char command[1000];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command);
}

static int no_thread_of_cairn(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    REQUIRE(shell("grep -qx cairn-node /proc/%d/task/*/comm", (int)getpid()) != 0);
    return MPI_SUCCESS;
}

/* After Init, in a program that never finalizes: the library's threads must be gone when
 * MPI_Finalize begins. MPI calls what was registered last first. */
static inline void watch_end(void)
{
    int key;

    REQUIRE(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, no_thread_of_cairn, &key, NULL) ==
            MPI_SUCCESS);
    REQUIRE(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) == MPI_SUCCESS);
}

static inline void finish(void)
{
    barrier();
    if (rank == 0)
        REQUIRE(shell("rm -rf '%s'", dir) == 0);
    (void)MPI_Finalize();
}

#endif
