/* SPDX-License-Identifier: BSD-3-Clause */
/* Records can be read back; damage loses only the damaged records; the journal is bounded. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fs_faulty.h"
#include "base/log.h"
#include "store/test_store.h"

#define RUN "00112233445566778899aabbccddeeff"

static struct crn_event event(int64_t version, const char *kind, const char *text)
{
    struct crn_event e = {.time_ns = 5, .version = version, .run = RUN, .job = "4711"};

    (void)snprintf(e.kind, sizeof(e.kind), "%s", kind);
    (void)snprintf(e.text, sizeof(e.text), "%s", text);
    return e;
}

static void add(struct store_env *e, int64_t version, const char *kind, const char *text)
{
    struct crn_event ev = event(version, kind, text);
    struct crn_errinfo *ei = &e->info;

    assert_ok(crn_journal_add(&e->st, "heat", &ev, ei));
}

/* The records as text: "3:failed:why|4:...". */
static const char *all(struct store_env *e)
{
    static char text[4000];
    struct crn_errinfo *ei = &e->info;
    struct crn_journal j;
    size_t i, n = 0;

    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    text[0] = '\0';
    for (i = 0; i < j.n; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld:%s:%s", i > 0 ? "|" : "",
                              (long long)j.v[i].version, j.v[i].kind, j.v[i].text);
    crn_journal_free(&j);
    return text;
}

static void path_of(const struct store_env *e, const char *file, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/heat/%s", e->dir, file);
}

static void append(const struct store_env *e, const void *bytes, size_t n)
{
    char path[600];
    int fd;

    path_of(e, ".journal", path, sizeof(path));
    fd = open(path, O_WRONLY | O_APPEND);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void)close(fd);
}

static void records_come_back(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_event bare = {.version = INT64_MAX, .kind = "new kind", .text = ""};
    struct crn_names names;
    struct crn_journal j;
    struct stat sb;
    char path[600];

    assert_int_equal(crn_journal_read(&e->st, "heat", &j, ei), CAIRN_ENOENT);
    crn_err_clear(ei);
    add(e, 3, CRN_EVENT_FAILED, "rank 7 died\nbefore\tit");
    assert_ok(crn_journal_add(&e->st, "heat", &bare, ei));
    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    assert_int_equal(j.n, 2);
    assert_int_equal(j.v[0].time_ns, 5);
    assert_int_equal(j.v[0].version, 3);
    assert_string_equal(j.v[0].kind, "failed");
    assert_string_equal(j.v[0].run, RUN);
    assert_string_equal(j.v[0].job, "4711");
    assert_string_equal(j.v[0].text, "rank 7 died before it");
    assert_true(j.v[1].time_ns > 1000000000);
    assert_true(j.v[1].version == INT64_MAX);
    assert_string_equal(j.v[1].kind, "new_kind");
    assert_string_equal(j.v[1].run, "");
    assert_string_equal(j.v[1].job, "");
    assert_string_equal(j.v[1].text, "");
    crn_journal_free(&j);
    path_of(e, ".journal", path, sizeof(path));
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);

    /* The name has a journal and no versions. */
    assert_ok(crn_journal_names(&e->st, &names, ei));
    assert_int_equal(names.n, 1);
    assert_string_equal(names.name[0], "heat");
    crn_names_free(&names);
    assert_ok(crn_store_names(&e->st, &names, ei));
    assert_int_equal(names.n, 0);
    crn_names_free(&names);
}

static void a_long_text_is_cut_and_reads_back(void **state)
{
    struct store_env *e = *state;
    struct crn_event ev = event(INT64_MAX, "twenty-three-characters", "");
    struct crn_errinfo *ei = &e->info;
    struct crn_journal j;

    memset(ev.text, 'x', sizeof(ev.text) - 1);
    memset(ev.job, 'j', sizeof(ev.job) - 1);
    ev.time_ns = UINT64_MAX;
    assert_ok(crn_journal_add(&e->st, "heat", &ev, ei));
    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    assert_int_equal(j.n, 1);
    assert_string_equal(j.v[0].text, ev.text);
    assert_string_equal(j.v[0].job, ev.job);
    crn_journal_free(&j);
}

static void what_is_damaged_costs_itself_alone(void **state)
{
    struct store_env *e = *state;
    char good[600], path[600], byte;
    off_t size, at;
    int fd;

    add(e, 1, "failed", "one");
    append(e, "torn by a crash", 15);
    add(e, 2, "failed", "two");
    append(e, "\n\n\0\0binary\xff\n 1 2 3\n0123456789abcdef 5 failed 9 - - forged\n", 58);
    add(e, 3, "failed", "three");
    assert_string_equal(all(e), "1:failed:one|2:failed:two|3:failed:three");

    /* Flips each byte in turn: no false record appears, and at most two are lost. */
    (void)snprintf(good, sizeof(good), "%s", all(e));
    path_of(e, ".journal", path, sizeof(path));
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    size = lseek(fd, 0, SEEK_END);
    for (at = 0; at < size; at++) {
        char *rest = NULL;
        char *word;
        char left[600];
        int n = 0;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        (void)snprintf(left, sizeof(left), "%s", all(e));
        for (word = strtok_r(left, "|", &rest); word != NULL; word = strtok_r(NULL, "|", &rest)) {
            n++;
            assert_non_null(strstr(good, word));
        }
        assert_true(n >= 1);
        byte ^= 4;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    (void)close(fd);
    assert_string_equal(all(e), good);
}

static void it_is_bounded_and_keeps_the_newest(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_journal j;
    struct stat now, old;
    char path[600];
    int64_t i;
    size_t k;

    for (i = 0; i < 4000; i++)
        add(e, i, "failed", "the same thing again and again, with a text of a usual length or so");
    path_of(e, ".journal", path, sizeof(path));
    assert_int_equal(stat(path, &now), 0);
    path_of(e, ".journal.old", path, sizeof(path));
    assert_int_equal(stat(path, &old), 0);
    assert_in_range(now.st_size + old.st_size, 64 << 10, (128 << 10) + 2048);
    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    assert_in_range(j.n, 400, 1200);
    for (k = 0; k < j.n; k++)
        assert_int_equal(j.v[k].version, 4000 - (int64_t)j.n + (int64_t)k);
    crn_journal_free(&j);
}

static void many_processes_write_at_once(void **state)
{
    enum { PROCESSES = 6, RECORDS = 60 };
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_journal j;
    int seen[PROCESSES] = {0};
    int status;
    size_t k;
    int p, i;

    for (p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            for (i = 0; i < RECORDS; i++) {
                struct crn_event ev = event(i, "failed", "");

                (void)snprintf(ev.job, sizeof(ev.job), "%d", p);
                if (crn_journal_add(&e->st, "heat", &ev, ei) != CAIRN_OK)
                    _exit(1);
            }
            _exit(0);
        }
    for (p = 0; p < PROCESSES; p++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    assert_int_equal(j.n, PROCESSES * RECORDS);
    for (k = 0; k < j.n; k++) /* records of one process keep their order */
        assert_int_equal(j.v[k].version, seen[atoi(j.v[k].job)]++);
    crn_journal_free(&j);
}

static void every_failing_call_costs_one_record_at_most(void **state)
{
    struct store_env *e = *state;
    struct crn_fs_faulty f;
    struct crn_store st;
    int failed = 0;
    long k;
    int i;

    for (i = 0; i < 2; i++) { /* a call that fails; a torn write */
        for (k = 1;; k++) {
            struct crn_event ev = event(k, "failed", "x");
            struct crn_errinfo ei = {0};
            int before = test_open_files();
            cairn_err rc;

            crn_fs_faulty_init(&f, crn_fs_posix());
            f.action = i == 0 ? CRN_FAULT_FAIL : CRN_FAULT_SHORT;
            f.sys_errno = EIO;
            f.ops = CRN_OP_ALL;
            st = e->st;
            st.fs = &f.fs;
            f.at = k;
            rc = crn_journal_add(&st, "heat", &ev, &ei);
            failed += rc != CAIRN_OK;
            if (rc == CAIRN_OK)
                assert_string_equal(all(e) + strlen(all(e)) - strlen("failed:x"), "failed:x");
            assert_int_equal(test_open_files(), before);
            if (atomic_load(&f.calls) < k)
                break;
        }
        assert_true(k > 5);
    }
    assert_true(failed > 3);
    add(e, 100, "failed", "last");
    assert_non_null(strstr(all(e), "100:failed:last"));
}

static void what_lies_in_its_place_is_left_alone(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_event ev = event(1, "failed", "x");
    char path[600], target[600];
    struct stat sb;

    add(e, 1, "failed", "x");
    path_of(e, ".journal", path, sizeof(path));
    path_of(e, "elsewhere", target, sizeof(target));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(target, path), 0);
    assert_int_not_equal(crn_journal_add(&e->st, "heat", &ev, ei), CAIRN_OK);
    assert_int_equal(stat(target, &sb), -1);
    assert_string_equal(all(e), "");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_not_equal(crn_journal_add(&e->st, "heat", &ev, ei), CAIRN_OK);
    assert_string_equal(all(e), "");
    assert_int_equal(unlink(path), 0);
    add(e, 2, "failed", "y");
    assert_string_equal(all(e), "2:failed:y");
}

/* Removal, retention and a forced sweep keep the journal. */
static void it_outlives_the_versions(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_clock_virtual clock;
    struct crn_retention policy = {.keep_last = 1};
    struct crn_sweep_result swept;
    uint32_t removed;
    int64_t i;

    for (i = 1; i <= 3; i++) {
        e->t[i] =
            (struct tv){.name = "heat", .version = i, .seq = (uint64_t)i, .ranks = 2, .files = 1};
        assert_ok(tv_write(&e->st, &e->t[i], ei));
    }
    add(e, 2, "repaired", "x");
    assert_ok(crn_store_retain(&e->st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 2);
    assert_ok(crn_store_remove(&e->st, "heat", 3, ei));
    crn_clock_virtual_init(&clock, INT64_MAX);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 0, 1, 0, &clock.clock, &swept, ei));
    assert_string_equal(all(e), "2:repaired:x");
}

static void a_report_opens_the_store_itself(void **state)
{
    struct store_env *e = *state;
    static const uint8_t run[16] = {1, 2, 3};
    struct crn_log log = {.level = CRN_INFO};
    struct crn_reporter r = {
        .fs = crn_fs_posix(), .log = &log, .root = "/nowhere", .job = "", .run = run};
    struct crn_journal j;
    struct crn_errinfo *ei = &e->info;

    assert_int_not_equal(
        CAIRN_OK, crn_journal_report(&r, "heat", 1, 0, CRN_EVENT_FAILED, "nowhere to say it"));
    r.root = e->dir;
    assert_int_not_equal(CAIRN_OK, crn_journal_report(&r, "..", 1, 0, CRN_EVENT_FAILED, "no name"));
    assert_ok(crn_journal_report(&r, "heat", 1, 7, CRN_EVENT_FAILED, "said"));

    assert_ok(crn_journal_read(&e->st, "heat", &j, ei));
    assert_int_equal(j.n, 1);
    assert_string_equal(j.v[0].text, "said");
    assert_int_equal(j.v[0].time_ns, 7);
    assert_string_equal(j.v[0].run, "01020300000000000000000000000000");
    crn_journal_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_come_back),
        TEST(a_long_text_is_cut_and_reads_back),
        TEST(what_is_damaged_costs_itself_alone),
        TEST(it_is_bounded_and_keeps_the_newest),
        TEST(many_processes_write_at_once),
        TEST(every_failing_call_costs_one_record_at_most),
        TEST(what_lies_in_its_place_is_left_alone),
        TEST(it_outlives_the_versions),
        TEST(a_report_opens_the_store_itself),
    };

    test_dir_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
