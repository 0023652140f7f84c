/* SPDX-License-Identifier: BSD-3-Clause */
/* The library reads the files of every format version that was ever released, byte for byte. */
#include "base/test.h"
#include "golden.h"
#include "restart/version.h"

static void check_content(const struct crn_store *st, const struct tv *t)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char expect[256], got[256];
    struct crn_version *v;
    uint32_t rank, r;

    assert_ok(crn_version_open(st, t->name, t->version, &v, ei));
    assert_int_equal(crn_version_manifest(v)->id.seq, t->seq);
    for (rank = 0; rank < t->ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(t, rank, r, expect);

            assert_ok(crn_version_read(v, rank, r, 0, n, got, ei));
            assert_memory_equal(got, expect, n);
        }
    crn_version_close(v);
}

static void format_1_is_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv seven = golden_version(7, 1);
    struct tv eight = golden_version(8, 3);
    struct crn_catalog c;
    struct crn_store st;

    (void)state;
    assert_ok(crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1", 0, &st, ei));
    assert_ok(crn_store_catalog(&st, "golden", &c, ei));
    assert_int_equal(c.n, 2);
    assert_int_equal(c.v[0].state, CRN_VERSION_OK);
    assert_true(c.v[0].is_pinned);
    assert_string_equal(c.v[0].job, "job 7");
    assert_int_equal(c.v[1].state, CRN_VERSION_REJECTED);
    assert_string_equal(c.v[1].why, GOLDEN_REASON);
    crn_catalog_free(&c);
    check_content(&st, &seven);
    check_content(&st, &eight);
    crn_store_close(&st);
}

/* Section 4, streams. Older readers refuse them, so that they have a store of their own. */
static void encoded_files_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv nine = golden_encoded();
    struct crn_pipe pipe;
    struct crn_store st;

    (void)state;
    if (crn_pipe_parse(nine.pipe, &pipe, ei) != CAIRN_OK)
        skip(); /* built without zlib */
    assert_ok(
        crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-encoded", 0, &st, ei));
    check_content(&st, &nine);
    crn_store_close(&st);
}

/* Section 4, chains. Version 12 needs the first capture of 11, which is another one now. */
static void chained_files_are_read(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct golden_chain c;
    struct crn_pipe pipe;
    struct crn_store st;

    (void)state;
    golden_chain(&c);
    if (crn_pipe_parse(c.ten.pipe, &pipe, ei) != CAIRN_OK)
        skip(); /* built without zlib */
    assert_ok(
        crn_store_open(crn_fs_posix(), CRN_SOURCE_DIR "/tests/golden/v1-chained", 0, &st, ei));
    check_content(&st, &c.ten);
    check_content(&st, &c.again);
    check_content(&st, &c.twelve);
    crn_store_close(&st);
}

/* What is written today is what was written then: the encoding has not drifted. */
static void format_1_is_written(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv seven = golden_version(7, 1);
    struct crn_store st;
    char dir[256], cmd[900];

    (void)state;
    test_dir_make(dir, sizeof(dir));
    assert_ok(crn_store_open(crn_fs_posix(), dir, 0, &st, ei));
    assert_ok(tv_write(&st, &seven, ei));
    assert_ok(crn_store_pin(&st, "golden", 7, 1, ei));
    crn_store_close(&st);
    (void)snprintf(cmd, sizeof(cmd), "diff -r '%s/tests/golden/v1/golden/7' '%s/golden/7'",
                   CRN_SOURCE_DIR, dir);
    assert_int_equal(system(cmd), 0);
    test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_1_is_read),
        cmocka_unit_test(encoded_files_are_read),
        cmocka_unit_test(chained_files_are_read),
        cmocka_unit_test(format_1_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
