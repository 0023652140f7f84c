/* SPDX-License-Identifier: BSD-3-Clause */
/* A copy appears complete or not at all, whichever file operation fails, and leaves no other
 * files. */
#include "common/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fs_faulty.h"
#include "base/log.h"
#include "base/test.h"

#define BYTES (((size_t)5 << 19) + 3) /* two and a half blocks, and 3 bytes */

static struct crn_errinfo info, *ei = &info;
static char dir[400], from[500], to[500];

static void put(const char *path, unsigned char value, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    FILE *f = fopen(path, "w");

    assert_true(data != NULL && f != NULL);
    memset(data, value, bytes);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(data);
}

static int is_whole(const char *path, unsigned char value, size_t bytes)
{
    FILE *f = fopen(path, "r");
    size_t n = 0;
    int c;

    assert_non_null(f);
    while ((c = fgetc(f)) == value)
        n++;
    assert_int_equal(fclose(f), 0);
    return c == EOF && n == bytes;
}

static int count_entries(void)
{
    struct crn_names names;
    int dfd = open(dir, O_RDONLY | O_DIRECTORY);
    int n;

    assert_true(dfd >= 0);
    assert_ok(crn_fs_names(crn_fs_posix(), dfd, dir, &names, ei));
    n = (int)names.n;
    crn_names_free(&names);
    assert_int_equal(close(dfd), 0);
    return n;
}

static cairn_err copy(const struct crn_fs *fs, const char *path)
{
    struct crn_publisher *p;
    struct crn_publish_copy *c;
    cairn_err rc;
    int fd = open(from, O_RDONLY);

    assert_true(fd >= 0);
    crn_err_clear(ei);
    assert_ok(crn_publisher_open(fs, "7", NULL, &p, ei));
    assert_ok(crn_publish_file(p, fd, path, &c, ei));
    rc = crn_publish_wait(p, c, ei);
    crn_publisher_close(p);
    return rc;
}

static int set_up(void **state)
{
    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(from, sizeof(from), "%s/from", dir);
    (void)snprintf(to, sizeof(to), "%s/to", dir);
    put(from, 'n', BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

static void new_and_old(void **state)
{
    (void)state;
    assert_ok(copy(crn_fs_posix(), to));
    assert_true(is_whole(to, 'n', BYTES));
    put(to, 'o', 3 * BYTES); /* replaces a longer file */
    assert_ok(copy(crn_fs_posix(), to));
    assert_true(is_whole(to, 'n', BYTES));
    put(from, 'n', 0);
    assert_ok(copy(crn_fs_posix(), to));
    assert_true(is_whole(to, 'n', 0));
    assert_int_equal(count_entries(), 2);
    assert_int_not_equal(copy(crn_fs_posix(), "/nowhere/at/all"), CAIRN_OK);
    assert_non_null(strstr(ei->msg, "/nowhere/at/all"));
}

/* The publisher itself logs a failure: perhaps nobody waits for the copy. */
static void a_failure_is_logged(void **state)
{
    char file[500], line[1000] = "";
    struct crn_log log = {.level = CRN_ERROR, .file = file, .who = "test"};
    struct crn_publish_copy *c;
    struct crn_publisher *p;
    FILE *f;

    (void)state;
    (void)snprintf(file, sizeof(file), "%s/log", dir);
    assert_ok(crn_publisher_open(crn_fs_posix(), "7", &log, &p, ei));
    assert_ok(crn_publish_file(p, open(from, O_RDONLY), "/nowhere/at/all", &c, ei));
    while (!crn_publish_is_done(p, c))
        (void)usleep(1000);
    f = fopen(file, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(line, "/nowhere/at/all"));
    assert_int_not_equal(crn_publish_wait(p, c, ei), CAIRN_OK);
    crn_publisher_close(p);
}

/* The k-th operation fails, for every k. */
static void every_failure(void **state)
{
    static const int errors[] = {EIO, ENOSPC};
    struct crn_fs_faulty f;
    cairn_err rc;
    size_t e;
    long k;

    (void)state;
    for (e = 0; e < 2; e++) {
        for (k = 1;; k++) {
            put(to, 'o', 100);
            crn_fs_faulty_init(&f, crn_fs_posix());
            f.action = CRN_FAULT_FAIL;
            f.sys_errno = errors[e];
            f.ops = CRN_OP_ALL & ~(unsigned)(CRN_OP_CLOSE | CRN_OP_UNLINK);
            f.at = k;
            rc = copy(&f.fs, to);
            assert_int_equal(count_entries(), 2);
            assert_true(is_whole(to, 'n', BYTES) || (rc != CAIRN_OK && is_whole(to, 'o', 100)));
            if (atomic_load(&f.calls) < k)
                break;
            assert_int_not_equal(rc, CAIRN_OK);
        }
        assert_ok(rc);
        assert_true(k > 8);
    }
    for (k = 1; k < 12; k++) { /* a short write is not a failure */
        crn_fs_faulty_init(&f, crn_fs_posix());
        f.action = CRN_FAULT_SHORT;
        f.ops = CRN_OP_READ | CRN_OP_WRITE;
        f.at = k;
        put(to, 'o', 100);
        assert_ok(copy(&f.fs, to));
        assert_true(is_whole(to, 'n', BYTES));
    }
}

static void many_at_once(void **state)
{
    struct crn_publisher *p;
    struct crn_publish_copy *c[300];
    char path[520];
    int i;

    (void)state;
    put(from, 'n', 1000);
    assert_ok(crn_publisher_open(crn_fs_posix(), "7", NULL, &p, ei));
    for (i = 0; i < 300; i++) {
        (void)snprintf(path, sizeof(path), "%s-%d", to, i);
        assert_ok(crn_publish_file(p, open(from, O_RDONLY), path, &c[i], ei));
    }
    for (i = 299; i >= 0; i--) {
        assert_ok(crn_publish_wait(p, c[i], ei));
        (void)snprintf(path, sizeof(path), "%s-%d", to, i);
        assert_true(is_whole(path, 'n', 1000));
    }
    assert_int_equal(count_entries(), 301);
    crn_publisher_close(p);
    crn_publisher_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_and_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_is_logged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_at_once, set_up, tear_down),
    };

    test_dir_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
