/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
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

/* Fails the 1st, 2nd, ... call: the content is the old or the new one each time, and nothing is
 * left behind. */
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

        assert_ok(crn_file_replace(crn_fs_posix(), dfd, "f", "old", 3, ei));
        crn_fs_faulty_init(&f, crn_fs_posix());
        f.at = k;
        f.sys_errno = ENOSPC;
        rc = crn_file_replace(&f.fs, dfd, "f", "fresh", 5, &info);
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
    assert_ok(crn_file_replace(&f.fs, dfd, "f", "0123456789", 10, ei));
    assert_ok(crn_fs_read_file(&f.fs, dfd, "f", 100, &buf, &len, ei));
    assert_string_equal(buf, "0123456789");
    free(buf);
    assert_int_equal(crn_fs_read_file(&f.fs, dfd, "f", 9, &buf, &len, ei), CAIRN_EDAMAGED);
    (void)close(dfd);
    test_dir_remove(dir);
}

/* Into room that is there; what reaches behind the end of the file is told, not a signal. */
static void a_mapped_write_is_a_write(void **state)
{
    enum { ROOM = 300000, PAST = 4096 * 100 };
    const struct crn_fs *fs = crn_fs_posix();
    char path[] = "/dev/shm/cairn-test-XXXXXX";
    unsigned char *data = malloc(PAST);
    unsigned char *found = malloc(PAST);
    int fd = mkstemp(path);
    size_t i;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    for (i = 0; i < PAST; i++)
        data[i] = (unsigned char)(i * 7 + i / 4096);
    assert_int_equal(fs->ftruncate(fs, fd, ROOM), 0);
    if (fs->map_write(fs, fd, data, 1, 0) != 1)
        skip(); /* the kernel cannot */
    assert_int_equal(fs->map_write(fs, fd, data + 5000, ROOM - 5000, 5000), ROOM - 5000);
    assert_int_equal(fs->map_write(fs, fd, data, 5000, 0), 5000);
    assert_int_equal(fs->pread(fs, fd, found, PAST, 0), ROOM);
    assert_memory_equal(found, data, ROOM);
    assert_in_range(fs->map_write(fs, fd, data, PAST, 0), 0, ROOM);
    assert_int_equal(fs->map_write(fs, fd, data, 1, PAST), 0);
    assert_true(fs->map_write(fs, -1, data, 1, 0) < 0);
    (void)close(fd);
    free(data);
    free(found);
}

/* Whether the kernel lets us fill pages: then it is to be used. */
static int can_fill(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* New pages are filled from the first on, up to one that is there or behind the end of the file; the rest is told
 * and left alone. A mapped write does the rest. */
static void new_pages_are_filled(void **state)
{
    enum { PAGES = 50, THERE = 20 };
    const struct crn_fs *fs = crn_fs_posix();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char path[] = "/dev/shm/cairn-test-XXXXXX";
    unsigned char *data = malloc(PAGES * page + 1);
    unsigned char *found = malloc(PAGES * page + 1);
    int fd = mkstemp(path);
    unsigned char *map;
    size_t i;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    if (!fs->type(fs, fd)->is_memory || !can_fill())
        skip();
    for (i = 0; i < PAGES * page + 1; i++)
        data[i] = (unsigned char)(i * 7 + i / page + 1);
    assert_int_equal(fs->ftruncate(fs, fd, (off_t)((PAGES - 1) * page)), 0);
    assert_int_equal(fs->pwrite(fs, fd, "old", 3, (off_t)(THERE * page)), 3);
    map = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    /* From an odd address, too. */
    assert_int_equal(crn_fill(map, data + 1, PAGES * page), THERE * page);
    assert_memory_equal(map, data + 1, THERE * page);
    assert_memory_equal(map + THERE * page, "old", 4);
    assert_int_equal(crn_fill(map, data, PAGES * page), 0);
    assert_memory_equal(map, data + 1, page);
    i = (THERE + 1) * page;
    assert_int_equal(crn_fill(map + i, data + i, PAGES * page - i), (PAGES - 1) * page - i);
    assert_memory_equal(map + i, data + i, (PAGES - 1) * page - i);
    map[THERE * page]++; /* it is a mapping like any other again */
    assert_int_equal(map[THERE * page], 'o' + 1);
    (void)munmap(map, PAGES * page);

    assert_int_equal(fs->ftruncate(fs, fd, 0), 0);
    assert_int_equal(fs->ftruncate(fs, fd, (off_t)(PAGES * page)), 0);
    assert_int_equal(fs->pwrite(fs, fd, "old", 3, (off_t)(THERE * page)), 3);
    assert_int_equal(fs->map_write(fs, fd, data, PAGES * page - 5, 0), PAGES * page - 5);
    assert_int_equal(fs->pread(fs, fd, found, PAGES * page, 0), PAGES * page);
    assert_memory_equal(found, data, PAGES * page - 5);
    for (i = PAGES * page - 5; i < PAGES * page; i++)
        assert_int_equal(found[i], 0);
    (void)close(fd);
    free(data);
    free(found);
}

/* KiB of a file in memory that a mapping of it finds in large pages. */
static long large_kib(int fd, size_t bytes)
{
    unsigned char *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long begin = 0, at, end;
    long kib = -1, n;
    char line[600];

    assert_true(map != MAP_FAILED && f != NULL);
    assert_int_equal(((volatile unsigned char *)map)[0], 'x');
    while (kib < 0 && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "%lx-%lx ", &at, &end) == 2)
            begin = at;
        else if (begin == (uintptr_t)map && sscanf(line, "ShmemPmdMapped: %ld", &n) == 1)
            kib = n;
    (void)fclose(f);
    (void)munmap(map, bytes);
    return kib;
}

/* On a mount that has large pages a mapped write makes such. */
static void large_pages_are_not_filled(void **state)
{
    enum { BYTES = 4 << 20 };
    const struct crn_fs *fs = crn_fs_posix();
    unsigned char *data;
    char dir[256];
    int dfd, written, mapped;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, "huge=always,size=64m") != 0) {
        test_dir_remove(dir);
        skip(); /* it takes root, or the kernel has none */
    }
    data = malloc(BYTES);
    memset(data, 'x', BYTES);
    dfd = open(dir, O_RDONLY | O_DIRECTORY);
    written = openat(dfd, "written", O_RDWR | O_CREAT, 0600);
    mapped = openat(dfd, "mapped", O_RDWR | O_CREAT, 0600);
    assert_int_equal(pwrite(written, data, BYTES, 0), BYTES);
    assert_int_equal(ftruncate(mapped, BYTES), 0);
    assert_int_equal(fs->map_write(fs, mapped, data, BYTES, 0), BYTES);
    if (large_kib(written, BYTES) > 0) /* else there is none to be had */
        assert_true(large_kib(mapped, BYTES) > 0);
    (void)close(mapped);
    (void)close(written);
    (void)close(dfd);
    assert_int_equal(umount(dir), 0);
    test_dir_remove(dir);
    free(data);
}

/* One name, and nobody else has it open. Where /dev/shm is no tmpfs it is never known. */
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
        cmocka_unit_test(a_mapped_write_is_a_write),
        cmocka_unit_test(new_pages_are_filled),
        cmocka_unit_test(large_pages_are_not_filled),
        cmocka_unit_test(a_file_may_be_ours_alone),
        cmocka_unit_test(a_private_directory_of_others_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
