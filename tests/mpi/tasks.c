/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation of the 1st, 2nd, ... task of a node's service fails, on one node after the other.
 * The checkpoint fails with that reason on all ranks, or is committed with every byte, and no
 * rank hangs. Linked with --wrap=calloc, which intercepts every allocation of the library. */
#include <stdatomic.h>

#include "mpi_test.h"
#include "service/job.h"

enum { WORDS = 200000 };

static int rank, ranks;
static char dir[200];
static atomic_int until_failure; /* tasks before the failing one, inclusive; <= 0: none fails */

void *__real_calloc(size_t n, size_t size); /* NOLINT: the names that the linker gives them */
void *__wrap_calloc(size_t n, size_t size); /* NOLINT */

void *__wrap_calloc(size_t n, size_t size) /* NOLINT */
{
    if (n == 1 && size == sizeof(struct crn_work) && atomic_fetch_sub(&until_failure, 1) == 1)
        return NULL;
    return __real_calloc(n, size);
}

static int is_any(int yes)
{
    int any = yes;

    (void)MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

static cairn_err take(cairn_session *s, const char *name)
{
    cairn_err rc = cairn_checkpoint(s, name, 1, NULL);

    return rc == CAIRN_OK ? cairn_wait(s, name, 1, CAIRN_PERSISTENT, 60000) : rc;
}

static void check_bytes(cairn_session *s, const char *name, uint64_t *a)
{
    int64_t v = -1;

    memset(a, 0, WORDS * sizeof(*a));
    OK(cairn_restart(s, name, NULL, &v));
    REQUIRE(v == 1 && holds(a, WORDS, 1, (uint64_t)rank));
}

/* Is there such a task? Counts the failed checkpoints. */
static int strike(int victim, int task, uint64_t *a, int *nfailed)
{
    static const char *const settings[] = {"log_level=error",  "ranks_per_node=1", "files=1",
                                           "block_bytes=512K", "chunk_bytes=64K",  NULL};
    cairn_session *s = open_below(MPI_COMM_WORLD, dir, settings, NULL);
    char name[32];
    int was_struck, is_failed;
    size_t n = 0;
    cairn_err rc;

    (void)snprintf(name, sizeof(name), "x-%d-%d", victim, task);
    OK(cairn_protect(s, "a", a, CAIRN_U64, WORDS));
    fill(a, WORDS, 1, (uint64_t)rank);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    atomic_store(&until_failure, rank == victim ? task : 0);
    rc = take(s, name);
    was_struck = is_any(rank == victim && atomic_load(&until_failure) <= 0);
    atomic_store(&until_failure, 0);
    REQUIRE(rc == CAIRN_OK || (rc == CAIRN_ENOMEM && was_struck));
    is_failed = is_any(rc != CAIRN_OK);
    REQUIRE(is_failed == (rc != CAIRN_OK)); /* the same on all ranks */
    OK(cairn_list(s, name, NULL, 0, &n));
    REQUIRE(n == (is_failed ? 0 : 1));
    if (is_failed) { /* and the next one is taken */
        ++*nfailed;
        OK(cairn_checkpoint(s, name, 2, NULL));
        OK(cairn_wait(s, name, 2, CAIRN_PERSISTENT, 60000));
    } else {
        check_bytes(s, name, a);
    }
    OK(cairn_close(s));
    return was_struck;
}

int main(int argc, char **argv)
{
    uint64_t *a = malloc(WORDS * sizeof(*a));
    int provided, victim;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    REQUIRE(a != NULL);
    shared_dir(dir, sizeof(dir));
    for (victim = 0; victim < ranks; victim++) {
        int task = 1, nfailed = 0;

        while (strike(victim, task, a, &nfailed))
            task++;
        /* At least CLAIM, START, FLUSH and COMMIT on the first node, SERVE on the others. */
        REQUIRE(nfailed >= (victim == 0 ? 4 : 1));
    }
    remove_dir(dir);
    free(a);
    (void)MPI_Finalize();
    return 0;
}
