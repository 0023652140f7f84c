/* SPDX-License-Identifier: BSD-3-Clause */
/* Random lives of the chain, compared byte for byte: moves that fail, tiers that die with copies in
 * flight. */
#include "tier/test_world.h"

/* Random lives. -------------------------------------------------------------------------------- */

/* A checkpoint that only an external tier has is read there, and its hint is consumed. */
static void read_any(struct world_world *w, uint64_t key)
{
    int is_outside = w->ntiers == 4 && crn_chain_is_flushed(w->c, key);
    int is_gone = w->is_gone[key];
    cairn_err rc = read_now(w, key, NULL);
    const struct object *o;

    if (is_gone || !is_outside)
        assert_int_equal(rc, is_gone ? CAIRN_ENOENT : CAIRN_OK);
    else
        assert_true(rc == CAIRN_OK || rc == CAIRN_ENOENT);
    if (rc != CAIRN_ENOENT)
        return;
    o = crn_chain_object_find(w->c, key);
    w->is_gone[key] = o == NULL || o->is_discarded;
}

static void random_step(struct world_world *w)
{
    uint64_t key = crn_rng_below(&w->rng, KEYS);
    uint64_t what = crn_rng_below(&w->rng, 10);

    w->now += TICK_NS;
    if (what < 3 && w->bytes[key] == 0) {
        write_now(w, key, 1 + crn_rng_below(&w->rng, MAXB));
    } else if (what < 5 && w->bytes[key] != 0) {
        read_any(w, key);
    } else if (what == 5) {
        assert_ok(crn_chain_hint(w->c, key, ei));
        if (key % 5 == 0)
            crn_chain_unhint(w->c, key);
    } else if (what == 6 && crn_rng_below(&w->rng, 8) == 0) {
        crn_chain_start(w->c);
    } else if (what == 7 && crn_rng_below(&w->rng, 4) == 0 && w->bytes[key] != 0) {
        crn_chain_forget(w->c, key);
        w->is_gone[key] = 1;
    } else if (what == 8 && w->ntiers == 4) {
        (void)flush_external(w);
    } else if (w->nmoves > 0 && crn_rng_below(&w->rng, 2) == 0) {
        finish_random(w);
    } else {
        poll_links(w);
    }
    check_holds(w);
    /* A key may be reused once it is gone everywhere. */
    if (w->is_gone[key] && !crn_life_is_whole(crn_chain_state(w->c, key, w->ntiers - 1))) {
        const struct object *o = crn_chain_object_find(w->c, key);

        if (o == NULL || !crn_chain_object_is_here(w->c, o))
            w->bytes[key] = 0, w->is_gone[key] = 0;
    }
}

static void random_life(int ntiers, uint64_t seed, int discard, unsigned fail_in_16)
{
    struct world_world w;
    uint64_t key;
    int i;

    open_tiers(&w, ntiers, seed, (enum crn_evict)(seed % CRN_EVICT_POLICIES), discard);
    w.fail_in_16 = fail_in_16;
    for (i = 0; i < 1500; i++)
        random_step(&w);
    w.fail_in_16 = 0;
    do
        run_dry(&w);
    while (ntiers == 4 && flush_external(&w));
    assert_true(crn_chain_is_idle(w.c));
    for (key = 0; key < KEYS; key++) {
        if (w.bytes[key] == 0 || w.is_gone[key])
            continue;
        assert_true(crn_chain_is_flushed(w.c, key));
        read_any(&w, key);
    }
    close_world(&w);
}

static void test_random_lives(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 24; seed++)
        random_life(3, seed, seed % 2 == 0, 0);
}

static void test_random_sessions(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 24; seed++)
        random_life(4, seed, seed % 2 == 0, seed % 4 == 3 ? 5 : 0);
}

static void test_random_failures(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 100; seed < 116; seed++)
        random_life(3, seed, seed % 2 == 0, 5);
}

/* A tier dies with copies in flight. ----------------------------------------------------------- */

static void lose(int tier, uint64_t seed)
{
    struct world_world w;
    uint64_t key;
    int i;

    open_world(&w, seed, CRN_EVICT_SCORE, 0);
    for (i = 0; i < 300; i++)
        random_step(&w);
    w.lost = tier;
    w.may_lose = 1;
    crn_chain_lost(w.c, tier);
    memset(w.mem[tier], 0xee, tier == 2 ? LASTB : 20 * PAGE); /* no one may read it again */
    check_chain(w.c);
    while (w.nmoves > 0)
        finish_random(&w);
    run_dry(&w);
    for (key = 0; key < KEYS; key++) {
        cairn_err rc;

        if (w.bytes[key] == 0 || w.is_gone[key])
            continue;
        rc = read_now(&w, key, NULL); /* compares the bytes of what is left */
        assert_true(rc == CAIRN_OK || rc == CAIRN_EDAMAGED);
        if (rc == CAIRN_EDAMAGED) /* reported, and the key may be written again */
            write_now(&w, key, w.bytes[key]);
    }
    for (i = 0; i < 300; i++)
        random_step(&w);
    close_world(&w);
}

static void test_lost_tier(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed < 8; seed++) {
        lose(0, seed);
        lose(1, seed + 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lives),
        cmocka_unit_test(test_random_sessions),
        cmocka_unit_test(test_random_failures),
        cmocka_unit_test(test_lost_tier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
