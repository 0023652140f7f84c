/* SPDX-License-Identifier: BSD-3-Clause */
/* Power fails at every operation of the scenario, and at every operation of the recovery of a
 * run that was killed at every operation. Each state that the model allows is rebuilt and must
 * keep promise 3. */
#include <errno.h>
#include <fcntl.h>

#include "base/fs_faulty.h"
#include "base/fs_journal.h"
#include "base/rng.h"
#include "test_scenario.h"

/* With at most this many unsynced operations every subset is tried. */
#define ALL_SUBSETS (size_t)(scenario_every(3) == 1 ? 6 : 4)
#define SAMPLES     8

static char base_dir[256];  /* where the scenario runs */
static char state_dir[256]; /* where states are rebuilt */
static struct crn_rng rng;
static unsigned long states;

static int setup(void **state)
{
    (void)state;
    test_dir_in_memory();
    test_dir_make(base_dir, sizeof(base_dir));
    test_dir_make(state_dir, sizeof(state_dir));
    crn_rng_seed(&rng, 99);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_dir_remove(base_dir);
    test_dir_remove(state_dir);
    print_message("%lu states checked\n", states);
    return 0;
}

/* A run under the journal: which operations belong to which step. */
struct run {
    struct crn_fs_journal *j;
    struct crn_store st;
    int lock_fd;
    size_t from[STEPS]; /* SIZE_MAX: not begun */
    size_t to[STEPS];   /* SIZE_MAX: did not end well */
    uint64_t *seen;     /* hashes of state and progress */
    size_t nseen;
};

static void start(struct run *r)
{
    struct crn_errinfo info = {0}, *ei = &info;
    int s;

    memset(r, 0, sizeof(*r));
    r->lock_fd = -1;
    for (s = 0; s < STEPS; s++)
        r->from[s] = r->to[s] = SIZE_MAX;
    scenario_begin(base_dir);
    r->j = crn_fs_journal_open(crn_fs_posix(), base_dir);
    assert_non_null(r->j);
    assert_ok(crn_store_open(crn_fs_journal_fs(r->j), base_dir, 0, &r->st, ei));
}

static void finish(struct run *r)
{
    if (r->lock_fd >= 0)
        (void)r->st.fs->close(r->st.fs, r->lock_fd);
    crn_store_close(&r->st);
    crn_fs_journal_close(r->j);
    free(r->seen);
}

static void step(struct run *r, enum step s)
{
    struct crn_errinfo info = {0}, *ei = &info;

    if (r->from[s] == SIZE_MAX)
        r->from[s] = crn_fs_journal_now(r->j);
    assert_ok(scenario_run(&r->st, s, &r->lock_fd, ei));
    if (r->to[s] == SIZE_MAX)
        r->to[s] = crn_fs_journal_now(r->j);
}

/* The steps that had begun and ended when power failed before operation n. */
static struct progress progress_at(const struct run *r, size_t n)
{
    struct progress p = {0};
    int s;

    for (s = 0; s < STEPS; s++) {
        p.begun[s] = n > r->from[s];
        p.ok[s] = n >= r->to[s];
    }
    return p;
}

static int is_seen(struct run *r, uint64_t key)
{
    size_t i;

    for (i = 0; i < r->nseen; i++)
        if (r->seen[i] == key)
            return 1;
    r->seen = realloc(r->seen, (r->nseen + 1) * sizeof(*r->seen));
    assert_non_null(r->seen);
    r->seen[r->nseen++] = key;
    return 0;
}

static void check_state(struct run *r, size_t n, const unsigned char *apply, const char *what)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct progress p = progress_at(r, n);
    char op[400], when[600];
    int dfd;

    if (is_seen(r, crn_fs_journal_hash(r->j, n, apply) ^ crn_hash(&p, sizeof(p))))
        return;
    states++;
    crn_fs_journal_describe(r->j, n - 1, op, sizeof(op));
    (void)snprintf(when, sizeof(when), "%s, power lost after %s", what, op);
    assert_int_equal(crn_fs_journal_build(r->j, n, apply, state_dir), 0);
    scenario_check_recovery(state_dir, &p, when, states % 16 == 0);
    dfd = open(state_dir, O_RDONLY | O_DIRECTORY);
    assert_ok(crn_fs_remove_tree(crn_fs_posix(), dfd, "heat", ei));
    assert_int_equal(close(dfd), 0);
}

/* All subsets of a few unsynced operations; of many, the extremes and some samples. */
static void lose_power_at(struct run *r, size_t n, const char *what)
{
    unsigned char *apply = calloc(n + 1, 1);
    size_t count, bits, i, k;
    size_t *list = crn_fs_journal_unsynced(r->j, n, &count);

    assert_non_null(apply);
    for (bits = 0; count <= ALL_SUBSETS && bits < (size_t)1 << count; bits++) {
        for (i = 0; i < count; i++)
            apply[list[i]] = (bits >> i) & 1;
        check_state(r, n, apply, what);
    }
    for (k = 0; count > ALL_SUBSETS && k <= count; k++) {
        for (i = 0; i < count; i++) /* the first k */
            apply[list[i]] = i < k;
        check_state(r, n, apply, what);
        for (i = 0; i < count; i++) /* all but one */
            apply[list[i]] = i != k;
        check_state(r, n, apply, what);
        for (i = 0; i < count; i++) /* one alone */
            apply[list[i]] = i == k;
        check_state(r, n, apply, what);
    }
    for (k = 0; count > ALL_SUBSETS && k < SAMPLES; k++) {
        for (i = 0; i < count; i++)
            apply[list[i]] = crn_rng_below(&rng, 2) != 0;
        check_state(r, n, apply, what);
    }
    free(list);
    free(apply);
}

static void power_may_go_at_any_operation(void **state)
{
    struct run r;
    size_t n;
    int s;

    (void)state;
    start(&r);
    n = crn_fs_journal_now(r.j);
    for (s = 0; s < STEPS; s++)
        step(&r, (enum step)s);
    for (; n <= crn_fs_journal_now(r.j); n++)
        lose_power_at(&r, n, "one run");
    finish(&r);
}

/* Runs a step that dies at its k-th change: later calls have no effect, and its result is
 * discarded. Returns 0 if the step completed. */
static int die_in_step(struct run *r, enum step s, long k)
{
    struct crn_errinfo info = {0};
    struct crn_fs_faulty faulty;
    struct crn_store st = r->st;
    cairn_err rc;
    int is_dead;

    crn_fs_faulty_init(&faulty, crn_fs_journal_fs(r->j));
    faulty.action = CRN_FAULT_FAIL;
    faulty.sys_errno = EIO;
    faulty.ops = CRN_OP_OPEN | CRN_OP_WRITE | CRN_OP_SYNC | CRN_OP_RENAME | CRN_OP_UNLINK |
                 CRN_OP_MKDIR | CRN_OP_SIZE;
    faulty.sticky = 1;
    faulty.at = k;
    st.fs = &faulty.fs;
    r->from[s] = crn_fs_journal_now(r->j);
    rc = scenario_run(&st, s, &r->lock_fd, &info);
    is_dead = atomic_load(&faulty.calls) >= k;
    if (rc == CAIRN_OK && !is_dead)
        r->to[s] = crn_fs_journal_now(r->j);
    return is_dead;
}

/* For each change of a step: the run dies there, the next one recovers, and power fails. */
static void die_and_recover(enum step s, void (*recover)(struct run *r), const char *name)
{
    char what[128];
    struct run r;
    int is_dead;
    long k = 1;

    do {
        size_t n;
        int before;

        start(&r);
        for (before = LOCK + 1; before < (int)s; before++)
            step(&r, (enum step)before);
        is_dead = die_in_step(&r, s, k);
        n = crn_fs_journal_now(r.j);
        recover(&r);
        (void)snprintf(what, sizeof(what), "killed in '%s' at change %ld, then %s",
                       scenario_steps[s], k, name);
        for (; n <= crn_fs_journal_now(r.j); n++)
            lose_power_at(&r, n, what);
        finish(&r);
        k += scenario_every(3);
    } while (is_dead);
}

static void sweep_and_retain(struct run *r)
{
    step(r, SWEEP);
    step(r, RETAIN);
}

static void a_sweep_after_a_kill_is_safe(void **state)
{
    static const enum step dying[] = {WRITE3, RETAKE3, RETAIN, REMOVE2, WRITE6};
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(dying) / sizeof(dying[0]); i++)
        die_and_recover(dying[i], sweep_and_retain, "a sweep");
}

static void retain_alone(struct run *r)
{
    step(r, RETAIN);
}

/* A state seen after a kill may not be durable: retention must not rely on it. */
static void retention_after_a_kill_is_safe(void **state)
{
    (void)state;
    die_and_recover(WRITE3, retain_alone, "retention");
    die_and_recover(RETAKE3, retain_alone, "retention");
}

static void drain(struct run *r)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct tv t = scenario_version(3, 3);
    struct crn_capture_id id = tv_id(&t);
    struct crn_unpublished u = {"heat", 3, &id, t.files, "drain", NULL};
    uint32_t missing = 1;
    cairn_err rc;

    rc = crn_store_try_publish(&r->st, &u, &missing, ei);
    if (rc != CAIRN_ENOENT) /* killed before the directory was made */
        assert_int_equal(rc, CAIRN_OK);
    if (missing == 0 && r->to[WRITE3] == SIZE_MAX)
        r->to[WRITE3] = crn_fs_journal_now(r->j);
    step(r, RETAIN);
}

static void a_drain_after_a_kill_is_safe(void **state)
{
    (void)state;
    die_and_recover(WRITE3, drain, "a drain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_may_go_at_any_operation),
        cmocka_unit_test(a_sweep_after_a_kill_is_safe),
        cmocka_unit_test(retention_after_a_kill_is_safe),
        cmocka_unit_test(a_drain_after_a_kill_is_safe),
    };

#ifdef CRASH_CHAINS
    scenario_has_chains = 1;
#endif
    return cmocka_run_group_tests(tests, setup, teardown);
}
