/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine writes what it is given: compared byte by byte through the index, from memory, from
 * spilled images and from files, with more data than the pool holds; unencoded, and in every
 * encoding. */
#include <errno.h>

#include "aggregate/test_engine.h"
#include "base/fs_faulty.h"
#include "base/queue.h"

/* The encoding settings of the current test group. */
static const char *const *settings;

/* If variables are encoded separately, the one inside the file is, too, with its type: under its
 * name, or joined with others that are as small. */
static void check_variable(const struct engine_fixture *f, const struct crn_index *x)
{
    uint64_t bytes = 0;
    uint32_t i;

    for (i = 0; i < x->nstreams; i++)
        if (strncmp(x->streams[i].key, "in/file", 7) == 0 ||
            strcmp(x->streams[i].key, "*_F32LE") == 0)
            bytes += x->streams[i].bytes;
    if (f->cfg.names.encode == CRN_ENCODE_ADAPTIVE || f->cfg.names.encode == CRN_ENCODE_AWARE)
        assert_int_equal(bytes, 4800);
}

static void compare(struct engine_fixture *f, const char *file)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_index x;
    char path[300];

    assert_ok(crn_store_describe_data(&f->st, "eng", 7, file, &mf, &x, ei));
    path_of(f, file, path, sizeof(path));
    test_compare(f->shard, SHARDS, &x, path);
    assert_int_equal(x.nstreams > 0, f->is_encoded);
    check_variable(f, &x);
    if (f->is_encoded && mf.bytes > 27 * (uint64_t)BLOCK) /* of 33; most of the data is waves */
        fail_msg("%llu bytes", (unsigned long long)mf.bytes);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
}

/* The sums agree with each other and with the file. Frees s. */
static void check_stats(struct crn_flush_stats *s)
{
    struct crn_sums local = crn_stats_local(s);
    struct crn_sums received = crn_stats_received(s);
    uint64_t of_peers = 0;
    uint32_t i;

    for (i = 0; i < s->npeers; i++)
        of_peers += s->peer[i].bytes;
    assert_int_equal(local.bytes + received.bytes + s->assisted_bytes, s->bytes);
    /* An encoded write may combine data of several nodes, including this one. */
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
    struct engine_fixture f;
    int round;

    (void)state;
    engine_set_up(&f, settings);
    e = engine_open(&f, NULL);
    for (round = 0; round < 3; round++) {
        assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
        assert_true(mf.bytes <= crn_engine_estimate(e, f.sources, SHARDS));
        compare(&f, mf.name);
        crn_manifest_file_free(&mf);
        assert_int_equal(stats.remote_bytes, 0);
        check_stats(&stats);
    }
    crn_engine_close(e);
    engine_tear_down(&f);
}

/* Checksums of the capture go into the index unchanged, so later damage is detected. */
static void sums_of_the_capture_are_kept(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct crn_index x;
    struct engine_fixture f;
    uint64_t i;
    int found = 0;

    (void)state;
    engine_set_up(&f, settings);
    f.shard[1].image[f.shard[1].at[2] + 10] ^= 1;
    e = engine_open(&f, NULL);
    assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
    crn_manifest_file_free(&mf);
    assert_ok(crn_store_describe_data(&f.st, "eng", 7, mf.name, &mf, &x, ei));
    for (i = 0; i < x.nextents; i++)
        if (x.extents[i].shard == 1 && x.extents[i].region == 2 && x.extents[i].offset == 0) {
            assert_true(x.hashes[x.extents[i].first_hash] == f.sums[1][0]);
            assert_true(x.hashes[x.extents[i].first_hash] !=
                        crn_hash(f.shard[1].image + f.shard[1].at[2], UNIT));
            found++;
        }
    assert_int_equal(found, 1);
    crn_manifest_file_free(&mf);
    crn_index_free(&x);
    crn_flush_stats_free(&stats);
    crn_engine_close(e);
    engine_tear_down(&f);
}

static int never(void)
{
    return 0;
}

/* Writers without a core leave everything to the first, which writes the whole file. */
static void one_writer_is_enough(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct engine_fixture f;
    int i, busy = 0;

    (void)state;
    engine_set_up(&f, settings);
    e = engine_open(&f, never);
    assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
    compare(&f, mf.name);
    for (i = 0; i < 3; i++)
        busy += stats.writer[i].local.sum.bytes > 0;
    assert_int_equal(busy, 1);
    crn_manifest_file_free(&mf);
    crn_flush_stats_free(&stats);
    crn_engine_close(e);
    engine_tear_down(&f);
}

static int always(void)
{
    return 1;
}

/* Two writers at most, unless there is something to encode. */
static void a_third_writer_encodes(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct engine_fixture f;
    uint64_t third = 0;
    int round;

    (void)state;
    engine_set_up(&f, settings);
    e = engine_open(&f, always);
    for (round = 0; round < 200 && third == 0; round++) {
        assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
        third = stats.writer[2].local.sum.bytes;
        crn_manifest_file_free(&mf);
        crn_flush_stats_free(&stats);
        assert_true(third == 0 || f.is_encoded);
        if (!f.is_encoded && round == 20)
            break;
    }
    assert_true(third > 0 || !f.is_encoded);
    crn_engine_close(e);
    engine_tear_down(&f);
}

/* Any failing call gives an error with a reason and leaves no file, and the engine stays usable. */
static void a_failure_leaves_nothing(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_fs_faulty faulty;
    struct crn_engine *e;
    struct engine_fixture f;
    long k;

    (void)state;
    engine_set_up(&f, settings);
    e = engine_open(&f, NULL);
    for (k = 1;; k++) {
        cairn_err rc;

        crn_fs_faulty_init(&faulty, crn_fs_posix());
        faulty.at = k;
        faulty.sys_errno = ENOSPC;
        f.st.fs = &faulty.fs;
        crn_err_clear(ei);
        rc = write_all(&f, e, NULL, &mf, &stats, ei);
        f.st.fs = crn_fs_posix();
        if (rc == CAIRN_OK) {
            compare(&f, mf.name);
            assert_ok(crn_store_discard_data(&f.st, "eng", 7, mf.name, ei));
            crn_manifest_file_free(&mf);
            crn_flush_stats_free(&stats);
        } else {
            assert_int_equal(rc, CAIRN_ENOSPC);
            assert_true(strlen(ei->msg) > 10);
        }
        test_nothing_left(&f.st, "eng", 7);
        if (atomic_load(&faulty.calls) < k)
            break;
    }
    assert_true(k > 20);
    crn_engine_close(e);
    engine_tear_down(&f);
}

/* Other nodes: blocks arrive later, from another thread, in another order; or fail. */
struct engine_test_far_away {
    struct engine_fixture *f;
    struct crn_engine *e;
    struct crn_queue asked;
    long fail_at; /* the k-th request; 0: none */
    long n;
};

struct engine_test_request {
    const struct crn_write *w;
    const struct crn_extent *extents;
    const uint64_t *order;
    unsigned char *block;
};

static void ask(void *arg, const struct crn_write *w, const struct crn_extent *extents,
                const uint64_t *order, int is_older, void *block)
{
    struct engine_test_far_away *far = arg;
    struct engine_test_request *r = malloc(sizeof(*r));

    assert_false(is_older);
    *r = (struct engine_test_request){w, extents, order, block};
    (void)crn_queue_push(&far->asked, r);
}

static void *answer(void *arg)
{
    struct engine_test_far_away *far = arg;
    struct engine_test_request *r;

    while ((r = crn_queue_pop(&far->asked)) != NULL) {
        struct crn_errinfo gone = {.code = CAIRN_EPEER, .msg = "node 2 is gone"};

        test_gather(far->f->shard, r->w, r->extents, r->order, r->block);
        if (++far->n == far->fail_at) /* the block may already hold half of the data */
            (void)crn_engine_replace(far->e, r->block);
        crn_engine_arrived(far->e, r->w, far->n == far->fail_at ? &gone : NULL);
        free(r);
    }
    return NULL;
}

static void data_of_other_nodes_stays_within_the_pool(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct engine_test_far_away far = {0};
    struct crn_fetcher fetcher = {.fetch = ask, .arg = &far};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct engine_fixture f;
    pthread_t thread;
    cairn_err rc;

    (void)state;
    engine_set_up(&f, settings);
    f.sources[0].owner = 1;
    f.sources[1].owner = f.sources[2].owner = 2;
    f.sources[0].memory = f.sources[1].memory = f.sources[2].memory = NULL;
    far.f = &f;
    far.e = engine_open(&f, NULL);
    assert_ok(crn_queue_init(&far.asked, 64, ei));
    assert_int_equal(pthread_create(&thread, NULL, answer, &far), 0);
    for (far.fail_at = 0; far.fail_at < 12; far.fail_at++) {
        far.n = 0;
        crn_err_clear(ei);
        rc = write_all(&f, far.e, &fetcher, &mf, &stats, ei);
        if (far.fail_at == 0 || far.n < far.fail_at) {
            assert_int_equal(rc, CAIRN_OK);
            assert_true(stats.remote_bytes > 10 * BLOCK); /* many times the pool */
            compare(&f, mf.name);
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
    engine_tear_down(&f);
}

/* Blocks that wait for a writer are written in the order in which they arrived. */
enum { WAITING = 5 };

static struct {
    struct crn_fs fs;
    struct crn_mutex mu;
    struct crn_cond changed;
    const void *arrived[WAITING];
    const void *written[WAITING];
    int narrived, nwritten;
} order;

static int did_arrive(const void *block)
{
    int i;

    for (i = 0; i < WAITING; i++)
        if (order.arrived[i] == block)
            return 1;
    return 0;
}

/* The first write, which is of local data, takes until all blocks have arrived. */
static ssize_t ordered_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    const struct crn_fs *real = crn_fs_posix();

    (void)fs;
    crn_lock(&order.mu);
    while (order.narrived < WAITING)
        crn_cond_wait(&order.changed, &order.mu);
    if (order.nwritten < WAITING && did_arrive(buf))
        order.written[order.nwritten++] = buf;
    crn_unlock(&order.mu);
    return real->pwrite(real, fd, buf, n, off);
}

/* The first blocks arrive in the reverse order of the requests. */
static void *answer_in_reverse(void *arg)
{
    struct engine_test_far_away *far = arg;
    struct engine_test_request *r[WAITING], *next;
    int i;

    for (i = 0; i < WAITING; i++)
        r[i] = crn_queue_pop(&far->asked);
    for (i = WAITING - 1; i >= 0; i--) {
        test_gather(far->f->shard, r[i]->w, r[i]->extents, r[i]->order, r[i]->block);
        crn_engine_arrived(far->e, r[i]->w, NULL);
        crn_lock(&order.mu);
        order.arrived[order.narrived++] = r[i]->block;
        crn_cond_broadcast(&order.changed);
        crn_unlock(&order.mu);
        free(r[i]);
    }
    while ((next = crn_queue_pop(&far->asked)) != NULL) {
        test_gather(far->f->shard, next->w, next->extents, next->order, next->block);
        crn_engine_arrived(far->e, next->w, NULL);
        free(next);
    }
    return NULL;
}

static void blocks_are_written_in_the_order_of_arrival(void **state)
{
    struct crn_engine_options opt = {.blocks = WAITING + 1,
                                     .block_bytes = BLOCK,
                                     .chunk_bytes = UNIT,
                                     .align_bytes = 4096,
                                     .writers = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    struct engine_test_far_away far = {0};
    struct crn_fetcher fetcher = {.fetch = ask, .arg = &far};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct engine_fixture f;
    pthread_t thread;
    int i;

    (void)state;
    engine_set_up(&f, settings);
    if (f.is_encoded) { /* written from other memory than the blocks */
        engine_tear_down(&f);
        return;
    }
    for (i = 0; i < 3; i++) {
        f.sources[i].owner = 1;
        f.sources[i].memory = NULL;
    }
    crn_mutex_init(&order.mu, CRN_RANK_LEAF);
    crn_cond_init(&order.changed);
    order.fs = *crn_fs_posix();
    order.fs.pwrite = ordered_pwrite;
    f.st.fs = &order.fs;
    far.f = &f;
    assert_ok(crn_engine_open(&opt, &far.e, ei));
    assert_ok(crn_engine_encode(far.e, &f.cfg, "eng", ei));
    assert_ok(crn_queue_init(&far.asked, 64, ei));
    assert_int_equal(pthread_create(&thread, NULL, answer_in_reverse, &far), 0);
    assert_ok(write_all(&f, far.e, &fetcher, &mf, &stats, ei));
    compare(&f, mf.name);
    for (i = 0; i < WAITING; i++)
        assert_ptr_equal(order.written[i], order.arrived[i]);
    crn_manifest_file_free(&mf);
    crn_flush_stats_free(&stats);
    crn_queue_close(&far.asked);
    (void)pthread_join(thread, NULL);
    crn_queue_fini(&far.asked);
    crn_engine_close(far.e);
    crn_cond_fini(&order.changed);
    crn_mutex_fini(&order.mu);
    engine_tear_down(&f);
}

static ssize_t slow_pwrite(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    const struct crn_fs *real = crn_fs_posix();
    const struct timespec pause = {.tv_nsec = (long)n * 20};

    (void)fs;
    (void)nanosleep(&pause, NULL);
    return real->pwrite(real, fd, buf, n, off);
}

/* The first file tells that the file system is slow, so the second is encoded. */
static void auto_encodes_where_it_pays(void **state)
{
    static const char *const auto_settings[] = {"encode", "auto", NULL};
    struct crn_fs slow = *crn_fs_posix();
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_manifest_file mf;
    struct crn_flush_stats stats;
    struct crn_engine *e;
    struct engine_fixture f;
    int round;

    (void)state;
    settings = auto_settings;
    slow.pwrite = slow_pwrite;
    engine_set_up(&f, settings);
    f.st.fs = &slow;
    e = engine_open(&f, NULL);
    for (round = 0; round < 2; round++) {
        f.is_encoded = round > 0;
        assert_ok(write_all(&f, e, NULL, &mf, &stats, ei));
        compare(&f, mf.name);
        check_stats(&stats);
        assert_ok(crn_store_discard_data(&f.st, "eng", 7, mf.name, ei));
        crn_manifest_file_free(&mf);
    }
    crn_engine_close(e);
    engine_tear_down(&f);
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
        cmocka_unit_test(a_third_writer_encodes),
        cmocka_unit_test(a_failure_leaves_nothing),
        cmocka_unit_test(data_of_other_nodes_stays_within_the_pool),
        cmocka_unit_test(blocks_are_written_in_the_order_of_arrival),
    };
    const struct CMUnitTest auto_tests[] = {cmocka_unit_test(auto_encodes_where_it_pays)};
    int failed = cmocka_run_group_tests(auto_tests, NULL, NULL);
    size_t i;

    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        settings = ways[i];
        print_message("encode = %s\n", settings[0] != NULL ? settings[1] : "none");
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
