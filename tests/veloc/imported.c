/* SPDX-License-Identifier: BSD-3-Clause */
/* Goes on from versions that `cairn import` made (import_test.py).
 * usage: imported CONFIGURATION */
#include "compat_test.h"
#include "veloc.h"

#define OK(call) REQUIRE((call) == VELOC_SUCCESS)

static int is(const unsigned char *p, int version, int id, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (p[i] != (i * 7 + (size_t)version * 31 + (size_t)rank * 3 + (size_t)id) % 251)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    unsigned char a[5003], b[1];
    int routed_file;
    char path[VELOC_MAX_NAME];

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    OK(VELOC_Init(MPI_COMM_WORLD, argv[1]));
    OK(VELOC_Mem_protect(3, a, 5000 + (size_t)rank, 1));
    OK(VELOC_Mem_protect(7, b, 0, 1));
    REQUIRE(VELOC_Restart_test("heat", 0) == 20);
    OK(VELOC_Restart_begin("heat", 20));
    REQUIRE(VELOC_Recover_size(3) == 5000 + rank && VELOC_Recover_size(7) == 0);
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    REQUIRE(is(a, 20, 3, 5000 + (size_t)rank));
    OK(VELOC_Restart("heat", 10));
    REQUIRE(is(a, 10, 3, 5000 + (size_t)rank));
    OK(VELOC_Checkpoint("heat", 40));
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("heat", 0) == 40);
    routed_file = VELOC_Restart_begin("own", 5) == VELOC_SUCCESS &&
                  VELOC_Route_file("", path) == VELOC_SUCCESS;
    REQUIRE(routed_file == (ranks == 1)); /* of one process */
    OK(VELOC_Finalize(1));
    (void)MPI_Finalize();
    return 0;
}
