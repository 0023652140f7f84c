/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory checkpoints through VELOC's functions: what is copied when, what is found again, what
 * recovering demands, and how failures are told. */
#include "veloc_test.h"

enum { N = 30000 };

static unsigned char a[N], b[N], other[2 * N];
static int step;

static void before_init(void)
{
    char routed[VELOC_MAX_NAME];

    FAILS(VELOC_Mem_protect(0, a, N, 1));
    FAILS(VELOC_Mem_unprotect(0));
    FAILS(VELOC_Mem_clear());
    FAILS(VELOC_Checkpoint("x", 1));
    FAILS(VELOC_Checkpoint_begin("x", 1));
    FAILS(VELOC_Checkpoint_wait());
    FAILS(VELOC_Checkpoint_finished());
    FAILS(VELOC_Restart("x", 1));
    REQUIRE(VELOC_Restart_test("x", 0) < 0);
    REQUIRE(VELOC_Recover_size(0) == -1);
    FAILS(VELOC_Route_file("x", routed));
    FAILS(VELOC_Cleanup("x"));
    FAILS(VELOC_Finalize(0));
}

static void bad_configurations(void)
{
    FAILS(VELOC_Init(MPI_COMM_WORLD, "/nowhere/veloc.cfg"));
    FAILS(VELOC_Init(MPI_COMM_WORLD, NULL)); /* no scratch */
    FAILS(VELOC_Init(MPI_COMM_NULL, conf));
    configure("mode = sometimes");
    FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
    configure("mode = async\nmax_versions = many");
    FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
    (void)setenv("VELOC_PERSISTENT", "/proc/no/such/place", 1);
    configure("mode = async");
    FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
    (void)unsetenv("VELOC_PERSISTENT");
    (void)setenv("VELOC_SCRATCH", "/proc/no/such/place", 1);
    FAILS(VELOC_Init(MPI_COMM_WORLD, conf));
    (void)unsetenv("VELOC_SCRATCH");
}

static void protect_all(void)
{
    OK(VELOC_Mem_protect(0, &step, 1, sizeof(step)));
    OK(VELOC_Mem_protect(1, a, N, 1));
    OK(VELOC_Mem_protect(-7, b, N / 4, 4)); /* any int is an id */
}

static void fill_all(int version)
{
    step = version;
    fill(a, N, version, rank, 1);
    fill(b, N, version, rank, -7);
}

static void wipe_all(void)
{
    step = -1;
    memset(a, 0xee, N);
    memset(b, 0xee, N);
}

static int all_hold(int version)
{
    return step == version && holds(a, N, version, rank, 1) && holds(b, N, version, rank, -7);
}

static void round_trip(void)
{
    int v;

    configure("mode = async");
    OK(VELOC_Init(MPI_COMM_WORLD, conf));
    OK(VELOC_Init(MPI_COMM_WORLD, conf)); /* again changes nothing */
    protect_all();
    REQUIRE(VELOC_Restart_test("trip", 0) < 0);
    REQUIRE(VELOC_Checkpoint_finished() == 1);
    for (v = 10; v <= 50; v += 10) {
        fill_all(v);
        OK(VELOC_Checkpoint("trip", v));
        wipe_all(); /* at once: the copy is made */
    }
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Checkpoint_finished() == 1);
    REQUIRE(VELOC_Restart_test("trip", 0) == 50);
    REQUIRE(VELOC_Restart_test("trip", 50) == 50);
    REQUIRE(VELOC_Restart_test("trip", 49) == 40);
    REQUIRE(VELOC_Restart_test("trip", 1000) == 50);
    REQUIRE(VELOC_Restart_test("trip", 10) == 10);
    REQUIRE(VELOC_Restart_test("trip", 9) < 0);
    REQUIRE(VELOC_Restart_test("trip", -1) < 0);
    REQUIRE(VELOC_Restart_test("tri", 0) < 0);
    for (v = 10; v <= 50; v += 10) {
        OK(VELOC_Restart("trip", v));
        REQUIRE(all_hold(v));
    }
    FAILS(VELOC_Restart("trip", 20 + 1));
    REQUIRE(all_hold(50)); /* untouched */
    OK(VELOC_Finalize(1));
    FAILS(VELOC_Finalize(1));

    OK(VELOC_Init(MPI_COMM_WORLD, conf)); /* a new run */
    protect_all();
    wipe_all();
    REQUIRE(VELOC_Restart_test("trip", 0) == 50);
    OK(VELOC_Restart("trip", 50));
    REQUIRE(all_hold(50));
    /* Version 0 is a version like any other, though as a bound it is none. */
    fill_all(0);
    OK(VELOC_Checkpoint("zero", 0));
    REQUIRE(VELOC_Restart_test("zero", 0) == 0);
    wipe_all();
    OK(VELOC_Restart("zero", 0));
    REQUIRE(all_hold(0));
}

/* What counts is the memory at VELOC_Checkpoint_mem, wherever the pointer was then. */
static void moment_of_the_copy(void)
{
    unsigned char *heap = (unsigned char *)malloc(N);

    fill_all(1);
    OK(VELOC_Mem_protect(2, heap, N, 1));
    fill(heap, N, 1, rank, 2);
    OK(VELOC_Checkpoint_begin("moment", 1));
    OK(VELOC_Checkpoint_mem());
    wipe_all();
    OK(VELOC_Mem_unprotect(2));
    free(heap);
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Restart_begin("moment", 1));
    REQUIRE(VELOC_Recover_size(2) == N && VELOC_Recover_size(0) == (int)sizeof(int));
    REQUIRE(VELOC_Recover_size(99) == -1);
    OK(VELOC_Mem_protect(2, other, N, 1));
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    REQUIRE(all_hold(1) && holds(other, N, 1, rank, 2));
    OK(VELOC_Mem_unprotect(2));
    FAILS(VELOC_Mem_unprotect(2));
}

/* A known id is replaced, for checkpoints and for restarts, also after the name was used. */
static void protect_again(void)
{
    OK(VELOC_Checkpoint("again", 1));
    fill(other, N, 3, rank, 1);
    memset(a, 0, N);
    OK(VELOC_Mem_protect(1, other, N, 1));
    OK(VELOC_Checkpoint("again", 2));
    OK(VELOC_Checkpoint_wait());
    memset(other, 0, N);
    OK(VELOC_Mem_protect(1, a, N, 1));
    OK(VELOC_Restart("again", 2));
    REQUIRE(holds(a, N, 3, rank, 1) && other[0] == 0 && other[N - 1] == 0);
}

static void recover_demands(void)
{
    int some[] = {1, 12345};
    int rest[] = {0, -7};

    fill_all(7);
    OK(VELOC_Checkpoint("demands", 7));
    OK(VELOC_Checkpoint_wait());

    /* An id that is not protected, or too small: nothing is written. Each rank by itself. */
    wipe_all();
    OK(VELOC_Restart_begin("demands", 7));
    OK(VELOC_Mem_unprotect(0));
    if (rank == 0)
        FAILS(VELOC_Recover_mem());
    OK(VELOC_Mem_protect(0, &step, 1, sizeof(step)));
    OK(VELOC_Mem_protect(-7, b, N - 1, 1));
    FAILS(VELOC_Recover_mem());
    REQUIRE(a[0] == 0xee && b[0] == 0xee && step == -1);
    OK(VELOC_Recover_selective(VELOC_RECOVER_SOME, some, 2)); /* 12345 is not in it: ignored */
    REQUIRE(holds(a, N, 7, rank, 1) && b[0] == 0xee && step == -1);
    memset(a, 0xee, N);
    OK(VELOC_Recover_selective(VELOC_RECOVER_REST, rest, 2)); /* the same */
    REQUIRE(holds(a, N, 7, rank, 1) && b[0] == 0xee && step == -1);
    FAILS(VELOC_Recover_selective(VELOC_RECOVER_REST, some, 1)); /* -7 does not fit */
    REQUIRE(step == -1);
    FAILS(VELOC_Recover_selective(77, some, 1));

    /* Larger is fine, and so are ids that are not in the checkpoint. */
    OK(VELOC_Mem_protect(-7, other, sizeof(other), 1));
    OK(VELOC_Mem_protect(500, b, N, 1));
    memset(other, 0xdd, sizeof(other));
    wipe_all();
    OK(VELOC_Recover_mem());
    OK(VELOC_Restart_end(1));
    REQUIRE(step == 7 && holds(a, N, 7, rank, 1) && holds(other, N, 7, rank, -7));
    REQUIRE(other[N] == 0xdd && other[2 * N - 1] == 0xdd && b[0] == 0xee);
    OK(VELOC_Mem_clear());
    FAILS(VELOC_Mem_unprotect(0));
    protect_all();
}

static void selective_checkpoints(void)
{
    int one[] = {1};
    int all[] = {0, 1, -7};
    int none[] = {4711};

    fill_all(3);
    OK(VELOC_Checkpoint_begin("sel", 3));
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, one, 1));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_begin("sel", 4));
    OK(VELOC_Checkpoint_selective(VELOC_CKPT_REST, one, 1));
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    wipe_all();
    OK(VELOC_Restart("sel", 3));
    REQUIRE(holds(a, N, 3, rank, 1) && b[0] == 0xee && step == -1);
    wipe_all();
    OK(VELOC_Restart_begin("sel", 4));
    REQUIRE(VELOC_Recover_size(1) == -1 && VELOC_Recover_size(-7) == N);
    OK(VELOC_Recover_mem());
    REQUIRE(a[0] == 0xee && holds(b, N, 3, rank, -7) && step == 3);

    /* An empty selection is a failure, and the version one too; the next one is fine. */
    OK(VELOC_Checkpoint_begin("sel", 5));
    FAILS(VELOC_Checkpoint_selective(VELOC_CKPT_SOME, none, 1));
    FAILS(VELOC_Checkpoint_selective(VELOC_CKPT_REST, all, 3));
    FAILS(VELOC_Checkpoint_selective(-1, all, 3));
    OK(VELOC_Checkpoint_end(1));
    FAILS(VELOC_Checkpoint_wait());
    OK(VELOC_Checkpoint_wait());
    REQUIRE(VELOC_Restart_test("sel", 0) == 4);
    OK(VELOC_Checkpoint("sel", 5));
    REQUIRE(VELOC_Restart_test("sel", 0) == 5);
}

/* Regions of a name, and those of all names. */
static void regions_by_name(void)
{
    fill_all(9);
    fill(other, N, 9, rank, 1);
    OK(VELOC_Region_protect(1, other, N, 1, "own"));
    OK(VELOC_Checkpoint("own", 1));
    OK(VELOC_Checkpoint("common", 1));
    OK(VELOC_Checkpoint_wait());
    wipe_all();
    memset(other, 0, N);
    OK(VELOC_Restart("own", 1));
    REQUIRE(holds(other, N, 9, rank, 1) && step == -1 && a[0] == 0xee);
    OK(VELOC_Restart("common", 1));
    REQUIRE(all_hold(9));
    FAILS(VELOC_Region_unprotect(2, "own"));
    FAILS(VELOC_Region_unprotect(1, "common"));
    OK(VELOC_Region_unprotect(1, "own"));
    OK(VELOC_Region_clear("own"));
    OK(VELOC_Region_clear("never.was"));
    OK(VELOC_Checkpoint("own", 2)); /* those of all names again */
    wipe_all();
    OK(VELOC_Restart("own", 2));
    REQUIRE(all_hold(9));
}

static void repeated_versions(void)
{
    int i;

    for (i = 0; i < 5; i++) { /* without a wait between them */
        fill_all(100 + i);
        OK(VELOC_Checkpoint_begin("rep", 6));
        OK(VELOC_Checkpoint_mem());
        OK(VELOC_Checkpoint_end(1));
    }
    fill_all(200);
    OK(VELOC_Checkpoint("rep", 4)); /* lower than before */
    OK(VELOC_Checkpoint_wait());
    wipe_all();
    REQUIRE(VELOC_Restart_test("rep", 0) == 6);
    OK(VELOC_Restart("rep", 6));
    REQUIRE(all_hold(104));
    OK(VELOC_Restart("rep", 4));
    REQUIRE(all_hold(200));
    /* In one phase the last copy counts. */
    OK(VELOC_Checkpoint_begin("rep", 6));
    OK(VELOC_Checkpoint_mem());
    fill_all(300);
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(1));
    wipe_all();
    OK(VELOC_Restart("rep", 6));
    REQUIRE(all_hold(300));
}

static void phases(void)
{
    FAILS(VELOC_Checkpoint_mem());
    FAILS(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_begin("ph", 1));
    FAILS(VELOC_Checkpoint_begin("ph", 2));
    FAILS(VELOC_Checkpoint("ph", 2));
    FAILS(VELOC_Checkpoint_wait());
    FAILS(VELOC_Restart_begin("trip", 50));
    REQUIRE(VELOC_Checkpoint_finished() == 0);
    fill_all(1);
    OK(VELOC_Checkpoint_mem());
    OK(VELOC_Checkpoint_end(1));
    OK(VELOC_Checkpoint_wait());
    FAILS(VELOC_Recover_mem());
    FAILS(VELOC_Restart_end(1));
    FAILS(VELOC_Checkpoint_begin("ph", -1));
    FAILS(VELOC_Checkpoint_begin("with-dash", 1));
    FAILS(VELOC_Checkpoint_begin("with/slash", 1));
    FAILS(VELOC_Checkpoint_begin("", 1));
    FAILS(VELOC_Checkpoint_begin(NULL, 1));
    OK(VELOC_Restart("ph", 1));
    REQUIRE(all_hold(1));
}

static void names(void)
{
    static const char *const good[] = {".", "..", ".hidden", "A.b_9", "_", "dot"};
    char longest[301], longer[302];
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        fill_all((int)i);
        OK(VELOC_Checkpoint(good[i], (int)i));
    }
    memset(longest, 'n', sizeof(longest));
    longest[300] = '\0';
    (void)snprintf(longer, sizeof(longer), "%sm", longest);
    fill_all(77);
    OK(VELOC_Checkpoint(longest, 77));
    OK(VELOC_Checkpoint_wait());
    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        REQUIRE(VELOC_Restart_test(good[i], 0) == (int)i);
        OK(VELOC_Restart(good[i], (int)i));
        REQUIRE(all_hold((int)i));
    }
    REQUIRE(VELOC_Restart_test(longest, 0) == 77);
    REQUIRE(VELOC_Restart_test(longer, 0) < 0);
}

/* More checkpoints than anybody keeps a record of, and nobody asks how they went. */
static void never_waiting(void)
{
    int v;

    for (v = 1; v <= 700; v++) {
        step = v;
        OK(VELOC_Checkpoint_begin("never", v % 50));
        OK(VELOC_Checkpoint_mem());
        OK(VELOC_Checkpoint_end(1));
    }
    OK(VELOC_Checkpoint_wait());
    step = -1;
    OK(VELOC_Restart("never", 700 % 50));
    REQUIRE(step == 700);
}

/* Elements of any size, also stored as others than those protected at the restart. */
static void base_sizes(void)
{
    enum { BYTES = 4800, SIZES = 6 };
    static const size_t size[SIZES] = {1, 4, 8, 16, 24, 48};
    unsigned char block[BYTES];
    int i;

    OK(VELOC_Mem_clear());
    for (i = 0; i < SIZES; i++) {
        fill(block, BYTES, i, rank, 8);
        OK(VELOC_Mem_protect(8, block, BYTES / size[i], size[i]));
        OK(VELOC_Checkpoint("bases", i));
    }
    OK(VELOC_Checkpoint_wait());
    for (i = 0; i < SIZES; i++) {
        memset(block, 0, BYTES);
        OK(VELOC_Restart_begin("bases", i));
        REQUIRE(VELOC_Recover_size(8) == BYTES);
        OK(VELOC_Mem_protect(8, block, BYTES / size[SIZES - 1 - i], size[SIZES - 1 - i]));
        OK(VELOC_Recover_mem());
        OK(VELOC_Restart_end(1));
        REQUIRE(holds(block, BYTES, i, rank, 8));
    }
    OK(VELOC_Mem_clear());
}

/* Much more than the first checkpoint let Cairn expect, much less, and nothing at all. */
static void sizes(void)
{
    static const size_t bytes[] = {1, 40000000, 0, 3, 20000001};
    unsigned char *big = (unsigned char *)malloc(40000000);
    int i;

    OK(VELOC_Mem_clear());
    for (i = 0; i < 5; i++) {
        fill(big, bytes[i], i, rank, 8);
        OK(VELOC_Mem_protect(8, bytes[i] > 0 ? big : NULL, bytes[i], 1));
        OK(VELOC_Checkpoint("sizes", i));
        memset(big, 0, bytes[i]);
    }
    OK(VELOC_Checkpoint_wait());
    for (i = 4; i >= 0; i--) {
        OK(VELOC_Restart_begin("sizes", i));
        REQUIRE(VELOC_Recover_size(8) == (int)bytes[i]);
        OK(VELOC_Mem_protect(8, big, 40000000, 1));
        OK(VELOC_Recover_mem());
        REQUIRE(holds(big, bytes[i], i, rank, 8));
    }
    FAILS(VELOC_Mem_protect(9, big, SIZE_MAX, 8));
    FAILS(VELOC_Mem_protect(9, NULL, 1, 8));
    FAILS(VELOC_Mem_unprotect(9));
    OK(VELOC_Mem_clear());
    free(big);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    before_init();
    bad_configurations();
    round_trip();
    moment_of_the_copy();
    protect_again();
    recover_demands();
    selective_checkpoints();
    regions_by_name();
    repeated_versions();
    phases();
    names();
    never_waiting();
    sizes();
    base_sizes();
    OK(VELOC_Finalize(1));
    finish();
    return 0;
}
