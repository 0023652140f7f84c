/* SPDX-License-Identifier: BSD-3-Clause */
/* Versions that are encoded against the one before, on the nodes and files that the environment
 * names: which of them are, that all are restored byte for byte, also in a new session, and when
 * they must not be encoded so. Data changes slowly (CAIRN_TEST_SLOWLY), so a file that needs
 * another is a fraction of a full one. */
#include <glob.h>
#include <sys/stat.h>

#include "mpi_test.h"

enum { WORDS = 40000, FULL_EVERY = 3 };

static int rank, ranks;
static char dir[256];
static uint64_t a[2 * WORDS];
static uint64_t b[7]; /* too small to benefit */

static cairn_session *open_session(const char *more, const char *still_more)
{
    const char *settings[] = {"block_bytes=256K",
                              "blocks=2",
                              "chunk_bytes=16K",
                              "encode=adaptive",
                              "encode_full_every=3",
                              "encode_chunk=64K",
                              more,
                              still_more,
                              NULL};

    return open_below(MPI_COMM_WORLD, dir, settings, NULL);
}

/* Every rank has another size. */
static uint64_t words(uint64_t less)
{
    return (uint64_t)WORDS - 1000 * (uint64_t)rank - less;
}

static void protect(cairn_session *s, uint64_t less)
{
    OK(cairn_protect(s, "a", a, CAIRN_U64, words(less)));
    OK(cairn_protect(s, "b", b, CAIRN_U64, 7));
}

static void take(cairn_session *s, const char *name, int64_t v, uint64_t less)
{
    protect(s, less);
    fill(a, words(less), (uint64_t)v, (uint64_t)rank);
    fill(b, 7, (uint64_t)v + 1000, (uint64_t)rank);
    OK(cairn_checkpoint(s, name, v, NULL));
}

static void take_and_wait(cairn_session *s, const char *name, int64_t v, uint64_t less)
{
    take(s, name, v, less);
    OK(cairn_wait(s, name, v, CAIRN_PERSISTENT, 60000));
    (void)MPI_Barrier(MPI_COMM_WORLD); /* the application owns all slots again */
}

static void compare(cairn_session *s, const char *name, int64_t v, uint64_t less)
{
    protect(s, less);
    memset(a, 0xee, sizeof(a));
    memset(b, 0xee, sizeof(b));
    OK(cairn_restore(s, name, v, NULL));
    REQUIRE(holds(a, words(less), (uint64_t)v, (uint64_t)rank));
    REQUIRE(holds(b, 7, (uint64_t)v + 1000, (uint64_t)rank));
}

/* Bytes of the data files of a version, together, and of the data in it. */
static uint64_t file_bytes(const char *name, int64_t v)
{
    uint64_t sum = 0;
    char pattern_text[600];
    struct stat st;
    glob_t found;
    size_t i;

    (void)snprintf(pattern_text, sizeof(pattern_text), "%s/p/%s/%lld/data-*", dir, name,
                   (long long)v);
    REQUIRE(glob(pattern_text, 0, NULL, &found) == 0);
    for (i = 0; i < found.gl_pathc; i++) {
        REQUIRE(stat(found.gl_pathv[i], &st) == 0);
        sum += (uint64_t)st.st_size;
    }
    globfree(&found);
    return sum;
}

static size_t nversions(const char *name)
{
    char pattern_text[600];
    glob_t found;
    size_t n;

    (void)snprintf(pattern_text, sizeof(pattern_text), "%s/p/%s/*/manifest", dir, name);
    REQUIRE(glob(pattern_text, 0, NULL, &found) == 0);
    n = found.gl_pathc;
    globfree(&found);
    return n;
}

static int is_small(const char *name, int64_t v)
{
    return file_bytes(name, v) < (uint64_t)ranks * WORDS * sizeof(uint64_t) / 2;
}

/* One of FULL_EVERY is full, the others are small; a later run begins with a full one. */
static void one_after_the_other(void)
{
    cairn_session *s = open_session(NULL, NULL);
    int64_t v, newest;

    for (v = 0; v < 10; v++) {
        take_and_wait(s, "one", v, 0);
        REQUIRE(is_small("one", v) == (v % FULL_EVERY != 0));
    }
    for (v = 9; v > 5; v--)
        compare(s, "one", v, 0);
    OK(cairn_close(s));
    s = open_session(NULL, NULL);
    OK(cairn_find(s, "one", CAIRN_NEWEST, &newest));
    REQUIRE(newest == 9);
    for (v = 0; v < 10; v++)
        compare(s, "one", v, 0);
    take_and_wait(s, "one", 10, 0);
    REQUIRE(!is_small("one", 10));
    /* Full if the arena, created for a read, had space for only one. */
    take_and_wait(s, "one", 11, 0);
    compare(s, "one", 11, 0);
    OK(cairn_close(s));
}

/* With other sizes a version is full. One that is taken again is not encoded against itself. */
static void what_changes_is_full(void)
{
    cairn_session *s = open_session(NULL, NULL);

    take_and_wait(s, "size", 0, 0);
    take_and_wait(s, "size", 1, 100);
    REQUIRE(!is_small("size", 1));
    take_and_wait(s, "size", 2, 100);
    REQUIRE(is_small("size", 2));
    take_and_wait(s, "size", 2, 100);
    take_and_wait(s, "size", 3, 100);
    REQUIRE(is_small("size", 3));
    OK(cairn_close(s));
    s = open_session(NULL, NULL);
    compare(s, "size", 0, 0);
    compare(s, "size", 1, 100);
    compare(s, "size", 2, 100);
    compare(s, "size", 3, 100);
    OK(cairn_close(s));
}

/* Without space for the version before, every version is full, and no rank waits long. */
static void without_room_all_are_full(void)
{
    cairn_session *s = open_session("arena_bytes=500K", NULL);
    int64_t v;

    for (v = 0; v < 5; v++) {
        take_and_wait(s, "room", v, 0);
        REQUIRE(!is_small("room", v));
    }
    OK(cairn_close(s));
}

/* Many versions in sequence, in an arena of two: lent slots are always returned. */
static void nothing_stalls(void)
{
    cairn_session *s = open_session("arena_bytes=800K", "wait_timeout=60s");
    int64_t v;

    for (v = 0; v < 50; v++)
        take(s, "many", v, 0);
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    OK(cairn_close(s));
    s = open_session(NULL, NULL);
    for (v = 0; v < 50; v += 7)
        compare(s, "many", v, 0);
    compare(s, "many", 49, 0);
    OK(cairn_close(s));
}

/* Old versions are retired while others are encoded against them: kept versions can be read. */
static void retention_keeps_what_is_needed(void)
{
    cairn_session *s = open_session("keep_last=1", NULL);
    int64_t v, newest;

    for (v = 0; v < 20; v++) {
        take(s, "keep", v, 0);
        if (v % 4 == 0) /* sometimes in sequence, sometimes not */
            OK(cairn_wait(s, "keep", v, CAIRN_PERSISTENT, 60000));
    }
    OK(cairn_close(s));
    s = open_session(NULL, NULL);
    OK(cairn_find(s, "keep", CAIRN_NEWEST, &newest));
    REQUIRE(newest == 19);
    compare(s, "keep", 19, 0);
    OK(cairn_close(s));
    REQUIRE(nversions("keep") <= FULL_EVERY);
}

/* 2 is encoded against 0, which 1 does not need: 0 must not be retired when 1 is committed.
 * Flushes are slow, so 1 is in flight when 2 begins. */
static void what_is_on_its_way_is_spared(void)
{
    cairn_session *s = open_session("keep_last=1", "bandwidth=1M");

    take(s, "spare", 0, 0);
    take(s, "spare", 1, 0);
    OK(cairn_wait(s, "spare", 0, CAIRN_PERSISTENT, 60000));
    take(s, "spare", 2, 0);
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    OK(cairn_close(s));
    s = open_session(NULL, NULL);
    compare(s, "spare", 2, 0);
    OK(cairn_close(s));
}

/* Each name has versions of its own. */
static void names_are_apart(void)
{
    cairn_session *s = open_session(NULL, NULL);

    take_and_wait(s, "x", 0, 0);
    take_and_wait(s, "y", 0, 500);
    REQUIRE(!is_small("y", 0));
    take_and_wait(s, "x", 1, 0);
    take_and_wait(s, "y", 1, 500);
    REQUIRE(is_small("x", 1) && is_small("y", 1));
    compare(s, "x", 1, 0);
    compare(s, "y", 1, 500);
    OK(cairn_close(s));
}

/* The sizes above hold only for noise. The writer thread examines a short chunk closely and
 * applies the result to the long chunks that follow: it must find nothing. */
static void data_is_noise(void)
{
    cairn_session *s = open_session("encode_threads=1", NULL);

    take_and_wait(s, "short", 0, WORDS - 7000);
    take_and_wait(s, "long", 0, 0);
    REQUIRE(!is_small("long", 0));
    OK(cairn_close(s));
}

int main(int argc, char **argv)
{
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(is_slow());
    shared_dir(dir, sizeof(dir));
    data_is_noise();
    one_after_the_other();
    what_changes_is_full();
    without_room_all_are_full();
    nothing_stalls();
    retention_keeps_what_is_needed();
    what_is_on_its_way_is_spared();
    names_are_apart();
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
