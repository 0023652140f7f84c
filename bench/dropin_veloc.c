/* SPDX-License-Identifier: BSD-3-Clause */
#include <veloc.h>

#include "dropin.h"

static void dropin_open(const char *dir, unsigned char *memory, size_t bytes)
{
    char file[500];
    FILE *f;

    (void)snprintf(file, sizeof(file), "%s/veloc.cfg", dir);
    if (dropin_rank == 0) {
        f = fopen(file, "w");
        dropin_need(f != NULL, "fopen");
        (void)fprintf(f, "scratch = %s/scratch\npersistent = %s/persistent\nmode = async\n", dir,
                      dir);
        dropin_need(fclose(f) == 0, "fclose");
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    dropin_need(VELOC_Init(MPI_COMM_WORLD, file) == VELOC_SUCCESS, "VELOC_Init");
    dropin_need(VELOC_Mem_protect(0, memory, bytes, 1) == VELOC_SUCCESS, "VELOC_Mem_protect");
}

static void dropin_take(void)
{
    dropin_need(VELOC_Checkpoint("bench", 1) == VELOC_SUCCESS, "VELOC_Checkpoint");
}

static void dropin_settle(void)
{
    dropin_need(VELOC_Checkpoint_wait() == VELOC_SUCCESS, "VELOC_Checkpoint_wait");
}

static void dropin_persistent(void)
{
    dropin_settle();
}

static void dropin_restart(void)
{
    dropin_need(VELOC_Restart_test("bench", 0) == 1 && VELOC_Restart("bench", 1) == VELOC_SUCCESS,
                "VELOC_Restart");
}

static void dropin_close(void)
{
    (void)VELOC_Finalize(1);
}
