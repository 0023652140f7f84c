/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the benchmark flush: one case, and the methods that write its data. */
#ifndef BENCH_FLUSH_H
#define BENCH_FLUSH_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#define FLUSH_KEPT "kept" /* files whose names begin so stay for the next round */

/* Ranks rank * files / ranks share a file; group is the communicator of those. */
struct flush_case {
    int rank, ranks;
    int ranks_per_node;
    uint32_t files;   /* K */
    uint32_t writers; /* threads of a leader, Cairn's and the limit's */
    const char *dir;  /* where all methods write */
    uint64_t bytes;   /* of this rank */
    uint64_t total;
    unsigned char *src; /* bytes of data, another stamp in each round */
    MPI_Comm group;
    int group_no, group_rank;
    uint64_t group_offset, group_bytes; /* this rank's place in the file of its group */
};

/* A method that writes the data of all ranks, durably, and verifies it. All ranks call both. */
struct flush_method {
    const char *name;
    void (*write)(const struct flush_case *c);
    void (*check)(const struct flush_case *c); /* reads back and compares; aborts if it differs */
};
extern const struct flush_method flush_limit, flush_rewrite, flush_posix_ranks, flush_posix_shared,
    flush_mpiio_independent, flush_mpiio_collective;
#ifdef BENCH_HAVE_PHDF5
extern const struct flush_method flush_hdf5;
#endif

void flush_die(const char *what, const char *why);
void flush_check_errno(int64_t r, const char *what);
/* "<dir>/<what>-<number>" */
void flush_path(const struct flush_case *c, const char *what, int number, char *buf, size_t size);
/* Compares part of this rank's data with a file from offset on. */
void flush_compare_file(const struct flush_case *c, const char *path, uint64_t offset);
void flush_compare(const struct flush_case *c, const void *got, uint64_t at, uint64_t bytes,
                   const char *what);
/* Makes the names in the directory durable, as Cairn does; one rank. */
void flush_sync_dir(const struct flush_case *c);

#endif
