/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that ends without SCR_Finalize: what it took is kept.
 * usage: unfinished DIRECTORY write|read */
#include "scr_test.h"

int main(int argc, char **argv)
{
    char route[SCR_MAX_FILENAME];
    int has = -1;

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)snprintf(dir, sizeof(dir), "%s", argv[1]);
    (void)SCR_Configf("SCR_PREFIX=%s/prefix", dir);
    OK(SCR_Init());
    watch_end();
    OK(SCR_Have_restart(&has, NULL));
    if (strcmp(argv[2], "write") == 0) {
        REQUIRE(!has);
        OK(SCR_Start_output("one", SCR_FLAG_CHECKPOINT));
        OK(SCR_Route_file(file_name(1, "state", rank), route));
        write_file(route, 1, rank, 0);
        OK(SCR_Complete_output(1));
    } else {
        REQUIRE(has);
        OK(SCR_Start_restart(NULL));
        OK(SCR_Route_file(file_name(1, "state", rank), route));
        REQUIRE(file_holds(route, 1, rank, 0));
        OK(SCR_Complete_restart(1));
    }
    (void)MPI_Finalize();
    return 0;
}
