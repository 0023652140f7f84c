/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that a living session reads back: from memory while they are on their way, from wherever
 * they are afterwards, announced or not, in every order. */
#include "client/test_bed.h"

#include <sys/wait.h>
#include <unistd.h>

#define NEVER "free_reserve_bytes=1000T" /* no flush ends */

static uint64_t data[N];

static void set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        data[i] = value(version, i);
}

static int is_set(uint64_t version)
{
    size_t i;

    for (i = 0; i < N; i++)
        if (data[i] != value(version, i))
            return 0;
    return 1;
}

static int is_persistent(cairn_session *s, int64_t version)
{
    int reached = 0;

    must(cairn_test(s, "t", version, CAIRN_PERSISTENT, &reached));
    return reached;
}

/* A session whose flushes never end is left by the death of its process. */
static void in_child(void (*body)(struct bed *b))
{
    struct bed b = {0};
    int status;
    pid_t pid;

    test_dir_make(b.dir, sizeof(b.dir));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(&b); /* a failed assertion goes on with the other tests and ends in an error */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    test_dir_remove(b.dir);
}

static void before_commit(struct bed *b)
{
    cairn_session *s = bed_session(b, NEVER, "arena_bytes=16M", "wait_timeout=100ms", NULL);
    int64_t v;

    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    for (v = 1; v <= 4; v++) {
        set((uint64_t)v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 4; v >= 1; v--) {
        set(99);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(is_set((uint64_t)v));
        assert_false(is_persistent(s, v));
    }
    set(7); /* taken again: the newer one counts */
    must(cairn_checkpoint(s, "t", 2, NULL));
    set(99);
    must(cairn_restore(s, "t", 2, NULL));
    assert_true(is_set(7));
    must(cairn_protect(s, "data", data, CAIRN_U64, N - 1)); /* does not fit: nothing is written */
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
    assert_true(is_set(7));
}

/* What this session took is there at once, whatever the flush does. */
static void test_before_commit(void **state)
{
    (void)state;
    in_child(before_commit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_commit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
