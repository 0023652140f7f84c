/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine writes what it was given: compared byte by byte through the index, from memory, from
 * spilled images and from files, with more data than the pool holds; as it is, and encoded in every
 * way. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "aggregate/encoding.h"
#include "aggregate/engine.h"
#include "base/fs_faulty.h"
#include "base/queue.h"
#include "base/rng.h"
#include "base/test.h"
#include "encode/parts.h"
#include "store/data.h"

enum { SHARDS = 5, REGIONS = 4, BLOCK = 64 * 1024, UNIT = 5000 };

/* How the group of tests that runs has its data encoded. */
static const char *const *settings;

struct fixture {
    char dir[256];
    struct crn_config cfg;
    int is_encoded;
    struct crn_region regions[SHARDS][REGIONS];
    uint64_t at[SHARDS][REGIONS];
    int region_fd[SHARDS][REGIONS];
    unsigned char *image[SHARDS];
    struct crn_source sources[SHARDS];
    uint64_t sums[SHARDS][3 * (3 * BLOCK + 777) / UNIT + 1];
    const uint64_t *hashes[SHARDS][REGIONS];
    struct crn_parts parts; /* of the shard that has a file */
    struct crn_index head;
};

static const uint64_t sizes[REGIONS] = {0, 100, 3 * BLOCK + 777, 40000};

static int temp_file(const char *dir, const void *data, uint64_t n)
{
    char path[300];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/f-XXXXXX", dir);
    fd = mkstemp(path);
    assert_int_equal(pwrite(fd, data, n, 0), n);
    (void)unlink(path);
    return fd;
}

static void set_encoding(struct fixture *f)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const char *const *s;

    crn_config_defaults(&f->cfg);
    assert_ok(crn_config_set(&f->cfg, "encode_chunk", "64K", "test", ei));
    for (s = settings; *s != NULL; s += 2)
        assert_ok(crn_config_set(&f->cfg, s[0], s[1], "test", ei));
    f->is_encoded = f->cfg.names.encode != CRN_ENCODE_NONE;
}

/* What can be made smaller: a wave of its own on every shard, and a table that all have. */
static void fill_smooth(struct fixture *f, int s)
{
    uint64_t n = f->regions[s][2].bytes / sizeof(double);
    unsigned char *p = f->image[s] + f->at[s][2];
    uint64_t i;

    for (i = 0; i < n; i++) {
        double v = i % 97 == 0 ? NAN : floor(1000 * cos((double)i * 0.01 + s));

        memcpy(p + i * sizeof(v), &v, sizeof(v));
    }
    memmove(f->image[s] + f->at[s][3], f->image[0] + f->at[0][3], f->regions[0][3].bytes);
}

/* A variable in the middle of the file of shard 4. */
static void find_variable(struct fixture *f)
{
    static const uint64_t shape[] = {30, 40};
    struct crn_file_extents files[REGIONS] = {0};
    struct crn_errinfo info = {0}, *ei = &info;

    crn_extents_add(&files[3], crn_extents_key(&files[3], "in/file", 7), CAIRN_F32, 0, 1001, shape,
                    2);
    crn_extents_finish(&files[3], f->regions[4][3].bytes);
    assert_ok(crn_parts_make(&f->sources[4].shard, files, &f->parts, ei));
    crn_extents_free(&files[3]);
    f->sources[4].parts = &f->parts;
}

/* As if they had been taken with the capture, of the first region that is large. A block is no multiple of
 * their unit: some cover chunks of the file, others do not. */
static void sum_up(struct fixture *f, int s)
{
    const unsigned char *p = f->image[s] + f->at[s][2];
    uint64_t bytes = f->regions[s][2].bytes;
    uint64_t at;

    for (at = 0; at < bytes; at += UNIT)
        f->sums[s][at / UNIT] = crn_hash(p + at, bytes - at < UNIT ? bytes - at : UNIT);
    f->hashes[s][2] = f->sums[s];
    f->sources[s].hashes = f->hashes[s];
    f->sources[s].hash_chunk_bytes = UNIT;
}

/* Shard s: 0 to 2 in memory, with checksums, 3 spilled; the last region of shard 4 is a file. */
static void set_up(struct fixture *f)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_rng rng;
    int s, r;
    uint64_t i;

    memset(f, 0, sizeof(*f));
    test_dir_make(f->dir, sizeof(f->dir));
    crn_rng_seed(&rng, 99);
    for (s = 0; s < SHARDS; s++) {
        uint64_t end = 0;

        for (r = 0; r < REGIONS; r++) {
            struct crn_region *region = &f->regions[s][r];

            (void)snprintf(region->name, sizeof(region->name), "region-%d", r);
            region->ndims = 1;
            region->type = r == 2 ? CAIRN_F64 : CAIRN_BYTES;
            region->dims[0] = sizes[r] * (uint64_t)(s % 3 + 1) / (r == 2 ? sizeof(double) : 1);
            assert_ok(crn_region_check(region, ei));
            f->at[s][r] = end;
            f->region_fd[s][r] = -1;
            end += region->bytes;
        }
        f->image[s] = malloc(end + 1);
        for (i = 0; i < end; i++)
            f->image[s][i] = (unsigned char)crn_rng_u64(&rng);
        fill_smooth(f, s);
        f->sources[s] = (struct crn_source){
            .shard = {.rank = (uint32_t)(10 + s), .nregions = REGIONS, .regions = f->regions[s]},
            .at = f->at[s],
            .memory = f->image[s],
            .image_fd = -1,
            .region_fd = f->region_fd[s]};
        if (s < 3)
            sum_up(f, s);
        if (s == 3) {
            f->sources[s].image_fd = temp_file(f->dir, f->image[s], end);
            f->sources[s].memory = NULL;
        }
    }
    f->regions[4][3].kind = CRN_REGION_FILE;
    f->region_fd[4][3] = temp_file(f->dir, f->image[4] + f->at[4][3], f->regions[4][3].bytes);
    find_variable(f);
    f->head = (struct crn_index){.version = 7, .files = 1, .ranks = 15, .nodes = 1};
    (void)strcpy(f->head.name, "eng");
    set_encoding(f);
}

static void tear_down(struct fixture *f)
{
    int s;

    for (s = 0; s < SHARDS; s++)
        free(f->image[s]);
    crn_config_fini(&f->cfg);
    crn_parts_free(&f->parts);
    (void)close(f->sources[3].image_fd);
    (void)close(f->region_fd[4][3]);
    test_dir_remove(f->dir);
}

static struct crn_engine *open_engine(const struct fixture *f)
{
    struct crn_engine_options opt = {
        .blocks = 2, .block_bytes = BLOCK, .chunk_bytes = UNIT, .align_bytes = 4096, .writers = 3};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_engine *e;

    assert_ok(crn_engine_open(&opt, &e, ei));
    assert_ok(crn_engine_encode(e, &f->cfg, "eng", ei));
    return e;
}

/* Where variables are told apart, the one in the file is. */
static void check_variable(const struct fixture *f, const struct crn_index *x)
{
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < x->nstreams; i++)
        if (strncmp(x->streams[i].key, "in/file", 7) == 0)
            bytes += x->streams[i].bytes;
    if (f->cfg.names.encode == CRN_ENCODE_ADAPTIVE || f->cfg.names.encode == CRN_ENCODE_AWARE)
        assert_int_equal(bytes, 4800);
}

static void compare(struct fixture *f, const struct crn_store *st, const char *file)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_decoder *decoder = NULL;
    struct crn_manifest_file mf;
    struct crn_data_file data;
    struct crn_index x;
    unsigned char buf[5000];
    char path[300];
    uint64_t i, k;
    int fd;

    assert_ok(crn_store_describe_data(st, "eng", 7, file, &mf, &x, ei));
    assert_int_equal(x.nshards, SHARDS);
    (void)snprintf(path, sizeof(path), "%s/p/eng/7/%s", f->dir, file);
    fd = open(path, O_RDONLY);
    data = (struct crn_data_file){.fs = crn_fs_posix(), .fd = fd, .index = &x, .what = file};
    for (i = 0; i < x.nextents; i++) {
        const struct crn_extent *e = &x.extents[i];
        const unsigned char *want = f->image[e->shard] + f->at[e->shard][e->region] + e->offset;

        for (k = 0; k * 5000 < e->bytes; k++) {
            size_t n = crn_data_chunk_bytes(&x, e, k);

            assert_ok(crn_data_chunk(&data, e, k, &decoder, buf, ei));
            assert_memory_equal(buf, want + k * 5000, n);
            assert_true(x.hashes[e->first_hash + k] == crn_hash(want + k * 5000, n));
        }
    }
    assert_int_equal(x.nstreams > 0, f->is_encoded);
    check_variable(f, &x);
    if (f->is_encoded && mf.bytes > 27 * (uint64_t)BLOCK) /* of 33; most of them are waves */
        fail_msg("%llu bytes", (unsigned long long)mf.bytes);
    crn_decoder_free(decoder);
    (void)close(fd);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

/* The sums agree with each other and with the file; frees. */
static void check_stats(struct crn_flush_stats *s)
{
    struct crn_sums local = crn_stats_local(s);
    struct crn_sums received = crn_stats_received(s);
    uint64_t of_peers = 0;
    uint32_t i;

    for (i = 0; i < s->npeers; i++)
        of_peers += s->peer[i].bytes;
    assert_int_equal(local.bytes + received.bytes + s->assisted_bytes, s->bytes);
    /* A write that is encoded may come from several nodes, this one among them. */
    assert_true(received.bytes == s->remote_bytes ||
                (settings[0] != NULL && received.bytes > s->remote_bytes));
    assert_int_equal(s->receive.sum.bytes, s->remote_bytes);
    assert_true(s->receive.sum.n == received.n ||
                (settings[0] != NULL && s->receive.sum.n > received.n));
    assert_int_equal(s->queue_waits, received.n);
    assert_int_equal(of_peers, s->remote_bytes);
    assert_int_equal(s->total_ns, s->write_ns + s->finish_ns);
    assert_true(local.ns + received.ns > 0);
    assert_true(local.ns + received.ns <= s->write_ns * s->nwriters);
    for (i = 0; i < s->nwriters; i++)
        assert_true(s->writer[i].idle_ns + s->writer[i].local.sum.ns +
                        s->writer[i].received.sum.ns <=
                    s->write_ns);
    crn_flush_stats_free(s);
}

static void writes_what_it_was_given(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_store st;
    struct fixture f;
    char path[300];
    int round;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    e = open_engine(&f);
    for (round = 0; round < 3; round++) {
        assert_ok(crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei));
        assert_true(mf.bytes <= crn_engine_estimate(e, f.sources, SHARDS));
        compare(&f, &st, mf.name);
        crn_manifest_file_free(&mf);
        assert_int_equal(stats.remote_bytes, 0);
        check_stats(&stats);
    }
    crn_engine_close(e);
    crn_store_close(&st);
    tear_down(&f);
}

/* Checksums of the capture go into the index as they are: what was damaged since is found by them. */
static void sums_of_the_capture_are_kept(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_store st;
    struct crn_index x;
    struct fixture f;
    char path[300];
    uint64_t i;
    int found = 0;

    (void)state;
    set_up(&f);
    f.image[1][f.at[1][2] + 10] ^= 1;
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    e = open_engine(&f);
    assert_ok(crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei));
    crn_manifest_file_free(&mf);
    assert_ok(crn_store_describe_data(&st, "eng", 7, mf.name, &mf, &x, ei));
    for (i = 0; i < x.nextents; i++)
        if (x.extents[i].shard == 1 && x.extents[i].region == 2 && x.extents[i].offset == 0) {
            assert_true(x.hashes[x.extents[i].first_hash] == f.sums[1][0]);
            assert_true(x.hashes[x.extents[i].first_hash] !=
                        crn_hash(f.image[1] + f.at[1][2], UNIT));
            found++;
        }
    assert_int_equal(found, 1);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    crn_flush_stats_free(&stats);
    crn_engine_close(e);
    crn_store_close(&st);
    tear_down(&f);
}

static int never(void)
{
    return 0;
}

/* Writers that have no core leave all to the first; nothing is missing for it. */
static void one_writer_is_enough(void **state)
{
    struct crn_engine_options opt = {.blocks = 2,
                                     .block_bytes = BLOCK,
                                     .chunk_bytes = UNIT,
                                     .align_bytes = 4096,
                                     .writers = 3,
                                     .may_join = never};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_store st;
    struct fixture f;
    char path[300];
    int i, busy = 0;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    assert_ok(crn_engine_open(&opt, &e, ei));
    assert_ok(crn_engine_encode(e, &f.cfg, "eng", ei));
    assert_ok(crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei));
    compare(&f, &st, mf.name);
    for (i = 0; i < 3; i++)
        busy += stats.writer[i].local.sum.bytes > 0;
    assert_int_equal(busy, 1);
    free(mf.ranges);
    crn_flush_stats_free(&stats);
    crn_engine_close(e);
    crn_store_close(&st);
    tear_down(&f);
}

/* Whatever call fails: an error with a reason, no file left, and the engine works again. */
static void a_failure_leaves_nothing(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_fs_faulty faulty;
    struct crn_store st;
    struct crn_engine *e;
    struct fixture f;
    char path[300];
    long k;

    (void)state;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    e = open_engine(&f);
    for (k = 1;; k++) {
        struct crn_names names;
        cairn_err rc;
        int dfd;

        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.at = k;
        faulty.sys_errno = ENOSPC;
        st.fs = &faulty.fs;
        crn_err_clear(ei);
        rc = crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei);
        st.fs = crn_fs_posix();
        if (rc == CAIRN_OK) {
            compare(&f, &st, mf.name);
            assert_ok(crn_store_discard_data(&st, "eng", 7, mf.name, ei));
            crn_manifest_file_free(&mf);
            crn_flush_stats_free(&stats);
        } else {
            assert_int_equal(rc, CAIRN_ENOSPC);
            assert_true(strlen(ei->msg) > 10);
        }
        crn_err_clear(ei);
        if (crn_store_version_dir(&st, "eng", 7, &dfd, ei) == CAIRN_OK) {
            crn_err_clear(ei);
            assert_ok(crn_fs_names(crn_fs_posix(), dfd, path, &names, ei));
            assert_int_equal(names.n, 0);
            crn_names_free(&names);
            (void)close(dfd);
        }
        if (atomic_load(&faulty.calls) < k)
            break;
    }
    assert_true(k > 20);
    crn_engine_close(e);
    crn_store_close(&st);
    tear_down(&f);
}

/* Other nodes: blocks come later, from another thread, in another order; or fail. */
struct far_away {
    struct fixture *f;
    struct crn_engine *e;
    struct crn_queue asked;
    long fail_at; /* the k-th request; 0: none */
    long n;
};

struct request {
    const struct crn_write *w;
    const struct crn_extent *extents;
    const uint64_t *order;
    unsigned char *block;
};

static void ask(void *arg, const struct crn_write *w, const struct crn_extent *extents,
                const uint64_t *order, int is_older, void *block)
{
    struct far_away *far = arg;
    struct request *r = malloc(sizeof(*r));

    assert_false(is_older);

    *r = (struct request){w, extents, order, block};
    (void)crn_queue_push(&far->asked, r);
}

static void *answer(void *arg)
{
    struct far_away *far = arg;
    struct request *r;

    while ((r = crn_queue_pop(&far->asked)) != NULL) {
        struct crn_errinfo gone = {.code = CAIRN_EPEER, .msg = "node 2 is gone"};
        uint64_t at = 0;
        uint32_t i;

        for (i = 0; i < r->w->nsegments; i++) {
            const struct crn_extent *x = &r->extents[r->order[r->w->first + i]];

            memcpy(r->block + at,
                   far->f->image[x->shard] + far->f->at[x->shard][x->region] + x->offset, x->bytes);
            at += x->bytes;
        }
        if (++far->n == far->fail_at) /* half of it may still come */
            (void)crn_engine_replace(far->e, r->block);
        crn_engine_arrived(far->e, r->w, far->n == far->fail_at ? &gone : NULL);
        free(r);
    }
    return NULL;
}

static void data_of_other_nodes_stays_within_the_pool(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct far_away far = {0};
    struct crn_fetcher fetcher = {.fetch = ask, .arg = &far};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_store st;
    struct fixture f;
    pthread_t thread;
    char path[300];
    cairn_err rc;

    (void)state;
    set_up(&f);
    f.sources[0].owner = 1;
    f.sources[1].owner = f.sources[2].owner = 2;
    f.sources[0].memory = f.sources[1].memory = f.sources[2].memory = NULL;
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    far.f = &f;
    far.e = open_engine(&f);
    assert_ok(crn_queue_init(&far.asked, 64, ei));
    assert_int_equal(pthread_create(&thread, NULL, answer, &far), 0);
    for (far.fail_at = 0; far.fail_at < 12; far.fail_at++) {
        far.n = 0;
        crn_err_clear(ei);
        rc = crn_engine_write(far.e, &st, &f.head, f.sources, SHARDS, &fetcher, &mf, &stats, ei);
        if (far.fail_at == 0 || far.n < far.fail_at) {
            assert_int_equal(rc, CAIRN_OK);
            assert_true(stats.remote_bytes > 10 * BLOCK); /* much more than the pool */
            compare(&f, &st, mf.name);
            crn_manifest_file_free(&mf);
            assert_int_equal(stats.npeers, 2);
            assert_true(stats.peer[0].bytes > 0 && stats.peer[1].bytes > stats.peer[0].bytes);
            check_stats(&stats);
        } else {
            assert_int_equal(rc, CAIRN_EPEER);
            assert_string_equal(ei->msg, "node 2 is gone");
        }
    }
    assert_int_equal(crn_engine_most_blocks(far.e), 2);
    crn_queue_close(&far.asked);
    (void)pthread_join(thread, NULL);
    crn_queue_fini(&far.asked);
    crn_engine_close(far.e);
    crn_store_close(&st);
    tear_down(&f);
}

#define LOSSY_BOUND 1e-3

/* A region that may lose something keeps its bound, and verifies; all others come back bit by bit. */
static void what_may_be_lost_is_bounded(void **state)
{
    static const char *const lossy[] = {"encode", "adaptive", "encode_lossy",
                                        "region-2:abs:1e-3 nothing:rel:1e-2", NULL};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf, described;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_store st;
    struct crn_pipe pipe;
    struct crn_data_file data;
    struct crn_index x;
    struct fixture f;
    char path[400];
    double buf[625];
    uint64_t i, k;
    size_t j;
    int fd;

    (void)state;
    if (crn_pipe_parse("zfp", &pipe, ei) != CAIRN_OK)
        skip(); /* built without */
    settings = lossy;
    set_up(&f);
    (void)snprintf(path, sizeof(path), "%s/p", f.dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    e = open_engine(&f);
    assert_ok(crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei));
    assert_ok(crn_store_describe_data(&st, "eng", 7, mf.name, &described, &x, ei));
    (void)snprintf(path, sizeof(path), "%s/p/eng/7/%s", f.dir, mf.name);
    fd = open(path, O_RDONLY);
    data = (struct crn_data_file){.fs = crn_fs_posix(), .fd = fd, .index = &x, .what = path};
    assert_ok(crn_data_verify(&data, NULL, NULL, ei));
    for (i = 0; i < x.nextents; i++) {
        const struct crn_extent *ext = &x.extents[i];
        const unsigned char *want =
            f.image[ext->shard] + f.at[ext->shard][ext->region] + ext->offset;
        struct crn_decoder *decoder = NULL;

        for (k = 0; k * 5000 < ext->bytes; k++) {
            size_t n = crn_data_chunk_bytes(&x, ext, k);

            assert_ok(crn_data_chunk(&data, ext, k, &decoder, buf, ei));
            if (ext->region != 2)
                assert_memory_equal(buf, want + k * 5000, n);
            for (j = 0; ext->region == 2 && j < n / sizeof(double); j++) {
                double v;

                memcpy(&v, want + k * 5000 + j * sizeof(v), sizeof(v));
                if (isnan(v) || isinf(v))
                    assert_memory_equal(&v, &buf[j], sizeof(v));
                else if (!(fabs(v - buf[j]) <= LOSSY_BOUND))
                    fail_msg("%g became %g", v, buf[j]);
            }
        }
        crn_decoder_free(decoder);
    }
    (void)close(fd);
    crn_manifest_file_free(&mf);
    crn_flush_stats_free(&stats);
    crn_manifest_file_free(&described);
    crn_index_free(&x);
    crn_engine_close(e);
    crn_store_close(&st);
    tear_down(&f);
}

static void settings_are_checked(void **state)
{
    static const char *const bad[][3] = {{"encode_pipe", "zpf", "encode_pipe"},
                                         {"encode_pipe", "zfp", "encode_pipe"},
                                         {"encode_pipe", "delta:1,zstd", "encode_pipe"},
                                         {"encode_match", "Grid([0-9", "encode_match"},
                                         {"encode_lossy", "x:abs:0", "encode_lossy"},
                                         {"encode_lossy", "x:abs:nan", "encode_lossy"},
                                         {"encode_lossy", "x:about:1", "encode_lossy"},
                                         {"encode_lossy", ":abs:1", "encode_lossy"},
                                         {"encode_lossy", "abs", "encode_lossy"}};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_encoding *x;
    struct crn_config cfg;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        crn_config_defaults(&cfg);
        crn_err_clear(ei);
        assert_ok(crn_config_set(&cfg, "encode", "adaptive", "test", ei));
        assert_ok(crn_config_set(&cfg, bad[i][0], bad[i][1], "test", ei));
        assert_int_not_equal(crn_encoding_open(&cfg, "eng", &x, ei), CAIRN_OK);
        if (strstr(ei->msg, bad[i][2]) == NULL)
            fail_msg("%s = %s: %s", bad[i][0], bad[i][1], ei->msg);
        crn_config_fini(&cfg);
    }
}

int main(void)
{
    static const char *const ways[][5] = {
        {NULL},
        {"encode", "adaptive"},
        {"encode", "aware-block", "encode_pipe", "adaptive"},
        {"encode", "aware", "encode_pipe", "lorenzo,magnitude"},
        {"encode", "agnostic", "encode_pipe", "planes:0"},
        {"encode", "agnostic-block", "encode_pipe", "shuffle,planes:0"}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_it_was_given),
        cmocka_unit_test(sums_of_the_capture_are_kept),
        cmocka_unit_test(one_writer_is_enough),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(data_of_other_nodes_stays_within_the_pool),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(what_may_be_lost_is_bounded),
        cmocka_unit_test(settings_are_checked),
    };
    int failed = 0;
    size_t i;

    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        settings = ways[i];
        print_message("encode = %s\n", settings[0] != NULL ? settings[1] : "none");
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}
