/* SPDX-License-Identifier: BSD-3-Clause */
/* A mistake of one rank in a collective call is the same error on all ranks, and no rank hangs.
 *
 *     mpirun -n 4 collective */
#include <stdlib.h>

#include "../mpi/mpi_test.h"

static int rank;

/* All ranks open a session, this one with the prepared arguments. */
static void open_fails(const char *persistent, int wrong_rank, cairn_err expected, const char *says)
{
    char text[600];
    const char *settings[] = {text, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s = (cairn_session *)(void *)text;

    (void)snprintf(text, sizeof(text), "persistent=%s", persistent);
    if (rank == wrong_rank)
        opt.size = 1;
    FAILS(expected, cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    REQUIRE(s == NULL);
    REQUIRE(strstr(cairn_last_error(), says) != NULL);
    FAILS(CAIRN_EINVAL, cairn_checkpoint(s, "x", 1, NULL));
    REQUIRE(cairn_rank(s) == -1);
    FAILS(CAIRN_OK, cairn_close(s));
}

int main(int argc, char **argv)
{
    const char *good = getenv("CAIRN_PERSISTENT");
    uint64_t a[100], found_a[100];
    cairn_session *s;
    int64_t version = -1;
    int threads;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    REQUIRE(good != NULL);
    open_fails(good, 2, CAIRN_EINVAL, "options->size is 1");
    open_fails("/proc/nowhere", -1, CAIRN_ECONFIG, "set persistent to a directory");

    OK(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s));
    OK(cairn_protect(s, "a", a, CAIRN_U64, 100));
    fill(a, 100, 1, (uint64_t)rank);
    memcpy(found_a, a, sizeof(a));
    OK(cairn_checkpoint(s, "work", 1, NULL));
    FAILS(CAIRN_EINVAL, cairn_find(s, rank == 1 ? "a/b" : "work", CAIRN_NEWEST, &version));
    FAILS(CAIRN_EINVAL, cairn_find_version(s, "work", rank == 3 ? -1 : 1));
    FAILS(CAIRN_EINVAL, cairn_restart(s, "work", NULL, rank == 0 ? NULL : &version));
    memset(a, 0, sizeof(a));
    OK(cairn_restart(s, "work", NULL, &version));
    REQUIRE(version == 1 && memcmp(a, found_a, sizeof(a)) == 0);
    OK(cairn_close(s));
    (void)MPI_Finalize();
    return 0;
}
