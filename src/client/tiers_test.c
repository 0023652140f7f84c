/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints that a living session reads back: from memory while their flush is in flight, later
 * from wherever they are, with and without hints, in every order. */
#include "client/test_tiers.h"

static void before_commit(struct bed_bed *b)
{
    cairn_session *s = bed_session(b, NEVER, "arena_bytes=16M", "wait_timeout=100ms", NULL);
    int64_t v;

    must(cairn_protect(s, "data", data, CAIRN_U64, N));
    for (v = 1; v <= 4; v++) {
        set((uint64_t)v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 4; v >= 1; v--) {
        set(99);
        must(cairn_restore(s, "t", v, NULL));
        assert_true(is_set((uint64_t)v));
        assert_false(is_persistent(s, v));
    }
    set(7); /* taken again: the newer capture counts */
    must(cairn_checkpoint(s, "t", 2, NULL));
    set(99);
    must(cairn_restore(s, "t", 2, NULL));
    assert_true(is_set(7));
    must(cairn_protect(s, "data", data, CAIRN_U64, N - 1)); /* size mismatch: nothing is written */
    assert_int_not_equal(cairn_restore(s, "t", 3, NULL), CAIRN_OK);
    assert_true(is_set(7));
}

/* What this session took can be read at once, whatever the flush does. */
static void test_before_commit(void **state)
{
    (void)state;
    in_child(before_commit);
}

/* A rejected version cannot be restored, not even from memory. */
static void test_rejected(void **state)
{
    cairn_session *s;
    struct bed_bed b = {0};
    int is_hinted;

    (void)state;
    for (is_hinted = 0; is_hinted < 2; is_hinted++) {
        test_dir_make(b.dir, sizeof(b.dir));
        s = bed_session(&b, "arena_bytes=16M", NULL);
        must(cairn_protect(s, "data", data, CAIRN_U64, N));
        if (is_hinted)
            must(cairn_prefetch_enqueue(s, "t", 1));
        set(1);
        must(cairn_checkpoint(s, "t", 1, NULL));
        must(cairn_find_version(s, "t", 1));
        must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
        must(cairn_reject(s, "t", 1, "it is wrong"));
        assert_int_equal(cairn_find_version(s, "t", 1), CAIRN_ENOENT);
        must(cairn_checkpoint(s, "t", 1, NULL)); /* taken again, it counts */
        must(cairn_find_version(s, "t", 1));
        must(cairn_close(s));
        test_dir_remove(b.dir);
    }
}

/* Waits for the prefetches before the application reads. */
static void await_prefetch(const cairn_session *s)
{
    struct timespec ms = {.tv_nsec = 1000000};
    int i;

    for (i = 0; prefetched(s) == 0 && i < 20000; i++)
        (void)nanosleep(&ms, NULL);
    assert_true(prefetched(s) > 0);
}

/* A shot as in the paper (Maurya et al., HPDC 2023): hints, a forward pass, then a backward
 * pass. */
static void shot(int is_gpu, const char *device_cache, enum order order)
{
    int64_t reads[VERSIONS];
    struct tiers_world w;
    cairn_session *s;

    world_open(&w, is_gpu);
    s = bed_session(&w.b, "arena_bytes=11M", device_cache, NULL); /* four images */
    world_protect(&w, s);
    make_order(order, reads);
    enqueue_all(s, reads);
    take_all(&w, s);
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    must(cairn_prefetch_start(s));
    if (order == SEQUENTIAL)
        await_prefetch(s);
    read_all(&w, s, reads);
    read_all(&w, s, reads); /* no hints are left */
    must(cairn_close(s));
    s = bed_session(&w.b, "arena_bytes=auto", device_cache, NULL); /* reads what another run left */
    world_protect(&w, s);
    enqueue_all(s, reads);
    must(cairn_prefetch_start(s));
    await_prefetch(s);
    read_all(&w, s, reads);
    must(cairn_close(s));
    world_close(&w);
}

static void test_hints(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < ORDERS; order++)
        shot(0, "gpu=on", (enum order)order);
}

static void test_hints_gpu(void **state)
{
    int order;

    (void)state;
    for (order = 0; order < ORDERS; order++) {
        shot(1, "device_cache=8M", (enum order)order);
        shot(1, "device_cache=0", (enum order)order);
    }
}

/* Reads deviate from the hints: another order, twice, never, and of a version that was never
 * taken. */
static void test_deviating(void **state)
{
    int64_t reads[VERSIONS];
    int64_t other[VERSIONS];
    struct tiers_world w;
    cairn_session *s;
    int i;

    (void)state;
    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=8M", NULL);
    world_protect(&w, s);
    make_order(IRREGULAR, reads);
    make_order(REVERSE, other);
    must(cairn_prefetch_start(s));
    must(cairn_prefetch_enqueue(s, "nobody", 3));
    enqueue_all(s, reads);
    take_all(&w, s);
    must(cairn_prefetch_enqueue(s, "t", 500));
    enqueue_all(s, reads);
    read_all(&w, s, other);
    for (i = 0; i < 50; i++)
        must(cairn_prefetch_enqueue(s, "t", 1 + i % VERSIONS));
    read_all(&w, s, reads);
    assert_int_equal(cairn_prefetch_enqueue(s, "../t", 1), CAIRN_EINVAL);
    assert_int_equal(cairn_prefetch_enqueue(s, "t", -1), CAIRN_EINVAL);
    assert_int_not_equal(cairn_restore(s, "t", 500, NULL), CAIRN_OK);
    must(cairn_close(s));
    world_close(&w);
}

static int is_held(const cairn_session *s, int64_t version)
{
    struct crn_tiered *h = crn_held_find(s->tiers, "t", version);

    return h != NULL && crn_cache_state(s->tiers->cache, crn_held_key(h), s->tiers->arena_tier) ==
                            CRN_LIFE_READ_COMPLETE;
}

/* Hints that fill the memory are withdrawn, one by one or all at once, before or after the tiers
 * are open: the next hints get the space. */
static void cancel(int is_clear, int is_early)
{
    struct timespec ms = {.tv_nsec = 1000000};
    struct tiers_world w;
    cairn_session *s;
    int64_t v;

    world_open(&w, 0);
    s = bed_session(&w.b, "arena_bytes=11M", NULL); /* four images */
    world_protect(&w, s);
    must(cairn_prefetch_cancel(s, "t", 1)); /* no hint: no error */
    must(cairn_prefetch_clear(s));
    if (!is_early)
        must(cairn_prefetch_start(s));
    for (v = 1; v <= VERSIONS; v++) {
        world_set(&w, v);
        if (!is_early)
            must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 5; v <= VERSIONS; v++)
        must(cairn_prefetch_enqueue(s, "t", v));
    must(cairn_prefetch_enqueue(s, "t", 5)); /* twice */
    for (v = 5; !is_clear && v <= VERSIONS; v++)
        must(cairn_prefetch_cancel(s, "t", v));
    if (is_clear)
        must(cairn_prefetch_clear(s));
    for (v = 1; is_early && v <= VERSIONS; v++) {
        world_set(&w, v);
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    for (v = 1; v <= 4; v++)
        must(cairn_prefetch_enqueue(s, "t", v));
    must(cairn_prefetch_start(s));
    for (v = 1; v <= 4; v++)
        while (!is_held(s, v)) /* forever, if the others keep the space */
            (void)nanosleep(&ms, NULL);
    for (v = 5; v <= VERSIONS; v++)
        assert_false(is_held(s, v));
    for (v = 1; v <= VERSIONS; v++) {
        must(cairn_restore(s, "t", v, NULL));
        assert_true(world_is_set(&w, v));
    }
    assert_int_equal(cairn_prefetch_cancel(s, NULL, 1), CAIRN_EINVAL);
    assert_int_equal(cairn_prefetch_cancel(s, "t", -1), CAIRN_EINVAL);
    assert_int_equal(cairn_prefetch_cancel(NULL, "t", 1), CAIRN_EINVAL);
    assert_int_equal(cairn_prefetch_clear(NULL), CAIRN_EINVAL);
    must(cairn_close(s));
    world_close(&w);
}

/* As many checkpoints as fit in memory: no flush ends, and all of them are kept and read. */
static void many(struct bed_bed *dir)
{
    uint64_t small[512] = {0};
    cairn_session *s = bed_session(dir, NEVER, "arena_bytes=128M", "wait_timeout=10s", NULL);
    int64_t v;

    must(cairn_protect(s, "small", small, CAIRN_U64, 512));
    must(cairn_prefetch_start(s));
    for (v = 0; v < 1500; v++) {
        small[0] = small[511] = (uint64_t)v;
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    for (v = 0; v < 1500; v++) {
        must(cairn_restore(s, "t", v, NULL));
        assert_true(small[0] == (uint64_t)v && small[511] == (uint64_t)v);
    }
}

static void test_many(void **state)
{
    (void)state;
    in_child(many);
}

/* Finding out what the service has flushed costs the same however long the history is: the test
 * counts the looks. */
static void test_looks(void **state)
{
    uint64_t small[512] = {0};
    struct bed_bed b = {0};
    cairn_session *s;
    int64_t v;

    (void)state;
    test_dir_make(b.dir, sizeof(b.dir));
    s = bed_session(&b, "arena_bytes=64M", NULL);
    must(cairn_protect(s, "small", small, CAIRN_U64, 512));
    for (v = 0; v < 400; v++)
        must(cairn_prefetch_enqueue(s, "t", v)); /* so that none is forgotten */
    for (v = 0; v < 400; v++) {
        small[0] = (uint64_t)v;
        must(cairn_checkpoint(s, "t", v, NULL));
    }
    must(cairn_wait_all(s, CAIRN_PERSISTENT, 60000));
    must(cairn_prefetch_start(s));
    for (v = 0; v < 400; v++) {
        must(cairn_restore(s, "t", v, NULL));
        assert_int_equal(small[0], v);
    }
    crn_lock(&s->tiers->mu);
    assert_true(s->tiers->looks > 0 && s->tiers->looked_at <= 64 * s->tiers->looks);
    crn_unlock(&s->tiers->mu);
    must(cairn_close(s));
    test_dir_remove(b.dir);
}

static void test_canceled(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 4; i++)
        cancel(i / 2, i % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_commit), cmocka_unit_test(test_many),
        cmocka_unit_test(test_rejected),      cmocka_unit_test(test_hints),
        cmocka_unit_test(test_hints_gpu),     cmocka_unit_test(test_deviating),
        cmocka_unit_test(test_canceled),      cmocka_unit_test(test_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
