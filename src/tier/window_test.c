/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments and windows: random arenas against models that are obviously right. */
#include "base/test.h"

#include "base/rng.h"
#include "tier/window.h"

#define CAPACITY 4096U
#define OWNERS   64

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

/* A space beside a map of bytes, each with its owner's number. --------------------------------- */

struct window_test_model {
    struct crn_space space;
    unsigned char map[CAPACITY]; /* 0: gap */
    int owner[OWNERS + 1];       /* addresses serve as owners */
    uint64_t offset[OWNERS + 1];
    uint64_t bytes[OWNERS + 1]; /* 0: absent */
};

static void model_check(const struct window_test_model *m)
{
    uint64_t at = 0;
    uint64_t used = 0;
    size_t i;
    uint64_t k;

    for (i = 0; i < m->space.n; i++) {
        const struct crn_fragment *f = &m->space.f[i];
        int number = f->owner == NULL ? 0 : (int)((const int *)f->owner - m->owner);

        assert_int_equal(f->offset, at); /* sorted, no holes, no overlap */
        assert_true(f->bytes > 0);
        for (k = 0; k < f->bytes; k++)
            assert_int_equal(m->map[at + k], number);
        if (i > 0)
            assert_false(f->owner == NULL && m->space.f[i - 1].owner == NULL);
        used += f->owner != NULL ? f->bytes : 0;
        at += f->bytes;
    }
    assert_int_equal(at, CAPACITY);
    assert_int_equal(used, m->space.used);
}

static void model_put(struct window_test_model *m, int number, uint64_t offset, uint64_t bytes)
{
    assert_ok(crn_space_reserve(&m->space, ei));
    crn_space_put(&m->space, offset, bytes, &m->owner[number]);
    memset(m->map + offset, number, bytes);
    m->offset[number] = offset;
    m->bytes[number] = bytes;
}

static void model_drop(struct window_test_model *m, int number)
{
    crn_space_drop(&m->space, m->offset[number]);
    memset(m->map + m->offset[number], 0, m->bytes[number]);
    m->bytes[number] = 0;
}

/* Random scores; ties are frequent on purpose. */
static void model_score(struct window_test_model *m, struct crn_rng *rng)
{
    size_t i;

    for (i = 0; i < m->space.n; i++) {
        struct crn_fragment *f = &m->space.f[i];

        f->wait_ns = f->near = f->age = 0;
        if (f->owner == NULL)
            continue;
        f->wait_ns = crn_rng_below(rng, 4) == 0 ? CRN_PINNED : crn_rng_below(rng, 3) * 1000;
        f->near = crn_rng_below(rng, 4);
        f->age = 1 + crn_rng_below(rng, 10);
    }
}

/* All windows, each score computed from scratch. */
static int best_of_all(const struct crn_space *s, enum crn_evict policy, uint64_t bytes,
                       struct crn_window *ret)
{
    int found = 0;
    size_t first;
    size_t last;

    for (first = 0; first < s->n; first++) {
        struct crn_window w = {.first = first, .offset = s->f[first].offset};

        for (last = first; last < s->n; last++) {
            const struct crn_fragment *f = &s->f[last];

            w.count++;
            w.bytes += f->bytes;
            w.wait_ns = f->wait_ns > w.wait_ns ? f->wait_ns : w.wait_ns;
            w.age = f->age > w.age ? f->age : w.age;
            w.near += f->near * ((f->bytes + CRN_NEAR_PAGE - 1) / CRN_NEAR_PAGE);
            w.evicted += f->owner != NULL ? f->bytes : 0;
            if (w.wait_ns == CRN_PINNED || w.bytes < bytes)
                continue;
            if (!found || crn_window_compare(policy, &w, ret) < 0)
                *ret = w;
            found = 1;
        }
    }
    return found;
}

static void check_window(const struct window_test_model *m, enum crn_evict policy, uint64_t bytes)
{
    struct crn_window w;
    struct crn_window best;
    int found = crn_window_find(&m->space, policy, bytes, &w);
    size_t i;

    assert_int_equal(found, best_of_all(&m->space, policy, bytes, &best));
    if (!found)
        return;
    assert_int_equal(crn_window_compare(policy, &w, &best), 0);
    assert_true(w.bytes >= bytes && w.offset + w.bytes <= CAPACITY);
    assert_true(w.first + w.count <= m->space.n);
    assert_int_equal(w.offset, m->space.f[w.first].offset);
    for (i = w.first; i < w.first + w.count; i++)
        assert_true(m->space.f[i].wait_ns != CRN_PINNED);
}

/* Random puts and drops, through windows, under every policy. */
static void test_random(void **state)
{
    struct window_test_model m = {0};
    struct crn_rng rng;
    struct crn_window w;
    int step;

    (void)state;
    crn_rng_seed(&rng, 5);
    assert_ok(crn_space_init(&m.space, CAPACITY, ei));
    for (step = 0; step < 20000; step++) {
        int number = 1 + (int)crn_rng_below(&rng, OWNERS);
        uint64_t bytes = 1 + crn_rng_below(&rng, step % 3 == 0 ? 700 : 90);
        enum crn_evict policy = (enum crn_evict)(step % CRN_EVICT_POLICIES);

        if (m.bytes[number] != 0) {
            model_drop(&m, number);
            model_check(&m);
            continue;
        }
        model_score(&m, &rng);
        check_window(&m, policy, bytes);
        if (crn_window_find(&m.space, policy, bytes, &w)) {
            uint64_t at;

            for (at = w.offset; at < w.offset + w.bytes; at++)
                if (m.map[at] != 0)
                    model_drop(&m, m.map[at]);
            model_put(&m, number, w.offset, bytes);
        }
        model_check(&m);
    }
    crn_space_fini(&m.space);
}

/* Cases worked by hand. ------------------------------------------------------------------------ */

static struct crn_space by_hand(struct crn_fragment *f, size_t n)
{
    struct crn_space s;
    size_t i;

    assert_ok(crn_space_init(&s, CAPACITY, ei));
    for (i = 0; i < n; i++) {
        f[i].offset = i > 0 ? f[i - 1].offset + f[i - 1].bytes : 0;
        s.f[i] = f[i];
    }
    s.n = n;
    return s;
}

static void test_small_between_gaps(void **state)
{
    int o;
    /* Of two flushed checkpoints the small one is evicted, although it is read sooner: with the
     * gaps around it there is enough space, and fewer near bytes are evicted. */
    struct crn_fragment f[] = {
        {.bytes = 1 << 20, .owner = &o, .near = 2, .age = 1}, {.bytes = 1 << 19},
        {.bytes = 1 << 12, .owner = &o, .near = 9, .age = 2}, {.bytes = 1 << 19},
        {.bytes = 1 << 20, .owner = &o, .near = 2, .age = 3},
    };
    struct crn_space s = by_hand(f, 5);
    struct crn_window w;

    (void)state;
    assert_true(crn_window_find(&s, CRN_EVICT_SCORE, 1 << 20, &w));
    assert_int_equal(w.first, 1);
    assert_int_equal(w.count, 3);
    assert_int_equal(w.evicted, 1 << 12);
    /* LRU ignores that. */
    assert_true(crn_window_find(&s, CRN_EVICT_LRU, 1 << 20, &w));
    assert_int_equal(w.first, 0);
    crn_space_fini(&s);
}

static void test_order_of_scores(void **state)
{
    int o;
    struct crn_fragment f[] = {
        {.bytes = 4096, .owner = &o, .wait_ns = 0, .near = 5, .age = 9},
        {.bytes = 4096, .owner = &o, .wait_ns = 10, .near = 0, .age = 1},
        {.bytes = 4096, .owner = &o, .wait_ns = 0, .near = 2, .age = 8},
        {.bytes = 4096, .owner = &o, .wait_ns = 0, .near = 2, .age = 7},
        {.bytes = 4096, .owner = &o, .wait_ns = CRN_PINNED, .near = 0, .age = 0},
    };
    struct crn_space s = by_hand(f, 5);
    struct crn_window w;

    (void)state;
    assert_true(crn_window_find(&s, CRN_EVICT_SCORE, 4096, &w));
    assert_int_equal(w.first, 3); /* no wait, far away, older than its equal */
    assert_true(crn_window_find(&s, CRN_EVICT_SCORE, 8192, &w));
    assert_int_equal(w.first, 2);
    assert_true(crn_window_find(&s, CRN_EVICT_FIFO, 4096, &w));
    assert_int_equal(w.first, 1);
    assert_int_equal(w.wait_ns, 10);
    assert_false(
        crn_window_find(&s, CRN_EVICT_SCORE, 5 * 4096, &w)); /* would need the pinned fragment */
    s.f[4].owner = NULL;
    s.f[4].wait_ns = 0;
    assert_true(crn_window_find(&s, CRN_EVICT_SCORE, 4096, &w));
    assert_int_equal(w.first, 4); /* a gap before anything else */
    assert_int_equal(w.evicted, 0);
    crn_space_fini(&s);
}

static void test_edges(void **state)
{
    struct crn_space s;
    struct crn_window w;
    int o;

    (void)state;
    assert_ok(crn_space_init(&s, 0, ei));
    assert_false(crn_window_find(&s, CRN_EVICT_SCORE, 1, &w));
    assert_int_equal(crn_space_largest_gap(&s), 0);
    crn_space_fini(&s);
    assert_ok(crn_space_init(&s, UINT64_MAX, ei));
    assert_true(crn_window_find(&s, CRN_EVICT_LRU, 1 << 20, &w));
    assert_ok(crn_space_reserve(&s, ei));
    crn_space_put(&s, w.offset, 1 << 20, &o);
    assert_int_equal(crn_space_largest_gap(&s), CRN_SPACE_MAX - (1 << 20));
    assert_int_equal(crn_space_at(&s, (1 << 20) - 1), 0);
    assert_int_equal(crn_space_at(&s, 1 << 20), 1);
    crn_space_fini(&s);
}

static void test_names(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < CRN_EVICT_POLICIES; i++)
        assert_int_equal(crn_evict_parse(crn_evict_name((enum crn_evict)i)), i);
    assert_int_equal(crn_evict_parse("best"), CRN_EVICT_POLICIES);
    assert_string_equal(crn_evict_name(CRN_EVICT_POLICIES), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),          cmocka_unit_test(test_small_between_gaps),
        cmocka_unit_test(test_order_of_scores), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
