/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints of files that an I/O library writes.
 *
 * Each rank moves its own particles and keeps them in an HDF5 file, as programs with restart files
 * of their own do. Instead of writing to the parallel file system it asks Cairn for a path, writes
 * there, and hands the file over with the next checkpoint; after a restart Cairn gives the file
 * back, byte for byte.
 *
 *     mpirun -n 4 files_hdf5 40        # kill it, start it again: it continues */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cairn/cairn_mpi.h>

#define NAME      "particles"
#define FILE_NAME "particles.h5"
#define EVERY     10

enum { COUNT = 10000 };

struct particles {
    double x[COUNT], v[COUNT];
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "files_hdf5: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

static void check_h5(int64_t r, const char *what)
{
    if (r < 0)
        die(what, "HDF5 failed");
}

/* The application's own file. ------------------------------------------------------------------ */

static void write_set(hid_t file, const char *name, const double *values)
{
    hsize_t count = COUNT;
    hid_t space = H5Screate_simple(1, &count, NULL);
    hid_t set =
        H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    check_h5(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), name);
    check_h5(H5Dclose(set), name);
    check_h5(H5Sclose(space), name);
}

static void write_file(const char *path, const struct particles *p)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    check_h5(file, path);
    write_set(file, "x", p->x);
    write_set(file, "v", p->v);
    check_h5(H5Fclose(file), path);
}

static void read_set(hid_t file, const char *name, double *values)
{
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);

    check_h5(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), name);
    check_h5(H5Dclose(set), name);
}

static void read_file(const char *path, struct particles *p)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);

    check_h5(file, path);
    read_set(file, "x", p->x);
    read_set(file, "v", p->v);
    check_h5(H5Fclose(file), path);
}

/* Checkpoint and restart. ---------------------------------------------------------------------- */

static void save(cairn_session *s, int64_t step, const struct particles *p)
{
    char path[4096];

    check(cairn_file_route(s, NAME, step, FILE_NAME, path, sizeof(path)), "a path");
    write_file(path, p);
    check(cairn_checkpoint(s, NAME, step, NULL), "checkpoint");
}

/* The step to continue from; 0 if there is no checkpoint. */
static int64_t load(cairn_session *s, struct particles *p)
{
    char path[4096];
    int64_t step = 0;
    cairn_err rc;

    rc = cairn_find(s, NAME, CAIRN_NEWEST, &step);
    if (rc == CAIRN_ENOENT)
        return 0;
    check(rc, "looking for a checkpoint");
    check(cairn_file_restore(s, NAME, step, CAIRN_OWN_RANK, FILE_NAME, path, sizeof(path)),
          "restart");
    read_file(path, p);
    return step;
}

/* The physics: springs, by the leapfrog rule. -------------------------------------------------- */

static void start(struct particles *p, int rank)
{
    int i;

    for (i = 0; i < COUNT; i++) {
        p->x[i] = rank + (double)i / COUNT;
        p->v[i] = 0;
    }
}

static void step(struct particles *p)
{
    int i;

    for (i = 0; i < COUNT; i++) {
        p->v[i] -= 0.01 * p->x[i];
        p->x[i] += 0.01 * p->v[i];
    }
}

/* A number that differs if any particle does. */
static void print_sum(const struct particles *p, int rank, int64_t steps)
{
    double mine = 0;
    double sum = 0;
    int i;

    for (i = 0; i < COUNT; i++)
        mine += (i + 1) * (p->x[i] + 2 * p->v[i]);
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("step %lld: %.17g\n", (long long)steps, sum);
}

int main(int argc, char **argv)
{
    static struct particles p;
    int64_t steps = argc > 1 ? atoll(argv[1]) : 100;
    cairn_session *s;
    int64_t i, from;
    int level, rank;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s), "open");
    rank = cairn_rank(s);
    start(&p, rank);
    from = load(s, &p);
    if (rank == 0)
        printf("begins at step %lld\n", (long long)from);
    for (i = from + 1; i <= steps; i++) {
        step(&p);
        if (i % EVERY == 0)
            save(s, i, &p);
    }
    print_sum(&p, rank, steps);
    check(cairn_close(s), "close");
    MPI_Finalize();
    return 0;
}
