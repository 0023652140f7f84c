/* SPDX-License-Identifier: BSD-3-Clause */
/* One process takes a checkpoint that the others do not take: after the deadline it is told who is
 * missing, and all continue. */
#include "veloc_test.h"

int main(int argc, char **argv)
{
    int x = 5;

    start(&argc, &argv);
    configure("mode = async");
    (void)setenv("CAIRN_COMMIT_TIMEOUT", "1s", 1);
    (void)setenv("CAIRN_LOG_FILE", "/dev/stderr", 0);
    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    OK(VELOC_Mem_protect(0, &x, 1, sizeof(x)));
    OK(VELOC_Checkpoint("all", 1));
    OK(VELOC_Checkpoint_wait());
    if (rank == 1) {
        OK(VELOC_Checkpoint("all", 2));
        FAILS(VELOC_Checkpoint_wait());
    }
    barrier();
    if (rank != 1)
        FAILS(VELOC_Checkpoint("all", 2) == VELOC_SUCCESS ? VELOC_Checkpoint_wait()
                                                          : VELOC_FAILURE);
    OK(VELOC_Checkpoint("all", 3));
    OK(VELOC_Checkpoint_wait());
    x = 0;
    OK(VELOC_Restart("all", 3));
    REQUIRE(x == 5);
    OK(VELOC_Finalize(1));
    finish();
    return 0;
}
