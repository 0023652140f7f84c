/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart reads every byte of the data files once, however many ranks wrote and read them. Every
 * read of this process is in a file (CAIRN_FAULT_READS); the reads of all ranks are laid over the
 * data files and counted. What MPI is asked for meanwhile is counted too, through its profiling interface: no
 * collective, which would keep a core busy for each rank that waits, and no data between ranks of a node.
 * usage: once FILES */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_test.h"

enum { WRITERS = 6, ROWS = 301, COLS = 512, BLOCK = 256 << 10, FILES_MAX = 8 };

static int world_rank, world_ranks;
static char dir[200], reads_path[300], files_key[32];

static cairn_session *open_on(MPI_Comm comm)
{
    char persistent[300], shm[300];
    const char *settings[] = {persistent,       shm,        "log_level=error",  "block_bytes=256K",
                              "chunk_bytes=8K", "blocks=3", "ranks_per_node=2", files_key,
                              "read_threads=3", NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", dir);
    OK(cairn_open_mpi(comm, &opt, &s));
    return s;
}

/* What this process asks of MPI. */
enum { BULK = 32 << 10 }; /* larger than any message of a restart that is no data */
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

/* The field is cut into rows by writers, into columns by others. */
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

/* Uneven, one rank without, one with more than a block. */
static uint64_t own_count(int rank)
{
    return rank == 1 ? 0 : rank == 4 ? 100000 : 1000 + 777 * (uint64_t)rank;
}

static void write_on(MPI_Comm comm, int64_t version)
{
    uint64_t *field = malloc(ROWS * COLS * sizeof(*field));
    uint64_t *own = malloc(100000 * sizeof(*own));
    struct cairn_array a;
    cairn_session *s;
    uint64_t i, j;
    int rank, ranks;

    (void)MPI_Comm_rank(comm, &rank);
    (void)MPI_Comm_size(comm, &ranks);
    a = block(1, rank, ranks);
    for (i = 0; i < a.dims[0]; i++)
        for (j = 0; j < COLS; j++)
            field[i * COLS + j] = pattern((uint64_t)version, a.offset[0] + i, j);
    fill(own, own_count(rank), (uint64_t)version, (uint64_t)rank);
    s = open_on(comm);
    OK(cairn_protect_array(s, "field", field, &a));
    OK(cairn_protect(s, "own", own, CAIRN_U64, own_count(rank)));
    OK(cairn_checkpoint(s, "grid", version, NULL));
    OK(cairn_close(s));
    free(field);
    free(own);
}

static void read_on(MPI_Comm comm, int64_t version, int in_two_steps)
{
    uint64_t *field = calloc(ROWS * COLS, sizeof(*field));
    uint64_t *own = calloc(100000, sizeof(*own));
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
        OK(cairn_find(s, "grid", CAIRN_NEWEST, &v));
        OK(cairn_restore(s, "grid", v, NULL));
    } else {
        OK(cairn_restart(s, "grid", NULL, &v));
    }
    REQUIRE(v == version);
    REQUIRE(collectives == before);
    /* With a file for each node all data stays on it. */
    REQUIRE(ranks != WRITERS || strcmp(files_key, "files=3") != 0 || bulk_bytes == 0);
    for (i = 0; i < a.dims[0]; i++)
        for (j = 0; j < a.dims[1]; j++)
            REQUIRE(field[i * a.dims[1] + j] ==
                    pattern((uint64_t)version, a.offset[0] + i, a.offset[1] + j));
    REQUIRE(ranks != WRITERS || holds(own, own_count(rank), (uint64_t)version, (uint64_t)rank));
    OK(cairn_close(s));
    free(field);
    free(own);
}

/* What this process has read since the last call: of data file i how often each byte, in how many
 * reads, and the manifest how often. */
struct reads {
    long where; /* in the file of reads */
    unsigned *count[FILES_MAX];
    long bytes[FILES_MAX];
    long reads, manifests;
};

static void take_reads(struct reads *r)
{
    FILE *f = fopen(reads_path, "re");
    long long off, n, k;
    char path[400];
    int file;

    REQUIRE(f != NULL && fseek(f, r->where, SEEK_SET) == 0);
    while (fscanf(f, "%lld %lld %399s", &off, &n, path) == 3) {
        const char *base = strrchr(path, '/');

        if (base == NULL || strncmp(path, dir, strlen(dir)) != 0)
            continue;
        r->manifests += strcmp(base, "/manifest") == 0;
        if (strncmp(base, "/data-", 6) != 0)
            continue;
        file = (int)strtol(base + 6, NULL, 10);
        REQUIRE(file < FILES_MAX && off + n <= r->bytes[file]);
        r->reads++;
        for (k = off; k < off + n; k++)
            r->count[file][k]++;
    }
    r->where = ftell(f);
    (void)fclose(f);
}

static void size_files(struct reads *r, int64_t version, int files)
{
    char path[300];
    struct stat st;
    int i;

    r->reads = r->manifests = 0;
    for (i = 0; i < files; i++) {
        (void)snprintf(path, sizeof(path), "%s/p/grid/%lld/data-%04d", dir, (long long)version, i);
        REQUIRE(stat(path, &st) == 0);
        r->bytes[i] = st.st_size;
        r->count[i] = calloc((size_t)st.st_size, sizeof(*r->count[i]));
    }
}

/* Every byte at most once, all but the gaps that align blocks exactly once, in large reads. */
static void once(MPI_Comm comm, struct reads *r, int files, int ranks)
{
    long total = 0, missed = 0, reads = 0;
    long k;
    int i, rank;

    take_reads(r);
    (void)MPI_Comm_rank(comm, &rank);
    REQUIRE(rank == 0 || r->manifests == 0);
    (void)MPI_Reduce(&r->reads, &reads, 1, MPI_LONG, MPI_SUM, 0, comm);
    for (i = 0; i < files; i++) {
        (void)MPI_Reduce(rank == 0 ? MPI_IN_PLACE : r->count[i], r->count[i], (int)r->bytes[i],
                         MPI_UNSIGNED, MPI_SUM, 0, comm);
        for (k = 0; rank == 0 && k < r->bytes[i]; k++) {
            REQUIRE(r->count[i][k] <= 1);
            missed += r->count[i][k] == 0;
        }
        total += r->bytes[i];
        free(r->count[i]);
    }
    if (rank != 0)
        return;
    REQUIRE(missed * 100 < total);
    /* Trailer and index of each file, and twice what the blocks need: both ends of an extent. Encoded
     * files are read in chunks of their streams. */
    if (getenv("CAIRN_ENCODE") == NULL)
        REQUIRE(reads <= 2 * files + 2 * (total / BLOCK + files + WRITERS) + ranks);
    (void)printf("%d files, %d ranks: %ld bytes, each read once, in %ld reads\n", files, ranks,
                 total, reads);
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
    struct reads r = {0};
    char path[300];
    MPI_Comm comm;
    int level;
    int i;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
    REQUIRE(world_ranks == 8 && files <= FILES_MAX);
    shared_dir(dir, sizeof(dir));
    (void)snprintf(files_key, sizeof(files_key), "files=%d", files);
    (void)snprintf(reads_path, sizeof(reads_path), "%s/reads-%d", dir, world_rank);
    REQUIRE(setenv("CAIRN_FAULT_READS", reads_path, 1) == 0);

    comm = part_of_world(WRITERS);
    for (i = 1; i <= 2 && comm != MPI_COMM_NULL; i++)
        write_on(comm, i);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 5; i++) {
        MPI_Comm readers = part_of_world(sizes[i]);

        if (readers != MPI_COMM_NULL) {
            size_files(&r, 2, files);
            read_on(readers, 2, i % 2);
            once(readers, &r, files, sizes[i]);
            (void)MPI_Comm_free(&readers);
        }
        (void)MPI_Barrier(MPI_COMM_WORLD);
    }
    /* Damage of any byte that was read makes all ranks take the version before. */
    (void)snprintf(path, sizeof(path), "%s/p/grid/2/data-0000", dir);
    if (world_rank == 0)
        flip(path, 40000);
    (void)MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < 5; i++) {
        MPI_Comm readers = part_of_world(sizes[i]);

        if (readers != MPI_COMM_NULL) {
            read_on(readers, 1, i % 2);
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
