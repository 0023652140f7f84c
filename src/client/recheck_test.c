/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart from a good copy on the node's disk: damage of the file on the parallel file system is
 * still found, and reported once. */
#include "client/recheck.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/test.h"
#include "store/journal.h"

#define WORDS 100000

struct recheck_bed {
    char dir[256], log[300];
    uint64_t data[WORDS];
};

static void must(cairn_err rc)
{
    if (rc != CAIRN_OK)
        fail_msg("%s: %s", cairn_error_name(rc), cairn_last_error());
}

static void fill(struct recheck_bed *b, uint64_t seed)
{
    uint64_t i;

    for (i = 0; i < WORDS; i++)
        b->data[i] = seed * 1000003 + i * i;
}

static cairn_session *open_run(struct recheck_bed *b, const char *setting)
{
    char persistent[300], shm[300], run[300], local[300], log[320];
    const char *settings[] = {persistent, shm, run, local, log, "keep_local=2", setting, NULL};
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings};
    cairn_session *s;

    (void)snprintf(persistent, sizeof(persistent), "persistent=%s/p", b->dir);
    (void)snprintf(shm, sizeof(shm), "shm_dir=%s", b->dir);
    (void)snprintf(run, sizeof(run), "run_dir=%s/run", b->dir);
    (void)snprintf(local, sizeof(local), "local=%s/local", b->dir);
    (void)snprintf(log, sizeof(log), "log_file=%s", b->log);
    must(cairn_open(&opt, &s));
    must(cairn_protect(s, "data", b->data, CAIRN_U64, WORDS));
    return s;
}

/* Version 1, with a copy in the local directory. */
static int setup(void **state)
{
    struct recheck_bed *b = calloc(1, sizeof(*b));
    cairn_session *s;

    test_dir_make(b->dir, sizeof(b->dir));
    (void)snprintf(b->log, sizeof(b->log), "%s/log", b->dir);
    s = open_run(b, NULL);
    fill(b, 1);
    must(cairn_checkpoint(s, "heat", 1, NULL));
    must(cairn_wait(s, "heat", 1, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG));
    must(cairn_close(s));
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct recheck_bed *b = *state;

    test_dir_remove(b->dir);
    free(b);
    return 0;
}

static void flip(const struct recheck_bed *b, off_t at)
{
    char path[300];
    unsigned char byte;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/p/heat/1/data-0000", b->dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

/* Restarts, and compares the bytes. */
static void restart(struct recheck_bed *b, cairn_session *s)
{
    int64_t version = -1;
    uint64_t i;

    memset(b->data, 0, sizeof(b->data));
    must(cairn_restart(s, "heat", NULL, &version));
    assert_int_equal(version, 1);
    for (i = 0; i < WORDS; i++)
        assert_int_equal(b->data[i], 1000003 + i * i);
}

static void wait_for_check(cairn_session *s)
{
    assert_non_null(s->recheck);
    while (crn_recheck_found(s->recheck) < 0) /* the test's time limit ends a thread that hangs */
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int lines_with(const char *path, const char *word)
{
    FILE *f = fopen(path, "r");
    char line[4096];
    int n = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, word) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return n;
}

static int journal_repairs(const struct recheck_bed *b)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_journal j = {0};
    struct crn_store st;
    char path[300];
    int n = 0;
    size_t i;

    (void)snprintf(path, sizeof(path), "%s/p", b->dir);
    assert_ok(crn_store_open(crn_fs_posix(), path, 0, &st, ei));
    assert_ok(crn_journal_read(&st, "heat", &j, ei));
    for (i = 0; i < j.n; i++)
        n += strcmp(j.v[i].kind, CRN_EVENT_REPAIRED) == 0 && j.v[i].version == 1 &&
             strstr(j.v[i].text, "data-0000") != NULL;
    crn_journal_free(&j);
    crn_store_close(&st);
    return n;
}

/* The restart reads none of it, and gets the right bytes. */
static void damaged_data_is_found(void **state)
{
    struct recheck_bed *b = *state;
    cairn_session *s;

    flip(b, WORDS * 4);
    s = open_run(b, NULL);
    restart(b, s);
    wait_for_check(s);
    assert_int_equal(cairn_repairs(s), 1);
    restart(b, s); /* is not checked again */
    assert_int_equal(cairn_repairs(s), 1);
    must(cairn_close(s));
    assert_int_equal(lines_with(b->log, "cairn verify heat@1"), 1);
    assert_int_equal(journal_repairs(b), 1);
}

static void good_data_is_not_reported(void **state)
{
    struct recheck_bed *b = *state;
    cairn_session *s = open_run(b, NULL);

    restart(b, s);
    wait_for_check(s);
    assert_int_equal(cairn_repairs(s), 0);
    must(cairn_close(s));
    assert_int_equal(lines_with(b->log, "heat@1"), 0);
    assert_int_equal(journal_repairs(b), 0);
}

/* A removed file says nothing about the version. */
static void removed_data_is_not_reported(void **state)
{
    struct recheck_bed *b = *state;
    cairn_session *s = open_run(b, NULL);
    char from[300], to[300];

    restart(b, s);
    wait_for_check(s);
    crn_recheck_close(s->recheck);
    s->recheck = NULL;
    (void)snprintf(from, sizeof(from), "%s/p/heat/1", b->dir);
    (void)snprintf(to, sizeof(to), "%s/p/heat-1", b->dir);
    assert_int_equal(rename(from, to), 0);
    crn_recheck_begin(s);
    wait_for_check(s);
    assert_int_equal(cairn_repairs(s), 0);
    must(cairn_close(s));
    assert_int_equal(lines_with(b->log, "heat@1"), 0);
}

static void it_is_switched_off(void **state)
{
    struct recheck_bed *b = *state;
    cairn_session *s;

    flip(b, WORDS * 4);
    s = open_run(b, "restart_check=off");
    restart(b, s);
    assert_null(s->recheck);
    assert_int_equal(cairn_repairs(s), 0);
    must(cairn_close(s));
}

/* Not reported twice: this restart has noticed the damage itself. */
static void what_is_told_is_not_checked(void **state)
{
    struct recheck_bed *b = *state;
    char path[300];
    struct stat sb;
    cairn_session *s;

    (void)snprintf(path, sizeof(path), "%s/p/heat/1/data-0000", b->dir);
    assert_int_equal(stat(path, &sb), 0);
    flip(b, sb.st_size - 10); /* the trailer */
    s = open_run(b, NULL);
    restart(b, s);
    assert_null(s->recheck);
    assert_int_equal(cairn_repairs(s), 1);
    must(cairn_close(s));
    assert_int_equal(journal_repairs(b), 1);
}

/* The session closes while the thread reads or rests. */
static void closing_ends_the_check(void **state)
{
    struct recheck_bed *b = *state;
    int i;

    for (i = 0; i < 8; i++) {
        cairn_session *s = open_run(b, NULL);

        restart(b, s);
        must(cairn_close(s));
    }
    assert_int_equal(lines_with(b->log, "heat@1"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damaged_data_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(good_data_is_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(removed_data_is_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_switched_off, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_told_is_not_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(closing_ends_the_check, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
