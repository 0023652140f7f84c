/* SPDX-License-Identifier: BSD-3-Clause */
/* Heat in a plate, with checkpoints.
 *
 * An explicit scheme on an n x n grid whose upper edge is hot. The ranks form a grid of their own
 * and each holds one block. Cairn knows each block's place in the whole (cairn_protect_array), so a
 * run that was killed continues with any number of ranks, and its result is the same, bit for bit: a
 * cell is computed from the same five numbers in the same order wherever it lies.
 *
 *     mpirun -n 8 heat --steps 400 --every 20 --out field.f64      # kill it, start it again */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cairn/cairn_mpi.h>

#define NAME   "heat"
#define REGION "temperature"

struct options {
    int n;           /* the plate has n x n cells */
    int64_t steps;   /* in all, those before a restart included */
    int64_t every;   /* steps between two checkpoints; 0: none */
    int64_t hold;    /* stand still at this step, so that the run can be killed there; -1: never */
    int pace_ms;     /* sleep this long in each step */
    const char *out; /* the final field, n x n doubles, row by row; NULL: none */
};

/* A rank's block of rows x cols cells, and the edges of its neighbours. */
struct block {
    MPI_Comm comm; /* the ranks as a grid */
    int n, rank, ranks;
    int dims[2];                  /* of the grid of ranks */
    int first[2], size[2];        /* of this block: rows and columns */
    int north, south, west, east; /* ranks, or MPI_PROC_NULL at the edge of the plate */
    double *t, *next;             /* size[0] x size[1] cells, row by row */
    double *edge_n, *edge_s, *edge_w, *edge_e;
    MPI_Datatype column; /* of t */
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "heat: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        die(what, cairn_last_error());
}

static double *cells(size_t count)
{
    double *p = calloc(count, sizeof(*p));

    if (p == NULL)
        die("memory", "there is none left");
    return p;
}

/* The plate. ----------------------------------------------------------------------------------- */

/* Rows (axis 0) or columns (axis 1) of the rank at this place of the grid of ranks. */
static void cut(const struct block *b, int axis, int place, int *first, int *size)
{
    *first = (int)((int64_t)b->n * place / b->dims[axis]);
    *size = (int)((int64_t)b->n * (place + 1) / b->dims[axis]) - *first;
}

static void block_make(struct block *b, int n)
{
    int periodic[2] = {0, 0};
    int place[2];
    int i;

    memset(b, 0, sizeof(*b));
    b->n = n;
    MPI_Comm_size(MPI_COMM_WORLD, &b->ranks);
    MPI_Dims_create(b->ranks, 2, b->dims);
    if (b->dims[0] > n || b->dims[1] > n)
        die("--size", "there are more ranks than rows");
    MPI_Cart_create(MPI_COMM_WORLD, 2, b->dims, periodic, 0, &b->comm);
    MPI_Comm_rank(b->comm, &b->rank);
    MPI_Cart_coords(b->comm, b->rank, 2, place);
    MPI_Cart_shift(b->comm, 0, 1, &b->north, &b->south);
    MPI_Cart_shift(b->comm, 1, 1, &b->west, &b->east);
    for (i = 0; i < 2; i++)
        cut(b, i, place[i], &b->first[i], &b->size[i]);
    b->t = cells((size_t)b->size[0] * (size_t)b->size[1]);
    b->next = cells((size_t)b->size[0] * (size_t)b->size[1]);
    b->edge_n = cells((size_t)b->size[1]);
    b->edge_s = cells((size_t)b->size[1]);
    b->edge_w = cells((size_t)b->size[0]);
    b->edge_e = cells((size_t)b->size[0]);
    MPI_Type_vector(b->size[0], 1, b->size[1], MPI_DOUBLE, &b->column);
    MPI_Type_commit(&b->column);
    for (i = 0; b->north == MPI_PROC_NULL && i < b->size[1]; i++)
        b->edge_n[i] = 100.0 - 50.0 * (b->first[1] + i) / n;
}

static void block_free(struct block *b)
{
    MPI_Type_free(&b->column);
    MPI_Comm_free(&b->comm);
    free(b->t);
    free(b->next);
    free(b->edge_n);
    free(b->edge_s);
    free(b->edge_w);
    free(b->edge_e);
}

static void exchange_edges(struct block *b)
{
    int rows = b->size[0];
    int cols = b->size[1];
    double *last_row = b->t + (size_t)(rows - 1) * (size_t)cols;
    double *last_col = b->t + (cols - 1);

    MPI_Sendrecv(last_row, cols, MPI_DOUBLE, b->south, 0, b->edge_n, cols, MPI_DOUBLE, b->north, 0,
                 b->comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(b->t, cols, MPI_DOUBLE, b->north, 1, b->edge_s, cols, MPI_DOUBLE, b->south, 1,
                 b->comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last_col, 1, b->column, b->east, 2, b->edge_w, rows, MPI_DOUBLE, b->west, 2,
                 b->comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(b->t, 1, b->column, b->west, 3, b->edge_e, rows, MPI_DOUBLE, b->east, 3, b->comm,
                 MPI_STATUS_IGNORE);
}

static void step(struct block *b)
{
    size_t rows = (size_t)b->size[0];
    size_t cols = (size_t)b->size[1];
    double *old = b->t;
    size_t i, j;

    exchange_edges(b);
    for (i = 0; i < rows; i++) {
        const double *row = b->t + i * cols;
        const double *up = i > 0 ? row - cols : b->edge_n;
        const double *down = i + 1 < rows ? row + cols : b->edge_s;

        for (j = 0; j < cols; j++) {
            double left = j > 0 ? row[j - 1] : b->edge_w[i];
            double right = j + 1 < cols ? row[j + 1] : b->edge_e[i];

            b->next[i * cols + j] = row[j] + 0.2 * (up[j] + down[j] + left + right - 4.0 * row[j]);
        }
    }
    b->t = b->next;
    b->next = old;
}

/* The first rank collects the blocks and writes them as one n x n field. */
static void write_field(const struct block *b, const char *path)
{
    size_t count = (size_t)b->n * (size_t)b->n;
    int whole[2] = {b->n, b->n};
    MPI_Request sent;
    double *field;
    FILE *f;
    int r;

    MPI_Isend(b->t, b->size[0] * b->size[1], MPI_DOUBLE, 0, 4, b->comm, &sent);
    if (b->rank == 0) {
        field = cells(count);
        for (r = 0; r < b->ranks; r++) {
            int place[2], first[2], size[2];
            MPI_Datatype part;

            MPI_Cart_coords(b->comm, r, 2, place);
            cut(b, 0, place[0], &first[0], &size[0]);
            cut(b, 1, place[1], &first[1], &size[1]);
            MPI_Type_create_subarray(2, whole, size, first, MPI_ORDER_C, MPI_DOUBLE, &part);
            MPI_Type_commit(&part);
            MPI_Recv(field, 1, part, r, 4, b->comm, MPI_STATUS_IGNORE);
            MPI_Type_free(&part);
        }
        f = fopen(path, "wb");
        if (f == NULL || fwrite(field, sizeof(*field), count, f) != count || fclose(f) != 0)
            die(path, "cannot be written");
        free(field);
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
}

/* Checkpoints. --------------------------------------------------------------------------------- */

/* Tells Cairn where the block is, in memory and in the plate. Called again whenever it has
 * moved. */
static void protect(cairn_session *s, const struct block *b)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_F64, .ndims = 2};
    int i;

    for (i = 0; i < 2; i++) {
        a.dims[i] = (uint64_t)b->size[i];
        a.global_dims[i] = (uint64_t)b->n;
        a.offset[i] = (uint64_t)b->first[i];
    }
    check(cairn_protect_array(s, REGION, b->t, &a), "protect");
}

/* The step to continue from. */
static int64_t restart(cairn_session *s, const struct block *b)
{
    struct cairn_version_info info = {.size = sizeof(info)};
    int64_t at = 0;
    cairn_err rc;

    protect(s, b);
    rc = cairn_restart(s, NAME, NULL, &at);
    if (rc == CAIRN_ENOENT) {
        if (b->rank == 0)
            printf("starts at step 0 on %d ranks\n", b->ranks);
        return 0;
    }
    check(rc, "restart");
    check(cairn_version_info(s, NAME, at, &info), "restart");
    if (b->rank == 0)
        printf("goes on at step %lld on %d ranks; the checkpoint is of %d ranks\n", (long long)at,
               b->ranks, (int)info.ranks);
    return at;
}

/* Waits until the checkpoints of this run are committed. Shows how long the slowest rank waited
 * for each, and the time until it was safe on the file system. */
static void report(cairn_session *s, const struct block *b, int64_t from, const struct options *o)
{
    int64_t v;

    check(cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "waiting for the checkpoints");
    if (b->rank == 0)
        printf("%10s %10s %16s %16s\n", "checkpoint", "MiB", "rank waited, ms", "committed, ms");
    for (v = from / o->every * o->every + o->every; v <= o->steps; v += o->every) {
        struct cairn_stats st = {.size = sizeof(st)};
        double mine[3];
        double max[3];
        double mib;

        check(cairn_stats(s, NAME, v, &st), "statistics");
        mine[0] = st.copy_seconds + st.blocked_seconds;
        mine[1] = st.persistent_seconds;
        mine[2] = (double)st.bytes / (1 << 20);
        MPI_Reduce(mine, max, 2, MPI_DOUBLE, MPI_MAX, 0, b->comm);
        MPI_Reduce(&mine[2], &mib, 1, MPI_DOUBLE, MPI_SUM, 0, b->comm);
        if (b->rank == 0)
            printf("%10lld %10.1f %16.2f %16.2f\n", (long long)v, mib, max[0] * 1e3, max[1] * 1e3);
    }
}

/* The program. --------------------------------------------------------------------------------- */

static void nap(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
}

static void usage(void)
{
    die("usage", "heat [--size N] [--steps N] [--every N] [--out FILE] [--pace MS] [--hold STEP]");
}

static void parse(int argc, char **argv, struct options *o)
{
    int i;

    *o = (struct options){.n = 1024, .steps = 200, .every = 20, .hold = -1};
    for (i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];

        if (strcmp(argv[i], "--size") == 0)
            o->n = atoi(value);
        else if (strcmp(argv[i], "--steps") == 0)
            o->steps = atoll(value);
        else if (strcmp(argv[i], "--every") == 0)
            o->every = atoll(value);
        else if (strcmp(argv[i], "--hold") == 0)
            o->hold = atoll(value);
        else if (strcmp(argv[i], "--pace") == 0)
            o->pace_ms = atoi(value);
        else if (strcmp(argv[i], "--out") == 0)
            o->out = value;
        else
            usage();
    }
    if (i != argc || o->n < 1 || o->n > 32768 || o->steps < 0 || o->every < 0)
        usage();
}

int main(int argc, char **argv)
{
    struct options o;
    struct block b;
    cairn_session *s;
    int64_t from, i;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    parse(argc, argv, &o);
    block_make(&b, o.n);
    check(cairn_open_mpi(b.comm, NULL, &s), "open");
    from = restart(s, &b);
    for (i = from + 1; i <= o.steps; i++) {
        step(&b);
        if (o.every > 0 && i % o.every == 0) {
            protect(s, &b); /* t and next have changed places */
            check(cairn_checkpoint(s, NAME, i, NULL), "checkpoint");
        }
        if (o.pace_ms > 0)
            nap(o.pace_ms);
        while (i == o.hold)
            nap(1000);
    }
    if (o.every > 0)
        report(s, &b, from, &o);
    if (o.out != NULL)
        write_field(&b, o.out);
    check(cairn_close(s), "close");
    block_free(&b);
    MPI_Finalize();
    return 0;
}
