/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn_close returns within wait_timeout, whatever delays the flush; unflushed captures are left
 * for a drain. The test measures no time: it closes so many sessions that it would exceed its
 * deadline (tests/support/deadline.c) if each close took 10 s. */
#include "base/test.h"
#include "cairn/cairn.h"

#define CLOSINGS 24
#define SLOW     2 /* of them while a flush is writing */
#define WORDS    ((size_t)4 << 20)

static void close_one(const char *dir, int i, const char *setting, uint64_t words)
{
    char persistent[300], shm[300], run[300], name[32];
    const char *settings[] = {persistent,       shm,        run,     "wait_timeout=100ms",
                              "block_bytes=1M", "blocks=2", setting, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    uint64_t *data = calloc(words, sizeof(*data));
    cairn_session *s;

    assert_non_null(data);
    (void)snprintf(name, sizeof(name), "n%d", i);
    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p%d", dir,
                   i); /* no drain at the start */
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s", dir);
    assert_int_equal(cairn_open(&opt, &s), CAIRN_OK);
    assert_int_equal(cairn_protect(s, "data", data, CAIRN_U64, words), CAIRN_OK);
    assert_int_equal(cairn_checkpoint(s, name, 1, NULL), CAIRN_OK);
    assert_int_equal(cairn_close(s), CAIRN_ETIMEDOUT);
    free(data);
}

/* The flush waits for free space. */
static void paused(void **state)
{
    char dir[256];
    int i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    for (i = 0; i < CLOSINGS; i++)
        close_one(dir, i, "free_reserve_bytes=1000T", 1000);
    test_dir_remove(dir);
}

/* The flush is writing to a slow disk: it stops at the next write. */
static void writing(void **state)
{
    char dir[256];
    int i;

    (void)state;
    test_dir_make(dir, sizeof(dir));
    for (i = 0; i < SLOW; i++)
        close_one(dir, i, "writers=1", WORDS);
    test_dir_remove(dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {cmocka_unit_test(paused)};
    const struct CMUnitTest slow[] = {cmocka_unit_test(writing)};

    (void)setenv("CAIRN_LOG_LEVEL", "error", 1);
    if (argc > 1)
        return cmocka_run_group_tests(slow, NULL, NULL);
    if (cmocka_run_group_tests(quick, NULL, NULL) != 0)
        return 1;
    /* In a process of its own, because the delay is read only once. A file of 32 blocks takes more
     * than a minute. */
    (void)setenv("CAIRN_FAULT_FS", "at=1,action=delay,ms=2000,ops=write,sticky=1", 1);
    (void)execl(argv[0], argv[0], "slow", (char *)NULL);
    return 1;
}
