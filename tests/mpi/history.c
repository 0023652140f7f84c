/* SPDX-License-Identifier: BSD-3-Clause */
/* Histories larger than the arenas, on the disks of the nodes: read back once, in reverse, by
 * all ranks; kept; flushed because one rank waits for it; left over at the end. */
#include "mpi_test.h"

enum { N = 60000, STEPS = 12 }; /* 480 KB: two fit an arena */

static int rank;
static char dir[256];
static uint64_t *a;

static cairn_session *open_with(const char *discard)
{
    char local[300];
    const char *settings[] = {local,
                              "arena_bytes=1M",
                              "log_level=error",
                              "blocks=2",
                              "block_bytes=1M",
                              discard,
                              "local_cache=8M",
                              NULL};
    cairn_session *s;

    (void)snprintf(local, sizeof(local), "local=%s/local", host_dir(dir));
    s = open_below(MPI_COMM_WORLD, dir, settings, NULL);
    OK(cairn_protect(s, "a", a, CAIRN_U64, N));
    return s;
}

static void take(cairn_session *s, const char *name, int64_t v)
{
    fill(a, N, (uint64_t)v, (uint64_t)rank);
    OK(cairn_checkpoint(s, name, v, NULL));
    memset(a, 0xee, N * sizeof(*a));
}

static void back(cairn_session *s, const char *name, int64_t v)
{
    OK(cairn_restore(s, name, v, NULL));
    REQUIRE(holds(a, N, (uint64_t)v, (uint64_t)rank));
}

/* None of it is committed: some rank read each version first. */
static void read_once(void)
{
    cairn_session *s = open_with("discard_consumed=on");
    int64_t v;

    for (v = 0; v < STEPS; v++) {
        OK(cairn_prefetch_enqueue(s, "shot", STEPS - 1 - v));
        take(s, "shot", v);
    }
    OK(cairn_prefetch_start(s));
    for (v = STEPS - 1; v >= 0; v--)
        back(s, "shot", v);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (v = 0; v < STEPS; v++)
        FAILS(CAIRN_ECANCELED, cairn_wait(s, "shot", v, CAIRN_PERSISTENT, 60000));
    for (v = 0; v < STEPS; v++)
        take(s, "kept", v);
    if (rank == 0)
        OK(cairn_wait(s, "kept", 3, CAIRN_PERSISTENT, 60000));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    OK(cairn_close(s)); /* now the others are read, too */
    s = open_with("discard_consumed=off");
    FAILS(CAIRN_ENOENT, cairn_find_version(s, "shot", 5));
    for (v = 0; v < STEPS; v++)
        back(s, "kept", v);
    OK(cairn_close(s));
}

/* Without discarding, all are committed, from memory or from the disk. */
static void kept(void)
{
    cairn_session *s = open_with("discard_consumed=off");
    int64_t v;

    for (v = 0; v < STEPS; v++)
        take(s, "all", v);
    for (v = STEPS - 1; v >= 0; v--)
        back(s, "all", v);
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    OK(cairn_close(s));
    s = open_with("discard_consumed=off");
    OK(cairn_restart(s, "all", NULL, &v));
    REQUIRE(v == STEPS - 1 && holds(a, N, STEPS - 1, (uint64_t)rank));
    OK(cairn_close(s));
}

int main(int argc, char **argv)
{
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    a = malloc(N * sizeof(*a));
    shared_dir(dir, sizeof(dir));
    read_once();
    kept();
    free(a);
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
