/* SPDX-License-Identifier: BSD-3-Clause */
/* A file is truncated while it is mapped, and a thread of the library reads and writes the
 * mapping. */
#include "base/test.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/guard.h"
#include "base/thread.h"

#define PAGES 8
#define PAGE  4096

static void *touch_all(void *arg)
{
    volatile unsigned char *p = arg;
    size_t sum = 0;
    size_t i;

    for (i = 0; i < (size_t)PAGES * PAGE; i++)
        sum += p[i];
    p[(size_t)PAGES * PAGE - 1] = 7;
    return (void *)sum; // NOLINT(performance-no-int-to-ptr)
}

static size_t sum_of(unsigned char *p)
{
    struct crn_errinfo ei = {0};
    pthread_t thread;
    void *sum = NULL;

    assert_int_equal(crn_thread_start(&thread, "toucher", touch_all, p, &ei), CAIRN_OK);
    assert_int_equal(pthread_join(thread, &sum), 0);
    return (size_t)sum;
}

static void truncated(void **state)
{
    char dir[256], path[300];
    struct crn_guard *g[2];
    unsigned char *p[2];
    int fd, i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/file", dir);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
    assert_null(crn_guard_add(path, 1)); /* not installed yet */
    crn_guard_install();
    for (i = 0; i < 2; i++) {
        p[i] = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, i == 0 ? MAP_SHARED : MAP_PRIVATE,
                    fd, 0);
        assert_true(p[i] != MAP_FAILED);
        g[i] = crn_guard_add(p[i], PAGES * PAGE);
        assert_non_null(g[i]);
    }
    memset(p[0], 1, PAGES * PAGE);
    assert_int_equal(sum_of(p[0]), PAGES * PAGE);
    assert_false(crn_guard_was_hit(g[0]));
    assert_int_equal(ftruncate(fd, 3 * PAGE), 0);
    assert_int_equal(sum_of(p[0]), 3 * PAGE);
    assert_true(crn_guard_was_hit(g[0]));
    assert_false(crn_guard_was_hit(g[1]));
    crn_guard_remove(g[0]);
    assert_ptr_equal(crn_guard_add(p[0], PAGE), g[0]); /* the node is reused */
    assert_false(crn_guard_was_hit(g[0]));
    for (i = 0; i < 2; i++) {
        crn_guard_remove(g[i]);
        assert_int_equal(munmap(p[i], PAGES * PAGE), 0);
    }
    (void)close(fd);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(truncated)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
