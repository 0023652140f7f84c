/* SPDX-License-Identifier: BSD-3-Clause */
/* Every range is submitted for writeback once and in order, the bytes in flight stay bounded, and
 * writeback errors are reported. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/behind.h"
#include "base/test.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* Records the calls instead of making them. */
struct noting {
    struct crn_fs fs; /* first */
    uint64_t begun, ended;
    int calls;
    int fail_at, fail_with;
};

static int n_behind(const struct crn_fs *fs, int fd, off_t off, off_t bytes, int is_end)
{
    struct noting *n = (struct noting *)(uintptr_t)fs;

    assert_int_equal(fd, 42);
    if (++n->calls == n->fail_at)
        return -n->fail_with;
    if (is_end) {
        assert_int_equal(off, n->ended); /* in order, without gaps */
        n->ended += (uint64_t)bytes;
        assert_true(n->ended <= n->begun);
    } else {
        assert_int_equal(off, n->begun);
        n->begun += (uint64_t)bytes;
    }
    return 0;
}

static void noting_init(struct noting *n)
{
    memset(n, 0, sizeof(*n));
    n->fs = *crn_fs_posix();
    n->fs.behind = n_behind;
}

static void little_is_on_its_way(void **state)
{
    static const uint64_t sizes[] = {4 * KIB, 60 * KIB, 64 * KIB, MIB, 8 * MIB, 100 * MIB};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_behind b;
    struct noting n;
    uint64_t at;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        noting_init(&n);
        crn_behind_init(&b);
        for (at = 0; at < 400 * MIB; at += sizes[i]) {
            assert_ok(crn_behind_wrote(&b, &n.fs, 42, at, sizes[i], "file", ei));
            assert_true(at + sizes[i] - n.begun < 128 * KIB);
            assert_true(n.begun - n.ended <= (sizes[i] > 64 * MIB ? sizes[i] : 64 * MIB));
        }
        assert_true(n.ended > 200 * MIB);
        crn_behind_fini(&b);
    }
}

/* Small, scattered writes are not worth a writeback call each. */
static void scattered_bytes_are_left_to_fsync(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_behind b;
    struct noting n;
    uint64_t at;

    (void)state;
    noting_init(&n);
    crn_behind_init(&b);
    for (at = 0; at < 100 * MIB; at += MIB)
        assert_ok(crn_behind_wrote(&b, &n.fs, 42, at, 60 * KIB, "file", ei));
    assert_int_equal(n.calls, 0);
    crn_behind_fini(&b);
}

static void errors_are_heard_and_refusals_are_not(void **state)
{
    static const int refusals[] = {ENOSYS, EINVAL, ESPIPE, EOPNOTSUPP};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_behind b;
    struct noting n;
    cairn_err rc = CAIRN_OK;
    uint64_t at;
    size_t i;
    int k;

    (void)state;
    for (k = 1; k < 30; k++) {
        noting_init(&n);
        n.fail_at = k;
        n.fail_with = k % 2 != 0 ? EIO : ENOSPC;
        crn_behind_init(&b);
        crn_err_clear(ei);
        for (at = 0, rc = CAIRN_OK; rc == CAIRN_OK && at < 400 * MIB; at += 8 * MIB)
            rc = crn_behind_wrote(&b, &n.fs, 42, at, 8 * MIB, "file", ei);
        assert_int_equal(rc, k % 2 != 0 ? CAIRN_EIO : CAIRN_ENOSPC);
        assert_non_null(strstr(ei->msg, "'file' to disk"));
        crn_behind_fini(&b);
    }
    crn_err_clear(ei);
    for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        noting_init(&n);
        n.fail_at = 1;
        n.fail_with = refusals[i];
        crn_behind_init(&b);
        assert_ok(crn_behind_wrote(&b, &n.fs, 42, 0, 8 * MIB, "file", ei));
        assert_ok(crn_behind_wrote(&b, &n.fs, 42, 8 * MIB, 8 * MIB, "file", ei));
        assert_int_equal(n.calls, 1);
        crn_behind_fini(&b);
    }
}

static uint64_t bytes_in_cache(int fd, uint64_t bytes)
{
    unsigned char *there = malloc(bytes / 4096);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    uint64_t n = 0;
    uint64_t i;

    assert_true(there != NULL && p != MAP_FAILED);
    assert_int_equal(mincore(p, bytes, there), 0);
    for (i = 0; i < bytes / 4096; i++)
        n += there[i] & 1;
    (void)munmap(p, bytes);
    free(there);
    return n * 4096;
}

static void a_real_file_leaves_the_page_cache(void **state)
{
    const uint64_t step = 4 * MIB, all = 256 * MIB;
    const struct crn_fs *fs = crn_fs_posix();
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char *data = malloc(step);
    unsigned char *back = malloc(step);
    char path[] = "behind-test-XXXXXX";
    struct crn_behind b;
    uint64_t at;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0 && data != NULL && back != NULL);
    crn_behind_init(&b);
    for (at = 0; at < all; at += step) {
        memset(data, (int)(at / step) + 1, step);
        assert_ok(crn_fs_write_all(fs, fd, data, step, at, "file", ei));
        assert_ok(crn_behind_wrote(&b, fs, fd, at, step, "file", ei));
    }
    if (fs->type(fs, fd)->is_disk) /* a memory file system keeps its pages */
        assert_true(bytes_in_cache(fd, all) <= 128 * MIB);
    assert_int_equal(fs->fsync(fs, fd), 0);
    for (at = 0; at < all; at += step) {
        memset(data, (int)(at / step) + 1, step);
        assert_ok(crn_fs_read_all(fs, fd, back, step, at, "file", ei));
        assert_memory_equal(data, back, step);
    }
    crn_behind_fini(&b);
    (void)close(fd);
    (void)unlink(path);
    free(data);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_is_on_its_way),
        cmocka_unit_test(scattered_bytes_are_left_to_fsync),
        cmocka_unit_test(errors_are_heard_and_refusals_are_not),
        cmocka_unit_test(a_real_file_leaves_the_page_cache),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
