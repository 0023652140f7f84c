/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain, scene by scene: the paper's conditions, the order of prefetches, priorities of
 * waiters, edge cases. Random lives are in chain_lives_test.c. */
#include "tier/test_world.h"

/* The conditions of section 2 of the paper. ---------------------------------------------------- */

static void test_conditions(void **state)
{
    struct world_world w;
    struct crn_tier_transfer flush;
    int tier;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 1);
    /* (1) a capture needs only the fastest tier; (2) it can be read while its flush is pending */
    write_now(&w, 1, 10 * PAGE);
    assert_int_equal(crn_chain_state(w.c, 1, 0), CRN_LIFE_WRITE_COMPLETE);
    assert_true(crn_chain_down(w.c, 0, w.now, &flush));
    begin(&w, &flush);
    assert_int_equal(crn_chain_state(w.c, 1, 1), CRN_LIFE_WRITE_IN_PROGRESS);
    /* (5) read and discarded: the flush in flight ends, the next one never begins */
    assert_int_equal(read_now(&w, 1, &tier), CAIRN_OK);
    assert_int_equal(tier, 0);
    assert_int_equal(crn_chain_state(w.c, 1, 0), CRN_LIFE_CONSUMED); /* the copy still reads it */
    while (w.nmoves > 0)
        finish_random(&w);
    assert_int_equal(crn_chain_state(w.c, 1, 0), CRN_LIFE_INIT);
    assert_int_equal(crn_chain_state(w.c, 1, 1), CRN_LIFE_INIT);
    assert_true(crn_chain_is_idle(w.c));
    assert_false(crn_chain_down(w.c, 1, w.now, &flush));
    assert_int_equal(read_now(&w, 1, NULL), CAIRN_ENOENT);
    close_world(&w);
}

/* Fills tiers with flushed checkpoints 0 .. n-1, 10 pages each: two fit the first tier, six the
 * second. */
static void fill(struct world_world *w, uint64_t n)
{
    uint64_t k;

    for (k = 0; k < n; k++)
        write_now(w, k, 10 * PAGE);
    run_dry(w);
}

static void test_prefetch_in_order(void **state)
{
    struct world_world w;
    uint64_t k;
    int tier;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    fill(&w, 12);
    for (k = 0; k < 12; k++)
        assert_ok(crn_chain_hint(w.c, k, ei));
    run_dry(&w);
    assert_int_equal(crn_chain_state(w.c, 0, 0), CRN_LIFE_INIT); /* not before the start */
    crn_chain_start(w.c);
    run_dry(&w);
    /* (3), (4): the next two on the first tier, the six after them on the second, all held. */
    for (k = 0; k < 12; k++) {
        assert_int_equal(crn_chain_state(w.c, k, 0) == CRN_LIFE_READ_COMPLETE, k < 2);
        assert_int_equal(crn_chain_state(w.c, k, 1) == CRN_LIFE_READ_COMPLETE, k >= 2 && k < 8);
    }
    for (k = 0; k < 12; k++) {
        assert_int_equal(read_now(&w, k, &tier), CAIRN_OK);
        assert_int_equal(tier, 0);
        run_dry(&w);
    }
    close_world(&w);
}

static void test_reads_may_deviate(void **state)
{
    struct world_world w;
    uint64_t k;
    int tier;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    fill(&w, 12);
    for (k = 0; k < 12; k++)
        assert_ok(crn_chain_hint(w.c, k, ei));
    crn_chain_start(w.c);
    run_dry(&w);
    /* In reverse order: nothing that was prefetched is wanted, and yet every read succeeds. */
    for (k = 12; k-- > 0;) {
        assert_int_equal(read_now(&w, k, &tier), CAIRN_OK);
        assert_int_equal(tier, k < 2 ? 0 : k < 8 ? 1 : 2);
        run_dry(&w);
    }
    close_world(&w);
}

static void test_all_pinned_is_passed_over(void **state)
{
    struct world_world w;
    uint64_t k;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    fill(&w, 12);
    for (k = 0; k < 8; k++)
        assert_ok(crn_chain_hint(w.c, k, ei));
    crn_chain_start(w.c);
    run_dry(&w);
    write_now(&w, 20, 10 * PAGE); /* both arenas are full of held checkpoints */
    assert_int_equal(crn_chain_state(w.c, 20, 0), CRN_LIFE_INIT);
    assert_int_equal(crn_chain_state(w.c, 20, 1), CRN_LIFE_INIT);
    assert_int_equal(crn_chain_state(w.c, 20, 2), CRN_LIFE_WRITE_COMPLETE);
    assert_int_equal(read_now(&w, 20, NULL), CAIRN_OK);
    /* A hint for a checkpoint that was never written does not block the others forever. */
    assert_ok(crn_chain_hint(w.c, 33, ei));
    assert_ok(crn_chain_hint(w.c, 9, ei));
    assert_ok(crn_chain_hint(w.c, 10, ei));
    for (k = 0; k < 8; k++)
        assert_int_equal(read_now(&w, k, NULL), CAIRN_OK);
    run_dry(&w);
    assert_int_equal(crn_chain_state(w.c, 10, 0), CRN_LIFE_INIT);
    assert_int_equal(read_now(&w, 9, NULL), CAIRN_OK);
    run_dry(&w);
    assert_int_equal(crn_chain_state(w.c, 10, 0), CRN_LIFE_READ_COMPLETE);
    close_world(&w);
}

static void test_claims_keep_order(void **state)
{
    struct world_world w;
    struct crn_tier_transfer t;
    struct crn_errinfo why = {0};
    uint64_t k;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    for (k = 0; k < 2; k++)
        write_now(&w, k, 10 * PAGE);
    /* The capture waits for a window; a flush ends and frees it; prefetching must not take it. */
    assert_int_equal(crn_chain_write(w.c, 5, 10 * PAGE, 0, w.now, &t, &why), CAIRN_EBUSY);
    write_now(&w, 6, 10 * PAGE); /* drives the flushes, and takes the window itself */
    run_dry(&w);
    memset(&why, 0, sizeof(why));
    assert_int_equal(crn_chain_write(w.c, 5, 11 * PAGE, 0, w.now, &t, &why), CAIRN_OK);
    begin(&w, &t);
    finish(&w, 0, CAIRN_OK);
    w.bytes[5] = 11 * PAGE;
    memset(&why, 0, sizeof(why));
    assert_int_equal(crn_chain_write(w.c, 7, 20 * PAGE, 0, w.now, &t, &why), CAIRN_EBUSY);
    assert_true(w.c->tier[0].claim[WHO_WRITE].is_set);
    assert_ok(crn_chain_hint(w.c, 0, ei));
    crn_chain_start(w.c);
    run_dry(&w); /* the flush of 5 makes the whole tier evictable, but it is claimed */
    assert_int_equal(crn_chain_state(w.c, 0, 0), CRN_LIFE_INIT);
    crn_chain_give_up(w.c);
    run_dry(&w);
    assert_int_equal(crn_chain_state(w.c, 0, 0), CRN_LIFE_READ_COMPLETE);
    close_world(&w);
}

static void test_damaged_source(void **state)
{
    struct crn_tier_transfer t;
    struct world_world w;
    int tier = -1;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    w.may_lose = 1;
    fill(&w, 3); /* 1 and 2 on all tiers */
    assert_int_equal(crn_chain_state(w.c, 2, 0), CRN_LIFE_FLUSHED);
    assert_ok(crn_chain_read(w.c, 2, w.now, &t, ei));
    (void)crn_chain_done(w.c, &t, CAIRN_EDAMAGED, w.now);
    check_chain(w.c);
    assert_int_equal(crn_chain_state(w.c, 2, 0), CRN_LIFE_INIT);
    assert_int_equal(read_now(&w, 2, &tier), CAIRN_OK); /* the next tier has it */
    assert_int_equal(tier, 1);
    close_world(&w);
}

static void test_edges(void **state)
{
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    struct world_world w;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    assert_int_equal(crn_chain_write(w.c, 1, LASTB + 1, 0, w.now, &t, &why), CAIRN_ENOSPC);
    assert_non_null(strstr(why.msg, "larger than every tier"));
    memset(&why, 0, sizeof(why));
    assert_int_equal(crn_chain_read(w.c, 1, w.now, &t, &why), CAIRN_ENOENT);
    write_now(&w, 1, 0); /* an empty checkpoint is one too */
    memset(&why, 0, sizeof(why));
    assert_int_equal(crn_chain_write(w.c, 1, 5, 0, w.now, &t, &why), CAIRN_EINVAL);
    /* Larger than the arenas: straight to the last tier. */
    write_now(&w, 2, 100 * PAGE);
    assert_int_equal(crn_chain_state(w.c, 2, 2), CRN_LIFE_WRITE_COMPLETE);
    assert_ok(crn_chain_adopt(w.c, 3, 5, 0, ei));
    assert_true(crn_chain_is_flushed(w.c, 3));
    crn_chain_forget(w.c, 3);
    crn_chain_forget(w.c, 99);
    assert_int_equal(crn_chain_state(w.c, 3, 2), CRN_LIFE_INIT);
    /* A tier that is not ready: nothing goes there, nothing is lost. */
    crn_chain_ready(w.c, 1, 0);
    write_now(&w, 5, 10 * PAGE);
    assert_false(crn_chain_down(w.c, 0, w.now, &t));
    crn_chain_ready(w.c, 1, 1);
    run_dry(&w);
    assert_true(crn_chain_is_flushed(w.c, 5));
    close_world(&w);
}

/* Another program fills the last tier. */
static void test_external_tier(void **state)
{
    struct crn_chain_options opt = {.ntiers = 2,
                                    .tier = {{.capacity = 4096}, {.capacity = UINT64_MAX}}};
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    struct crn_chain *c;

    (void)state;
    opt.tier[1].is_external = 1;
    assert_ok(crn_chain_open(&opt, &c, ei));
    assert_ok(crn_chain_write(c, 1, 100, 0, 1, &t, ei));
    (void)crn_chain_done(c, &t, CAIRN_OK, 2);
    assert_int_equal(crn_chain_write(c, 2, 100, 0, 3, &t, &why), CAIRN_EBUSY);
    assert_false(crn_chain_down(c, 0, 4, &t));
    crn_chain_flushed(c, 1);
    assert_int_equal(crn_chain_state(c, 1, 0), CRN_LIFE_FLUSHED);
    assert_ok(crn_chain_write(c, 2, 100, 0, 5, &t, ei));
    (void)crn_chain_done(c, &t, CAIRN_OK, 6);
    assert_int_equal(crn_chain_read(c, 1, 7, &t, &why), CAIRN_ENOENT); /* read it there */
    crn_chain_close(c);
}

/* Memory, an is_behind tier below it, and an external one. */
static struct crn_chain *open_behind(uint64_t memory, uint64_t behind)
{
    struct crn_chain_options opt = {
        .ntiers = 3, .tier = {{.capacity = memory}, {.capacity = behind, .is_behind = 1}}};
    struct crn_chain *c;

    opt.tier[2] = (struct crn_chain_tier){.capacity = UINT64_MAX, .is_external = 1};
    assert_ok(crn_chain_open(&opt, &c, ei));
    return c;
}

/* An is_behind tier gets only what leaves memory. What it does not have is prefetched from the tier
 * below it. */
static void test_tier_behind(void **state)
{
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    struct crn_chain *c = open_behind(4096, 2 * 4096);
    uint64_t key;

    (void)state;
    assert_int_equal(crn_chain_write(c, 1, 4097, 0, 1, &t, &why), CAIRN_ENOSPC);
    assert_ok(crn_chain_adopt(c, 9, 100, 0, ei));
    for (key = 1; key <= 2; key++) {
        assert_ok(crn_chain_write(c, key, 100, 0, 1, &t, ei));
        (void)crn_chain_done(c, &t, CAIRN_OK, 2);
        assert_int_equal(crn_chain_write(c, 5, 100, 0, 3, &t, &why), CAIRN_EBUSY);
        assert_true(crn_chain_down(c, 0, 4, &t));
        assert_int_equal(t.to, 1);
        (void)crn_chain_done(c, &t, CAIRN_OK, 5);
    }
    assert_ok(crn_chain_write(c, 3, 100, 0, 6, &t, ei)); /* only memory can evict */
    (void)crn_chain_done(c, &t, CAIRN_OK, 7);
    assert_false(crn_chain_down(c, 0, 8, &t));
    assert_int_equal(crn_chain_write(c, 5, 100, 0, 9, &t, &why), CAIRN_EBUSY);
    crn_chain_give_up(c);
    crn_chain_flushed(c, 3);
    assert_ok(crn_chain_hint(c, 9, ei));
    assert_ok(crn_chain_hint(c, 1, ei));
    crn_chain_start(c);
    assert_true(crn_chain_up(c, 0, 10, &t)); /* 9, from the last */
    assert_true(t.key == 9 && t.from == 2 && t.to == 0);
    (void)crn_chain_done(c, &t, CAIRN_OK, 11);
    assert_ok(crn_chain_read(c, 9, 12, &t, ei));
    (void)crn_chain_done(c, &t, CAIRN_OK, 13);
    assert_true(crn_chain_up(c, 0, 14, &t)); /* 1, from the is_behind tier */
    assert_true(t.key == 1 && t.from == 1 && t.to == 0);
    (void)crn_chain_done(c, &t, CAIRN_OK, 15);
    crn_chain_close(c);
}

/* A checkpoint that the external tier already has and that will be read again is copied to the
 * is_behind tier too: after all due flushes, and not in place of one that is read sooner. */
static void test_wish(void **state)
{
    struct crn_tier_transfer t;
    struct crn_chain *c = open_behind(4 * 4096, 2 * 4096);
    uint64_t key;

    (void)state;
    for (key = 1; key <= 4; key++) {
        assert_ok(crn_chain_write(c, key, 100, 0, 1, &t, ei));
        (void)crn_chain_done(c, &t, CAIRN_OK, 2);
    }
    crn_chain_flushed(c, 1);
    crn_chain_flushed(c, 3);
    crn_chain_flushed(c, 4);
    assert_ok(crn_chain_hint(c, 1, ei));
    assert_true(crn_chain_down(c, 0, 3, &t)); /* the only copy */
    assert_true(t.key == 2 && t.to == 1);
    (void)crn_chain_done(c, &t, CAIRN_OK, 4);
    assert_true(crn_chain_down(c, 0, 5, &t)); /* then the wish */
    assert_true(t.key == 1 && t.to == 1);
    (void)crn_chain_done(c, &t, CAIRN_OK, 6);
    assert_int_equal(crn_chain_state(c, 1, 1), CRN_LIFE_FLUSHED);
    assert_false(crn_chain_down(c, 0, 7, &t)); /* 3 and 4 are not read again */
    crn_chain_flushed(c, 2);
    assert_ok(crn_chain_hint(c, 3, ei));
    assert_true(crn_chain_down(c, 0, 8, &t)); /* in the place of 2, which is not read again */
    assert_true(t.key == 3 && t.to == 1);
    (void)crn_chain_done(c, &t, CAIRN_OK, 9);
    assert_int_equal(crn_chain_state(c, 2, 1), CRN_LIFE_INIT);
    assert_ok(crn_chain_hint(c, 4, ei));
    assert_false(crn_chain_down(c, 0, 10, &t)); /* 1 and 3 are read sooner */
    assert_true(crn_chain_is_idle(c) && !crn_chain_is_stuck(c, 0));
    crn_chain_start(c);
    assert_ok(crn_chain_write(c, 5, 4 * 4096, 0, 11, &t, ei)); /* memory has none of them now */
    (void)crn_chain_done(c, &t, CAIRN_OK, 12);
    crn_chain_flushed(c, 5);
    crn_chain_forget(c, 5);
    assert_true(crn_chain_up(c, 0, 13, &t));
    assert_true(t.key == 1 && t.from == 1);
    (void)crn_chain_done(c, &t, CAIRN_OK, 14);
    crn_chain_close(c);
}

/* Restricting the first tier, importing, and reporting a loss once. */
static void test_first_import_lost(void **state)
{
    struct crn_chain_options opt = {.ntiers = 3,
                                    .tier = {{.capacity = 4 * 4096},
                                             {.capacity = 8 * 4096, .least = 2 * 4096},
                                             {.capacity = UINT64_MAX}}};
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    struct crn_chain *c;
    uint64_t key;

    (void)state;
    opt.tier[2].is_external = 1;
    assert_ok(crn_chain_open(&opt, &c, ei));
    assert_ok(crn_chain_import(c, 1, 4096, 1, 3 * 4096, ei));
    assert_int_equal(crn_chain_import(c, 2, 4096, 1, 3 * 4096, &why), CAIRN_EINVAL);
    assert_int_equal(crn_chain_state(c, 1, 1), CRN_LIFE_WRITE_COMPLETE);
    assert_ok(crn_chain_write(c, 3, 4096, 1, 1, &t, ei)); /* not to the fastest tier */
    assert_int_equal(t.to, 1);
    (void)crn_chain_done(c, &t, CAIRN_OK, 2);
    assert_int_equal(crn_chain_space(c, 1)->used, 3 * 4096); /* each takes at least two pages */
    assert_ok(crn_chain_adopt(c, 4, 4096, 1, ei));
    assert_ok(crn_chain_hint(c, 3, ei));
    assert_ok(crn_chain_hint(c, 4, ei));
    crn_chain_start(c);
    assert_false(crn_chain_up(c, 0, 3, &t)); /* neither goes to the fastest tier */
    assert_true(crn_chain_up(c, 1, 4, &t));
    assert_int_equal(t.key, 4);
    (void)crn_chain_done(c, &t, CAIRN_EDAMAGED, 5); /* it was gone */
    assert_true(crn_chain_next_lost(c, &key));
    assert_int_equal(key, 4);
    assert_false(crn_chain_next_lost(c, &key));
    assert_int_equal(crn_chain_read(c, 4, 6, &t, &why), CAIRN_EDAMAGED);
    crn_chain_forget(c, 4);
    crn_chain_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_prefetch_in_order),
        cmocka_unit_test(test_reads_may_deviate),
        cmocka_unit_test(test_all_pinned_is_passed_over),
        cmocka_unit_test(test_claims_keep_order),
        cmocka_unit_test(test_damaged_source),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_external_tier),
        cmocka_unit_test(test_tier_behind),
        cmocka_unit_test(test_wish),
        cmocka_unit_test(test_first_import_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
