/* SPDX-License-Identifier: BSD-3-Clause */
/* Included by every unit test: cmocka with the headers it needs, and a scratch directory. */
#ifndef CRN_TEST_H
#define CRN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        struct crn_errinfo *assert_ei = (ei);                                                      \
        cairn_err assert_rc = (call);                                                              \
        if (assert_rc != CAIRN_OK) {                                                               \
            fail_msg("%s: %s: %s", #call, cairn_error_name(assert_rc),                             \
                     assert_ei != NULL ? assert_ei->msg : "");                                     \
            __builtin_unreachable(); /* fail_msg leaves by longjmp */                              \
        }                                                                                          \
    } while (0)

/* For tests that create thousands of small trees: puts scratch directories into memory, if
 * possible. */
static inline void test_dir_in_memory(void)
{
    const char *memory = getenv("CAIRN_TEST_MEMORY"); /* emptied by tests/support/deadline.c */

    if (memory != NULL)
        (void)setenv("TMPDIR", memory, 1);
    else if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
}

/* A fresh directory below $TMPDIR or /tmp, removed by test_dir_remove. */
static inline void test_dir_make(char *path, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(path, size, "%s/cairn-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(path));
}

static inline void test_dir_remove(const char *path)
{
    char cmd[600];

    (void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", path);
    assert_int_equal(system(cmd), 0);
}

/* Number of open descriptors of this process: if it grows, something leaks. */
static inline int test_open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

/* Binds the calling thread to one core, as MPI launchers bind ranks. Restore ret_before with
 * sched_setaffinity at the end. Skips the test if the process has only one core. */
static inline void test_bind(cpu_set_t *ret_before)
{
    cpu_set_t one;
    size_t i;

    assert_int_equal(sched_getaffinity(0, sizeof(*ret_before), ret_before), 0);
    if (CPU_COUNT(ret_before) < 2)
        skip();
    CPU_ZERO(&one);
    for (i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, ret_before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

#endif
