/* SPDX-License-Identifier: BSD-3-Clause */
/* worker STEPS LOG [WORDS [go-on]]: a job to be killed. It restarts from the newest version,
 * checks every byte of it, and takes a checkpoint of WORDS words per rank in each step. It
 * appends to LOG "captured V" and "persistent V" when all ranks have been told so, "restarted V"
 * at the start, "done" at the end. A later run must never find less than that.
 *
 * Each rank appends to LOG.told its number, the version and the reason when a version failed.
 * Then the job ends; with go-on it continues, and each rank also appends to LOG.waits its number
 * and the version whose end it is about to wait for, with Cairn and without MPI. With
 * CAIRN_TEST_ALIKE versions differ little, and each is waited for: the next may be encoded
 * against it.
 *
 * If a rank hangs in the restart, each of the others appends the reason to LOG.told, closes its
 * session, appends a line to LOG.closed and waits to be ended. With CAIRN_TEST_ONE_WAITS only
 * rank 0 waits in Cairn, and the others wait for it in MPI. With CAIRN_TEST_LIMIT no rank takes
 * a version above the number in that file. With CAIRN_TEST_ONLY_CAPTURED it waits for no version
 * to be persistent; with CAIRN_TEST_PROTECTED it waits for each to be protected, and appends "protected
 * V"; with CAIRN_TEST_CAPTURED a version is "captured" when it is local. With
 * CAIRN_TEST_STOP_AT each rank stops itself (SIGSTOP) before it takes that version, and appends a
 * line to LOG.took afterwards.
 *
 * With CAIRN_TEST_ARRAY the words are a block of a global array of WORDS words; ranks have blocks of
 * different sizes, and another number of ranks may restart it.
 *
 * Exit status 3: a checkpoint failed and was reported; 1: a wrong byte or a broken promise. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "mpi_test.h"

/* Also built without MPI: one process, no launcher, fast enough to be killed hundreds of times. */
#ifdef CRN_TEST_SINGLE
#define START(argc, argv)
#define END()
#define OPEN(ret) cairn_open(NULL, ret)
#else
#define START(argc, argv)                                                                          \
    do {                                                                                           \
        int provided;                                                                              \
        (void)MPI_Init_thread(&(argc), &(argv), MPI_THREAD_MULTIPLE, &provided);                   \
        (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);                                                \
    } while (0)
#define END()     (void)MPI_Finalize()
#define OPEN(ret) cairn_open_mpi(MPI_COMM_WORLD, NULL, ret)
#endif

static int rank;
static const char *log_path;

static void append(const char *path, const char *line)
{
    ssize_t n = (ssize_t)strlen(line);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

    REQUIRE(fd >= 0 && write(fd, line, (size_t)n) == n && close(fd) == 0);
}

static void say(const char *what, long long v)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "%s %lld\n", what, v);
    if (rank == 0)
        append(log_path, line);
}

/* Each rank for itself: the others may be unreachable. */
static void say_alone(const char *file, long long v, const char *text)
{
    char path[512], line[1024];

    (void)snprintf(path, sizeof(path), "%s.%s", log_path, file);
    (void)snprintf(line, sizeof(line), "%d %lld %s\n", rank, v, text);
    append(path, line);
}

/* Ranks agree that all of them were told. */
static int all(int yes)
{
    int result = yes;

#ifndef CRN_TEST_SINGLE
    (void)MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
#endif
    return result;
}

/* What the words hold in a version. */
static int is_alike, is_array;
static uint64_t first_word; /* of this rank's block */

static void fill_version(uint64_t *a, uint64_t n, int64_t v)
{
    uint64_t i;

    fill(a, n, is_alike ? 0 : (uint64_t)v, (uint64_t)rank);
    for (i = 0; is_alike && i < n; i++)
        a[i] += (uint64_t)v;
    for (i = 0; is_array && i < n; i++)
        a[i] = pattern((uint64_t)v, 0, first_word + i);
}

static int holds_version(uint64_t *a, uint64_t n, int64_t v)
{
    uint64_t i;

    for (i = 0; is_array && i < n; i++)
        if (a[i] != pattern((uint64_t)v, 0, first_word + i))
            return 0;
    if (is_array)
        return 1;
    for (i = 0; is_alike && i < n; i++)
        a[i] -= (uint64_t)v;
    return holds(a, n, is_alike ? 0 : (uint64_t)v, (uint64_t)rank);
}

/* A rank hangs, so MPI is unusable. The test ends the job. */
static void cut_off(cairn_session *s)
{
    say_alone("told", -1, cairn_last_error());
    (void)!cairn_close(s);
    say_alone("closed", -1, "");
    (void)alarm(100);
    for (;;)
        (void)pause();
}

/* The test limits the job's progress, however fast the machine is. */
static void await_limit(int64_t v)
{
    const char *path = getenv("CAIRN_TEST_LIMIT");
    long long limit = -1;
    FILE *f;

    while (path != NULL) {
        f = fopen(path, "r");
        REQUIRE(f != NULL && fscanf(f, "%lld", &limit) == 1 && fclose(f) == 0);
        if (v <= limit)
            break;
        (void)usleep(2000);
    }
}

/* The test lets the ranks continue, in any order. */
static cairn_err take(cairn_session *s, int64_t v)
{
    const char *stop_at = getenv("CAIRN_TEST_STOP_AT");
    int stops = stop_at != NULL && v == strtoll(stop_at, NULL, 10);
    cairn_err rc;

    if (stops)
        (void)raise(SIGSTOP);
    rc = cairn_checkpoint(s, "work", v, NULL);
    if (stops && rc == CAIRN_OK)
        say_alone("took", (long long)v, "");
    return rc;
}

/* This rank's block of the array: returns its words. Later ranks have larger ones. */
static uint64_t share_of(uint64_t words)
{
    uint64_t n = 1;
    uint64_t r = (uint64_t)rank;

#ifndef CRN_TEST_SINGLE
    int size;

    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    n = (uint64_t)size;
#endif
    first_word = words * r * r / (n * n);
    return words * (r + 1) * (r + 1) / (n * n) - first_word;
}

/* all: words of all ranks. */
static void protect_words(cairn_session *s, uint64_t *a, uint64_t words, uint64_t all_words)
{
    struct cairn_array block = {.size = sizeof(block),
                                .type = CAIRN_U64,
                                .ndims = 1,
                                .dims = {words},
                                .global_dims = {all_words},
                                .offset = {first_word}};

    if (is_array)
        OK(cairn_protect_array(s, "a", a, &block));
    else
        OK(cairn_protect(s, "a", a, CAIRN_U64, words));
}

int main(int argc, char **argv)
{
    uint64_t words = argc > 3 ? strtoull(argv[3], NULL, 10) : 20000;
    uint64_t all_words = words;
    uint64_t *a = malloc(words * sizeof(*a));
    uint64_t small[3] = {0};
    cairn_session *s;
    int64_t v = -1;
    long steps;
    int goes_on = argc > 4;
    int is_protected = getenv("CAIRN_TEST_PROTECTED") != NULL;
    int status = 0;
    int waits, is_awaited, is_local;
    cairn_err rc;

    START(argc, argv);
    REQUIRE(argc >= 3 && a != NULL);
    steps = strtol(argv[1], NULL, 10);
    log_path = argv[2];
    is_array = getenv("CAIRN_TEST_ARRAY") != NULL;
    if (is_array)
        words = share_of(words);
    is_alike = getenv("CAIRN_TEST_ALIKE") != NULL;
    is_local = getenv("CAIRN_TEST_CAPTURED") != NULL;
    waits = rank == 0 || getenv("CAIRN_TEST_ONE_WAITS") == NULL;
    rc = OPEN(&s);
    if (rc != CAIRN_OK) {
        (void)fprintf(stderr, "worker: %s\n", cairn_last_error());
        END();
        free(a);
        return 3;
    }
    protect_words(s, a, words, all_words);
    if (!is_array)
        OK(cairn_protect(s, "small", small, CAIRN_U64, 3));
    rc = cairn_restart(s, "work", NULL, &v);
    if (rc == CAIRN_EPEER)
        cut_off(s);
    REQUIRE(rc == CAIRN_OK || v == -1);
    if (rc == CAIRN_OK) {
        REQUIRE(holds_version(a, words, v));
        REQUIRE(is_array || holds(small, 3, (uint64_t)v + 7, (uint64_t)rank));
    } else if (rc != CAIRN_ENOENT) {
        (void)fprintf(stderr, "worker: %s\n", cairn_last_error());
        status = 3;
    }
    say("restarted", v);
    for (v++; v < steps && all(status == 0 || goes_on); v++) {
        await_limit(v);
        fill_version(a, words, v);
        fill(small, 3, (uint64_t)v + 7, (uint64_t)rank);
        rc = take(s, v);
        if (rc == CAIRN_OK && waits)
            rc = cairn_wait(s, "work", v, is_local ? CAIRN_LOCAL : CAIRN_CAPTURED, 60000);
        if (all(rc == CAIRN_OK))
            say("captured", (long long)v);
        if (is_protected && rc == CAIRN_OK)
            rc = cairn_wait(s, "work", v, CAIRN_PROTECTED, 60000);
        if (is_protected && all(rc == CAIRN_OK))
            say("protected", (long long)v);
        if (goes_on && v % 2 == 1)
            say_alone("waits", (long long)v, "");
        is_awaited = v % 2 == 1 && getenv("CAIRN_TEST_ONLY_CAPTURED") == NULL;
        if (rc == CAIRN_OK && waits && (is_awaited || is_alike))
            rc = cairn_wait(s, "work", v, CAIRN_PERSISTENT, 60000);
        if (rc != CAIRN_OK) {
            say_alone("told", (long long)v, cairn_last_error());
            (void)fprintf(stderr, "worker: %s\n", cairn_last_error());
            status = 3;
        }
        if (all(rc == CAIRN_OK && is_awaited))
            say("persistent", (long long)v);
    }
    if (cairn_close(s) != CAIRN_OK)
        status = 3;
    if (all(status == 0))
        say("done", (long long)steps);
    END();
    free(a);
    return status;
}
