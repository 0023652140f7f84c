/* SPDX-License-Identifier: BSD-3-Clause */
#include "tier/test_cache.h"

int64_t in(int64_t ns)
{
    return crn_clock_real()->mono_ns(crn_clock_real()) + ns;
}

static ssize_t pread_rotten(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    ssize_t r = crn_fs_posix()->pread(crn_fs_posix(), fd, buf, n, off);

    if (r > 0 && atomic_load(&((struct full_disk *)(uintptr_t)fs)->is_rotten))
        ((unsigned char *)buf)[r / 2] ^= 1;
    return r;
}

ssize_t pwrite_full(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    if (atomic_load(&((struct full_disk *)(uintptr_t)fs)->is_full))
        return -ENOSPC;
    return crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
}

static void on_op(void *arg, const struct crn_cache_op *op)
{
    struct cache_bed *b = arg;

    (void)op;
    atomic_fetch_add(&b->ops, 1);
}

static void meanwhile(void *arg)
{
    struct cache_bed *b = arg;

    b->meanwhiles++;
    b->early += b->copies >= 0 && count_of(FAKE_COUNT_COPIES) == b->copies;
}

void cache_fill(unsigned char *p, uint64_t key, uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i < bytes; i++)
        p[i] = (unsigned char)(key * 37 + i + (i >> 8) * 11);
}

int is_filled(const unsigned char *p, uint64_t key, uint64_t bytes)
{
    uint64_t i;

    for (i = 0; i < bytes; i++)
        if (p[i] != (unsigned char)(key * 37 + i + (i >> 8) * 11))
            return 0;
    return 1;
}

static void open_driver(struct cache_bed *b)
{
    fail_at(NULL);
    assert_ok(crn_driver_cuda(0, &b->driver, ei));
    set_speed(b->bps, b->bps);
}

void cache_bed_open(struct cache_bed *b, enum crn_evict policy, int discard)
{
    struct crn_cache_options opt = {.policy = policy,
                                    .discard_consumed = discard,
                                    .ntiers = 3,
                                    .on_op = on_op,
                                    .arg = b,
                                    .meanwhile = meanwhile};
    void *p;

    test_dir_make(b->dir, sizeof(b->dir));
    b->disk.fs = *crn_fs_posix();
    b->disk.fs.pwrite = pwrite_full;
    b->disk.fs.pread = pread_rotten;
    open_driver(b);
    assert_ok(b->driver->ops->device_open(b->driver, 0, &b->dev, ei));
    assert_ok(b->driver->ops->alloc(b->dev, MAXB, &p, ei));
    b->gpu = p;
    b->host = malloc(MAXB);
    assert_non_null(b->host);
    assert_ok(crn_tier_device(b->dev, DEV, &opt.tier[0], ei));
    assert_ok(crn_tier_host(b->dev, HOST, 2, &opt.tier[1], ei));
    assert_ok(crn_tier_file(&b->disk.fs, b->dir, DISK, &opt.tier[2], ei));
    fail_at(b->fails);
    assert_ok(crn_cache_open(&opt, &b->cache, ei));
}

void cache_bed_close(struct cache_bed *b)
{
    crn_cache_close(b->cache);
    fail_at(NULL);
    set_speed(0, 0);
    free(b->host);
    b->driver->ops->free(b->dev, b->gpu);
    b->driver->ops->device_close(b->dev);
    if (b->dev2 != NULL)
        b->driver->ops->device_close(b->dev2);
    b->driver->ops->close(b->driver);
    assert_int_equal(rmdir(b->dir), 0); /* no files are left */
}

void move(struct cache_bed *b, void *dst, const void *src, uint64_t bytes)
{
    if (poke(dst, src, bytes))
        return;
    assert_ok(b->driver->ops->copy(b->dev, CRN_LANE_WRITE, dst, src, bytes, ei));
    assert_ok(b->driver->ops->wait(b->dev, CRN_LANE_WRITE, ei));
}

cairn_err put(struct cache_bed *b, uint64_t key, uint64_t bytes, int from_gpu)
{
    unsigned char *p = from_gpu ? b->gpu : b->host;
    /* Three pieces; the middle one of odd size. */
    struct crn_tier_piece piece[3] = {
        {p, 0, bytes / 3, from_gpu ? b->dev : NULL},
        {p + bytes / 3, bytes / 3, bytes / 2 - bytes / 3, from_gpu ? b->dev : NULL},
        {p + bytes / 2, bytes / 2, bytes - bytes / 2, from_gpu ? b->dev : NULL},
    };
    struct crn_errinfo why = {0};
    cairn_err rc;

    cache_fill(b->host, key, bytes);
    if (from_gpu)
        move(b, b->gpu, b->host, bytes);
    b->bytes[key] = bytes;
    b->copies = from_gpu && !is_real() ? count_of(FAKE_COUNT_COPIES) : -1;
    rc = crn_cache_write(b->cache, key, bytes, piece, 3, NULL, in(LONG), &why);
    memset(b->host, 0xa5, bytes); /* the copy is complete: the application changes its memory */
    if (from_gpu)
        move(b, b->gpu, b->host, bytes);
    if (rc != CAIRN_OK)
        assert_true(strlen(why.msg) > 0 && why.code == rc);
    return rc;
}

cairn_err get(struct cache_bed *b, uint64_t key, int to_gpu)
{
    uint64_t bytes = b->bytes[key];
    unsigned char *p = to_gpu ? b->gpu : b->host;
    struct crn_tier_piece piece[2] = {
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
