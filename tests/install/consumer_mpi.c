/* SPDX-License-Identifier: BSD-3-Clause */
#include <cairn/cairn_mpi.h>
#include <stdio.h>

/* First opened before MPI_Init: that must return an error. */
int main(int argc, char **argv)
{
    const char *const settings[] = {"persistent=checkpoints", "arena_bytes=1M", NULL};
    struct cairn_options options = {sizeof(options), NULL, settings};
    cairn_session *s = NULL;
    int level, rc = 0;

    if (cairn_open_mpi(MPI_COMM_WORLD, &options, &s) != CAIRN_ESTATE)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (cairn_open_mpi(MPI_COMM_WORLD, &options, &s) != CAIRN_OK || cairn_ranks(s) != 1 ||
        cairn_close(s) != CAIRN_OK) {
        (void)fprintf(stderr, "%s\n", cairn_last_error());
        rc = 1;
    }
    MPI_Finalize();
    return rc;
}
