/* SPDX-License-Identifier: BSD-3-Clause */
/* turns_job NAME KIB STEP_US PERIOD_US DOOR BOOKS: one MPI job of the benchmark turns. It restarts
 * from the newest checkpoint, compares what it has read, and takes steps (sleeps) until it is
 * killed or its standard input ends. DOOR "advice": in each step it asks whether to checkpoint;
 * "clock": it checkpoints every PERIOD_US. The first rank keeps its books in the file BOOKS, which
 * outlives it. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cairn/cairn_mpi.h"

#define PENDING 64

/* Read by bench/turns: little-endian 64-bit numbers in this order. */
struct books {
    int64_t is_ready;   /* the session is open: the clock runs */
    int64_t begun_ns;   /* monotonic */
    int64_t now_ns;     /* at the end of the last step */
    int64_t step;       /* number of the last step, over all runs of the job */
    int64_t steps;      /* done in this run */
    int64_t restart_ns; /* what the restart took */
    int64_t blocked_ns; /* what checkpoints and advice took */
    int64_t risk;       /* sum over the steps: steps since the newest committed state */
    int64_t commits;    /* of this run */
    int64_t committed;  /* step of the newest committed state */
    int64_t captures;   /* checkpoints taken */
    int64_t age;        /* sum over the steps: ms of the step times ms since the newest committed
                           state was captured */
    int64_t timed_ms;   /* sum of the former */
};

static struct books *books;
static struct books spare;
static struct {
    int64_t version; /* 0: free */
    int64_t at_ns;
} pending[PENDING];     /* captured and not committed yet */
static int64_t safe_ns; /* capture of the newest committed state, or the restart */
static char *data;
static size_t bytes;
static cairn_session *s;
static const char *name;

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void check(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "turns_job %s: %s: %s\n", name, what, cairn_last_error());
    (void)MPI_Abort(MPI_COMM_WORLD, 3);
}

static int open_books(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    void *map;

    if (fd < 0 || ftruncate(fd, sizeof(*books)) != 0)
        return -1;
    map = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    books = map;
    return map == MAP_FAILED ? -1 : 0;
}

/* The bytes of this rank in a version. */
static void fill(int64_t version, int rank)
{
    memset(data, (int)(1 + (version * 31 + rank) % 251), bytes);
}

static int is_filled(int64_t version, int rank)
{
    char want = (char)(1 + (version * 31 + rank) % 251);

    for (size_t i = 0; i < bytes; i++)
        if (data[i] != want)
            return 0;
    return 1;
}

static int64_t restart(int rank)
{
    int64_t begin = now_ns();
    int64_t version = 0;
    cairn_err rc = cairn_restart(s, name, NULL, &version);

    if (rc == CAIRN_ENOENT)
        return 0;
    check(rc, "restart");
    books->restart_ns = now_ns() - begin;
    if (!is_filled(version, rank)) {
        (void)fprintf(stderr, "turns_job %s: wrong bytes in version %lld on rank %d\n", name,
                      (long long)version, rank);
        (void)MPI_Abort(MPI_COMM_WORLD, 4);
    }
    return version;
}

/* Finds out which captures have been committed or superseded. */
static void follow(void)
{
    for (int i = 0; i < PENDING; i++) {
        int64_t version = pending[i].version;
        int is_there = 0;

        if (version == 0)
            continue;
        if (cairn_test(s, name, version, CAIRN_PERSISTENT, &is_there) == CAIRN_OK && !is_there)
            continue;
        books->commits += is_there;
        if (is_there && version > books->committed) {
            books->committed = version;
            safe_ns = pending[i].at_ns;
        }
        pending[i].version = 0;
    }
}

static void take(int64_t version, int rank)
{
    int64_t begin = now_ns();

    fill(version, rank);
    check(cairn_checkpoint(s, name, version, NULL), "checkpoint");
    books->captures++;
    for (int i = 0; i < PENDING; i++)
        if (pending[i].version == 0) {
            pending[i].version = version;
            pending[i].at_ns = begin;
            break;
        }
}

static int is_over(int rank)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    int over = rank == 0 && poll(&in, 1, 0) > 0;

    (void)MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return over;
}

/* All ranks follow the decision of the first, which has the clock. */
static int is_due(const char *door, int64_t *due_ns, int64_t period_ns, int rank)
{
    int yes = 0;

    if (strcmp(door, "advice") == 0) {
        check(cairn_should_checkpoint(s, name, &yes), "should_checkpoint");
        return yes;
    }
    if (rank == 0 && now_ns() >= *due_ns) {
        yes = 1;
        *due_ns += period_ns;
    }
    (void)MPI_Bcast(&yes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return yes;
}

/* Notes how old the newest committed state was in the middle of the step. */
static void grow_old(int64_t begin_ns)
{
    int64_t now = now_ns();
    int64_t ms = (now - begin_ns + 500000) / 1000000;
    int64_t age_ns = begin_ns + (now - begin_ns) / 2 - safe_ns;

    books->timed_ms += ms;
    books->age += age_ns > 0 ? ms * (age_ns / 1000000) : 0;
}

static void run(const char *door, int64_t step_ns, int64_t period_ns, int rank)
{
    const struct timespec pause = {.tv_sec = step_ns / 1000000000, .tv_nsec = step_ns % 1000000000};
    int64_t due_ns = now_ns() + period_ns;

    while (!is_over(rank)) {
        int64_t begin_of_step = now_ns();
        int64_t begin;

        (void)nanosleep(&pause, NULL);
        books->step++;
        books->steps++;
        (void)MPI_Barrier(MPI_COMM_WORLD); /* a step ends when the slowest rank is done */
        begin = now_ns();
        if (is_due(door, &due_ns, period_ns, rank))
            take(books->step, rank);
        books->now_ns = now_ns();
        books->blocked_ns += books->now_ns - begin;
        if (rank == 0)
            follow();
        books->risk += books->step - books->committed;
        grow_old(begin_of_step);
    }
}

int main(int argc, char **argv)
{
    int provided, rank;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 7)
        return 2;
    name = argv[1];
    bytes = (size_t)strtoul(argv[2], NULL, 10) << 10;
    data = calloc(bytes, 1);
    books = &spare;
    if (data == NULL || (rank == 0 && open_books(argv[6]) != 0))
        return 2;
    check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s), "open");
    check(cairn_protect(s, "data", data, CAIRN_BYTES, bytes), "protect");
    books->begun_ns = books->now_ns = now_ns();
    books->is_ready = 1;
    books->committed = books->step = restart(rank);
    safe_ns = now_ns();
    run(argv[5], strtol(argv[3], NULL, 10) * 1000, strtol(argv[4], NULL, 10) * 1000, rank);
    books->is_ready = 2;
    check(cairn_close(s), "close");
    free(data);
    (void)MPI_Finalize();
    return 0;
}
