/* SPDX-License-Identifier: BSD-3-Clause */
/* The service behind the library is a daemon, and dies: the program is told, keeps running, and still
 * restarts from what was there.
 * usage: backend CONFIG FILE_THAT_SAYS_IT_IS_DEAD */
#include "veloc_test.h"

enum { N = 100000 };

static unsigned char a[N];

int main(int argc, char **argv)
{
    int v;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    OK(VELOC_Mem_protect(1, a, N, 1));
    fill(a, N, 1, rank, 1);
    OK(VELOC_Checkpoint("back", 1));
    OK(VELOC_Checkpoint_wait());
    barrier();
    if (rank == 0)
        (void)puts("ready");
    (void)fflush(stdout);
    while (access(argv[2], F_OK) != 0)
        (void)usleep(1000);
    for (v = 2; v <= 4; v++) {
        fill(a, N, v, rank, 1);
        if (VELOC_Checkpoint("back", v) == VELOC_SUCCESS)
            FAILS(VELOC_Checkpoint_wait());
    }
    (void)VELOC_Checkpoint_wait();
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Checkpoint_finished() == 1);
    REQUIRE(VELOC_Restart_test("back", 0) == 1);
    OK(VELOC_Restart("back", 1));
    REQUIRE(holds(a, N, 1, rank, 1));
    OK(VELOC_Finalize(1));
    (void)MPI_Finalize();
    return 0;
}
