/* SPDX-License-Identifier: BSD-3-Clause */
/* Data files without a manifest: acknowledged captures that a drain publishes, as opposed to
 * remains of removals, replaced versions and incomplete flushes. */
#include <errno.h>

#include "base/fs_faulty.h"
#include "store/test_store.h"

static struct tv heat(int64_t version, uint64_t seq, uint32_t files)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)seq,
                       .ranks = 3,
                       .files = files};
}

static void write_file(struct store_env *e, const struct tv *t, uint32_t file_no)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];

    assert_ok(tv_write_file(&e->st, t, file_no, file, &mf, ei));
    crn_manifest_file_free(&mf);
}

/* The remains as text: "4/1:2/2! 5/2:1/2" is capture 1 of version 4, complete, and one file of two
 * of capture 2 of version 5; '-': superseded. */
static const char *left(struct store_env *e)
{
    static char text[300];
    struct crn_errinfo *ei = &e->info;
    struct crn_lefts l;
    size_t i;

    text[0] = '\0';
    assert_ok(crn_store_left(&e->st, "heat", &l, ei));
    for (i = 0; i < l.n; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%lld/%llu:%u/%u%s",
                       i > 0 ? " " : "", (long long)l.v[i].version,
                       (unsigned long long)l.v[i].id.seq, l.v[i].have, l.v[i].files,
                       crn_left_is_complete(&l.v[i]) ? "!"
                       : l.v[i].is_superseded        ? "-"
                                                     : "");
    crn_lefts_free(&l);
    return text;
}

static struct crn_sweep_result sweep(struct store_env *e, int force)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_sweep_result res;

    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, force, 0, crn_clock_real(), &res, ei));
    return res;
}

static void files_are_grouped_by_capture(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv one = heat(4, 1, 2);
    struct tv two = heat(4, 2, 2);
    struct tv wide = heat(4, 1, 3);
    struct tv committed = heat(5, 5, 2);

    assert_ok(tv_write(&e->st, &committed, ei));
    assert_string_equal(left(e), "");
    write_file(e, &one, 0);
    write_file(e, &one, 0); /* a second attempt is not a second file */
    assert_string_equal(left(e), "4/1:1/2");
    write_file(e, &two, 1);
    write_file(e, &wide, 2);
    assert_string_equal(left(e), "4/1:1/2 4/2:1/2 4/1:1/3");
    write_file(e, &two, 0);
    assert_string_equal(left(e), "4/1:1/2 4/2:2/2! 4/1:1/3");
}

static void a_complete_capture_survives_every_sweep_but_a_forced_one(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv whole = heat(4, 4, 2);
    struct tv half = heat(3, 3, 2);
    struct tv newer = heat(9, 9, 2);
    struct crn_sweep_result res;

    write_file(e, &whole, 0);
    write_file(e, &whole, 1);
    write_file(e, &half, 0);
    assert_ok(tv_write(&e->st, &newer, ei));
    res = sweep(e, 0); /* a newer version is committed, and all files are old */
    assert_int_equal(res.files, 1);
    assert_int_equal(res.complete, 1);
    assert_int_equal(res.kept, 2);
    assert_string_equal(left(e), "4/4:2/2!");
    assert_int_equal(sweep(e, 1).files, 2);
    assert_string_equal(left(e), "");
}

static void an_earlier_capture_of_a_version_is_superseded(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv old = heat(4, 1, 2);
    struct tv now = heat(4, 2, 2);
    struct tv next = heat(4, 3, 2);

    write_file(e, &old, 0);
    write_file(e, &old, 1);
    assert_ok(tv_write(&e->st, &now, ei));
    assert_string_equal(left(e), "4/1:2/2-");
    write_file(e, &next, 0);
    write_file(e, &next, 1);
    assert_string_equal(left(e), "4/1:2/2- 4/3:2/2!");
    assert_int_equal(sweep(e, 0).files, 2);
    assert_string_equal(left(e), "4/3:2/2!");
    expect(e, "4:ok");
}

/* The removal dies at its k-th call, for every k. It leaves either the version or debris, never a
 * capture that a drain would publish. */
static void a_removal_that_dies_is_not_undone(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = heat(4, 4, 2);
    struct crn_store st = e->st;
    struct crn_fs_faulty f;
    int is_removed = 0;
    long k, partly = 0;

    crn_fs_faulty_init(&f, crn_fs_posix());
    f.action = CRN_FAULT_FAIL;
    f.sys_errno = EIO;
    f.ops = CRN_OP_ALL & ~(unsigned)CRN_OP_CLOSE;
    f.sticky = 1;
    st.fs = &f.fs;
    for (k = 1; !is_removed; k++) {
        struct crn_errinfo why = {0};

        if (!has(e, "heat/4/manifest"))
            assert_ok(tv_write(&e->st, &t, ei));
        f.at = k;
        atomic_store(&f.calls, 0);
        is_removed = crn_store_remove(&st, "heat", 4, &why) == CAIRN_OK;
        assert_true(has(e, "heat/4/manifest") || strchr(left(e), '!') == NULL);
        partly += !has(e, "heat/4/manifest") && has(e, "heat/4/data-0000");
        if (!has(e, "heat/4/manifest") && has(e, "heat/4")) {
            (void)sweep(e, 0);
            assert_false(has(e, "heat/4"));
        }
    }
    assert_true(partly > 0);
    assert_false(has(e, "heat/4"));
}

static void an_error_is_no_absence(void **state)
{
    struct store_env *e = *state;
    struct tv t = heat(4, 4, 2);
    struct crn_store st = e->st;
    struct crn_fs_faulty f;
    long k, n;

    write_file(e, &t, 0);
    write_file(e, &t, 1);
    crn_fs_faulty_init(&f, crn_fs_posix());
    f.action = CRN_FAULT_FAIL;
    f.sys_errno = EIO;
    f.ops = CRN_OP_ALL & ~(unsigned)CRN_OP_CLOSE;
    st.fs = &f.fs;
    for (k = 1, n = 1; n >= k; k++) {
        struct crn_errinfo why = {0};
        struct crn_lefts l = {0};
        cairn_err rc;

        f.at = k;
        atomic_store(&f.calls, 0);
        rc = crn_store_left(&st, "heat", &l, &why);
        n = atomic_load(&f.calls) < k ? 0 : k + 1;
        assert_true(rc != CAIRN_OK || (l.n == 1 && crn_left_is_complete(&l.v[0])));
        crn_lefts_free(&l);
    }
    assert_true(k > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_grouped_by_capture),
        TEST(a_complete_capture_survives_every_sweep_but_a_forced_one),
        TEST(an_earlier_capture_of_a_version_is_superseded),
        TEST(a_removal_that_dies_is_not_undone),
        TEST(an_error_is_no_absence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
