/* SPDX-License-Identifier: BSD-3-Clause */
/* A directory that cannot store checkpoints is detected, for any reason; a good one is left
 * unchanged. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs_faulty.h"
#include "store/store.h"

static int entries(const char *dir)
{
    struct crn_names names = {0};
    int fd = crn_fs_posix()->openat(crn_fs_posix(), AT_FDCWD, dir, O_RDONLY | O_DIRECTORY, 0);
    int n;

    assert_int_equal(crn_fs_names(crn_fs_posix(), fd, dir, &names, NULL), CAIRN_OK);
    n = (int)names.n;
    crn_names_free(&names);
    (void)close(fd);
    return n;
}

static void a_good_one_is_left_alone(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char dir[256], path[300], host[65] = "", probe[400];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(path, sizeof(path), "%s/a/b", dir);
    assert_ok(crn_store_check(crn_fs_posix(), path, ei)); /* created if missing */
    assert_int_equal(entries(path), 0);
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    (void)snprintf(probe, sizeof(probe), "%s/.cairn-probe-%s", path, host);
    assert_int_equal(mkdir(probe, 0700), 0); /* left by a dead run */
    assert_ok(crn_store_check(crn_fs_posix(), path, ei));
    assert_int_equal(entries(path), 0);
    test_dir_remove(dir);
}

/* Each errno at each call that creates something. */
static void a_bad_one_is_told(void **state)
{
    static const struct {
        int sys_errno;
        cairn_err code;
    } cases[] = {{EACCES, CAIRN_EPERM},   {EROFS, CAIRN_EPERM},     {EIO, CAIRN_EIO},
                 {ENOENT, CAIRN_ECONFIG}, {ENOTDIR, CAIRN_ECONFIG}, {ENOSPC, CAIRN_OK},
                 {EDQUOT, CAIRN_OK},      {EMFILE, CAIRN_ELIMIT}};
    struct crn_fs_faulty f;
    char dir[256];
    size_t i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct crn_errinfo info = {0};

        crn_fs_faulty_init(&f, crn_fs_posix());
        f.ops = CRN_OP_MKDIR;
        f.at = 1;
        f.sticky = 1;
        f.sys_errno = cases[i].sys_errno;
        assert_int_equal(crn_store_check(&f.fs, dir, &info), cases[i].code);
        if (cases[i].code != CAIRN_OK)
            assert_non_null(strstr(info.msg, dir));
        assert_int_equal(entries(dir), 0);
    }
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_one_is_left_alone),
        cmocka_unit_test(a_bad_one_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
