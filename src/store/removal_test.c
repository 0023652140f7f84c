/* SPDX-License-Identifier: BSD-3-Clause */
/* What removal costs, and what it never touches. */
#include "base/fs_faulty.h"
#include "store/test_chain.h"

enum { MANY = 30 };

/* fsyncs from now on, through a store of its own. */
struct counted {
    struct crn_fs_faulty fs;
    struct crn_store st;
};

static void count(struct env *e, struct counted *c)
{
    struct crn_errinfo *ei = &e->info;

    crn_fs_faulty_init(&c->fs, crn_fs_posix());
    c->fs.ops = CRN_OP_SYNC;
    assert_ok(crn_store_open(&c->fs.fs, e->dir, 0, &c->st, ei));
}

static long counted(struct counted *c)
{
    return atomic_exchange(&c->fs.calls, 0);
}

static void many(struct env *e)
{
    int i;

    for (i = 0; i < MANY; i++)
        take(e, i, i, -1);
}

/* However many versions stay: the newest of them, the version itself. */
static void rm_syncs_what_it_relies_on(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct counted c;

    many(e);
    count(e, &c);
    assert_ok(crn_store_remove(&c.st, "heat", 3, ei));
    assert_in_range(counted(&c), 2, 4);
    assert_ok(crn_store_remove(&c.st, "heat", MANY - 1, ei));
    assert_in_range(counted(&c), 2, 4);
    assert_false(has(e, "heat/3") || has(e, "heat/29"));
    crn_store_close(&c.st);
}

static void retention_syncs_what_it_relies_on(void **state)
{
    struct crn_retention policy = {.keep_last = 2};
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    struct counted c;

    many(e);
    count(e, &c);
    assert_ok(crn_store_retain(&c.st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, MANY - 2);
    assert_in_range(counted(&c), 2 + removed, 2 + 2 * removed);
    expect(e, "28:ok 29:ok");
    crn_store_close(&c.st);
}

/* Who has the lock remembers that all is durable, until a commit of his fails. */
static void a_writer_syncs_what_stays_once(void **state)
{
    int is_durable = 0;
    struct crn_retention policy = {.keep_last = MANY - 1, .is_durable = &is_durable};
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    struct counted c;

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

/* The files of the replaced capture go. */
static void taking_again_syncs_one_version(void **state)
{
    struct env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct counted c;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rm_syncs_what_it_relies_on),
        TEST(retention_syncs_what_it_relies_on),
        TEST(a_writer_syncs_what_stays_once),
        TEST(taking_again_syncs_one_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
