/* SPDX-License-Identifier: BSD-3-Clause */
/* How long protection by other nodes takes, with a virtual node for each rank.
 *
 *     protected   time from the end of the capture, on all ranks, to the level `protected`.
 *                 limit: each rank copies the bytes that it must fetch (memcpy) and makes its parity of
 *                 them with ISA-L alone, all ranks at the same time, between warm buffers
 *     capture     time of cairn_checkpoint; limit: in a session without protection
 *     slowdown    a loop that computes, on as many ranks as there are cores, from the capture to the
 *                 level; limit: the same loop with nothing beside it. thread: the loop beside a thread
 *                 of Cairn's priority that does the work of the first limit
 *     memory      bytes of parity; limit: what the scheme's arithmetic says
 *
 * The data of the last version is read back and compared. The script bench/protect starts it, makes the
 * directories and removes them, and measures the rebuild of a lost node with protect_rebuild.c. */
#include "protect.h"

#include <glob.h>
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairn/cairn_mpi.h"

#define UNITS 100
#define NICE  10 /* as the default of Cairn's threads */
#define USAGE "protect [--leave] --scheme S [--mib SIZE] [--rounds N] --disk DIR --shm DIR"

static const char *const protected_methods[] = {"limit", "cairn"};
static const char *const capture_methods[] = {"unprotected", "cairn"};
static const char *const slowdown_methods[] = {"limit", "cairn", "thread"};

struct bench {
    int rank, ranks, computes;
    int leaves; /* die when the first version is protected */
    const char *scheme, *disk, *shm;
    uint64_t bytes; /* of each rank */
    size_t rounds;
    unsigned char *src;
    struct plain_parity plain;
    cairn_session *with, *without;
    int64_t version;
    double sum; /* of the computing loop: not to be optimised away */
    atomic_int is_made;
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "protect: %s: %s\n", what, why);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

/* The slowest rank. */
static double slowest(double seconds)
{
    (void)MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

/* Each version has other data in each page. */
static void stamp(struct bench *b, int64_t version)
{
    uint64_t at;

    for (at = 0; at + sizeof(at) <= b->bytes; at += 4096) {
        uint64_t word = at * 31 + (uint64_t)version * 1000003 + (uint64_t)b->rank;

        memcpy(b->src + at, &word, sizeof(word));
    }
}

/* The methods. ----------------------------------------------------------------------------------- */

static double run_limit(struct bench *b)
{
    double start;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    plain_parity_make(&b->plain, b->src);
    return slowest(bench_now() - start);
}

static double capture(struct bench *b, cairn_session *s)
{
    double start;

    stamp(b, ++b->version);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    check(cairn_checkpoint(s, "bench", b->version, NULL), "checkpoint");
    return slowest(bench_now() - start);
}

/* Returns the time to the level; the time of the capture in *ret_capture. */
static double run_cairn(struct bench *b, double *ret_capture)
{
    struct cairn_stats st = {.size = sizeof(st)};
    double start;

    *ret_capture = capture(b, b->with);
    start = bench_now(); /* all ranks have captured */
    check(cairn_wait(b->with, "bench", b->version, CAIRN_PROTECTED, CAIRN_WAIT_CONFIG),
          "protection");
    start = slowest(bench_now() - start);
    check(cairn_stats(b->with, "bench", b->version, &st), "statistics");
    if ((st.levels & CAIRN_LEVEL_BIT(CAIRN_PERSISTENT)) != 0)
        die("protection", "the version went to the file system");
    return start;
}

/* The loop of an application. -------------------------------------------------------------------- */

/* About a millisecond. */
static void compute(struct bench *b)
{
    double x = b->sum, y = 0.5;
    int i;

    for (i = 0; i < 400000; i++) {
        x = x * 0.999999 + y;
        y = y * 0.999998 + 1e-9 * x;
    }
    b->sum = x + y;
}

static void *plain_thread(void *arg)
{
    struct bench *b = arg;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    plain_parity_make(&b->plain, b->src);
    atomic_store(&b->is_made, 1);
    return NULL;
}

static int is_protected(struct bench *b)
{
    int is_there = 0;

    check(cairn_test(b->with, "bench", b->version, CAIRN_PROTECTED, &is_there), "protection");
    return is_there;
}

/* Seconds of UNITS units beside the method. */
static double run_loop(struct bench *b, size_t method)
{
    double start, seconds;
    uint64_t units = 0;
    pthread_t thread;

    atomic_store(&b->is_made, 0);
    if (method == 1)
        (void)capture(b, b->with);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (method == 2 && pthread_create(&thread, NULL, plain_thread, b) != 0)
        die("thread", "cannot be started");
    start = bench_now();
    do {
        if (b->computes)
            compute(b);
        else
            (void)usleep(1000);
        units++;
        seconds = bench_now() - start;
    } while (method == 0   ? units < UNITS
             : method == 1 ? !is_protected(b)
                           : !atomic_load(&b->is_made));
    if (method == 2)
        (void)pthread_join(thread, NULL);
    seconds = b->computes ? seconds / (double)units * UNITS : 0;
    (void)MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return seconds;
}

/* Sessions. -------------------------------------------------------------------------------------- */

static cairn_session *open_session(struct bench *b, const char *name, const char *scheme)
{
    char persistent[600], arena[64], shm[600], run[600], protect[64], set[64];
    const char *settings[] = {persistent,
                              arena,
                              shm,
                              run,
                              protect,
                              set,
                              "persistent_every=0",
                              "fresh=on",
                              "ranks_per_node=1",
                              "failure_domain=node",
                              "keep_last=1",
                              NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/%s", b->disk, name);
    (void)snprintf(arena, sizeof(arena), "arena_bytes=%" PRIu64,
                   3 * (b->bytes + ((uint64_t)1 << 20)));
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s/%s", b->shm, name);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->disk);
    (void)snprintf(protect, sizeof(protect), "protect=%s", scheme);
    (void)snprintf(set, sizeof(set), "protect_set=%d", b->ranks);
    check(cairn_open_mpi(MPI_COMM_WORLD, &options, &s), "open");
    check(cairn_protect(s, "data", b->src, CAIRN_BYTES, b->bytes), "protect");
    return s;
}

/* The newest version of the protected session, read back by another one. */
static void verify(struct bench *b)
{
    unsigned char *back = malloc(b->bytes);
    int64_t version;
    cairn_session *s;

    if (back == NULL)
        die("memory", "there is not enough");
    s = open_session(b, "with", b->scheme);
    check(cairn_protect(s, "data", back, CAIRN_BYTES, b->bytes), "protect");
    check(cairn_restart(s, "bench", NULL, &version), "restart");
    stamp(b, version);
    if (version != b->version || memcmp(back, b->src, b->bytes) != 0)
        die("verification", "what was read back differs from what was captured");
    check(cairn_close(s), "close");
    free(back);
}

/* Reports. --------------------------------------------------------------------------------------- */

static void case_init(const struct bench *b, struct bench_case *c, char *name, size_t size,
                      const char *what, const char *const *methods, size_t nmethods)
{
    (void)snprintf(name, size, "%s, %d nodes, %" PRIu64 " MiB: %s", b->scheme, b->ranks,
                   b->bytes >> 20, what);
    *c = (struct bench_case){.bench = "protect",
                             .name = name,
                             .bytes = b->bytes * (uint64_t)b->ranks,
                             .methods = methods,
                             .nmethods = nmethods,
                             .rounds = b->rounds};
    if (bench_case_init(c) < 0)
        die("memory", "there is not enough");
}

static void report(const struct bench *b, struct bench_case *c)
{
    if (b->rank == 0) {
        bench_header(c);
        if (bench_report(c) < 0)
            die("standard output", "cannot be written");
    }
    bench_case_fini(c);
}

/* Bytes of the parity of all nodes, of the only version. */
static void report_memory(const struct bench *b)
{
    uint64_t wanted = plain_parity_bytes(&b->plain) * (uint64_t)b->ranks;
    uint64_t got = 0;
    char path[600];
    struct stat st;
    glob_t g;
    size_t i;

    if (b->rank != 0)
        return;
    (void)snprintf(path, sizeof(path), "%s/with/cairn-*/*/parity-*", b->shm);
    if (glob(path, 0, NULL, &g) != 0 || g.gl_pathc != (size_t)b->ranks)
        die(path, "is not there once for each node");
    for (i = 0; i < g.gl_pathc; i++)
        got += stat(g.gl_pathv[i], &st) == 0 ? (uint64_t)st.st_size : 0;
    globfree(&g);
    (void)fprintf(
        stderr, "%s, %d nodes: parity is %.1f %% of the data; by its arithmetic %.1f %%\n",
        b->scheme, b->ranks, 100.0 * (double)got / (double)(b->bytes * (uint64_t)b->ranks),
        100.0 * (double)wanted / (double)(b->bytes * (uint64_t)b->ranks));
    (void)printf(
        "{\"bench\":\"protect\",\"case\":\"%s, %d nodes, %" PRIu64
        " MiB: memory\",\"method\":\"cairn\",\"bytes\":%" PRIu64
        ",\"n\":1,\"median_s\":null,\"min_s\":null,\"max_s\":null,\"ratio_to_limit\":%.4f}\n",
        b->scheme, b->ranks, b->bytes >> 20, got, (double)wanted / (double)got);
}

static void run_rounds(struct bench *b, struct bench_case *protect, struct bench_case *captured,
                       struct bench_case *slow)
{
    double capture_s;
    size_t round, i;

    (void)run_limit(b);
    (void)capture(b, b->without);
    (void)run_cairn(b, &capture_s); /* warms up */
    for (round = 0; round < b->rounds; round++) {
        for (i = 0; i < 2; i++) {
            size_t m = bench_turn(protect, round, i);

            if (m == 0) {
                *bench_time(protect, round, 0) = run_limit(b);
                *bench_time(captured, round, 0) = capture(b, b->without);
            } else {
                *bench_time(protect, round, 1) = run_cairn(b, bench_time(captured, round, 1));
            }
        }
        for (i = 0; i < slow->nmethods; i++) {
            size_t m = bench_turn(slow, round, i);

            *bench_time(slow, round, m) = run_loop(b, m);
        }
    }
}

static void run_all(struct bench *b)
{
    struct bench_case protect, captured, slow;
    char protect_name[96], capture_name[96], slow_name[96];
    double ignored;

    case_init(b, &protect, protect_name, sizeof(protect_name), "protected", protected_methods, 2);
    case_init(b, &captured, capture_name, sizeof(capture_name), "capture", capture_methods, 2);
    case_init(b, &slow, slow_name, sizeof(slow_name), "slowdown", slowdown_methods, 3);
    b->without = open_session(b, "without", "none");
    b->with = open_session(b, "with", b->scheme);
    run_rounds(b, &protect, &captured, &slow);
    (void)run_cairn(b, &ignored);
    (void)run_limit(b);
    if (!plain_parity_is_right(&b->plain, b->src))
        die("limit", "its parity is wrong");
    check(cairn_close(b->with), "close");
    check(cairn_close(b->without), "close");
    verify(b);
    report(b, &protect);
    report(b, &captured);
    report(b, &slow);
}

/* The state that a lost node is rebuilt from: all processes die with the first version protected. */
static void leave(struct bench *b)
{
    double ignored;

    b->with = open_session(b, "with", b->scheme);
    (void)run_cairn(b, &ignored);
    report_memory(b);
    (void)fflush(stdout);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)raise(SIGKILL);
}

static void parse(int argc, char **argv, struct bench *b)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--leave") == 0)
            b->leaves = 1;
        else if (strcmp(argv[i], "--scheme") == 0 && i + 1 < argc)
            b->scheme = argv[++i];
        else if (strcmp(argv[i], "--disk") == 0 && i + 1 < argc)
            b->disk = argv[++i];
        else if (strcmp(argv[i], "--shm") == 0 && i + 1 < argc)
            b->shm = argv[++i];
        else if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc)
            b->bytes = (uint64_t)atoll(argv[++i]) << 20;
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            b->rounds = (size_t)atoll(argv[++i]);
        else
            die("usage", USAGE);
    }
    if (b->scheme == NULL || b->disk == NULL || b->shm == NULL || b->bytes == 0 || b->rounds == 0)
        die("usage", USAGE);
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = (uint64_t)64 << 20, .rounds = 15};
    int provided;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    parse(argc, argv, &b);
    b.computes = b.rank < sysconf(_SC_NPROCESSORS_ONLN);
    b.src = malloc(b.bytes);
    if (b.src == NULL || plain_parity_init(&b.plain, b.scheme, (uint32_t)b.ranks, b.bytes) < 0)
        die(b.scheme, "it does not fit so many nodes, or there is not enough memory");
    memset(b.src, 0x11 * (b.rank + 1), b.bytes);
    if (b.leaves)
        leave(&b);
    else
        run_all(&b);
    plain_parity_fini(&b.plain);
    free(b.src);
    (void)MPI_Finalize();
    return b.sum < 0; /* never */
}
