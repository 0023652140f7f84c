/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/slurm.h"

#include <sys/stat.h>

#include "base/test.h"

static void times_are_understood(void **state)
{
    (void)state;
    assert_int_equal(crn_slurm_parse_time("4:05"), 245);
    assert_int_equal(crn_slurm_parse_time("0:00"), 0);
    assert_int_equal(crn_slurm_parse_time("1:00:00"), 3600);
    assert_int_equal(crn_slurm_parse_time("2-03:04:05"), 2 * 86400 + 3 * 3600 + 4 * 60 + 5);
    assert_int_equal(crn_slurm_parse_time("INVALID"), -1);
    assert_int_equal(crn_slurm_parse_time(""), -1);
    assert_int_equal(crn_slurm_parse_time("4:05x"), -1);
}

/* A squeue of our own, first in $PATH. */
static void make_squeue(const char *dir, const char *script)
{
    char path[600];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/squeue", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "#!/bin/sh\n%s\n", script) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static void squeue_is_asked(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char dir[500], path[4600];
    int64_t left = -1;
    int before;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s:%s", dir, getenv("PATH"));
    assert_int_equal(setenv("PATH", path, 1), 0);
    before = test_open_files();
    make_squeue(dir, "test \"$*\" = '-h -o %L -j 47' && echo 1:02:03");
    assert_ok(crn_slurm_time_left("47", &left, ei));
    assert_int_equal(left, 3723);
    make_squeue(dir, "echo UNLIMITED");
    assert_int_equal(crn_slurm_time_left("47", &left, ei), CAIRN_ENOENT);
    make_squeue(dir, "echo nonsense");
    assert_int_equal(crn_slurm_time_left("47", &left, ei), CAIRN_ESTATE);
    make_squeue(dir, "exit 1");
    assert_int_equal(crn_slurm_time_left("47", &left, ei), CAIRN_ESTATE);
    assert_int_equal(test_open_files(), before);
    test_dir_remove(dir);
}

static void a_program_that_hangs_is_killed(void **state)
{
    static const char *const argv[] = {"sleep", "1000000", NULL};
    static const char *const none[] = {"/nonexistent/program", NULL};
    struct crn_errinfo ei = {0};
    char text[16];

    (void)state;
    assert_int_equal(crn_slurm_run_for_text(argv, 50, text, sizeof(text), &ei), CAIRN_ETIMEDOUT);
    crn_err_clear(&ei);
    assert_int_not_equal(crn_slurm_run_for_text(none, 50, text, sizeof(text), &ei), CAIRN_OK);
    assert_non_null(strstr(ei.msg, "/nonexistent/program"));
}

static void a_long_answer_is_cut(void **state)
{
    static const char *const argv[] = {"seq", "100000", NULL};
    struct crn_errinfo info = {0}, *ei = &info;
    char text[8];

    (void)state;
    assert_ok(crn_slurm_run_for_text(argv, 60000, text, sizeof(text), ei));
    assert_string_equal(text, "1\n2\n3\n4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_understood),
        cmocka_unit_test(squeue_is_asked),
        cmocka_unit_test(a_program_that_hangs_is_killed),
        cmocka_unit_test(a_long_answer_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
