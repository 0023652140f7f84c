/* SPDX-License-Identifier: BSD-3-Clause */
/* Any failure of an assistant fails the file at once, with the reason, and leaves no files. Late
 * messages have no effect. */
#include <errno.h>

#include "aggregate/test_assist.h"
#include "base/fs_faulty.h"

/* A failed file accepts no late writes, because its generation is over. */
static void late_words_do_nothing(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    unsigned char none[8] = {0};
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_handout out;
    struct crn_assistant a = {.owner = 1};
    struct crn_buf b = {0};
    struct crn_store st;
    struct assist_world w;

    (void)state;
    assist_set_up(&w);
    open_store(&w, &st);
    w.engine = assist_open_engine(BLOCKS, 2);
    assert_ok(write_together(&w, &st, &mf, &stats, ei));
    compare(&w, &st, mf.name);
    assert_int_equal(stats.assisted_bytes, 0);
    assert_int_equal(crn_assist_hand_out(w.engine, w.generation, &a, &out, &b), CRN_HAND_NONE);
    crn_assist_handed_back(w.engine, w.generation, &a, 0, none, sizeof(none));
    crn_assist_left(w.engine, w.generation, &a, &(struct crn_view){0},
                    &(struct crn_errinfo){.code = CAIRN_EIO});
    crn_assist_cancel(w.engine, w.generation, &(struct crn_errinfo){.code = CAIRN_EIO});
    crn_manifest_file_free(&mf);
    assert_ok(write_together(&w, &st, &mf, &stats, ei));
    compare(&w, &st, mf.name);
    crn_manifest_file_free(&mf);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

/* Writes a file while call number `at` of its first assistant fails. Either the file fails with
 * that reason, or the assistant wrote none of it; no file is left. Returns 1 if the assistant
 * made fewer calls. */
static int strike(struct assist_world *w, const struct crn_store *st, unsigned ops, long at,
                  int *failed)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_flush_stats stats;
    struct crn_manifest_file mf;
    struct crn_fs_faulty faulty;
    cairn_err rc;

    crn_fs_faulty_init(&faulty, crn_fs_posix());
    faulty.ops = ops;
    faulty.at = at;
    faulty.sys_errno = EIO;
    w->aide[0].fs = &faulty.fs;
    rc = write_together(w, st, &mf, &stats, ei);
    if (rc == CAIRN_OK) {
        compare(w, st, mf.name);
        crn_manifest_file_free(&mf);
        assert_ok(crn_store_discard_data(st, "many", 7, mf.name, ei));
    } else {
        ++*failed;
        assert_int_equal(rc, CAIRN_EIO);
        assert_true(strlen(ei->msg) > 10);
    }
    test_nothing_left(st, "many", 7);
    return atomic_load(&faulty.calls) < at;
}

/* Leader and assistant stay usable after each failure. */
static void a_failing_assistant_fails_the_file(void **state)
{
    struct crn_store st;
    struct assist_world w;
    int failed = 0;
    int is_over = 0;
    long k;

    (void)state;
    assist_set_up(&w);
    open_store(&w, &st);
    w.engine = assist_open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    for (k = 1; !is_over; k++) {
        w.is_slow = 1;
        is_over = strike(&w, &st, CRN_OP_ALL, k, &failed);
    }
    assert_true(k > 20 && failed > 15);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

/* The assistant was told to ask later, since the rest belongs to a node that never comes. It
 * fails without waiting for an answer. */
static void a_limited_assistant_fails_at_once(void **state)
{
    struct crn_store st;
    struct assist_world w;
    int failed = 0;
    long k;

    (void)state;
    assist_set_up(&w);
    open_store(&w, &st);
    w.engine = assist_open_engine(BLOCKS, 2);
    aide_open(&w, 1);
    aide_open(&w, 3);
    w.assists[2] = 1;
    for (k = 1; k < 60; k++)
        (void)strike(&w, &st, CRN_OP_WRITE, k, &failed);
    assert_true(failed > 0);
    close_engines(&w);
    crn_store_close(&st);
    assist_tear_down(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_words_do_nothing),
        cmocka_unit_test(a_failing_assistant_fails_the_file),
        cmocka_unit_test(a_limited_assistant_fails_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
