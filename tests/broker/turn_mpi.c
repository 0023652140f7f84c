/* SPDX-License-Identifier: BSD-3-Clause */
/* turn_mpi NAME KIB STEPS: an MPI job that restarts from the newest checkpoint, if any, and
 * takes STEPS checkpoints of KIB per rank. It waits for each to be persistent, and before that
 * for the local copy if the job makes one. The first rank prints "restarted STEP", "local STEP",
 * "persistent STEP". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairn/cairn_mpi.h"

static void check(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "turn_mpi: %s: %s\n", what, cairn_last_error());
    (void)MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    cairn_session *s;
    int provided, rank;
    size_t bytes;
    char *data;
    int64_t i = -1;
    long steps;

    setvbuf(stdout, NULL, _IOLBF, 0);

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4)
        return 2;
    bytes = (size_t)strtoul(argv[2], NULL, 10) << 10;
    steps = strtol(argv[3], NULL, 10);
    data = malloc(bytes);
    if (data == NULL)
        return 2;
    check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s), "open");
    check(cairn_protect(s, "data", data, CAIRN_BYTES, bytes), "protect");
    if (cairn_restart(s, argv[1], NULL, &i) == CAIRN_OK && rank == 0)
        (void)printf("restarted %lld\n", (long long)i);
    for (i++; steps > 0; i++, steps--) {
        memset(data, (int)i, bytes);
        check(cairn_checkpoint(s, argv[1], i, NULL), "checkpoint");
        if (getenv("CAIRN_LOCAL") != NULL) {
            check(cairn_wait(s, argv[1], i, CAIRN_LOCAL, 100000), "wait for the local copy");
            if (rank == 0)
                (void)printf("local %lld\n", (long long)i);
        }
        check(cairn_wait(s, argv[1], i, CAIRN_PERSISTENT, 100000), "wait");
        if (rank == 0)
            (void)printf("persistent %lld\n", (long long)i);
    }
    check(cairn_close(s), "close");
    free(data);
    (void)MPI_Finalize();
    return 0;
}
