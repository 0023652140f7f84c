/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn-mpi-probe: what the MPI library offers to Cairn. `cairn doctor` runs it as a single
 * process; under mpirun it describes the job. A separate program, so that `cairn` needs no MPI. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "cairn/cairn.h"

static const char *level_name(int level)
{
    switch (level) {
    case MPI_THREAD_MULTIPLE:
        return "MPI_THREAD_MULTIPLE";
    case MPI_THREAD_SERIALIZED:
        return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_FUNNELED:
        return "MPI_THREAD_FUNNELED";
    default:
        return "MPI_THREAD_SINGLE";
    }
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int level = MPI_THREAD_SINGLE;
    int rank = 0, ranks = 1, len = 0;

    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)printf("cairn-mpi-probe %s\n", CAIRN_VERSION);
        return 0;
    }
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return 1;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (void)MPI_Get_library_version(version, &len);
    version[strcspn(version, ",\n")] = '\0'; /* the rest is about who built it */
    if (rank == 0)
        (void)printf("%s: %s, %d rank%s\n", version, level_name(level), ranks,
                     ranks == 1 ? "" : "s");
    (void)MPI_Finalize();
    return 0;
}
