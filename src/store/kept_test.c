/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that other versions are encoded against stay through retake, removal, retention and sweep,
 * and go when no version needs them any more. */
#include "store/test_chain.h"

static uint32_t sweep(struct store_env *e)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_sweep_result res;

    crn_err_clear(ei);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, 1, 0, crn_clock_real(), &res, ei));
    return res.files;
}

/* Version 1 is taken again while 2 is based on its first capture; the new 1 is based on 2. */
static void a_version_taken_again_leaves_what_others_need(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    take(e, 2, 2, 1);
    take(e, 3, 1, 2);
    assert_true(has(e, "heat/1/data-0000") && has(e, "heat/1/data-0000.1"));
    expect_whole(e, 2);
    expect_whole(e, 3);
    assert_int_equal(sweep(e), 0);
    expect_whole(e, 2);
    expect_whole(e, 3);
    take(e, 4, 1, -1); /* again: no version needs capture 3; its file names are not reused */
    assert_true(has(e, "heat/1/data-0000") && !has(e, "heat/1/data-0000.1") &&
                has(e, "heat/1/data-0000.2"));
    expect_whole(e, 2);
    expect_whole(e, 4);
    /* The version is removed; the files of its directory that 2 needs stay until 2 is gone. */
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    expect(e, "0:ok 1:partial 2:ok");
    assert_int_equal(sweep(e), 0);
    expect_whole(e, 2);
    take(e, 5, 1, 2);
    assert_true(has(e, "heat/1/data-0000") && has(e, "heat/1/data-0000.1"));
    expect_whole(e, 2);
    expect_whole(e, 5);
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    assert_ok(crn_store_remove(&e->st, "heat", 2, ei));
    assert_int_equal(sweep(e), FILES + 1); /* plus the removal mark */
    expect(e, "0:ok");
    assert_false(has(e, "heat/1"));
}

static void what_others_need_is_not_removed(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    int i;

    for (i = 0; i < 3; i++)
        take(e, i, 7 + i, i - 1);
    assert_int_equal(crn_store_remove(&e->st, "heat", 7, ei), CAIRN_EBUSY);
    assert_non_null(strstr(ei->msg, "needed by heat@"));
    crn_err_clear(ei);
    assert_int_equal(crn_store_remove(&e->st, "heat", 8, ei), CAIRN_EBUSY);
    assert_non_null(strstr(ei->msg, "heat@9"));
    expect(e, "7:ok 8:ok 9:ok");
    crn_err_clear(ei);
    for (i = 9; i >= 7; i--)
        assert_ok(crn_store_remove(&e->st, "heat", i, ei));
    expect(e, "");
}

/* Keeps two versions and their bases; full versions are 0, 3 and 4. */
static void retention_keeps_what_is_needed(void **state)
{
    static const char *const after[] = {
        "0:ok",      "0:ok 1:ok", "0:ok 1:ok 2:ok", "0:ok 1:ok 2:ok 3:ok",
        "3:ok 4:ok", "4:ok 5:ok", "4:ok 5:ok 6:ok"};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    int i;

    for (i = 0; i < 7; i++) {
        take(e, i, i, i == 0 || i == 3 || i == 4 ? -1 : i - 1);
        crn_err_clear(ei);
        assert_ok(crn_store_retain(&e->st, "heat", &(struct crn_retention){.keep_last = 2},
                                   &removed, ei));
        expect(e, after[i]);
        expect_whole(e, i);
    }
}

/* A damaged manifest needs nothing; its data files stay for inspection. */
static void a_damaged_manifest_needs_nothing(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    char path[400];

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    (void)snprintf(path, sizeof(path), "%s/heat/1/manifest", e->dir);
    assert_int_equal(truncate(path, 50), 0);
    assert_ok(crn_store_remove(&e->st, "heat", 0, ei));
    assert_int_equal(sweep(e), 0);
    expect(e, "1:damaged");
}

static void a_version_without_its_bases_is_damaged(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_catalog c;
    char path[400];

    take(e, 0, 0, -1);
    take(e, 1, 1, 0);
    take(e, 2, 2, 1);
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_int_equal(c.v[0].chain, 0);
    assert_int_equal(c.v[0].nneeds, 0);
    assert_int_equal(c.v[2].chain, 2);
    assert_int_equal(c.v[2].against, 1);
    assert_int_equal(c.v[2].nneeds, 2);
    crn_catalog_free(&c);
    (void)snprintf(path, sizeof(path), "%s/heat/0/data-0001", e->dir);
    assert_int_equal(unlink(path), 0);
    expect(e, "0:damaged 1:damaged 2:damaged");
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_non_null(strstr(c.v[2].why, "data-0001 of version 0"));
    crn_catalog_free(&c);
}

/* Another process removes the base between its check and the commit. */
static struct crn_store *bystander;
static int (*real_rename)(const struct crn_fs *fs, int a, const char *from, int b, const char *to);

static int remove_and_rename(const struct crn_fs *fs, int a, const char *from, int b,
                             const char *to)
{
    struct crn_errinfo info = {0}, *ei = &info;

    if (strcmp(to, "manifest") == 0 && bystander != NULL) {
        assert_ok(crn_store_remove(bystander, "heat", 1, ei));
        bystander = NULL;
    }
    return real_rename(fs, a, from, b, to);
}

static void a_base_that_goes_during_the_commit(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_fs fs = *e->st.fs;
    struct crn_store st = e->st;
    int round;

    take(e, 0, 0, -1);
    real_rename = fs.renameat;
    fs.renameat = remove_and_rename;
    st.fs = &fs;
    for (round = 0; round < 2; round++) { /* version 2 is new, then it exists already */
        take(e, 1, 1, -1);
        e->t[2] = e->t[1];
        e->t[2].version = 2;
        e->t[2].seq = 9;
        e->t[2].pipe = "delta:1,zstd";
        e->t[2].older = &e->t[1];
        bystander = &e->st;
        assert_int_equal(tv_write(&st, &e->t[2], ei), CAIRN_ESTATE);
        assert_non_null(strstr(ei->msg, "removed in the meantime"));
        crn_err_clear(ei);
        expect(e, round == 0 ? "0:ok" : "0:ok 2:ok");
        take(e, 3, 2, -1);
        expect_whole(e, 3);
    }
    assert_int_equal(sweep(e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_version_taken_again_leaves_what_others_need),
        TEST(what_others_need_is_not_removed),
        TEST(retention_keeps_what_is_needed),
        TEST(a_damaged_manifest_needs_nothing),
        TEST(a_version_without_its_bases_is_damaged),
        TEST(a_base_that_goes_during_the_commit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
