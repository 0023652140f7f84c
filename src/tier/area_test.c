/* SPDX-License-Identifier: BSD-3-Clause */
/* The area: any range of an image reads back as written, in this process and in another, or fails.
 * If O_DIRECT is refused, at open or later, the area works without it. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "tier/area.h"

#define GRANULE CRN_AREA_GRANULE
#define BYTES   (5 * GRANULE + 3 * 4096 + 100) /* of an image */
#define BLOCK   (2 * GRANULE)

static uint64_t round_down(uint64_t x, uint64_t unit)
{
    return x / unit * unit;
}

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct area_test_bed {
    char dir[256];
    int dfd;
    struct crn_area *a;
    unsigned char *image; /* aligned like an arena */
    unsigned char *back;
};

static void fill(unsigned char *p, uint64_t seed)
{
    struct crn_rng rng;
    size_t i;

    crn_rng_seed(&rng, seed);
    for (i = 0; i < BYTES; i++)
        p[i] = (unsigned char)crn_rng_below(&rng, 256);
}

static void put(struct area_test_bed *b, uint64_t at)
{
    uint64_t done;

    for (done = 0; done < BYTES; done += BLOCK)
        assert_ok(crn_area_write(b->a, at, done, b->image + done,
                                 BYTES - done < BLOCK ? BYTES - done : BLOCK, ei));
}

static void bed_open(struct area_test_bed *b, const struct crn_fs *fs, const char *name,
                     int is_direct)
{
    struct crn_area_options options = {.name = name, .bytes = 20 * GRANULE, .is_direct = is_direct};

    test_dir_make(b->dir, sizeof(b->dir));
    b->dfd = open(b->dir, O_RDONLY | O_DIRECTORY);
    assert_true(b->dfd >= 0);
    assert_ok(crn_area_create(fs, b->dfd, &options, &b->a, ei));
    b->image = aligned_alloc(4096, 6 * GRANULE);
    b->back = aligned_alloc(4096, 6 * GRANULE);
    assert_true(b->image != NULL && b->back != NULL);
}

static void bed_close(struct area_test_bed *b)
{
    crn_area_close(b->a);
    free(b->image);
    free(b->back);
    (void)close(b->dfd);
    test_dir_remove(b->dir);
}

/* Compares random ranges, aligned and not, with what was written. */
static void compare(struct area_test_bed *b, struct crn_area *a, uint64_t at)
{
    struct crn_rng rng;
    int i;

    crn_rng_seed(&rng, at);
    for (i = 0; i < 300; i++) {
        uint64_t from = crn_rng_below(&rng, BYTES);
        uint64_t n = 1 + crn_rng_below(&rng, BYTES - from);

        if (i % 3 == 0)
            from = from / 4096 * 4096;
        if (i % 5 == 0)
            n = BYTES - from;
        memset(b->back, 0, BYTES);
        assert_ok(crn_area_read(a, at, BYTES, from, b->back, n, ei));
        assert_memory_equal(b->back, b->image + from, n);
    }
}

static void parts(const struct crn_fs *fs, int is_direct)
{
    struct area_test_bed b;
    struct crn_area *other;

    bed_open(&b, fs, "tier-0", is_direct);
    fill(b.image, 1);
    put(&b, 8 * GRANULE);
    fill(b.image, 2);
    put(&b, 2 * GRANULE);
    put(&b, 14 * GRANULE); /* up to the end */
    compare(&b, b.a, 2 * GRANULE);
    compare(&b, b.a, 14 * GRANULE);
    assert_ok(crn_area_open(fs, b.dfd, "tier-0", &other, ei));
    assert_true(crn_area_bytes(other) == 20 * GRANULE);
    compare(&b, other, 2 * GRANULE);
    fill(b.image, 1);
    compare(&b, other, 8 * GRANULE);
    crn_area_close(other);
    bed_close(&b);
}

static void test_parts(void **state)
{
    (void)state;
    parts(crn_fs_posix(), 0);
    parts(crn_fs_posix(), 1);
}

static int openat_plain(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    (void)fs;
    return (flags & O_DIRECT) != 0 ? -EINVAL
                                   : crn_fs_posix()->openat(crn_fs_posix(), dfd, path, flags, mode);
}

static int is_past_cache(int fd)
{
    return (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
}

static ssize_t pwrite_plain(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    (void)fs;
    return is_past_cache(fd) ? -EINVAL : crn_fs_posix()->pwrite(crn_fs_posix(), fd, buf, n, off);
}

static ssize_t pread_plain(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    (void)fs;
    return is_past_cache(fd) ? -EINVAL : crn_fs_posix()->pread(crn_fs_posix(), fd, buf, n, off);
}

static void test_without_direct(void **state)
{
    struct crn_fs fs = *crn_fs_posix();

    (void)state;
    fs.openat = openat_plain;
    parts(&fs, 1);
    fs.openat = crn_fs_posix()->openat;
    fs.pwrite = pwrite_plain;
    fs.pread = pread_plain;
    parts(&fs, 1);
}

static void damage(struct area_test_bed *b, uint64_t at)
{
    int fd = openat(b->dfd, "tier-0", O_RDWR);
    off_t data = lseek(fd, 0, SEEK_END) - (off_t)(20 * GRANULE);
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, data + (off_t)at), 1);
    assert_int_equal(byte, b->image[at]);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, data + (off_t)at), 1);
    assert_int_equal(fsync(fd), 0);
    (void)close(fd);
}

/* Each damaged byte is found, whatever range is read; the other bytes are fine. */
static void test_damage(void **state)
{
    uint64_t bad = 3 * GRANULE + 777;
    struct area_test_bed b;

    (void)state;
    bed_open(&b, crn_fs_posix(), "tier-0", 0);
    fill(b.image, 7);
    put(&b, 0);
    damage(&b, bad);
    assert_int_equal(crn_area_read(b.a, 0, BYTES, 0, b.back, BYTES, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_int_equal(crn_area_read(b.a, 0, BYTES, 3 * GRANULE + 5, b.back, 3, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_ok(crn_area_read(b.a, 0, BYTES, 0, b.back, 3 * GRANULE, ei));
    assert_ok(crn_area_read(b.a, 0, BYTES, 4 * GRANULE, b.back, BYTES - 4 * GRANULE, ei));
    assert_int_equal(crn_area_read(b.a, 0, BYTES, 1, b.back, BYTES, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_int_equal(crn_area_read(b.a, 18 * GRANULE, BYTES, 0, b.back, 1, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    bed_close(&b);
}

/* A file that is no area is refused; an unnamed one is invisible. */
static void test_files(void **state)
{
    struct crn_area_options huge = {.name = "tier-1", .bytes = UINT64_C(1) << 50};
    struct crn_area *other;
    struct area_test_bed b;
    int fd;

    (void)state;
    bed_open(&b, crn_fs_posix(), NULL, 1);
    assert_int_equal(crn_area_open(crn_fs_posix(), b.dfd, "tier-0", &other, ei), CAIRN_ENOENT);
    crn_err_clear(ei);
    fd = openat(b.dfd, "tier-0", O_RDWR | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
    (void)close(fd);
    assert_int_equal(crn_area_open(crn_fs_posix(), b.dfd, "tier-0", &other, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_int_not_equal(crn_area_create(crn_fs_posix(), b.dfd, &huge, &other, ei), CAIRN_OK);
    crn_err_clear(ei);
    assert_int_equal(faccessat(b.dfd, "tier-1", F_OK, 0), -1); /* nothing is left */
    assert_int_equal(unlinkat(b.dfd, "tier-0", 0), 0);
    fill(b.image, 3);
    put(&b, 0);
    assert_int_equal(rmdir(b.dir), 0);
    compare(&b, b.a, 0);
    bed_close(&b);
}

/* Several files. ------------------------------------------------------------------------------- */

#define STRIPE     CRN_AREA_STRIPE
#define WIDE       (5 * STRIPE + 3 * GRANULE) /* over all files, the last stripe incomplete */
#define WIDE_IMAGE (4 * STRIPE + GRANULE + 100)
#define WIDE_AT    (STRIPE - GRANULE)

/* Writes the blocks last to first, to show that the order does not matter. */
static void put_wide(struct crn_area *a, const unsigned char *image)
{
    uint64_t at = round_down(WIDE_IMAGE, STRIPE);

    for (;; at -= STRIPE) {
        uint64_t n = WIDE_IMAGE - at < STRIPE ? WIDE_IMAGE - at : STRIPE;

        assert_ok(crn_area_write(a, WIDE_AT, at, image + at, n, ei));
        if (at == 0)
            break;
    }
}

static void compare_wide(struct crn_area *a, const unsigned char *image, unsigned char *back)
{
    const uint64_t from[] = {0, 1, GRANULE - 7, GRANULE, STRIPE, 2 * STRIPE + GRANULE - 1};
    size_t i;

    for (i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        memset(back, 0, WIDE_IMAGE);
        assert_ok(crn_area_read(a, WIDE_AT, WIDE_IMAGE, from[i], back, WIDE_IMAGE - from[i], ei));
        assert_memory_equal(back, image + from[i], WIDE_IMAGE - from[i]);
        assert_ok(crn_area_read(a, WIDE_AT, WIDE_IMAGE, from[i], back, STRIPE, ei));
        assert_memory_equal(back, image + from[i], STRIPE);
    }
}

static void wide(int is_direct)
{
    struct crn_area_options options = {.name = "tier-0", .bytes = WIDE, .is_direct = is_direct};
    unsigned char *image = aligned_alloc(4096, round_down(WIDE_IMAGE, GRANULE) + GRANULE);
    unsigned char *back = aligned_alloc(4096, round_down(WIDE_IMAGE, GRANULE) + GRANULE);
    struct crn_rng rng;
    struct crn_area *other;
    struct crn_area *a;
    char dir[256];
    uint64_t i;
    int dfd;

    assert_true(image != NULL && back != NULL);
    crn_rng_seed(&rng, 11);
    for (i = 0; i < WIDE_IMAGE; i++)
        image[i] = (unsigned char)crn_rng_below(&rng, 256);
    test_dir_make(dir, sizeof(dir));
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(dfd >= 0);
    assert_ok(crn_area_create(crn_fs_posix(), dfd, &options, &a, ei));
    assert_true(crn_area_bytes(a) == WIDE);
    put_wide(a, image);
    compare_wide(a, image, back);
    assert_ok(crn_area_open(crn_fs_posix(), dfd, "tier-0", &other, ei));
    compare_wide(other, image, back);
    crn_area_close(other);
    crn_area_close(a);
    crn_area_remove(crn_fs_posix(), dfd, "tier-0");
    assert_int_equal(rmdir(dir), 0); /* nothing is left */
    (void)close(dfd);
    free(image);
    free(back);
}

static void test_wide(void **state)
{
    (void)state;
    wide(0);
    wide(1);
}

/* An area with a missing or short file is refused. */
static void test_wide_files(void **state)
{
    struct crn_area_options options = {.name = "tier-0", .bytes = WIDE};
    struct crn_area *a;
    char dir[256];
    int dfd;
    int fd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    fd = openat(dfd, "tier-0.2", O_RDWR | O_CREAT, 0600); /* a foreign file */
    assert_true(dfd >= 0 && fd >= 0);
    assert_int_not_equal(crn_area_create(crn_fs_posix(), dfd, &options, &a, ei), CAIRN_OK);
    crn_err_clear(ei);
    assert_int_equal(faccessat(dfd, "tier-0", F_OK, 0), -1);
    assert_int_equal(faccessat(dfd, "tier-0.1", F_OK, 0), -1);
    assert_int_equal(unlinkat(dfd, "tier-0.2", 0), 0);
    (void)close(fd);
    assert_ok(crn_area_create(crn_fs_posix(), dfd, &options, &a, ei));
    crn_area_close(a);
    fd = openat(dfd, "tier-0.3", O_RDWR);
    assert_int_equal(ftruncate(fd, 4096), 0);
    (void)close(fd);
    assert_int_equal(crn_area_open(crn_fs_posix(), dfd, "tier-0", &a, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_int_equal(unlinkat(dfd, "tier-0.3", 0), 0);
    assert_int_equal(crn_area_open(crn_fs_posix(), dfd, "tier-0", &a, ei), CAIRN_ENOENT);
    crn_err_clear(ei);
    crn_area_remove(crn_fs_posix(), dfd, "tier-0");
    (void)close(dfd);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),  cmocka_unit_test(test_without_direct),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_files),
        cmocka_unit_test(test_wide),   cmocka_unit_test(test_wide_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
