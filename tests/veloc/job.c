/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that computes, checkpoints, dies where it is told to, and continues from where it was. Its end
 * is the same whatever happened before.
 * usage: job CONFIG OUT mem|file STEPS [POINT STEP VICTIM]     -1: any step, every rank */
#include <signal.h>

#include "include/veloc.h"
#include "veloc_test.h"

enum { N = 50000, EVERY = 5 };

static struct {
    int step;
    double cell[N + 2]; /* with the neighbours' edges */
} now;
static const char *dies_at = "";
static int dies_in = -1, victim;

/* The end, if this is the point. */
static void point(const char *name, int step)
{
    if (strcmp(name, dies_at) == 0 && (dies_in < 0 || dies_in == step) &&
        (victim < 0 || victim == rank))
        (void)raise(SIGKILL);
}

static void compute(void)
{
    static double old[N + 2];
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    int i;

    (void)MPI_Sendrecv(&now.cell[N], 1, MPI_DOUBLE, right, 1, &now.cell[0], 1, MPI_DOUBLE, left, 1,
                       MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    (void)MPI_Sendrecv(&now.cell[1], 1, MPI_DOUBLE, left, 2, &now.cell[N + 1], 1, MPI_DOUBLE, right,
                       2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(old, now.cell, sizeof(old));
    for (i = 1; i <= N; i++)
        now.cell[i] = 0.25 * old[i - 1] + 0.5 * old[i] + 0.2499 * old[i + 1] + 1e-3 * now.step;
    now.step++;
}

static void save(int is_file, const char *out)
{
    char routed[VELOC_MAX_NAME], original[200];
    FILE *f;
    int v = now.step;

    OK(VELOC_Checkpoint_wait());
    if (rank == 0 && v > EVERY)
        (void)printf("durable %d\n", v - EVERY);
    (void)fflush(stdout);
    OK(VELOC_Checkpoint_begin("job", v));
    point("begin", v);
    if (is_file) {
        (void)snprintf(original, sizeof(original), "%s.ckpt.%d", out, rank);
        OK(VELOC_Route_file(original, routed));
        f = fopen(routed, "wb");
        REQUIRE(f != NULL && fwrite(&now, sizeof(now), 1, f) == 1 && fclose(f) == 0);
    } else {
        OK(VELOC_Checkpoint_mem());
    }
    point("mem", v);
    OK(VELOC_Checkpoint_end(1));
    point("end", v);
}

static void load(int is_file, int v)
{
    char routed[VELOC_MAX_NAME];
    FILE *f;

    OK(VELOC_Restart_begin("job", v));
    point("restart", v);
    if (is_file) {
        OK(VELOC_Route_file("", routed));
        f = fopen(routed, "rb");
        REQUIRE(f != NULL && fread(&now, sizeof(now), 1, f) == 1 && fclose(f) == 0);
    } else {
        OK(VELOC_Recover_mem());
    }
    OK(VELOC_Restart_end(1));
    REQUIRE(now.step == v);
    if (rank == 0)
        (void)printf("restart %d\n", v);
    (void)fflush(stdout);
}

static void write_result(const char *out)
{
    char path[200];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s.%d", out, rank);
    f = fopen(path, "wb");
    REQUIRE(f != NULL && fwrite(&now, sizeof(now), 1, f) == 1 && fclose(f) == 0);
}

int main(int argc, char **argv)
{
    int is_file, steps, v, i;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    is_file = strcmp(argv[3], "file") == 0;
    steps = atoi(argv[4]);
    if (argc > 7) {
        dies_at = argv[5];
        dies_in = atoi(argv[6]);
        victim = atoi(argv[7]);
    }
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    watch_end();
    OK(VELOC_Mem_protect(0, &now, sizeof(now), 1));
    for (i = 1; i <= N; i++)
        now.cell[i] = rank + i * 1e-5;
    v = VELOC_Restart_test("job", 0);
    if (v >= 0)
        load(is_file, v);
    while (now.step < steps) {
        compute();
        point("compute", now.step);
        if (now.step % EVERY == 0)
            save(is_file, argv[2]);
    }
    write_result(argv[2]);
    (void)MPI_Finalize(); /* without VELOC_Finalize, or too early: the library sees to it */
    return VELOC_Finalize(1) == VELOC_SUCCESS ? 0 : 1;
}
