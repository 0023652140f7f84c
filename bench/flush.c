/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast a checkpoint of N ranks on C virtual nodes reaches K files, durably. Cairn's flush is
 * compared with the limit, which is plain pwrite of as many bytes by as many threads to K files,
 * and with the methods of programs without Cairn: a file per process, shared files, MPI-IO,
 * parallel HDF5. Each round runs all methods on the same data, beginning with another one each
 * time; the slowest rank counts.
 *
 * cairn-flush is the time from the moment when the last rank has captured its data. cairn-total
 * includes the capture; the other methods make their application wait for all of that. All
 * methods write new files: a flushed version is removed before the next method, and so are the
 * files of the others. With keep_last = 1, as in a long run, Cairn removes old versions itself
 * and reuses their files (-kept); limit-rewrite is the limit of that: pwrite to the files of the
 * round before.
 *
 * Started by the script bench/flush, which makes the directories and removes them. */
#include "flush.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cairn/cairn_mpi.h"
#include "common.h"
#include "store/store.h"

#define NAME        "bench"
#define MIB         ((uint64_t)1 << 20)
#define PAGE        4096
#define MAX_LISTED  8
#define MAX_METHODS 24
#define USAGE                                                                                      \
    "flush [--mib SIZE] [--percent P,...] [--files K,...] [--leaders L|auto,...] [--writers W]\n"  \
    "      [--ranks-per-node R] [--rounds N] [--methods NAME,...] [--label TEXT]\n"                \
    "      --dir DIR --shm DIR --run DIR\n"                                                        \
    "The limit and Cairn always run; of the other methods those named, or all."

struct list {
    uint32_t v[MAX_LISTED];
    size_t n;
};

struct cairn_way {
    uint32_t leaders; /* per file; 0: the default */
    int is_kept;      /* keep_last = 1: Cairn removes versions */
    cairn_session *session;
    int64_t version; /* the next */
    char root[560];
    char flush_name[40], total_name[40];
};

struct bench {
    struct flush_case c;
    int has_writers; /* the same for Cairn and the limit */
    uint64_t mib;
    struct list percents, files, leaders;
    size_t rounds;
    const char *label;
    const char *wanted; /* of the others, separated by commas; NULL: all */
    const char *shm, *run;
    uint32_t percent;
    struct cairn_way way[MAX_LISTED + 1];
    size_t nways;
    const struct flush_method *others[8]; /* the first is the limit */
    size_t nothers;
    const char *names[MAX_METHODS]; /* limit, the variants of Cairn, the others */
    int is_first;
};

void flush_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "flush: %s: %s\n", what, why);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(cairn_err rc, const char *what)
{
    if (rc != CAIRN_OK)
        flush_die(what, cairn_last_error());
}

/* Waits for all ranks without keeping a core busy: others may still be writing. */
static void quiet_barrier(void)
{
    struct timespec pause = {.tv_nsec = 200000};
    MPI_Request request;
    int done = 0;

    (void)MPI_Ibarrier(MPI_COMM_WORLD, &request);
    (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    while (!done) {
        (void)nanosleep(&pause, NULL);
        (void)MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
}

static double latest(double mine)
{
    double all;

    (void)MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* The data. --------------------------------------------------------------------------------------- */

/* Sizes spread evenly over +-percent, so that their sum is constant. */
static uint64_t size_of(const struct bench *b, int rank)
{
    int place = rank * 5 % b->c.ranks;
    double spread = b->c.ranks > 1 ? 2.0 * place / (b->c.ranks - 1) - 1 : 0;

    if (b->c.ranks % 5 == 0)
        spread = b->c.ranks > 1 ? 2.0 * rank / (b->c.ranks - 1) - 1 : 0;
    return (uint64_t)((double)(b->mib * MIB) * (1 + spread * b->percent / 100)) & ~(uint64_t)7;
}

/* Each page has another number in each round, so stale bytes are detected. */
static void stamp(struct flush_case *c, size_t round)
{
    uint64_t at;

    for (at = 0; at + sizeof(at) <= c->bytes; at += PAGE) {
        uint64_t word = at * 31 + round * 1000003 + (uint64_t)c->rank;

        memcpy(c->src + at, &word, sizeof(word));
    }
}

/* Groups of ranks, as in Cairn: nodes that share a file are neighbours, and so are ranks of a
 * node. */
static int group_of(const struct flush_case *c, int rank)
{
    int nodes = (c->ranks + c->ranks_per_node - 1) / c->ranks_per_node;
    int node = rank / c->ranks_per_node;

    return (int)((int64_t)node * (int)c->files / nodes);
}

static void set_data(struct bench *b)
{
    struct flush_case *c = &b->c;
    int r;

    c->bytes = size_of(b, c->rank);
    c->total = c->group_offset = c->group_bytes = 0;
    c->group_no = group_of(c, c->rank);
    for (r = 0; r < c->ranks; r++) {
        uint64_t n = size_of(b, r);

        c->total += n;
        c->group_bytes += group_of(c, r) == c->group_no ? n : 0;
        c->group_offset += group_of(c, r) == c->group_no && r < c->rank ? n : 0;
    }
    (void)MPI_Comm_split(MPI_COMM_WORLD, c->group_no, c->rank, &c->group);
    (void)MPI_Comm_rank(c->group, &c->group_rank);
    c->src = malloc(c->bytes);
    if (c->src == NULL)
        flush_die("memory", "there is not enough");
    memset(c->src, 0x5a, c->bytes);
}

/* Cairn. ------------------------------------------------------------------------------------------ */

static cairn_session *open_session(struct bench *b, struct cairn_way *w)
{
    struct flush_case *c = &b->c;
    char persistent[600], arena[64], shm[600], run[600], nodes[64], files[64], writers[64];
    char leaders[64];
    const char *settings[] = {persistent, arena,   shm,           run,        nodes,
                              files,      writers, "keep_last=1", "fresh=on", NULL};
    struct cairn_options options = {.size = sizeof(options), .settings = settings};
    uint64_t arena_bytes = b->mib * MIB * (100 + b->percent) / 100 + MIB; /* the largest image */
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s", w->root);
    (void)snprintf(arena, sizeof(arena), "arena_bytes=%" PRIu64, arena_bytes);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->shm);
    (void)snprintf(run, sizeof(run), "run_dir=%s", b->run);
    (void)snprintf(nodes, sizeof(nodes), "ranks_per_node=%d", c->ranks_per_node);
    (void)snprintf(files, sizeof(files), "files=%" PRIu32, c->files);
    (void)snprintf(writers, sizeof(writers), "writers=auto");
    if (b->has_writers)
        (void)snprintf(writers, sizeof(writers), "writers=%" PRIu32, c->writers);
    (void)snprintf(leaders, sizeof(leaders), "leaders_per_file=%" PRIu32, w->leaders);
    if (!w->is_kept)
        settings[7] = w->leaders != 0 ? leaders : NULL;
    check(cairn_open_mpi(MPI_COMM_WORLD, &options, &s), "open");
    return s;
}

static void begin_way(struct bench *b, struct cairn_way *w)
{
    char suffix[24] = "";
    int i;

    if (w->is_kept)
        (void)snprintf(suffix, sizeof(suffix), "-kept");
    else if (w->leaders != 0)
        (void)snprintf(suffix, sizeof(suffix), "-leaders%" PRIu32, w->leaders);
    (void)snprintf(w->flush_name, sizeof(w->flush_name), "cairn-flush%s", suffix);
    (void)snprintf(w->total_name, sizeof(w->total_name), "cairn-total%s", suffix);
    (void)snprintf(w->root, sizeof(w->root), "%s/cairn%s", b->c.dir, suffix);
    w->version = 0;
    w->session = open_session(b, w);
    check(cairn_protect(w->session, "data", b->c.src, CAIRN_BYTES, b->c.bytes), "protect");
    for (i = 0; w->is_kept && i < 2; i++) { /* until there is an old version */
        check(cairn_checkpoint(w->session, NAME, w->version, NULL), "checkpoint");
        check(cairn_wait(w->session, NAME, w->version++, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG),
              "flush");
    }
}

/* One rank. */
static void remove_version(const struct cairn_way *w, int64_t version)
{
    struct crn_errinfo ei = {0};
    struct crn_store st;

    if (crn_store_open(crn_fs_default(), w->root, 0, &st, &ei) != CAIRN_OK ||
        crn_store_remove(&st, NAME, version, &ei) != CAIRN_OK)
        flush_die("remove a version", ei.msg);
    crn_store_close(&st);
}

/* Leaves the last version for check_way. */
static void run_way(struct bench *b, struct cairn_way *w, int is_last, double *ret_flush,
                    double *ret_total)
{
    double start, captured, end;

    quiet_barrier();
    start = bench_now();
    check(cairn_checkpoint(w->session, NAME, w->version, NULL), "checkpoint");
    captured = bench_now();
    check(cairn_wait(w->session, NAME, w->version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), "flush");
    end = bench_now();
    quiet_barrier();
    *ret_flush = latest(end) - latest(captured); /* one machine, one clock */
    *ret_total = latest(end - start);
    if (b->c.rank == 0 && !is_last && !w->is_kept)
        remove_version(w, w->version);
    w->version++;
}

/* A new session has nothing in memory, so it restores from the files. */
static void end_way(struct bench *b, struct cairn_way *w)
{
    unsigned char *got = calloc(1, b->c.bytes);
    cairn_session *s;

    check(cairn_close(w->session), "close");
    if (got == NULL)
        flush_die("memory", "there is not enough");
    s = open_session(b, w);
    check(cairn_protect(s, "data", got, CAIRN_BYTES, b->c.bytes), "protect");
    check(cairn_restore(s, NAME, w->version - 1, NULL), "restore");
    flush_compare(&b->c, got, 0, b->c.bytes, w->flush_name);
    check(cairn_close(s), "close");
    free(got);
    if (b->c.rank == 0)
        remove_version(w, w->version - 1);
}

/* The others. ------------------------------------------------------------------------------------- */

/* Removes the plain files of the directory, or all but those that are reused. One rank. */
static void remove_files(const struct flush_case *c, int is_all)
{
    DIR *d = opendir(c->dir);
    const struct dirent *e;

    if (d == NULL)
        flush_die(c->dir, "cannot be listed");
    while ((e = readdir(d)) != NULL)
        if (e->d_type == DT_REG &&
            (is_all || strncmp(e->d_name, FLUSH_KEPT, strlen(FLUSH_KEPT)) != 0))
            flush_check_errno(unlinkat(dirfd(d), e->d_name, 0), "remove a file");
    (void)closedir(d);
}

static double run_other(struct bench *b, const struct flush_method *m, int is_last)
{
    double start, mine;

    quiet_barrier();
    start = bench_now();
    m->write(&b->c);
    mine = bench_now() - start;
    quiet_barrier();
    if (is_last)
        m->check(&b->c);
    mine = latest(mine);
    if (b->c.rank == 0)
        remove_files(&b->c, is_last);
    return mine;
}

/* A case. ----------------------------------------------------------------------------------------- */

/* Methods in the order of names: the limit, two for each way, the others. */
static void run_round(struct bench *b, struct bench_case *bc, size_t round, int is_last)
{
    size_t runs = b->nways + b->nothers;
    size_t i;

    stamp(&b->c, round);
    for (i = 0; i < runs; i++) {
        size_t r = (round + i) % runs;

        if (r < b->nways)
            run_way(b, &b->way[r], is_last, bench_time(bc, round, 1 + 2 * r),
                    bench_time(bc, round, 2 + 2 * r));
        else if (r == b->nways)
            *bench_time(bc, round, 0) = run_other(b, b->others[0], is_last);
        else
            *bench_time(bc, round, b->nways + r) = run_other(b, b->others[r - b->nways], is_last);
    }
}

static void describe(const struct bench *b, char *buf, size_t size)
{
    const struct flush_case *c = &b->c;

    (void)snprintf(buf, size,
                   "%s, %d ranks, %d nodes, %" PRIu64 " MiB +-%" PRIu32 " %%, K=%" PRIu32, b->label,
                   c->ranks, (c->ranks + c->ranks_per_node - 1) / c->ranks_per_node, b->mib,
                   b->percent, c->files);
}

static void begin_case(struct bench *b)
{
    size_t i;

    set_data(b);
    b->nways = b->leaders.n + 1;
    for (i = 0; i < b->nways; i++) {
        b->way[i].is_kept = i == b->leaders.n;
        b->way[i].leaders = b->way[i].is_kept ? 0 : b->leaders.v[i];
        begin_way(b, &b->way[i]);
        b->names[1 + 2 * i] = b->way[i].flush_name;
        b->names[2 + 2 * i] = b->way[i].total_name;
    }
    b->names[0] = b->others[0]->name;
    for (i = 1; i < b->nothers; i++)
        b->names[2 * b->nways + i] = b->others[i]->name;
}

static void end_case(struct bench *b)
{
    size_t i;

    for (i = 0; i < b->nways; i++)
        end_way(b, &b->way[i]);
    (void)MPI_Comm_free(&b->c.group);
    free(b->c.src);
}

static void run_case(struct bench *b)
{
    char name[200];
    struct bench_case bc = {.bench = "flush",
                            .name = name,
                            .methods = b->names,
                            .nmethods = b->nothers + 2 * (b->leaders.n + 1),
                            .rounds = b->rounds};
    size_t i;

    if (bench_case_init(&bc) < 0)
        flush_die("memory", "there is not enough");
    begin_case(b);
    bc.bytes = b->c.total;
    describe(b, name, sizeof(name));
    run_round(b, &bc, 0, 0); /* warms up; overwritten */
    for (i = 0; i < bc.rounds; i++)
        run_round(b, &bc, i, i + 1 == bc.rounds);
    end_case(b);
    if (b->c.rank == 0 && b->is_first)
        bench_header(&bc);
    if (b->c.rank == 0 && bench_report(&bc) < 0)
        flush_die("standard output", "cannot be written");
    b->is_first = 0;
    bench_case_fini(&bc);
}

/* The program. ------------------------------------------------------------------------------------ */

static void parse_list(const char *text, struct list *ret)
{
    char *end;

    for (ret->n = 0; ret->n < MAX_LISTED; text = end + 1) {
        int is_auto = strncmp(text, "auto", strlen("auto")) == 0;

        ret->v[ret->n++] = (uint32_t)strtoul(is_auto ? "0" : text, &end, 10);
        if (is_auto)
            end = (char *)(uintptr_t)text + strlen("auto");
        if (end == text || (*end != ',' && *end != '\0'))
            flush_die("usage", USAGE);
        if (*end == '\0')
            return;
    }
}

static void parse_one(const char *option, const char *value, struct bench *b)
{
    if (strcmp(option, "--dir") == 0)
        b->c.dir = value;
    else if (strcmp(option, "--shm") == 0)
        b->shm = value;
    else if (strcmp(option, "--run") == 0)
        b->run = value;
    else if (strcmp(option, "--methods") == 0)
        b->wanted = value;
    else if (strcmp(option, "--label") == 0)
        b->label = value;
    else if (strcmp(option, "--mib") == 0)
        b->mib = strtoull(value, NULL, 10);
    else if (strcmp(option, "--rounds") == 0)
        b->rounds = strtoul(value, NULL, 10);
    else if (strcmp(option, "--writers") == 0) {
        b->c.writers = (uint32_t)strtoul(value, NULL, 10);
        b->has_writers = 1;
    } else if (strcmp(option, "--ranks-per-node") == 0)
        b->c.ranks_per_node = (int)strtol(value, NULL, 10);
    else if (strcmp(option, "--percent") == 0)
        parse_list(value, &b->percents);
    else if (strcmp(option, "--files") == 0)
        parse_list(value, &b->files);
    else if (strcmp(option, "--leaders") == 0)
        parse_list(value, &b->leaders);
    else
        flush_die("usage", USAGE);
}

static void parse(int argc, char **argv, struct bench *b)
{
    int i;

    for (i = 1; i + 1 < argc; i += 2)
        parse_one(argv[i], argv[i + 1], b);
    if (i != argc || b->c.dir == NULL || b->shm == NULL || b->run == NULL || b->rounds == 0 ||
        b->c.writers < 1 || b->c.writers > 64 || b->c.ranks_per_node < 1 || b->mib == 0)
        flush_die("usage", USAGE);
}

/* The limits stay. */
static void choose_others(struct bench *b)
{
    size_t i, n = 2;

    for (i = 2; i < b->nothers; i++)
        if (bench_is_named(b->wanted, b->others[i]->name))
            b->others[n++] = b->others[i];
    b->nothers = n;
}

int main(int argc, char **argv)
{
    struct bench b = {.c = {.ranks_per_node = 2, .writers = 2},
                      .mib = 128,
                      .percents = {{0, 20}, 2},
                      .files = {{1, 2, 4}, 3},
                      .leaders = {{0, 1}, 2},
                      .rounds = 5,
                      .label = "disk",
                      .others = {&flush_limit, &flush_rewrite, &flush_posix_ranks,
                                 &flush_posix_shared, &flush_mpiio_independent,
                                 &flush_mpiio_collective},
                      .nothers = 6,
                      .is_first = 1};
    size_t p, k;
    int level;

    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &b.c.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &b.c.ranks);
    parse(argc, argv, &b);
#ifdef BENCH_HAVE_PHDF5
    b.others[b.nothers++] = &flush_hdf5;
#endif
    choose_others(&b);
    for (k = 0; k < b.files.n; k++)
        for (p = 0; p < b.percents.n; p++) {
            b.c.files = b.files.v[k];
            b.percent = b.percents.v[p];
            run_case(&b);
        }
    (void)MPI_Finalize();
    return 0;
}
