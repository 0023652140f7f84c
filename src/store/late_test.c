/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of another host become visible late: nothing counts as damaged, lost or debris because of
 * it. */
#include <fcntl.h>
#include <time.h>

#include "base/late.h"
#include "base/test_late.h"
#include "store/test_store.h"

enum { LOOKS = 5 };

static struct tv young(int64_t version)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = (uint64_t)version,
                       .ranks = 3,
                       .files = 2,
                       .committed_ns = crn_late_now()};
}

/* A store on which changes of other hosts become visible after late_s seconds. */
static struct crn_store store_on(struct store_env *e, struct late *l, unsigned late_s)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_store st;

    crn_err_clear(ei);
    late_init(l, late_s);
    assert_ok(crn_store_open(&l->fs, e->dir, 1, &st, ei));
    return st;
}

static cairn_err publish(struct store_env *e, const struct crn_store *st, const struct tv *t)
{
    struct crn_errinfo *ei = &e->info;
    char file[CRN_FILE_NAME];
    struct crn_manifest m;
    cairn_err rc;
    uint32_t i;

    tv_manifest(t, &m);
    for (i = 0; i < t->files; i++)
        assert_ok(tv_write_file(&e->st, t, i, file, &m.files[i], ei)); /* as another host would */
    rc = crn_store_publish(st, &m, ei);
    crn_manifest_free(&m);
    return rc;
}

static void a_commit_waits_until_the_files_are_seen(void **state)
{
    static const int64_t old_sizes[] = {0, 10, -1};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_store st;
    struct late l;
    struct tv t;
    size_t i;

    for (i = 0; i < 3; i++) {
        st = store_on(e, &l, 20);
        late_hide(&l, "data-0001", old_sizes[i], LOOKS);
        t = young((int64_t)i);
        assert_ok(publish(e, &st, &t));
        assert_int_equal(atomic_load(&l.seen), LOOKS);
        crn_store_close(&st);
    }
    expect(e, "0:ok 1:ok 2:ok");
    /* On a coherent file system one look suffices. */
    for (i = 0; i < 3; i++) {
        st = store_on(e, &l, 0);
        late_hide(&l, "data-0001", old_sizes[i], LOOKS);
        t = young(10 + (int64_t)i);
        assert_int_equal(publish(e, &st, &t), old_sizes[i] < 0 ? CAIRN_ENOENT : CAIRN_EDAMAGED);
        assert_int_equal(atomic_load(&l.seen), 1);
        crn_store_close(&st);
    }
}

/* The wait is bounded. */
static void what_is_never_seen_is_damage(void **state)
{
    struct store_env *e = *state;
    struct tv t = young(1);
    struct crn_store st;
    struct late l;

    st = store_on(e, &l, 1);
    late_hide(&l, "data-0001", 10, -1);
    assert_int_equal(publish(e, &st, &t), CAIRN_EDAMAGED);
    assert_true(atomic_load(&l.seen) > 1);
    crn_store_close(&st);
}

/* Another host has created the directory: this host creates it too, or opens it, and sees it
 * eventually. */
static void a_directory_is_seen_late(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = young(7);
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];
    struct crn_store st;
    struct late l;
    int dfd;

    st = store_on(e, &l, 20);
    late_hide(&l, "7", -1, LOOKS);
    assert_ok(publish(e, &st, &t));
    assert_int_equal(atomic_load(&l.seen), LOOKS);
    late_hide(&l, "7", -1, LOOKS);
    assert_ok(tv_write_file(&st, &t, 0, file, &mf, ei));
    assert_int_equal(atomic_load(&l.seen), LOOKS);
    crn_manifest_file_free(&mf);
    /* without waiting */
    assert_int_equal(crn_store_version_dir(&st, "heat", 8, &dfd, ei), CAIRN_ENOENT);
    crn_store_close(&st);
}

static enum crn_version_state state_of(struct store_env *e, const struct crn_store *st,
                                       int64_t version)
{
    struct crn_errinfo *ei = &e->info;
    enum crn_version_state found = CRN_VERSION_PARTIAL;
    struct crn_catalog c;
    size_t i;

    crn_err_clear(ei);
    assert_ok(crn_store_catalog(st, "heat", &c, ei));
    for (i = 0; i < c.n; i++)
        if (c.v[i].version == version)
            found = c.v[i].state;
    crn_catalog_free(&c);
    return found;
}

static void a_young_version_is_looked_at_again(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv old = young(1);
    struct crn_store st;
    struct late l;
    struct tv t;

    old.committed_ns -= UINT64_C(3600000000000);
    assert_ok(tv_write(&e->st, &old, ei));
    st = store_on(e, &l, 20);
    late_hide(&l, "data-0001", 10, -1);
    assert_int_equal(state_of(e, &st, 1), CRN_VERSION_DAMAGED);
    assert_int_equal(atomic_load(&l.seen), 1);

    t = young(1);
    assert_ok(tv_write(&e->st, &t, ei));
    late_hide(&l, "data-0001.1", 10, LOOKS);
    assert_int_equal(state_of(e, &st, 1), CRN_VERSION_OK);
    assert_int_equal(atomic_load(&l.seen), LOOKS);
    late_hide(&l, "manifest", 0, LOOKS);
    assert_int_equal(state_of(e, &st, 1), CRN_VERSION_OK);
    assert_int_equal(atomic_load(&l.seen), LOOKS);
    crn_store_close(&st);
}

static void a_drain_sees_what_others_have_finished(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = young(4);
    struct crn_capture_id id = tv_id(&t);
    struct crn_unpublished u = {"heat", 4, &id, 2, "drain", NULL};
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];
    struct crn_store st;
    uint32_t i, missing;
    struct late l;

    for (i = 0; i < 2; i++) {
        assert_ok(tv_write_file(&e->st, &t, i, file, &mf, ei));
        crn_manifest_file_free(&mf);
    }
    st = store_on(e, &l, 20);
    late_hide(&l, "data-0001", 300, LOOKS);
    assert_ok(crn_store_try_publish(&st, &u, &missing, ei));
    assert_int_equal(missing, 0);
    assert_int_equal(atomic_load(&l.seen), LOOKS);
    crn_store_close(&st);
    expect(e, "4:ok");
}

/* A file of another host may look torn or unnamed although it is neither. */
static void a_sweep_leaves_what_was_just_written(void **state)
{
    struct timespec hour_ago[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = time(NULL) - 3600}};
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = young(4), newer = young(5);
    struct crn_sweep_result res;
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME], path[400];
    struct crn_store st;
    struct late l;

    assert_ok(tv_write_file(&e->st, &t, 0, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_ok(tv_write(&e->st, &newer, ei));
    st = store_on(e, &l, 20);
    assert_ok(crn_store_sweep(&st, "heat", -1, 0, 0, 0, crn_clock_real(), &res, ei));
    assert_int_equal(res.files, 0);
    (void)snprintf(path, sizeof(path), "%s/heat/4/%s", e->dir, file);
    assert_int_equal(utimensat(AT_FDCWD, path, hour_ago, 0), 0);
    assert_ok(crn_store_sweep(&st, "heat", -1, 0, 0, 0, crn_clock_real(), &res, ei));
    assert_int_equal(res.files, 1);
    crn_store_close(&st);
    expect(e, "5:ok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_commit_waits_until_the_files_are_seen),
        TEST(what_is_never_seen_is_damage),
        TEST(a_directory_is_seen_late),
        TEST(a_young_version_is_looked_at_again),
        TEST(a_drain_sees_what_others_have_finished),
        TEST(a_sweep_leaves_what_was_just_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
