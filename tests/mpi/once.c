/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart reads every byte of the data files once, however many ranks wrote and read them. A
 * file records every read of this process (CAIRN_FAULT_READS). The test counts the reads of all
 * ranks per byte of the data files: of the version, and of those that it was encoded against. It
 * also counts MPI calls, through the profiling interface: no collective, which would keep a core
 * busy for each waiting rank, and no data between ranks of a node.
 *
 * usage: once FILES [LAST FULL]: versions 1 to LAST are taken; the last one needs FULL, which
 * needs none */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_test.h"

enum { WRITERS = 6, ROWS = 301, COLS = 512, BLOCK = 256 << 10, FILES_MAX = 8, LAST_MAX = 8 };
enum { OWN_MAX = 100000 };

static int world_rank, world_ranks;
static char dir[200], reads_path[300], files_key[32];

static cairn_session *open_on(MPI_Comm comm)
{
    const char *settings[] = {"log_level=error",
                              "block_bytes=256K",
                              "chunk_bytes=8K",
                              "blocks=3",
                              "ranks_per_node=2",
                              files_key,
                              NULL};

    return open_below(comm, dir, settings, NULL);
}

/* The MPI calls of this process. */
enum { BULK = 32 << 10 }; /* larger than any message of a restart without data */
static long collectives, bulk_bytes;

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    collectives++;
    return PMPI_Allreduce(in, out, n, type, op, comm);
}

int MPI_Bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm)
{
    collectives++;
    return PMPI_Bcast(buf, n, type, root, comm);
}

int MPI_Allgather(const void *in, int n, MPI_Datatype type, void *out, int m, MPI_Datatype to,
                  MPI_Comm comm)
{
    collectives++;
    return PMPI_Allgather(in, n, type, out, m, to, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    collectives++;
    return PMPI_Barrier(comm);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *ret)
{
    collectives++;
    return PMPI_Comm_split(comm, color, key, ret);
}

int MPI_Isend(const void *buf, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *ret)
{
    if (n > BULK)
        bulk_bytes += n;
    return PMPI_Isend(buf, n, type, to, tag, comm, ret);
}

/* Writers split the field into rows, readers into columns. */
static struct cairn_array block(int by_rows, int i, int k)
{
    struct cairn_array a = {.size = sizeof(a), .type = CAIRN_U64, .ndims = 2};
    uint64_t n = by_rows ? ROWS : COLS;
    int d = by_rows ? 0 : 1;

    a.global_dims[0] = a.dims[0] = ROWS;
    a.global_dims[1] = a.dims[1] = COLS;
    a.offset[d] = n * (uint64_t)i / (uint64_t)k;
    a.dims[d] = n * (uint64_t)(i + 1) / (uint64_t)k - a.offset[d];
    return a;
}

/* Uneven sizes, one rank with none, one with more than a block. */
static uint64_t own_count(int rank)
{
    return rank == 1 ? 0 : rank == 4 ? 100000 : 1000 + 777 * (uint64_t)rank;
}

/* Noise that differs little from version to version. */
static uint64_t value(int64_t version, uint64_t rank, uint64_t i)
{
    return pattern(7, rank, i) + (uint64_t)version * 3;
}

/* All versions in one session: only there can one be encoded against another. */
static void write_on(MPI_Comm comm, int64_t last)
{
    uint64_t *field = malloc(ROWS * COLS * sizeof(*field));
    uint64_t *own = malloc(OWN_MAX * sizeof(*own));
    struct cairn_array a;
    cairn_session *s;
    int64_t version;
    uint64_t i, j;
    int rank, ranks;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    a = block(1, rank, ranks);
    s = open_on(comm);
    OK(cairn_protect_array(s, "field", field, &a));
    OK(cairn_protect(s, "own", own, CAIRN_U64, own_count(rank)));
    for (version = 1; version <= last; version++) {
        for (i = 0; i < a.dims[0]; i++)
            for (j = 0; j < COLS; j++)
                field[i * COLS + j] = value(version, a.offset[0] + i, j);
        for (i = 0; i < own_count(rank); i++)
            own[i] = value(version, 1000 + (uint64_t)rank, i);
        OK(cairn_checkpoint(s, "grid", version, NULL));
        OK(cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG));
    }
    OK(cairn_close(s));
    free(field);
    free(own);
}

/* Finds, and restores alone. Ranks that meet damage reject the version, and all look again. */
static int64_t read_alone(MPI_Comm comm, cairn_session *s)
{
    int64_t v = -1;
    int bad = 1;
    cairn_err rc;

    while (bad) {
        OK(cairn_find(s, "grid", CAIRN_NEWEST, &v));
        rc = cairn_restore(s, "grid", v, NULL);
        REQUIRE(rc == CAIRN_OK ||
                (rc == CAIRN_EDAMAGED && strstr(cairn_last_error(), "undefined") != NULL));
        bad = rc != CAIRN_OK;
        if (bad)
            OK(cairn_reject(s, "grid", v, "damaged"));
        (void)MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, comm);
    }
    return v;
}

/* Does the kernel let processes of one user write into each other's memory? */
static int may_write_to_mates(void)
{
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = f != NULL ? fgetc(f) : '0';

    if (f != NULL)
        (void)fclose(f);
    return scope == '0' || geteuid() == 0;
}

static void read_on(MPI_Comm comm, int64_t version, int in_two_steps)
{
    uint64_t *field = calloc(ROWS * COLS, sizeof(*field));
    uint64_t *own = calloc(OWN_MAX, sizeof(*own));
    struct cairn_array a;
    cairn_session *s;
    uint64_t i, j;
    int64_t v = -1;
    int rank, ranks;
    long before;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    a = block(ranks == WRITERS, rank, ranks);
    s = open_on(comm);
    OK(cairn_protect_array(s, "field", field, &a));
    if (ranks == WRITERS)
        OK(cairn_protect(s, "own", own, CAIRN_U64, own_count(rank)));
    before = collectives;
    bulk_bytes = 0;
    if (in_two_steps) {
        v = read_alone(comm, s);
    } else {
        OK(cairn_restart(s, "grid", NULL, &v));
        REQUIRE(collectives == before);
        /* With a file for each node all data stays on it. */
        REQUIRE(ranks != WRITERS || strcmp(files_key, "files=3") != 0 || bulk_bytes == 0 ||
                !may_write_to_mates());
    }
    REQUIRE(v == version);
    for (i = 0; i < a.dims[0]; i++)
        for (j = 0; j < a.dims[1]; j++)
            REQUIRE(field[i * a.dims[1] + j] == value(version, a.offset[0] + i, a.offset[1] + j));
    for (i = 0; ranks == WRITERS && i < own_count(rank); i++)
        REQUIRE(own[i] == value(version, 1000 + (uint64_t)rank, i));
    OK(cairn_close(s));
    free(field);
    free(own);
}

static void verify_on(MPI_Comm comm, int64_t version, cairn_err expect)
{
    cairn_session *s = open_on(comm);

    REQUIRE(cairn_verify(s, "grid", version) == expect);
    OK(cairn_close(s));
}

/* The reads of this process since the last call: how often each byte of each data file of a
 * version, in how many reads, and how often manifests. */
struct reads {
    long where; /* in the file of reads */
    unsigned *count[LAST_MAX][FILES_MAX];
    long bytes[LAST_MAX][FILES_MAX];
    long reads, manifests;
};

static void take_reads(struct reads *r)
{
    FILE *f = fopen(reads_path, "re");
    long long off, n, k;
    char path[400];
    int version, file;

    REQUIRE(f != NULL && fseek(f, r->where, SEEK_SET) == 0);
    while (fscanf(f, "%lld %lld %399s", &off, &n, path) == 3) {
        const char *base = strrchr(path, '/');

        if (base == NULL || strncmp(path, dir, strlen(dir)) != 0)
            continue;
        r->manifests += strcmp(base, "/manifest") == 0;
        if (strncmp(base, "/data-", 6) != 0)
            continue;
        file = (int)strtol(base + 6, NULL, 10);
        version = base[-1] - '0';
        REQUIRE(version < LAST_MAX && file < FILES_MAX && off + n <= r->bytes[version][file]);
        r->reads++;
        for (k = off; k < off + n; k++)
            r->count[version][file][k]++;
    }
    (void)fclose(f);
}

/* Discards earlier reads: writers read the versions that they encode against. */
static void size_files(struct reads *r, int last, int files)
{
    char path[300];
    struct stat st;
    int v, i;

    r->reads = r->manifests = 0;
    r->where = stat(reads_path, &st) == 0 ? (long)st.st_size : 0;
    for (v = 1; v <= last; v++)
        for (i = 0; i < files; i++) {
            (void)snprintf(path, sizeof(path), "%s/p/grid/%d/data-%04d", dir, v, i);
            REQUIRE(stat(path, &st) == 0);
            r->bytes[v][i] = st.st_size;
            r->count[v][i] = calloc((size_t)st.st_size, sizeof(*r->count[v][i]));
        }
}

/* Every byte of a data file at most once. Returns the number of bytes, and of unread bytes. */
static void once_each(MPI_Comm comm, unsigned *count, long bytes, long *total, long *missed)
{
    int rank;
    long k;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Reduce(rank == 0 ? MPI_IN_PLACE : count, count, (int)bytes, MPI_UNSIGNED, MPI_SUM, 0,
                     comm);
    for (k = 0; rank == 0 && k < bytes; k++) {
        REQUIRE(count[k] <= 1);
        *missed += count[k] == 0;
    }
    *total += bytes;
    free(count);
}

/* Of the full version that the last one needs, each byte that is wanted exactly once except gaps for
 * alignment, in large reads; of versions between them some bytes (they are mostly gaps); of earlier ones
 * none. */
static void once(MPI_Comm comm, struct reads *r, int last, int full, int files, int ranks)
{
    long total[3] = {0}, missed[3] = {0};
    long reads = 0;
    long own = 0;
    int v, i, rank;

    take_reads(r);
    (void)MPI_Comm_rank(comm, &rank);
    REQUIRE(rank == 0 || r->manifests == 0);
    (void)MPI_Reduce(&r->reads, &reads, 1, MPI_LONG, MPI_SUM, 0, comm);
    for (v = 1; v <= last; v++)
        for (i = 0; i < files; i++) {
            int kind = v < full ? 0 : v == full ? 1 : 2;

            once_each(comm, r->count[v][i], r->bytes[v][i], &total[kind], &missed[kind]);
        }
    if (rank != 0)
        return;
    for (i = 0; ranks != WRITERS && i < WRITERS; i++) /* nobody wants it */
        own += (long)own_count(i) * (long)sizeof(uint64_t);
    REQUIRE(missed[0] == total[0] && (missed[1] - own) * 100 < total[1]);
    REQUIRE(last == full || missed[2] < total[2]);
    /* Trailer and index of each file, and twice the number of the blocks: both ends of an
     * extent. Encoded files are read in chunks of their streams. */
    if (getenv("CAIRN_ENCODE") == NULL)
        REQUIRE(reads <= 2 * files + 2 * (total[1] / BLOCK + files + WRITERS) + ranks);
    (void)printf("%d files of %d versions, %d ranks: %ld bytes, each read once, in %ld reads\n",
                 files, last - full + 1, ranks, total[1] + total[2], reads);
}

static void flip(const char *path, long at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unsigned char c = 0;

    REQUIRE(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 1;
    REQUIRE(pwrite(fd, &c, 1, at) == 1 && close(fd) == 0);
}

static MPI_Comm part_of_world(int n)
{
    MPI_Comm comm;

    (void)MPI_Comm_split(MPI_COMM_WORLD, world_rank < n ? 0 : MPI_UNDEFINED, world_rank, &comm);
    return comm;
}

int main(int argc, char **argv)
{
    static const int sizes[] = {6, 4, 3, 8, 1};
    int files = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    int last = argc > 3 ? (int)strtol(argv[2], NULL, 10) : 2;
    int full = argc > 3 ? (int)strtol(argv[3], NULL, 10) : last;
    struct reads r = {0};
    char path[300];
    MPI_Comm comm;
    int level;
    int i;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    REQUIRE(world_ranks == 8 && files <= FILES_MAX && last < LAST_MAX);
    shared_dir(dir, sizeof(dir));
    (void)snprintf(files_key, sizeof(files_key), "files=%d", files);
    (void)snprintf(reads_path, sizeof(reads_path), "%s/reads-%d", dir, world_rank);
    REQUIRE(setenv("CAIRN_FAULT_READS", reads_path, 1) == 0);

    comm = part_of_world(WRITERS);
    if (comm != MPI_COMM_NULL)
        write_on(comm, last);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 5; i++) {
        MPI_Comm readers = part_of_world(sizes[i]);

        if (readers != MPI_COMM_NULL) {
            size_files(&r, last, files);
            read_on(readers, last, 0);
            once(readers, &r, last, full, files, sizes[i]);
            verify_on(readers, last, CAIRN_OK);
            read_on(readers, last, 1);
            (void)MPI_Comm_free(&readers);
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Damage of any byte that was read makes all ranks take the newest version that does not
     * need it. The last ranks reject those that do. */
    (void)snprintf(path, sizeof(path), "%s/p/grid/%d/data-0000", dir, full);
    if (world_rank == 0)
        flip(path, 40000);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 5; i++) {
        MPI_Comm readers = part_of_world(sizes[i]);

        if (readers != MPI_COMM_NULL) {
            verify_on(readers, last, CAIRN_EDAMAGED);
            read_on(readers, full - 1, i == 4);
            (void)MPI_Comm_free(&readers);
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
    if (comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(&comm);
    remove_dir(dir);
    (void)MPI_Finalize();
    return 0;
}
