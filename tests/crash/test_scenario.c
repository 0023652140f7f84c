/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_scenario.h"

#include <fcntl.h>
#include <unistd.h>

#include "restart/version.h"

int scenario_has_chains;

const char *const scenario_steps[STEPS] = {"lock",   "write 3",  "take 3 again", "mark 1",
                                           "retain", "remove 2", "write 6",      "sweep"};

long scenario_every(long n)
{
    return getenv("CAIRN_TEST_ALL") != NULL ? 1 : n;
}

static int no_fsync(const struct crn_fs *fs, int fd)
{
    (void)fs;
    (void)fd;
    return 0;
}

struct crn_fs scenario_fs(void)
{
    struct crn_fs fs = *crn_fs_posix();

    fs.fsync = no_fsync;
    return fs;
}

struct tv scenario_version(int64_t version, uint64_t seq)
{
    static struct tv older[4];
    struct tv t = {.name = "heat",
                   .version = version,
                   .seq = seq,
                   .seed = (uint32_t)seq,
                   .ranks = 2,
                   .files = 2};

    if (!scenario_has_chains)
        return t;
    t.pipe = "delta,zstd";
    if (seq > 1 && seq < 5) {
        older[seq - 1] = scenario_version(seq < 4 ? (int64_t)seq - 1 : 3, seq - 1);
        t.older = &older[seq - 1];
        t.pipe = "delta:1,zstd";
    }
    return t;
}

static cairn_err retain(const struct crn_store *st, uint64_t keep, struct crn_errinfo *ei)
{
    struct crn_retention policy = {.keep_last = keep, .reuse = 1};
    uint32_t removed;

    return crn_store_retain(st, "heat", &policy, &removed, ei);
}

/* Removed together with all versions that need them. */
static cairn_err let_all_go(const struct crn_store *st, struct crn_errinfo *ei)
{
    struct tv full = scenario_version(5, 5);
    cairn_err rc = tv_write(st, &full, ei);

    return rc == CAIRN_OK ? retain(st, 1, ei) : rc;
}

static cairn_err mark(const struct crn_store *st, struct crn_errinfo *ei)
{
    cairn_err rc = crn_store_pin(st, "heat", 1, 1, ei);

    if (rc == CAIRN_OK)
        rc = crn_store_pin(st, "heat", 1, 0, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_reject(st, "heat", 1, "diverged", ei);
    return rc;
}

cairn_err scenario_run(const struct crn_store *st, enum step step, int *lock_fd,
                       struct crn_errinfo *ei)
{
    struct tv first = scenario_version(3, 3);
    struct tv again = scenario_version(3, 4);
    struct tv last = scenario_version(6, 6);
    struct crn_sweep_result res;

    switch (step) {
    case LOCK:
        return crn_store_lock_name(st, "heat", "the test", lock_fd, ei);
    case WRITE3:
        return tv_write(st, &first, ei);
    case RETAKE3:
        return tv_write(st, &again, ei);
    case MARK1:
        return mark(st, ei);
    case RETAIN:
        return retain(st, 2, ei);
    case REMOVE2:
        return scenario_has_chains ? let_all_go(st, ei) : crn_store_remove(st, "heat", 2, ei);
    case WRITE6:
        return tv_write(st, &last, ei);
    case SWEEP:
        return crn_store_sweep(st, "heat", *lock_fd, 0, 1, 0, crn_clock_real(), &res, ei);
    default:
        return CAIRN_EBUG;
    }
}

void scenario_begin(const char *dir)
{
    struct crn_fs fast = scenario_fs();
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_store st;
    struct tv v1 = scenario_version(1, 1);
    struct tv v2 = scenario_version(2, 2);

    assert_ok(crn_store_open(&fast, dir, 1, &st, ei));
    assert_ok(crn_fs_remove_tree(&fast, st.dfd, "heat", ei));
    assert_ok(tv_write(&st, &v1, ei));
    assert_ok(tv_write(&st, &v2, ei));
    crn_store_close(&st);
}

/* Which capture is committed as a version; compares every byte. 0: none. */
static uint64_t committed(const struct crn_store *st, int64_t version, const char *when)
{
    unsigned char expect[256], got[256];
    struct crn_errinfo info = {0};
    struct crn_version *v;
    uint32_t rank, r;
    uint64_t seq;
    struct tv t;

    if (crn_version_open(st, "heat", version, &v, &info) != CAIRN_OK) {
        if (info.code != CAIRN_ENOENT)
            fail_msg("%s: version %lld: %s", when, (long long)version, info.msg);
        return 0;
    }
    seq = crn_version_manifest(v)->id.seq;
    t = scenario_version(version, seq);
    for (rank = 0; rank < t.ranks; rank++)
        for (r = 0; r < TV_REGIONS; r++) {
            uint64_t n = tv_content(&t, rank, r, expect);

            if (crn_version_read(v, rank, r, 0, n, got, &info) != CAIRN_OK)
                fail_msg("%s: version %lld: %s", when, (long long)version, info.msg);
            assert_memory_equal(got, expect, n);
        }
    crn_version_close(v);
    return seq;
}

static void check_states(const struct crn_store *st, const struct progress *p, const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_catalog c;
    size_t i;

    assert_ok(crn_store_catalog(st, "heat", &c, ei));
    for (i = 0; i < c.n; i++) {
        enum crn_version_state s = c.v[i].state;
        int is_marked = c.v[i].version == 1 && p->begun[MARK1];

        if (s == CRN_VERSION_DAMAGED || (s == CRN_VERSION_REJECTED && !is_marked))
            fail_msg("%s: version %lld is %s: %s", when, (long long)c.v[i].version,
                     crn_version_state_name(s), c.v[i].why);
        if (c.v[i].is_pinned && s != CRN_VERSION_PARTIAL && !is_marked)
            fail_msg("%s: version %lld is pinned", when, (long long)c.v[i].version);
    }
    crn_catalog_free(&c);
}

void scenario_check_promise(const struct crn_store *st, const struct progress *p, const char *when)
{
    uint64_t one = committed(st, 1, when);
    uint64_t two = committed(st, 2, when);
    uint64_t three = committed(st, 3, when);
    uint64_t six = committed(st, 6, when);

    check_states(st, p, when);
    if (one != 1 && !(one == 0 && p->begun[scenario_has_chains ? REMOVE2 : RETAIN]))
        fail_msg("%s: version 1 is capture %llu", when, (unsigned long long)one);
    if (two != 2 && !(two == 0 && p->begun[REMOVE2]))
        fail_msg("%s: version 2 is capture %llu", when, (unsigned long long)two);
    if (three != 0 && three != 3 && three != 4)
        fail_msg("%s: version 3 is capture %llu", when, (unsigned long long)three);
    if ((three >= 3 && !p->begun[WRITE3]) || (three == 4 && !p->begun[RETAKE3]))
        fail_msg("%s: version 3 came from nowhere", when);
    if ((three == 0 && (p->ok[WRITE3] || p->ok[RETAKE3]) &&
         !(scenario_has_chains && p->begun[REMOVE2])) ||
        (three == 3 && p->ok[RETAKE3]))
        fail_msg("%s: version 3 was committed and is lost", when);
    if (one == 0 && three == 0 && !p->begun[REMOVE2])
        fail_msg("%s: version 1 was retired before version 3 was safe", when);
    if (p->ok[REMOVE2] && two != 0 && !(scenario_has_chains && p->was_failing))
        fail_msg("%s: version 2 came back", when);
    if (six != 0 ? six != 6 || !p->begun[WRITE6] : p->ok[WRITE6])
        fail_msg("%s: version 6 is capture %llu", when, (unsigned long long)six);
    if (scenario_has_chains && p->ok[REMOVE2] && committed(st, 5, when) != 5)
        fail_msg("%s: version 5 was committed and is lost", when);
    if (!scenario_has_chains && p->ok[RETAIN] && p->ok[WRITE3] && one != 0 && !p->was_failing)
        fail_msg("%s: version 1 came back", when);
}

static int is_expected(const struct crn_manifest *m, const char *file)
{
    uint32_t i, k;

    if (strcmp(file, "manifest") == 0 || strcmp(file, "pin") == 0 || strcmp(file, "bad") == 0)
        return 1;
    for (i = 0; i < m->nfiles; i++)
        if (strcmp(m->files[i].name, file) == 0)
            return 1;
    for (i = 0; i < m->nfiles; i++)
        for (k = 0; k < m->files[i].nbases; k++)
            if (m->files[i].bases[k].version == m->version &&
                strcmp(m->files[i].bases[k].file, file) == 0)
                return 1;
    return 0;
}

/* After a forced sweep there are whole versions and nothing else. */
static void check_no_debris(const struct crn_store *st, const char *when)
{
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_catalog c;
    size_t i, k;

    assert_ok(crn_store_catalog(st, "heat", &c, ei));
    for (i = 0; i < c.n; i++) {
        struct crn_names names;
        struct crn_manifest m;
        int dfd;

        assert_ok(crn_store_manifest(st, "heat", c.v[i].version, &m, ei));
        assert_ok(crn_store_version_dir(st, "heat", c.v[i].version, &dfd, ei));
        assert_ok(crn_fs_names(st->fs, dfd, "", &names, ei));
        for (k = 0; k < names.n; k++)
            if (!is_expected(&m, names.name[k]))
                fail_msg("%s: '%s' is left in version %lld", when, names.name[k],
                         (long long)c.v[i].version);
        crn_names_free(&names);
        crn_manifest_free(&m);
        assert_int_equal(close(dfd), 0);
    }
    crn_catalog_free(&c);
}

void scenario_check_recovery(const char *dir, const struct progress *p, const char *when, int go_on)
{
    struct crn_fs fast = scenario_fs();
    struct crn_errinfo info = {0}, *ei = &info;
    struct crn_sweep_result res;
    struct crn_store st;
    struct tv next = scenario_version(9, 9);
    int fd;

    assert_ok(crn_store_open(&fast, dir, 0, &st, ei));
    scenario_check_promise(&st, p, when);
    assert_ok(crn_store_lock_name(&st, "heat", "the next run", &fd, ei));
    assert_ok(crn_store_sweep(&st, "heat", fd, 0, 1, 0, crn_clock_real(), &res, ei));
    scenario_check_promise(&st, p, when);
    check_no_debris(&st, when);
    if (go_on) {
        assert_ok(tv_write(&st, &next, ei));
        assert_int_equal(committed(&st, 9, when), 9);
    }
    assert_int_equal(close(fd), 0);
    crn_store_close(&st);
}
