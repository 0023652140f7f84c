/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/fs_faulty.h"
#include "base/test.h"
#include "base/touch.h"

static size_t count_names(int dfd)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_names names;
    size_t n;

    assert_ok(crn_fs_names(crn_fs_posix(), dfd, "test", &names, ei));
    n = names.n;
    crn_names_free(&names);
    return n;
}

/* Fails the 1st, 2nd, ... call. Each time the file has the old or the new content, and no other
 * file is left. */
static void replace_survives_a_failure_at_every_call(void **state)
{
    char dir[256];
    struct crn_fs_faulty f;
    long k;
    int rounds = 0;
    int dfd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    for (k = 1;; k++) {
        struct crn_errinfo info = {0};
        struct crn_errinfo read_info = {0}, *ei = &read_info;
        cairn_err rc;
        void *buf;
        size_t len;

        assert_ok(crn_fs_replace(crn_fs_posix(), dfd, "f", "old", 3, ei));
        crn_fs_faulty_init(&f, crn_fs_posix());
        f.at = k;
        f.sys_errno = ENOSPC;
        rc = crn_fs_replace(&f.fs, dfd, "f", "fresh", 5, &info);
        assert_ok(crn_fs_read_file(crn_fs_posix(), dfd, "f", 100, &buf, &len, ei));
        assert_true(strcmp(buf, "old") == 0 || strcmp(buf, "fresh") == 0);
        if (rc == CAIRN_OK)
            assert_string_equal(buf, "fresh");
        else
            assert_int_equal(rc, CAIRN_ENOSPC);
        free(buf);
        assert_int_equal(count_names(dfd), 1);
        rounds += rc != CAIRN_OK;
        if (atomic_load(&f.calls) < k)
            break;
    }
    assert_int_equal(rounds, 5); /* open, write, fsync, rename, fsync of the directory */
    (void)close(dfd);
    test_dir_remove(dir);
}

static void short_writes_are_continued(void **state)
{
    char dir[256];
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_fs_faulty f;
    void *buf;
    size_t len;
    int dfd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    crn_fs_faulty_init(&f, crn_fs_posix());
    f.at = 1;
    f.sticky = 1;
    f.action = CRN_FAULT_SHORT;
    assert_ok(crn_fs_replace(&f.fs, dfd, "f", "0123456789", 10, ei));
    assert_ok(crn_fs_read_file(&f.fs, dfd, "f", 100, &buf, &len, ei));
    assert_string_equal(buf, "0123456789");
    free(buf);
    assert_int_equal(crn_fs_read_file(&f.fs, dfd, "f", 9, &buf, &len, ei), CAIRN_EDAMAGED);
    (void)close(dfd);
    test_dir_remove(dir);
}

/* One name, and no other open descriptor. If /dev/shm is not a tmpfs, is_sole always returns 0. */
static void a_file_may_be_ours_alone(void **state)
{
    const struct crn_fs *fs = crn_fs_posix();
    char path[] = "/dev/shm/cairn-test-XXXXXX", second[64];
    int fd = mkstemp(path);
    int other;

    (void)state;
    assert_true(fd >= 0);
    (void)snprintf(second, sizeof(second), "%s.2", path);
    if (!fs->type(fs, fd)->is_memory) {
        assert_int_equal(fs->is_sole(fs, fd), 0);
    } else {
        assert_int_equal(fs->is_sole(fs, fd), 1);
        other = open(path, O_RDONLY);
        assert_int_equal(fs->is_sole(fs, fd), 0);
        assert_int_equal(close(other), 0);
        assert_int_equal(fs->is_sole(fs, fd), 1);
        assert_int_equal(link(path, second), 0);
        assert_int_equal(fs->is_sole(fs, fd), 0);
        assert_int_equal(unlink(second), 0);
        assert_int_equal(fs->is_sole(fs, fd), 1);
    }
    assert_int_equal(fs->is_sole(fs, -1), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

static void a_private_directory_of_others_is_refused(void **state)
{
    char dir[256], path[300];
    struct crn_errinfo info = {0}, *ei = &info;
    int fd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/run", dir);
    assert_ok(crn_fs_private_dir(crn_fs_posix(), path, &fd, ei));
    (void)close(fd);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(crn_fs_private_dir(crn_fs_posix(), path, &fd, ei), CAIRN_EPERM);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replace_survives_a_failure_at_every_call),
        cmocka_unit_test(short_writes_are_continued),
        cmocka_unit_test(a_file_may_be_ours_alone),
        cmocka_unit_test(a_private_directory_of_others_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
