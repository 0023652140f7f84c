/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a removal, and what it never touches. */
#include "base/fs_faulty.h"
#include "store/test_chain.h"

enum { MANY = 30 };

/* A store of its own that counts fsyncs. */
struct counted_calls {
    struct crn_fs_faulty fs;
    struct crn_store st;
};

static void count(struct store_env *e, struct counted_calls *c)
{
    struct crn_errinfo *ei = &e->info;

    crn_fs_faulty_init(&c->fs, crn_fs_posix());
    c->fs.ops = CRN_OP_SYNC;
    assert_ok(crn_store_open(&c->fs.fs, e->dir, 0, &c->st, ei));
}

static long counted(struct counted_calls *c)
{
    return atomic_exchange(&c->fs.calls, 0);
}

static void many(struct store_env *e)
{
    int i;

    for (i = 0; i < MANY; i++)
        take(e, i, i, -1);
}

/* Independent of the number of versions: fsyncs the newest remaining version, the version itself
 * and the list of removed captures. */
static void rm_syncs_what_it_relies_on(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct counted_calls c;

    many(e);
    count(e, &c);
    assert_ok(crn_store_remove(&c.st, "heat", 3, ei));
    assert_in_range(counted(&c), 2, 6);
    assert_ok(crn_store_remove(&c.st, "heat", MANY - 1, ei));
    assert_in_range(counted(&c), 2, 6);
    assert_false(has(e, "heat/3") || has(e, "heat/29"));
    crn_store_close(&c.st);
}

static void retention_syncs_what_it_relies_on(void **state)
{
    struct crn_retention policy = {.keep_last = 2};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    struct counted_calls c;

    many(e);
    count(e, &c);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, MANY - 2);
    assert_in_range(counted(&c), 2 + removed, 2 + 2 * removed);
    expect(e, "28:ok 29:ok");
    crn_store_close(&c.st);
}

/* A writer remembers that all versions are durable, until one of its commits fails. */
static void a_writer_syncs_what_stays_once(void **state)
{
    int is_durable = 0;
    struct crn_retention policy = {.keep_last = MANY - 1, .is_durable = &is_durable};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    struct counted_calls c;

    many(e);
    count(e, &c);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 1);
    assert_true(is_durable);
    assert_true(counted(&c) >= MANY - 1);
    take(e, MANY, MANY, -1);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 1);
    assert_in_range(counted(&c), 1, 3);
    is_durable = 0;
    take(e, MANY + 1, MANY + 1, -1);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_true(counted(&c) >= MANY - 1);
    crn_store_close(&c.st);
}

/* Looks at each file of a version once; afterwards manifests say what there is. */
static void a_writer_looks_at_files_once(void **state)
{
    struct crn_known known = {0};
    struct crn_retention policy = {.keep_last = MANY, .known = &known};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_capture_id id = {.seq = 12345};
    uint32_t removed;
    struct counted_calls c;
    long all, some;

    many(e);
    count(e, &c);
    c.fs.ops = CRN_OP_STAT;
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    all = counted(&c);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    some = counted(&c);
    assert_int_equal(all - some, MANY * FILES);
    take(e, MANY, MANY, -1); /* a version more, and one less */
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 1);
    assert_int_equal(known.n, MANY);
    assert_false(crn_known_has(&known, &id));
    /* What is not known is looked at: a missing file is damage. */
    crn_known_free(&known);
    assert_int_equal(unlinkat(c.st.dfd, "heat/3/data-0001", 0), 0);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(known.n, MANY - 1);
    crn_known_free(&known);
    crn_store_close(&c.st);
}

/* The files of the replaced capture are removed. */
static void taking_again_syncs_one_version(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct counted_calls c;
    struct tv again;
    long first;

    many(e);
    count(e, &c);
    again = e->t[0];
    again.version = MANY;
    assert_ok(tv_write(&c.st, &again, ei));
    first = counted(&c);
    again.seq++;
    assert_ok(tv_write(&c.st, &again, ei));
    assert_in_range(counted(&c), 1, first + 2);
    assert_false(has(e, "heat/30/data-0000"));
    assert_true(has(e, "heat/30/data-0000.1"));
    crn_store_close(&c.st);
}

/* A pinned version stays byte for byte through publish, drain, retention, removal and sweep. */
static void a_pinned_version_is_never_replaced_or_removed(void **state)
{
    struct crn_retention policy = {.keep_last = 1};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    struct crn_sweep_result res;
    struct crn_capture_id id;
    struct crn_unpublished u = {"heat", 0, &id, FILES, "", NULL};
    char file[CRN_FILE_NAME];
    uint32_t missing, removed, f;
    struct tv again;

    take(e, 0, 0, -1);
    take(e, 1, 1, -1);
    assert_ok(crn_store_pin(&e->st, "heat", 0, 1, ei));
    again = e->t[0];
    again.seq = 9;
    again.seed = 77;
    id = tv_id(&again);
    assert_int_equal(tv_write(&e->st, &again, ei), CAIRN_EPINNED);
    assert_non_null(strstr(ei->msg, "cairn unpin heat@0"));
    crn_err_clear(ei);
    assert_int_equal(crn_store_check_pin(&e->st, "heat", 0, &id, ei), CAIRN_EPINNED);
    crn_err_clear(ei);
    for (f = 0; f < FILES; f++) {
        assert_ok(tv_write_file(&e->st, &again, f, file, &mf, ei));
        crn_manifest_file_free(&mf);
    }
    assert_int_equal(crn_store_try_publish(&e->st, &u, &missing, ei), CAIRN_EPINNED);
    crn_err_clear(ei);
    assert_int_equal(crn_store_remove(&e->st, "heat", 0, ei), CAIRN_EPINNED);
    crn_err_clear(ei);
    assert_ok(crn_store_retain(&e->st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 0);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, 1, 0, crn_clock_real(), &res, ei));
    expect(e, "0:ok+pin 1:ok");
    expect_whole(e, 0);
    /* The same capture again does not replace the version. */
    id = tv_id(&e->t[0]);
    assert_ok(crn_store_check_pin(&e->st, "heat", 0, &id, ei));
    assert_int_equal(crn_store_check_pin(&e->st, "heat", 0, NULL, ei), CAIRN_EPINNED);
    crn_err_clear(ei);
    assert_ok(crn_store_try_publish(&e->st, &u, &missing, ei));
    assert_ok(crn_store_pin(&e->st, "heat", 0, 0, ei));
    assert_ok(tv_write(&e->st, &again, ei));
    e->t[0] = again;
    expect_whole(e, 0);
}

/* A pinned version with a damaged manifest stays too: somebody may repair it by hand. */
static void a_pinned_version_that_is_damaged_stays(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    char path[400];

    take(e, 0, 0, -1);
    assert_ok(crn_store_pin(&e->st, "heat", 0, 1, ei));
    (void)snprintf(path, sizeof(path), "%s/heat/0/manifest", e->dir);
    assert_int_equal(truncate(path, 50), 0);
    e->t[0].seq++;
    assert_int_equal(tv_write(&e->st, &e->t[0], ei), CAIRN_EPINNED);
    crn_err_clear(ei);
    assert_int_equal(crn_store_remove(&e->st, "heat", 0, ei), CAIRN_EPINNED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rm_syncs_what_it_relies_on),
        TEST(retention_syncs_what_it_relies_on),
        TEST(a_writer_syncs_what_stays_once),
        TEST(a_writer_looks_at_files_once),
        TEST(taking_again_syncs_one_version),
        TEST(a_pinned_version_is_never_replaced_or_removed),
        TEST(a_pinned_version_that_is_damaged_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
