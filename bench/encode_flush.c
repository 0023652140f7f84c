/* SPDX-License-Identifier: BSD-3-Clause */
/* encode_flush [--quick] [--threads N] [SET...]: the time of a whole flush (plan, encoding,
 * writing, index) with and without compression, to a file system of a given bandwidth. The file
 * system is memory whose writes take as long as they would at that bandwidth, over all threads.
 * A writer keeps its choice for a variable from round to round, as it does from version to
 * version. adaptive-against encodes against the step before, which is in memory
 * (encode_full_every). */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aggregate/engine.h"
#include "common.h"
#include "encode_sets.h"

enum { METHODS = 6 };

static const char *threads = "auto"; /* encode_threads */

static const struct {
    const char *encode, *aim, *full_every;
} how[METHODS] = {{"none", "ratio", "1"}, {"adaptive", "ratio", "1"}, {"adaptive", "time", "1"},
                  {"auto", "ratio", "1"}, {"adaptive", "ratio", "2"}, {"aware", "ratio", "1"}};
static const char *const names[METHODS] = {"none", "adaptive",         "adaptive-time",
                                           "auto", "adaptive-against", "paper-aware"};

struct slow_fs {
    struct crn_fs fs; /* first */
    pthread_mutex_t mu;
    double bandwidth;
    double free_at; /* mu: the time at which all bytes written so far have arrived */
};

static void check(cairn_err rc, const struct crn_errinfo *ei)
{
    if (rc == CAIRN_OK)
        return;
    (void)fprintf(stderr, "encode_flush: %s\n", ei->msg);
    exit(1);
}

static ssize_t slow_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    struct slow_fs *s = (struct slow_fs *)(uintptr_t)fs;
    const struct crn_fs *real = crn_fs_posix();
    ssize_t done = real->pwrite(real, fd, buf, n, off);
    double now = bench_now();
    double until;

    (void)pthread_mutex_lock(&s->mu);
    s->free_at = (s->free_at > now ? s->free_at : now) + (double)n / s->bandwidth;
    until = s->free_at;
    (void)pthread_mutex_unlock(&s->mu);
    while ((now = bench_now()) < until) {
        struct timespec pause = {.tv_sec = (time_t)(until - now)};

        pause.tv_nsec = (long)((until - now - (double)pause.tv_sec) * 1e9);
        (void)nanosleep(&pause, NULL);
    }
    return done;
}

/* A step of a set as sources in memory. */
static struct crn_source *make_sources(const struct bench_set *set, int step)
{
    struct crn_source *sources = calloc(set->ranks, sizeof(*sources));
    uint32_t rank, r;

    for (rank = 0; sources != NULL && rank < set->ranks; rank++) {
        const struct crn_shard *shard = &set->shards[rank];
        uint64_t *at = calloc(shard->nregions + (size_t)1, sizeof(*at));
        unsigned char *image;

        if (at == NULL)
            exit(1);
        for (r = 0; r < shard->nregions; r++)
            at[r + 1] = at[r] + shard->regions[r].bytes;
        image = malloc(at[shard->nregions] + 1);
        if (image == NULL)
            exit(1);
        for (r = 0; r < shard->nregions; r++)
            memcpy(image + at[r], bench_set_region(set, step, rank, r), shard->regions[r].bytes);
        sources[rank] =
            (struct crn_source){.shard = *shard, .at = at, .memory = image, .image_fd = -1};
    }
    return sources;
}

static void free_sources(struct crn_source *sources, uint32_t n)
{
    uint32_t i;

    for (i = 0; i < n; i++) {
        free((void *)(uintptr_t)sources[i].at);
        free((void *)(uintptr_t)sources[i].memory);
    }
    free(sources);
}

static struct crn_engine *open_engine(size_t method)
{
    struct crn_engine_options opt = {.blocks = 8,
                                     .block_bytes = (uint64_t)64 << 20,
                                     .chunk_bytes = (uint64_t)1 << 20,
                                     .align_bytes = 4096};
    struct crn_errinfo ei = {0};
    struct crn_engine *e;
    struct crn_config cfg;

    crn_config_defaults(&cfg);
    check(crn_config_set(&cfg, "encode", how[method].encode, "bench", &ei), &ei);
    check(crn_config_set(&cfg, "encode_aim", how[method].aim, "bench", &ei), &ei);
    check(crn_config_set(&cfg, "encode_full_every", how[method].full_every, "bench", &ei), &ei);
    check(crn_config_set(&cfg, "encode_threads", threads, "bench", &ei), &ei);
    opt.writers = crn_engine_configured(&cfg).writers;
    opt.may_join = crn_engine_configured(&cfg).may_join;
    check(crn_engine_open(&opt, &e, &ei), &ei);
    check(crn_engine_encode(e, &cfg, "bench", &ei), &ei);
    crn_config_fini(&cfg);
    return e;
}

/* The step before, on the file system and in memory. */
struct before {
    struct crn_source *sources;
    struct crn_index index;
    struct crn_base base;
    struct crn_older older;
};

static void write_before(struct crn_engine *e, const struct crn_store *st,
                         const struct bench_set *set, struct before *b)
{
    struct crn_index head = {
        .name = "bench", .version = 1, .files = 1, .ranks = set->ranks, .nodes = 1};
    struct crn_manifest_file file, described;
    struct crn_flush_stats stats;
    struct crn_errinfo ei = {0};

    b->sources = make_sources(set, 0);
    check(crn_engine_write(e, st, &head, b->sources, set->ranks, NULL, &file, &stats, &ei), &ei);
    crn_flush_stats_free(&stats);
    check(crn_store_describe_data(st, "bench", 1, file.name, &described, &b->index, &ei), &ei);
    crn_manifest_file_free(&described);
    b->base =
        (struct crn_base){.version = 1, .bytes = file.bytes, .index_hash = file.trailer.index_hash};
    memcpy(b->base.file, file.name, sizeof(file.name));
    b->older = (struct crn_older){
        .sources = b->sources, .index = &b->index, .bases = &b->base, .nbases = 1};
    crn_manifest_file_free(&file);
    crn_engine_against(e, &b->older);
}

static void free_before(const struct crn_store *st, const struct bench_set *set, struct before *b)
{
    struct crn_errinfo ei = {0};

    check(crn_store_discard_data(st, "bench", 1, b->base.file, &ei), &ei);
    crn_index_free(&b->index);
    free_sources(b->sources, set->ranks);
}

static double flush_once(struct crn_engine *e, const struct crn_store *st,
                         const struct bench_set *set, const struct crn_source *sources,
                         uint64_t *ret_bytes)
{
    struct crn_index head = {.name = "bench", .files = 1, .ranks = set->ranks, .nodes = 1};
    struct crn_flush_stats stats;
    struct crn_manifest_file file;
    struct crn_errinfo ei = {0};
    double begin = bench_now();
    double seconds;

    check(crn_engine_write(e, st, &head, sources, set->ranks, NULL, &file, &stats, &ei), &ei);
    seconds = bench_now() - begin;
    crn_flush_stats_free(&stats);
    *ret_bytes = file.bytes;
    check(crn_store_discard_data(st, "bench", 0, file.name, &ei), &ei);
    crn_manifest_file_free(&file);
    return seconds;
}

static void run_case(const struct bench_set *set, const struct crn_source *sources,
                     struct slow_fs *fs, const char *dir, const char *bandwidth, size_t rounds)
{
    struct crn_engine *engine[METHODS];
    struct before before[METHODS] = {0};
    uint64_t bytes[METHODS] = {0};
    struct crn_errinfo ei = {0};
    struct crn_store st;
    char name[80];
    struct bench_case c = {.bench = "encode_flush",
                           .name = name,
                           .bytes = set->bytes,
                           .methods = names,
                           .nmethods = METHODS,
                           .rounds = rounds};
    size_t round, i;

    (void)snprintf(name, sizeof(name), "%s, %s", set->name, bandwidth);
    check(crn_store_open(&fs->fs, dir, 1, &st, &ei), &ei);
    if (bench_case_init(&c) != 0)
        exit(1);
    for (i = 0; i < METHODS; i++) {
        engine[i] = open_engine(i);
        if (strcmp(how[i].full_every, "1") != 0)
            write_before(engine[i], &st, set, &before[i]);
    }
    for (round = 0; round < rounds; round++)
        for (i = 0; i < METHODS; i++) {
            size_t m = bench_turn(&c, round, i);

            *bench_time(&c, round, m) = flush_once(engine[m], &st, set, sources, &bytes[m]);
        }
    for (i = 0; i < METHODS; i++) {
        crn_engine_close(engine[i]);
        if (before[i].sources != NULL)
            free_before(&st, set, &before[i]);
        (void)fprintf(stderr, "%s, %s: 1/%.2f of the bytes\n", name, names[i],
                      (double)set->bytes / (double)bytes[i]);
    }
    bench_header(&c);
    if (bench_report(&c) != 0)
        exit(1);
    bench_case_fini(&c);
    crn_store_close(&st);
}

static void run_set(const char *name, const char *dir, int is_quick)
{
    static const struct {
        const char *name;
        double bytes;
    } bandwidth[] = {{"100 MB/s", 1e8}, {"1 GB/s", 1e9}, {"10 GB/s", 1e10}};
    struct bench_set *set = bench_set_make(name, is_quick ? 2 : 8);
    struct crn_source *sources = make_sources(set, 1);
    size_t i;

    for (i = 0; i < sizeof(bandwidth) / sizeof(bandwidth[0]); i++) {
        struct slow_fs fs = {.fs = *crn_fs_posix(), .bandwidth = bandwidth[i].bytes};

        fs.fs.pwrite = slow_pwrite;
        (void)pthread_mutex_init(&fs.mu, NULL);
        run_case(set, sources, &fs, dir, bandwidth[i].name, is_quick ? 3 : 7);
        (void)pthread_mutex_destroy(&fs.mu);
    }
    free_sources(sources, set->ranks);
    bench_set_free(set);
}

int main(int argc, char **argv)
{
    int is_quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    int first = is_quick ? 2 : 1;
    int has_threads = argc > first + 1 && strcmp(argv[first], "--threads") == 0;
    char dir[] = "/dev/shm/cairn-bench-XXXXXX";
    struct crn_errinfo ei = {0};
    size_t n, i;
    const char *const *sets = bench_set_names(&n);

    if (has_threads) {
        threads = argv[first + 1];
        first += 2;
    }
    if (mkdtemp(dir) == NULL) {
        perror(dir);
        return 1;
    }
    for (i = 0; i < n; i++) {
        int is_wanted = argc <= first;
        int k;

        for (k = first; k < argc; k++)
            is_wanted |= strcmp(argv[k], sets[i]) == 0;
        if (is_wanted)
            run_set(sets[i], dir, is_quick);
    }
    return crn_fs_remove_tree(crn_fs_posix(), AT_FDCWD, dir, &ei) == CAIRN_OK ? 0 : 1;
}
