/* SPDX-License-Identifier: BSD-3-Clause */
/* turn_steps NAME KIB: an MPI job that reads commands from standard input, one word and number
 * per line, and answers each with one line:
 *
 *     steps N    N steps; in each it asks whether to checkpoint, and does so if yes: "took V..."
 *     until 0    steps until it has taken a checkpoint: "took V"
 *     pause MS   from now on a step takes so many milliseconds: "paused MS"
 *     take V     takes version V, until all ranks have captured it: "taken V"
 *     wait V     until V is in the store: "persistent V", or "lost V" and the code
 *     quit 0     closes the session
 *
 * Versions taken on advice have the number of the step. All bytes of version V have the value V. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cairn/cairn_mpi.h"

struct job {
    cairn_session *s;
    const char *name;
    char *data;
    size_t bytes;
    int64_t step;
    long pause_ms; /* of a step */
    int rank;
};

static void check(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "turn_steps: %s: %s\n", what, cairn_last_error());
    (void)MPI_Abort(MPI_COMM_WORLD, 3);
}

static void take(struct job *j, int64_t version)
{
    memset(j->data, (int)version, j->bytes);
    check(cairn_checkpoint(j->s, j->name, version, NULL), "checkpoint");
    memset(j->data, 0xff, j->bytes);
}

static void await_captured(struct job *j, int64_t version)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    int reached = 0;

    while (cairn_test(j->s, j->name, version, CAIRN_CAPTURED, &reached) == CAIRN_OK && !reached)
        (void)nanosleep(&ms, NULL);
}

/* Returns 1 if it took a checkpoint. */
static int step(struct job *j)
{
    const struct timespec pause = {.tv_sec = j->pause_ms / 1000,
                                   .tv_nsec = j->pause_ms % 1000 * 1000000};
    int yes;

    (void)nanosleep(&pause, NULL);
    j->step++;
    check(cairn_should_checkpoint(j->s, j->name, &yes), "should_checkpoint");
    if (yes)
        take(j, j->step);
    return yes;
}

static void do_line(struct job *j, const char *word, long long n)
{
    char said[256] = "";
    size_t used = 0;
    cairn_err rc;

    if (strcmp(word, "steps") == 0 || strcmp(word, "until") == 0) {
        used = (size_t)snprintf(said, sizeof(said), "took");
        for (long long i = 0; word[0] == 'u' || i < n; i++) {
            if (!step(j))
                continue;
            used += (size_t)snprintf(said + used, sizeof(said) - used, " %lld", (long long)j->step);
            if (word[0] == 'u')
                break;
        }
    } else if (strcmp(word, "pause") == 0) {
        j->pause_ms = (long)n;
        (void)snprintf(said, sizeof(said), "paused %lld", n);
    } else if (strcmp(word, "take") == 0) {
        take(j, n);
        await_captured(j, n);
        (void)snprintf(said, sizeof(said), "taken %lld", n);
    } else {
        rc = cairn_wait(j->s, j->name, n, CAIRN_PERSISTENT, 100000);
        if (rc == CAIRN_OK)
            (void)snprintf(said, sizeof(said), "persistent %lld", n);
        else
            (void)snprintf(said, sizeof(said), "lost %lld %d", n, (int)rc);
    }
    if (j->rank == 0)
        (void)printf("%s\n", said);
}

int main(int argc, char **argv)
{
    struct job j = {.pause_ms = 1};
    char line[64] = "quit 0";
    char word[32];
    long long n;
    int provided;

    setvbuf(stdout, NULL, _IOLBF, 0);
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &j.rank);
    if (argc != 3)
        return 2;
    j.name = argv[1];
    j.bytes = (size_t)strtoul(argv[2], NULL, 10) << 10;
    j.data = malloc(j.bytes);
    if (j.data == NULL)
        return 2;
    check(cairn_open_mpi(MPI_COMM_WORLD, NULL, &j.s), "open");
    check(cairn_protect(j.s, "data", j.data, CAIRN_BYTES, j.bytes), "protect");
    for (;;) {
        if (j.rank == 0 && fgets(line, sizeof(line), stdin) == NULL)
            (void)snprintf(line, sizeof(line), "quit 0");
        (void)MPI_Bcast(line, sizeof(line), MPI_CHAR, 0, MPI_COMM_WORLD);
        if (sscanf(line, "%31s %lld", word, &n) != 2 || strcmp(word, "quit") == 0)
            break;
        do_line(&j, word, n);
    }
    check(cairn_close(j.s), "close");
    free(j.data);
    (void)MPI_Finalize();
    return 0;
}
