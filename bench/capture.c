/* SPDX-License-Identifier: BSD-3-Clause */
/* How long an application waits for a checkpoint, against the minimum: one memcpy of the same
 * bytes between warm buffers. For comparison, the cost of a runtime that writes each checkpoint
 * to a new file in memory. All ranks run each method at the same time; the slowest rank counts.
 * Between two runs of cairn_checkpoint the benchmark waits for the flush, so that it disturbs
 * none. If there is space the flush goes to memory, too, since its speed is not measured here.
 *
 * Started by the script bench/capture, which makes the directories and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "cairn/cairn_mpi.h"
#include "common.h"

#define NAME       "bench"
#define KIB        ((uint64_t)1 << 10)
#define MIB        ((uint64_t)1 << 20)
#define GIB        ((uint64_t)1 << 30)
#define PAGE       4096
#define READ_BLOCK MIB

#define USAGE      "capture [--quick] [--mib SIZE] [--rounds N] --disk DIR --shm DIR"

enum method { MEMCPY, CHECKPOINT, TMPFS_FILE, NMETHODS };
static const char *const method_names[] = {"memcpy", "cairn_checkpoint", "new tmpfs file"};

static const uint64_t sizes[] = {KIB,      16 * KIB, 256 * KIB, MIB, 4 * MIB,
                                 16 * MIB, 64 * MIB, 256 * MIB, GIB, 2 * GIB};
static const uint64_t quick_sizes[] = {KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB};

struct bench {
    int rank, ranks;
    int is_quick;
    uint64_t only; /* one size and its rounds; 0: the list */
    size_t rounds;
    const char *disk, *shm; /* directories */
    uint64_t bytes;         /* of each rank, in this case */
    int to_disk;            /* the flush, in this case */
    unsigned char *src, *dst;
    cairn_session *session;
    int64_t version; /* the next; retention keeps the highest */
    char file[512];  /* in shm */
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "capture: %s: %s\n", what, why);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

static void check_errno(int64_t r, const char *what)
{
    if (r < 0)
        die(what, strerror(errno));
}

/* The data. ------------------------------------------------------------------------------------ */

/* Each page has another number in each round, so stale bytes are detected. */
static void stamp(struct bench *b, size_t round)
{
    uint64_t at;

    for (at = 0; at + sizeof(at) <= b->bytes; at += PAGE) {
        uint64_t word = at * 31 + round * 1000003 + (uint64_t)b->rank;

        memcpy(b->src + at, &word, sizeof(word));
    }
}

static void compare(const struct bench *b, const void *got, uint64_t at, uint64_t bytes,
                    enum method method)
{
    if (memcmp(b->src + at, got, bytes) != 0)
        die(method_names[method], "what was read back differs from what was written");
}

/* The methods; each returns the seconds of this rank. -------------------------------------------- */

static double run_memcpy(struct bench *b, int is_last)
{
    double start = bench_now();
    double seconds;

    memcpy(b->dst, b->src, b->bytes);
    seconds = bench_now() - start;
    if (is_last)
        compare(b, b->dst, 0, b->bytes, MEMCPY);
    return seconds;
}

static double run_checkpoint(struct bench *b, int is_last)
{
    double start = bench_now();
    double seconds;

    check(cairn_checkpoint(b->session, NAME, b->version, NULL), "checkpoint");
    seconds = bench_now() - start;
    check(cairn_wait(b->session, NAME, b->version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "flush");
    if (is_last) {
        memset(b->dst, 0, b->bytes);
        check(cairn_protect(b->session, "data", b->dst, CAIRN_BYTES, b->bytes), "protect");
        check(cairn_restore(b->session, NAME, b->version, NULL), "restore");
        compare(b, b->dst, 0, b->bytes, CHECKPOINT);
    }
    b->version++;
    return seconds;
}

static void write_all(int fd, const unsigned char *p, uint64_t bytes)
{
    uint64_t at = 0;

    while (at < bytes) {
        ssize_t n = write(fd, p + at, bytes - at);

        check_errno(n, "write a file");
        at += (uint64_t)n;
    }
}

static void compare_file(const struct bench *b)
{
    unsigned char *block = malloc(READ_BLOCK);
    int fd = open(b->file, O_RDONLY | O_CLOEXEC);
    uint64_t at = 0;

    check_errno(fd, "open a file");
    while (block != NULL && at < b->bytes) {
        ssize_t n = read(fd, block, READ_BLOCK);

        if (n <= 0)
            die(b->file, "is too short");
        compare(b, block, at, (uint64_t)n, TMPFS_FILE);
        at += (uint64_t)n;
    }
    (void)close(fd);
    free(block);
}

static double run_file(struct bench *b, int is_last)
{
    double start = bench_now();
    double seconds;
    int fd = open(b->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    check_errno(fd, "create a file");
    write_all(fd, b->src, b->bytes);
    check_errno(close(fd), "close a file");
    seconds = bench_now() - start;
    if (is_last)
        compare_file(b);
    check_errno(unlink(b->file), "remove a file");
    return seconds;
}

static double (*const run_method[])(struct bench *, int) = {run_memcpy, run_checkpoint, run_file};

/* A case. -------------------------------------------------------------------------------------- */

/* Touches the memory: no zero pages, and no page faults later. */
static unsigned char *warm(uint64_t bytes)
{
    unsigned char *p = malloc(bytes);

    if (p == NULL)
        die("memory", "there is not enough");
    memset(p, 0x5a, bytes);
    return p;
}

static void begin(struct bench *b)
{
    const char *where = b->to_disk ? b->disk : b->shm;
    char persistent[600], arena[64], shm[600], run[600];
    const char *settings[] = {persistent, arena, shm, run, "keep_last=1", "fresh=on", NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/persistent-%d", where, b->ranks);
    (void)snprintf(arena, sizeof(arena), "arena_bytes=%" PRIu64, b->bytes + MIB); /* one image */
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->shm);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->disk);
    (void)snprintf(b->file, sizeof(b->file), "%s/file-%d", b->shm, b->rank);
    b->src = warm(b->bytes);
    b->dst = warm(b->bytes);
    check(cairn_open_mpi(MPI_COMM_WORLD, &options, &b->session), "open");
    check(cairn_protect(b->session, "data", b->src, CAIRN_BYTES, b->bytes), "protect");
}

static void end(struct bench *b)
{
    check(cairn_close(b->session), "close");
    free(b->src);
    free(b->dst);
}

static size_t rounds(const struct bench *b)
{
    if (b->rounds > 0)
        return b->rounds;
    if (b->bytes <= MIB)
        return b->is_quick ? 51 : 201;
    if (b->bytes <= 64 * MIB)
        return b->is_quick ? 11 : 21;
    if (b->bytes <= 256 * MIB)
        return b->is_quick ? 5 : 11;
    return 5;
}

static void run_round(struct bench *b, struct bench_case *c, size_t round, int is_last)
{
    size_t i;

    stamp(b, round);
    for (i = 0; i < NMETHODS; i++) {
        size_t m = bench_turn(c, round, i);
        double mine;

        (void)MPI_Barrier(MPI_COMM_WORLD);
        mine = run_method[m](b, is_last);
        (void)MPI_Allreduce(&mine, bench_time(c, round, m), 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
}

static void run_case(struct bench *b, int is_first)
{
    char name[64], size[32];
    struct bench_case c = {.bench = "capture",
                           .name = name,
                           .bytes = b->bytes * (uint64_t)b->ranks,
                           .methods = method_names,
                           .nmethods = NMETHODS,
                           .rounds = rounds(b)};
    size_t i;

    crn_human_bytes(b->bytes, size, sizeof(size));
    (void)snprintf(name, sizeof(name), "%d rank%s, %s", b->ranks, b->ranks > 1 ? "s" : "", size);
    if (bench_case_init(&c) < 0)
        die("memory", "there is not enough");
    begin(b);
    run_round(b, &c, 0, 0); /* warms up; overwritten */
    for (i = 0; i < c.rounds; i++)
        run_round(b, &c, i, i + 1 == c.rounds);
    end(b);
    if (b->rank == 0 && is_first)
        bench_header(&c);
    if (b->rank == 0 && bench_report(&c) < 0)
        die("standard output", "cannot be written");
    bench_case_fini(&c);
}

/* The program. --------------------------------------------------------------------------------- */

static uint64_t available_memory(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    uint64_t kib = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (f != NULL)
        (void)fclose(f);
    return kib * KIB;
}

/* Is there memory for this many times the data of all ranks, plus a gigabyte? The same answer on
 * all ranks. */
static int fits(const struct bench *b, uint64_t times)
{
    int yes = times * b->bytes * (uint64_t)b->ranks + GIB <= available_memory();

    (void)MPI_Bcast(&yes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return yes;
}

static void parse(int argc, char **argv, struct bench *b)
{
    int i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            b->is_quick = 1;
        else if (strcmp(argv[i], "--disk") == 0 && i + 1 < argc)
            b->disk = argv[++i];
        else if (strcmp(argv[i], "--shm") == 0 && i + 1 < argc)
            b->shm = argv[++i];
        else if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc)
            b->only = (uint64_t)atoll(argv[++i]) * MIB;
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            b->rounds = (size_t)atoll(argv[++i]);
        else
            die("usage", USAGE);
    }
    if (b->disk == NULL || b->shm == NULL)
        die("usage", USAGE);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    const uint64_t *list = sizes;
    size_t n = sizeof(sizes) / sizeof(sizes[0]);
    size_t i;
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    parse(argc, argv, &b);
    if (b.is_quick) {
        list = quick_sizes;
        n = sizeof(quick_sizes) / sizeof(quick_sizes[0]);
    }
    if (b.only > 0) {
        list = &b.only;
        n = 1;
    }
    for (i = 0; i < n; i++) {
        b.bytes = list[i];
        b.to_disk = !fits(&b, 6); /* source, copy, arena, file; the version and the one before */
        if (fits(&b, 4))
            run_case(&b, i == 0);
        else if (b.rank == 0)
            (void)fprintf(stderr, "%d ranks, %" PRIu64 " MiB: skipped, not enough memory\n",
                          b.ranks, b.bytes / MIB);
    }
    (void)MPI_Finalize();
    return 0;
}
