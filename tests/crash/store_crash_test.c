/* SPDX-License-Identifier: BSD-3-Clause */
/* Every file operation of the scenario fails, falls short, tears or kills in turn. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/fs_faulty.h"
#include "test_scenario.h"

static char dir[256];

static int setup(void **state)
{
    (void)state;
    test_dir_in_memory();
    test_dir_make(dir, sizeof(dir));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_remove(dir);
    return 0;
}

struct fault {
    const char *name;
    enum crn_fault_action action;
    int sys_errno;
    unsigned ops;
    int sticky;
};

/* A failing step reports a code that fits the cause, and a text that names it. */
static void check_report(const struct fault *fault, enum step step, cairn_err rc,
                         const struct crn_errinfo *info, const char *when)
{
    if (info->code != rc || info->msg[0] == '\0')
        fail_msg("%s: %s failed without a word", when, scenario_steps[step]);
    if (info->sys_errno == fault->sys_errno && rc == crn_errno_code(fault->sys_errno) &&
        strstr(info->msg, strerror(fault->sys_errno)) != NULL)
        return;
    /* A step may also fail because an earlier one did. */
    if (rc != CAIRN_ENOENT && rc != CAIRN_EBUSY)
        fail_msg("%s: %s reports %s: %s", when, scenario_steps[step], cairn_error_name(rc),
                 info->msg);
}

/* Runs all steps, also after a failure. Returns the number of calls so far. */
static long run_all(const struct fault *fault, long at, struct progress *p, const char *when)
{
    struct crn_fs fast = scenario_fs();
    struct crn_fs_faulty faulty;
    struct crn_errinfo info = {0};
    struct crn_store st;
    int lock_fd = -1;
    int failed = 0;
    int s;

    crn_fs_faulty_init(&faulty, &fast);
    faulty.action = fault->action;
    faulty.sys_errno = fault->sys_errno;
    faulty.ops = fault->ops;
    faulty.sticky = fault->sticky;
    assert_int_equal(crn_store_open(&faulty.fs, dir, 0, &st, &info), CAIRN_OK);
    atomic_store(&faulty.calls, 0);
    faulty.at = at;
    p->was_failing = fault->action == CRN_FAULT_FAIL;
    for (s = 0; s < STEPS; s++) {
        cairn_err rc;

        p->begun[s] = 1;
        crn_err_clear(&info);
        rc = scenario_run(&st, (enum step)s, &lock_fd, &info);
        p->ok[s] = rc == CAIRN_OK;
        if (rc != CAIRN_OK && fault->action == CRN_FAULT_FAIL)
            check_report(fault, (enum step)s, rc, &info, when);
        failed |= rc != CAIRN_OK;
    }
    if (fault->action != CRN_FAULT_FAIL)
        assert_false(failed);
    if (lock_fd >= 0)
        (void)faulty.fs.close(&faulty.fs, lock_fd);
    crn_store_close(&st);
    return atomic_load(&faulty.calls);
}

/* Once for each k, until k is beyond the last call. */
static void each_call(const struct fault *fault)
{
    char when[128];
    long stride =
        fault->ops == CRN_OP_ALL && fault->sys_errno != EIO ? scenario_every(7) : scenario_every(2);
    long k;

    for (k = 1;; k += stride) {
        struct progress p = {0};
        int fds;
        long calls;

        (void)snprintf(when, sizeof(when), "%s at call %ld", fault->name, k);
        scenario_begin(dir);
        fds = test_open_files();
        calls = run_all(fault, k, &p, when);
        if (test_open_files() != fds)
            fail_msg("%s: descriptors leak", when);
        scenario_check_recovery(dir, &p, when, 1);
        if (calls < k)
            break;
        assert_true(k < 2000);
    }
    (void)printf("%-16s %5ld points\n", fault->name, (k - 1) / stride);
}

static void a_failing_call_is_reported_and_harmless(void **state)
{
    static const struct fault faults[] = {
        {"ENOSPC", CRN_FAULT_FAIL, ENOSPC, CRN_OP_ALL, 0},
        {"EDQUOT", CRN_FAULT_FAIL, EDQUOT, CRN_OP_WRITE | CRN_OP_SYNC | CRN_OP_SIZE, 0},
        {"EIO", CRN_FAULT_FAIL, EIO, CRN_OP_ALL, 0},
        {"EMFILE", CRN_FAULT_FAIL, EMFILE, CRN_OP_OPEN | CRN_OP_STAT | CRN_OP_LOCK, 0},
        {"ENOMEM", CRN_FAULT_FAIL, ENOMEM, CRN_OP_ALL, 0},
        {"EACCES", CRN_FAULT_FAIL, EACCES, CRN_OP_ALL, 0},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        each_call(&faults[i]);
}

static void a_disk_that_stays_full_is_harmless(void **state)
{
    static const struct fault fault = {"full disk", CRN_FAULT_FAIL, ENOSPC,
                                       CRN_OP_WRITE | CRN_OP_MKDIR | CRN_OP_SYNC, 1};

    (void)state;
    each_call(&fault);
}

static void a_dying_disk_is_harmless(void **state)
{
    static const struct fault fault = {"dead disk", CRN_FAULT_FAIL, EIO, CRN_OP_ALL, 1};

    (void)state;
    each_call(&fault);
}

static void short_counts_are_continued(void **state)
{
    static const struct fault fault = {"short", CRN_FAULT_SHORT, 0, CRN_OP_READ | CRN_OP_WRITE, 1};

    (void)state;
    each_call(&fault);
}

/* Runs the steps in a child that dies at its k-th call; 0 if it came to the end. */
static int run_killed(const struct fault *fault, long at, struct progress *shared)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)run_all(fault, at, shared, "child");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return 1;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return 0;
}

static void look(const struct progress *p, const char *when)
{
    struct crn_fs fast = scenario_fs();
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st;

    assert_ok(crn_store_open(&fast, dir, 0, &st, ei));
    scenario_check_promise(&st, p, when);
    crn_store_close(&st);
}

/* The recovery of a killed run is killed too, at every call, each time on the result of the last
 * one. */
static void kill_the_recovery(const struct progress *p, const char *when)
{
    long k;

    for (k = 1;; k++) {
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
            struct crn_fs fast = scenario_fs();
            struct crn_fs_faulty faulty;
            struct crn_errinfo info = {0};
            struct crn_sweep_result res;
            struct crn_store st;

            crn_fs_faulty_init(&faulty, &fast);
            faulty.action = CRN_FAULT_KILL;
            faulty.ops = CRN_OP_UNLINK | CRN_OP_SYNC; /* a sweep changes nothing else */
            faulty.at = k;
            if (crn_store_open(&faulty.fs, dir, 0, &st, &info) != CAIRN_OK ||
                crn_store_sweep(&st, "heat", -1, 0, 1, 0, crn_clock_real(), &res, &info) !=
                    CAIRN_OK)
                _exit(1);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        look(p, when);
    }
}

static void each_kill(const struct fault *fault, int kill_again)
{
    const long stride = fault->ops == CRN_OP_ALL ? scenario_every(2) : 1;
    struct progress *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char when[128];
    long k;

    assert_true(shared != MAP_FAILED);
    for (k = 1;; k += stride) {
        int was_killed;

        (void)snprintf(when, sizeof(when), "%s at call %ld", fault->name, k);
        memset(shared, 0, sizeof(*shared));
        scenario_begin(dir);
        was_killed = run_killed(fault, k, shared);
        if (kill_again)
            kill_the_recovery(shared, when);
        scenario_check_recovery(dir, shared, when, 1);
        if (!was_killed)
            break;
        assert_true(k < 2000);
    }
    (void)printf("%-16s %5ld points\n", fault->name, (k - 1) / stride);
    assert_int_equal(munmap(shared, sizeof(*shared)), 0);
}

static void a_kill_at_any_call_is_harmless(void **state)
{
    static const struct fault fault = {"killed", CRN_FAULT_KILL, 0, CRN_OP_ALL, 0};

    (void)state;
    each_kill(&fault, 0);
}

static void a_torn_write_is_harmless(void **state)
{
    static const struct fault fault = {"torn", CRN_FAULT_TEAR, 0, CRN_OP_WRITE, 0};

    (void)state;
    each_kill(&fault, 0);
}

/* Only calls that change something: the others leave the same state as the one before. */
static void a_kill_of_the_recovery_is_harmless_too(void **state)
{
    static const struct fault fault = {"killed twice", CRN_FAULT_KILL, 0,
                                       CRN_OP_RENAME | CRN_OP_UNLINK | CRN_OP_MKDIR | CRN_OP_SIZE,
                                       0};

    (void)state;
    each_kill(&fault, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_call_is_reported_and_harmless),
        cmocka_unit_test(a_disk_that_stays_full_is_harmless),
        cmocka_unit_test(a_dying_disk_is_harmless),
        cmocka_unit_test(short_counts_are_continued),
        cmocka_unit_test(a_kill_at_any_call_is_harmless),
        cmocka_unit_test(a_torn_write_is_harmless),
        cmocka_unit_test(a_kill_of_the_recovery_is_harmless_too),
    };

#ifdef CRASH_CHAINS
    scenario_has_chains = 1;
#endif
    return cmocka_run_group_tests(tests, setup, teardown);
}
