/* SPDX-License-Identifier: BSD-3-Clause */
/* Which versions are due and which give way: the rules by themselves, and the first node of a job
 * of two nodes. src/sim/nodes_test.c runs them through faults, tests/mpi/due.c in real jobs. */
#include <stdlib.h>
#include <string.h>

#include "base/test.h"
#include "node/core.h"

#define SECOND 1000000000LL
#define NODES  2

static struct crn_errinfo info, *const ei = &info;
static struct crn_config cfg;
static struct crn_actions out;
static struct crn_node *node;
static int64_t now_ns;

/* The rules. ----------------------------------------------------------------------------------- */

static void every_nth(void **state)
{
    struct crn_every every = {.count = 1};
    struct crn_due_seen seen = {0};

    (void)state;
    assert_true(crn_due_is(&every, &seen, 0));
    every.count = 3;
    assert_false(crn_due_is(&every, &seen, 0));
    seen.passed = 1;
    assert_false(crn_due_is(&every, &seen, 0));
    seen.passed = 2;
    assert_true(crn_due_is(&every, &seen, 0));
    seen.passed = 9;
    assert_true(crn_due_is(&every, &seen, 0));
    every.count = 0;
    assert_false(crn_due_is(&every, &seen, INT64_MAX));
}

static void after_a_time(void **state)
{
    struct crn_every every = {.ns = 10};
    struct crn_due_seen seen = {.passed = 100, .since_ns = 50};

    (void)state;
    assert_false(crn_due_is(&every, &seen, 50));
    assert_false(crn_due_is(&every, &seen, 59));
    assert_true(crn_due_is(&every, &seen, 60));
    assert_false(crn_due_is(&every, &seen, 40)); /* a clock of before: never early */
    every.ns = UINT64_MAX;
    assert_false(crn_due_is(&every, &seen, INT64_MAX));
}

static void giving_way(void **state)
{
    (void)state;
    assert_false(crn_due_gives_way(1, 0, 0));
    assert_true(crn_due_gives_way(1, 1, 0));
    assert_false(crn_due_gives_way(3, 2, 0));
    assert_true(crn_due_gives_way(3, 3, 0));
    assert_true(crn_due_gives_way(3, 0, 1));
}

/* The first node. ------------------------------------------------------------------------------ */

static int begin(void **state)
{
    struct crn_node_setup setup = {.node = CRN_ROOT,
                                   .nodes = NODES,
                                   .nlocal = 1,
                                   .files = NODES,
                                   .cfg = &cfg,
                                   .shell_bytes = 1,
                                   .out = &out};

    (void)state;
    crn_config_defaults(&cfg);
    cfg.names.persistent_every.count = 3;
    now_ns = SECOND;
    assert_ok(crn_node_new(&setup, now_ns, &node, ei));
    crn_node_joined(node, 0, 0);
    return 0;
}

static int end(void **state)
{
    struct crn_item *item;

    (void)state;
    while ((item = crn_node_take(node)) != NULL)
        crn_item_free(item);
    crn_node_free(node);
    crn_actions_free(&out);
    crn_config_fini(&cfg);
    return 0;
}

static struct crn_msg about(enum crn_msg_type type, uint64_t seq, uint32_t from, const char *name)
{
    struct crn_msg m = {.type = type, .seq = seq, .node = from};

    if (!crn_msg_has_ckpt(type))
        return m;
    (void)snprintf(m.ckpt.name, sizeof(m.ckpt.name), "%s", name);
    m.ckpt.version = (int64_t)(100 * seq);
    return m;
}

/* Delivers what the root sends to itself; ends that it decides are kept in `ended`. */
static struct crn_errinfo ended[16];
static int is_ended[16];

static void deliver(void)
{
    struct crn_action a;

    while (crn_actions_next(&out, &a)) {
        struct crn_msg m = a.msg;

        if (a.act == CRN_ACT_DECIDED) {
            ended[a.item->seq] = m.end.error;
            is_ended[a.item->seq] = 1;
        }
        if (a.act == CRN_ACT_FREE)
            crn_item_free(a.item);
        else if (a.act == CRN_ACT_SEND && a.first == CRN_ROOT &&
                 (m.type == CRN_MSG_NODE_WAITED || m.type == CRN_MSG_NODE_CRAMPED ||
                  m.type == CRN_MSG_NODE_WANTED || m.type == CRN_MSG_LEVEL))
            crn_node_from_node(node, now_ns, &m);
    }
}

static void from_node(struct crn_msg m)
{
    crn_node_from_node(node, now_ns, &m);
    deliver();
}

static void from_rank(enum crn_msg_type type, uint64_t seq)
{
    struct crn_msg m = about(type, seq, 0, "heat");

    crn_node_from_rank(node, now_ns, 0, 8, &m);
    deliver();
}

static void captured_as(uint64_t seq, const char *name, cairn_level target)
{
    struct crn_msg m = about(CRN_MSG_NODE_CAPTURED, seq, 0, name);

    is_ended[seq] = 0;
    now_ns += SECOND;
    from_node(m);
    m.node = 1;
    m.node_captured.target = (uint32_t)target;
    from_node(m);
}

static void captured(uint64_t seq)
{
    captured_as(seq, "heat", CAIRN_LEVEL_NONE);
}

static enum crn_root_state state_of(uint64_t seq)
{
    return crn_node_find(node, seq)->root->state;
}

static void assert_superseded(uint64_t seq, const char *by)
{
    assert_true(is_ended[seq]);
    assert_int_equal(ended[seq].code, CAIRN_ECANCELED);
    assert_string_equal(ended[seq].msg, by);
}

static void result(enum crn_work_kind kind, uint64_t seq, cairn_err code)
{
    struct crn_errinfo e = {.code = code};
    struct crn_result r = {.kind = kind,
                           .item = crn_node_find(node, seq),
                           .error = &e,
                           .fs_type = crn_fs_type_find(0)};

    crn_node_result(node, now_ns, &r);
    deliver();
}

static void flush(uint64_t seq, cairn_err code)
{
    result(CRN_WORK_START, seq, CAIRN_OK);
    crn_node_turn(node, now_ns, crn_node_find(node, seq), NULL, 0, -1);
    deliver();
    from_node(about(CRN_MSG_NODE_DATA, seq, 0, "heat"));
    from_node(about(CRN_MSG_NODE_DATA, seq, 1, "heat"));
    result(CRN_WORK_COMMIT, seq, code);
}

/* One in three is flushed. Each of the others stays until the next one is there. */
static void one_in_three(void **state)
{
    (void)state;
    captured(1);
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    captured(2);
    assert_superseded(1, "superseded by heat@200");
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
    captured(3);
    assert_int_equal(state_of(3), CRN_ROOT_CHECKING);
    assert_superseded(2, "superseded by heat@300");
    captured(4);
    captured(5);
    assert_superseded(4, "superseded by heat@500");
    captured(6);
    assert_int_equal(state_of(6), CRN_ROOT_CHECKING);
    assert_false(is_ended[3]); /* it was due: it is flushed, however slowly */
}

static void names_count_for_themselves(void **state)
{
    (void)state;
    captured(1);
    captured_as(2, "wind", CAIRN_LEVEL_NONE);
    captured(3);
    captured_as(4, "wind", CAIRN_LEVEL_NONE);
    assert_int_equal(state_of(3), CRN_ROOT_HELD);
    assert_int_equal(state_of(4), CRN_ROOT_HELD);
    captured(5);
    assert_int_equal(state_of(5), CRN_ROOT_CHECKING);
    assert_int_equal(state_of(4), CRN_ROOT_HELD);
}

static void keeping_two(void **state)
{
    (void)state;
    cfg.names.keep_protected = 2;
    captured(1);
    captured(2);
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    captured(3);
    assert_superseded(1, "superseded by heat@300");
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
    flush(3, CAIRN_OK);
    assert_superseded(2, "superseded by heat@300");
    assert_int_equal(ended[3].code, CAIRN_OK);
}

/* A version that only some nodes have captured replaces nothing. */
static void half_captured(void **state)
{
    (void)state;
    captured(1);
    is_ended[1] = 0;
    from_node(about(CRN_MSG_NODE_CAPTURED, 2, 0, "heat"));
    assert_false(is_ended[1]);
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
}

static void somebody_waits(void **state)
{
    (void)state;
    captured(1);
    from_rank(CRN_MSG_WAITED, 1);
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
    captured(2);
    captured(3); /* the second since the last flush */
    assert_int_equal(state_of(3), CRN_ROOT_HELD);
    from_node(about(CRN_MSG_NODE_WAITED, 4, 1, "heat")); /* before this node has captured it */
    captured(4);
    assert_int_equal(state_of(4), CRN_ROOT_CHECKING);
    from_node(about(CRN_MSG_NODE_WAITED, 2, 1, "heat")); /* it has ended */
    assert_int_equal(ended[2].code, CAIRN_ECANCELED);
}

/* The level that a rank asks for decides, and the highest of all ranks. */
static void targets(void **state)
{
    (void)state;
    captured_as(1, "heat", CAIRN_PERSISTENT);
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
    cfg.names.persistent_every.count = 1;
    captured_as(2, "heat", CAIRN_CAPTURED);
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
    captured_as(3, "heat", CAIRN_LOCAL); /* there is no local directory: it is flushed to the PFS */
    assert_int_equal(state_of(3), CRN_ROOT_CHECKING);
    (void)snprintf(cfg.local, sizeof(cfg.local), "/local");
    captured_as(4, "heat", CAIRN_LOCAL);
    assert_int_equal(state_of(4), CRN_ROOT_HELD);
    captured(5);
    assert_int_equal(state_of(5), CRN_ROOT_CHECKING);
}

static void by_time(void **state)
{
    (void)state;
    cfg.names.persistent_every = (struct crn_every){.ns = 3 * SECOND};
    captured(1); /* each comes a second after the one before */
    captured(2);
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
    captured(3);
    assert_int_equal(state_of(3), CRN_ROOT_CHECKING);
    captured(4);
    captured(5);
    assert_int_equal(state_of(5), CRN_ROOT_HELD);
    captured(6);
    assert_int_equal(state_of(6), CRN_ROOT_CHECKING);
}

/* Protection. ---------------------------------------------------------------------------------- */

static void reached(uint64_t seq, cairn_level level)
{
    struct crn_msg m = about(CRN_MSG_LEVEL, seq, 0, "heat");

    m.level.level = (uint32_t)level;
    from_node(m);
}

/* What survives the loss of a node gives way only to a newer version that does, too. */
static void safer_ones_stay(void **state)
{
    (void)state;
    cfg.names.persistent_every.count = 0;
    captured(1);
    reached(1, CAIRN_PROTECTED);
    captured(2);
    captured(3);
    assert_superseded(2, "superseded by heat@300");
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    reached(3, CAIRN_LOCAL); /* another level than that of 1 */
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    is_ended[1] = 0;
    reached(3, CAIRN_PROTECTED);
    assert_superseded(1, "superseded by heat@300");
    assert_int_equal(state_of(3), CRN_ROOT_HELD);
    captured_as(4, "heat", CAIRN_PERSISTENT);
    assert_int_equal(state_of(3), CRN_ROOT_HELD); /* until the flush is over */
    flush(4, CAIRN_OK);
    assert_superseded(3, "superseded by heat@400");
}

static enum crn_scheme_kind scheme_of(uint64_t seq)
{
    return (enum crn_scheme_kind)crn_node_find(node, seq)->scheme.kind;
}

/* Each node of the job is a member of the one set. */
static void in_a_set(void)
{
    static const uint32_t members[] = {0, 1};

    node->set.nmembers = NODES;
    node->set.members = members;
    (void)snprintf(cfg.names.protect, sizeof(cfg.names.protect), "xor");
}

static void one_in_two_is_protected(void **state)
{
    (void)state;
    in_a_set();
    cfg.names.protect_every.count = 2;
    cfg.names.persistent_every.count = 0;
    captured(1);
    assert_int_equal(scheme_of(1), CRN_SCHEME_NONE);
    captured(2);
    assert_int_equal(scheme_of(2), CRN_SCHEME_XOR);
    captured(3);
    assert_int_equal(scheme_of(3), CRN_SCHEME_NONE);
    captured_as(4, "heat", CAIRN_PROTECTED); /* due, and held: there is a scheme */
    assert_int_equal(scheme_of(4), CRN_SCHEME_XOR);
    assert_int_equal(state_of(4), CRN_ROOT_HELD);
    captured_as(5, "heat", CAIRN_PROTECTED); /* not due, but asked for */
    assert_int_equal(scheme_of(5), CRN_SCHEME_XOR);
    cfg.names.protect_every = (struct crn_every){.ns = 3 * SECOND};
    captured(6);
    captured(7);
    assert_int_equal(scheme_of(7), CRN_SCHEME_NONE);
    captured(8);
    assert_int_equal(scheme_of(8), CRN_SCHEME_XOR);
}

/* A scheme of its own; the sets of this job cannot lose two nodes. */
static void a_scheme_of_its_own(void **state)
{
    static const struct crn_protection none = {CRN_SCHEME_NONE, 0};
    static const struct crn_protection partner = {CRN_SCHEME_PARTNER, 1};
    struct crn_msg m = about(CRN_MSG_NODE_CAPTURED, 1, 0, "heat");

    (void)state;
    in_a_set();
    m.node_captured.protect = crn_scheme_code(none);
    from_node(m);
    m.node = 1;
    from_node(m);
    assert_int_equal(scheme_of(1), CRN_SCHEME_NONE);
    m = about(CRN_MSG_NODE_CAPTURED, 2, 0, "heat");
    from_node(m);
    m.node = 1;
    m.node_captured.protect = crn_scheme_code(partner);
    from_node(m);
    assert_int_equal(scheme_of(2), CRN_SCHEME_PARTNER);
    assert_int_equal(crn_scheme_of_code(crn_scheme_code(partner)).parity, 1);
    assert_int_equal(crn_scheme_of_code(0x20000).kind, CRN_SCHEME_NONE);
}

static void waited_for_parity(uint64_t seq)
{
    struct crn_msg m = about(CRN_MSG_NODE_WAITED, seq, 1, "heat");

    m.waited.level = CAIRN_PROTECTED;
    from_node(m);
}

/* A rank that waits for parity gets it, without a flush unless there will be none. */
static void somebody_waits_for_parity(void **state)
{
    struct crn_msg failed = about(CRN_MSG_NODE_PROTECTED, 3, 1, "heat");

    (void)state;
    in_a_set();
    cfg.names.protect_every.count = cfg.names.persistent_every.count = 0;
    captured(1);
    waited_for_parity(1); /* too late for parity */
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
    waited_for_parity(2);
    captured(2);
    assert_int_equal(scheme_of(2), CRN_SCHEME_XOR);
    waited_for_parity(2);
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
    cfg.names.protect_every.count = 1;
    captured(3);
    assert_int_equal(state_of(3), CRN_ROOT_HELD);
    (void)!crn_fail(&failed.failed.error, CAIRN_EIO, 0, "a full disk");
    from_node(failed);
    assert_int_equal(state_of(3), CRN_ROOT_CHECKING);
}

/* The job ends: the newest of each name is flushed and, if that fails, the one before. */
static void the_end(void **state)
{
    (void)state;
    cfg.names.keep_protected = 2;
    captured(1);
    captured_as(2, "wind", CAIRN_LEVEL_NONE);
    captured(3);
    from_node(about(CRN_MSG_NODE_WANTED, UINT64_MAX, 1, "heat"));
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    assert_int_equal(state_of(2), CRN_ROOT_CHECKING);
    assert_int_equal(state_of(3), CRN_ROOT_CHECKING);
    flush(3, CAIRN_EIO);
    assert_int_equal(ended[3].code, CAIRN_EIO);
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
}

/* A version that somebody merely hurries is not flushed for that. */
static void hurry(void **state)
{
    (void)state;
    captured(1);
    from_node(about(CRN_MSG_NODE_WANTED, 1, 1, "heat"));
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
}

static void the_allocation_ends(void **state)
{
    (void)state;
    cfg.wall_limit_ns = 100 * (uint64_t)SECOND;
    cfg.wall_margin_ns = 10 * (uint64_t)SECOND;
    captured(1);
    crn_node_tick(node, now_ns = 90 * SECOND);
    deliver();
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    crn_node_tick(node, now_ns = 91 * SECOND);
    deliver();
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
    captured(2);
    assert_int_equal(state_of(2), CRN_ROOT_CHECKING);
}

/* Room. A held version is flushed only if nothing else will make room. */
static void cramped(void **state)
{
    (void)state;
    from_rank(CRN_MSG_CAPTURED, 1);
    captured(1);
    from_rank(CRN_MSG_CAPTURED, 2);
    from_rank(CRN_MSG_CRAMPED, 3); /* node 1 has not captured 2, which will replace 1 */
    assert_int_equal(state_of(1), CRN_ROOT_HELD);
    cfg.names.keep_protected = 2;
    captured(2);
    from_rank(CRN_MSG_CRAMPED, 3);
    assert_int_equal(state_of(1), CRN_ROOT_CHECKING);
    assert_int_equal(state_of(2), CRN_ROOT_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_nth),
        cmocka_unit_test(after_a_time),
        cmocka_unit_test(giving_way),
        cmocka_unit_test_setup_teardown(one_in_three, begin, end),
        cmocka_unit_test_setup_teardown(names_count_for_themselves, begin, end),
        cmocka_unit_test_setup_teardown(keeping_two, begin, end),
        cmocka_unit_test_setup_teardown(half_captured, begin, end),
        cmocka_unit_test_setup_teardown(somebody_waits, begin, end),
        cmocka_unit_test_setup_teardown(targets, begin, end),
        cmocka_unit_test_setup_teardown(by_time, begin, end),
        cmocka_unit_test_setup_teardown(safer_ones_stay, begin, end),
        cmocka_unit_test_setup_teardown(one_in_two_is_protected, begin, end),
        cmocka_unit_test_setup_teardown(a_scheme_of_its_own, begin, end),
        cmocka_unit_test_setup_teardown(somebody_waits_for_parity, begin, end),
        cmocka_unit_test_setup_teardown(the_end, begin, end),
        cmocka_unit_test_setup_teardown(hurry, begin, end),
        cmocka_unit_test_setup_teardown(the_allocation_ends, begin, end),
        cmocka_unit_test_setup_teardown(cramped, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
