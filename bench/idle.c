/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of an idle node service: CPU time of a process with an open session that sleeps, over
 * the time it slept. Two virtual nodes under MPI, so that the service polls MPI for messages;
 * the limit is the same sleep without a session. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "cairn/cairn_mpi.h"

static double cpu_seconds(void)
{
    struct rusage ru;

    (void)getrusage(RUSAGE_SELF, &ru);
    return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
           1e-6 * (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

/* Share of a core that this process uses while its application sleeps. */
static double asleep(double seconds)
{
    struct timespec ts = {.tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    double cpu = cpu_seconds();
    double wall = bench_now();

    (void)nanosleep(&ts, NULL);
    return (cpu_seconds() - cpu) / (bench_now() - wall);
}

static int report(const char *method, const double *share, size_t n, double seconds)
{
    double most = 0, least = 1e9;
    size_t i;

    for (i = 0; i < n; i++) {
        most = share[i] > most ? share[i] : most;
        least = share[i] < least ? share[i] : least;
    }
    (void)fprintf(stderr, "%-22s %8.4f %% of a core (%.4f .. %.4f)\n", method,
                  100 * bench_median(share, n), 100 * least, 100 * most);
    return printf(
               "{\"bench\":\"idle\",\"case\":\"2 nodes\",\"method\":\"%s\",\"bytes\":0,\"n\":%zu,"
               "\"median_s\":%.9g,\"min_s\":%.9g,\"max_s\":%.9g,\"ratio_to_limit\":null,"
               "\"core_share\":%.9g}\n",
               method, n, bench_median(share, n) * seconds, least * seconds, most * seconds,
               bench_median(share, n)) < 0;
}

int main(int argc, char **argv)
{
    enum { ROUNDS = 5 };
    double seconds = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 1 : 5;
    double with[ROUNDS], without[ROUNDS];
    char dir[] = "/tmp/cairn-idle-XXXXXX";
    char persistent[64], cmd[64];
    const char *settings[] = {persistent, "ranks_per_node=1", "fresh=on", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int level, rank, i, x = 0;
    int status = 0;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && mkdtemp(dir) == NULL)
        status = 1;
    (void)MPI_Bcast(dir, sizeof(dir), MPI_BYTE, 0, MPI_COMM_WORLD);
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s", dir);
    for (i = 0; i < ROUNDS && status == 0; i++) {
        without[i] = asleep(seconds);
        if (cairn_open_mpi(MPI_COMM_WORLD, &opt, &s) != CAIRN_OK ||
            cairn_protect(s, "x", &x, CAIRN_I32, 1) != CAIRN_OK ||
            cairn_checkpoint(s, "idle", i, NULL) != CAIRN_OK ||
            cairn_wait_all(s, CAIRN_PERSISTENT, 60000) != CAIRN_OK) {
            (void)fprintf(stderr, "idle: %s\n", cairn_last_error());
            status = 1;
            break;
        }
        (void)asleep(0.5); /* the interval between polls has grown by then */
        with[i] = asleep(seconds);
        status = cairn_close(s) != CAIRN_OK;
    }
    if (rank == 0 && status == 0)
        status = report("limit-no-session", without, ROUNDS, seconds) ||
                 report("cairn-idle-service", with, ROUNDS, seconds);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    if (rank == 0 && system(cmd) != 0)
        status = 1;
    (void)MPI_Finalize();
    return status;
}
