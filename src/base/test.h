/* SPDX-License-Identifier: BSD-3-Clause */
/* What every unit test includes: cmocka with its required headers, and a scratch directory. */
#ifndef CRN_TEST_H
#define CRN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        struct crn_errinfo *shown = (ei);                                                          \
        cairn_err got = (call);                                                                    \
        if (got != CAIRN_OK)                                                                       \
            fail_msg("%s: %s: %s", #call, cairn_error_name(got), shown != NULL ? shown->msg : ""); \
    } while (0)

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

#endif
