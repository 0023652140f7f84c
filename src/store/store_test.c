/* SPDX-License-Identifier: BSD-3-Clause */
/* The store without failures; tests/crash covers failures. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/test_store.h"

static struct tv heat(int64_t version, uint64_t seq)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)seq,
                       .ranks = 3,
                       .files = 2};
}

static void take(struct store_env *e, int64_t version, uint64_t seq)
{
    struct crn_errinfo *ei = &e->info;
    struct tv t = heat(version, seq);

    crn_err_clear(ei);
    assert_ok(tv_write(&e->st, &t, ei));
}

static void put(const struct store_env *e, const char *rel, const char *text)
{
    char path[600];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", e->dir, rel);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static struct crn_sweep_result sweep(struct store_env *e, int64_t now_ns, int force, int dry_run)
{
    struct crn_errinfo *ei = &e->info;
    struct crn_sweep_result res;
    struct crn_clock_virtual clock;

    crn_clock_virtual_init(&clock, now_ns);
    assert_ok(crn_store_sweep(&e->st, "heat", -1, 1000000, force, dry_run, &clock.clock, &res, ei));
    return res;
}

static void a_version_appears_whole(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_names names;
    struct crn_manifest m;
    struct crn_catalog c;
    struct stat sb;
    char path[400];

    take(e, 7, 1);
    take(e, 10, 2);
    expect(e, "7:ok 10:ok");
    assert_ok(crn_store_names(&e->st, &names, ei));
    assert_int_equal(names.n, 1);
    assert_string_equal(names.name[0], "heat");
    crn_names_free(&names);
    assert_ok(crn_store_manifest(&e->st, "heat", 10, &m, ei));
    assert_int_equal(m.id.seq, 2);
    assert_int_equal(m.nfiles, 2);
    assert_string_equal(m.files[1].name, "data-0001");
    crn_manifest_free(&m);
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_int_equal(c.v[1].ranks, 3);
    assert_int_equal(c.v[1].data_bytes, 3 * (24 + 25) + 40 + 41 + 42);
    assert_string_equal(c.v[1].job, "job 7");
    crn_catalog_free(&c);
    (void)snprintf(path, sizeof(path), "%s/heat/7", e->dir);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0700);
    (void)snprintf(path, sizeof(path), "%s/heat/7/data-0000", e->dir);
    assert_int_equal(stat(path, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_int_equal(crn_store_manifest(&e->st, "heat", 8, &m, ei), CAIRN_ENOENT);
    assert_int_equal(crn_store_manifest(&e->st, "cold", 7, &m, ei), CAIRN_ENOENT);
    assert_int_equal(crn_store_manifest(&e->st, "../heat", 7, &m, ei), CAIRN_EINVAL);
}

static void taking_it_again_replaces_it(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv older = heat(7, 1);
    struct crn_manifest m;

    take(e, 7, 1);
    take(e, 7, 2);
    expect(e, "7:ok");
    assert_ok(crn_store_manifest(&e->st, "heat", 7, &m, ei));
    assert_int_equal(m.id.seq, 2);
    assert_string_equal(m.files[0].name, "data-0000.1");
    crn_manifest_free(&m);
    assert_false(has(e, "heat/7/data-0000"));
    /* A late flush of the earlier capture does not undo it, and cleans up after itself. */
    assert_int_equal(tv_write(&e->st, &older, ei), CAIRN_ECANCELED);
    expect(e, "7:ok");
    assert_false(has(e, "heat/7/data-0000"));
    assert_true(has(e, "heat/7/data-0000.1"));
}

static void a_committed_file_is_not_discarded(void **state)
{
    struct store_env *e = *state;

    take(e, 7, 1);
    assert_int_equal(crn_store_discard_data(&e->st, "heat", 7, "data-0000", &e->info),
                     CAIRN_ESTATE);
    expect(e, "7:ok");
}

static void damage_is_seen(void **state)
{
    struct store_env *e = *state;
    char path[400];

    take(e, 1, 1);
    take(e, 2, 2);
    take(e, 3, 3);
    take(e, 4, 4);
    take(e, 5, 5);
    (void)snprintf(path, sizeof(path), "%s/heat/2/data-0001", e->dir);
    assert_int_equal(truncate(path, 100), 0);
    (void)snprintf(path, sizeof(path), "%s/heat/3/data-0000", e->dir);
    assert_int_equal(unlink(path), 0);
    put(e, "heat/4/manifest", "something else");
    (void)snprintf(path, sizeof(path), "%s/heat/5/manifest", e->dir);
    assert_int_equal(unlink(path), 0);
    put(e, "heat/12x", "a file of the user");
    put(e, "heat/13", "another one");
    expect(e, "1:ok 2:damaged 3:damaged 4:damaged 5:partial");
}

/* A whole manifest of another version is refused. */
static void a_swapped_manifest_is_refused(void **state)
{
    struct store_env *e = *state;
    char from[400], to[400];

    take(e, 1, 1);
    take(e, 2, 2);
    (void)snprintf(from, sizeof(from), "%s/heat/1/manifest", e->dir);
    (void)snprintf(to, sizeof(to), "%s/heat/2/manifest", e->dir);
    assert_int_equal(rename(from, to), 0);
    expect(e, "1:partial 2:damaged");
}

static void marks(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_catalog c;
    FILE *f;
    char path[400];

    take(e, 1, 1);
    take(e, 2, 2);
    assert_ok(crn_store_pin(&e->st, "heat", 1, 1, ei));
    assert_ok(crn_store_pin(&e->st, "heat", 1, 1, ei));
    assert_ok(crn_store_reject(&e->st, "heat", 2, "diverged\nat step 9", ei));
    expect(e, "1:ok+pin 2:rejected");
    assert_ok(crn_store_catalog(&e->st, "heat", &c, ei));
    assert_string_equal(c.v[1].why, "diverged at step 9");
    crn_catalog_free(&c);
    assert_int_equal(crn_store_remove(&e->st, "heat", 1, ei), CAIRN_EPINNED);
    assert_ok(crn_store_pin(&e->st, "heat", 1, 0, ei));
    assert_ok(crn_store_pin(&e->st, "heat", 1, 0, ei));
    expect(e, "1:ok 2:rejected");
    /* A damaged mark still counts; taking the version again clears it. */
    (void)snprintf(path, sizeof(path), "%s/heat/2/bad", e->dir);
    f = fopen(path, "r+e");
    assert_non_null(f);
    assert_int_equal(fputc('x', f), 'x');
    assert_int_equal(fclose(f), 0);
    expect(e, "1:ok 2:rejected");
    assert_ok(crn_store_reject(&e->st, "heat", 2, NULL, ei));
    take(e, 2, 3);
    expect(e, "1:ok 2:ok");
    assert_int_equal(crn_store_pin(&e->st, "heat", 3, 1, ei), CAIRN_ENOENT);
    assert_int_equal(crn_store_reject(&e->st, "heat", 3, "", ei), CAIRN_ENOENT);
}

static void removal_leaves_nothing_but_foreign_files(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;

    take(e, 1, 1);
    take(e, 2, 2);
    assert_ok(crn_store_reject(&e->st, "heat", 1, "x", ei));
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    assert_false(has(e, "heat/1"));
    put(e, "heat/2/notes.txt", "mine");
    assert_ok(crn_store_remove(&e->st, "heat", 2, ei));
    assert_true(has(e, "heat/2/notes.txt"));
    assert_false(has(e, "heat/2/data-0000"));
    expect(e, "2:partial");
    assert_int_equal(crn_store_remove(&e->st, "heat", 2, ei), CAIRN_ENOENT);
}

/* The plan is pure: compares a string of states, oldest first, with the versions that are
 * retired. */
static void plan(const char *states, uint64_t last, uint64_t every, const char *expected)
{
    struct crn_version_entry v[32] = {0};
    struct crn_catalog c = {.v = v, .n = strlen(states)};
    int64_t spared[32];
    struct crn_retention policy = {.keep_last = last, .keep_every = every, .spared = spared};
    unsigned char retire[32];
    char got[33] = "";
    size_t i;

    for (i = 0; i < c.n; i++) {
        v[i].version = (int64_t)i;
        v[i].is_pinned = states[i] == 'P';
        if (states[i] == 's')
            spared[policy.nspared++] = v[i].version;
        v[i].id.seq = states[i] == 'l' ? 100 : i;
        v[i].committed_ns = states[i] == 'l' ? 1 : 2; /* the clock was set back */
        v[i].state = states[i] == 'd' || states[i] == 'n' ? CRN_VERSION_DAMAGED
                     : states[i] == 'r'                   ? CRN_VERSION_REJECTED
                     : states[i] == 'p'                   ? CRN_VERSION_PARTIAL
                                                          : CRN_VERSION_OK;
        v[i].code = states[i] == 'd' ? CAIRN_EDAMAGED : states[i] == 'n' ? CAIRN_EFORMAT : 0;
    }
    crn_retention_plan(&c, &policy, retire);
    for (i = 0; i < c.n; i++)
        got[i] = retire[i] ? 'x' : '.';
    assert_string_equal(got, expected);
}

static void retention_plans(void **state)
{
    (void)state;
    plan("oooooo", 2, 0, "xxxx..");
    plan("oooooo", 0, 0, "......");
    plan("oooooo", 1, 3, ".xx.x.");
    plan("oPoooo", 1, 0, "x.xxx.");
    plan("osoooo", 2, 0, "x.xx.."); /* another version is being encoded against it */
    plan("oooddd", 2, 0, "x....."); /* damaged ones do not count and are too new to go */
    plan("dooo", 2, 0, "xx..");
    plan("droo", 3, 0, "....");
    plan("npoo", 1, 0, "..x."); /* unknown formats and partial versions are never retired */
    plan("rrr", 1, 0, "...");
    plan("odrd", 1, 0, "....");
    plan("oloo", 1, 0, "x.x."); /* committed last, by a run that went back to lower numbers */
    plan("loodd", 2, 0, ".....");
    plan("", 1, 0, "");
}

static void retention_removes(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    uint32_t removed;
    int64_t v;

    for (v = 0; v < 6; v++)
        take(e, v, (uint64_t)v);
    assert_ok(crn_store_pin(&e->st, "heat", 2, 1, ei));
    assert_ok(
        crn_store_retain(&e->st, "heat", &(struct crn_retention){.keep_last = 2}, &removed, ei));
    assert_int_equal(removed, 3);
    expect(e, "2:ok+pin 4:ok 5:ok");
}

static void only_one_writer(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_sweep_result res;
    int fd, fd2;

    assert_ok(crn_store_lock_name(&e->st, "heat", "run 1 on node7", &fd, ei));
    assert_true(fd >= 0);
    assert_int_equal(crn_store_lock_name(&e->st, "heat", "run 2", &fd2, ei), CAIRN_EBUSY);
    assert_non_null(strstr(ei->msg, "run 1 on node7"));
    put(e, "heat/.writer", "run 1 on node7");
    take(e, 1, 1);
    res = sweep(e, 1, 1, 0);
    assert_true(res.busy);
    crn_err_clear(ei);
    assert_ok(crn_store_sweep(&e->st, "heat", fd, 0, 1, 0, crn_clock_real(), &res, ei));
    assert_false(res.busy);
    assert_int_equal(close(fd), 0);
    assert_ok(crn_store_lock_name(&e->st, "heat", "run 2", &fd, ei));
    assert_int_equal(close(fd), 0);
}

/* A killed run leaves its files, but not its lock. */
static int lock_answer;

static int answer_lock(const struct crn_fs *fs, int fd)
{
    (void)fs;
    (void)fd;
    return lock_answer;
}

static void only_where_there_are_no_locks_it_goes_without(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct crn_fs fs = *crn_fs_posix();
    struct crn_store st;
    int fd = 0;

    fs.lock = answer_lock;
    assert_ok(crn_store_open(&fs, e->dir, 1, &st, ei));
    lock_answer = -ENOTSUP;
    assert_ok(crn_store_lock_name(&st, "heat", "me", &fd, ei));
    assert_int_equal(fd, -1);
    lock_answer = -EIO;
    assert_int_equal(crn_store_lock_name(&st, "heat", "me", &fd, ei), CAIRN_EIO);
    assert_non_null(strstr(ei->msg, "heat/.writer"));
    crn_store_close(&st);
}

static void a_dead_writer_is_no_writer(void **state)
{
    struct store_env *e = *state;
    int pipefd[2];
    int status;
    pid_t pid;
    char c;

    take(e, 1, 1);
    assert_int_equal(pipe(pipefd), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct crn_errinfo info = {0};
        char file[CRN_FILE_NAME];
        int fd;

        if (crn_store_lock_name(&e->st, "heat", "child", &fd, &info) != CAIRN_OK ||
            crn_store_create_data(&e->st, "heat", 2, 0, file, &fd, &info) != CAIRN_OK ||
            write(fd, "unfinished", 10) != 10 || write(pipefd[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(pipefd[0], &c, 1), 1);
    assert_true(sweep(e, 1, 0, 0).busy);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(sweep(e, 1, 0, 0).files, 1);
    expect(e, "1:ok");
    (void)close(pipefd[0]);
    (void)close(pipefd[1]);
}

static void a_sweep_removes_debris_only(void **state)
{
    struct store_env *e = *state;
    struct crn_sweep_result res;
    char path[400];

    take(e, 1, 1);
    put(e, "heat/1/.manifest.0123abcd.tmp", "half");
    put(e, "heat/..generation.0123abcd.tmp", "half");
    put(e, "heat/.generation.0123abcd.tmp", "not ours");
    put(e, "heat/1/.manifest.0123abcx.tmp", "not ours");
    put(e, "heat/1/data-0000.3", "never finished");
    put(e, "heat/1/stats-0000.3", "goes with it");
    put(e, "heat/1/stats-0000", "stays");
    put(e, "heat/1/stats-0005", "its file is not there");
    put(e, "heat/1/data-x", "not ours");
    take(e, 2, 2);
    put(e, "heat/2/manifest", "damaged");
    put(e, "heat/2/data-0000.3", "stays: the manifest cannot be read");
    take(e, 3, 3);
    (void)snprintf(path, sizeof(path), "%s/heat/3/manifest", e->dir);
    assert_int_equal(unlink(path), 0);
    put(e, "heat/3/bad", "a mark of nothing");

    res = sweep(e, 1, 0, 1); /* a dry run only counts */
    assert_int_equal(res.files, 6);
    assert_true(has(e, "heat/1/data-0000.3"));
    res = sweep(e, 1, 0, 0);
    assert_int_equal(res.files, 6);
    assert_int_equal(res.kept, 2); /* version 3 is whole and newer than every committed version */
    assert_false(has(e, "heat/..generation.0123abcd.tmp"));
    assert_true(has(e, "heat/.generation.0123abcd.tmp"));
    assert_false(has(e, "heat/1/.manifest.0123abcd.tmp"));
    assert_true(has(e, "heat/1/.manifest.0123abcx.tmp"));
    assert_false(has(e, "heat/1/data-0000.3"));
    assert_false(has(e, "heat/1/stats-0000.3"));
    assert_false(has(e, "heat/1/stats-0005"));
    assert_true(has(e, "heat/1/stats-0000"));
    assert_true(has(e, "heat/1/data-x"));
    assert_true(has(e, "heat/2/data-0000.3"));
    assert_true(has(e, "heat/3/data-0000"));
    expect(e, "1:ok 2:damaged 3:partial");

    res = sweep(e, 1000 + 3 + 2000000, 0, 0); /* older than min_age_ns, but complete */
    assert_int_equal(res.files, 0);
    assert_int_equal(res.complete, 1);
    (void)snprintf(path, sizeof(path), "%s/heat/3/data-0001", e->dir);
    assert_int_equal(unlink(path), 0);
    res = sweep(e, 1000 + 3 + 2000000, 0, 0);
    assert_int_equal(res.files, 1);
    assert_int_equal(res.dirs, 1);
    assert_int_equal(res.kept, 0);
    assert_false(has(e, "heat/3"));
}

static void a_newer_commit_makes_whole_files_debris(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = heat(4, 4);
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];

    assert_ok(tv_write_file(&e->st, &t, 0, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_int_equal(sweep(e, 1, 0, 0).kept, 1);
    take(e, 3, 3);
    assert_int_equal(sweep(e, 1, 0, 0).kept, 1);
    take(e, 5, 5);
    assert_int_equal(sweep(e, 1, 0, 0).files, 1);
    expect(e, "3:ok 5:ok");
}

/* Statistics are created and removed with their data file. */
static void statistics_go_with_their_file(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = heat(4, 4);
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];
    void *text;
    size_t len;

    take(e, 1, 1);
    assert_int_equal(crn_store_read_stats(&e->st, "heat", 1, "data-0001", &text, &len, ei),
                     CAIRN_ENOENT);
    crn_err_clear(ei);
    assert_ok(crn_store_write_stats(&e->st, "heat", 1, "data-0001", "hello", 5, ei));
    assert_ok(crn_store_read_stats(&e->st, "heat", 1, "data-0001", &text, &len, ei));
    assert_int_equal(len, 5);
    assert_memory_equal(text, "hello", 5);
    free(text);
    take(e, 1, 2); /* taken again: the new files have no statistics */
    assert_false(has(e, "heat/1/stats-0001"));
    assert_ok(crn_store_write_stats(&e->st, "heat", 1, "data-0001.1", "hello", 5, ei));
    assert_true(has(e, "heat/1/stats-0001.1"));
    assert_ok(crn_store_remove(&e->st, "heat", 1, ei));
    assert_false(has(e, "heat/1"));

    assert_ok(tv_write_file(&e->st, &t, 0, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_ok(crn_store_write_stats(&e->st, "heat", 4, file, "hello", 5, ei));
    assert_ok(crn_store_discard_data(&e->st, "heat", 4, file, ei));
    assert_false(has(e, "heat/4"));
}

static void without_a_writer_file_nothing_is_proven(void **state)
{
    struct store_env *e = *state;
    char path[400];

    take(e, 1, 1);
    put(e, "heat/1/data-0000.3", "whose?");
    (void)snprintf(path, sizeof(path), "%s/heat/.writer", e->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sweep(e, 1, 1, 0).files, 0);
    assert_true(has(e, "heat/1/data-0000.3"));
}

static void a_drain_publishes_what_is_complete(void **state)
{
    struct store_env *e = *state;
    struct crn_errinfo *ei = &e->info;
    struct tv t = heat(4, 4);
    struct tv other = heat(4, 3);
    struct tv shared = heat(4, 4);
    struct crn_capture_id id = tv_id(&t);
    struct crn_unpublished u = {"heat", 4, &id, 2, "drain", NULL};
    struct crn_manifest_file mf;
    struct crn_manifest m;
    char file[CRN_FILE_NAME], path[400];
    uint32_t missing;
    FILE *f;

    shared.files = 3; /* the same capture, flushed to another number of files */
    assert_ok(tv_write_file(&e->st, &shared, 0, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_ok(tv_write_file(&e->st, &t, 0, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_ok(tv_write_file(&e->st, &other, 1, file, &mf, ei)); /* of another capture */
    crn_manifest_file_free(&mf);
    assert_ok(crn_store_try_publish(&e->st, &u, &missing, ei));
    assert_int_equal(missing, 1);
    expect(e, "4:partial");
    assert_ok(tv_write_file(&e->st, &t, 1, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_string_equal(file, "data-0001.1");

    /* One data byte is wrong: it must not be published. */
    (void)snprintf(path, sizeof(path), "%s/heat/4/%s", e->dir, file);
    f = fopen(path, "r+e");
    assert_non_null(f);
    assert_int_equal(fputc(0xee, f), 0xee);
    assert_int_equal(fclose(f), 0);
    assert_ok(crn_store_try_publish(&e->st, &u, &missing, ei));
    assert_int_equal(missing, 1);
    expect(e, "4:partial");
    u.own = file; /* the writer of the damaged file gets an error instead of waiting for others */
    assert_int_equal(crn_store_try_publish(&e->st, &u, &missing, ei), CAIRN_EDAMAGED);
    crn_err_clear(ei);
    u.own = "data-0001.9";
    assert_int_equal(crn_store_try_publish(&e->st, &u, &missing, ei), CAIRN_EIO);
    crn_err_clear(ei);
    u.own = NULL;

    assert_ok(tv_write_file(&e->st, &t, 1, file, &mf, ei));
    crn_manifest_file_free(&mf);
    assert_ok(crn_store_try_publish(&e->st, &u, &missing, ei));
    assert_int_equal(missing, 0);
    expect(e, "4:ok");
    assert_ok(crn_store_manifest(&e->st, "heat", 4, &m, ei));
    assert_int_equal(m.data_bytes, 3 * (24 + 25) + 40 + 41 + 42);
    assert_string_equal(m.files[1].name, "data-0001.2");
    crn_manifest_free(&m);
    assert_ok(crn_store_try_publish(&e->st, &u, &missing, ei));
    assert_int_equal(missing, 0);
    /* The unnamed files are older, damaged, or belong to no version: a sweep removes them. */
    assert_int_equal(sweep(e, 1, 1, 0).files, 3);
    expect(e, "4:ok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_version_appears_whole),
        TEST(taking_it_again_replaces_it),
        TEST(a_committed_file_is_not_discarded),
        TEST(damage_is_seen),
        TEST(a_swapped_manifest_is_refused),
        TEST(marks),
        TEST(removal_leaves_nothing_but_foreign_files),
        TEST(retention_plans),
        TEST(retention_removes),
        TEST(only_one_writer),
        TEST(only_where_there_are_no_locks_it_goes_without),
        TEST(a_dead_writer_is_no_writer),
        TEST(a_sweep_removes_debris_only),
        TEST(a_newer_commit_makes_whole_files_debris),
        TEST(statistics_go_with_their_file),
        TEST(without_a_writer_file_nothing_is_proven),
        TEST(a_drain_publishes_what_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
