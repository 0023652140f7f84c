/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint in two steps: memory is captured at the copy, files at the hand-over; one rank
 * can abandon it for all. Also inspects what is stored. */
#include <unistd.h>

#include "mpi_test.h"

enum { N = 5000 };

static int rank, ranks;
static char dir[256];

static cairn_session *open_job(const char *more)
{
    char local[300];
    const char *settings[] = {local, "log_level=error", "block_bytes=1M", "blocks=2", more, NULL};

    (void)snprintf(local, sizeof(local), "local=%s/local", host_dir(dir));
    return open_below(MPI_COMM_WORLD, dir, settings, NULL);
}

static void write_file(const char *path, int value)
{
    FILE *f = fopen(path, "w");

    REQUIRE(f != NULL && fprintf(f, "%d of %d", value, rank) > 0 && fclose(f) == 0);
}

static int file_holds(const char *path, int value)
{
    char want[64], have[64] = "";
    FILE *f = fopen(path, "r");

    REQUIRE(f != NULL && fgets(have, sizeof(have), f) != NULL && fclose(f) == 0);
    (void)snprintf(want, sizeof(want), "%d of %d", value, rank);
    return strcmp(have, want) == 0;
}

/* Memory counts as of the capture, files as of the submit; the last capture counts. more: a
 * small arena, so that the image becomes a file. */
static void moments(const char *more)
{
    cairn_session *s = open_job(more);
    uint64_t *a = malloc(N * sizeof(*a));
    struct cairn_stats st = {.size = sizeof(st)};
    char path[600], other[600];

    OK(cairn_protect(s, "a", a, CAIRN_U64, N));
    OK(cairn_file_route(s, "steps", 1, "f", path, sizeof(path)));
    write_file(path, 1);
    fill(a, N, 1, (uint64_t)rank);
    OK(cairn_capture(s, "steps", 1, NULL));
    FAILS(CAIRN_ESTATE, cairn_file_route(s, "steps", 1, "late", other, sizeof(other)));
    FAILS(CAIRN_ESTATE, cairn_capture(s, "steps", 2, NULL));
    FAILS(CAIRN_ESTATE, cairn_checkpoint(s, "steps", 2, NULL));
    fill(a, N, 2, (uint64_t)rank);
    OK(cairn_capture(s, "steps", 1, NULL));
    fill(a, N, 3, (uint64_t)rank);
    write_file(path, 2);
    OK(cairn_submit(s));
    FAILS(CAIRN_ESTATE, cairn_submit(s));
    OK(cairn_wait(s, "steps", 1, CAIRN_PERSISTENT, 60000));
    OK(cairn_stats(s, "steps", 1, &st));
    REQUIRE(st.bytes > N * sizeof(*a) && st.bytes < N * sizeof(*a) + 64);
    OK(cairn_find_version(s, "steps", 1));
    OK(cairn_restore(s, "steps", 1, NULL));
    REQUIRE(holds(a, N, 2, (uint64_t)rank));
    OK(cairn_file_restore(s, "steps", 1, CAIRN_OWN_RANK, "f", path, sizeof(path)));
    REQUIRE(file_holds(path, 2));
    OK(cairn_close(s));
    free(a);
}

/* Abandoned by one rank, with or without a capture: it fails on all, and the next one succeeds. */
static void given_up(void)
{
    cairn_session *s = open_job("on_failure=continue");
    char path[600];
    int x = rank;
    int64_t v;

    OK(cairn_protect(s, "x", &x, CAIRN_I32, 1));
    OK(cairn_file_route(s, "up", 1, "f", path, sizeof(path)));
    write_file(path, 1);
    for (v = 1; v <= 2; v++) {
        if (rank > 0 || v == 1)
            OK(cairn_capture(s, "up", v, NULL));
        if (rank == 0) {
            OK(cairn_abandon(s, "up", v, "its own reasons"));
            REQUIRE(v == 2 || access(path, F_OK) != 0);
        }
        if (rank > 0)
            OK(cairn_submit(s));
        FAILS(CAIRN_EPEER, cairn_wait(s, "up", v, CAIRN_PERSISTENT, 60000));
    }
    OK(cairn_checkpoint(s, "up", 3, NULL));
    OK(cairn_wait(s, "up", 3, CAIRN_PERSISTENT, 60000));
    FAILS(CAIRN_ENOENT, cairn_find_version(s, "up", 1));
    OK(cairn_find(s, "up", CAIRN_NEWEST, &v));
    REQUIRE(v == 3);
    OK(cairn_capture(s, "up", 4, NULL)); /* and one that the close abandons */
    (void)cairn_close(s);
    s = open_job(NULL);
    OK(cairn_find(s, "up", CAIRN_NEWEST, &v));
    REQUIRE(v == 3);
    OK(cairn_close(s));
}

static void stored_regions(void)
{
    cairn_session *s = open_job(NULL);
    struct cairn_array info = {.size = sizeof(info)};
    char name[CAIRN_MAX_NAME], path[600], cmd[700];
    uint8_t small[7] = {1, 2, 3};
    double d[9] = {0};

    OK(cairn_protect(s, "small", small, CAIRN_BYTES, 7));
    if (rank % 2 == 0)
        OK(cairn_protect(s, "d", d, CAIRN_F64, 9));
    OK(cairn_file_route(s, "list", 1, "f", path, sizeof(path)));
    write_file(path, 1);
    OK(cairn_checkpoint(s, "list", 1, NULL));
    OK(cairn_wait(s, "list", 1, CAIRN_PERSISTENT, 60000));
    OK(cairn_region_at(s, "list", 1, CAIRN_OWN_RANK, 0, name, sizeof(name), &info));
    REQUIRE(strcmp(name, "small") == 0 && info.type == CAIRN_BYTES && info.dims[0] == 7);
    FAILS(CAIRN_EINVAL, cairn_region_at(s, "list", 1, 0, 0, name, 3, &info));
    OK(cairn_region_at(s, "list", 1, 0, 1, name, sizeof(name), &info));
    REQUIRE(strcmp(name, "d") == 0 && info.type == CAIRN_F64 && info.dims[0] == 9);
    FAILS(CAIRN_ENOENT, cairn_region_at(s, "list", 1, 0, 2, name, sizeof(name), &info));
    if (ranks > 1)
        FAILS(CAIRN_ENOENT, cairn_region_at(s, "list", 1, 1, 1, name, sizeof(name), &info));

    /* Local copies are removed, on all ranks at once; the version stays. */
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(cmd, sizeof(cmd), "ls %s/local/cairn-*/list/1/data-* >/dev/null 2>&1",
                   host_dir(dir));
    REQUIRE(rank != 0 || system(cmd) == 0);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    OK(cairn_drop_local(s, "list"));
    OK(cairn_drop_local(s, "never.was"));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    REQUIRE(rank != 0 || system(cmd) != 0);
    memset(small, 0, sizeof(small));
    OK(cairn_find_version(s, "list", 1));
    OK(cairn_restore(s, "list", 1, NULL));
    REQUIRE(small[2] == 3);
    OK(cairn_close(s));
}

int main(int argc, char **argv)
{
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shared_dir(dir, sizeof(dir));
    moments("arena_bytes=8M");
    moments("arena_bytes=16K");
    given_up();
    stored_regions();
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
