/* SPDX-License-Identifier: BSD-3-Clause */
/* Decisions that the simulation (src/sim/nodes_test.c) has once found wrong, one core at a time. */
#include "node/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/test.h"

#define SECOND 1000000000LL
#define NODES  2

static struct crn_errinfo info, *const ei = &info;
static struct crn_config cfg;
static struct crn_actions out;
static struct crn_node *node;
static int64_t now_ns;

static void new_node(uint32_t number, uint32_t nodes)
{
    struct crn_node_setup setup = {.node = number,
                                   .nodes = nodes,
                                   .nlocal = 1,
                                   .files = nodes,
                                   .cfg = &cfg,
                                   .shell_bytes = 1,
                                   .out = &out};

    assert_ok(crn_node_new(&setup, now_ns, &node, ei));
}

static void open_node(uint32_t number, uint32_t nodes)
{
    new_node(number, nodes);
    crn_node_joined(node, 0, number);
}

static int begin(void **state)
{
    (void)state;
    crn_config_defaults(&cfg);
    now_ns = SECOND;
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

static struct crn_msg message(enum crn_msg_type type, uint32_t from)
{
    struct crn_msg m = {.type = type, .seq = 1, .node = from};

    if (!crn_msg_has_ckpt(type))
        return m;
    (void)snprintf(m.ckpt.name, sizeof(m.ckpt.name), "heat");
    m.ckpt.version = 1;
    return m;
}

static void from_node(struct crn_msg m)
{
    crn_node_from_node(node, now_ns, &m);
}

static void from_rank(struct crn_msg m)
{
    crn_node_from_rank(node, now_ns, 0, 4, &m);
}

/* Drops all actions; how many were of this kind and, if messages, of this type? */
static int done(enum crn_act act, enum crn_msg_type type)
{
    struct crn_action a;
    int n = 0;

    while (crn_actions_next(&out, &a)) {
        if (a.act == CRN_ACT_FREE)
            crn_item_free(a.item);
        n += a.act == act && ((act != CRN_ACT_SEND && act != CRN_ACT_TELL) || a.msg.type == type);
    }
    return n;
}

static void result(enum crn_work_kind kind, cairn_err code)
{
    struct crn_errinfo e = {.code = code};
    struct crn_result r = {
        .kind = kind, .item = crn_node_find(node, 1), .error = &e, .fs_type = crn_fs_type_find(0)};

    crn_node_result(node, now_ns, &r);
}

static void data_of(uint32_t from)
{
    from_node(message(CRN_MSG_NODE_DATA, from));
}

/* The root of two nodes, up to GO. */
static void root_flushes(void)
{
    open_node(CRN_ROOT, NODES);
    from_node(message(CRN_MSG_NODE_CAPTURED, 0));
    from_node(message(CRN_MSG_NODE_CAPTURED, 1));
    result(CRN_WORK_START, CAIRN_OK);
    crn_node_turn(node, now_ns, crn_node_find(node, 1), NULL, 0, -1);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_GO), NODES);
}

/* While the keeper publishes the manifest a reader may see it, so a failure comes too late. */
static void a_failure_during_the_commit(void **state)
{
    struct crn_msg failed = message(CRN_MSG_NODE_FAILED, 1);

    (void)state;
    root_flushes();
    data_of(0);
    data_of(1);
    failed.failed.error.code = CAIRN_EIO;
    from_node(failed);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    result(CRN_WORK_COMMIT, CAIRN_OK);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_COMMITTED);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
}

/* A durable data file is no local copy. */
static void local_on_all_nodes(void **state)
{
    (void)state;
    root_flushes();
    data_of(0);
    from_node(message(CRN_MSG_NODE_LOCAL, 1));
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_LEVEL), 0);
    from_node(message(CRN_MSG_NODE_LOCAL, 0));
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_LEVEL), 1);
}

/* A node ends a checkpoint alone when it cannot hear the root. The root may hear it again: it must
 * not wait for its data. The data may be committed: it stays. */
static void a_node_that_was_cut_off(void **state)
{
    struct crn_action a;
    int files_stay = 0, failed = 0;

    (void)state;
    open_node(1, NODES);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_CAPTURED), 1);
    now_ns += 10 * (int64_t)cfg.commit_timeout_ns;
    crn_node_tick(node, now_ns);
    while (crn_actions_next(&out, &a)) {
        failed += a.act == CRN_ACT_SEND && a.msg.type == CRN_MSG_NODE_FAILED;
        files_stay += a.act == CRN_ACT_WORK && a.work == CRN_WORK_RETIRE && a.number == 1;
    }
    assert_int_equal(failed, 1);
    assert_int_equal(files_stay, 1);
}

/* No rank of the node has captured, and the root is gone: the job must end all the same. */
static void only_failed_captures(void **state)
{
    struct crn_msg failed = message(CRN_MSG_CAPTURE_FAILED, 0);

    (void)state;
    open_node(1, NODES);
    failed.failed.error.code = CAIRN_EIO;
    from_rank(failed);
    now_ns += 10 * (int64_t)cfg.commit_timeout_ns;
    crn_node_tick(node, now_ns);
    now_ns += 10 * (int64_t)cfg.commit_timeout_ns;
    crn_node_tick(node, now_ns);
    assert_int_equal(crn_node_find(node, 1)->state, CRN_ITEM_RETIRING);
    result(CRN_WORK_RETIRE, CAIRN_OK);
    assert_int_equal(done(CRN_ACT_FREE, 0), 1);
    assert_null(crn_node_items(node));
}

/* Without memory for its task the checkpoint fails; it does not wait forever. */
static void a_task_that_cannot_start(void **state)
{
    (void)state;
    open_node(1, NODES);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    {
        unsigned char sizes[8] = {1};
        struct crn_msg go = message(CRN_MSG_GO, CRN_ROOT);

        go.go.leaders = 1;
        go.go.sizes = (struct crn_blob){sizes, sizeof(sizes)};
        from_node(go);
    }
    assert_int_equal(done(CRN_ACT_WORK, 0), 1);
    result(CRN_WORK_FLUSH, CAIRN_ENOMEM);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_FAILED), 1);
}

/* A rank that dies fails the checkpoints that it has not captured. Its node knows which. */
static void a_death_on_a_node(void **state)
{
    struct crn_msg captured = message(CRN_MSG_CAPTURED, 0);
    struct crn_action a;
    int deaths = 0;

    (void)state;
    open_node(1, NODES);
    for (captured.seq = 1; captured.seq <= 2; captured.seq++)
        from_rank(captured);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_CAPTURED), 2);
    crn_node_left(node, now_ns, 0, 1);
    while (crn_actions_next(&out, &a)) {
        assert_false(a.act == CRN_ACT_SEND && a.msg.type == CRN_MSG_NODE_FAILED);
        if (a.act != CRN_ACT_SEND || a.msg.type != CRN_MSG_RANK_DIED)
            continue;
        deaths++;
        assert_int_equal(a.msg.seq, 3);
        assert_int_equal(a.msg.rank_died.error.code, CAIRN_EPEER);
    }
    assert_int_equal(deaths, 1);
}

static void rank_died(uint64_t seq)
{
    struct crn_msg m = message(CRN_MSG_RANK_DIED, 1);

    m.seq = seq;
    m.rank_died.error.code = CAIRN_EPEER;
    from_node(m);
}

/* The other nodes report late what all ranks have captured; or what the dead rank has not. */
static void a_death_on_the_root(void **state)
{
    struct crn_msg captured = message(CRN_MSG_NODE_CAPTURED, 0);

    (void)state;
    open_node(CRN_ROOT, NODES);
    from_node(message(CRN_MSG_NODE_CAPTURED, 1));
    rank_died(2);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    from_node(captured);
    assert_int_equal(done(CRN_ACT_WORK, 0), 1);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_CHECKING);
    captured.seq = 2;
    from_node(captured);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    assert_int_equal(crn_node_find(node, 2)->root->state, CRN_ROOT_FAILED);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_CHECKING);
}

/* Of several dead ranks the one counts that has captured the fewest. */
static void several_deaths(void **state)
{
    struct crn_msg captured = message(CRN_MSG_NODE_CAPTURED, 0);

    (void)state;
    open_node(CRN_ROOT, NODES);
    for (captured.seq = 1; captured.seq <= 3; captured.seq++)
        from_node(captured);
    rank_died(3);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    rank_died(2);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    rank_died(4);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_COLLECTING);
    captured.seq = 4;
    from_node(captured);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
}

/* A rank that missed a message reports its capture again to a restarted service. */
static void a_repeated_report_is_answered(void **state)
{
    struct crn_msg end = message(CRN_MSG_END, CRN_ROOT);

    (void)state;
    open_node(1, NODES);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_CAPTURED), 1);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    assert_int_equal(done(CRN_ACT_TELL, CRN_MSG_STATE), 1);
    end.end.error.code = CAIRN_EIO;
    from_node(end);
    (void)done(CRN_ACT_LOG, 0);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    {
        struct crn_action a;
        int is_told = 0;

        while (crn_actions_next(&out, &a))
            is_told |= a.act == CRN_ACT_TELL && a.msg.type == CRN_MSG_STATE &&
                       a.msg.state.error.code == CAIRN_EIO;
        assert_true(is_told);
    }
}

/* The root tells all nodes and answers each that asks: the second answer may come when the rank has
 * claimed the name again, for its next checkpoint. */
static void a_refusal_that_comes_twice(void **state)
{
    struct crn_msg claim = message(CRN_MSG_CLAIM, 1);
    struct crn_msg refusal = message(CRN_MSG_CLAIM_DECIDED, CRN_ROOT);
    struct crn_msg granted = message(CRN_MSG_CLAIM_DECIDED, CRN_ROOT);

    (void)state;
    open_node(1, NODES);
    refusal.claimed.error.code = CAIRN_ENOMEM;
    from_rank(claim);
    from_node(refusal);
    assert_int_equal(done(CRN_ACT_TELL, CRN_MSG_CLAIMED), 1);
    claim.seq = 2;
    from_rank(claim);
    from_node(refusal);
    assert_int_equal(done(CRN_ACT_TELL, CRN_MSG_CLAIMED), 0);
    granted.seq = 2;
    granted.claimed.generation = 7;
    from_node(granted);
    assert_int_equal(done(CRN_ACT_TELL, CRN_MSG_CLAIMED), 1);
    from_node(refusal);
    claim.seq = 3;
    from_rank(claim); /* the name is granted for the whole run */
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_CLAIM), 0);
}

/* A restarted cairnd may hear a claim before rank 0 has joined again; only its leaving is an end. */
static void a_claim_before_rank_0_is_back(void **state)
{
    struct crn_msg claim = message(CRN_MSG_NODE_CLAIM, 1);

    (void)state;
    new_node(CRN_ROOT, NODES);
    claim.node_claim.rank = 1;
    from_node(claim);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_CLAIM_DECIDED), 0);
    crn_node_joined(node, 0, 0);
    from_node(claim);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_CLAIM_DECIDED), 0);
    crn_node_left(node, now_ns, 0, 1);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_CLAIM_DECIDED), 1);
}

/* A restart of all services. ------------------------------------------------------------------- */

/* The keeper has looked for checkpoint seq. */
static void looked(uint64_t seq, uint64_t committed_ns)
{
    struct crn_errinfo e = {0};
    struct crn_result r = {.kind = CRN_WORK_LOOK,
                           .item = crn_node_find(node, seq),
                           .error = &e,
                           .number = committed_ns};

    crn_node_result(node, now_ns, &r);
}

static void rejoined_root(uint64_t seq)
{
    new_node(CRN_ROOT, NODES);
    crn_node_rejoined(node, 0, 0, seq);
}

/* The dead service may have promised the capture to the ranks: a drain needs it. */
static void adopted_captures_are_kept(void **state)
{
    struct crn_msg end_of_it = message(CRN_MSG_END, CRN_ROOT);
    struct crn_action a;
    int kept = 0;

    (void)state;
    new_node(1, NODES);
    crn_node_rejoined(node, 0, 1, 1);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_NODE_ASKS), 1);
    end_of_it.end.error.code = CAIRN_EPEER;
    from_node(end_of_it);
    while (crn_actions_next(&out, &a))
        kept += a.act == CRN_ACT_SETTLE && a.outcome == CRN_OUT_KEPT;
    assert_int_equal(kept, 1);
}

/* While the keeper looks whether it is committed, no failure ends it. */
static void a_failure_during_the_look(void **state)
{
    struct crn_msg failed = message(CRN_MSG_NODE_FAILED, 1);
    struct crn_msg asks = message(CRN_MSG_NODE_ASKS, 1);

    (void)state;
    rejoined_root(0);
    failed.failed.error.code = CAIRN_EIO;
    from_node(asks);
    from_node(failed);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    looked(1, 1000);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_COMMITTED);
    failed.seq = asks.seq = 2;
    from_node(asks);
    from_node(failed);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    looked(2, 0);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    assert_int_equal(crn_node_find(node, 2)->root->state, CRN_ROOT_FAILED);
}

/* Each node asks at a time of its own, also after the answer to another. Meanwhile it hears that the
 * root is alive. */
static void a_node_that_asks_late(void **state)
{
    (void)state;
    rejoined_root(0);
    from_node(message(CRN_MSG_NODE_ASKS, 1));
    looked(1, 1000);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_END), 1);
    from_node(message(CRN_MSG_NODE_ASKS, 1));
    assert_int_equal(done(CRN_ACT_WORK, 0), 1);
    now_ns += (int64_t)cfg.commit_timeout_ns;
    crn_node_tick(node, now_ns);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_ALIVE), 1);
    looked(1, 1000);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_END), 1);
}

/* What the root has decided and forgotten is not decided again. */
static void a_late_report_of_a_failure(void **state)
{
    struct crn_msg failed = message(CRN_MSG_NODE_FAILED, 1);
    struct crn_msg late = message(CRN_MSG_END, CRN_ROOT);

    (void)state;
    rejoined_root(1);
    failed.failed.error.code = CAIRN_EIO;
    from_node(failed);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    late.end.error.code = CAIRN_EIO;
    from_node(late);
    result(CRN_WORK_RETIRE, CAIRN_OK);
    assert_int_equal(done(CRN_ACT_FREE, 0), 1);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    rank_died(1);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
}

/* A rank whose captures are all saved may leave before the others have reported theirs. */
static void a_rank_that_leaves_after_a_restart(void **state)
{
    struct crn_action a;
    int deaths = 0;

    (void)state;
    rejoined_root(1);
    from_node(message(CRN_MSG_NODE_ASKS, 1));
    crn_node_left(node, now_ns, 0, 1);
    while (crn_actions_next(&out, &a)) {
        assert_false(a.act == CRN_ACT_SEND && a.msg.type == CRN_MSG_NODE_FAILED);
        if (a.act != CRN_ACT_SEND || a.msg.type != CRN_MSG_RANK_DIED)
            continue;
        deaths++;
        assert_int_equal(a.msg.seq, 2);
    }
    assert_int_equal(deaths, 1);
}

/* Rank 0 had heard that the name is granted; a rank of another node claims it once more. */
static void a_claim_after_a_restart(void **state)
{
    struct crn_msg claim = message(CRN_MSG_NODE_CLAIM, 1);

    (void)state;
    rejoined_root(0);
    claim.node_claim.rank = 1;
    from_node(claim);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_CLAIM_DECIDED), 0);
    crn_node_granted(node, "heat", 7);
    assert_int_equal(done(CRN_ACT_SEND, CRN_MSG_CLAIM_DECIDED), 1);
}

/* A version that is not due, and is reported when a newer one has been found committed. */
static void an_older_version_reported_late(void **state)
{
    struct crn_msg asks = message(CRN_MSG_NODE_ASKS, 1);

    (void)state;
    cfg.names.persistent_every.count = 100;
    rejoined_root(0);
    asks.seq = 2;
    asks.ckpt.version = 2;
    from_node(asks);
    looked(2, 1000);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    from_node(message(CRN_MSG_NODE_CAPTURED, 1));
    from_node(message(CRN_MSG_NODE_CAPTURED, 0));
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_FAILED);
}

/* A version that may have been local gives way to a newer one when that is local, too. */
static void an_adopted_version_that_may_be_local(void **state)
{
    struct crn_msg captured = message(CRN_MSG_NODE_CAPTURED, 0);
    struct crn_msg local = message(CRN_MSG_NODE_LOCAL, 0);
    struct crn_msg level = message(CRN_MSG_LEVEL, CRN_ROOT);

    (void)state;
    cfg.names.persistent_every.count = 100;
    cfg.names.keep_protected = 1;
    (void)snprintf(cfg.local, sizeof(cfg.local), "/local");
    rejoined_root(1);
    from_rank(message(CRN_MSG_CAPTURED, 0));
    for (captured.seq = 1; captured.seq <= 2; captured.seq++)
        for (captured.node = 0; captured.node < NODES; captured.node++)
            from_node(captured);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 0);
    local.seq = level.seq = 2;
    for (local.node = 0; local.node < NODES; local.node++)
        from_node(local);
    level.level.level = CAIRN_LOCAL;
    from_node(level);
    assert_int_equal(done(CRN_ACT_DECIDED, 0), 1);
    assert_int_equal(crn_node_find(node, 1)->root->state, CRN_ROOT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_failure_during_the_commit, begin, end),
        cmocka_unit_test_setup_teardown(local_on_all_nodes, begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_was_cut_off, begin, end),
        cmocka_unit_test_setup_teardown(only_failed_captures, begin, end),
        cmocka_unit_test_setup_teardown(a_task_that_cannot_start, begin, end),
        cmocka_unit_test_setup_teardown(a_death_on_a_node, begin, end),
        cmocka_unit_test_setup_teardown(a_death_on_the_root, begin, end),
        cmocka_unit_test_setup_teardown(several_deaths, begin, end),
        cmocka_unit_test_setup_teardown(a_repeated_report_is_answered, begin, end),
        cmocka_unit_test_setup_teardown(a_refusal_that_comes_twice, begin, end),
        cmocka_unit_test_setup_teardown(a_claim_before_rank_0_is_back, begin, end),
        cmocka_unit_test_setup_teardown(adopted_captures_are_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_during_the_look, begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_asks_late, begin, end),
        cmocka_unit_test_setup_teardown(a_late_report_of_a_failure, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_that_leaves_after_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(a_claim_after_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(an_older_version_reported_late, begin, end),
        cmocka_unit_test_setup_teardown(an_adopted_version_that_may_be_local, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
