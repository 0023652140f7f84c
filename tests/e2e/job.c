/* SPDX-License-Identifier: BSD-3-Clause */
/* A job as users write them, for tests of the programs around jobs. It continues from the newest
 * version, asks when to checkpoint and when to stop, and dies on request.
 *
 * usage: job STEPS CALLS-BETWEEN...
 *
 * Environment: JOB_DIE=N dies at step N if it began at 0; JOB_STEP_MS is the length of a step.
 * Rank 0 prints "began S" and "ended S". With MPI: job_mpi. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef WITH_MPI
#include <cairn/cairn_mpi.h>
#else
#include <cairn/cairn.h>
#endif

enum { CELLS = 50000 };

static int rank;

static void check(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "job: %s: %s\n", what, cairn_last_error());
#ifdef WITH_MPI
    (void)MPI_Abort(MPI_COMM_WORLD, 3);
#endif
    exit(3);
}

static long number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);

    return text != NULL ? atol(text) : otherwise;
}

/* The data of a step follows from its number, so a wrong byte is detected. */
static void expect_step(const double *t, int64_t step)
{
    int i;

    for (i = 0; i < CELLS; i++)
        if (t[i] != (double)(step * (rank + 1) + i)) {
            (void)fprintf(stderr, "job: rank %d: cell %d is wrong at step %lld\n", rank, i,
                          (long long)step);
            exit(4);
        }
}

static void compute(double *t, int64_t step)
{
    int i;

    for (i = 0; i < CELLS; i++)
        t[i] = (double)(step * (rank + 1) + i);
    (void)usleep((useconds_t)number("JOB_STEP_MS", 0) * 1000);
}

static int64_t run(cairn_session *s, double *t, int64_t step, int64_t last)
{
    long die = step == 0 ? number("JOB_DIE", -1) : -1;
    int stop = 0, due;

    while (step < last && !stop) {
        compute(t, ++step);
        check(cairn_should_stop(s, &stop), "should_stop"); /* first: then the last checkpoint is
                                                            * due */
        check(cairn_should_checkpoint(s, "job", &due), "should_checkpoint");
        if (due || step % 10 == 0)
            check(cairn_checkpoint(s, "job", step, NULL), "checkpoint");
        if (step == die) {
            check(cairn_wait_all(s, CAIRN_CAPTURED, CAIRN_WAIT_CONFIG), "wait");
            (void)raise(SIGKILL);
        }
    }
    return step;
}

int main(int argc, char **argv)
{
    double *t = calloc(CELLS, sizeof(*t));
    int64_t last = argc > 1 ? atoll(argv[1]) : 100;
    int64_t step = 0;
    cairn_session *s;
    cairn_err rc;

#ifdef WITH_MPI
    int threads;
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &s), "open");
#else
    check(cairn_open(NULL, &s), "open");
#endif
    check(cairn_protect(s, "t", t, CAIRN_F64, CELLS), "protect");
    rc = cairn_restart(s, "job", NULL, &step);
    if (rc == CAIRN_ENOENT)
        step = 0;
    else
        check(rc, "restart");
    if (step > 0)
        expect_step(t, step);
    if (rank == 0) {
        (void)printf("began %lld\n", (long long)step);
        (void)fflush(stdout);
    }
    step = run(s, t, step, last);
    check(cairn_close(s), "close");
    if (rank == 0)
        (void)printf("ended %lld\n", (long long)step);
    free(t);
#ifdef WITH_MPI
    (void)MPI_Finalize();
#endif
    return 0;
}
