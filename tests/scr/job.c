/* SPDX-License-Identifier: BSD-3-Clause */
/* A job with SCR that can die at any point. Its data are pieces, each a file of its own, which any
 * number of ranks share; so it continues with another number of ranks.
 * usage: job PREFIX OUT STEPS [WHERE STEP RANK]   rank -1: all */
#include <signal.h>

#include "scr_test.h"

#define PIECES 12
#define N      20000
#define EVERY  5

struct piece {
    int step;
    double cell[N];
};

static struct piece now[PIECES];
static const char *dies_at = "";
static int dies_in, victim;

static void point(const char *where, int step)
{
    if (strcmp(where, dies_at) == 0 && step == dies_in && (victim < 0 || victim == rank))
        (void)raise(SIGKILL);
}

static int is_mine(int k)
{
    return k % ranks == rank;
}

static const char *piece_name(int step, int k)
{
    static char name[200];

    (void)snprintf(name, sizeof(name), "%s/job/%d/piece.%d", dir, step, k);
    return name;
}

static void save(void)
{
    char name[50], path[SCR_MAX_FILENAME];
    int step = now[rank].step;
    int k;

    (void)snprintf(name, sizeof(name), "job/%d", step);
    OK(SCR_Start_output(name, SCR_FLAG_CHECKPOINT));
    for (k = 0; k < PIECES; k++) {
        FILE *f;

        if (!is_mine(k))
            continue;
        OK(SCR_Route_file(piece_name(step, k), path));
        point("route", step);
        f = fopen(path, "wb");
        REQUIRE(f != NULL && fwrite(&now[k], sizeof(now[k]) / 2, 1, f) == 1);
        point("write", step);
        REQUIRE(fwrite((char *)&now[k] + sizeof(now[k]) / 2, sizeof(now[k]) / 2, 1, f) == 1 &&
                fclose(f) == 0);
    }
    OK(SCR_Complete_output(1));
    if (rank == 0)
        (void)printf("durable %d\n", step);
    (void)fflush(stdout);
    point("complete", step);
}

static int load(void)
{
    char name[SCR_MAX_FILENAME], path[SCR_MAX_FILENAME];
    int valid = 1;
    int step, k;

    OK(SCR_Start_restart(name));
    REQUIRE(sscanf(name, "job/%d", &step) == 1);
    point("restart", step);
    for (k = 0; k < PIECES; k++) {
        FILE *f;

        if (!is_mine(k))
            continue;
        OK(SCR_Route_file(piece_name(step, k), path));
        f = fopen(path, "rb");
        valid &= f != NULL && fread(&now[k], sizeof(now[k]), 1, f) == 1 && now[k].step == step;
        if (f != NULL)
            (void)fclose(f);
    }
    REQUIRE(valid);
    OK(SCR_Complete_restart(valid));
    if (rank == 0)
        (void)printf("restart %d\n", step);
    return step;
}

static void compute(void)
{
    int k, i;

    for (k = 0; k < PIECES; k++) {
        if (!is_mine(k))
            continue;
        now[k].step++;
        for (i = 0; i < N; i++)
            now[k].cell[i] = now[k].cell[i] * 1.0001 + i % 7 + k;
    }
}

static void write_result(const char *out)
{
    char path[200];
    int k;

    for (k = 0; k < PIECES; k++) {
        FILE *f;

        if (!is_mine(k))
            continue;
        (void)snprintf(path, sizeof(path), "%s.%d", out, k);
        f = fopen(path, "wb");
        REQUIRE(f != NULL && fwrite(&now[k], sizeof(now[k]), 1, f) == 1 && fclose(f) == 0);
    }
}

int main(int argc, char **argv)
{
    int steps = atoi(argv[3]);
    int flag, step = 0;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (void)snprintf(dir, sizeof(dir), "%s", argv[1]);
    if (argc > 6) {
        dies_at = argv[4];
        dies_in = atoi(argv[5]);
        victim = atoi(argv[6]);
    }
    (void)SCR_Configf("SCR_PREFIX=%s", dir);
    OK(SCR_Init());
    OK(SCR_Have_restart(&flag, NULL));
    if (flag)
        step = load();
    while (step < steps) {
        compute();
        step++;
        point("compute", step);
        if (step % EVERY == 0)
            save();
    }
    write_result(argv[2]);
    OK(SCR_Finalize());
    (void)MPI_Finalize();
    return 0;
}
