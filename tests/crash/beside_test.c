/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that read a store while its job continues. Between any two of their file operations a
 * version is removed, replaced, or retired so that its file becomes that of the next one: none of
 * this is damage, and none is reported. Real damage still is. A command that needs the version says
 * what has happened to it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/test.h"
#include "cli/cli.h"
#include "service/scrub.h"
#include "store/test_version.h"

static char dir[256];
static char to[300]; /* of a copy */

/* POSIX, but the job acts before the at-th operation of a reader. */
static struct beside_fs {
    struct crn_fs fs; /* first, so that the table leads to it */
    long at;
    long *calls; /* shared with the parent */
    void (*act)(void);
} beside;

static const struct crn_fs *beside_step(void)
{
    if (++*beside.calls == beside.at)
        beside.act();
    return crn_fs_posix();
}

static int beside_openat(const struct crn_fs *fs, int dfd, const char *path, int flags, mode_t mode)
{
    fs = beside_step();
    return fs->openat(fs, dfd, path, flags, mode);
}

static ssize_t beside_pread(const struct crn_fs *fs, int fd, void *buf, size_t n, off_t off)
{
    fs = beside_step();
    return fs->pread(fs, fd, buf, n, off);
}

static int beside_fstat(const struct crn_fs *fs, int fd, struct stat *st)
{
    fs = beside_step();
    return fs->fstat(fs, fd, st);
}

static int beside_fstatat(const struct crn_fs *fs, int dfd, const char *name, struct stat *st)
{
    fs = beside_step();
    return fs->fstatat(fs, dfd, name, st);
}

static int beside_list(const struct crn_fs *fs, int dfd, crn_fs_entry_fn fn, void *arg)
{
    fs = beside_step();
    return fs->list(fs, dfd, fn, arg);
}

/* What the job does. --------------------------------------------------------------------------- */

static struct crn_store store_on(const struct crn_fs *fs)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st;

    assert_ok(crn_store_open(fs, dir, 1, &st, ei));
    return st;
}

static struct tv heat(int64_t version, uint64_t seq)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)seq,
                       .ranks = 2,
                       .files = 2};
}

static void take(int64_t version, uint64_t seq)
{
    const struct tv t = heat(version, seq);
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st = store_on(crn_fs_posix());

    assert_ok(tv_write(&st, &t, ei));
    crn_store_close(&st);
}

static void remove_one(void)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st = store_on(crn_fs_posix());

    assert_ok(crn_store_remove(&st, "heat", 1, ei));
    crn_store_close(&st);
}

static void replace_one(void)
{
    take(1, 100);
}

/* The files of version 1 are overwritten in place. */
static void retire_one(void)
{
    const struct crn_retention policy = {.keep_last = 1, .reuse = 1};
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st = store_on(crn_fs_posix());
    uint32_t removed;

    assert_ok(crn_store_retain(&st, "heat", &policy, &removed, ei));
    assert_int_equal(removed, 1);
    crn_store_close(&st);
    take(3, 3);
}

/* Versions 1 and 2. */
static void make_store(int is_damaged)
{
    char path[400];
    char byte;
    int fd;

    test_dir_remove(dir);
    test_dir_remove(to);
    assert_int_equal(mkdir(dir, 0700), 0);
    take(1, 1);
    take(2, 2);
    if (!is_damaged)
        return;
    (void)snprintf(path, sizeof(path), "%s/heat/2/data-0001", dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, 3), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 3), 1);
    assert_int_equal(close(fd), 0);
}

/* What reads. ---------------------------------------------------------------------------------- */

/* A command as main() of `cairn` runs it, on the store that changes. */
static int run_command(const struct cli_command *c, int argc, char **argv)
{
    struct cli cli = {.command = c, .ei = &cli.info};
    int status;

    cli.store = store_on(&beside.fs);
    optind = 1;
    status = c->run(&cli, argc, argv);
    crn_store_close(&cli.store);
    return status;
}

static int run_verify(void)
{
    char *argv[] = {"verify", "-j", "1", NULL};

    return run_command(&crn_cmd_verify, 3, argv);
}

static int run_ls(void)
{
    char *argv[] = {"ls", NULL};

    return run_command(&crn_cmd_ls, 1, argv);
}

static int run_cp(void)
{
    char *argv[] = {"cp", "heat@1", to, NULL};

    return run_command(&crn_cmd_cp, 3, argv);
}

static void on_file(void *arg, enum crn_scrub_what what, const char *file, const char *text)
{
    (void)arg;
    (void)printf("%s %s: %s\n", what == CRN_SCRUB_DAMAGED ? "DAMAGED" : "repaired", file, text);
}

static int run_scrub(void)
{
    const struct crn_config cfg = {0};
    struct crn_errinfo info = {0};
    struct crn_store st = store_on(&beside.fs);
    const struct crn_scrub s = {.st = &st, .cfg = &cfg, .fn = on_file};
    int64_t version;
    int status = 0;

    for (version = 1; version <= 2; version++) {
        cairn_err rc = crn_scrub_version(&s, "heat", version, &info);

        if (rc != CAIRN_OK && rc != CAIRN_ENOENT) {
            (void)printf("heat@%lld: %s\n", (long long)version, info.msg);
            status = 1;
        }
    }
    crn_store_close(&st);
    return status;
}

/* The enumeration. ----------------------------------------------------------------------------- */

/* Runs the reader in a process of its own; returns its status and what it printed. */
static int run_beside(int (*reader)(void), void (*act)(void), long at, char *text, size_t size)
{
    char path[300];
    size_t n = 0;
    int status;
    FILE *f;
    pid_t pid;

    (void)snprintf(path, sizeof(path), "%s.text", dir);
    *beside.calls = 0;
    (void)fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        beside.at = at;
        beside.act = act;
        if (freopen(path, "we", stdout) == NULL || dup2(fileno(stdout), 2) < 0)
            _exit(99);
        exit(reader());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    f = fopen(path, "re");
    if (f != NULL) {
        n = fread(text, 1, size - 1, f);
        (void)fclose(f);
        (void)unlink(path);
    }
    text[n] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const struct {
    const char *name;
    int (*run)(void);
    const char *damage; /* what it prints about a damaged version */
} readers[] = {
    {"verify", run_verify, "DAMAGED"}, {"scrub", run_scrub, "DAMAGED"}, {"ls", run_ls, "damaged"}};

static const struct {
    const char *name;
    void (*act)(void);
} acts[] = {{"removed", remove_one}, {"replaced", replace_one}, {"retired", retire_one}};

static void what_a_job_changes_is_not_damaged(void **state)
{
    char text[8192];
    size_t r, a;

    (void)state;
    for (r = 0; r < sizeof(readers) / sizeof(readers[0]); r++)
        for (a = 0; a < sizeof(acts) / sizeof(acts[0]); a++) {
            long at = 0;

            do {
                int status;

                make_store(0);
                status = run_beside(readers[r].run, acts[a].act, ++at, text, sizeof(text));
                if (status != 0 || strstr(text, readers[r].damage) != NULL)
                    fail_msg("%s, version 1 is %s at operation %ld: exit %d: %s", readers[r].name,
                             acts[a].name, at, status, text);
            } while (*beside.calls >= at);
            assert_true(at > 5);
            (void)printf("%s, %s: %ld operations\n", readers[r].name, acts[a].name, at - 1);
        }
}

static void a_copy_fails_with_the_reason(void **state)
{
    char text[8192];
    int copied = 0;
    size_t a;

    (void)state;
    for (a = 0; a < sizeof(acts) / sizeof(acts[0]); a++) {
        long at = 0;

        do {
            int status;

            make_store(0);
            status = run_beside(run_cp, acts[a].act, ++at, text, sizeof(text));
            copied += status == 0;
            if (status != 0 && strstr(text, "was removed or replaced") == NULL &&
                strstr(text, "no version") == NULL && strstr(text, "is not complete") == NULL)
                fail_msg("cp, version 1 is %s at operation %ld: exit %d: %s", acts[a].name, at,
                         status, text);
        } while (*beside.calls >= at);
        assert_true(at > 5);
    }
    assert_true(copied > 0);
}

static void damage_is_still_found(void **state)
{
    char text[8192];
    size_t r;
    long at;

    (void)state;
    for (r = 0; r < 2; r++) { /* ls reads no data */
        at = 0;
        do {
            int status;

            make_store(1);
            status = run_beside(readers[r].run, remove_one, ++at, text, sizeof(text));
            if (status != 1 || strstr(text, readers[r].damage) == NULL)
                fail_msg(
                    "%s, version 2 is damaged, version 1 removed at operation %ld: exit %d: %s",
                    readers[r].name, at, status, text);
        } while (*beside.calls >= at);
    }
}

static int setup(void **state)
{
    (void)state;
    test_dir_in_memory();
    test_dir_make(dir, sizeof(dir));
    (void)snprintf(to, sizeof(to), "%s.to", dir);
    beside.fs = *crn_fs_posix();
    beside.fs.openat = beside_openat;
    beside.fs.pread = beside_pread;
    beside.fs.fstat = beside_fstat;
    beside.fs.fstatat = beside_fstatat;
    beside.fs.list = beside_list;
    beside.calls = mmap(NULL, sizeof(*beside.calls), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return beside.calls == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    (void)munmap(beside.calls, sizeof(*beside.calls));
    test_dir_remove(dir);
    test_dir_remove(to);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_job_changes_is_not_damaged),
        cmocka_unit_test(a_copy_fails_with_the_reason),
        cmocka_unit_test(damage_is_still_found),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
