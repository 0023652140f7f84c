/* SPDX-License-Identifier: BSD-3-Clause */
/* The model must tell a safe way to replace a file from the usual unsafe ones; otherwise it proves
 * nothing. */
#include <fcntl.h>
#include <unistd.h>

#include "base/fs_journal.h"
#include "base/test.h"

#define OLD   "the old content"
#define FRESH "and this is the new one"

struct fs_journal_test_seen {
    int old, fresh, torn, missing;
};

static void look(const char *dir, struct fs_journal_test_seen *seen)
{
    struct crn_errinfo info = {0};
    size_t len;
    void *buf;
    int dfd = open(dir, O_RDONLY | O_DIRECTORY);

    if (crn_fs_read_file(crn_fs_posix(), dfd, "f", 1000, &buf, &len, &info) != CAIRN_OK) {
        seen->missing++;
    } else {
        if (strcmp(buf, OLD) == 0)
            seen->old++;
        else if (strcmp(buf, FRESH) == 0)
            seen->fresh++;
        else
            seen->torn++;
        free(buf);
    }
    assert_int_equal(close(dfd), 0);
}

/* Looks at all possible states after a power loss at each operation. */
static struct fs_journal_test_seen enumerate(const struct crn_fs_journal *j, size_t from)
{
    struct fs_journal_test_seen seen = {0};
    size_t n;

    for (n = from; n <= crn_fs_journal_now(j); n++) {
        unsigned char apply[256] = {0};
        size_t count, bits, i;
        size_t *list = crn_fs_journal_unsynced(j, n, &count);

        assert_true(n < sizeof(apply) && count < 12);
        for (bits = 0; bits < (size_t)1 << count; bits++) {
            char dir[256];

            for (i = 0; i < count; i++)
                apply[list[i]] = (bits >> i) & 1;
            test_dir_make(dir, sizeof(dir));
            assert_int_equal(crn_fs_journal_build(j, n, apply, dir), 0);
            look(dir, &seen);
            test_dir_remove(dir);
        }
        free(list);
    }
    return seen;
}

static struct crn_fs_journal *start(char *dir, size_t size, int *ret_dfd)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    const struct crn_fs *fs;
    int dfd;

    test_dir_make(dir, size);
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_ok(crn_fs_replace(crn_fs_posix(), dfd, "f", OLD, strlen(OLD), ei));
    assert_int_equal(close(dfd), 0);
    j = crn_fs_journal_open(crn_fs_posix(), dir);
    assert_non_null(j);
    fs = crn_fs_journal_fs(j);
    *ret_dfd = fs->openat(fs, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    assert_true(*ret_dfd >= 0);
    return j;
}

static void finish(struct crn_fs_journal *j, const char *dir, int dfd)
{
    const struct crn_fs *fs = crn_fs_journal_fs(j);

    assert_int_equal(fs->close(fs, dfd), 0);
    crn_fs_journal_close(j);
    test_dir_remove(dir);
}

static void replacing_leaves_old_or_new(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    struct fs_journal_test_seen seen;
    char dir[256];
    size_t from;
    int dfd;

    (void)state;
    j = start(dir, sizeof(dir), &dfd);
    from = crn_fs_journal_now(j);
    assert_ok(crn_fs_replace(crn_fs_journal_fs(j), dfd, "f", FRESH, strlen(FRESH), ei));
    seen = enumerate(j, from);
    assert_true(seen.old > 0 && seen.fresh > 0);
    assert_int_equal(seen.torn + seen.missing, 0);
    seen = enumerate(j, crn_fs_journal_now(j)); /* durable at the end */
    assert_int_equal(seen.fresh, 1);
    assert_int_equal(seen.old, 0);
    finish(j, dir, dfd);
}

static void writing_in_place_tears(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    const struct crn_fs *fs;
    char dir[256];
    size_t from;
    int dfd, fd;

    (void)state;
    j = start(dir, sizeof(dir), &dfd);
    fs = crn_fs_journal_fs(j);
    from = crn_fs_journal_now(j);
    fd = fs->openat(fs, dfd, "f", O_WRONLY, 0);
    assert_ok(crn_fs_write_all(fs, fd, FRESH, strlen(FRESH), 0, "f", ei));
    assert_int_equal(fs->fsync(fs, fd), 0);
    assert_int_equal(fs->close(fs, fd), 0);
    assert_true(enumerate(j, from).torn > 0);
    finish(j, dir, dfd);
}

static void a_rename_without_fsync_tears(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    const struct crn_fs *fs;
    char dir[256];
    size_t from;
    int dfd, fd;

    (void)state;
    j = start(dir, sizeof(dir), &dfd);
    fs = crn_fs_journal_fs(j);
    from = crn_fs_journal_now(j);
    fd = fs->openat(fs, dfd, "tmp", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_ok(crn_fs_write_all(fs, fd, FRESH, strlen(FRESH), 0, "tmp", ei));
    assert_int_equal(fs->renameat(fs, dfd, "tmp", dfd, "f"), 0);
    assert_int_equal(fs->close(fs, fd), 0);
    assert_true(enumerate(j, from).torn > 0);
    finish(j, dir, dfd);
}

/* Either directory may have changed without the other. */
static void a_rename_into_another_directory_is_two_changes(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    const struct crn_fs *fs;
    char dir[256];
    struct fs_journal_test_seen seen;
    size_t from, count;
    size_t *list;
    int dfd, sub, fd;

    (void)state;
    j = start(dir, sizeof(dir), &dfd);
    fs = crn_fs_journal_fs(j);
    assert_int_equal(fs->mkdirat(fs, dfd, "d", 0700), 0);
    sub = fs->openat(fs, dfd, "d", O_RDONLY | O_DIRECTORY, 0);
    fd = fs->openat(fs, sub, "x", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_ok(crn_fs_write_all(fs, fd, FRESH, strlen(FRESH), 0, "x", ei));
    assert_int_equal(fs->fsync(fs, fd), 0);
    assert_int_equal(fs->close(fs, fd), 0);
    assert_int_equal(fs->fsync(fs, sub), 0);
    assert_int_equal(fs->fsync(fs, dfd), 0);
    from = crn_fs_journal_now(j);
    assert_int_equal(fs->renameat(fs, sub, "x", dfd, "f"), 0);
    list = crn_fs_journal_unsynced(j, crn_fs_journal_now(j), &count);
    assert_int_equal(count, 2);
    free(list);
    seen = enumerate(j, from);
    assert_true(seen.old > 0 && seen.fresh > 0 && seen.torn == 0 && seen.missing == 0);
    assert_int_equal(fs->fsync(fs, dfd), 0);
    assert_int_equal(fs->fsync(fs, sub), 0);
    assert_null(crn_fs_journal_unsynced(j, crn_fs_journal_now(j), &count));
    assert_int_equal(fs->close(fs, sub), 0);
    finish(j, dir, dfd);
}

static void removing_before_the_new_one_is_durable_loses_both(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_journal *j;
    const struct crn_fs *fs;
    char dir[256], text[128];
    size_t from;
    int dfd, fd;

    (void)state;
    j = start(dir, sizeof(dir), &dfd);
    fs = crn_fs_journal_fs(j);
    from = crn_fs_journal_now(j);
    assert_int_equal(fs->unlinkat(fs, dfd, "f", 0), 0);
    fd = fs->openat(fs, dfd, "f", O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_ok(crn_fs_write_all(fs, fd, FRESH, strlen(FRESH), 0, "f", ei));
    assert_int_equal(fs->fsync(fs, fd), 0);
    assert_int_equal(fs->close(fs, fd), 0);
    assert_true(enumerate(j, from).missing > 0);
    crn_fs_journal_describe(j, from, text, sizeof(text));
    assert_non_null(strstr(text, "unlink"));
    finish(j, dir, dfd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replacing_leaves_old_or_new),
        cmocka_unit_test(writing_in_place_tears),
        cmocka_unit_test(a_rename_without_fsync_tears),
        cmocka_unit_test(a_rename_into_another_directory_is_two_changes),
        cmocka_unit_test(removing_before_the_new_one_is_durable_loses_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
