/* SPDX-License-Identifier: BSD-3-Clause */
/* What VELOC gets wrong: failures told once and by all ranks, damage found, nothing good deleted. And
 * the configuration: modes, versions to keep, variables, scratch alone, other numbers of ranks. */
#include "veloc_test.h"

enum { N = 20000 };

static unsigned char a[N];

static void init(const char *lines)
{
    configure(lines);
    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    OK(VELOC_Mem_protect(3, a, N, 1));
}

static void take(const char *name, int version)
{
    fill(a, N, version, rank, 3);
    OK(VELOC_Checkpoint(name, version));
    memset(a, 0xee, N);
}

static int restores(const char *name, int version)
{
    memset(a, 0xee, N);
    return VELOC_Restart(name, version) == VELOC_SUCCESS && holds(a, N, version, rank, 3);
}

static int is_there(const char *name, int version)
{
    char path[200];

    (void)snprintf(path, sizeof(path), "%s/p/%s/%d/manifest", dir, name, version);
    return access(path, F_OK) == 0;
}

/* A file lies where the persistent directory should be. */
static void break_persistent(void)
{
    barrier();
    REQUIRE(rank != 0 || shell("mv %s/p %s/away && touch %s/p", dir, dir, dir) == 0);
    barrier();
}

static void mend_persistent(void)
{
    barrier();
    REQUIRE(rank != 0 || shell("rm %s/p && mv %s/away %s/p", dir, dir, dir) == 0);
    barrier();
}

static void told_once(void)
{
    init("mode = async");
    take("once", 1);
    OK(VELOC_Checkpoint_wait());
    break_persistent();
    take("once", 2);
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    take("once", 3);
    FAILS(VELOC_Checkpoint("once", 4)); /* its wait: nothing is taken */
    OK(VELOC_Checkpoint_wait());
    take("once", 5);
    while (VELOC_Checkpoint_finished() == 0)
        (void)usleep(1000);
    REQUIRE(VELOC_Restart_test("once", 0) < 0); /* asking does not use the report up */
    mend_persistent();
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("once", 0) == 1);
    take("once", 6);
    OK(VELOC_Checkpoint_wait());
    REQUIRE(restores("once", 6) && restores("once", 1));
    /* One rank says that it has nothing valid. */
    OK(VELOC_Checkpoint_begin("once", 7));
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(rank != ranks - 1));
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("once", 0) == 6);
    /* The last word is VELOC_Finalize's. */
    break_persistent();
    take("once", 8);
    FAILS(VELOC_Finalize(1));
    mend_persistent();
}

static void synchronous(void)
{
    init("mode = sync");
    take("sync", 1);
    REQUIRE(rank != 0 || is_there("sync", 1));
    REQUIRE(VELOC_Checkpoint_finished() == 1);
    OK(VELOC_Checkpoint_wait());
    break_persistent();
    FAILS(VELOC_Checkpoint("sync", 2));
    OK(VELOC_Checkpoint_wait()); /* told already */
    OK(VELOC_Checkpoint_begin("sync", 3));
    OK(VELOC_Checkpoint_mem());
    FAILS(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    mend_persistent();
    take("sync", 4);
    REQUIRE(rank != 0 || is_there("sync", 4));
    OK(VELOC_Checkpoint_begin("sync", 5));
    FAILS(VELOC_Checkpoint_end(rank == 0 && ranks > 1));
    REQUIRE(VELOC_Restart_test("sync", 0) == 4);
    OK(VELOC_Checkpoint_begin("sync", 6)); /* a rank may have nothing to add */
    if (rank == 0)
        OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(1));
    REQUIRE(VELOC_Restart_test("sync", 0) == 6);
    OK(VELOC_Restart_begin("sync", 6));
    REQUIRE(VELOC_Recover_size(3) == (rank == 0 ? N : -1));
    OK(VELOC_Recover_mem());
    OK(VELOC_Finalize(0));
}

/* The newest version that is whole on all ranks. Scratch has no copies here. */
static void damage(void)
{
    int failed, v;

    init("mode = async\nscratch_versions = 1\n");
    for (v = 1; v <= 5; v++)
        take("dam", v);
    OK(VELOC_Finalize(1));
    barrier();
    if (rank == 0) {
        REQUIRE(shell("rm -rf %s/s", dir) == 0);
        /* A flipped byte in the last file, a truncated one, a missing one. */
        REQUIRE(shell("f=$(ls %s/p/dam/5/data-* | tail -n 1); printf 'X' | dd of=$f bs=1 seek=%d "
                      "conv=notrunc 2>/dev/null",
                      dir, N / 2) == 0);
        REQUIRE(shell("f=$(ls %s/p/dam/4/data-* | tail -n 1); truncate -s -1 $f", dir) == 0);
        REQUIRE(shell("f=$(ls %s/p/dam/3/data-* | tail -n 1); rm $f", dir) == 0);
    }
    init("mode = async");
    FAILS(VELOC_Restart_begin("dam", 4));
    FAILS(VELOC_Restart_begin("dam", 3));
    REQUIRE(a[0] != pattern(5, rank, 3, 0) || a[1] != pattern(5, rank, 3, 1));
    /* Only reading finds the byte: on one process. From then on all processes pass over the version. */
    REQUIRE(VELOC_Restart_test("dam", 0) == 5);
    failed = !restores("dam", 5);
    REQUIRE(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) ==
            MPI_SUCCESS);
    REQUIRE(failed == 1);
    REQUIRE(VELOC_Restart_test("dam", 0) == 2);
    REQUIRE(restores("dam", 2) && restores("dam", 1));
    take("dam", 5); /* again, and good */
    REQUIRE(VELOC_Restart_test("dam", 0) == 5 && restores("dam", 5));
    OK(VELOC_Finalize(1));
}

static void versions_kept(void)
{
    int v;

    init("mode = async\nmax_versions = 2\nscratch_versions = 1");
    for (v = 10; v <= 15; v++)
        take("kept", v);
    OK(VELOC_Checkpoint_wait());
    REQUIRE(is_there("kept", 14) && is_there("kept", 15));
    take("kept", 3); /* a run that begins anew: its version stays, too */
    OK(VELOC_Checkpoint_wait());
    REQUIRE(is_there("kept", 3) && is_there("kept", 15) && restores("kept", 3));
    /* A failed checkpoint costs none of the old ones. */
    break_persistent();
    take("kept", 20);
    FAILS(VELOC_Checkpoint_wait());
    mend_persistent();
    REQUIRE(VELOC_Restart_test("kept", 0) == 15 && restores("kept", 15));
    OK(VELOC_Finalize(1));
    (void)MPI_Barrier(MPI_COMM_WORLD); /* old ones are removed when the first rank has ended */
    for (v = 10; v <= 15; v++)
        REQUIRE(is_there("kept", v) == (v >= 14));

    (void)setenv("VELOC_MAX_VERSIONS", "3", 1); /* a variable wins over the file */
    (void)setenv("VELOC_MODE", "sync", 1);
    init("mode = async\nmax_versions = 1");
    for (v = 30; v <= 35; v++) {
        take("var", v);
        REQUIRE(rank != 0 || is_there("var", v));
    }
    (void)unsetenv("VELOC_MAX_VERSIONS");
    (void)unsetenv("VELOC_MODE");
    OK(VELOC_Finalize(1));
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (v = 30; v <= 35; v++)
        REQUIRE(is_there("var", v) == (v >= 33));
}

/* No file at all, everything from variables; and no persistent path. */
static void variables_alone(void)
{
    char scratch[100];

    (void)snprintf(scratch, sizeof(scratch), "%s/only", dir);
    (void)setenv("VELOC_SCRATCH", scratch, 1);
    (void)setenv("VELOC_MODE", "sync", 1);
    OK(VELOC_Init(MPI_COMM_WORLD, ""));
    OK(VELOC_Mem_protect(3, a, N, 1));
    take("alone", 1);
    REQUIRE(restores("alone", 1));
    OK(VELOC_Finalize(1));
    OK(VELOC_Init(MPI_COMM_WORLD, NULL));
    OK(VELOC_Mem_protect(3, a, N, 1));
    REQUIRE(VELOC_Restart_test("alone", 0) == 1 && restores("alone", 1));
    /* One directory for both. */
    OK(VELOC_Finalize(1));
    (void)setenv("VELOC_PERSISTENT", scratch, 1);
    OK(VELOC_Init(MPI_COMM_WORLD, NULL));
    OK(VELOC_Mem_protect(3, a, N, 1));
    take("one.place", 1);
    REQUIRE(VELOC_Restart_test("one.place", 0) == 1 && restores("one.place", 1));
    OK(VELOC_Finalize(1));
    (void)unsetenv("VELOC_SCRATCH");
    (void)unsetenv("VELOC_PERSISTENT");
    (void)unsetenv("VELOC_MODE");
}

static void cleanup(void)
{
    int v;

    init("mode = async");
    for (v = 1; v <= 3; v++)
        take("clean", v);
    OK(VELOC_Checkpoint_wait());
    barrier();
    REQUIRE(rank != 0 || shell("find %s/s -path '*/clean/*' -type f | grep -q .", dir) == 0);
    barrier();
    OK(VELOC_Cleanup("clean"));
    FAILS(VELOC_Cleanup("not-a-name"));
    barrier();
    REQUIRE(rank != 0 || shell("find %s/s -path '*/clean/*' -type f | grep -q .", dir) != 0);
    REQUIRE(VELOC_Restart_test("clean", 0) == 3 && restores("clean", 3) && restores("clean", 1));
    take("clean", 4);
    OK(VELOC_Checkpoint_wait());
    REQUIRE(restores("clean", 4));
    OK(VELOC_Finalize(1));
}

/* Fewer ranks read what more have written, each its own; the other way round it is refused. */
static void other_numbers_of_ranks(void)
{
    MPI_Comm some;

    init("mode = async");
    take("many", 1);
    OK(VELOC_Finalize(1));
    (void)MPI_Comm_split(MPI_COMM_WORLD, rank < (ranks + 1) / 2 ? 0 : 1, rank, &some);
    if (rank < (ranks + 1) / 2) {
        OK(VELOC_Init(some, conf));
        OK(VELOC_Mem_protect(3, a, N, 1));
        REQUIRE(VELOC_Restart_test("many", 0) == 1 && restores("many", 1));
        fill(a, N, 2, rank, 3);
        OK(VELOC_Checkpoint("few", 2));
        (void)MPI_Comm_free(&some); /* VELOC_Finalize does not need it any more */
        OK(VELOC_Finalize(1));
    } else {
        (void)MPI_Comm_free(&some);
    }
    init("mode = async");
    if (ranks > 1) {
        REQUIRE(VELOC_Restart_test("few", 0) < 0); /* it promises only what a restart can do */
        FAILS(VELOC_Restart_begin("few", 2));
        FAILS(VELOC_Checkpoint("few", 3)); /* it is there, and not restored */
        FAILS(VELOC_Checkpoint_wait());
        FAILS(VELOC_Restart_test("few", 1)); /* nothing was found: the program starts */
    } else {
        REQUIRE(VELOC_Restart_test("few", 0) == 2 && restores("few", 2));
    }
    take("few", 3);
    REQUIRE(restores("few", 3));
    OK(VELOC_Finalize(1));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    told_once();
    synchronous();
    damage();
    versions_kept();
    variables_alone();
    cleanup();
    other_numbers_of_ranks();
    finish();
    return 0;
}
