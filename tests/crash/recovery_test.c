/* SPDX-License-Identifier: BSD-3-Clause */
/* Recovery deletes only data that is provably useless. Every file operation of the commands that
 * remove or replace files fails in turn, with each of the usual errors, or is the last one of
 * its process. The commands: `cairn drain` (runs in memory, local files, the store), the drain
 * at the start of an application, sweep, rm, retention, cp, scrub. Afterwards every earlier capture and
 * version is there after a drain without errors, byte for byte; a failed command has given the
 * reason; and nothing else is missing. More tests of retention: store_crash_test.c.
 *
 * usage: recovery_test [all | TEST]    all: every error at every operation; otherwise EIO at
 * every third, others at some */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/fs_faulty.h"
#include "cli/cli.h"
#include "service/drain.h"
#include "service/scrub.h"
#include "test_dead_run.h"

static char dir[256];
static struct crn_config cfg;
static int is_all; /* the whole product */

/* Faults. ---------------------------------------------------------------------------------------- */

struct fault {
    const char *name;
    const char *action;
    int sys_errno;
    const char *ops; /* "": all */
    int stride;      /* unless is_all */
};

static const struct fault faults[] = {
    {"EIO", "fail", EIO, "", 3},
    {"EMFILE", "fail", EMFILE, "", 29},
    {"ENOMEM", "fail", ENOMEM, "", 29},
    {"ENOSPC", "fail", ENOSPC, "", 29},
    {"EACCES", "fail", EACCES, "", 29},
    {"EMFILE, lock and map", "fail", EMFILE, ",ops=lock+map", 1},
    {"ENOMEM, lock and map", "fail", ENOMEM, ",ops=lock+map", 1},
    {"EACCES, lock and map", "fail", EACCES, ",ops=lock+map", 1},
    {"torn write", "tear", 0, ",ops=write", 1},
    {"killed at a change", "kill", 0, ",ops=write+rename+unlink+mkdir+size", 1},
    {"killed", "kill", 0, "", 13},
};
#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* What a run of a command did. */
struct outcome {
    int status; /* exit status; -1: killed */
    long calls;
    char text[8192]; /* what it printed */
};

static void path_of(char *path, size_t size, const char *name)
{
    (void)snprintf(path, size, "%s/%s", dir, name);
}

static void read_text(const char *name, char *text, size_t size)
{
    char path[400];
    FILE *f;
    size_t n = 0;

    path_of(path, sizeof(path), name);
    f = fopen(path, "re");
    if (f != NULL) {
        n = fread(text, 1, size - 1, f);
        (void)fclose(f);
    }
    text[n] = '\0';
}

/* Runs body in a process of its own, with the fault at the k-th call (0: none). A process
 * chooses its table of faults once, so the parent must not ask for it. */
static void run_struck(int (*body)(void), const struct fault *fault, long k, struct outcome *ret)
{
    char spec[128], path[400], count[32];
    int status;
    pid_t pid;

    path_of(path, sizeof(path), "count");
    (void)unlink(path);
    (void)fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)setenv("CAIRN_FAULT_COUNT", path, 1);
        (void)snprintf(spec, sizeof(spec), "at=%ld,action=%s,errno=%d%s", k, fault->action,
                       fault->sys_errno, fault->ops);
        (void)setenv("CAIRN_FAULT_FS", spec, 1);
        path_of(path, sizeof(path), "text");
        if (freopen(path, "we", stdout) == NULL || dup2(fileno(stdout), 2) < 0)
            _exit(99);
        exit(body()); /* writes the count */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        assert_int_equal(WTERMSIG(status), SIGKILL);
    ret->status = WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
    read_text("text", ret->text, sizeof(ret->text));
    read_text("count", count, sizeof(count));
    ret->calls = strtol(count, NULL, 10);
}

/* A command as main() of `cairn` runs it. */
static int command(const struct cli_command *c, int argc, char **argv)
{
    struct cli cli = {.command = c};
    int status;

    cli.ei = &cli.info;
    optind = 1;
    if (crn_config_load(&cli.cfg, NULL, NULL, cli.ei) != CAIRN_OK ||
        (c->needs_store &&
         crn_store_open(crn_fs_default(), cli.cfg.persistent, 0, &cli.store, cli.ei) != CAIRN_OK))
        return crn_cli_fail(&cli);
    status = c->run(&cli, argc, argv);
    if (c->needs_store)
        crn_store_close(&cli.store);
    crn_config_fini(&cli.cfg);
    return status;
}

/* One enumeration: world creates the state, body is struck, check inspects the result. */
struct scene {
    const char *name;
    void (*world)(void);
    int (*body)(void);
    void (*check)(const struct fault *fault, const struct outcome *o, const char *when);
    int is_refused; /* the command fails in any case */
    int thin;       /* so many times fewer points, unless is_all */
    long limit;     /* of calls; 0: all */
};

/* A failed command gives the reason. */
static void check_report(const struct fault *fault, const struct outcome *o, const char *when)
{
    if (o->status > 0 && strcmp(fault->action, "fail") == 0 &&
        strstr(o->text, strerror(fault->sys_errno)) == NULL)
        fail_msg("%s: exit %d without the reason: %s", when, o->status, o->text);
}

static void strike(const struct scene *s, const struct fault *fault)
{
    long stride = is_all ? 1 : (long)fault->stride * s->thin;
    struct outcome o = {0};
    char when[128];
    long points = 0;
    long k = is_all ? 1 : 1 + (long)(fault - faults) % stride;

    for (;; k += stride) {
        int is_over;

        (void)snprintf(when, sizeof(when), "%s, %s at call %ld", s->name, fault->name, k);
        s->world();
        run_struck(s->body, fault, k, &o);
        is_over = o.status >= 0 && o.calls < k;
        if (!is_over && !s->is_refused)
            check_report(fault, &o, when);
        s->check(fault, &o, when);
        if (is_over || (s->limit > 0 && k > s->limit))
            break;
        points++;
        assert_true(k < 20000);
    }
    (void)printf("%-24s %-24s %5ld points\n", s->name, fault->name, points);
}

static void strike_all(const struct scene *s)
{
    size_t i;

    for (i = 0; i < FAULTS; i++)
        strike(s, &faults[i]);
}

#define ALIVE     0xc3
#define ALIVE_HEX "c3c3c3c3"

/* Worlds. ---------------------------------------------------------------------------------------- */

static int unlink_any(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    if (ftw->level == 0 || strstr(path, ALIVE_HEX) != NULL || remove(path) == 0)
        return 0;
    return errno == ENOTEMPTY ? 0 : -1;
}

/* All but the living run. */
static void clear_all(void)
{
    assert_int_equal(nftw(dir, unlink_any, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static struct crn_store store_at(const char *path)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st;

    assert_ok(crn_store_open(crn_fs_posix(), path, 1, &st, ei));
    return st;
}

/* Is the version committed with these contents? 0: it does not exist. */
static int holds(const char *path, const struct tv *t, const char *when)
{
    unsigned char expect[256], got[256];
    struct crn_errinfo info = {0};
    struct crn_store st = store_at(path);
    struct crn_version *v;
    uint32_t rank, r;
    uint64_t n;

    if (crn_version_open(&st, t->name, t->version, &v, &info) != CAIRN_OK) {
        if (info.code != CAIRN_ENOENT)
            fail_msg("%s: %s@%lld: %s", when, t->name, (long long)t->version, info.msg);
        crn_store_close(&st);
        return 0;
    }
    for (rank = 0; rank < t->ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            n = tv_content(t, rank, r, expect);
            if (crn_version_read(v, rank, r, 0, n, got, &info) != CAIRN_OK)
                fail_msg("%s: %s@%lld: %s", when, t->name, (long long)t->version, info.msg);
            if (memcmp(got, expect, n) != 0)
                fail_msg("%s: %s@%lld has other bytes", when, t->name, (long long)t->version);
        }
    crn_version_close(v);
    crn_store_close(&st);
    return 1;
}

static void must_hold(const struct tv *t, const char *when)
{
    if (!holds(cfg.persistent, t, when))
        fail_msg("%s: %s@%lld is lost", when, t->name, (long long)t->version);
}

static void write_version(const char *path, const struct tv *t)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st = store_at(path);

    assert_ok(tv_write(&st, t, ei));
    crn_store_close(&st);
}

/* One data file of a version that has no manifest. */
static void write_file(const char *path, const struct tv *t, uint32_t file_no)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st = store_at(path);
    struct crn_manifest_file mf;
    char file[CRN_FILE_NAME];

    assert_ok(tv_write_file(&st, t, file_no, file, &mf, ei));
    crn_manifest_file_free(&mf);
    crn_store_close(&st);
}

static struct tv heat(int64_t version, uint64_t seq)
{
    return (struct tv){.name = "heat",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)(10 * version + (int64_t)seq),
                       .ranks = 2,
                       .files = 1};
}

static struct tv flow(void)
{
    return (struct tv){.name = "flow", .version = 1, .seq = 1, .seed = 77, .ranks = 2, .files = 2};
}

/* Drains. ---------------------------------------------------------------------------------------- */

#define DEAD                                                                                       \
    0xa1 /* two ranks: heat@2, heat@3 (half of it spilled), heat@4 (of one rank), an old heat@5 */
#define NODES     0xb2 /* of two nodes, both here: flow@1 */
#define STILLBORN 0xd4
#define YOUNG     0xe5
#define GONE      0xf6 /* its removal was cut short */

static struct dead alive;

static void run_path(char *path, size_t size, uint8_t id, const char *rest)
{
    char root[CRN_PATH_MAX], hex[CRN_RUN_HEX];
    uint8_t run[16];
    struct crn_errinfo info = {0}, *ei = &info;

    memset(run, id, sizeof(run));
    crn_run_hex(run, hex);
    assert_ok(crn_rundir_shm_root(crn_fs_posix(), &cfg, root, sizeof(root), ei));
    (void)snprintf(path, size, "%s/%s%s", root, hex, rest);
}

static int is_there(uint8_t id, const char *rest)
{
    char path[CRN_PATH_MAX + 64];

    run_path(path, sizeof(path), id, rest);
    return access(path, F_OK) == 0;
}

static void make_dead_run(void)
{
    const struct crn_run_place place = {.ranks = 2, .nodes = 1, .nlocal = 2};
    const struct tv t[] = {heat(2, 1), heat(3, 2), heat(4, 3), heat(5, 4)};
    struct dead d;
    uint32_t i;

    dead_begin(&d, &cfg, DEAD, place);
    for (i = 0; i < 2; i++) {
        dead_capture(&d, i, &t[0], 0);
        dead_capture(&d, i, &t[1], i == 1);
        if (i == 0)
            dead_capture(&d, i, &t[2], 0);
        dead_capture(&d, i, &t[3], 0);
    }
    dead_end(&d);
}

static void make_nodes(void)
{
    struct crn_run_place place = {.ranks = 2, .nodes = 2, .nlocal = 1};
    const struct tv t = flow();
    struct dead d;

    for (place.node = 0; place.node < 2; place.node++) {
        dead_begin(&d, &cfg, NODES, place);
        dead_capture(&d, 0, &t, 0);
        dead_end(&d);
    }
}

/* Directories that are not dead runs. */
static void make_others(void)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const struct crn_run_place place = {.ranks = 1, .nodes = 1, .nlocal = 1};
    struct tv t = heat(9, 1);
    struct crn_errinfo info = {0}, *ei = &info;
    char path[CRN_PATH_MAX + 64], to[CRN_PATH_MAX + 64];
    struct crn_rundir rd;
    uint8_t gone[16];

    t.ranks = 1;
    if (alive.arena[0] == NULL) {
        dead_begin(&alive, &cfg, ALIVE, place);
        dead_capture(&alive, 0, &t, 0);
    }
    memset(gone, GONE, sizeof(gone));
    assert_ok(crn_rundir_open(crn_fs_posix(), &cfg, gone, 0, 1, &rd, ei));
    assert_ok(crn_runfile_write(rd.dfd, &place, &cfg, ei));
    crn_rundir_close(&rd);
    run_path(path, sizeof(path), GONE, "-n0");
    run_path(to, sizeof(to), GONE, "-n0" CRN_RUNDIR_GONE);
    assert_int_equal(rename(path, to), 0);
    run_path(path, sizeof(path), STILLBORN, "-n0");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    run_path(path, sizeof(path), YOUNG, "-n0");
    assert_int_equal(mkdir(path, 0700), 0);
}

static struct tv retaken(void)
{
    return heat(5, 1000); /* later than the capture in memory */
}

static void make_drain_world(void)
{
    const struct tv one = heat(1, 1), five = retaken(), six = heat(6, 6);
    struct crn_errinfo info = {0}, *ei = &info;
    char local[CRN_PATH_MAX];

    clear_all();
    write_version(cfg.persistent, &one);
    write_version(cfg.persistent, &five);
    make_dead_run();
    make_nodes();
    make_others();
    assert_ok(crn_rundir_local_root(crn_fs_posix(), &cfg, local, sizeof(local), ei));
    write_file(local, &six, 0); /* the node was rebooted: no run, but the local file */
}

/* Files that existed before and that no command may remove. */
static void check_untouched(const char *when)
{
    const struct tv one = heat(1, 1), five = retaken();

    must_hold(&one, when);
    must_hold(&five, when);
    if (!is_there(ALIVE, "-n0/lock") || !is_there(ALIVE, "-n0/run.ini") ||
        !is_there(ALIVE, "-n0/arena-0") ||
        faccessat(alive.dir.spool_dfd, "f-0-1-3", F_OK, 0) != 0 ||
        crn_slot_state(alive.arena[0], 0) != CRN_SLOT_WRITTEN)
        fail_msg("%s: the directory of a living run was touched", when);
    if (!is_there(YOUNG, "-n0"))
        fail_msg("%s: the directory of a run that begins is gone", when);
}

static int has_all_saved(const char *when)
{
    const struct tv t[] = {heat(2, 1), heat(3, 2), flow(), heat(6, 6)};
    size_t i;

    for (i = 0; i < sizeof(t) / sizeof(t[0]); i++)
        if (!holds(cfg.persistent, &t[i], when))
            return 0;
    return 1;
}

static void check_drain(const struct fault *fault, const struct outcome *o, const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct tv four = heat(4, 3);

    (void)fault;
    check_untouched(when);
    if (o->status == 0 && !has_all_saved(when))
        fail_msg("%s: exit 0, and not everything is saved: %s", when, o->text);
    assert_ok(crn_drain_host(crn_fs_posix(), &cfg, 0, NULL, NULL, ei));
    check_untouched(when);
    if (!has_all_saved(when))
        fail_msg("%s: a version is lost; it said: %s", when, o->text);
    if (holds(cfg.persistent, &four, when))
        fail_msg("%s: a version that one rank has captured is committed", when);
    if (is_there(DEAD, "-n0") || is_there(NODES, "-n0") || is_there(NODES, "-n1") ||
        is_there(STILLBORN, "-n0") || is_there(GONE, "-n0" CRN_RUNDIR_GONE) ||
        is_there(DEAD, "-n0" CRN_RUNDIR_GONE))
        fail_msg("%s: a run that is saved stays", when);
}

static int run_drain(void)
{
    char *argv[] = {"drain", NULL};

    return command(&crn_cmd_drain, 1, argv);
}

static void a_drain_deletes_only_what_it_can_prove(void **state)
{
    static const struct scene scene = {"drain", make_drain_world, run_drain, check_drain, 0, 1, 0};

    (void)state;
    strike_all(&scene);
}

/* An application that starts and ends. It continues whatever errors its drain meets, and reports
 * them. */
static int run_start(void)
{
    cairn_session *s;

    if (cairn_open(NULL, &s) != CAIRN_OK) {
        (void)fprintf(stderr, "%s\n", cairn_last_error());
        return 1;
    }
    return cairn_close(s) == CAIRN_OK ? 0 : 1;
}

static void check_start(const struct fault *fault, const struct outcome *o, const char *when)
{
    struct outcome started = *o;

    if (o->status == 0 && !has_all_saved(when)) {
        if (strstr(o->text, "continuing") == NULL ||
            strstr(o->text, strerror(fault->sys_errno)) == NULL)
            fail_msg("%s: an application starts without a word: %s", when, o->text);
        started.status = 1;
    }
    check_drain(fault, &started, when);
}

static void the_drain_of_a_start_deletes_only_what_it_can_prove(void **state)
{
    struct scene scene = {"drain at a start", make_drain_world, run_start, check_start, 0, 5, 0};
    struct outcome o;

    (void)state;
    make_drain_world(); /* what comes after the drain is the application's own */
    run_struck(run_drain, &faults[0], 0, &o);
    scene.limit = o.calls;
    strike_all(&scene);
}

/* The store's commands. -------------------------------------------------------------------------- */

/* heat@3 needs heat@2; heat@5 is of two files and has no manifest; the rest is debris. */
static struct tv two, three, five;

static void make_store_world(void)
{
    const struct tv one = heat(1, 1), four = heat(4, 4);
    char path[400];
    FILE *f;

    clear_all();
    two = heat(2, 2);
    two.pipe = "gzip";
    three = heat(3, 3);
    three.pipe = "xor,gzip";
    three.older = &two;
    five = heat(5, 5);
    five.files = 2;
    write_version(cfg.persistent, &one);
    write_version(cfg.persistent, &two);
    write_version(cfg.persistent, &three);
    write_version(cfg.persistent, &four);
    write_file(cfg.persistent, &five, 0);
    write_file(cfg.persistent, &five, 1);
    path_of(path, sizeof(path), "p/heat/4/data-0000.7");
    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs("half of a file", f) > 0 && fclose(f) == 0);
    path_of(path, sizeof(path), "p/heat/4/.manifest.0123abcd.tmp");
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

static void check_stays(const char *when)
{
    const struct tv four = heat(4, 4);

    must_hold(&two, when);
    must_hold(&three, when);
    must_hold(&four, when);
}

/* The next drain publishes the complete capture. */
static void check_complete(const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;

    assert_ok(crn_drain_host(crn_fs_posix(), &cfg, 0, NULL, NULL, ei));
    must_hold(&five, when);
    check_stays(when);
}

static int run_sweep(void)
{
    char *argv[] = {"sweep", NULL};

    return command(&crn_cmd_sweep, 1, argv);
}

static void check_sweep(const struct fault *fault, const struct outcome *o, const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct tv one = heat(1, 1);
    struct crn_sweep_result res;
    struct crn_store st;
    char path[400];

    (void)fault;
    must_hold(&one, when);
    check_stays(when);
    path_of(path, sizeof(path), "p/heat/4/data-0000.7");
    if (o->status == 0 && access(path, F_OK) == 0)
        fail_msg("%s: exit 0, and debris stays", when);
    st = store_at(cfg.persistent);
    assert_ok(crn_store_sweep(&st, "heat", -1, 0, 0, 0, crn_clock_real(), &res, ei));
    crn_store_close(&st);
    assert_int_not_equal(access(path, F_OK), 0);
    must_hold(&one, when);
    check_complete(when);
}

static void a_sweep_deletes_only_what_it_can_prove(void **state)
{
    static const struct scene scene = {"sweep", make_store_world, run_sweep, check_sweep, 0, 1, 0};

    (void)state;
    strike_all(&scene);
}

/* Another version needs the second one, so its removal is always refused. */
static int run_rm(void)
{
    char *argv[] = {"rm", "heat@1", "heat@2", NULL};

    return command(&crn_cmd_rm, 3, argv);
}

static void check_rm(const struct fault *fault, const struct outcome *o, const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;
    const struct tv one = heat(1, 1);
    struct crn_store st;

    (void)fault;
    check_stays(when);
    if (o->status == 0)
        fail_msg("%s: a version that another needs was removed", when);
    if (strstr(o->text, "removed heat@1") != NULL && holds(cfg.persistent, &one, when))
        fail_msg("%s: a version that is said to be removed is there", when);
    if (holds(cfg.persistent, &one, when)) {
        st = store_at(cfg.persistent);
        assert_ok(crn_store_remove(&st, "heat", 1, ei));
        crn_store_close(&st);
    }
    check_complete(when);
    assert_false(holds(cfg.persistent, &one, when)); /* nor has a drain brought it back */
}

static void a_removal_removes_what_was_named(void **state)
{
    static const struct scene scene = {"rm", make_store_world, run_rm, check_rm, 1, 1, 0};

    (void)state;
    strike_all(&scene);
}

/* The work of a job's keeper after a commit. */
static int run_retention(void)
{
    const struct crn_retention policy = {.keep_last = 1, .reuse = 1};
    struct crn_errinfo info = {0};
    uint32_t removed = 0;
    struct crn_store st;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), cfg.persistent, 0, &st, &info);
    if (rc == CAIRN_OK) {
        rc = crn_store_retain(&st, "heat", &policy, &removed, &info);
        crn_store_close(&st);
    }
    (void)fprintf(stderr, "%s\n", info.msg);
    return rc == CAIRN_OK ? 0 : 1;
}

static void check_retention(const struct fault *fault, const struct outcome *o, const char *when)
{
    const struct tv one = heat(1, 1), four = heat(4, 4);
    struct crn_errinfo info = {0}, *ei = &info;
    int left;

    (void)fault;
    must_hold(&four, when);
    /* Each version is whole or gone, and a needed one outlives those that need it. An unreadable
     * one stays. */
    left = holds(cfg.persistent, &one, when) + holds(cfg.persistent, &three, when);
    left += holds(cfg.persistent, &two, when);
    if (o->status == 0 && left > 2)
        fail_msg("%s: %d versions stay", when, left);
    assert_ok(crn_drain_host(crn_fs_posix(), &cfg, 0, NULL, NULL, ei));
    must_hold(&four, when);
    must_hold(&five, when);
    if (holds(cfg.persistent, &one, when) + holds(cfg.persistent, &two, when) +
            holds(cfg.persistent, &three, when) !=
        left)
        fail_msg("%s: a drain brings back what was removed", when);
}

static void retention_keeps_what_it_shall(void **state)
{
    static const struct scene scene = {
        "retention", make_store_world, run_retention, check_retention, 0, 1, 0};

    (void)state;
    strike_all(&scene);
}

/* Into a directory that has no version, and into one that has another version of this number. */
static int run_cp(void)
{
    char to[400];
    char *argv[] = {"cp", "heat@3", to, NULL};

    path_of(to, sizeof(to), "to");
    return command(&crn_cmd_cp, 3, argv);
}

static void check_cp(const struct fault *fault, const struct outcome *o, const char *when)
{
    struct outcome again;
    char to[400];
    int is_copied;

    (void)fault;
    check_stays(when);
    path_of(to, sizeof(to), "to");
    is_copied = holds(to, &three, when);
    if (o->status == 0 && !is_copied)
        fail_msg("%s: exit 0 without a copy", when);
    if (!is_copied)
        run_struck(run_cp, &faults[0], 0, &again);
    assert_true(holds(to, &three, when));
    check_complete(when);
}

static struct tv other(void)
{
    return heat(3, 1); /* of an earlier capture: a commit would replace it */
}

static void make_copied_world(void)
{
    const struct tv t = other();
    char to[400];

    make_store_world();
    path_of(to, sizeof(to), "to");
    write_version(to, &t);
}

static void check_refused_cp(const struct fault *fault, const struct outcome *o, const char *when)
{
    const struct tv t = other();
    char to[400];

    (void)fault;
    path_of(to, sizeof(to), "to");
    if (o->status == 0 || !holds(to, &t, when))
        fail_msg("%s: another version was replaced: %s", when, o->text);
    check_stays(when);
}

static void a_copy_is_whole_and_replaces_nothing(void **state)
{
    static const struct scene fresh = {"cp", make_store_world, run_cp, check_cp, 0, 1, 0};
    static const struct scene refused = {
        "cp over another", make_copied_world, run_cp, check_refused_cp, 1, 1, 0};

    (void)state;
    strike_all(&fresh);
    strike_all(&refused);
}

/* A repair in place: heat@4 is damaged, and a copy of it is on the node's disk. */

struct scrub_file {
    unsigned char bytes[8192];
    size_t n;
};

static struct scrub_file good, bad, copy;
static char copy_path[CRN_PATH_MAX + 64];

static void read_scrub_file(const char *path, struct scrub_file *ret)
{
    FILE *f = fopen(path, "re");

    assert_non_null(f);
    ret->n = fread(ret->bytes, 1, sizeof(ret->bytes), f);
    (void)fclose(f);
    assert_true(ret->n > 0 && ret->n < sizeof(ret->bytes));
}

static int is_same_file(const char *path, const struct scrub_file *expect)
{
    struct scrub_file f;

    read_scrub_file(path, &f);
    return f.n == expect->n && memcmp(f.bytes, expect->bytes, f.n) == 0;
}

static void make_scrub_world(void)
{
    const struct tv four = heat(4, 4);
    struct crn_errinfo info = {0}, *ei = &info;
    char path[400], local[CRN_PATH_MAX];
    FILE *f;

    make_store_world();
    assert_ok(crn_rundir_local_root(crn_fs_posix(), &cfg, local, sizeof(local), ei));
    write_file(local, &four, 0);
    (void)snprintf(copy_path, sizeof(copy_path), "%s/heat/4/data-0000", local);
    path_of(path, sizeof(path), "p/heat/4/data-0000");
    read_scrub_file(path, &good);
    read_scrub_file(copy_path, &copy);
    bad = good;
    bad.bytes[3] ^= 1;
    f = fopen(path, "r+e");
    assert_non_null(f);
    assert_int_equal(fwrite(bad.bytes, 1, bad.n, f), bad.n);
    assert_int_equal(fclose(f), 0);
}

static void on_scrubbed(void *arg, enum crn_scrub_what what, const char *file, const char *text)
{
    (void)arg;
    (void)what;
    (void)printf("%s: %s\n", file, text);
}

static int run_scrub(void)
{
    struct crn_errinfo info = {0};
    struct crn_store st;
    struct crn_scrub s = {.st = &st, .cfg = &cfg, .fn = on_scrubbed};
    int status = 0;
    int64_t version;

    if (crn_store_open(crn_fs_default(), cfg.persistent, 0, &st, &info) != CAIRN_OK) {
        (void)printf("%s\n", info.msg);
        return 1;
    }
    for (version = 1; version <= 4; version++) {
        crn_err_clear(&info);
        if (crn_scrub_version(&s, "heat", version, &info) != CAIRN_OK) {
            (void)printf("heat@%lld: %s\n", (long long)version, info.msg);
            status = 1;
        }
    }
    crn_store_close(&st);
    return status;
}

static void check_scrub(const struct fault *fault, const struct outcome *o, const char *when)
{
    const struct tv one = heat(1, 1), four = heat(4, 4);
    struct outcome again;
    char path[400];

    (void)fault;
    path_of(path, sizeof(path), "p/heat/4/data-0000");
    if (!is_same_file(path, &good) && (o->status == 0 || !is_same_file(path, &bad)))
        fail_msg("%s: exit %d, the file is neither the old one nor whole: %s", when, o->status,
                 o->text);
    if (!is_same_file(copy_path, &copy))
        fail_msg("%s: the copy on the node's disk has changed", when);
    run_struck(run_scrub, &faults[0], 0, &again);
    if (again.status != 0 || !is_same_file(path, &good))
        fail_msg("%s: a scrub without errors exits with %d: %s", when, again.status, again.text);
    must_hold(&one, when);
    must_hold(&two, when);
    must_hold(&three, when);
    must_hold(&four, when);
    check_complete(when);
}

static void a_repair_leaves_the_old_file_or_a_whole_one(void **state)
{
    static const struct scene scene = {"scrub", make_scrub_world, run_scrub, check_scrub, 0, 3, 0};

    (void)state;
    strike_all(&scene);
}

/* Single proofs. --------------------------------------------------------------------------------- */

/* Changes a byte of a file below the run's directory. */
static void damage(uint8_t id, const char *rest, off_t at)
{
    char path[CRN_PATH_MAX + 64];
    unsigned char byte;
    int fd;

    run_path(path, sizeof(path), id, rest);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static void expect_kept(const char *when)
{
    const struct fault none = {"none", "fail", 0, "", 1};
    struct outcome o;

    run_struck(run_drain, &none, 0, &o);
    if (o.status == 0 || !is_there(DEAD, "-n0/arena-0") || !is_there(DEAD, "-n0/arena-1"))
        fail_msg("%s: exit %d, or the run is gone: %s", when, o.status, o.text);
    if (strstr(o.text, "a1a1a1a1") == NULL)
        fail_msg("%s: the run is not named: %s", when, o.text);
}

static void what_is_damaged_is_kept_and_named(void **state)
{
    char path[CRN_PATH_MAX + 64];

    (void)state;
    make_drain_world();
    damage(DEAD, "-n0/arena-1", 0); /* the magic */
    expect_kept("another magic");
    damage(DEAD, "-n0/arena-1", 0);
    damage(DEAD, "-n0/run.ini", 0);
    expect_kept("a damaged run.ini");
    damage(DEAD, "-n0/run.ini", 0);
    run_path(path, sizeof(path), DEAD, "-n0/lock");
    assert_int_equal(unlink(path), 0);
    run_path(path, sizeof(path), DEAD, "-n0");
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    expect_kept("no lock beside arenas");
}

/* An arena that was never finished, and a missing one: their ranks have captured nothing. */
static void what_was_never_captured_goes(void **state)
{
    const struct tv t[] = {heat(2, 1), heat(3, 2)};
    char path[CRN_PATH_MAX + 64];
    struct outcome o;
    int is_empty;

    (void)state;
    for (is_empty = 0; is_empty < 2; is_empty++) {
        make_drain_world();
        run_path(path, sizeof(path), DEAD, "-n0/arena-1");
        assert_int_equal(is_empty ? truncate(path, 0) : unlink(path), 0);
        run_struck(run_drain, &faults[0], 0, &o);
        assert_int_equal(o.status, 0);
        assert_non_null(strstr(o.text, "incomplete"));
        assert_false(is_there(DEAD, "-n0"));
        assert_false(holds(cfg.persistent, &t[0], "never") ||
                     holds(cfg.persistent, &t[1], "never"));
    }
}

static int setup(void **state)
{
    struct crn_errinfo info = {0}, *ei = &info;
    char path[400];

    (void)state;
    test_dir_in_memory();
    test_dir_make(dir, sizeof(dir));
    path_of(path, sizeof(path), "p");
    (void)setenv("CAIRN_PERSISTENT", path, 1);
    path_of(path, sizeof(path), "shm");
    (void)setenv("CAIRN_SHM_DIR", path, 1);
    path_of(path, sizeof(path), "local");
    (void)setenv("CAIRN_LOCAL", path, 1);
    path_of(path, sizeof(path), "run");
    (void)setenv("CAIRN_RUN_DIR", path, 1);
    (void)setenv("CAIRN_CHUNK_BYTES", "64K", 1);
    (void)setenv("CAIRN_BLOCK_BYTES", "64K", 1);
    (void)setenv("CAIRN_BLOCKS", "2", 1);
    (void)setenv("CAIRN_WRITERS", "1", 1);
    (void)setenv("CAIRN_ARENA_BYTES", "64K", 1);
    assert_ok(crn_config_load(&cfg, NULL, NULL, ei));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (alive.arena[0] != NULL)
        dead_end(&alive);
    crn_config_fini(&cfg);
    test_dir_remove(dir);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_damaged_is_kept_and_named),
        cmocka_unit_test(what_was_never_captured_goes),
        cmocka_unit_test(a_drain_deletes_only_what_it_can_prove),
        cmocka_unit_test(the_drain_of_a_start_deletes_only_what_it_can_prove),
        cmocka_unit_test(a_sweep_deletes_only_what_it_can_prove),
        cmocka_unit_test(a_removal_removes_what_was_named),
        cmocka_unit_test(retention_keeps_what_it_shall),
        cmocka_unit_test(a_copy_is_whole_and_replaces_nothing),
        cmocka_unit_test(a_repair_leaves_the_old_file_or_a_whole_one),
    };

    is_all = argc > 1 && strcmp(argv[1], "all") == 0;
    if (argc > 1 && !is_all)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
