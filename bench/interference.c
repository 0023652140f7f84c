/* SPDX-License-Identifier: BSD-3-Clause */
/* How much slower an application runs while its checkpoint is flushed: a loop that computes in
 * registers and one that streams through memory, on one thread, against the same loop on an idle
 * machine. The loop runs in small units from the end of the capture until the flush is durable.
 * A time is that of UNITS of them, so ratio_to_limit is the remaining speed. The case "durable"
 * compares how long the flushes take with the plain thread.
 *
 *     limit-no-flush    nothing is flushed
 *     cairn-default     default settings: no rank waits, so the flush is calm
 *     cairn-full        full speed, as if a rank waited (calm_bandwidth = 1P)
 *     cairn-phases      the loop is announced as the application's own I/O: the flush waits for it
 *     posix-thread      a thread of the same priority writes the same bytes with pwrite and fsync: the
 *                       cost of any background write on this machine
 *
 * Started by the script bench/interference, which makes the directories and removes them. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cairn/cairn.h"
#include "common.h"

#define NAME   "bench"
#define MIB    ((uint64_t)1 << 20)
#define STREAM (32 * MIB) /* each of three arrays: past the caches, together */
#define UNITS  100
#define NICE   10 /* as the default of Cairn's threads */
#define USAGE                                                                                      \
    "interference [--quick] [--loops NAMES] [--mib SIZE] [--rounds N] --disk DIR --shm DIR"

enum method { NO_FLUSH, DEFAULT, FULL, PHASES, THREAD, NMETHODS };
static const char *const method_names[] = {"limit-no-flush", "cairn-default", "cairn-full",
                                           "cairn-phases", "posix-thread"};

/* Methods whose flush runs beside the loop. */
static const enum method flushing[] = {THREAD, DEFAULT, FULL};
static const char *const flushing_names[] = {"posix-thread", "cairn-default", "cairn-full"};
#define NFLUSHING (sizeof(flushing) / sizeof(flushing[0]))

struct bench {
    const char *disk, *shm;
    const char *where; /* of the two, now */
    const char *loops; /* names; NULL: all */
    atomic_int has_written;
    uint64_t bytes; /* flushed */
    size_t rounds;
    double alone_s; /* how long the loop runs without a flush */
    unsigned char *src;
    double *a, *b, *c;                /* STREAM bytes each */
    uint64_t at;                      /* of the streaming loop */
    double sum;                       /* of the computing loop: not to be optimised away */
    cairn_session *session[NMETHODS]; /* NULL for those without Cairn */
    int64_t version;
    double flush_s; /* of the last method that flushes */
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "interference: %s: %s\n", what, why);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

/* The loops: a unit takes about a millisecond. ---------------------------------------------------- */

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

static void stream(struct bench *b)
{
    const uint64_t n = STREAM / sizeof(double);
    const uint64_t step = n / 4;
    uint64_t i;

    for (i = b->at; i < b->at + step; i++)
        b->a[i] = b->b[i] + 3.0 * b->c[i];
    b->at = (b->at + step) % n;
}

struct loop {
    const char *name;
    void (*unit)(struct bench *b);
};
static const struct loop loops[] = {{"compute", compute}, {"stream", stream}};
#define NCASES (2 * sizeof(loops) / sizeof(loops[0])) /* each to disk and to memory */

/* Seconds of UNITS units, measured for this long. */
static double run_alone(struct bench *b, const struct loop *loop)
{
    double start = bench_now();
    double now;
    uint64_t units = 0;

    do {
        loop->unit(b);
        units++;
        now = bench_now();
    } while (now - start < b->alone_s);
    return (now - start) / (double)units * UNITS;
}

/* The same, until the flush is durable. */
static double run_beside(struct bench *b, const struct loop *loop, cairn_session *s)
{
    double start, now;
    uint64_t units = 0;
    int is_there = 0;

    check(cairn_checkpoint(s, NAME, b->version, NULL), "checkpoint");
    start = bench_now();
    do {
        loop->unit(b);
        units++;
        now = bench_now();
        check(cairn_test(s, NAME, b->version, CAIRN_PERSISTENT, &is_there), "flush");
    } while (!is_there);
    b->flush_s = now - start;
    return (now - start) / (double)units * UNITS;
}

static double run_announced(struct bench *b, const struct loop *loop, cairn_session *s)
{
    double seconds;
    int is_there = 0;

    check(cairn_phase(s, CAIRN_PHASE_IO), "phase");
    check(cairn_checkpoint(s, NAME, b->version, NULL), "checkpoint");
    seconds = run_alone(b, loop);
    check(cairn_test(s, NAME, b->version, CAIRN_PERSISTENT, &is_there), "flush");
    if (is_there)
        die("phases", "the flush did not wait");
    check(cairn_phase(s, CAIRN_PHASE_COMPUTE), "phase");
    check(cairn_wait(s, NAME, b->version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "flush");
    return seconds;
}

static void *write_plainly(void *arg)
{
    struct bench *b = arg;
    char path[600], last[600];
    uint64_t at;
    int fd;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    (void)snprintf(path, sizeof(path), "%s/plain-%" PRId64, b->where, b->version);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    for (at = 0; fd >= 0 && at < b->bytes; at += MIB)
        if (pwrite(fd, b->src + at, MIB, (off_t)at) != (ssize_t)MIB)
            die(path, "cannot be written");
    if (fd < 0 || fsync(fd) != 0 || close(fd) != 0)
        die(path, "cannot be written");
    (void)snprintf(last, sizeof(last), "%s/plain",
                   b->where); /* as a flush does: the old file is removed */
    if (rename(path, last) != 0)
        die(path, "cannot be renamed");
    atomic_store(&b->has_written, 1);
    return NULL;
}

static double run_beside_thread(struct bench *b, const struct loop *loop)
{
    double start, now;
    uint64_t units = 0;
    pthread_t thread;

    atomic_store(&b->has_written, 0);
    if (pthread_create(&thread, NULL, write_plainly, b) != 0)
        die("thread", "cannot be started");
    start = bench_now();
    do {
        loop->unit(b);
        units++;
        now = bench_now();
    } while (!atomic_load(&b->has_written));
    (void)pthread_join(thread, NULL);
    b->flush_s = now - start;
    return (now - start) / (double)units * UNITS;
}

static double run_method(struct bench *b, const struct loop *loop, size_t method)
{
    b->version++;
    memcpy(b->src, &b->version, sizeof(b->version));
    memcpy(b->src + b->bytes / 2, &b->version, sizeof(b->version));
    switch (method) {
    case NO_FLUSH:
        return run_alone(b, loop);
    case PHASES:
        return run_announced(b, loop, b->session[method]);
    case THREAD:
        return run_beside_thread(b, loop);
    default:
        return run_beside(b, loop, b->session[method]);
    }
}

/* The last flushed version, read back by a new session. */
static void verify(const struct bench *b, const char *where, size_t i)
{
    char persistent[600], shm[600], run[600];
    const char *settings[] = {persistent, shm, run, NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};
    unsigned char *back = malloc(b->bytes);
    int64_t version;
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/%s", where, method_names[i]);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->shm);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->disk);
    if (back == NULL)
        die("memory", "there is not enough");
    check(cairn_open(&options, &s), "open");
    check(cairn_protect(s, "data", back, CAIRN_BYTES, b->bytes), "protect");
    check(cairn_restart(s, NAME, NULL, &version), "restart");
    memcpy(b->src, &version, sizeof(version)); /* the session's last one */
    memcpy(b->src + b->bytes / 2, &version, sizeof(version));
    if (memcmp(back, b->src, b->bytes) != 0)
        die("verification", "what was read back differs from what was written");
    check(cairn_close(s), "close");
    free(back);
}

/* A case. ---------------------------------------------------------------------------------------- */

/* Each method has its own session, like an application: the time between its checkpoints counts. */
static void begin(struct bench *b, const char *where, size_t i)
{
    char persistent[600], arena[64], shm[600], run[600];
    const char *settings[] = {persistent,
                              arena,
                              shm,
                              run,
                              "keep_last=1",
                              "fresh=on",
                              "phase_patience=1h",
                              i == FULL ? "calm_bandwidth=1P" : NULL,
                              NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/%s", where, method_names[i]);
    (void)snprintf(arena, sizeof(arena), "arena_bytes=%" PRIu64, b->bytes + MIB);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->shm);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->disk);
    check(cairn_open(&options, &b->session[i]), "open");
    check(cairn_protect(b->session[i], "data", b->src, CAIRN_BYTES, b->bytes), "protect");
}

static int has_session(size_t method)
{
    return method != NO_FLUSH && method != THREAD;
}

static void run_rounds(struct bench *b, const struct loop *loop, struct bench_case *c,
                       struct bench_case *flush)
{
    size_t round, i, f;

    for (i = 0; i < NMETHODS; i++)
        (void)run_method(b, loop, i); /* warms up */
    for (round = 0; round < c->rounds; round++)
        for (i = 0; i < NMETHODS; i++) {
            size_t m = bench_turn(c, round, i);

            *bench_time(c, round, m) = run_method(b, loop, m);
            for (f = 0; f < NFLUSHING; f++)
                if (flushing[f] == m)
                    *bench_time(flush, round, f) = b->flush_s;
        }
}

static void report(struct bench_case *c, int has_header)
{
    if (has_header)
        bench_header(c);
    if (bench_report(c) < 0)
        die("standard output", "cannot be written");
    bench_case_fini(c);
}

/* A loop beside the flushes, and the flushes beside the loop. */
struct pair {
    struct bench_case loop, flush;
    char loop_name[64], flush_name[64];
};

static void pair_init(struct pair *p, const struct bench *b, const struct loop *loop, int to_disk)
{
    p->loop = p->flush = (struct bench_case){.bench = "interference",
                                             .name = p->loop_name,
                                             .bytes = b->bytes,
                                             .methods = method_names,
                                             .nmethods = NMETHODS,
                                             .rounds = b->rounds};
    p->flush.name = p->flush_name;
    p->flush.methods = flushing_names;
    p->flush.nmethods = NFLUSHING;
    (void)snprintf(p->loop_name, sizeof(p->loop_name), "%s, to %s", loop->name,
                   to_disk ? "disk" : "memory");
    (void)snprintf(p->flush_name, sizeof(p->flush_name), "%s, to %s: durable", loop->name,
                   to_disk ? "disk" : "memory");
    if (bench_case_init(&p->loop) < 0 || bench_case_init(&p->flush) < 0)
        die("memory", "there is not enough");
}

static void run_pair(struct bench *b, const struct loop *loop, int to_disk, struct pair *p)
{
    size_t i;

    pair_init(p, b, loop, to_disk);
    b->where = to_disk ? b->disk : b->shm;
    for (i = 0; i < NMETHODS; i++)
        if (has_session(i))
            begin(b, b->where, i);
    run_rounds(b, loop, &p->loop, &p->flush);
    for (i = 0; i < NMETHODS; i++)
        if (has_session(i))
            check(cairn_close(b->session[i]), "close");
    for (i = 0; i < NMETHODS; i++)
        if (has_session(i))
            verify(b, b->where, i);
}

/* The program. ----------------------------------------------------------------------------------- */

static void *warm(uint64_t bytes)
{
    void *p = malloc(bytes);

    if (p == NULL)
        die("memory", "there is not enough");
    memset(p, 0x11, bytes);
    return p;
}

static void parse(int argc, char **argv, struct bench *b)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            b->bytes = 64 * MIB;
            b->rounds = 5;
            b->alone_s = 0.25;
        } else if (strcmp(argv[i], "--disk") == 0 && i + 1 < argc) {
            b->disk = argv[++i];
        } else if (strcmp(argv[i], "--shm") == 0 && i + 1 < argc) {
            b->shm = argv[++i];
        } else if (strcmp(argv[i], "--loops") == 0 && i + 1 < argc) {
            b->loops = argv[++i];
        } else if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc) {
            b->bytes = (uint64_t)atoll(argv[++i]) * MIB;
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            b->rounds = (size_t)atoll(argv[++i]);
        } else {
            die("usage", USAGE);
        }
    }
    if (b->disk == NULL || b->shm == NULL || b->bytes == 0 || b->rounds == 0)
        die("usage", USAGE);
}

int main(int argc, char **argv)
{
    struct bench b = {.bytes = 256 * MIB, .rounds = 31, .alone_s = 0.4};
    static struct pair pairs[NCASES];
    size_t n = 0;
    size_t i;

    parse(argc, argv, &b);
    b.src = warm(b.bytes);
    b.a = warm(STREAM);
    b.b = warm(STREAM);
    b.c = warm(STREAM);
    for (i = 0; i < NCASES; i++) {
        if (!bench_is_named(b.loops, loops[i / 2].name))
            continue;
        run_pair(&b, &loops[i / 2], i % 2 == 0, &pairs[n]);
        report(&pairs[n].loop, n == 0);
        n++;
    }
    for (i = 0; i < n; i++)
        report(&pairs[i].flush, i == 0);
    free(b.src);
    free(b.a);
    free(b.b);
    free(b.c);
    return b.sum < 0; /* never */
}
