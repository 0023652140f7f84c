/* SPDX-License-Identifier: BSD-3-Clause */
/* The level `protected` in a living job with a node for each rank: which versions get parity, what a wait
 * for it flushes (nothing), and what a checkpoint may ask for itself. tests/crash loses nodes. */
#include <glob.h>
#include <unistd.h>

#include "mpi_test.h"

enum { WORDS = 50000 };

static int rank, ranks;
static char dir[256];
static uint64_t data[WORDS];

static cairn_session *open_with(const char *const *more)
{
    static const char *const settings[] = {"log_level=error",     "block_bytes=1M",     "blocks=2",
                                           "failure_domain=node", "persistent_every=0", NULL};
    cairn_session *s = open_below(MPI_COMM_WORLD, dir, settings, more);

    OK(cairn_protect(s, "a", data, CAIRN_U64, WORDS));
    return s;
}

static void take(cairn_session *s, int64_t v, const char *scheme, cairn_level level)
{
    struct cairn_checkpoint_options o = {.size = sizeof(o), .level = level, .protect = scheme};

    fill(data, WORDS, (uint64_t)v, (uint64_t)rank);
    OK(cairn_checkpoint_with(s, "p", v, &o));
    memset(data, 0xee, sizeof(data));
    OK(cairn_wait(s, "p", v, CAIRN_CAPTURED, 60000));
}

static uint64_t levels_of(cairn_session *s, int64_t v)
{
    struct cairn_stats st = {.size = sizeof(st)};

    OK(cairn_stats(s, "p", v, &st));
    return st.levels;
}

static void require_nothing_flushed(void)
{
    char path[400];
    glob_t g;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(path, sizeof(path), "%s/p/p/*/data-*", dir);
    REQUIRE(glob(path, 0, NULL, &g) == GLOB_NOMATCH);
}

static void restart_is(cairn_session *s, int64_t newest)
{
    int64_t v = -1;

    memset(data, 0, sizeof(data));
    OK(cairn_restart(s, "p", NULL, &v));
    REQUIRE(v == newest && holds(data, WORDS, (uint64_t)v, (uint64_t)rank));
}

/* Every version is protected, and none is on the file system before the end. */
static void in_memory_only(void)
{
    const char *keys[] = {"protect=xor", "protect_set=4", NULL};
    cairn_session *s = open_with(keys);
    int64_t v;

    for (v = 1; v <= 5; v++) {
        take(s, v, NULL, CAIRN_LEVEL_NONE);
        OK(cairn_wait(s, "p", v, CAIRN_PROTECTED, 60000));
        REQUIRE((levels_of(s, v) & CAIRN_LEVEL_BIT(CAIRN_PROTECTED)) != 0);
        REQUIRE((levels_of(s, v) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) == 0);
    }
    require_nothing_flushed();
    take(s, 6, NULL, CAIRN_LEVEL_NONE);
    OK(cairn_wait_all(s, CAIRN_PROTECTED, 60000));
    require_nothing_flushed();
    restart_is(s, 6);
    OK(cairn_close(s));
}

/* One in three; a wait for the level flushes a version that gets no parity. */
static void one_in_three(void)
{
    const char *keys[] = {"protect=rs:1", "protect_every=3", "protect_set=4", "keep_protected=4",
                          NULL};
    cairn_session *s = open_with(keys);
    int64_t v;

    for (v = 11; v <= 13; v++)
        take(s, v, NULL, CAIRN_LEVEL_NONE);
    OK(cairn_wait(s, "p", 13, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 11) & CAIRN_LEVEL_BIT(CAIRN_PROTECTED)) == 0);
    REQUIRE((levels_of(s, 12) & CAIRN_LEVEL_BIT(CAIRN_PROTECTED)) == 0);
    REQUIRE((levels_of(s, 13) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) == 0);
    take(s, 14, NULL, CAIRN_LEVEL_NONE);
    OK(cairn_wait(s, "p", 14, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 14) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) != 0);
    OK(cairn_close(s));
}

/* A checkpoint names its scheme; what the sets cannot carry is refused on all ranks. */
static void a_scheme_of_its_own(void)
{
    static const char *const bad[] = {"raid", "rs:4", "rs:0", "rs:4|rs:5", "rs:4|raid", "rs:4|"};
    struct cairn_checkpoint_options o = {.size = sizeof(o)};
    const char *keys[] = {"protect_set=4", NULL};
    cairn_session *s = open_with(keys);
    size_t i;

    fill(data, WORDS, 21, (uint64_t)rank);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        o.protect = bad[i];
        FAILS(CAIRN_EINVAL, cairn_checkpoint_with(s, "p", 20, &o));
    }
    take(s, 21, "none", CAIRN_LEVEL_NONE);
    take(s, 22, "partner", CAIRN_LEVEL_NONE);
    OK(cairn_wait(s, "p", 22, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 22) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) == 0);
    take(s, 23, "rs:3", CAIRN_PROTECTED);
    OK(cairn_wait(s, "p", 23, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 23) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) == 0);
    take(s, 24, "rs:4|xor|none", CAIRN_PROTECTED);
    OK(cairn_wait(s, "p", 24, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 24) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) == 0);
    OK(cairn_close(s));
    s = open_with(NULL);
    o.protect = "xor"; /* there are no sets */
    FAILS(CAIRN_EINVAL, cairn_checkpoint_with(s, "p", 25, &o));
    take(s, 26, "xor|none", CAIRN_PROTECTED); /* reached on the file system */
    OK(cairn_wait(s, "p", 26, CAIRN_PROTECTED, 60000));
    REQUIRE((levels_of(s, 26) & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) != 0);
    OK(cairn_close(s));
}

/* The members of this node's set, as its run.ini lists them. */
static int set_is(const char *members)
{
    char path[400], line[400];
    int is_there = 0;
    glob_t g;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/cairn-*/*-n%d/run.ini", dir, rank);
    REQUIRE(glob(path, 0, NULL, &g) == 0 && g.gl_pathc == 1);
    f = fopen(g.gl_pathv[0], "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        is_there |= strstr(line, members) != NULL;
    (void)fclose(f);
    globfree(&g);
    return is_there;
}

/* What is lost together is a label, from the environment or from a file, here of two racks. */
static void racks(void)
{
    static const char *const settings[] = {"protect=xor", "protect_set=2", "log_level=error", NULL};
    static const char *const by_env[] = {"failure_domain=env:CAIRN_TEST_RACK", NULL};
    char file[300], by_file[320], host[200] = "";
    char persistent[300], shm[300], run[300];
    const char *bad[12] = {persistent,        shm,    run, "protect=xor", "protect_set=4",
                           "log_level=error", by_file};
    struct cairn_options options = {.size = sizeof(options), .settings = bad};
    cairn_session *s;
    FILE *f;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", dir);
    REQUIRE(setenv("CAIRN_TEST_RACK", rank % 2 == 0 ? "left" : "right", 1) == 0);
    s = open_below(MPI_COMM_WORLD, dir, settings, by_env);
    REQUIRE(set_is(rank < 2 ? " 0 1\n" : " 2 3\n")); /* by host it is 0 2 and 1 3 */
    OK(cairn_close(s));
    REQUIRE(unsetenv("CAIRN_TEST_RACK") == 0);
    (void)snprintf(by_file, sizeof(by_file), "failure_domain=env:CAIRN_TEST_RACK");
    FAILS(CAIRN_ECONFIG, cairn_open_mpi(MPI_COMM_WORLD, &options, &s));
    REQUIRE(strstr(cairn_last_error(), "the variable 'CAIRN_TEST_RACK' is not set") != NULL);
    (void)snprintf(file, sizeof(file), "%s/racks", dir);
    (void)snprintf(by_file, sizeof(by_file), "failure_domain=file:%s", file);
    FAILS(CAIRN_ENOENT, cairn_open_mpi(MPI_COMM_WORLD, &options, &s));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)gethostname(host, sizeof(host) - 1);
    f = rank == 0 ? fopen(file, "w") : NULL;
    REQUIRE(rank != 0 ||
            (f != NULL && fprintf(f, "other left\n%s right\n", host) > 0 && fclose(f) == 0));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    FAILS(CAIRN_ECONFIG, cairn_open_mpi(MPI_COMM_WORLD, &options, &s)); /* all in one rack */
    REQUIRE(strstr(cairn_last_error(), "in 1 failure domain") != NULL);
}

int main(int argc, char **argv)
{
    int provided;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shared_dir(dir, sizeof(dir));
    in_memory_only();
    one_in_three();
    a_scheme_of_its_own();
    racks();
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
