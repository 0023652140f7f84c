/* SPDX-License-Identifier: BSD-3-Clause */
/* The tier cache with its threads over a simulated device, host memory and a directory: what is read
 * is compared byte for byte with what was written, whatever fails in between. With $CAIRN_TEST_GPU
 * set, what needs no simulation runs on the GPU. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tier/cache.h"
#include "tier/device_sim.h"

#define KEYS   24
#define MAXB   ((uint64_t)96 << 10)
#define LONG   INT64_C(60000000000)
#define DEV    ((uint64_t)256 << 10)
#define HOST   ((uint64_t)640 << 10)
#define DEVMEM ((uint64_t)16 << 20)

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

static int64_t in(int64_t ns)
{
    return crn_clock_real()->mono_ns(crn_clock_real()) + ns;
}

/* A disk that is full while the switch is on. */
struct full_disk {
    struct crn_fs fs;
    atomic_int is_full;
};

static ssize_t pwrite_full(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    if (atomic_load(&((struct full_disk *)(uintptr_t)fs)->is_full))
        return -ENOSPC;
    return crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
}

struct bed {
    char dir[256];
    struct crn_sim_options sim;
    struct crn_driver *driver;
    struct crn_device *dev, *dev2;
    struct full_disk disk;
    struct crn_cache *cache;
    unsigned char *gpu;  /* the application's buffer on the device */
    unsigned char *host; /* and in the host */
    uint64_t bytes[KEYS];
    _Atomic uint64_t ops;
};

static void on_op(void *arg, const struct crn_cache_op *op)
{
    struct bed *b = arg;

    (void)op;
    atomic_fetch_add(&b->ops, 1);
}

static void fill(unsigned char *p, uint64_t key, uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i < bytes; i++)
        p[i] = (unsigned char)(key * 37 + i + (i >> 8) * 11);
}

static int is_filled(const unsigned char *p, uint64_t key, uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i < bytes; i++)
        if (p[i] != (unsigned char)(key * 37 + i + (i >> 8) * 11))
            return 0;
    return 1;
}

static int is_real(void)
{
    return getenv("CAIRN_TEST_GPU") != NULL;
}

static void open_driver(struct bed *b)
{
    if (is_real()) {
        assert_ok(crn_driver_cuda(0, &b->driver, ei));
        return;
    }
    if (b->sim.bytes == 0)
        b->sim.bytes = DEVMEM;
    assert_ok(crn_driver_sim(&b->sim, &b->driver, ei));
}

static void bed_open(struct bed *b, enum crn_evict policy, int discard)
{
    struct crn_cache_options opt = {
        .policy = policy, .discard_consumed = discard, .ntiers = 3, .on_op = on_op, .arg = b};
    void *p;

    test_dir_make(b->dir, sizeof(b->dir));
    b->disk.fs = *crn_fs_posix();
    b->disk.fs.pwrite = pwrite_full;
    open_driver(b);
    assert_ok(b->driver->ops->device_open(b->driver, 0, &b->dev, ei));
    assert_ok(b->driver->ops->alloc(b->dev, MAXB, &p, ei));
    b->gpu = p;
    b->host = malloc(MAXB);
    assert_non_null(b->host);
    assert_ok(crn_tier_device(b->dev, DEV, &opt.tier[0], ei));
    assert_ok(crn_tier_host(b->dev, HOST, 2, &opt.tier[1], ei));
    assert_ok(crn_tier_dir(&b->disk.fs, b->dir, UINT64_MAX, &opt.tier[2], ei));
    assert_ok(crn_cache_open(&opt, &b->cache, ei));
}

static void bed_close(struct bed *b)
{
    crn_cache_close(b->cache);
    free(b->host);
    b->driver->ops->free(b->dev, b->gpu);
    b->driver->ops->device_close(b->dev);
    if (b->dev2 != NULL)
        b->driver->ops->device_close(b->dev2);
    b->driver->ops->close(b->driver);
    assert_int_equal(rmdir(b->dir), 0); /* nothing was left behind */
}

/* Between the application's two buffers; a simulated device is host memory. */
static void move(struct bed *b, void *dst, const void *src, uint64_t bytes)
{
    if (!is_real()) {
        memcpy(dst, src, bytes);
        return;
    }
    assert_ok(b->driver->ops->copy(b->dev, CRN_LANE_WRITE, dst, src, bytes, ei));
    assert_ok(b->driver->ops->wait(b->dev, CRN_LANE_WRITE, ei));
}

static cairn_err put(struct bed *b, uint64_t key, uint64_t bytes, int from_gpu)
{
    unsigned char *p = from_gpu ? b->gpu : b->host;
    /* Three pieces; the middle one of odd size. */
    struct crn_piece piece[3] = {
        {p, 0, bytes / 3, from_gpu ? b->dev : NULL},
        {p + bytes / 3, bytes / 3, bytes / 2 - bytes / 3, from_gpu ? b->dev : NULL},
        {p + bytes / 2, bytes / 2, bytes - bytes / 2, from_gpu ? b->dev : NULL},
    };
    struct crn_errinfo why = {0};
    cairn_err rc;

    fill(b->host, key, bytes);
    if (from_gpu)
        move(b, b->gpu, b->host, bytes);
    b->bytes[key] = bytes;
    rc = crn_cache_write(b->cache, key, bytes, piece, 3, NULL, in(LONG), &why);
    memset(b->host, 0xa5, bytes); /* the copy is made: the application goes on */
    if (from_gpu)
        move(b, b->gpu, b->host, bytes);
    if (rc != CAIRN_OK)
        assert_true(strlen(why.msg) > 0 && why.code == rc);
    return rc;
}

static cairn_err get(struct bed *b, uint64_t key, int to_gpu)
{
    uint64_t bytes = b->bytes[key];
    unsigned char *p = to_gpu ? b->gpu : b->host;
    struct crn_piece piece[2] = {
        {p, 0, bytes / 5, to_gpu ? b->dev : NULL},
        {p + bytes / 5, bytes / 5, bytes - bytes / 5, to_gpu ? b->dev : NULL},
    };
    struct crn_errinfo why = {0};
    cairn_err rc = crn_cache_read(b->cache, key, piece, 2, NULL, in(LONG), &why);

    if (rc != CAIRN_OK) {
        assert_true(strlen(why.msg) > 0 && why.code == rc);
        return rc;
    }
    if (to_gpu)
        move(b, b->host, b->gpu, bytes);
    assert_true(is_filled(b->host, key, bytes));
    return CAIRN_OK;
}

/* A shot: all are written, then read back in some order. --------------------------------------------- */

enum order { SEQUENTIAL, REVERSE, IRREGULAR, ORDERS };

static uint64_t nth(enum order order, uint64_t i)
{
    return order == SEQUENTIAL ? i : order == REVERSE ? KEYS - 1 - i : (i * 7 + 3) % KEYS;
}

static void shot(enum crn_evict policy, int discard, enum order order, int hints, int wait)
{
    struct bed b = {.sim = {.down_bps = 200e6, .up_bps = 200e6, .latency_ns = 20000}};
    struct crn_cache_stats stats;
    struct crn_rng rng;
    uint64_t total = 0;
    uint64_t i;

    crn_rng_seed(&rng, (uint64_t)policy * 100 + (uint64_t)order);
    bed_open(&b, policy, discard);
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
    if (wait)
        assert_true(stats.flushed_bytes[0] + stats.flushed_bytes[1] >= total);
    bed_close(&b);
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

/* With all hints, time and room for all: every read is a hit on the first tier. */
static void test_hints_make_hits(void **state)
{
    struct bed b = {0};
    struct crn_cache_stats stats;
    uint64_t i;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 0);
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
    bed_close(&b);
}

/* The application's stream. --------------------------------------------------------------------------- */

struct kernel {
    unsigned char *p;
    uint64_t key, bytes;
    int is_check, is_good;
};

static void run_kernel(void *arg)
{
    struct kernel *k = arg;
    struct timespec slow = {.tv_nsec =
                                20000000}; /* so that a copy that does not wait is too early */

    (void)nanosleep(&slow, NULL);
    if (k->is_check)
        k->is_good = is_filled(k->p, k->key, k->bytes);
    else
        fill(k->p, k->key, k->bytes);
}

static void test_after_stream(void **state)
{
    struct bed b = {0};
    struct crn_sim_stream *stream;
    struct crn_piece piece;
    struct kernel k;
    struct kernel seen;
    int named;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b, CRN_EVICT_SCORE, 0);
    assert_ok(crn_sim_stream_open(b.dev, &stream, ei));
    piece = (struct crn_piece){b.gpu, 0, MAXB, b.dev};
    for (named = 0; named < 2; named++) {
        k = (struct kernel){b.gpu, (uint64_t)named, MAXB, 0, 0};
        b.bytes[named] = MAXB;
        crn_sim_launch(b.dev, named ? stream : NULL, run_kernel, &k);
        assert_ok(crn_cache_write(b.cache, (uint64_t)named, MAXB, &piece, 1, named ? stream : NULL,
                                  in(LONG), ei));
    }
    /* A restore waits for a kernel that still reads the buffer. */
    assert_int_equal(get(&b, 0, 1), CAIRN_OK);
    seen = (struct kernel){b.gpu, 0, MAXB, 1, 0};
    crn_sim_launch(b.dev, stream, run_kernel, &seen);
    assert_ok(crn_cache_read(b.cache, 1, &piece, 1, stream, in(LONG), ei));
    assert_true(is_filled(b.gpu, 1, MAXB));
    crn_sim_stream_close(stream);
    assert_true(seen.is_good);
    bed_close(&b);
}

/* Failures. ------------------------------------------------------------------------------------------- */

/* Every k-th copy of the device fails: a failed capture or restore is said and can be tried again,
 * background copies are, and all bytes are right. */
static void test_device_copies_fail(void **state)
{
    long k;
    uint64_t i;

    (void)state;
    if (is_real())
        skip();
    for (k = 1; k < 24; k += 2) {
        struct bed b = {.sim = {.fail_at = k, .fail_every = 11}};

        bed_open(&b, CRN_EVICT_SCORE, 0);
        for (i = 0; i < KEYS / 2; i++) {
            int tries = 0;

            while (put(&b, i, MAXB / 2 + i, 1) != CAIRN_OK)
                assert_true(++tries < 5);
        }
        for (i = 0; i < KEYS / 2; i++) {
            int tries = 0;

            while (get(&b, i, 1) != CAIRN_OK)
                assert_true(++tries < 5);
        }
        assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
        bed_close(&b);
    }
}

/* The device is lost at its k-th copy. What was flushed is read from the host; the rest is said to be
 * lost; host memory is captured as before. */
static void test_device_lost(void **state)
{
    long k;
    uint64_t i;

    (void)state;
    if (is_real())
        skip();
    for (k = 1; k < 30; k += 3) {
        struct bed b = {.sim = {.lose_at = k}};
        int written[KEYS] = {0};
        uint64_t lost = 0;

        bed_open(&b, CRN_EVICT_SCORE, 0);
        for (i = 0; i < KEYS / 2; i++)
            written[i] = put(&b, i, MAXB / 2 + i, i % 2 == 0) == CAIRN_OK;
        for (i = 0; i < KEYS / 2; i++) {
            cairn_err rc = written[i] ? get(&b, i, 0) : CAIRN_OK;

            if (rc != CAIRN_OK && rc != CAIRN_EDAMAGED)
                fail_msg("k %ld, checkpoint %d: %s", k, (int)i, cairn_error_name(rc));
            lost += rc == CAIRN_EDAMAGED;
        }
        assert_true(lost <= 5); /* no more fit on the device */
        for (i = KEYS / 2; k < 24 && i < KEYS; i++) {
            assert_int_equal(put(&b, i, MAXB, 0), CAIRN_OK);
            assert_int_equal(crn_cache_state(b.cache, i, 0), CRN_LIFE_INIT);
        }
        for (i = KEYS / 2; k < 24 && i < KEYS; i++)
            assert_int_equal(get(&b, i, 0), CAIRN_OK);
        bed_close(&b);
    }
}

static void test_no_device_memory(void **state)
{
    struct crn_sim_options sim = {.bytes = 1 << 20};
    struct crn_errinfo why = {0};
    struct crn_driver *driver;
    struct crn_device *dev;
    struct crn_tier *tier;

    (void)state;
    if (is_real())
        skip();
    assert_ok(crn_driver_sim(&sim, &driver, ei));
    assert_ok(driver->ops->device_open(driver, 0, &dev, ei));
    assert_int_equal(crn_tier_device(dev, 2 << 20, &tier, &why), CAIRN_ENOMEM);
    assert_non_null(strstr(why.msg, "device tier of 2097152 bytes"));
    assert_int_equal(driver->ops->device_open(driver, 1, &dev, &why), CAIRN_ENOTSUP);
    driver->ops->device_close(dev);
    driver->ops->close(driver);
}

static void test_pinning_fails(void **state)
{
    struct bed b = {.sim = {.pin_fails = 1}};

    (void)state;
    if (is_real())
        skip();
    bed_open(&b, CRN_EVICT_SCORE, 0);
    assert_ok(crn_cache_ready(b.cache, in(LONG), ei));
    assert_int_equal(put(&b, 1, MAXB, 1), CAIRN_OK);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_int_equal(get(&b, 1, 1), CAIRN_OK);
    bed_close(&b);
}

/* The disk is full for a while: nothing is lost, captures go on while there is memory, and when there
 * is room again everything is flushed. */
static void test_disk_full(void **state)
{
    struct bed b = {0};
    struct crn_errinfo why = {0};
    struct crn_errinfo last = {0};
    struct crn_piece piece;
    uint64_t i;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 0);
    atomic_store(&b.disk.is_full, 1);
    for (i = 0; i < 8; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    assert_int_equal(crn_cache_flush(b.cache, in(200000000), &why), CAIRN_ETIMEDOUT);
    assert_non_null(strstr(why.msg, "last failure"));
    crn_cache_last_error(b.cache, &last);
    assert_int_equal(last.code, CAIRN_ENOSPC);
    /* No memory is left: this one goes to the disk itself and says why that fails. */
    piece = (struct crn_piece){b.gpu, 0, MAXB, b.dev};
    memset(&why, 0, sizeof(why));
    assert_int_not_equal(crn_cache_write(b.cache, 9, MAXB, &piece, 1, NULL, in(LONG / 60), &why),
                         CAIRN_OK);
    for (i = 0; i < 8; i++)
        assert_int_equal(get(&b, i, 1), CAIRN_OK);
    atomic_store(&b.disk.is_full, 0);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_int_equal(put(&b, 9, MAXB, 1), CAIRN_OK);
    bed_close(&b);
}

static void damage_files(const char *dir)
{
    char cmd[600];

    (void)snprintf(cmd, sizeof(cmd),
                   "for f in %s/cairn-tier-*/[0-9]*; do printf x | dd of=$f bs=1 seek=100 "
                   "conv=notrunc status=none; done",
                   dir);
    assert_int_equal(system(cmd), 0);
}

static void test_damaged_files(void **state)
{
    struct bed b = {0};
    uint64_t i;
    unsigned damaged = 0;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 0);
    for (i = 0; i < KEYS; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    damage_files(b.dir);
    for (i = 0; i < KEYS; i++) {
        cairn_err rc = get(&b, i, 1);

        assert_true(rc == CAIRN_OK || rc == CAIRN_EDAMAGED); /* never wrong bytes */
        damaged += rc == CAIRN_EDAMAGED;
    }
    assert_true(damaged >= KEYS - 8 && damaged < KEYS); /* those in memory are fine */
    bed_close(&b);
}

/* Directories of the dead are removed, those of the living are not. */
static void test_sweep(void **state)
{
    struct bed b = {0};
    struct crn_tier *beside;
    int status;
    pid_t pid;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 0);
    pid = fork();
    if (pid == 0) {
        struct crn_errinfo none = {0};
        struct crn_tier *t;

        _exit(crn_tier_dir(crn_fs_posix(), b.dir, UINT64_MAX, &t, &none) == CAIRN_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(crn_tier_dir(crn_fs_posix(), b.dir, UINT64_MAX, &beside, ei));
    assert_int_equal(put(&b, 1, MAXB, 1), CAIRN_OK);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    beside->ops->close(beside);
    bed_close(&b); /* removes an empty directory: the dead one's is gone */
}

/* More. ----------------------------------------------------------------------------------------------- */

static void test_two_devices(void **state)
{
    struct bed b = {.sim = {.devices = 2}};
    struct crn_piece piece[3];
    void *other;

    (void)state;
    if (is_real())
        skip();
    bed_open(&b, CRN_EVICT_SCORE, 0);
    assert_ok(b.driver->ops->device_open(b.driver, 1, &b.dev2, ei));
    assert_ok(b.driver->ops->alloc(b.dev2, MAXB, &other, ei));
    assert_int_equal(b.driver->ops->owner(b.driver, b.gpu + 5), 0);
    assert_int_equal(b.driver->ops->owner(b.driver, (char *)other + 5), 1);
    assert_int_equal(b.driver->ops->owner(b.driver, b.host), -1);
    fill(b.gpu, 1, 1000);
    fill(other, 2, 1000);
    fill(b.host, 3, 1000);
    piece[0] = (struct crn_piece){b.gpu, 0, 1000, b.dev};
    piece[1] = (struct crn_piece){other, 4096, 1000, b.dev2};
    piece[2] = (struct crn_piece){b.host, 8192, 1000, NULL};
    assert_ok(crn_cache_write(b.cache, 1, 3 * 4096, piece, 3, NULL, in(LONG), ei));
    memset(b.gpu, 0, 1000);
    memset(other, 0, 1000);
    memset(b.host, 0, 1000);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_ok(crn_cache_read(b.cache, 1, piece, 3, NULL, in(LONG), ei));
    assert_true(is_filled(b.gpu, 1, 1000));
    assert_true(is_filled(other, 2, 1000));
    assert_true(is_filled(b.host, 3, 1000));
    b.driver->ops->free(b.dev2, other);
    bed_close(&b);
}

/* One thread writes, one reads what was written, one hints and forgets: for the thread sanitizer. */
struct party {
    struct bed *b;
    _Atomic uint64_t written;
    int failures;
};

static void *read_behind(void *arg)
{
    struct party *p = arg;
    unsigned char *mine = malloc(MAXB);
    uint64_t key = 0;

    while (key < KEYS) {
        struct crn_piece piece = {mine, 0, MAXB, NULL};
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
    struct bed b = {0};
    struct party reader = {.b = &b};
    struct party hinter = {.b = &b};
    pthread_t thread[2];
    uint64_t key;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 1);
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
    bed_close(&b);
}

static void test_close_while_busy(void **state)
{
    struct bed b = {.sim = {.down_bps = 2e6}};
    uint64_t i;

    (void)state;
    bed_open(&b, CRN_EVICT_SCORE, 0);
    for (i = 0; i < 2; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shots),
        cmocka_unit_test(test_hints_make_hits),
        cmocka_unit_test(test_after_stream),
        cmocka_unit_test(test_device_copies_fail),
        cmocka_unit_test(test_device_lost),
        cmocka_unit_test(test_no_device_memory),
        cmocka_unit_test(test_pinning_fails),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_close_while_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
