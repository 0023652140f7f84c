/* SPDX-License-Identifier: BSD-3-Clause */
/* The next version reuses files of a removed version, but only if no other process can read
 * them. */
#include "store/test_chain.h"

#include <sys/stat.h>

static void path_of(const struct store_env *e, const char *rel, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/heat/%s", e->dir, rel);
}

static ino_t inode(const struct store_env *e, const char *rel)
{
    struct stat sb;
    char path[600];

    path_of(e, rel, path, sizeof(path));
    return stat(path, &sb) == 0 ? sb.st_ino : 0;
}

static void let_go(struct store_env *e, uint64_t keep, int reuse)
{
    struct crn_retention policy = {.keep_last = keep, .reuse = reuse};
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;

    assert_ok(crn_store_retain(&e->st, "heat", &policy, &removed, ei));
}

/* Sets up versions 0 and 1. */
static int setup_spares(void **state)
{
    test_dir_in_memory();
    (void)setup(state);
    take(*state, 0, 0, -1);
    take(*state, 1, 1, -1);
    return 0;
}

/* Skips the test if the file system cannot tell who has a file open, for example if /dev/shm is not
 * a tmpfs. */
static void require_leases(const struct store_env *e)
{
    char path[600];
    int is_sole;
    int fd;

    path_of(e, "0/data-0000", path, sizeof(path));
    fd = open(path, O_RDONLY);
    is_sole = crn_fs_posix()->is_sole(crn_fs_posix(), fd);
    (void)close(fd);
    if (!is_sole)
        skip();
}

static void the_next_version_is_written_to_old_files(void **state)
{
    struct store_env *e = *state;
    ino_t first, second;

    require_leases(e);
    first = inode(e, "0/data-0000");
    second = inode(e, "0/data-0001");
    let_go(e, 1, 1);
    expect(e, "1:ok");
    assert_int_equal(inode(e, ".spare-0000"), first);
    assert_int_equal(inode(e, ".spare-0001"), second);
    assert_true(crn_store_spare_bytes(&e->st, "heat", 1) > 0);
    assert_int_equal(crn_store_spare_bytes(&e->st, "heat", 2), 0);
    take(e, 2, 2, -1);
    assert_int_equal(inode(e, "2/data-0000"), first);
    assert_int_equal(inode(e, "2/data-0001"), second);
    assert_false(has(e, "heat/.spare-0000") || has(e, "heat/.spare-0001"));
    expect(e, "1:ok 2:ok");
    expect_whole(e, 1);
    expect_whole(e, 2);
    take(e, 3, 3, -1); /* no spare is left */
    expect_whole(e, 3);
}

/* Over a long run, two sets of files alternate. */
static void files_take_turns(void **state)
{
    struct store_env *e = *state;
    ino_t first;
    int i;

    require_leases(e);
    first = inode(e, "0/data-0000");
    for (i = 2; i < LONG; i++) {
        let_go(e, 1, 1);
        take(e, i, i, -1);
        expect_whole(e, i);
        expect_whole(e, i - 1);
    }
    assert_int_equal(inode(e, "38/data-0000"), first);
}

static void without_reuse_nothing_is_left(void **state)
{
    struct store_env *e = *state;

    let_go(e, 1, 0);
    assert_false(has(e, "heat/.spare-0000") || has(e, "heat/0"));
}

static void a_file_with_another_name_is_not_touched(void **state)
{
    unsigned char before[4096], after[4096];
    struct store_env *e = *state;
    char path[600], copy[600];
    ssize_t n;
    int fd;

    require_leases(e);
    path_of(e, "0/data-0000", path, sizeof(path));
    path_of(e, "copy", copy, sizeof(copy));
    assert_int_equal(link(path, copy), 0);
    fd = open(copy, O_RDONLY);
    n = pread(fd, before, sizeof(before), 0);
    assert_true(n > 0);
    assert_int_equal(close(fd), 0);
    let_go(e, 1, 1);
    assert_false(has(e, "heat/.spare-0000"));
    take(e, 2, 2, -1);
    expect_whole(e, 2);
    fd = open(copy, O_RDONLY);
    assert_int_equal(pread(fd, after, sizeof(after), 0), n);
    assert_memory_equal(before, after, (size_t)n);
    assert_int_equal(close(fd), 0);
}

/* A reader keeps seeing the contents it opened, before and after the removal of the version. */
static void expect_undisturbed(struct store_env *e, const char *opened)
{
    unsigned char before[4096], after[4096];
    char path[600];
    ssize_t n;
    int fd;

    path_of(e, opened, path, sizeof(path));
    fd = open(path, O_RDONLY);
    n = pread(fd, before, sizeof(before), 0);
    assert_true(n > 0);
    let_go(e, 1, 1);
    take(e, 2, 2, -1);
    expect_whole(e, 2);
    assert_false(has(e, "heat/.spare-0000"));
    assert_int_equal(pread(fd, after, sizeof(after), 0), n);
    assert_memory_equal(before, after, (size_t)n);
    assert_int_equal(close(fd), 0);
}

static void who_reads_a_version_is_not_disturbed(void **state)
{
    expect_undisturbed(*state, "0/data-0000");
}

static void who_reads_what_is_left_is_not_disturbed(void **state)
{
    require_leases(*state);
    let_go(*state, 1, 1);
    expect_undisturbed(*state, ".spare-0000");
}

/* An unfinished file must not look whole, neither as its old version nor as a new one. */
static void a_file_in_hand_is_not_whole(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    struct crn_sweep_result res;
    char file[CRN_FILE_NAME];
    struct crn_index x;
    int fd;

    require_leases(e);
    let_go(e, 1, 1);
    /* version 0 is taken again */
    assert_ok(crn_store_create_data(&e->st, "heat", 0, 0, file, &fd, ei));
    assert_string_equal(file, "data-0000");
    assert_int_equal(crn_store_describe_data(&e->st, "heat", 0, file, &mf, &x, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    assert_int_equal(close(fd), 0);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, 0, 0, crn_clock_real(), &res, ei));
    expect(e, "1:ok");
    assert_false(has(e, "heat/.spare-0001"));
    assert_int_equal(res.files, 2);
}

static void what_is_no_file_of_ours_is_not_used(void **state)
{
    struct store_env *e = *state;
    char path[600], target[600];
    struct stat sb;

    path_of(e, "target", target, sizeof(target));
    assert_int_equal(close(open(target, O_CREAT | O_WRONLY, 0600)), 0);
    path_of(e, ".spare-0000", path, sizeof(path));
    assert_int_equal(symlink(target, path), 0);
    path_of(e, ".spare-0001", path, sizeof(path));
    assert_int_equal(mkdir(path, 0700), 0);
    take(e, 2, 2, -1);
    expect_whole(e, 2);
    assert_int_equal(stat(target, &sb), 0);
    assert_int_equal(sb.st_size, 0);
}

static void what_others_need_is_not_left(void **state)
{
    struct store_env *e = *state;

    take(e, 2, 2, 1);
    let_go(e, 1, 1);
    assert_true(has(e, "heat/1/data-0000"));
    take(e, 3, 3, 2);
    expect_whole(e, 2);
    expect_whole(e, 3);
}

static void spares_end_with_the_run(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;

    require_leases(e);
    let_go(e, 1, 1);
    assert_true(has(e, "heat/.spare-0000"));
    assert_ok(crn_store_drop_spares(&e->st, "heat", ei));
    assert_false(has(e, "heat/.spare-0000") || has(e, "heat/.spare-0001"));
    expect_whole(e, 1);
}

#define SPARE(name) cmocka_unit_test_setup_teardown(name, setup_spares, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPARE(the_next_version_is_written_to_old_files),
        SPARE(files_take_turns),
        SPARE(without_reuse_nothing_is_left),
        SPARE(a_file_with_another_name_is_not_touched),
        SPARE(who_reads_a_version_is_not_disturbed),
        SPARE(who_reads_what_is_left_is_not_disturbed),
        SPARE(a_file_in_hand_is_not_whole),
        SPARE(what_is_no_file_of_ours_is_not_used),
        SPARE(what_others_need_is_not_left),
        SPARE(spares_end_with_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
