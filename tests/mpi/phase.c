/* SPDX-License-Identifier: BSD-3-Clause */
/* Phases, the bandwidth cap and calm flushes, with leaders and followers. While a rank
 * communicates nothing is flushed; afterwards it is, byte for byte. A forgotten phase delays a
 * flush by at most phase_patience. A capped flush takes its time. A calm flush, which would
 * never end here, ends as soon as a rank waits for it, needs its space, takes a newer checkpoint
 * or closes. Directories and service come from the environment, if set. */
#include <time.h>
#include <unistd.h>

#include "mpi_test.h"

enum { N = 1 << 18 }; /* 2 MiB a rank */

static int rank, ranks;
static char dir[256];
static uint64_t a[N];

static cairn_session *open_session(const char *first, const char *second)
{
    char persistent[300] = "log_level=error", shm[300] = "log_level=error",
         run[300] = "log_level=error";
    const char *settings[] = {persistent, shm,    run, "block_bytes=1M", "blocks=2", "fresh=on",
                              first,      second, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    if (getenv("CAIRN_PERSISTENT") == NULL) {
        (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
        (void)snprintf(shm, sizeof(shm), "shm_dir=%s", dir);
        (void)snprintf(run, sizeof(run), "run_dir=%s/run", dir);
    }
    OK(cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    OK(cairn_protect(s, "a", a, CAIRN_U64, N));
    return s;
}

static double now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void sleep_ms(int ms)
{
    const struct timespec ts = {.tv_nsec = 1000000L * ms};

    (void)nanosleep(&ts, NULL);
}

static void rest(void)
{
    sleep_ms(5);
}

static int is_there(cairn_session *s, int64_t v)
{
    int yes = 0;

    OK(cairn_test(s, "phase", v, CAIRN_PERSISTENT, &yes));
    return yes;
}

static void wait_until_there(cairn_session *s, int64_t v)
{
    while (!is_there(s, v))
        rest();
}

static void take(cairn_session *s, int64_t v)
{
    fill(a, N, (uint64_t)v, (uint64_t)rank);
    OK(cairn_checkpoint(s, "phase", v, NULL));
}

static void compare(cairn_session *s, int64_t v)
{
    memset(a, 0, sizeof(a));
    OK(cairn_restore(s, "phase", v, NULL));
    REQUIRE(holds(a, N, (uint64_t)v, (uint64_t)rank));
}

/* One rank at a time communicates or does I/O; its node may be leader or follower. */
static void held_while_a_rank_is_busy(void)
{
    cairn_session *s = open_session("phase_patience=1h", NULL);
    double until;
    int busy;

    for (busy = 0; busy < ranks; busy++) {
        if (rank == busy)
            OK(cairn_phase(s, busy % 2 == 0 ? CAIRN_PHASE_COMMUNICATE : CAIRN_PHASE_IO));
        (void)MPI_Barrier(MPI_COMM_WORLD);
        take(s, busy);
        for (until = now() + 0.2; now() < until;) {
            REQUIRE(
                !is_there(s, busy)); /* a busy rank polls all the time: polling is not waiting */
            if (rank != busy)
                rest();
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
        if (rank == busy)
            OK(cairn_phase(s, CAIRN_PHASE_COMPUTE));
        wait_until_there(s, busy);
        compare(s, busy);
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
    /* A rank that waits or closes does not hold back the flush that it waits for. */
    OK(cairn_phase(s, CAIRN_PHASE_IO));
    take(s, busy);
    OK(cairn_wait(s, "phase", busy, CAIRN_PERSISTENT, 60000));
    FAILS(CAIRN_EINVAL, cairn_phase(s, (cairn_phase_kind)3));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    take(s, busy + 1);
    OK(cairn_close(s));
}

static void a_forgotten_phase_ends(void)
{
    cairn_session *s = open_session("phase_patience=100ms", NULL);

    OK(cairn_phase(s, CAIRN_PHASE_IO)); /* also before there is an arena */
    take(s, 100);
    wait_until_there(s, 100);
    compare(s, 100);
    OK(cairn_close(s));
}

static void phases_may_be_ignored(void)
{
    cairn_session *s = open_session("phase_patience=0", NULL);

    OK(cairn_phase(s, CAIRN_PHASE_COMMUNICATE));
    take(s, 200);
    wait_until_there(s, 200);
    compare(s, 200);
    OK(cairn_close(s));
}

/* Each node has 2 ranks x 2 MiB to send or write. */
static void a_cap_takes_its_time(void)
{
    cairn_session *s = open_session("bandwidth=8M", NULL);
    double start;

    take(s, 300);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    start = now();
    take(s, 301);
    OK(cairn_wait(s, "phase", 301, CAIRN_PERSISTENT, 60000));
    REQUIRE(now() - start > 0.25);
    compare(s, 301);
    OK(cairn_close(s));
}

#define CALM "calm_bandwidth=1" /* a byte a second: three weeks for each rank */

/* One rank at a time waits; its node may be leader, follower or root. Polling does not speed up
 * the flush. */
static void calm_until_a_rank_waits(void)
{
    cairn_session *s = open_session(CALM, NULL);
    double until;
    int who;

    for (who = 0; who < ranks; who++) {
        take(s, 400 + who);
        for (until = now() + 0.1; now() < until; rest())
            REQUIRE(!is_there(s, 400 + who));
        FAILS(CAIRN_ETIMEDOUT, cairn_wait(s, "phase", 400 + who, CAIRN_PERSISTENT, 0));
        OK(cairn_wait(s, "phase", 400 + who, CAIRN_CAPTURED, 60000));
        REQUIRE(!is_there(s, 400 + who));
        (void)MPI_Barrier(MPI_COMM_WORLD);
        if (rank == who)
            OK(cairn_wait(s, "phase", 400 + who, CAIRN_PERSISTENT, 60000));
        wait_until_there(s, 400 + who);
        compare(s, 400 + who);
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank != ranks - 1) /* it waits before its neighbour, and so its node, has captured */
        sleep_ms(50);
    take(s, 440);
    if (rank == ranks - 1)
        OK(cairn_wait(s, "phase", 440, CAIRN_PERSISTENT, 60000));
    wait_until_there(s, 440);
    take(s, 450); /* a newer one follows, for which no rank waits */
    take(s, 451);
    wait_until_there(s, 450);
    OK(cairn_close(s)); /* for this one a rank waits */
}

static void calm_until_room_is_needed(void)
{
    cairn_session *s = open_session(CALM, "arena_bytes=3M");

    take(s, 500);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    REQUIRE(!is_there(s, 500));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    take(s, 501); /* there is space for one */
    wait_until_there(s, 500);
    OK(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    compare(s, 501);
    OK(cairn_close(s));
}

/* No rank waits, and they are committed anyway. */
static void calm_ends_by_itself(const char *setting)
{
    cairn_session *s = open_session(setting, NULL);

    take(s, 600);
    wait_until_there(s, 600);
    rest();
    take(s, 601);
    wait_until_there(s, 601);
    compare(s, 601);
    OK(cairn_close(s));
}

int main(int argc, char **argv)
{
    int provided;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    shared_dir(dir, sizeof(dir));
    held_while_a_rank_is_busy();
    a_forgotten_phase_ends();
    phases_may_be_ignored();
    a_cap_takes_its_time();
    calm_until_a_rank_waits();
    calm_until_room_is_needed();
    calm_ends_by_itself("calm_bandwidth=auto");
    calm_ends_by_itself("calm_bandwidth=1P");
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
