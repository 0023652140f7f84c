/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs one after another on one directory: what a run that restored nothing may do to the versions
 * of another, and in which order the captures of different runs count. Each run is a session with
 * its own id; runs that die are processes. */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/test.h"
#include "cairn/cairn.h"

#define WORDS 1000

static time_t shift_s; /* offset of this process's wall clock */

/* Replaces the C library's. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ts);

    if (id == CLOCK_REALTIME)
        ts->tv_sec += shift_s;
    return rc;
}

struct runs_test_bed {
    char dir[256];
    uint64_t data[WORDS];
};

static int setup(void **state)
{
    struct runs_test_bed *b = calloc(1, sizeof(*b));

    test_dir_make(b->dir, sizeof(b->dir));
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct runs_test_bed *b = *state;

    test_dir_remove(b->dir);
    free(b);
    return 0;
}

/* A run; setting may be NULL. */
static cairn_session *open_run(struct runs_test_bed *b, const char *setting)
{
    char persistent[300], shm[300], run[300];
    const char *settings[] = {persistent, shm, run, "log_level=error", setting, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", b->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->dir);
    if (cairn_open(&opt, &s) != CAIRN_OK ||
        cairn_protect(s, "data", b->data, CAIRN_U64, WORDS) != CAIRN_OK)
        fail_msg("%s", cairn_last_error());
    return s;
}

static void close_run(cairn_session *s)
{
    if (cairn_close(s) != CAIRN_OK)
        fail_msg("%s", cairn_last_error());
}

static void fill(struct runs_test_bed *b, uint64_t seed)
{
    uint64_t i;

    for (i = 0; i < WORDS; i++)
        b->data[i] = seed * 1000003 + i;
}

static cairn_err take(struct runs_test_bed *b, cairn_session *s, const char *name, int64_t version,
                      uint64_t seed)
{
    cairn_err rc;

    fill(b, seed);
    rc = cairn_checkpoint(s, name, version, NULL);
    return rc == CAIRN_OK ? cairn_wait(s, name, version, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG) : rc;
}

static void must(cairn_err rc)
{
    if (rc != CAIRN_OK)
        fail_msg("%s: %s", cairn_error_name(rc), cairn_last_error());
}

/* A run that takes one version and ends. */
static void one_version(struct runs_test_bed *b, const char *name, int64_t version, uint64_t seed)
{
    cairn_session *s = open_run(b, "fresh=on");

    must(take(b, s, name, version, seed));
    close_run(s);
}

static void expect_data(struct runs_test_bed *b, const char *name, int64_t version, uint64_t seed)
{
    cairn_session *s = open_run(b, NULL);
    uint64_t i;

    memset(b->data, 0, sizeof(b->data));
    must(cairn_restore(s, name, version, NULL));
    for (i = 0; i < WORDS; i++)
        assert_int_equal(b->data[i], seed * 1000003 + i);
    close_run(s);
}

/* The guard. ----------------------------------------------------------------------------------- */

static void a_run_that_restored_nothing_replaces_nothing(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;
    int64_t v = -1;

    one_version(b, "heat", 3, 3);
    s = open_run(b, "keep_last=1");
    assert_int_equal(take(b, s, "heat", 3, 7), CAIRN_EEXIST);
    assert_non_null(strstr(cairn_last_error(), "fresh = on"));
    assert_int_equal(take(b, s, "heat", 4, 7), CAIRN_EEXIST); /* it would retire 3 */
    must(take(b, s, "cold", 0, 5));                           /* another name is unaffected */
    must(take(b, s, "cold", 1, 6));
    must(cairn_find(s, "heat", CAIRN_NEWEST, &v)); /* finding is not restoring */
    assert_int_equal(take(b, s, "heat", 4, 7), CAIRN_EEXIST);
    must(cairn_restart(s, "heat", NULL, &v)); /* now it is the successor */
    assert_int_equal(v, 3);
    must(take(b, s, "heat", 3, 8));
    close_run(s);
    expect_data(b, "heat", 3, 8);
}

static void what_the_refused_run_leaves_is_whole(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;

    one_version(b, "heat", 3, 3);
    s = open_run(b, "keep_last=1");
    assert_int_equal(take(b, s, "heat", 3, 7), CAIRN_EEXIST);
    close_run(s); /* nothing was captured: nothing is drained */
    expect_data(b, "heat", 3, 3);
    one_version(b, "heat", 2, 2); /* the refused run left no lock */
    expect_data(b, "heat", 3, 3);
}

static void fresh_says_so(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;

    one_version(b, "heat", 3, 3);
    one_version(b, "heat", 3, 4);
    expect_data(b, "heat", 3, 4);
    s = open_run(b, NULL);
    assert_int_equal(take(b, s, "heat", 3, 5), CAIRN_EEXIST);
    close_run(s);
}

static void an_empty_store_is_free(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s = open_run(b, NULL);
    int64_t v;

    assert_int_equal(cairn_restart(s, "heat", NULL, &v), CAIRN_ENOENT);
    must(take(b, s, "heat", 0, 1));
    must(take(b, s, "heat", 1, 2)); /* its own versions do not count as another run's */
    must(take(b, s, "heat", 0, 3));
    close_run(s);
    expect_data(b, "heat", 0, 3);
    s = open_run(b, NULL);
    must(cairn_reject(s, "heat", 0, "diverged")); /* a rejected version blocks nothing */
    must(cairn_reject(s, "heat", 1, "diverged"));
    assert_int_equal(cairn_restart(s, "heat", NULL, &v), CAIRN_ENOENT);
    must(take(b, s, "heat", 0, 4));
    close_run(s);
}

static void a_damaged_version_is_protected_too(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;
    char path[400];

    one_version(b, "heat", 3, 3);
    (void)snprintf(path, sizeof(path), "%s/p/heat/3/data-0000", b->dir);
    assert_int_equal(truncate(path, 100), 0);
    s = open_run(b, NULL);
    assert_int_equal(take(b, s, "heat", 0, 7), CAIRN_EEXIST);
    close_run(s);
}

/* Pins. ---------------------------------------------------------------------------------------- */

static void pin(struct runs_test_bed *b, const char *name, int64_t version, int is_pinned)
{
    char path[400];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/p/%s/%lld/pin", b->dir, name, (long long)version);
    if (!is_pinned) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

static void a_pinned_version_is_refused_at_the_call_or_by_the_flush(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;

    one_version(b, "heat", 3, 3);
    pin(b, "heat", 3, 1);
    s = open_run(b, "fresh=on");
    fill(b, 8);
    assert_int_equal(cairn_checkpoint(s, "heat", 3, NULL),
                     CAIRN_EPINNED); /* the first checkpoint of the name */
    must(take(b, s, "heat", 4, 4));
    assert_int_equal(take(b, s, "heat", 3, 9), CAIRN_EPINNED); /* found by the flush */
    must(take(b, s, "heat", 5, 5));
    close_run(s);
    expect_data(b, "heat", 3, 3);
}

/* The order of runs. --------------------------------------------------------------------------- */

/* Runs a process that restores a version, takes it again and dies before the flush. */
static void retake_and_die(struct runs_test_bed *b, const char *name, int64_t version,
                           uint64_t seed)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        cairn_session *s = open_run(b, "phase_patience=1h");

        if (cairn_restore(s, name, version, NULL) != CAIRN_OK ||
            cairn_phase(s, CAIRN_PHASE_IO) != CAIRN_OK)
            _exit(1);
        fill(b, seed);
        if (cairn_checkpoint(s, name, version, NULL) != CAIRN_OK)
            _exit(2);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The clock of the second run lags that of the first by a day. */
static void a_retaken_version_survives_a_drain_though_the_clock_was_set_back(void **state)
{
    struct runs_test_bed *b = *state;

    one_version(b, "heat", 5, 1);
    shift_s = -86400;
    retake_and_die(b, "heat", 5, 2);
    expect_data(b, "heat", 5, 2); /* drained when this run was opened */
    shift_s = -2 * 86400;
    retake_and_die(b, "heat", 5, 3);
    shift_s = 0;
    expect_data(b, "heat", 5, 3);
}

/* The reverse: an older capture does not replace a newer version. */
static void an_older_capture_is_not_drained_over_a_newer_version(void **state)
{
    char away[300], back[300];
    struct runs_test_bed *b = *state;

    one_version(b, "heat", 5, 1);
    shift_s = 86400;
    retake_and_die(b, "heat", 5, 2);
    shift_s = 0;
    /* Hide its memory while the next run takes the version again. */
    (void)snprintf(back, sizeof(back), "%s/cairn-%u", b->dir, (unsigned)getuid());
    (void)snprintf(away, sizeof(away), "%s/away", b->dir);
    assert_int_equal(rename(back, away), 0);
    one_version(b, "heat", 5, 3);
    test_dir_remove(back);
    assert_int_equal(rename(away, back), 0);
    expect_data(b, "heat", 5, 3);
}

static void retention_keeps_what_was_taken_last_though_the_clock_was_set_back(void **state)
{
    struct runs_test_bed *b = *state;
    cairn_session *s;
    int64_t v;

    one_version(b, "heat", 10, 10);
    shift_s = -86400;
    s = open_run(b, "keep_last=1");
    must(cairn_restart(s, "heat", NULL, &v));
    must(take(b, s, "heat", 3, 3));
    close_run(s);
    shift_s = 0;
    expect_data(b, "heat", 3, 3);
}

static void versions_are_listed_newest_first_and_removed_for_good(void **state)
{
    struct runs_test_bed *b = *state;
    int64_t v[2] = {-1, -1};
    cairn_session *s;
    int64_t found;
    size_t n = 9;

    s = open_run(b, NULL);
    must(cairn_list(s, "heat", v, 2, &n));
    assert_int_equal(n, 0);
    assert_int_equal(cairn_remove(s, "heat", 3), CAIRN_ENOENT);
    must(take(b, s, "heat", 3, 3));
    must(take(b, s, "heat", 7, 7));
    must(take(b, s, "heat", 5, 5));
    must(cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG));
    must(cairn_list(s, "heat", v, 2, &n));
    assert_int_equal(n, 3);
    assert_int_equal(v[0], 7);
    assert_int_equal(v[1], 5);
    must(cairn_find(s, "heat", CAIRN_NEWEST, &found)); /* opens the version to be removed */
    must(cairn_remove(s, "heat", 7));
    must(cairn_list(s, "heat", NULL, 0, &n));
    assert_int_equal(n, 2);
    close_run(s);
    expect_data(b, "heat", 5, 5); /* its copy in memory does not bring 7 back */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_that_restored_nothing_replaces_nothing),
        TEST(what_the_refused_run_leaves_is_whole),
        TEST(fresh_says_so),
        TEST(an_empty_store_is_free),
        TEST(a_damaged_version_is_protected_too),
        TEST(a_pinned_version_is_refused_at_the_call_or_by_the_flush),
        TEST(a_retaken_version_survives_a_drain_though_the_clock_was_set_back),
        TEST(an_older_capture_is_not_drained_over_a_newer_version),
        TEST(retention_keeps_what_was_taken_last_though_the_clock_was_set_back),
        TEST(versions_are_listed_newest_first_and_removed_for_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
