/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of an idle node service: CPU time of a process with an open session that sleeps, over
 * the time it slept. Two virtual nodes, so that the services exchange messages: over MPI, which
 * they poll, and over UCX, whose event descriptor wakes them. The limit is the same sleep without a
 * session. And how soon small checkpoints are durable over both: the services agree in a few
 * messages. */
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

enum { ROUNDS = 5, SMALL = 20, METHODS = 3 };

static const char *const names[METHODS] = {"limit-no-session", "cairn-over-mpi", "cairn-over-ucx"};

struct measured {
    double share[METHODS][ROUNDS]; /* of a core */
    double flush[METHODS][ROUNDS * SMALL];
    size_t nflush;
};

static int report(const char *kind, const char *method, const double *values, size_t n, double unit,
                  double seconds)
{
    double most = 0, least = 1e9;
    double median = bench_median(values, n);
    size_t i;

    for (i = 0; i < n; i++) {
        most = values[i] > most ? values[i] : most;
        least = values[i] < least ? values[i] : least;
    }
    (void)fprintf(stderr, "%-6s %-18s %10.4f %s (%.4f .. %.4f)\n", kind, method, unit * median,
                  unit > 100 ? "ms" : "% of a core", unit * least, unit * most);
    return printf("{\"bench\":\"idle\",\"case\":\"%s, 2 nodes\",\"method\":\"%s\",\"bytes\":0,"
                  "\"n\":%zu,\"median_s\":%.9g,\"min_s\":%.9g,\"max_s\":%.9g,"
                  "\"ratio_to_limit\":null}\n",
                  kind, method, n, median * seconds, least * seconds, most * seconds) < 0;
}

static int report_all(const struct measured *m, double seconds)
{
    int status = 0;
    int i;

    for (i = 0; i < METHODS; i++)
        if (m->share[i][0] >= 0)
            status |= report("idle", names[i], m->share[i], ROUNDS, 100, seconds);
    for (i = 1; i < METHODS; i++)
        if (m->share[i][0] >= 0)
            status |= report("flush", names[i], m->flush[i], m->nflush, 1000, 1);
    return status;
}

static int failed(const char *what)
{
    (void)fprintf(stderr, "idle: %s: %s\n", what, cairn_last_error());
    return 1;
}

/* One round of a method. Checkpoints of one number, each waited for; then the process sleeps. */
static int one_round(struct measured *m, int method, int round, double seconds,
                     const char *persistent)
{
    char comm[16];
    const char *settings[] = {persistent, comm, "ranks_per_node=1", "fresh=on", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int i, x = 0;

    (void)snprintf(comm, sizeof(comm), "comm=%s", method == 1 ? "mpi" : "ucx");
    if (cairn_open_mpi(MPI_COMM_WORLD, &opt, &s) != CAIRN_OK) {
        if (method == 1)
            return failed("open");
        m->share[method][0] = -1; /* built without UCX */
        return 0;
    }
    if (cairn_protect(s, "x", &x, CAIRN_I32, 1) != CAIRN_OK)
        return failed("protect");
    for (i = 0; i < SMALL; i++) {
        double start;

        (void)MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        if (cairn_checkpoint(s, "idle", round * SMALL + i, NULL) != CAIRN_OK ||
            cairn_wait(s, "idle", round * SMALL + i, CAIRN_PERSISTENT, 60000) != CAIRN_OK)
            return failed("checkpoint");
        m->flush[method][round * SMALL + i] = bench_now() - start;
    }
    (void)asleep(0.5); /* the interval between polls has grown by then */
    m->share[method][round] = asleep(seconds);
    return cairn_close(s) != CAIRN_OK ? failed("close") : 0;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 && strcmp(argv[1], "--quick") == 0 ? 1 : 5;
    static struct measured m = {.nflush = (size_t)ROUNDS * SMALL};
    char dir[] = "/tmp/cairn-idle-XXXXXX";
    char persistent[64], cmd[64];
    int level, rank, i, method;
    int status = 0;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && mkdtemp(dir) == NULL)
        status = 1;
    (void)MPI_Bcast(dir, sizeof(dir), MPI_BYTE, 0, MPI_COMM_WORLD);
    for (i = 0; i < ROUNDS && status == 0; i++) {
        m.share[0][i] = asleep(seconds);
        for (method = 1; method < METHODS && status == 0; method++) {
            (void)snprintf(persistent, sizeof(persistent), "persistent=%s/%d", dir, method);
            if (m.share[method][0] >= 0)
                status = one_round(&m, method, i, seconds, persistent);
        }
    }
    if (rank == 0 && status == 0)
        status = report_all(&m, seconds);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    if (rank == 0 && system(cmd) != 0)
        status = 1;
    (void)MPI_Finalize();
    return status;
}
