/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes on their own, each with its id: they share directories and names and do not meet. Under
 * mpirun MPI only gives them numbers; alone they do without it. */
#include "veloc_test.h"

enum { N = 9000 };

static unsigned char a[N];

static void life(unsigned int id, int first)
{
    char routed[VELOC_MAX_NAME], original[128];
    FILE *f;
    int v, x = -1;

    OK(VELOC_Init_single(id, conf));
    OK(VELOC_Mem_protect(0, a, N, 1));
    REQUIRE(VELOC_Restart_test("own", 0) == (first ? -1 : 3 + (int)id));
    if (!first) {
        OK(VELOC_Restart("own", 3 + (int)id));
        REQUIRE(holds(a, N, 3 + (int)id, (int)id, 0));
        FAILS(VELOC_Restart("own", 4 + (int)id)); /* that of another id, or of none */
        OK(VELOC_Restart_begin("file", 1));
        OK(VELOC_Route_file("", routed));
        f = fopen(routed, "rb");
        REQUIRE(f != NULL && fread(&x, sizeof(x), 1, f) == 1 && fclose(f) == 0 && x == (int)id);
        OK(VELOC_Finalize(0));
        return;
    }
    for (v = 1; v <= 3 + (int)id; v++) { /* each as many as it likes */
        fill(a, N, v, (int)id, 0);
        OK(VELOC_Checkpoint("own", v));
    }
    (void)snprintf(original, sizeof(original), "%s/single-%u", dir, id);
    OK(VELOC_Checkpoint_begin("file", 1));
    OK(VELOC_Route_file(original, routed));
    x = (int)id;
    f = fopen(routed, "wb");
    REQUIRE(f != NULL && fwrite(&x, sizeof(x), 1, f) == 1 && fclose(f) == 0);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Finalize(1));
    REQUIRE(access(original, F_OK) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* single ID CONFIG first|again: not even MPI_Init */
        (void)snprintf(dir, sizeof(dir), "%s", getenv("CAIRN_SHM_DIR"));
        (void)snprintf(conf, sizeof(conf), "%s", argv[2]);
        FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
        life((unsigned int)atoi(argv[1]), strcmp(argv[3], "first") == 0);
        return 0;
    }
    start(&argc, &argv);
    configure("mode = async");
    life((unsigned int)rank, 1);
    life((unsigned int)rank, 0);
    finish();
    return 0;
}
