/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine writes what it was given: compared byte by byte through the index, from memory, from
 * spilled images and from files, with more data than the pool holds. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "aggregate/engine.h"
#include "base/fs_faulty.h"
#include "base/queue.h"
#include "base/rng.h"
#include "base/test.h"

enum { SHARDS = 5, REGIONS = 4, BLOCK = 64 * 1024 };

struct fixture {
    char dir[256];
    struct crn_region regions[SHARDS][REGIONS];
    uint64_t at[SHARDS][REGIONS];
    int region_fd[SHARDS][REGIONS];
    unsigned char *image[SHARDS];
    struct crn_source sources[SHARDS];
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

/* Shard s: 0 to 2 in memory, 3 spilled; the last region of shard 4 is a file. */
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
            region->dims[0] = sizes[r] * (uint64_t)(s % 3 + 1);
            assert_ok(crn_region_check(region, ei));
            f->at[s][r] = end;
            f->region_fd[s][r] = -1;
            end += region->bytes;
        }
        f->image[s] = malloc(end + 1);
        for (i = 0; i < end; i++)
            f->image[s][i] = (unsigned char)crn_rng_u64(&rng);
        f->sources[s] = (struct crn_source){
            .shard = {.rank = (uint32_t)(10 + s), .nregions = REGIONS, .regions = f->regions[s]},
            .at = f->at[s],
            .memory = f->image[s],
            .image_fd = -1,
            .region_fd = f->region_fd[s]};
        if (s == 3) {
            f->sources[s].image_fd = temp_file(f->dir, f->image[s], end);
            f->sources[s].memory = NULL;
        }
    }
    f->regions[4][3].kind = CRN_REGION_FILE;
    f->region_fd[4][3] = temp_file(f->dir, f->image[4] + f->at[4][3], f->regions[4][3].bytes);
    f->head = (struct crn_index){.version = 7, .files = 1, .ranks = 15, .nodes = 1};
    (void)strcpy(f->head.name, "eng");
}

static void tear_down(struct fixture *f)
{
    int s;

    for (s = 0; s < SHARDS; s++)
        free(f->image[s]);
    (void)close(f->sources[3].image_fd);
    (void)close(f->region_fd[4][3]);
    test_dir_remove(f->dir);
}

static struct crn_engine *open_engine(void)
{
    struct crn_engine_options opt = {
        .blocks = 2, .block_bytes = BLOCK, .chunk_bytes = 5000, .align_bytes = 4096, .writers = 3};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_engine *e;

    assert_ok(crn_engine_open(&opt, &e, ei));
    return e;
}

static void compare(struct fixture *f, const struct crn_store *st, const char *file)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_index x;
    unsigned char *buf = malloc(BLOCK);
    char path[300];
    uint64_t i;
    int fd;

    assert_ok(crn_store_describe_data(st, "eng", 7, file, &mf, &x, ei));
    assert_int_equal(x.nshards, SHARDS);
    (void)snprintf(path, sizeof(path), "%s/p/eng/7/%s", f->dir, file);
    fd = open(path, O_RDONLY);
    for (i = 0; i < x.nextents; i++) {
        const struct crn_extent *e = &x.extents[i];
        const unsigned char *want = f->image[e->shard] + f->at[e->shard][e->region] + e->offset;

        assert_int_equal(pread(fd, buf, e->bytes, (off_t)e->file_offset), e->bytes);
        assert_memory_equal(buf, want, e->bytes);
        assert_true(x.hashes[e->first_hash] == crn_hash(want, e->bytes < 5000 ? e->bytes : 5000));
    }
    (void)close(fd);
    free(buf);
    free(mf.ranges);
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
    assert_int_equal(received.bytes, s->remote_bytes);
    assert_int_equal(s->receive.sum.bytes, s->remote_bytes);
    assert_int_equal(s->receive.sum.n, received.n);
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
    e = open_engine();
    for (round = 0; round < 3; round++) {
        assert_ok(crn_engine_write(e, &st, &f.head, f.sources, SHARDS, NULL, &mf, &stats, ei));
        assert_true(mf.bytes <= crn_engine_estimate(e, f.sources, SHARDS));
        compare(&f, &st, mf.name);
        free(mf.ranges);
        assert_int_equal(stats.remote_bytes, 0);
        check_stats(&stats);
    }
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
    e = open_engine();
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
            free(mf.ranges);
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
                const uint64_t *order, void *block)
{
    struct far_away *far = arg;
    struct request *r = malloc(sizeof(*r));

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
        crn_engine_arrived(far->e, r->w, r->block, ++far->n == far->fail_at ? &gone : NULL);
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
    far.e = open_engine();
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
            free(mf.ranges);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_what_it_was_given),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(data_of_other_nodes_stays_within_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
