/* SPDX-License-Identifier: BSD-3-Clause */
/* The tier cache with its threads: shots in every order, the application's stream, several devices,
 * several callers. Run it under tsan. */
#include "tier/test_cache.h"

/* A shot: write all, then read all back in some order. ----------------------------------------- */

enum order { SEQUENTIAL, REVERSE, IRREGULAR, ORDERS };

static uint64_t nth(enum order order, uint64_t i)
{
    return order == SEQUENTIAL ? i : order == REVERSE ? KEYS - 1 - i : (i * 7 + 3) % KEYS;
}

static void shot(enum crn_evict policy, int discard, enum order order, int hints, int wait)
{
    struct cache_bed b = {.bps = 200e6};
    struct crn_cache_stats stats;
    struct crn_rng rng;
    uint64_t total = 0;
    uint64_t i;

    crn_rng_seed(&rng, (uint64_t)policy * 100 + (uint64_t)order);
    cache_bed_open(&b, policy, discard);
    for (i = 0; hints > 1 && i < KEYS; i++)
        assert_ok(crn_cache_hint(b.cache, nth(order, i), ei));
    for (i = 0; i < KEYS; i++) {
        uint64_t bytes = 1 + crn_rng_below(&rng, MAXB);

        assert_int_equal(put(&b, i, bytes, i % 4 != 0), CAIRN_OK);
        total += bytes;
    }
    if (wait)
        assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    crn_cache_start(b.cache);
    for (i = 0; i < KEYS; i++) {
        if (hints == 1)
            assert_ok(crn_cache_hint(b.cache, nth(order, (i + 1) % KEYS), ei));
        assert_int_equal(get(&b, nth(order, i), i % 5 != 0), CAIRN_OK);
        if (discard && hints != 1)
            assert_int_equal(get(&b, nth(order, i), 1), CAIRN_ENOENT);
    }
    crn_cache_get_stats(b.cache, &stats);
    assert_int_equal(stats.writes, KEYS);
    assert_int_equal(stats.reads, KEYS);
    assert_int_equal(stats.hits[0] + stats.hits[1] + stats.hits[2], KEYS);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(atomic_load(&b.ops), discard && hints != 1 ? 3 * KEYS : 2 * KEYS);
    assert_int_equal(b.meanwhiles, KEYS);
    assert_int_equal(b.early, 0);
    if (wait)
        assert_true(stats.flushed_bytes[0] + stats.flushed_bytes[1] >= total);
    cache_bed_close(&b);
}

static void test_shots(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < ORDERS; order++) {
        shot(CRN_EVICT_SCORE, 0, (enum order)order, 2, 1);
        shot(CRN_EVICT_SCORE, 1, (enum order)order, 2, 0);
        shot(CRN_EVICT_SCORE, 1, (enum order)order, 0, 0);
        shot(CRN_EVICT_LRU, 0, (enum order)order, 1, 0);
        shot(CRN_EVICT_FIFO, 1, (enum order)order, 2, 1);
    }
}

/* With all hints, and time and space for all, every read is a hit on the first tier. */
static void test_hints_make_hits(void **state)
{
    struct cache_bed b = {0};
    struct crn_cache_stats stats;
    uint64_t i;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    for (i = 0; i < 6; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK); /* two fit the device, six the host */
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    for (i = 0; i < 6; i++)
        assert_ok(crn_cache_hint(b.cache, i, ei));
    crn_cache_start(b.cache);
    for (i = 0; i < 6; i++) {
        int64_t until = in(LONG);

        while (crn_cache_state(b.cache, i, 0) != CRN_LIFE_READ_COMPLETE && in(0) < until)
            (void)sched_yield();
        assert_int_equal(get(&b, i, 1), CAIRN_OK);
    }
    crn_cache_get_stats(b.cache, &stats);
    assert_int_equal(stats.hits[0], 6);
    cache_bed_close(&b);
}

/* The application's stream. -------------------------------------------------------------------- */

static unsigned long long address(void *p)
{
    return (unsigned long long)(uintptr_t)p;
}

static void expect_words(struct cache_bed *b, const void *gpu, uint32_t word)
{
    uint64_t at;
    uint32_t w;

    move(b, b->host, gpu, MAXB);
    for (at = 0; at < MAXB; at += sizeof(w)) {
        memcpy(&w, b->host + at, sizeof(w));
        assert_int_equal(w, word);
    }
}

/* Kernels take a while, so that a copy that does not wait for them comes too early. */
static void test_after_stream(void **state)
{
    struct cache_bed b = {0};
    void *streams[CRN_GPUS] = {NULL};
    struct crn_tier_piece piece;
    void *stream, *other;
    struct cuda cuda;
    uint32_t i;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    cuda_find(&cuda);
    cuda_enter(&cuda, 0);
    assert_int_equal(cuda.stream_create(&stream, 0), 0);
    assert_ok(b.driver->ops->alloc(b.dev, MAXB, &other, ei));
    piece = (struct crn_tier_piece){b.gpu, 0, MAXB, b.dev};
    for (i = 0; i < 4; i++) { /* on the legacy stream or another, which is named or not */
        streams[0] = i < 2 ? NULL : i == 2 ? stream : CRN_STREAM_LEGACY;
        assert_int_equal(
            cuda.set(address(b.gpu), i + 100, MAXB / 4, i % 3 == 0 ? CRN_STREAM_LEGACY : stream),
            0);
        assert_ok(crn_cache_write(b.cache, i, MAXB, &piece, 1, streams, in(LONG), ei));
    }
    for (i = 0; i < 4; i++) {
        assert_ok(crn_cache_read(b.cache, i, &piece, 1, NULL, in(LONG), ei));
        expect_words(&b, b.gpu, i + 100);
    }
    /* A restore waits for a kernel that still reads the buffer. */
    streams[0] = stream;
    assert_int_equal(cuda.set(address(other), 0, MAXB / 4, stream), 0);
    assert_int_equal(cuda.copy(address(other), address(b.gpu), MAXB, stream), 0);
    assert_ok(crn_cache_read(b.cache, 1, &piece, 1, streams, in(LONG), ei));
    assert_int_equal(cuda.stream_sync(stream), 0);
    expect_words(&b, b.gpu, 101);
    expect_words(&b, other, 103);
    b.driver->ops->free(b.dev, other);
    assert_int_equal(cuda.stream_destroy(stream), 0);
    cuda_leave(&cuda, 0);
    cache_bed_close(&b);
}

/* More. ---------------------------------------------------------------------------------------- */

static void test_two_devices(void **state)
{
    struct cache_bed b = {0};
    struct crn_tier_piece piece[3];
    void *other;
    uint64_t i;

    (void)state;
    if (is_real())
        skip();
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    assert_ok(b.driver->ops->device_open(b.driver, 1, &b.dev2, ei));
    assert_ok(b.driver->ops->alloc(b.dev2, MAXB, &other, ei));
    assert_int_equal(b.driver->ops->owner(b.driver, b.gpu + 5), 0);
    assert_int_equal(b.driver->ops->owner(b.driver, (char *)other + 5), 1);
    assert_int_equal(b.driver->ops->owner(b.driver, b.host), -1);
    for (i = 0; i < 3; i++) {
        cache_fill(b.host, i + 1, 1000);
        move(&b, i == 0 ? b.gpu : i == 1 ? other : b.host, b.host, 1000);
    }
    piece[0] = (struct crn_tier_piece){b.gpu, 0, 1000, b.dev};
    piece[1] = (struct crn_tier_piece){other, 4096, 1000, b.dev2};
    piece[2] = (struct crn_tier_piece){b.host, 8192, 1000, NULL};
    assert_ok(crn_cache_write(b.cache, 1, 3 * 4096, piece, 3, NULL, in(LONG), ei));
    memset(b.host, 0, 1000);
    move(&b, b.gpu, b.host, 1000);
    move(&b, other, b.host, 1000);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_ok(crn_cache_read(b.cache, 1, piece, 3, NULL, in(LONG), ei));
    assert_true(is_filled(b.host, 3, 1000));
    move(&b, b.host, b.gpu, 1000);
    assert_true(is_filled(b.host, 1, 1000));
    move(&b, b.host, other, 1000);
    assert_true(is_filled(b.host, 2, 1000));
    b.driver->ops->free(b.dev2, other);
    cache_bed_close(&b);
}

/* One thread writes, one reads what was written, one hints and forgets; for the thread
 * sanitizer. */
struct party {
    struct cache_bed *b;
    _Atomic uint64_t written;
    int failures;
};

static void *read_behind(void *arg)
{
    struct party *p = arg;
    unsigned char *mine = malloc(MAXB);
    uint64_t key = 0;

    while (key < KEYS) {
        struct crn_tier_piece piece = {mine, 0, MAXB, NULL};
        struct crn_errinfo why = {0};

        if (atomic_load(&p->written) <= key) {
            (void)sched_yield();
            continue;
        }
        if (crn_cache_read(p->b->cache, key, &piece, 1, NULL, in(LONG), &why) != CAIRN_OK ||
            !is_filled(mine, key, MAXB))
            p->failures++;
        key++;
    }
    free(mine);
    return NULL;
}

static void *hint_ahead(void *arg)
{
    struct party *p = arg;
    struct crn_errinfo why = {0};
    uint64_t key;

    for (key = 0; key < KEYS; key++) {
        struct crn_cache_stats stats;

        p->failures += crn_cache_hint(p->b->cache, key, &why) != CAIRN_OK;
        crn_cache_get_stats(p->b->cache, &stats);
        if (key == KEYS / 3)
            crn_cache_start(p->b->cache);
        crn_cache_forget(p->b->cache, 1000 + key);
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct cache_bed b = {0};
    struct party reader = {.b = &b};
    struct party hinter = {.b = &b};
    pthread_t thread[2];
    uint64_t key;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 1);
    assert_int_equal(pthread_create(&thread[0], NULL, read_behind, &reader), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, hint_ahead, &hinter), 0);
    for (key = 0; key < KEYS; key++) {
        if (put(&b, key, MAXB, 1) != CAIRN_OK)
            reader.failures++;
        atomic_store(&reader.written, key + 1);
    }
    assert_int_equal(pthread_join(thread[0], NULL), 0);
    assert_int_equal(pthread_join(thread[1], NULL), 0);
    assert_int_equal(reader.failures + hinter.failures, 0);
    cache_bed_close(&b);
}

static void test_close_while_busy(void **state)
{
    struct cache_bed b = {.bps = 2e6};
    uint64_t i;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    cache_bed_close(&b);
}

/* Copies of several blocks that threads share. ------------------------------------------------- */

#define LARGE  (2 * CRN_TIER_BLOCK + 12345)
#define LARGES 4

static void put_large(struct crn_cache *cache, unsigned char *p, uint64_t key)
{
    struct crn_tier_piece piece = {p, 0, LARGE, NULL};

    cache_fill(p, key, LARGE);
    assert_ok(crn_cache_write(cache, key, LARGE, &piece, 1, NULL, in(LONG), ei));
}

static void get_large(struct crn_cache *cache, unsigned char *p, uint64_t key)
{
    struct crn_tier_piece piece = {p, 0, LARGE, NULL};

    memset(p, 0, LARGE);
    assert_ok(crn_cache_read(cache, key, &piece, 1, NULL, in(LONG), ei));
    assert_true(is_filled(p, key, LARGE));
}

/* The host has space for two. A temporarily full disk stops the copy in all threads; it is
 * retried. */
static void test_shared_copies(void **state)
{
    struct full_disk disk = {.fs = *crn_fs_posix()};
    struct crn_cache_options opt = {.ntiers = 2, .threads = 4};
    unsigned char *p = malloc(LARGE);
    struct crn_cache_stats stats;
    struct crn_cache *cache;
    char dir[256];
    uint64_t i;

    (void)state;
    assert_non_null(p);
    test_dir_make(dir, sizeof(dir));
    disk.fs.pwrite = pwrite_full;
    atomic_store(&disk.is_full, 1);
    assert_ok(crn_tier_host(NULL, 2 * LARGE + 8192, 2, &opt.tier[0], ei));
    assert_ok(crn_tier_file(&disk.fs, dir, (LARGES + 1) * LARGE, &opt.tier[1], ei));
    assert_ok(crn_cache_open(&opt, &cache, ei));
    assert_ok(crn_cache_ready(cache, in(LONG), ei));
    put_large(cache, p, 0);
    do {
        (void)sched_yield();
        crn_cache_get_stats(cache, &stats);
    } while (stats.failures == 0);
    atomic_store(&disk.is_full, 0);
    for (i = 1; i < LARGES; i++)
        put_large(cache, p, i);
    assert_ok(crn_cache_flush(cache, in(LONG), ei));
    for (i = 0; i < LARGES; i++)
        assert_ok(crn_cache_hint(cache, i, ei));
    crn_cache_start(cache);
    for (i = 0; i < LARGES; i++)
        get_large(cache, p, i);
    crn_cache_get_stats(cache, &stats);
    assert_int_equal(stats.flushed_bytes[0], LARGES * LARGE);
    crn_cache_close(cache);
    assert_int_equal(rmdir(dir), 0);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shots),         cmocka_unit_test(test_hints_make_hits),
        cmocka_unit_test(test_after_stream),  cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_close_while_busy),
        cmocka_unit_test(test_shared_copies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
