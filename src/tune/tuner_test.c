/* SPDX-License-Identifier: BSD-3-Clause */
/* A complete, tiny tuning in memory: limits are respected, the directory is clean afterwards, a
 * full file system is refused, the leftovers of a killed run are removed, and the configuration
 * can be read. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include "base/config.h"
#include "tune/tuner.h"

#define M ((uint64_t)1 << 20)

static struct crn_tuning result; /* large */

static struct crn_tuner tiny(void)
{
    struct crn_tuner t = {.fs = crn_fs_posix(), .opt = crn_tune_defaults(0)};

    t.opt.repeats = 1;
    t.opt.space_bytes = 8 * M;
    t.opt.reserve_bytes = 0;
    return t;
}

static size_t entries(const char *dir)
{
    struct crn_names names;
    size_t n;
    int fd = open(dir, O_RDONLY | O_DIRECTORY);

    assert_int_equal(crn_fs_names(crn_fs_posix(), fd, dir, &names, NULL), CAIRN_OK);
    n = names.n;
    crn_names_free(&names);
    (void)close(fd);
    return n;
}

static void count(void *arg, const struct crn_probe *p)
{
    assert_true(p->bytes <= 8 * M);
    ++*(unsigned *)arg;
}

static void test_tiny(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_tuner t = tiny();
    struct crn_config cfg;
    char dir[256], path[300];
    unsigned runs = 0;
    size_t i, measured = 0;
    FILE *out;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    t.progress = count;
    t.progress_arg = &runs;
    assert_ok(crn_tune_run(&t, dir, &result, ei));
    assert_int_equal(entries(dir), 0);
    assert_int_equal(runs, result.n);
    assert_true(result.best_rate > 0 && result.one_rate > 0);
    assert_true(result.written <= t.opt.written_bytes);
    for (i = 0; i < result.n; i++) {
        assert_true((result.m[i].n == 1) == (result.m[i].problem[0] == '\0'));
        measured += result.m[i].n;
    }
    assert_true(measured > 20);

    (void)snprintf(path, sizeof(path), "%s/tuned.ini", dir);
    for (i = 0; i < CRN_METHODS; i++) {
        result.best.method = (enum crn_method)i;
        out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(crn_tune_config(&result, dir, out), 0);
        assert_int_equal(fclose(out), 0);
        assert_ok(crn_config_load(&cfg, path, NULL, ei));
        assert_int_equal(cfg.writers, result.best.writers);
        assert_int_equal(cfg.block_bytes, result.best.block_bytes);
        assert_int_equal(cfg.blocks, 2 * result.best.writers);
        assert_int_equal(cfg.io, i);
        crn_config_fini(&cfg);
    }
    test_dir_remove(dir);
}

/* The plan stays within the byte limit, so only the deadline can end a tuning early. */
static void test_no_time(void **state)
{
    struct crn_errinfo ei = {0};
    struct crn_tuner t = tiny();
    char dir[256];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    t.opt.seconds = 0;
    assert_int_equal(crn_tune_run(&t, dir, &result, &ei), CAIRN_ETIMEDOUT);
    assert_string_equal(result.cut_by, "time");
    assert_int_equal(entries(dir), 0);
    test_dir_remove(dir);
}

static void stop_soon(void *arg, const struct crn_probe *p)
{
    (void)p;
    atomic_store((atomic_int *)arg, 1);
}

static void test_stopped(void **state)
{
    struct crn_tuner t = tiny();
    atomic_int stop = 0;
    char dir[256];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    t.stop = &stop;
    t.progress = stop_soon;
    t.progress_arg = &stop;
    assert_int_equal(crn_tune_run(&t, dir, &result, NULL), CAIRN_ECANCELED);
    assert_int_equal(entries(dir), 0);
    test_dir_remove(dir);
}

static int little_space(const struct crn_fs *fs, int fd, struct crn_room *ret)
{
    (void)fs;
    (void)fd;
    *ret = (struct crn_room){10 * M, "free"};
    return 0;
}

static ssize_t refuse_write(const struct crn_fs *fs, int fd, const void *buf, size_t n, off_t off)
{
    (void)fs;
    (void)fd;
    (void)buf;
    (void)off;
    return n > 0 ? -EBADF : 0; /* not ENOSPC, which the test would notice */
}

static void test_full(void **state)
{
    struct crn_errinfo ei = {0};
    struct crn_tuner t = tiny();
    struct crn_fs fs = *crn_fs_posix();
    char dir[256];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    fs.space = little_space;
    fs.pwrite = refuse_write;
    t.fs = &fs;
    assert_int_equal(crn_tune_run(&t, dir, &result, &ei), CAIRN_ENOSPC);
    assert_non_null(strstr(ei.msg, "full"));
    assert_int_equal(entries(dir), 0);
    assert_int_equal(crn_tune_run(&t, "/no/such/dir", &result, NULL), CAIRN_ENOENT);
    test_dir_remove(dir);
}

/* A killed run leaves its folder. The next run removes it, but not one that is in use. */
static void test_stale(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_scratch used, mine;
    char dir[256];
    int status;
    pid_t pid;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct crn_scratch s;

        if (crn_scratch_open(crn_fs_posix(), dir, &s, NULL) == CAIRN_OK)
            (void)raise(SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(entries(dir), 1);
    assert_ok(crn_scratch_open(crn_fs_posix(), dir, &used, ei));
    assert_int_equal(entries(dir), 1);
    assert_ok(crn_scratch_open(crn_fs_posix(), dir, &mine, ei));
    assert_int_equal(entries(dir), 2);
    assert_ok(crn_scratch_close(&mine, ei));
    assert_ok(crn_scratch_close(&used, ei));
    assert_int_equal(entries(dir), 0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny), cmocka_unit_test(test_no_time), cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_full), cmocka_unit_test(test_stale),
    };

    test_dir_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
