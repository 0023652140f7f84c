/* SPDX-License-Identifier: BSD-3-Clause */
/* An application that writes its own files with MPI-IO while Cairn's threads use MPI. Open MPI
 * is only safe if its collective writes are synchronous: the session requests that in time for
 * the first file, and does not override the user's choice. Files and checkpoints have the right
 * bytes.
 *
 * usage: mpiio [CHOSEN]    CHOSEN: the user's setting for Open MPI; then no file is written */
#include "mpi_test.h"

enum { N = 1 << 18, ROUNDS = 6 };

static MPI_File open_file(const char *dir)
{
    char path[300];
    MPI_File f;

    (void)snprintf(path, sizeof(path), "%s/file", dir);
    REQUIRE(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                          &f) == MPI_SUCCESS);
    return f;
}

/* Does Open MPI's own MPI-IO work correctly? Other libraries lack this variable. */
static void check_choice(int wanted)
{
    MPI_T_cvar_handle handle;
    int level, index, count, value = -1;

    REQUIRE(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    if (MPI_T_cvar_get_index("fcoll_vulcan_async_io", &index) == MPI_SUCCESS) {
        REQUIRE(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS);
        REQUIRE(MPI_T_cvar_read(handle, &value) == MPI_SUCCESS);
        REQUIRE(value == wanted);
        (void)MPI_T_cvar_handle_free(&handle);
    }
    (void)MPI_T_finalize();
}

/* Writes this rank's part of the file while the checkpoint of the same round is in flight. */
static void write_both(cairn_session *s, MPI_File f, uint64_t *data, uint64_t *got, int rank)
{
    MPI_Offset at = (MPI_Offset)rank * N * (MPI_Offset)sizeof(*data);
    int round;

    for (round = 1; round <= ROUNDS; round++) {
        fill(data, N, (uint64_t)round, (uint64_t)rank);
        OK(cairn_checkpoint(s, "x", round, NULL));
        REQUIRE(MPI_File_write_at_all(f, at, data, N, MPI_UINT64_T, MPI_STATUS_IGNORE) ==
                MPI_SUCCESS);
        memset(got, 0, N * sizeof(*got));
        REQUIRE(MPI_File_read_at_all(f, at, got, N, MPI_UINT64_T, MPI_STATUS_IGNORE) ==
                MPI_SUCCESS);
        REQUIRE(memcmp(got, data, N * sizeof(*got)) == 0);
    }
}

int main(int argc, char **argv)
{
    const char *settings[] = {"log_level=error", "ranks_per_node=1", "files=1", NULL};
    uint64_t *data = malloc(N * sizeof(*data)), *got = malloc(N * sizeof(*got));
    char dir[200];
    cairn_session *s;
    int level, rank;
    MPI_File f;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    REQUIRE(data != NULL && got != NULL);
    shared_dir(dir, sizeof(dir));
    s = open_below(MPI_COMM_WORLD, dir, settings, NULL);
    OK(cairn_protect(s, "data", data, CAIRN_U64, N));
    f = open_file(dir);
    check_choice(argc > 1 ? atoi(argv[1]) : 2);
    if (argc == 1) {
        write_both(s, f, data, got, rank);
        memset(data, 0, N * sizeof(*data));
        OK(cairn_wait(s, "x", ROUNDS, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG));
        OK(cairn_restore(s, "x", ROUNDS, NULL));
        REQUIRE(memcmp(got, data, N * sizeof(*got)) == 0);
    }
    REQUIRE(MPI_File_close(&f) == MPI_SUCCESS);
    OK(cairn_close(s));
    remove_dir(dir);
    free(data);
    free(got);
    MPI_Finalize();
    return 0;
}
