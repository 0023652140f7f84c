/* SPDX-License-Identifier: BSD-3-Clause */
/* One program for each interface, with the same work: every rank takes a checkpoint of its
 * memory and waits until it is persistent; a second start reads it back and compares every byte.
 * A program supplies the four functions. It can also be compiled against the library that the
 * interface comes from.
 *
 * usage: PROGRAM DIRECTORY MIB take|restart */
#ifndef BENCH_DROPIN_H
#define BENCH_DROPIN_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int dropin_rank;

static void dropin_need(int ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "rank %d: %s has failed\n", dropin_rank, what);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
}

static void dropin_open(const char *dir, unsigned char *data, size_t bytes);
static void dropin_take(void);       /* the part that the application waits for */
static void dropin_settle(void);     /* waits for the first one where the interface demands it */
static void dropin_persistent(void); /* the rest of the way to the file system */
static void dropin_restart(void);
static void dropin_close(void);

static double dropin_slowest(double begin)
{
    double seconds = MPI_Wtime() - begin;

    (void)MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static uint64_t dropin_word(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15U + (uint64_t)dropin_rank;

    return x ^ (x >> 29);
}

int main(int argc, char **argv)
{
    uint64_t *data;
    size_t bytes, i;
    int is_right = 1;
    double t;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &dropin_rank);
    dropin_need(argc == 4, "usage: PROGRAM DIRECTORY MIB take|restart");
    bytes = (size_t)atoi(argv[2]) << 20;
    data = malloc(bytes);
    dropin_need(data != NULL, "malloc");
    for (i = 0; i < bytes / sizeof(*data); i++)
        data[i] = strcmp(argv[3], "take") == 0 ? dropin_word(i) : 0;
    (void)MPI_Barrier(MPI_COMM_WORLD);
    t = MPI_Wtime(); /* a restart begins where the library looks for checkpoints */
    dropin_open(argv[1], (unsigned char *)data, bytes);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[3], "take") == 0) {
        dropin_take(); /* the first one allocates */
        dropin_settle();
        (void)MPI_Barrier(MPI_COMM_WORLD);
        t = MPI_Wtime();
    }
    if (strcmp(argv[3], "take") == 0) {
        double blocked;

        dropin_take();
        blocked = dropin_slowest(t);
        dropin_persistent();
        t = dropin_slowest(t);
        if (dropin_rank == 0)
            (void)printf("blocked %.6f\npersistent %.6f\n", blocked, t);
    } else {
        dropin_restart();
        t = dropin_slowest(t);
        for (i = 0; i < bytes / sizeof(*data); i++)
            is_right &= data[i] == dropin_word(i);
        dropin_need(is_right, "the comparison");
        if (dropin_rank == 0)
            (void)printf("restart %.6f\n", t);
    }
    dropin_close();
    free(data);
    (void)MPI_Finalize();
    return 0;
}

#endif
