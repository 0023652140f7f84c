/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes on their own, each with its id: they share directories and names and do not meet. Under
 * mpirun MPI only gives them numbers; alone they do without it. */
#include <sys/wait.h>

#include "veloc_test.h"

enum { N = 9000 };

static unsigned char a[N];

/* Calls with NULL: VELOC_FAILURE, and nothing has happened. */
static void call_with_null(void)
{
    FAILS(VELOC_Mem_protect(7, NULL, N, 1));
    FAILS(VELOC_Region_protect(7, a, N, 1, NULL));
    FAILS(VELOC_Region_unprotect(0, NULL));
    FAILS(VELOC_Region_clear(NULL));
    FAILS(VELOC_Cleanup(NULL));
    FAILS(VELOC_Checkpoint_begin(NULL, 1));
    FAILS(VELOC_Checkpoint(NULL, 1));
    FAILS(VELOC_Restart_test(NULL, 0));
    FAILS(VELOC_Restart_begin(NULL, 1));
    FAILS(VELOC_Restart(NULL, 1));
    OK(VELOC_Checkpoint_begin("null", 1));
    FAILS(VELOC_Route_file("x", NULL));
    FAILS(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, NULL, 1));
    (void)VELOC_Checkpoint_end(0);
    FAILS(VELOC_Checkpoint_wait()); /* it was given up */
}

/* In a forked child every call fails, and the parent's client is not touched. */
static int calls_that_work(void)
{
    char routed[VELOC_MAX_NAME];
    int id = 0;
    int n = 0;

    n += VELOC_Mem_protect(1, a, N, 1) == VELOC_SUCCESS;
    n += VELOC_Region_protect(1, a, N, 1, "group") == VELOC_SUCCESS;
    n += VELOC_Mem_unprotect(0) == VELOC_SUCCESS;
    n += VELOC_Region_unprotect(1, "group") == VELOC_SUCCESS;
    n += VELOC_Mem_clear() == VELOC_SUCCESS;
    n += VELOC_Region_clear("group") == VELOC_SUCCESS;
    n += VELOC_Cleanup("own") == VELOC_SUCCESS;
    n += VELOC_Checkpoint("own", 99) == VELOC_SUCCESS;
    n += VELOC_Checkpoint_begin("own", 99) == VELOC_SUCCESS;
    n += VELOC_Checkpoint_selective(VELOC_CKPT_SOME, &id, 1) == VELOC_SUCCESS;
    n += VELOC_Checkpoint_mem() == VELOC_SUCCESS;
    n += VELOC_Route_file("x", routed) == VELOC_SUCCESS;
    n += VELOC_Checkpoint_end(1) == VELOC_SUCCESS;
    n += VELOC_Checkpoint_wait() == VELOC_SUCCESS;
    n += VELOC_Checkpoint_finished() == VELOC_SUCCESS;
    n += VELOC_Restart_test("own", 0) != VELOC_FAILURE;
    n += VELOC_Restart_begin("own", 1) == VELOC_SUCCESS;
    n += VELOC_Recover_selective(VELOC_RECOVER_SOME, &id, 1) == VELOC_SUCCESS;
    n += VELOC_Recover_mem() == VELOC_SUCCESS;
    n += VELOC_Recover_size(0) >= 0;
    n += VELOC_Restart_end(1) == VELOC_SUCCESS;
    n += VELOC_Restart("own", 1) == VELOC_SUCCESS;
    n += VELOC_Prefetch_enqueue(1) == VELOC_SUCCESS;
    n += VELOC_Prefetch_start() == VELOC_SUCCESS;
    n += VELOC_Finalize(1) == VELOC_SUCCESS;
    return n;
}

static void fork_child(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        (void)close(STDERR_FILENO); /* one line each */
        _exit(calls_that_work());
    }
    REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

static void life(unsigned int id, int first)
{
    char routed[VELOC_MAX_NAME], original[128];
    FILE *f;
    int v, x = -1;

    OK(VELOC_Init_single(id, conf));
    OK(VELOC_Mem_protect(0, a, N, 1));
    REQUIRE(VELOC_Restart_test("own", 0) == (first ? -1 : 3 + (int)id));
    if (!first) {
        OK(VELOC_Restart("own", 3 + (int)id));
        REQUIRE(holds(a, N, 3 + (int)id, (int)id, 0));
        FAILS(VELOC_Restart("own", 4 + (int)id)); /* that of another id, or of none */
        OK(VELOC_Restart_begin("file", 1));
        OK(VELOC_Route_file("", routed));
        f = fopen(routed, "rb");
        REQUIRE(f != NULL && fread(&x, sizeof(x), 1, f) == 1 && fclose(f) == 0 && x == (int)id);
        OK(VELOC_Finalize(0));
        return;
    }
    for (v = 1; v <= 3 + (int)id; v++) { /* each as many as it likes */
        fill(a, N, v, (int)id, 0);
        OK(VELOC_Checkpoint("own", v));
        if (v == 1)
            call_with_null();
        fork_child();
    }
    (void)snprintf(original, sizeof(original), "%s/single-%u", dir, id);
    OK(VELOC_Checkpoint_begin("file", 1));
    OK(VELOC_Route_file(original, routed));
    x = (int)id;
    f = fopen(routed, "wb");
    REQUIRE(f != NULL && fwrite(&x, sizeof(x), 1, f) == 1 && fclose(f) == 0);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Finalize(1));
    REQUIRE(access(original, F_OK) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) { /* single ID CONFIG first|again: not even MPI_Init */
        (void)snprintf(dir, sizeof(dir), "%s", getenv("CAIRN_SHM_DIR"));
        (void)snprintf(conf, sizeof(conf), "%s", argv[2]);
        FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
        life((unsigned int)atoi(argv[1]), strcmp(argv[3], "first") == 0);
        return 0;
    }
    start(&argc, &argv);
    configure("mode = async");
    life((unsigned int)rank, 1);
    life((unsigned int)rank, 0);
    finish();
    return 0;
}
