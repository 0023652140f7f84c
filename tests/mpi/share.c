/* SPDX-License-Identifier: BSD-3-Clause */
/* share VERSIONS: nodes that share files. Shards have very different sizes, some are empty, and
 * sizes change with each version, so leaders and assistants change, too; some ranks have nothing
 * at all. Every byte of every version is compared, in the same session and in a new one. The
 * keys come from the environment. */
#include "mpi_test.h"

enum { MOST = 40000 };

static int rank, ranks;
static char dir[256];

static cairn_session *open_session(void)
{
    static const char *const settings[] = {"arena_bytes=4M", "block_bytes=64K", "blocks=2",
                                           "chunk_bytes=16K", NULL};

    return open_below(MPI_COMM_WORLD, dir, settings, NULL);
}

/* The number of elements of this rank in a version. */
static uint64_t size_of(int64_t v)
{
    uint64_t x = pattern((uint64_t)v, (uint64_t)rank, 4711);

    if (v % 7 == 6)
        return v % 2 == 0 ? 0 : 3; /* no data, or nearly none, anywhere */
    return x % 4 == 0 ? 0 : x % MOST;
}

static void protect(cairn_session *s, uint64_t *a, uint64_t *b, int64_t v)
{
    uint64_t n = size_of(v);

    OK(cairn_protect(s, "a", a, CAIRN_U64, n));
    OK(cairn_protect(s, "b", b, CAIRN_U64, 5));
    if (rank == ranks - 1 && v % 3 == 0) { /* a rank without regions */
        OK(cairn_unprotect(s, "a"));
        OK(cairn_unprotect(s, "b"));
    }
}

static void compare(cairn_session *s, uint64_t *a, uint64_t *b, int64_t v)
{
    uint64_t n = size_of(v);
    int has = !(rank == ranks - 1 && v % 3 == 0);

    protect(s, a, b, v);
    memset(a, 0xee, MOST * sizeof(*a));
    memset(b, 0xee, 5 * sizeof(*b));
    if (!has)
        return;
    OK(cairn_restore(s, "share", v, NULL));
    REQUIRE(holds(a, n, (uint64_t)v, (uint64_t)rank));
    REQUIRE(holds(b, 5, (uint64_t)v + 1000, (uint64_t)rank));
}

/* An interrupted service leaves its run's directory for a drain: none was interrupted. */
static void nothing_left(void)
{
    char cmd[600];

    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(cmd, sizeof(cmd),
                   "test -z \"$(find %s/cairn-* %s/run -mindepth 1 2>/dev/null)\"", dir, dir);
    if (rank == 0)
        REQUIRE(system(cmd) == 0);
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static uint64_t a[MOST];
    uint64_t b[5];
    int64_t v, versions, newest;
    cairn_session *s;
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(argc == 2);
    versions = strtoll(argv[1], NULL, 10);
    shared_dir(dir, sizeof(dir));
    s = open_session();
    for (v = 0; v < versions; v++) {
        protect(s, a, b, v);
        fill(a, size_of(v), (uint64_t)v, (uint64_t)rank);
        fill(b, 5, (uint64_t)v + 1000, (uint64_t)rank);
        OK(cairn_checkpoint(s, "share", v, NULL));
    }
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    for (v = versions - 1; v >= 0 && v > versions - 5; v--)
        compare(s, a, b, v);
    OK(cairn_close(s));
    nothing_left();
    s = open_session();
    OK(cairn_find(s, "share", CAIRN_NEWEST, &newest));
    REQUIRE(newest == versions - 1);
    for (v = 0; v < versions; v++)
        compare(s, a, b, v);
    OK(cairn_close(s));
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
