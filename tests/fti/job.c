/* SPDX-License-Identifier: BSD-3-Clause */
/* A job with FTI that can die at any point.
 * usage: job CONFIGURATION OUT STEPS [WHERE STEP RANK]   rank -1: all */
#include <signal.h>

#include "fti_test.h"

#define N     50000
#define EVERY 5

static int step;
static double cell[N];
static const char *dies_at = "";
static int dies_in, victim;

static void point(const char *where)
{
    if (strcmp(where, dies_at) == 0 && step == dies_in && (victim < 0 || victim == rank))
        (void)raise(SIGKILL);
}

static void save(void)
{
    static const int levels[] = {FTI_L1, FTI_L4, FTI_L2, FTI_L1, FTI_L3, FTI_L4_DCP};

    point("before");
    DONE(FTI_Checkpoint(step, levels[step / EVERY % 6]));
    if (rank == 0)
        (void)printf("durable %d\n", step);
    (void)fflush(stdout);
    point("after");
}

int main(int argc, char **argv)
{
    int steps = atoi(argv[3]);
    char path[300];
    FILE *f;
    int i;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 6) {
        dies_at = argv[4];
        dies_in = atoi(argv[5]);
        victim = atoi(argv[6]);
    }
    OK(FTI_Init(argv[1], MPI_COMM_WORLD));
    OK(FTI_Protect(0, &step, 1, FTI_INTG));
    OK(FTI_Protect(1, cell, N, FTI_DBLE));
    if (FTI_Status() != 0) {
        OK(FTI_Recover());
        if (rank == 0)
            (void)printf("restart %d\n", step);
        point("restart");
    }
    while (step < steps) {
        step++;
        for (i = 0; i < N; i++)
            cell[i] = cell[i] * 1.0001 + i % 7 + rank;
        point("compute");
        if (step % EVERY == 0)
            save();
    }
    (void)snprintf(path, sizeof(path), "%s.%d", argv[2], rank);
    f = fopen(path, "wb");
    REQUIRE(f != NULL && fwrite(cell, sizeof(cell), 1, f) == 1 && fclose(f) == 0);
    OK(FTI_Finalize());
    (void)MPI_Finalize();
    return 0;
}
