/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of an older release: compiled against that release's headers, linked with the library of
 * today. It uses every kind of data that a checkpoint has, and tells each byte.
 * usage: job write | check     With MPI: job_mpi. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include <cairn/cairn_mpi.h>
#else
#include <cairn/cairn.h>
#endif

enum { ROWS = 24, COLUMNS = 40, STEPS = 4, SHARED = 96 };

static int rank, ranks = 1;
static double plate[ROWS * COLUMNS]; /* a block of rows of a plate of ROWS x COLUMNS */
static uint16_t weights[SHARED];
static int64_t own[3];

static void check(cairn_err rc, const char *what)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "job: rank %d: %s: %s\n", rank, what, cairn_last_error());
    exit(3);
}

static void expect(int is_right, const char *what)
{
    if (is_right)
        return;
    (void)fprintf(stderr, "job: rank %d: %s is wrong\n", rank, what);
    exit(4);
}

static int first_row(int of)
{
    return ROWS * of / ranks;
}

/* Without a pattern in space, and most of it as in the step before: worth encoding against that. */
static double plate_value(int row, int column, int64_t step)
{
    uint64_t mixed =
        ((uint64_t)row * COLUMNS + (uint64_t)column + 1) * UINT64_C(0x9e3779b97f4a7c15);

    return (double)(mixed >> 12) + (column % 8 == 0 ? (double)step : 0.0);
}

static void fill(int64_t step)
{
    int i, rows = first_row(rank + 1) - first_row(rank);

    for (i = 0; i < rows * COLUMNS; i++)
        plate[i] = plate_value(first_row(rank) + i / COLUMNS, i % COLUMNS, step);
    for (i = 0; i < SHARED; i++)
        weights[i] = (uint16_t)(i * 3 + step);
    for (i = 0; i < 3; i++)
        own[i] = rank * 100 + i + step;
}

static cairn_session *open_session(void)
{
    struct cairn_options options = {.size = sizeof(options)};
    cairn_session *s;

#ifdef WITH_MPI
    check(cairn_open_mpi(MPI_COMM_WORLD, &options, &s), "open");
    rank = cairn_rank(s);
    ranks = cairn_ranks(s);
#else
    check(cairn_open(&options, &s), "open");
#endif
    return s;
}

static void protect(cairn_session *s, int with_own)
{
    uint64_t rows = (uint64_t)(first_row(rank + 1) - first_row(rank));
    struct cairn_array block = {.size = sizeof(block),
                                .type = CAIRN_F64,
                                .ndims = 2,
                                .dims = {rows, COLUMNS},
                                .global_dims = {ROWS, COLUMNS},
                                .offset = {(uint64_t)first_row(rank)}};
    struct cairn_array whole = {
        .size = sizeof(whole), .type = CAIRN_BF16, .ndims = 1, .dims = {SHARED}};

    check(cairn_protect_array(s, "plate", plate, &block), "protect plate");
    check(cairn_protect_replicated(s, "weights", weights, &whole), "protect weights");
    if (with_own)
        check(cairn_protect(s, "own", own, CAIRN_I64, 3), "protect own");
}

static void write_file(cairn_session *s, int64_t step)
{
    char path[4096];
    FILE *f;

    check(cairn_file_route(s, "heat", step, "notes.txt", path, sizeof(path)), "route");
    f = fopen(path, "w");
    expect(f != NULL && fprintf(f, "rank %d, step %d\n", rank, (int)step) > 0, "the file");
    expect(fclose(f) == 0, "the file's end");
}

static void expect_file(cairn_session *s, int64_t step)
{
    char path[4096], text[64] = "", right[64];
    FILE *f;

    check(cairn_file_restore(s, "heat", step, CAIRN_OWN_RANK, "notes.txt", path, sizeof(path)),
          "restore the file");
    f = fopen(path, "r");
    expect(f != NULL && fread(text, 1, sizeof(text) - 1, f) > 0, "the file");
    (void)fclose(f);
    (void)snprintf(right, sizeof(right), "rank %d, step %d\n", rank, (int)step);
    expect(strcmp(text, right) == 0, "the file's text");
}

static void expect_statistics(cairn_session *s, int64_t step)
{
    struct cairn_stats stats = {.size = sizeof(stats)};

    check(cairn_wait(s, "heat", step, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "wait");
    check(cairn_stats(s, "heat", step, &stats), "stats");
    expect(stats.level == CAIRN_PERSISTENT && stats.bytes > 0, "the statistics");
}

static void write_versions(cairn_session *s, int64_t begin)
{
    int64_t step;

    for (step = begin + 1; step <= begin + STEPS; step++) {
        fill(step);
        write_file(s, step);
        check(cairn_checkpoint(s, "heat", step, NULL), "checkpoint");
        expect_statistics(s, step);
    }
}

/* The newest version is restored whole, on as many ranks as wrote it or on others. */
static void check_version(cairn_session *s, int64_t step)
{
    struct cairn_version_info info = {.size = sizeof(info)};
    double seen[ROWS * COLUMNS];
    int64_t mine[3];
    uint16_t shared[SHARED];
    size_t bytes = (size_t)(first_row(rank + 1) - first_row(rank)) * COLUMNS * sizeof(double);

    memcpy(seen, plate, sizeof(seen));
    memcpy(mine, own, sizeof(mine));
    memcpy(shared, weights, sizeof(shared));
    fill(step);
    expect(memcmp(seen, plate, bytes) == 0, "the plate");
    expect(memcmp(shared, weights, sizeof(shared)) == 0, "what all ranks share");
    check(cairn_version_info(s, "heat", step, &info), "version_info");
    expect(info.version == step && info.files > 0, "the version's description");
    if (info.ranks == ranks) {
        expect(memcmp(mine, own, sizeof(mine)) == 0, "the rank's own data");
        expect_file(s, step);
    }
}

int main(int argc, char **argv)
{
    int is_write = argc > 1 && strcmp(argv[1], "write") == 0;
    int with_own = argc < 3 || strcmp(argv[2], "other") != 0; /* "other": on other ranks */
    cairn_session *s;
    int64_t step = 0;
    cairn_err rc;

#ifdef WITH_MPI
    int threads;
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
#endif
    s = open_session();
    protect(s, with_own);
    rc = cairn_restart(s, "heat", NULL, &step);
    if (is_write && rc == CAIRN_ENOENT)
        step = 0;
    else
        check(rc, "restart");
    if (step > 0)
        check_version(s, step);
    if (is_write)
        write_versions(s, step);
    check(cairn_close(s), "close");
    if (rank == 0)
        (void)printf("restored %d\n", (int)step);
#ifdef WITH_MPI
    (void)MPI_Finalize();
#endif
    return 0;
}
