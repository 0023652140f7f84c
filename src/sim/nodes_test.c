/* SPDX-License-Identifier: BSD-3-Clause */
/* Seeds of the simulation of nodes.h, and proof that its checks find faults. More by hand:
 * cairn sim nodes --faults --nodes 4096 --runs 100. */
#include "sim/nodes.h"

#include "base/test.h"

static struct crn_errinfo info, *const ei = &info;

static void seeds(uint32_t nodes, uint64_t first, uint64_t count)
{
    struct crn_nodes_result r;
    uint64_t committed = 0, failed = 0, protected = 0;
    uint64_t seed;

    for (seed = first; seed < first + count; seed++) {
        struct crn_nodes setup = {.nodes = nodes, .seed = seed, .has_faults = 1};

        assert_ok(crn_nodes_run(&setup, &r, ei));
        if (r.problem[0] != '\0')
            fail_msg("%s; cairn sim nodes --faults --nodes %u --seed %llu --runs 1", r.problem,
                     nodes, (unsigned long long)seed);
        committed += r.committed;
        failed += r.failed;
        protected += r.protected;
    }
    assert_true(committed > 0 && failed > 0 && (protected > 0 || nodes > 64));
}

static void few_nodes(void **state)
{
    (void)state;
    seeds(4, 1, 2000);
    seeds(16, 1, 1500);
}

static void many_nodes(void **state)
{
    (void)state;
    seeds(256, 1, 40);
}

/* At each event of a run: each of the strikes on each node. */
static void each_step(void **state)
{
    struct crn_nodes setup = {.nodes = 3, .files = 2, .versions = 2, .ranks = 2, .seed = 1};
    struct crn_nodes_result r;
    uint64_t committed[CRN_STRIKE_COUNT] = {0};
    uint64_t events;
    int strike;

    (void)state;
    assert_ok(crn_nodes_run(&setup, &r, ei));
    events = r.events;
    for (strike = CRN_STRIKE_RANK; strike < CRN_STRIKE_COUNT; strike++)
        for (setup.strike_node = 0; setup.strike_node < 3; setup.strike_node++)
            for (setup.strike_at = 1; setup.strike_at <= events; setup.strike_at++) {
                setup.strike = (enum crn_nodes_strike)strike;
                assert_ok(crn_nodes_run(&setup, &r, ei));
                if (r.problem[0] != '\0')
                    fail_msg("%s: strike %d on node %u at event %llu", r.problem, strike,
                             setup.strike_node, (unsigned long long)setup.strike_at);
                committed[strike] += r.committed;
            }
    for (strike = CRN_STRIKE_RANK; strike < CRN_STRIKE_COUNT; strike++)
        assert_in_range(committed[strike], 1, 3 * 2 * events);
    assert_true(committed[CRN_STRIKE_WRITE] < 3 * 2 * events);
    assert_int_equal(committed[CRN_STRIKE_RESTART], 3 * 2 * events); /* nothing is lost */
    assert_int_equal(committed[CRN_STRIKE_LATE], 3 * 2 * events);
}

/* Without faults every version is committed, and messages grow linearly: the root sends each node
 * a constant number of them. */
static void messages(void **state)
{
    static const uint32_t sizes[] = {1, 2, 64, 512};
    struct crn_nodes_result r;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct crn_nodes setup = {.nodes = sizes[i], .seed = 1};

        assert_ok(crn_nodes_run(&setup, &r, ei));
        assert_string_equal(r.problem, "");
        assert_int_equal(r.committed, 3);
        assert_int_equal(r.root.nodes + r.leaders.nodes + r.followers.nodes, sizes[i]);
        assert_int_equal(r.root.sent + r.leaders.sent + r.followers.sent,
                         r.root.received + r.leaders.received + r.followers.received);
        assert_true(r.root.sent >= (uint64_t)3 * 3 * (sizes[i] - 1)); /* LEVEL, GO, END */
        assert_true(r.root.sent <= (uint64_t)3 * 20 * (sizes[i] - 1));
    }
}

/* The versions that are due are committed, and the last one, which cairn_close waits for. */
static void due_versions(void **state)
{
    static const struct {
        uint32_t every, versions, committed;
    } rows[] = {{1, 8, 8}, {2, 8, 4}, {3, 7, 3}, {3, 8, 3}, {8, 8, 1}, {100, 8, 1}};
    struct crn_nodes_result r;
    uint64_t seed;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (seed = 1; seed <= 20; seed++) {
            struct crn_nodes setup = {
                .nodes = 5, .seed = seed, .every = rows[i].every, .versions = rows[i].versions};

            assert_ok(crn_nodes_run(&setup, &r, ei));
            assert_string_equal(r.problem, "");
            assert_int_equal(r.committed, rows[i].committed);
        }
}

static void the_same_seed(void **state)
{
    struct crn_nodes setup = {.nodes = 16, .seed = 7, .has_faults = 1};
    struct crn_nodes_result a, b;

    (void)state;
    assert_ok(crn_nodes_run(&setup, &a, ei));
    assert_ok(crn_nodes_run(&setup, &b, ei));
    assert_int_equal(a.events, b.events);
    assert_int_equal(a.root.sent_bytes, b.root.sent_bytes);
    setup.seed = 8;
    assert_ok(crn_nodes_run(&setup, &b, ei));
    assert_int_not_equal(a.events, b.events);
}

/* Each fault of the shell is found by the check for it, with some seed. */
static void faults_are_found(void **state)
{
    static const char *const found[CRN_BUG_COUNT] = {
        [CRN_BUG_EARLY] = "is committed, but file",
        [CRN_BUG_LOST_END] = "failed, which is committed",
        [CRN_BUG_TWICE] = "was told twice",
        [CRN_BUG_DROPPED] = "dropped a capture",
        [CRN_BUG_LOCAL] = "has no copy",
        [CRN_BUG_UNSETTLED] = "never released",
        [CRN_BUG_REMOVED] = "removed its file",
        [CRN_BUG_DEATH] = "all ranks had captured",
        [CRN_BUG_PARITY] = "'protected', but node",
        [CRN_BUG_UNSAFE] = "has dropped its part",
    };
    struct crn_nodes_result r;
    int bug;

    (void)state;
    for (bug = 1; bug < CRN_BUG_COUNT; bug++) {
        struct crn_nodes setup = {.nodes = 8, .has_faults = 1, .bug = (enum crn_nodes_bug)bug};

        do {
            assert_ok(crn_nodes_run(&setup, &r, ei));
        } while (strstr(r.problem, found[bug]) == NULL && ++setup.seed < 50000);
        if (setup.seed == 50000)
            fail_msg("nothing found bug %d", bug);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_nodes),        cmocka_unit_test(many_nodes),
        cmocka_unit_test(each_step),        cmocka_unit_test(messages),
        cmocka_unit_test(due_versions),     cmocka_unit_test(the_same_seed),
        cmocka_unit_test(faults_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
