/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that are not flushed unless somebody wants them: which reach the file system, which give
 * way, and what becomes of the newest. Every byte that is restored is compared. tests/crash kills
 * such jobs. */
#include <glob.h>
#include <signal.h>
#include <unistd.h>

#include "mpi_test.h"

enum { WORDS = 100000 };

static int rank, ranks;
static char dir[256];
static uint64_t data[WORDS];

static cairn_session *open_with(const char *const *more)
{
    static const char *const settings[] = {"log_level=error", "block_bytes=1M", "blocks=2", NULL};
    cairn_session *s = open_below(MPI_COMM_WORLD, dir, settings, more);

    OK(cairn_protect(s, "a", data, CAIRN_U64, WORDS));
    return s;
}

static void take(cairn_session *s, const char *name, int64_t v, cairn_level level)
{
    struct cairn_checkpoint_options o = {.size = sizeof(o), .level = level};

    fill(data, WORDS, (uint64_t)v, (uint64_t)rank);
    OK(cairn_checkpoint_with(s, name, v, &o));
    memset(data, 0xee, sizeof(data));
    OK(cairn_wait(s, name, v, CAIRN_CAPTURED, 60000));
}

/* Polls, which asks for no flush. */
static void await(cairn_session *s, const char *name, int64_t v, cairn_level level)
{
    int reached = 0;

    while (!reached) {
        OK(cairn_test(s, name, v, level, &reached));
        (void)usleep(1000);
    }
}

static void await_superseded(cairn_session *s, const char *name, int64_t v)
{
    struct cairn_stats st = {.size = sizeof(st)};

    while (st.error == CAIRN_OK) {
        OK(cairn_stats(s, name, v, &st));
        (void)usleep(1000);
    }
    REQUIRE(st.error == CAIRN_ECANCELED && st.level < CAIRN_PERSISTENT);
    FAILS(CAIRN_ECANCELED, cairn_wait(s, name, v, CAIRN_PERSISTENT, 60000));
    OK(cairn_wait(s, name, v, CAIRN_CAPTURED, 60000)); /* which it had reached */
}

/* Exactly these versions are on the file system; the last one is -1. */
static void require_visible(const char *name, const int64_t *versions)
{
    char path[400];
    glob_t g;
    size_t n;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (n = 0; versions[n] >= 0; n++) {
        (void)snprintf(path, sizeof(path), "%s/p/%s/%lld/manifest", dir, name,
                       (long long)versions[n]);
        REQUIRE(access(path, F_OK) == 0);
    }
    (void)snprintf(path, sizeof(path), "%s/p/%s/*/manifest", dir, name);
    REQUIRE(glob(path, 0, NULL, &g) == (n > 0 ? 0 : GLOB_NOMATCH));
    REQUIRE(n == 0 || g.gl_pathc == n);
    if (n > 0)
        globfree(&g);
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

#define VISIBLE(name, ...) require_visible(name, (const int64_t[]){__VA_ARGS__, -1})

static void restart_is(cairn_session *s, const char *name, int64_t newest)
{
    int64_t v = -1;

    memset(data, 0, sizeof(data));
    OK(cairn_restart(s, name, NULL, &v));
    REQUIRE(v == newest && holds(data, WORDS, (uint64_t)v, (uint64_t)rank));
}

static void one_in_three(void)
{
    const char *keys[] = {"persistent_every=3", NULL};
    cairn_session *s = open_with(keys);
    int64_t v;
    int reached;

    for (v = 1; v <= 7; v++)
        take(s, "three", v, CAIRN_LEVEL_NONE);
    await(s, "three", 3, CAIRN_PERSISTENT);
    await(s, "three", 6, CAIRN_PERSISTENT);
    await_superseded(s, "three", 1);
    await_superseded(s, "three", 5);
    VISIBLE("three", 3, 6);
    OK(cairn_test(s, "three", 7, CAIRN_PERSISTENT, &reached));
    REQUIRE(!reached);
    (void)MPI_Barrier(MPI_COMM_WORLD); /* the first rank that waits starts the flush for all */
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    VISIBLE("three", 3, 6, 7);
    take(s, "three", 8, CAIRN_LEVEL_NONE);
    take(s, "three", 9, CAIRN_LEVEL_NONE);
    OK(cairn_close(s));
    VISIBLE("three", 3, 6, 7, 9);
    s = open_with(keys);
    restart_is(s, "three", 9);
    OK(cairn_close(s));
}

/* The one before the last is kept, too, until the last is on the file system. */
static void keep_two(void)
{
    const char *keys[] = {"persistent_every=0", "keep_protected=2", NULL};
    cairn_session *s = open_with(keys);
    int64_t v;

    for (v = 1; v <= 4; v++)
        take(s, "two", v, CAIRN_LEVEL_NONE);
    await_superseded(s, "two", 2);
    VISIBLE("two", -1);
    OK(cairn_wait(s, "two", 3, CAIRN_PERSISTENT, 60000)); /* not the newest, and not due */
    VISIBLE("two", 3);
    OK(cairn_wait(s, "two", 4, CAIRN_PERSISTENT, 60000));
    VISIBLE("two", 3, 4);
    OK(cairn_close(s));
}

/* A wait for one that is not due begins the interval anew. */
static void waited(void)
{
    const char *keys[] = {"persistent_every=3", NULL};
    cairn_session *s = open_with(keys);
    int64_t v;

    take(s, "waited", 1, CAIRN_LEVEL_NONE);
    OK(cairn_wait(s, "waited", 1, CAIRN_PERSISTENT, 60000));
    for (v = 2; v <= 4; v++)
        take(s, "waited", v, CAIRN_LEVEL_NONE);
    await(s, "waited", 4, CAIRN_PERSISTENT);
    VISIBLE("waited", 1, 4);
    take(s, "other", 1, CAIRN_LEVEL_NONE);
    take(s, "waited", 5, CAIRN_LEVEL_NONE);
    VISIBLE("other", -1);
    OK(cairn_close(s)); /* the newest of each name */
    VISIBLE("waited", 1, 4, 5);
    VISIBLE("other", 1);
}

/* The level of one checkpoint wins over the interval of its name. */
static void levels(void)
{
    cairn_session *s = open_with(NULL);

    take(s, "levels", 1, CAIRN_CAPTURED);
    take(s, "levels", 2, CAIRN_CAPTURED);
    await_superseded(s, "levels", 1);
    take(s, "levels", 3, CAIRN_LEVEL_NONE);
    await(s, "levels", 3, CAIRN_PERSISTENT);
    await_superseded(s, "levels", 2);
    take(s, "levels", 4, CAIRN_CAPTURED);
    VISIBLE("levels", 3);
    OK(cairn_close(s));
    VISIBLE("levels", 3, 4);
    s = open_with((const char *[]){"persistent_every=1h", NULL});
    take(s, "levels", 5, CAIRN_PERSISTENT);
    await(s, "levels", 5, CAIRN_PERSISTENT);
    take(s, "levels", 6, CAIRN_PROTECTED); /* there is no scheme: the file system has it */
    await(s, "levels", 6, CAIRN_PROTECTED);
    VISIBLE("levels", 3, 4, 5, 6);
    OK(cairn_close(s));
}

/* An arena for one image: the held version is flushed, not dropped, to make room. */
static void cramped(void)
{
    const char *keys[] = {"persistent_every=0", "arena_bytes=1280K", NULL};
    cairn_session *s = open_with(keys);
    int64_t v;

    for (v = 1; v <= 3; v++)
        take(s, "cramped", v, CAIRN_LEVEL_NONE);
    VISIBLE("cramped", 1, 2);
    OK(cairn_close(s));
    VISIBLE("cramped", 1, 2, 3);
}

static size_t local_copies(void)
{
    char path[400];
    glob_t g;
    size_t n;

    (void)snprintf(path, sizeof(path), "%s/local/*/local/*/data-*", dir);
    if (glob(path, 0, NULL, &g) != 0)
        return 0;
    n = g.gl_pathc;
    globfree(&g);
    return n;
}

/* The local directory holds no more versions than the arena. */
static void local_copy(void)
{
    size_t per_node = strtoul(getenv("CAIRN_RANKS_PER_NODE"), NULL, 10);
    size_t nodes = ((size_t)ranks + per_node - 1) / per_node;
    char local[300];
    const char *keys[] = {"persistent_every=0", local, NULL};
    cairn_session *s;
    int64_t v;

    (void)snprintf(local, sizeof(local), "local=%s/local", dir);
    s = open_with(keys);
    for (v = 1; v <= 4; v++) {
        take(s, "local", v, CAIRN_LEVEL_NONE);
        OK(cairn_wait(s, "local", v, CAIRN_LOCAL, 60000));
        (void)MPI_Barrier(MPI_COMM_WORLD); /* or the next one may come before the copy */
    }
    VISIBLE("local", -1);
    await_superseded(s, "local", 3);
    while (local_copies() > nodes)
        (void)usleep(1000);
    REQUIRE(local_copies() == nodes);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    OK(cairn_close(s));
    VISIBLE("local", 4);
}

/* The session itself goes back to a version that only the nodes have. */
static void go_back(void)
{
    const char *keys[] = {"persistent_every=0", NULL};
    cairn_session *s = open_with(keys);

    take(s, "back", 1, CAIRN_LEVEL_NONE);
    take(s, "back", 2, CAIRN_LEVEL_NONE);
    restart_is(s, "back", 2);
    OK(cairn_close(s));
}

/* Once the job is told to stop, the newest version goes to the file system, and any later one. */
static void stop(void)
{
    const char *keys[] = {"persistent_every=0", "stop_signals=USR1", NULL};
    cairn_session *s = open_with(keys);
    int yes = 0;

    take(s, "stop", 1, CAIRN_LEVEL_NONE);
    take(s, "stop", 2, CAIRN_LEVEL_NONE);
    REQUIRE(raise(SIGUSR1) == 0);
    while (!yes)
        OK(cairn_should_stop(s, &yes));
    await(s, "stop", 2, CAIRN_PERSISTENT);
    take(s, "stop", 3, CAIRN_LEVEL_NONE);
    await(s, "stop", 3, CAIRN_PERSISTENT);
    VISIBLE("stop", 2, 3);
    OK(cairn_close(s));
}

/* The service itself looks at the clock of the allocation. */
static void wall_limit(void)
{
    const char *keys[] = {"persistent_every=0", "wall_limit=2s", "wall_margin=1900ms", NULL};
    cairn_session *s = open_with(keys);

    take(s, "wall", 1, CAIRN_LEVEL_NONE);
    await(s, "wall", 1, CAIRN_PERSISTENT);
    OK(cairn_close(s));
}

int main(int argc, char **argv)
{
    int provided;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shared_dir(dir, sizeof(dir));
    one_in_three();
    keep_two();
    waited();
    levels();
    cramped();
    local_copy();
    go_back();
    stop();
    wall_limit();
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
