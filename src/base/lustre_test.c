/* SPDX-License-Identifier: BSD-3-Clause */
/* Striping on a fake Lustre, through a fake liblustreapi. */
#include <errno.h>
#include <fcntl.h>

#include "base/lustre.h"
#include "base/test.h"

static const char *const fake[] = {"libno-such-library.so", CRN_FAKE_LUSTRE, NULL};
static const char *const none[] = {"libno-such-library.so", NULL};

static const struct crn_fs_type *lustre(int fd)
{
    (void)fd;
    return crn_fs_type_find(CRN_FS_LUSTRE);
}

static const struct crn_fs_type *other(int fd)
{
    (void)fd;
    return crn_fs_type_find(0xEF53);
}

static int has_layout(const char *dir, const char *want)
{
    char path[300], text[64] = "";
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/layout", dir);
    f = fopen(path, "r");
    if (f == NULL)
        return want == NULL;
    (void)!fgets(text, sizeof(text), f);
    (void)fclose(f);
    return want != NULL && strcmp(text, want) == 0;
}

static void stripes(void **state)
{
    char dir[256], sub[300];
    int dfd;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(sub, sizeof(sub), "mkdir '%s/v'", dir);
    assert_int_equal(system(sub), 0);
    (void)snprintf(sub, sizeof(sub), "%s/v", dir);
    dfd = open(sub, O_RDONLY | O_DIRECTORY);
    assert_int_equal(crn_lustre_stripe(&crn_lustre_real, dfd, 4, 0), -ENOTSUP);
    assert_int_equal(crn_lustre_stripe(&(struct crn_lustre){other, fake}, dfd, 4, 0), -ENOTSUP);
    assert_int_equal(crn_lustre_stripe(&(struct crn_lustre){lustre, none}, dfd, 4, 0), -ELIBACC);
    assert_true(has_layout(dir, NULL));
    assert_int_equal(crn_lustre_stripe(&(struct crn_lustre){lustre, fake}, dfd, 4, 1 << 20), 0);
    assert_true(has_layout(dir, "1048576 -1 4 0\n"));
    assert_int_equal(crn_lustre_stripe(&(struct crn_lustre){lustre, fake}, dfd, 101, 0), -EINVAL);
    (void)close(dfd);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stripes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
