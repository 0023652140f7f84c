/* SPDX-License-Identifier: BSD-3-Clause */
/* The other methods: the limit, POSIX files, MPI-IO. Each ends with an fsync of its files. */
#include "flush.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB   ((uint64_t)1 << 20)
#define PIECE (16 * MIB) /* of the limit: what a thread writes at a time */

void flush_path(const struct flush_case *c, const char *what, int number, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%s/%s-%04d", c->dir, what, number);
}

void flush_check_errno(int64_t r, const char *what)
{
    if (r < 0)
        flush_die(what, strerror(errno));
}

void flush_compare(const struct flush_case *c, const void *got, uint64_t at, uint64_t bytes,
                   const char *what)
{
    if (memcmp(c->src + at, got, bytes) != 0)
        flush_die(what, "what was read back differs from what was written");
}

void flush_compare_file(const struct flush_case *c, const char *path, uint64_t offset)
{
    unsigned char *block = malloc(MIB);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t at = 0;

    flush_check_errno(fd, path);
    while (block != NULL && at < c->bytes) {
        uint64_t want = c->bytes - at < MIB ? c->bytes - at : MIB;
        ssize_t n = pread(fd, block, want, (off_t)(offset + at));

        if (n <= 0)
            flush_die(path, "is too short");
        flush_compare(c, block, at, (uint64_t)n, path);
        at += (uint64_t)n;
    }
    (void)close(fd);
    free(block);
}

void flush_sync_dir(const struct flush_case *c)
{
    int fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    flush_check_errno(fd, c->dir);
    flush_check_errno(fsync(fd), c->dir);
    (void)close(fd);
}

static void write_all(int fd, const unsigned char *p, uint64_t bytes, uint64_t offset)
{
    uint64_t at = 0;

    while (at < bytes) {
        ssize_t n = pwrite(fd, p + at, bytes - at, (off_t)(offset + at));

        flush_check_errno(n, "write a file");
        at += (uint64_t)n;
    }
}

/* The limit: as many threads as a leader of Cairn has write as many bytes, from memory that is
 * theirs already. ---------------------------------------------------------------------------------- */

struct limit {
    const struct flush_case *c;
    int fd;
    atomic_uint_fast64_t next;
};

/* The file contains this rank's data repeatedly. */
static void *limit_thread(void *arg)
{
    struct limit *l = arg;
    const struct flush_case *c = l->c;

    for (;;) {
        uint64_t at = atomic_fetch_add(&l->next, PIECE);
        uint64_t end = at + PIECE < c->group_bytes ? at + PIECE : c->group_bytes;

        if (at >= c->group_bytes)
            return NULL;
        while (at < end) {
            uint64_t from = at % c->bytes;
            uint64_t n = end - at < c->bytes - from ? end - at : c->bytes - from;

            write_all(l->fd, c->src + from, n, at);
            at += n;
        }
    }
}

static void write_limit(const struct flush_case *c, const char *what, int flags)
{
    struct limit l = {.c = c};
    pthread_t threads[64];
    char path[600];
    uint32_t i;

    if (c->group_rank != 0)
        return;
    flush_path(c, what, c->group_no, path, sizeof(path));
    l.fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    flush_check_errno(l.fd, path);
    for (i = 0; i < c->writers; i++)
        if (pthread_create(&threads[i], NULL, limit_thread, &l) != 0)
            flush_die("threads", "cannot be made");
    for (i = 0; i < c->writers; i++)
        (void)pthread_join(threads[i], NULL);
    flush_check_errno(fsync(l.fd), path);
    flush_check_errno(close(l.fd), path);
    flush_sync_dir(c);
}

static void check_limit(const struct flush_case *c, const char *what)
{
    uint64_t at;
    char path[600];

    flush_path(c, what, c->group_no, path, sizeof(path));
    for (at = 0; c->group_rank == 0 && at + c->bytes <= c->group_bytes; at += c->bytes)
        flush_compare_file(c, path, at);
}

static void limit_write(const struct flush_case *c)
{
    write_limit(c, "limit", O_EXCL);
}

static void limit_check(const struct flush_case *c)
{
    check_limit(c, "limit");
}

static void rewrite_write(const struct flush_case *c)
{
    write_limit(c, FLUSH_KEPT, 0);
}

static void rewrite_check(const struct flush_case *c)
{
    check_limit(c, FLUSH_KEPT);
}

const struct flush_method flush_rewrite = {"limit-rewrite", rewrite_write, rewrite_check};
const struct flush_method flush_limit = {"limit-pwrite", limit_write, limit_check};

/* A file for each process, or one for each group. ------------------------------------------------- */

static void write_at(const struct flush_case *c, const char *path, uint64_t offset)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    flush_check_errno(fd, path);
    write_all(fd, c->src, c->bytes, offset);
    flush_check_errno(fsync(fd), path);
    flush_check_errno(close(fd), path);
    flush_sync_dir(c);
}

static void ranks_write(const struct flush_case *c)
{
    char path[600];

    flush_path(c, "rank", c->rank, path, sizeof(path));
    write_at(c, path, 0);
}

static void ranks_check(const struct flush_case *c)
{
    char path[600];

    flush_path(c, "rank", c->rank, path, sizeof(path));
    flush_compare_file(c, path, 0);
}

static void shared_write(const struct flush_case *c)
{
    char path[600];

    flush_path(c, "shared", c->group_no, path, sizeof(path));
    write_at(c, path, c->group_offset);
}

static void shared_check(const struct flush_case *c)
{
    char path[600];

    flush_path(c, "shared", c->group_no, path, sizeof(path));
    flush_compare_file(c, path, c->group_offset);
}

const struct flush_method flush_posix_ranks = {"posix-file-per-rank", ranks_write, ranks_check};
const struct flush_method flush_posix_shared = {"posix-shared", shared_write, shared_check};

/* MPI-IO. ------------------------------------------------------------------------------------------- */

static void mpi_ok(int rc, const char *what)
{
    if (rc != MPI_SUCCESS)
        flush_die(what, "MPI reports an error");
}

static void mpiio_write(const struct flush_case *c, int is_collective)
{
    char path[600];
    MPI_File f;

    flush_path(c, "mpiio", c->group_no, path, sizeof(path));
    mpi_ok(MPI_File_open(c->group, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f),
           path);
    mpi_ok((is_collective ? MPI_File_write_at_all : MPI_File_write_at)(
               f, (MPI_Offset)c->group_offset, c->src, (int)c->bytes, MPI_BYTE, MPI_STATUS_IGNORE),
           path);
    mpi_ok(MPI_File_sync(f), path);
    mpi_ok(MPI_File_close(&f), path);
    flush_sync_dir(c);
}

static void independent_write(const struct flush_case *c)
{
    mpiio_write(c, 0);
}

static void collective_write(const struct flush_case *c)
{
    mpiio_write(c, 1);
}

static void mpiio_check(const struct flush_case *c)
{
    char path[600];

    flush_path(c, "mpiio", c->group_no, path, sizeof(path));
    flush_compare_file(c, path, c->group_offset);
}

const struct flush_method flush_mpiio_independent = {"mpiio-independent", independent_write,
                                                     mpiio_check};
const struct flush_method flush_mpiio_collective = {"mpiio-collective", collective_write,
                                                    mpiio_check};
