/* SPDX-License-Identifier: BSD-3-Clause */
/* With head = 1 the first process of each node never returns from FTI_Init. The others compute on
 * FTI_COMM_WORLD; the first time they end as FTI's own tests do, without FTI_Finalize.
 * usage: heads DIRECTORY crash|again */
#include "fti_test.h"

int main(int argc, char **argv)
{
    int n = 0, mine = 0, word = FTI_ENDW;
    int is_crash = strcmp(argv[2], "crash") == 0;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (void)snprintf(dir, sizeof(dir), "%s", argv[1]);
    if (is_crash)
        configure("head = 1\ninline_l2 = 0\ninline_l4 = 0", "");
    else
        (void)snprintf(conf, sizeof(conf), "%s/config.fti", dir);
    OK(FTI_Init(conf, MPI_COMM_WORLD));
    REQUIRE(rank % 2 == 1); /* a head does not come here */
    (void)MPI_Comm_size(FTI_COMM_WORLD, &n);
    REQUIRE(n == ranks / 2);
    OK(FTI_Protect(0, &mine, 1, FTI_INTG));
    if (is_crash) {
        watch_end();
        REQUIRE(FTI_Status() == 0);
        mine = 1000 + rank;
        DONE(FTI_Checkpoint(1, FTI_L2));
        mine = 2000 + rank;
        DONE(FTI_Checkpoint(2, FTI_L4));
        (void)MPI_Send(&word, 1, MPI_INT, rank - rank % 2, 3107, MPI_COMM_WORLD);
        (void)MPI_Barrier(MPI_COMM_WORLD);
    } else {
        REQUIRE(FTI_Status() == 1);
        OK(FTI_Recover());
        REQUIRE(mine == 2000 + rank);
        OK(FTI_Init(conf, MPI_COMM_WORLD)); /* without the heads this time */
        mine = 0;
        OK(FTI_Protect(0, &mine, 1, FTI_INTG));
        OK(FTI_Recover());
        REQUIRE(mine == 2000 + rank);
        OK(FTI_Finalize());
    }
    (void)MPI_Finalize();
    return 0;
}
