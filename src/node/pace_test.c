/* SPDX-License-Identifier: BSD-3-Clause */
/* When a flush is throttled, and how much: the core of a node with its items. tests/mpi/phase.c tests waiting ranks on several nodes. */
#include <stdio.h>
#include <string.h>

#include "base/test.h"
#include "node/core.h"

#define SECOND 1000000000LL
#define MIB    ((uint64_t)1 << 20)
#define GIB    ((uint64_t)1 << 30)

static struct crn_config cfg;
static struct crn_node node;
static struct crn_item older, item;
static int is_closing;

/* A node of two ranks, with one checkpoint of 2 GiB, copied at 100 GiB/s after an hour. */
static int begin(void **state)
{
    (void)state;
    memset(&node, 0, sizeof(node));
    memset(&older, 0, sizeof(older));
    memset(&item, 0, sizeof(item));
    crn_config_defaults(&cfg);
    node.set = (struct crn_node_setup){.cfg = &cfg, .nodes = 1, .files = 1, .nlocal = 2};
    is_closing = 0;
    item.seq = 5;
    item.state = CRN_ITEM_CAPTURED;
    node.items = &item;
    node.captured_ns = SECOND;
    node.now_ns = 3601 * SECOND;
    crn_pace_part(&item, GIB, SECOND / 100);
    crn_pace_part(&item, GIB, SECOND / 50);
    crn_pace_captured(&node, &item);
    return 0;
}

static int end(void **state)
{
    (void)state;
    crn_config_fini(&cfg);
    return 0;
}

static uint64_t rate(void)
{
    return crn_node_calm_rate(&node, is_closing);
}

static void a_share_of_the_memory(void **state)
{
    (void)state;
    assert_int_equal(rate(), GIB); /* one hundredth */
    item.state = CRN_ITEM_FLUSHING;
    assert_int_equal(rate(), GIB);
    item.state = CRN_ITEM_FLUSHED; /* nothing left to do */
    assert_int_equal(rate(), 0);
    item.state = CRN_ITEM_ENDED;
    assert_int_equal(rate(), 0);
    item.state = CRN_ITEM_FLUSHING;
    node.copy_rate = (double)(64 * MIB); /* a disturbed capture */
    assert_int_equal(rate(), 256 * MIB);
    node.copy_rate = 0; /* no plain copies: GPU memory, files */
    assert_int_equal(rate(), 0);
    cfg.calm_bandwidth = 7;
    assert_int_equal(rate(), 7);
}

/* The fastest capture measures the memory bandwidth; a slow one changes nothing. */
static void the_fastest_copy_counts(void **state)
{
    struct crn_item next = {.seq = 6, .state = CRN_ITEM_CAPTURED};

    (void)state;
    item.state = CRN_ITEM_ENDED;
    item.next = &next;
    crn_pace_part(&next, GIB, SECOND);
    crn_pace_part(&next, GIB, 0); /* not a plain copy */
    node.now_ns = 7201 * SECOND;
    crn_pace_captured(&node, &next);
    assert_int_equal(next.local_bytes, 2 * GIB);
    assert_int_equal(next.interval_ns, 3600 * SECOND);
    assert_int_equal(rate(), GIB);
}

/* Everything that the node has to write must be done in a tenth of the time between checkpoints, or in
 * half of it if other nodes protect the version. */
static void done_before_the_next(void **state)
{
    (void)state;
    item.interval_ns = 2 * SECOND;
    assert_int_equal(rate(), 10 * GIB);
    item.levels = CAIRN_LEVEL_BIT(CAIRN_PROTECTED);
    assert_int_equal(rate(), 2 * GIB);
    node.set.nodes = 7; /* groups of two and three */
    node.set.files = 3;
    assert_int_equal(rate(), 6 * GIB);
    (void)snprintf(cfg.local, sizeof(cfg.local), "/local");
    assert_int_equal(rate(), 8 * GIB);
    item.interval_ns = 3600 * SECOND;
    assert_int_equal(rate(), GIB);
    item.interval_ns = 0; /* checkpoints back to back */
    assert_int_equal(rate(), 0);
}

static void not_while_somebody_waits(void **state)
{
    (void)state;
    crn_pace_hurry(&node, 4);
    assert_int_equal(rate(), GIB); /* somebody waits for an earlier one */
    crn_pace_hurry(&node, 5);
    crn_pace_hurry(&node, 3);
    assert_int_equal(rate(), 0);
    item.seq = 6;
    assert_int_equal(rate(), GIB);
    node.nleft = 1;
    assert_int_equal(rate(), 0);
    node.nleft = 0;
    is_closing = 1; /* cairnd was asked to end, which it does once it is idle */
    assert_int_equal(rate(), 0);
    is_closing = 0;
    (void)snprintf(cfg.broker, sizeof(cfg.broker), "unix:/b"); /* other jobs wait for the turn */
    assert_int_equal(rate(), 0);
}

static void not_before_a_newer_one(void **state)
{
    (void)state;
    older.seq = 4;
    older.next = &item;
    node.items = &older;
    older.state = CRN_ITEM_FLUSHING;
    assert_int_equal(rate(), 0);
    item.state = CRN_ITEM_CAPTURING; /* its first rank has captured */
    assert_int_equal(rate(), 0);
    older.state = CRN_ITEM_FLUSHED;
    assert_int_equal(rate(), 0);
    item.state = CRN_ITEM_CAPTURED;
    assert_int_equal(rate(), GIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_share_of_the_memory, begin, end),
        cmocka_unit_test_setup_teardown(the_fastest_copy_counts, begin, end),
        cmocka_unit_test_setup_teardown(done_before_the_next, begin, end),
        cmocka_unit_test_setup_teardown(not_while_somebody_waits, begin, end),
        cmocka_unit_test_setup_teardown(not_before_a_newer_one, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
