/* SPDX-License-Identifier: BSD-3-Clause */
/* The chain of tiers, driven without threads: tiers are byte arrays, a copy moves its first half when
 * it begins and its second half when it ends, so whatever is evicted or overwritten too early is seen
 * in the bytes of the next read. */
#include "base/test.h"

#include "base/rng.h"
#include "tier/chain_impl.h"

#define KEYS    40
#define PAGE    64U
#define MAXB    (12 * PAGE)
#define LASTB   (KEYS * MAXB * 4)
#define MOVES   16
#define NTIERS  3
#define TICK_NS 1000

static struct crn_errinfo info;
static struct crn_errinfo *const ei = &info;

struct world {
    struct crn_chain *c;
    struct crn_rng rng;
    int64_t now;
    unsigned char *mem[NTIERS];
    uint64_t bytes[KEYS]; /* 0: not written */
    int is_gone[KEYS];    /* read with discard, or forgotten */
    struct crn_transfer move[MOVES];
    unsigned char *half[MOVES]; /* what was read at the beginning */
    int nmoves;
    enum crn_life seen[KEYS][NTIERS];
    unsigned fail_in_16; /* of the background copies */
    int lost;            /* tier that died; -1 */
    int may_lose;        /* checkpoints that had one copy may be gone */
};

static unsigned char pattern(uint64_t key, uint64_t i)
{
    return (unsigned char)(key * 31 + i * 7 + (i >> 6));
}

/* What must hold at every moment. ------------------------------------------------------------------- */

static void check_object(const struct crn_chain *c, const struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++) {
        const struct stay *s = &o->at[t];
        int is_whole = crn_life_is_whole(s->state);
        int has_copy = crn_has_copy_below(c, o, t);

        if (s->state == CRN_LIFE_FLUSHED)
            assert_true(has_copy);
        if (s->state == CRN_LIFE_WRITE_COMPLETE)
            assert_false(has_copy);
        assert_int_equal(s->is_queued,
                         is_whole && !has_copy && !o->is_discarded && crn_below(c, t) >= 0);
        if (s->state != CRN_LIFE_INIT)
            assert_ptr_equal(c->tier[t].space.f[crn_space_at(&c->tier[t].space, s->offset)].owner,
                             o);
        if (s->readers > 0)
            assert_true(is_whole);
    }
}

static void check_chain(const struct crn_chain *c)
{
    size_t stays[CRN_TIERS_MAX] = {0};
    size_t queued[CRN_TIERS_MAX] = {0};
    size_t i;
    int t;

    for (i = 0; i < c->nhash; i++) {
        const struct object *o;

        for (o = c->hash[i]; o != NULL; o = o->hash_next) {
            check_object(c, o);
            for (t = 0; t <= c->last; t++) {
                stays[t] += o->at[t].state != CRN_LIFE_INIT;
                queued[t] += (size_t)o->at[t].is_queued;
            }
        }
    }
    for (t = 0; t <= c->last; t++) {
        const struct tier *tier = &c->tier[t];
        const struct object *o;
        uint64_t at = 0;

        assert_true(tier->space.used <= tier->space.capacity);
        for (i = 0; i < tier->space.n; i++) {
            const struct crn_fragment *f = &tier->space.f[i];

            assert_int_equal(f->offset, at);
            at += f->bytes;
            if (f->owner == NULL)
                continue;
            o = f->owner;
            assert_int_equal(o->at[t].offset, f->offset);
            assert_int_equal(f->bytes, crn_rounded(c, t, o->bytes));
            assert_true(stays[t]-- > 0);
        }
        assert_int_equal(at, tier->space.capacity);
        assert_int_equal(stays[t], 0); /* as many stays as fragments */
        for (o = tier->queue_head; o != NULL; o = o->at[t].next)
            assert_true(queued[t]-- > 0);
        assert_int_equal(queued[t], 0);
    }
}

/* Held for a read: stays until it was consumed, whatever happens. */
static void check_holds(struct world *w)
{
    int k;
    int t;

    for (k = 0; k < KEYS; k++) {
        for (t = 0; t < NTIERS; t++) {
            enum crn_life now = crn_chain_state(w->c, (uint64_t)k, t);

            if (w->seen[k][t] == CRN_LIFE_READ_COMPLETE && !w->is_gone[k] && t != w->lost &&
                !w->may_lose)
                assert_true(now == CRN_LIFE_READ_COMPLETE || now == CRN_LIFE_CONSUMED);
            w->seen[k][t] = now;
        }
    }
}

/* Copies. ------------------------------------------------------------------------------------------- */

static void begin(struct world *w, const struct crn_transfer *t)
{
    uint64_t half = t->bytes / 2;
    unsigned char *buf = malloc(t->bytes + 1);
    uint64_t i;

    assert_non_null(buf);
    assert_true(w->nmoves < MOVES);
    if (t->from == CRN_APP)
        for (i = 0; i < t->bytes; i++)
            buf[i] = pattern(t->key, i);
    else
        memcpy(buf, w->mem[t->from] + t->src.offset, half);
    if (t->to != CRN_APP)
        memcpy(w->mem[t->to] + t->dst.offset, buf, half);
    w->move[w->nmoves] = *t;
    w->half[w->nmoves++] = buf;
}

static void finish(struct world *w, int m, cairn_err rc)
{
    struct crn_transfer t = w->move[m];
    unsigned char *buf = w->half[m];
    uint64_t half = t.bytes / 2;
    uint64_t i;

    if (t.from != CRN_APP)
        memcpy(buf + half, w->mem[t.from] + t.src.offset + half, t.bytes - half);
    if (t.to != CRN_APP && rc == CAIRN_OK)
        memcpy(w->mem[t.to] + t.dst.offset + half, buf + half, t.bytes - half);
    if (t.to == CRN_APP)
        for (i = 0; i < t.bytes; i++)
            assert_int_equal(buf[i], pattern(t.key, i));
    if (t.to == CRN_APP && w->c->opt.discard_consumed && rc == CAIRN_OK) {
        const struct object *o = crn_object_find(w->c, t.key);

        w->is_gone[t.key] = o->nhints == 0;
    }
    free(buf);
    w->nmoves--;
    w->move[m] = w->move[w->nmoves];
    w->half[m] = w->half[w->nmoves];
    (void)crn_chain_done(w->c, &t, rc, w->now);
    check_chain(w->c);
    check_holds(w);
}

static void finish_random(struct world *w)
{
    int m = (int)crn_rng_below(&w->rng, (uint64_t)w->nmoves);
    const struct crn_transfer *t = &w->move[m];
    int is_background = t->from != CRN_APP && t->to != CRN_APP;
    int fails = is_background && crn_rng_below(&w->rng, 16) < w->fail_in_16;

    finish(w, m, fails || t->from == w->lost || t->to == w->lost ? CAIRN_EIO : CAIRN_OK);
}

/* Starts what the links can do now. */
static int poll_links(struct world *w)
{
    struct crn_transfer t;
    int any = 0;
    int i;

    for (i = 0; i < NTIERS - 1; i++) {
        if (crn_chain_down(w->c, i, w->now, &t)) {
            begin(w, &t);
            any = 1;
        }
        check_holds(w);
        if (crn_chain_up(w->c, i, w->now, &t)) {
            begin(w, &t);
            any = 1;
        }
        check_holds(w);
    }
    check_chain(w->c);
    return any;
}

static void run_dry(struct world *w)
{
    int64_t again;

    crn_chain_drain(w->c, 1);
    for (;;) {
        w->now += TICK_NS;
        if (poll_links(w))
            continue;
        if (w->nmoves > 0) {
            finish_random(w);
            continue;
        }
        again = crn_chain_retry_ns(w->c, w->now);
        if (again == INT64_MAX)
            break;
        w->now = again;
    }
    crn_chain_drain(w->c, 0);
}

static void open_world(struct world *w, uint64_t seed, enum crn_evict policy, int discard)
{
    struct crn_chain_options opt = {
        .policy = policy, .discard_consumed = discard, .ntiers = NTIERS};
    uint64_t capacity[NTIERS] = {20 * PAGE, 60 * PAGE, LASTB};
    int t;

    memset(w, 0, sizeof(*w));
    crn_rng_seed(&w->rng, seed);
    w->lost = -1;
    for (t = 0; t < NTIERS; t++) {
        opt.tier[t].capacity = capacity[t];
        opt.tier[t].align = PAGE;
        opt.tier[t].depth = 1 + (uint32_t)(seed / 2 % 2);
        w->mem[t] = calloc(1, capacity[t]);
        assert_non_null(w->mem[t]);
    }
    assert_ok(crn_chain_open(&opt, &w->c, ei));
}

static void close_world(struct world *w)
{
    int t;

    while (w->nmoves > 0)
        finish_random(w);
    crn_chain_close(w->c);
    for (t = 0; t < NTIERS; t++)
        free(w->mem[t]);
}

static cairn_err start_write(struct world *w, uint64_t key, uint64_t bytes)
{
    struct crn_errinfo why = {0};
    struct crn_transfer t;
    cairn_err rc = crn_chain_write(w->c, key, bytes, 0, w->now, &t, &why);

    if (rc != CAIRN_OK)
        return rc;
    w->bytes[key] = bytes;
    begin(w, &t);
    return CAIRN_OK;
}

/* Blocks as an application does: other copies go on until there is room. */
static void write_now(struct world *w, uint64_t key, uint64_t bytes)
{
    int rounds = 0;

    while (start_write(w, key, bytes) != CAIRN_OK) {
        assert_true(++rounds < 10000); /* no way to be stuck: the last tier has room for all */
        w->now += TICK_NS;
        if (!poll_links(w)) {
            assert_true(w->nmoves > 0 || crn_chain_retry_ns(w->c, w->now) < INT64_MAX);
            if (w->nmoves > 0)
                finish_random(w);
            else
                w->now = crn_chain_retry_ns(w->c, w->now);
        }
    }
    finish(w, w->nmoves - 1, CAIRN_OK);
}

static cairn_err read_now(struct world *w, uint64_t key, int *ret_tier)
{
    struct crn_transfer t;
    cairn_err rc;

    for (;;) {
        struct crn_errinfo why = {0};

        rc = crn_chain_read(w->c, key, w->now, &t, &why);
        if (rc != CAIRN_EBUSY)
            break;
        assert_true(w->nmoves > 0); /* someone is bringing it */
        finish_random(w);
    }
    if (rc != CAIRN_OK)
        return rc;
    if (ret_tier != NULL)
        *ret_tier = t.from;
    check_holds(w);
    begin(w, &t);
    poll_links(w);
    for (int m = 0; m < w->nmoves; m++) {
        if (w->move[m].to == CRN_APP) {
            finish(w, m, CAIRN_OK);
            break;
        }
    }
    return CAIRN_OK;
}

/* Random lives. -------------------------------------------------------------------------------------- */

static void random_step(struct world *w)
{
    uint64_t key = crn_rng_below(&w->rng, KEYS);
    uint64_t what = crn_rng_below(&w->rng, 10);

    w->now += TICK_NS;
    if (what < 3 && w->bytes[key] == 0) {
        write_now(w, key, 1 + crn_rng_below(&w->rng, MAXB));
    } else if (what < 5 && w->bytes[key] != 0) {
        assert_int_equal(read_now(w, key, NULL), w->is_gone[key] ? CAIRN_ENOENT : CAIRN_OK);
    } else if (what == 5) {
        assert_ok(crn_chain_hint(w->c, key, ei));
    } else if (what == 6 && crn_rng_below(&w->rng, 8) == 0) {
        crn_chain_start(w->c);
    } else if (what == 7 && crn_rng_below(&w->rng, 4) == 0 && w->bytes[key] != 0) {
        crn_chain_forget(w->c, key);
        w->is_gone[key] = 1;
    } else if (w->nmoves > 0 && crn_rng_below(&w->rng, 2) == 0) {
        finish_random(w);
    } else {
        poll_links(w);
    }
    check_holds(w);
    /* A key may come again once it is gone everywhere. */
    if (w->is_gone[key] && !crn_life_is_whole(crn_chain_state(w->c, key, 2))) {
        const struct object *o = crn_object_find(w->c, key);

        if (o == NULL || !crn_object_is_here(w->c, o))
            w->bytes[key] = 0, w->is_gone[key] = 0;
    }
}

static void random_life(uint64_t seed, int discard, unsigned fail_in_16)
{
    struct world w;
    uint64_t key;
    int i;

    open_world(&w, seed, (enum crn_evict)(seed % CRN_EVICT_POLICIES), discard);
    w.fail_in_16 = fail_in_16;
    for (i = 0; i < 1500; i++)
        random_step(&w);
    w.fail_in_16 = 0;
    run_dry(&w);
    assert_true(crn_chain_is_idle(w.c));
    for (key = 0; key < KEYS; key++) {
        if (w.bytes[key] == 0 || w.is_gone[key])
            continue;
        assert_true(crn_chain_is_flushed(w.c, key));
        assert_int_equal(read_now(&w, key, NULL), CAIRN_OK);
    }
    close_world(&w);
}

static void test_random_lives(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 1; seed <= 24; seed++)
        random_life(seed, seed % 2 == 0, 0);
}

static void test_random_failures(void **state)
{
    uint64_t seed;

    (void)state;
    for (seed = 100; seed < 116; seed++)
        random_life(seed, seed % 2 == 0, 5);
}

/* The conditions of section 2 of the paper. ---------------------------------------------------------- */

static void test_conditions(void **state)
{
    struct world w;
    struct crn_transfer flush;
    int tier;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 1);
    /* (1) a capture needs the fastest tier alone; (2) it is readable while its flush is pending */
    write_now(&w, 1, 10 * PAGE);
    assert_int_equal(crn_chain_state(w.c, 1, 0), CRN_LIFE_WRITE_COMPLETE);
    assert_true(crn_chain_down(w.c, 0, w.now, &flush));
    begin(&w, &flush);
    assert_int_equal(crn_chain_state(w.c, 1, 1), CRN_LIFE_WRITE_IN_PROGRESS);
    /* (5) read and discarded: the flush under way is ended, the next one is never begun */
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
static void fill(struct world *w, uint64_t n)
{
    uint64_t k;

    for (k = 0; k < n; k++)
        write_now(w, k, 10 * PAGE);
    run_dry(w);
}

static void test_prefetch_in_order(void **state)
{
    struct world w;
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
    /* (3), (4): the next two on the first tier, the six behind them on the second, all held. */
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
    struct world w;
    uint64_t k;
    int tier;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    fill(&w, 12);
    for (k = 0; k < 12; k++)
        assert_ok(crn_chain_hint(w.c, k, ei));
    crn_chain_start(w.c);
    run_dry(&w);
    /* The other way round: nothing that was prefetched is wanted, and yet all is served. */
    for (k = 12; k-- > 0;) {
        assert_int_equal(read_now(&w, k, &tier), CAIRN_OK);
        assert_int_equal(tier, k < 2 ? 0 : k < 8 ? 1 : 2);
        run_dry(&w);
    }
    close_world(&w);
}

static void test_all_pinned_is_passed_over(void **state)
{
    struct world w;
    uint64_t k;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    fill(&w, 12);
    for (k = 0; k < 8; k++)
        assert_ok(crn_chain_hint(w.c, k, ei));
    crn_chain_start(w.c);
    run_dry(&w);
    write_now(&w, 20, 10 * PAGE); /* both arenas hold what must stay */
    assert_int_equal(crn_chain_state(w.c, 20, 0), CRN_LIFE_INIT);
    assert_int_equal(crn_chain_state(w.c, 20, 1), CRN_LIFE_INIT);
    assert_int_equal(crn_chain_state(w.c, 20, 2), CRN_LIFE_WRITE_COMPLETE);
    assert_int_equal(read_now(&w, 20, NULL), CAIRN_OK);
    /* A hint for what was never written does not stop the others for ever. */
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
    struct world w;
    struct crn_transfer t;
    struct crn_errinfo why = {0};
    uint64_t k;

    (void)state;
    open_world(&w, 1, CRN_EVICT_SCORE, 0);
    for (k = 0; k < 2; k++)
        write_now(&w, k, 10 * PAGE);
    /* The capture waits for a window; a flush ends and frees it; prefetching may not take it. */
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

/* A tier dies, with copies under way. ------------------------------------------------------------------ */

static void lose(int tier, uint64_t seed)
{
    struct world w;
    uint64_t key;
    int i;

    open_world(&w, seed, CRN_EVICT_SCORE, 0);
    for (i = 0; i < 300; i++)
        random_step(&w);
    w.lost = tier;
    w.may_lose = 1;
    crn_chain_lost(w.c, tier);
    memset(w.mem[tier], 0xee, tier == 2 ? LASTB : 20 * PAGE); /* nobody may look there again */
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
        if (rc == CAIRN_EDAMAGED) /* said so, and free to be written again */
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

static void test_damaged_source(void **state)
{
    struct crn_transfer t;
    struct world w;
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
    struct crn_transfer t;
    struct crn_spot spot;
    struct world w;
    int tier;

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
    assert_false(crn_chain_released(w.c, &tier, &spot));
    w.c->tier[2].opt.is_told = 1;
    crn_chain_forget(w.c, 3);
    crn_chain_forget(w.c, 99);
    assert_true(crn_chain_released(w.c, &tier, &spot));
    assert_int_equal(tier, 2);
    assert_false(crn_chain_released(w.c, &tier, &spot));
    /* A tier that is not ready yet: nothing goes there, nothing is lost. */
    crn_chain_ready(w.c, 1, 0);
    write_now(&w, 5, 10 * PAGE);
    assert_false(crn_chain_down(w.c, 0, w.now, &t));
    crn_chain_ready(w.c, 1, 1);
    run_dry(&w);
    assert_true(crn_chain_is_flushed(w.c, 5));
    close_world(&w);
}

/* Someone else flushes the last tier. */
static void test_external_tier(void **state)
{
    struct crn_chain_options opt = {.ntiers = 2,
                                    .tier = {{.capacity = 4096}, {.capacity = UINT64_MAX}}};
    struct crn_errinfo why = {0};
    struct crn_transfer t;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),        cmocka_unit_test(test_prefetch_in_order),
        cmocka_unit_test(test_reads_may_deviate), cmocka_unit_test(test_all_pinned_is_passed_over),
        cmocka_unit_test(test_claims_keep_order), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_external_tier),     cmocka_unit_test(test_damaged_source),
        cmocka_unit_test(test_random_lives),      cmocka_unit_test(test_random_failures),
        cmocka_unit_test(test_lost_tier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
