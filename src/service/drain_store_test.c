/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures whose files are all in the store are published, and nothing else is. */
#include <errno.h>
#include <fcntl.h>

#include "base/fs_faulty.h"
#include "service/drain_store.h"
#include "store/test_store.h"

static void write_files(struct store_env *e, const struct tv *t, uint32_t n)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];
    uint32_t i;

    for (i = 0; i < n; i++) {
        assert_ok(tv_write_file(&e->st, t, i, file, &mf, ei));
        crn_manifest_file_free(&mf);
    }
}

static void count(void *arg, const struct crn_drain_event *ev)
{
    unsigned *n = arg;

    n[ev->what]++;
}

static void complete_captures_are_published(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv early = {.name = "heat", .version = 4, .seq = 1, .seed = 1, .ranks = 3, .files = 2};
    struct tv late = {.name = "heat", .version = 4, .seq = 2, .seed = 2, .ranks = 3, .files = 2};
    struct tv half = {.name = "heat", .version = 5, .seq = 3, .seed = 3, .ranks = 3, .files = 2};
    struct tv bad = {.name = "heat", .version = 6, .seq = 4, .seed = 4, .ranks = 3, .files = 1};
    unsigned n[CRN_DRAIN_ALIVE + 1] = {0};
    struct crn_manifest m;
    char path[400];
    int fd;

    write_files(e, &early, 2);
    write_files(e, &late, 2);
    write_files(e, &half, 1);
    write_files(e, &bad, 1);
    (void)snprintf(path, sizeof(path), "%s/heat/6/data-0000", e->dir);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\xee", 1, 0), 1);
    (void)close(fd);
    crn_drain_store(crn_fs_posix(), e->dir, count, n, ei);
    assert_int_equal(ei->code, CAIRN_OK);
    assert_int_equal(n[CRN_DRAIN_COMMITTED], 1);
    assert_int_equal(n[CRN_DRAIN_INCOMPLETE], 1);
    expect(e, "4:ok 5:partial 6:partial");
    assert_ok(crn_store_manifest(&e->st, "heat", 4, &m, ei));
    assert_int_equal(m.id.seq, 2);
    crn_manifest_free(&m);
}

static void a_name_that_is_written_is_left_alone(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = {.name = "heat", .version = 4, .seq = 1, .seed = 1, .ranks = 3, .files = 2};
    int fd;

    write_files(e, &t, 2);
    assert_ok(crn_store_lock_name(&e->st, "heat", "a run", &fd, ei));
    assert_ok(crn_drain_store_name(&e->st, "heat", -1, NULL, NULL, ei));
    expect(e, "4:partial");
    assert_ok(crn_drain_store_name(&e->st, "heat", fd, NULL, NULL, ei));
    expect(e, "4:ok");
    (void)close(fd);
}

/* Every call fails once: the capture stays, and the next drain publishes it. */
static void an_error_loses_nothing(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = {.name = "heat", .seed = 1, .ranks = 3, .files = 2};
    struct crn_fs_faulty f;
    long k, n, failures = 0;

    crn_fs_faulty_init(&f, crn_fs_posix());
    f.action = CRN_FAULT_FAIL;
    f.sys_errno = EIO;
    f.ops = CRN_OP_ALL;
    for (k = 1, n = 1; n >= k; k++) {
        struct crn_errinfo why = {0};

        t.version = (int64_t)k;
        t.seq = (uint64_t)k;
        write_files(e, &t, 2);
        f.at = k;
        atomic_store(&f.calls, 0);
        crn_drain_store(&f.fs, e->dir, NULL, NULL, &why);
        n = atomic_load(&f.calls) < k ? 0 : k + 1;
        failures += why.code != CAIRN_OK;
        crn_drain_store(crn_fs_posix(), e->dir, NULL, NULL, ei);
        assert_int_equal(ei->code, CAIRN_OK);
        assert_ok(crn_store_remove(&e->st, "heat", k, ei)); /* fails unless it was published */
    }
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(complete_captures_are_published),
        TEST(a_name_that_is_written_is_left_alone),
        TEST(an_error_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
