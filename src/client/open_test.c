/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions that cannot be opened: the error is reported, and no files are left. */
#include <dirent.h>
#include <sys/stat.h>

#include "base/test.h"
#include "cairn/cairn.h"

/* Counts the entries of a directory; 0 if it does not exist. */
static int entries(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    int n = 0;

    if (d == NULL)
        return 0;
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

/* Opens with a setting; the directories for memory and for copies lie in a folder of that name. */
static cairn_err open_with(const char *dir, const char *folder, const char *setting,
                           cairn_session **ret)
{
    char persistent[300], shm[700], local[700], run[300], made[600];
    const char *settings[] = {persistent, shm, local, run, "log_level=error", setting, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};

    (void)snprintf(made, sizeof(made), "%s/%s", dir, folder);
    (void)mkdir(made, 0700);
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", made);
    (void)snprintf(local, sizeof(local), "local=%s", made);
    (void)snprintf(run, sizeof(run), "run_dir=%s", dir);
    return cairn_open(&opt, ret);
}

/* Counts what the runs left below the folder: in memory and, besides the checkpoints, on the local
 * disk. */
static int left(const char *dir, const char *folder)
{
    char path[700];

    (void)snprintf(path, sizeof(path), "%s/%s/cairn-%u", dir, folder, (unsigned)getuid());
    return entries(path);
}

static void nothing_stays(void **state)
{
    char dir[256], far[200];
    cairn_session *s;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    memset(far, 'x', sizeof(far));
    far[sizeof(far) - 1] = '\0';
    assert_int_equal(open_with(dir, "near", "files=0", &s), CAIRN_ECONFIG);
    assert_non_null(strstr(cairn_last_error(), "files: '0'"));
    assert_int_equal(left(dir, "near"), 0);
    assert_int_equal(open_with(dir, far, "files=1", &s),
                     CAIRN_EINVAL); /* fails after the directories */
    assert_non_null(strstr(cairn_last_error(), "shm_dir"));
    assert_int_equal(left(dir, far), 0);
    assert_int_equal(open_with(dir, "near", "files=1", &s), CAIRN_OK);
    assert_true(left(dir, "near") > 0); /* so left() looks in the right place */
    assert_int_equal(cairn_close(s), CAIRN_OK);
    assert_int_equal(left(dir, "near"), 0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
