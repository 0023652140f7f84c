/* SPDX-License-Identifier: BSD-3-Clause */
/* The tier cache when something fails: copies, devices, memory, disks, files. */
#include "tier/test_cache.h"

#include <signal.h>

#define FAILED 801 /* CUDA: not supported */
#define LOST   719 /* CUDA: launch failure, after which the context is unusable */

/* Failures. ------------------------------------------------------------------------------------ */

/* Every k-th copy of the device fails: a failed capture or restore returns an error and can be
 * retried, background copies are retried, and all bytes are correct. */
static void test_device_copies_fail(void **state)
{
    long k;
    uint64_t i;

    (void)state;
    if (is_real())
        skip();
    for (k = 1; k < 24; k += 2) {
        char fails[64];
        struct cache_bed b = {.fails = fails};

        (void)snprintf(fails, sizeof(fails), "cuMemcpyAsync %d %ld 1 11", FAILED, k);
        cache_bed_open(&b, CRN_EVICT_SCORE, 0);
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
        cache_bed_close(&b);
    }
}

/* The device is lost at its k-th copy. Flushed checkpoints are read from the host; the others are
 * reported lost; host memory is captured as before. */
static void test_device_lost(void **state)
{
    long k;
    uint64_t i;

    (void)state;
    if (is_real())
        skip();
    for (k = 1; k < 30; k += 3) {
        char fails[64];
        struct cache_bed b = {.fails = fails};
        int written[KEYS] = {0};
        uint64_t lost = 0;

        (void)snprintf(fails, sizeof(fails), "cuMemcpyAsync %d %ld", LOST, k);
        cache_bed_open(&b, CRN_EVICT_SCORE, 0);
        for (i = 0; i < KEYS / 2; i++)
            written[i] = put(&b, i, MAXB / 2 + i, i % 2 == 0) == CAIRN_OK;
        for (i = 0; i < KEYS / 2; i++) {
            cairn_err rc = written[i] ? get(&b, i, 0) : CAIRN_OK;

            if (rc != CAIRN_OK && rc != CAIRN_EDAMAGED)
                fail_msg("k %ld, checkpoint %d: %s", k, (int)i, cairn_error_name(rc));
            lost += rc == CAIRN_EDAMAGED;
        }
        assert_true(lost <= 5); /* not more than fit on the device */
        for (i = KEYS / 2; k < 24 && i < KEYS; i++) {
            assert_int_equal(put(&b, i, MAXB, 0), CAIRN_OK);
            assert_int_equal(crn_cache_state(b.cache, i, 0), CRN_LIFE_INIT);
        }
        for (i = KEYS / 2; k < 24 && i < KEYS; i++)
            assert_int_equal(get(&b, i, 0), CAIRN_OK);
        cache_bed_close(&b);
    }
}

static void test_no_device_memory(void **state)
{
    struct crn_errinfo why = {0};
    struct crn_driver *driver;
    struct crn_device *dev;
    struct crn_tier *tier;

    (void)state;
    if (is_real())
        skip();
    assert_ok(crn_driver_cuda(0, &driver, ei));
    assert_ok(driver->ops->device_open(driver, 0, &dev, ei));
    assert_int_equal(crn_tier_device(dev, FAKE_MEMORY + 1, &tier, &why), CAIRN_ENOMEM);
    assert_non_null(strstr(why.msg, "device tier of 67108865 bytes"));
    assert_int_equal(driver->ops->device_open(driver, FAKE_DEVICES, &dev, &why), CAIRN_ENOTSUP);
    driver->ops->device_close(dev);
    driver->ops->close(driver);
}

static void test_pinning_fails(void **state)
{
    struct cache_bed b = {.fails = "cuMemHostRegister_v2 2"};

    (void)state;
    if (is_real())
        skip();
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    assert_ok(crn_cache_ready(b.cache, in(LONG), ei));
    assert_int_equal(put(&b, 1, MAXB, 1), CAIRN_OK);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_int_equal(get(&b, 1, 1), CAIRN_OK);
    cache_bed_close(&b);
}

/* The disk is full for a while: nothing is lost, captures continue while there is memory, and
 * everything is flushed when there is space again. */
static void test_disk_full(void **state)
{
    struct cache_bed b = {0};
    struct crn_errinfo why = {0};
    struct crn_tier_piece piece;
    uint64_t i;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    atomic_store(&b.disk.is_full, 1);
    for (i = 0; i < 8; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    assert_int_equal(crn_cache_flush(b.cache, in(200000000), &why), CAIRN_ETIMEDOUT);
    assert_non_null(strstr(why.msg, "last failure"));
    assert_non_null(strstr(why.msg, strerror(ENOSPC)));
    /* No memory is left: this capture goes directly to the disk and reports why that fails. */
    piece = (struct crn_tier_piece){b.gpu, 0, MAXB, b.dev};
    memset(&why, 0, sizeof(why));
    assert_int_not_equal(crn_cache_write(b.cache, 9, MAXB, &piece, 1, NULL, in(LONG / 60), &why),
                         CAIRN_OK);
    for (i = 0; i < 8; i++)
        assert_int_equal(get(&b, i, 1), CAIRN_OK);
    atomic_store(&b.disk.is_full, 0);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    assert_int_equal(put(&b, 9, MAXB, 1), CAIRN_OK);
    cache_bed_close(&b);
}

static void test_damaged_files(void **state)
{
    struct cache_bed b = {0};
    uint64_t i;
    unsigned damaged = 0;

    (void)state;
    cache_bed_open(&b, CRN_EVICT_SCORE, 0);
    for (i = 0; i < KEYS; i++)
        assert_int_equal(put(&b, i, MAXB, 1), CAIRN_OK);
    assert_ok(crn_cache_flush(b.cache, in(LONG), ei));
    atomic_store(&b.disk.is_rotten, 1);
    for (i = 0; i < KEYS; i++) {
        cairn_err rc = get(&b, i, 1);

        assert_true(rc == CAIRN_OK || rc == CAIRN_EDAMAGED); /* never wrong bytes */
        damaged += rc == CAIRN_EDAMAGED;
    }
    assert_true(damaged >= KEYS - 8 && damaged < KEYS); /* those in memory are fine */
    cache_bed_close(&b);
}

/* A killed process leaves no file. */
static void test_killed(void **state)
{
    struct cache_bed b = {0};
    int status;
    pid_t pid;

    (void)state;
    if (is_real())
        skip(); /* GPU drivers do not support fork() */
    test_dir_make(b.dir, sizeof(b.dir));
    pid = fork();
    if (pid == 0) {
        struct crn_errinfo none = {0};
        struct crn_spot spot = {.id = 1};
        struct crn_tier *t;

        if (crn_tier_file(crn_fs_posix(), b.dir, DISK, &t, &none) == CAIRN_OK &&
            t->ops->put(t, &spot, 0, "bytes", 5, &none) == CAIRN_OK)
            (void)kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(rmdir(b.dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_copies_fail),
        cmocka_unit_test(test_device_lost),
        cmocka_unit_test(test_no_device_memory),
        cmocka_unit_test(test_pinning_fails),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
