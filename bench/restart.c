/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast N ranks on C virtual nodes restore a checkpoint from K files. Each round runs all
 * methods on the same data, beginning with another one each time; the slowest rank counts:
 *
 *   limit-pread          plain pread of Cairn's data files by as many threads per node as Cairn has,
 *                        16 MiB at a time, each byte once, into a reused buffer: no checksum, and no
 *                        data reaches the ranks
 *   cairn-restart        cairn_restart of a new session (without opening it): newest version found,
 *                        verified, and copied into the application's memory
 *   posix-file-per-rank  every rank preads a file of its own into its memory
 *
 * A second case has the time to open those sessions (cairn-open), until the slowest rank was
 * done.
 *
 * Before each method the files are evicted from the page cache, which works on a disk's file
 * system but not on one in memory: the label of a case says which it is. The data of Cairn and
 * of the ranks is compared.
 *
 * Started by the script bench/restart, which makes the directories and removes them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cairn/cairn_mpi.h"
#include "common.h"

#define NAME  "bench"
#define MIB   ((uint64_t)1 << 20)
#define PIECE (16 * MIB)
#define USAGE                                                                                      \
    "restart [--mib SIZE] [--files K] [--threads T] [--ranks-per-node R] [--rounds N]\n"           \
    "        [--label TEXT] --dir DIR --shm DIR --run DIR"

enum { LIMIT, CAIRN, RANKS, NMETHODS };
static const char *const methods[NMETHODS] = {"limit-pread", "cairn-restart",
                                              "posix-file-per-rank"};

struct bench {
    int rank, ranks;
    uint64_t mib;
    uint32_t files, threads, ranks_per_node;
    size_t rounds;
    const char *label, *dir, *shm, *run;
    uint64_t bytes; /* of this rank */
    unsigned char *src, *got;
    cairn_session *session; /* the next, while it is not measured */
    double opened_s;        /* how long that took the slowest rank */
    /* Of the limit, all threads of this process. */
    int *fd;
    uint64_t *size;
    atomic_uint_fast64_t next; /* piece */
    uint64_t last;
};

static void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "restart: %s: %s\n", what, why);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0)
        die(path, strerror(errno));
    return fd;
}

static void data_path(const struct bench *b, uint32_t file, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/%s/1/data-%04" PRIu32, b->dir, NAME, file);
}

static void rank_path(const struct bench *b, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/rank-%04d", b->dir, b->rank);
}

static cairn_session *open_session(const struct bench *b)
{
    char persistent[600], shm[600], run[600], nodes[64], files[64];
    const char *settings[] = {persistent, shm, run, nodes, files, "fresh=on", NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s", b->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->shm);
    (void)snprintf(run, sizeof(run), "run_dir=%s", b->run);
    (void)snprintf(nodes, sizeof(nodes), "ranks_per_node=%" PRIu32, b->ranks_per_node);
    (void)snprintf(files, sizeof(files), "files=%" PRIu32, b->files);
    check(cairn_open_mpi(MPI_COMM_WORLD, &options, &s), "open");
    return s;
}

/* The data, as a version and as a file of each rank. */
static void write_data(struct bench *b)
{
    char path[600];
    uint64_t at;
    ssize_t n;
    int fd;

    for (at = 0; at + sizeof(at) <= b->bytes; at += sizeof(at)) {
        uint64_t word = (at * 2654435761U) ^ ((uint64_t)b->rank << 32);

        memcpy(b->src + at, &word, sizeof(word));
    }
    b->session = open_session(b);
    check(cairn_protect(b->session, "data", b->src, CAIRN_BYTES, b->bytes), "protect");
    check(cairn_checkpoint(b->session, NAME, 1, NULL), "checkpoint");
    check(cairn_close(b->session), "close");
    b->session = NULL;
    rank_path(b, path, sizeof(path));
    fd = open_file(path, O_WRONLY | O_CREAT);
    for (at = 0; at < b->bytes; at += (uint64_t)n) {
        n = pwrite(fd, b->src + at, b->bytes - at, (off_t)at);
        if (n <= 0)
            die(path, strerror(errno));
    }
    if (fsync(fd) != 0 || close(fd) != 0)
        die(path, strerror(errno));
}

static void push_out(const char *path)
{
    int fd = open_file(path, O_RDONLY);

    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
}

static void open_timed(struct bench *b)
{
    double start, mine;

    (void)MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    b->session = open_session(b);
    mine = bench_now() - start;
    (void)MPI_Allreduce(&mine, &b->opened_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

/* Before a method: cold files, memory with other contents, a session for Cairn. */
static void prepare(struct bench *b, int method)
{
    char path[600];
    uint32_t i;

    memset(b->got, 0xee, b->bytes);
    if (method == CAIRN) {
        open_timed(b);
        check(cairn_protect(b->session, "data", b->got, CAIRN_BYTES, b->bytes), "protect");
    }
    for (i = 0; b->rank == 0 && i < b->files; i++) {
        data_path(b, i, path, sizeof(path));
        push_out(path);
    }
    rank_path(b, path, sizeof(path));
    push_out(path);
    (void)MPI_Barrier(MPI_COMM_WORLD);
}

/* Piece p of the concatenated files. */
static void read_piece(const struct bench *b, uint64_t p, void *buf)
{
    uint32_t file = 0;
    uint64_t at, left;

    while (p >= (b->size[file] + PIECE - 1) / PIECE)
        p -= (b->size[file++] + PIECE - 1) / PIECE;
    at = p * PIECE;
    left = b->size[file] - at < PIECE ? b->size[file] - at : PIECE;
    while (left > 0) {
        ssize_t n = pread(b->fd[file], buf, left, (off_t)at);

        if (n <= 0)
            die("read", strerror(errno));
        at += (uint64_t)n;
        left -= (uint64_t)n;
    }
}

static void *read_thread(void *arg)
{
    struct bench *b = arg;
    void *buf = malloc(PIECE);
    uint64_t p;

    if (buf == NULL)
        die("memory", "there is not enough");
    while ((p = atomic_fetch_add(&b->next, 1)) < b->last)
        read_piece(b, p, buf);
    free(buf);
    return NULL;
}

/* The first rank of each node reads its share. */
static void run_limit(struct bench *b)
{
    uint64_t nodes = ((uint64_t)b->ranks + b->ranks_per_node - 1) / b->ranks_per_node;
    uint64_t node = (uint64_t)b->rank / b->ranks_per_node;
    pthread_t threads[64];
    uint64_t pieces = 0;
    char path[600];
    struct stat st;
    uint32_t i;

    if ((uint32_t)b->rank % b->ranks_per_node != 0)
        return;
    for (i = 0; i < b->files; i++) {
        data_path(b, i, path, sizeof(path));
        b->fd[i] = open_file(path, O_RDONLY);
        if (fstat(b->fd[i], &st) != 0)
            die(path, strerror(errno));
        b->size[i] = (uint64_t)st.st_size;
        pieces += (b->size[i] + PIECE - 1) / PIECE;
    }
    atomic_store(&b->next, pieces * node / nodes);
    b->last = pieces * (node + 1) / nodes;
    for (i = 0; i < b->threads; i++)
        if (pthread_create(&threads[i], NULL, read_thread, b) != 0)
            die("thread", "cannot be started");
    for (i = 0; i < b->threads; i++)
        (void)pthread_join(threads[i], NULL);
    for (i = 0; i < b->files; i++)
        (void)close(b->fd[i]);
}

static void run_rank_file(const struct bench *b)
{
    char path[600];
    uint64_t at;
    ssize_t n;
    int fd;

    rank_path(b, path, sizeof(path));
    fd = open_file(path, O_RDONLY);
    for (at = 0; at < b->bytes; at += (uint64_t)n) {
        n = pread(fd, b->got + at, b->bytes - at < PIECE ? b->bytes - at : PIECE, (off_t)at);
        if (n <= 0)
            die(path, strerror(errno));
    }
    (void)close(fd);
}

static double run_method(struct bench *b, int method)
{
    int64_t version = -1;
    double start, mine, all;

    prepare(b, method);
    start = bench_now();
    if (method == LIMIT)
        run_limit(b);
    else if (method == CAIRN)
        check(cairn_restart(b->session, NAME, NULL, &version), "restart");
    else
        run_rank_file(b);
    mine = bench_now() - start;
    (void)MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (method != LIMIT && memcmp(b->src, b->got, b->bytes) != 0)
        die(methods[method], "what was read differs from what was written");
    if (method == CAIRN) {
        check(cairn_close(b->session), "close");
        b->session = NULL;
    }
    return all;
}

static void report(const struct bench *b, struct bench_case *bc)
{
    if (b->rank == 0)
        bench_header(bc);
    if (b->rank == 0 && bench_report(bc) < 0)
        die("standard output", "cannot be written");
    bench_case_fini(bc);
}

static void run_case(struct bench *b)
{
    static const char *const opening[] = {"cairn-open"};
    char name[200], open_name[220];
    struct bench_case bc = {
        .bench = "restart", .name = name, .methods = methods, .nmethods = NMETHODS};
    struct bench_case open_case = {
        .bench = "restart", .name = open_name, .methods = opening, .nmethods = 1};
    size_t i, m;

    (void)snprintf(name, sizeof(name), "%s, %d ranks, %d nodes, %" PRIu64 " MiB, K=%" PRIu32,
                   b->label, b->ranks,
                   (b->ranks + (int)b->ranks_per_node - 1) / (int)b->ranks_per_node, b->mib,
                   b->files);
    (void)snprintf(open_name, sizeof(open_name), "open: %s", name);
    bc.rounds = open_case.rounds = b->rounds;
    bc.bytes = b->bytes * (uint64_t)b->ranks;
    if (bench_case_init(&bc) < 0 || bench_case_init(&open_case) < 0)
        die("memory", "there is not enough");
    for (m = 0; m < NMETHODS; m++)
        (void)run_method(b, (int)m); /* warms up */
    for (i = 0; i < bc.rounds; i++)
        for (m = 0; m < NMETHODS; m++) {
            size_t which = bench_turn(&bc, i, m);

            *bench_time(&bc, i, which) = run_method(b, (int)which);
            if (which == CAIRN)
                *bench_time(&open_case, i, 0) = b->opened_s;
        }
    report(b, &bc);
    report(b, &open_case);
}

static void parse(int argc, char **argv, struct bench *b)
{
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];

        if (strcmp(argv[i], "--dir") == 0)
            b->dir = value;
        else if (strcmp(argv[i], "--shm") == 0)
            b->shm = value;
        else if (strcmp(argv[i], "--run") == 0)
            b->run = value;
        else if (strcmp(argv[i], "--label") == 0)
            b->label = value;
        else if (strcmp(argv[i], "--mib") == 0)
            b->mib = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            b->rounds = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--files") == 0)
            b->files = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            b->threads = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--ranks-per-node") == 0)
            b->ranks_per_node = (uint32_t)strtoul(value, NULL, 10);
        else
            die("usage", USAGE);
    }
    if (i != argc || b->dir == NULL || b->shm == NULL || b->run == NULL || b->rounds == 0 ||
        b->threads < 1 || b->threads > 64 || b->ranks_per_node < 1 || b->mib == 0 || b->files < 1)
        die("usage", USAGE);
}

int main(int argc, char **argv)
{
    struct bench b = {
        .mib = 128, .files = 1, .threads = 4, .ranks_per_node = 2, .rounds = 5, .label = "disk"};
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    parse(argc, argv, &b);
    b.bytes = b.mib * MIB;
    b.src = malloc(b.bytes);
    b.got = malloc(b.bytes);
    b.fd = calloc(b.files, sizeof(*b.fd));
    b.size = calloc(b.files, sizeof(*b.size));
    if (b.src == NULL || b.got == NULL || b.fd == NULL || b.size == NULL)
        die("memory", "there is not enough");
    write_data(&b);
    run_case(&b);
    free(b.src);
    free(b.got);
    free(b.fd);
    free(b.size);
    (void)MPI_Finalize();
    return 0;
}
