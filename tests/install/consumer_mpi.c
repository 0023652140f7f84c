/* SPDX-License-Identifier: BSD-3-Clause */
#include <cairn/cairn_mpi.h>
#include <stdio.h>

/* Called before MPI_Init on purpose: the error must come back as one, with a text. */
int main(void)
{
    cairn_session *s = NULL;
    cairn_err rc = cairn_open_mpi(MPI_COMM_WORLD, NULL, &s);

    if (rc != CAIRN_ESTATE) {
        (void)fprintf(stderr, "%s: %s\n", cairn_error_name(rc), cairn_last_error());
        return 1;
    }
    return 0;
}
