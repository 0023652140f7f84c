/* SPDX-License-Identifier: BSD-3-Clause */
/* Other numbers of ranks, ranks that are late or have different clocks, signals, and
 * requirements on the MPI library. Sessions on parts of the world are jobs of different sizes in
 * one run. */
#include <signal.h>
#include <unistd.h>

#include "mpi_test.h"

enum { ROWS = 37, COLS = 23 };

static int world_rank, world_ranks;
static char dir[256];

static cairn_session *open_on(MPI_Comm comm, const char *const *more)
{
    static const char *const settings[] = {"log_level=error", "block_bytes=1M", "blocks=2",
                                           "ranks_per_node=2", NULL};

    return open_below(comm, dir, settings, more);
}

/* The i-th of k uneven parts of [0, n). */
static void part(uint64_t n, int i, int k, uint64_t *first, uint64_t *count)
{
    uint64_t a = n * (uint64_t)i * (uint64_t)i / (uint64_t)(k * k);
    uint64_t b = n * (uint64_t)(i + 1) * (uint64_t)(i + 1) / (uint64_t)(k * k);

    *first = a;
    *count = b - a;
}

/* A block of the global field: rows for writers, columns for readers. */
static struct cairn_array block(int by_rows, int i, int k)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_U64, .ndims = 2};

    a.global_dims[0] = ROWS;
    a.global_dims[1] = COLS;
    a.dims[0] = ROWS;
    a.dims[1] = COLS;
    part(by_rows ? ROWS : COLS, i, k, &a.offset[by_rows ? 0 : 1], &a.dims[by_rows ? 0 : 1]);
    return a;
}

static uint64_t value(uint64_t row, uint64_t col)
{
    return pattern(row, col, 3);
}

static void write_on(MPI_Comm comm, int64_t version)
{
    uint64_t field[ROWS * COLS];
    struct cairn_array a;
    cairn_session *s;
    uint64_t i, j;
    int rank, ranks, own;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    own = 100 + rank;
    a = block(1, rank, ranks);
    for (i = 0; i < a.dims[0]; i++)
        for (j = 0; j < COLS; j++)
            field[i * COLS + j] = value(a.offset[0] + i, j);
    s = open_on(comm, NULL);
    OK(cairn_protect_array(s, "field", field, &a));
    OK(cairn_protect(s, "own", &own, CAIRN_I32, 1));
    OK(cairn_checkpoint(s, "grid", version, NULL));
    OK(cairn_close(s));
}

/* A session on comm with this rank's columns protected; field is overwritten. */
static cairn_session *open_columns(MPI_Comm comm, uint64_t field[ROWS * COLS],
                                   struct cairn_array *ret)
{
    cairn_session *s;
    int rank, ranks;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    *ret = block(0, rank, ranks);
    memset(field, 0xee, ROWS * COLS * sizeof(field[0]));
    s = open_on(comm, NULL);
    OK(cairn_protect_array(s, "field", field, ret));
    return s;
}

static void require_columns(const uint64_t *field, const struct cairn_array *a)
{
    uint64_t i, j;

    for (i = 0; i < ROWS; i++)
        for (j = 0; j < a->dims[1]; j++)
            REQUIRE(field[i * a->dims[1] + j] == value(i, a->offset[1] + j));
}

static void read_on(MPI_Comm comm, int64_t version, int writers)
{
    const char *only_field[] = {"field", NULL};
    const char *only_own[] = {"own", NULL};
    uint64_t field[ROWS * COLS];
    struct cairn_version_info vi = {.size = sizeof(vi)};
    struct cairn_array a, info = {.size = sizeof(info)};
    cairn_session *s;
    int64_t v;
    int rank, ranks, own = -1;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    s = open_columns(comm, field, &a);
    OK(cairn_restart(s, "grid", NULL, &v));
    REQUIRE(v == version);
    OK(cairn_version_info(s, "grid", v, &vi));
    REQUIRE(vi.ranks == writers && vi.files == (writers + 1) / 2);
    require_columns(field, &a);
    /* A region that is not a block cannot be redistributed, and the error says so. The region of
     * any old rank can be read. */
    OK(cairn_protect(s, "own", &own, CAIRN_I32, 1));
    if (ranks != writers) {
        FAILS(CAIRN_EMISMATCH, cairn_restore(s, "grid", v, only_own));
        REQUIRE(strstr(cairn_last_error(), "own") != NULL && own == -1);
    }
    OK(cairn_restore_from(s, "grid", v, (rank + 1) % writers, only_own));
    REQUIRE(own == 100 + (rank + 1) % writers);
    OK(cairn_region_info(s, "grid", v, writers - 1, "field", &info));
    REQUIRE(info.global_dims[0] == ROWS && info.dims[1] == COLS);
    /* Another global shape or type does not fit. */
    a.global_dims[0] = a.dims[0] = ROWS - 1;
    OK(cairn_protect_array(s, "field", field, &a));
    FAILS(CAIRN_EMISMATCH, cairn_restore(s, "grid", v, only_field));
    OK(cairn_close(s));
}

/* The same with hints: blocks from the captures of other ranks are assembled before the read. */
static void prefetch_on(MPI_Comm comm, int64_t version)
{
    uint64_t field[ROWS * COLS];
    struct cairn_array a;
    cairn_session *s = open_columns(comm, field, &a);

    OK(cairn_prefetch_enqueue(s, "grid", version));
    OK(cairn_prefetch_start(s));
    OK(cairn_restore(s, "grid", version, NULL));
    require_columns(field, &a);
    OK(cairn_close(s));
}

static void another_number_of_ranks(void)
{
    int sizes[] = {world_ranks, 2, 3, 1, world_ranks};
    size_t w, r;

    for (w = 0; w < 4; w++) {
        MPI_Comm writers, readers;

        (void)MPI_Comm_split(MPI_COMM_WORLD, world_rank < sizes[w] ? 0 : MPI_UNDEFINED, world_rank,
                             &writers);
        if (writers != MPI_COMM_NULL) {
            write_on(writers, (int64_t)w);
            (void)MPI_Comm_free(&writers);
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
        for (r = 0; r < 5; r++) {
            (void)MPI_Comm_split(MPI_COMM_WORLD, world_rank < sizes[r] ? 0 : MPI_UNDEFINED,
                                 world_rank, &readers);
            if (readers != MPI_COMM_NULL) {
                read_on(readers, (int64_t)w, sizes[w]);
                prefetch_on(readers, (int64_t)w);
                (void)MPI_Comm_free(&readers);
            }
            (void)MPI_Barrier(MPI_COMM_WORLD);
        }
    }
}

/* A rank that never arrives is named, and the job continues. */
static void a_late_rank_is_named(void)
{
    const char *keys[] = {"commit_timeout=1s", NULL};
    cairn_session *s = open_on(MPI_COMM_WORLD, keys);
    int late = world_ranks - 1;
    int x = world_rank;

    OK(cairn_protect(s, "x", &x, CAIRN_I32, 1));
    if (world_rank != late) {
        OK(cairn_checkpoint(s, "late", 1, NULL));
        FAILS(CAIRN_ETIMEDOUT, cairn_wait(s, "late", 1, CAIRN_PERSISTENT, 60000));
        REQUIRE(strstr(cairn_last_error(), "commit_timeout") != NULL);
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == late) { /* it learns of the end at once */
        OK(cairn_checkpoint(s, "late", 1, NULL));
        FAILS(CAIRN_ETIMEDOUT, cairn_wait(s, "late", 1, CAIRN_PERSISTENT, 60000));
    }
    (void)MPI_Barrier(MPI_COMM_WORLD);
    OK(cairn_checkpoint(s, "late", 2, NULL));
    OK(cairn_wait(s, "late", 2, CAIRN_PERSISTENT, 60000));
    OK(cairn_close(s));
}

static void advice_is_the_same_everywhere(void)
{
    const char *by_signal[] = {"stop_signals=USR1,TERM", "period=1h", NULL};
    const char *by_wall[] = {"wall_limit=1s", "wall_margin=1s", NULL};
    cairn_session *s = open_on(MPI_COMM_WORLD, by_signal);
    int x = 0, yes;

    OK(cairn_protect(s, "x", &x, CAIRN_I32, 1));
    OK(cairn_should_checkpoint(s, "adv", &yes));
    REQUIRE(!yes); /* the hour is not over */
    OK(cairn_should_stop(s, &yes));
    REQUIRE(!yes);
    if (world_rank == world_ranks - 1)
        REQUIRE(raise(SIGUSR1) == 0);
    OK(cairn_should_stop(s, &yes));
    REQUIRE(yes); /* on every rank */
    OK(cairn_should_checkpoint(s, "adv", &yes));
    REQUIRE(yes); /* a last one */
    OK(cairn_should_checkpoint(s, "adv", &yes));
    REQUIRE(!yes); /* and no more */
    OK(cairn_close(s));

    s = open_on(MPI_COMM_WORLD, by_wall);
    OK(cairn_should_stop(s, &yes));
    REQUIRE(yes);
    OK(cairn_close(s));

    s = open_on(MPI_COMM_WORLD, NULL); /* Young/Daly: the first checkpoint measures the cost */
    OK(cairn_protect(s, "x", &x, CAIRN_I32, 1));
    OK(cairn_should_checkpoint(s, "adv", &yes));
    REQUIRE(yes);
    OK(cairn_checkpoint(s, "adv", 1, NULL));
    OK(cairn_close(s));
}

/* A session that cannot be opened says why, and its ranks leave their services without a warning. */
static void a_failed_open_says_why(void)
{
    char persistent[300], shm[300], log_file[320], path[300], text[4000] = "";
    const char *settings[] = {persistent, shm, log_file, "ranks_per_node=2", "protect=rs:16", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/failed-open.log", dir);
    (void)snprintf(log_file, sizeof(log_file), "log_file=%s", path);
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", host_dir(dir));
    FAILS(CAIRN_ECONFIG, cairn_open_mpi(MPI_COMM_WORLD, &opt, &s)); /* one host: nothing to lose */
    REQUIRE(strstr(cairn_last_error(), "does not fit") != NULL);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    f = fopen(path, "r");
    REQUIRE(f != NULL && fread(text, 1, sizeof(text) - 1, f) > 0 && fclose(f) == 0);
    REQUIRE(strstr(text, "does not fit") != NULL && strstr(text, "connection") == NULL);
}

/* Without MPI_THREAD_MULTIPLE: one node works; several nodes are refused, with advice. */
static void threads_are_needed_between_nodes(void)
{
    char persistent[300], shm[300];
    const char *settings[] = {persistent, shm, "ranks_per_node=1", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", host_dir(dir));
    FAILS(CAIRN_ENOTSUP, cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    if (world_rank == 0)
        REQUIRE(strstr(cairn_last_error(), "cairnd") != NULL);
    settings[2] = "ranks_per_node=100";
    OK(cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    OK(cairn_close(s));
}

/* With comm = ucx several nodes work without threads of MPI. */
static void ucx_needs_no_threads(void)
{
#ifdef CRN_TEST_UCX
    static uint64_t data[50000];
    char persistent[300], shm[300];
    const char *settings[] = {persistent, shm, "ranks_per_node=1", "comm=ucx", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;
    int64_t version;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/over-ucx", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", host_dir(dir));
    OK(cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    OK(cairn_protect(s, "data", data, CAIRN_U64, 50000));
    fill(data, 50000, 7, (uint64_t)world_rank);
    OK(cairn_checkpoint(s, "threads", 7, NULL));
    OK(cairn_close(s));
    memset(data, 0, sizeof(data));
    OK(cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
    OK(cairn_protect(s, "data", data, CAIRN_U64, 50000));
    OK(cairn_restart(s, "threads", NULL, &version));
    REQUIRE(version == 7);
    for (uint64_t i = 0; i < 50000; i++)
        REQUIRE(data[i] == pattern(7, (uint64_t)world_rank, i));
    OK(cairn_close(s));
    settings[3] = "comm=tcp"; /* reported by all ranks */
    FAILS(CAIRN_ECONFIG, cairn_open_mpi(MPI_COMM_WORLD, &opt, &s));
#endif
}

int main(int argc, char **argv)
{
    int is_single = argc > 1 && strcmp(argv[1], "single") == 0;
    int level;

    (void)MPI_Init_thread(&argc, &argv, is_single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
                          &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    shared_dir(dir, sizeof(dir));
    if (is_single) {
        threads_are_needed_between_nodes();
        ucx_needs_no_threads();
    } else {
        another_number_of_ranks();
        a_late_rank_is_named();
        advice_is_the_same_everywhere();
        a_failed_open_says_why();
    }
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
