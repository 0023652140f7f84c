/* SPDX-License-Identifier: BSD-3-Clause */
#include "tier/test_world.h"

static unsigned char pattern(uint64_t key, uint64_t i)
{
    return (unsigned char)(key * 31 + i * 7 + (i >> 6));
}

static void check_object(const struct crn_chain *c, const struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++) {
        const struct stay *s = &o->at[t];
        int is_whole = crn_life_is_whole(s->state);
        int has_copy = crn_chain_has_copy_below(c, o, t);

        if (s->state == CRN_LIFE_FLUSHED)
            assert_true(has_copy);
        if (s->state == CRN_LIFE_WRITE_COMPLETE)
            assert_false(has_copy);
        assert_int_equal(s->is_queued, is_whole && !o->is_discarded && crn_chain_below(c, t) >= 0 &&
                                           (!has_copy || crn_chain_object_is_wished(c, o, t)));
        if (s->state != CRN_LIFE_INIT && !c->tier[t].opt.is_external)
            assert_ptr_equal(c->tier[t].space.f[crn_space_at(&c->tier[t].space, s->offset)].owner,
                             o);
        if (s->readers > 0)
            assert_true(is_whole);
    }
}

/* Prefetching into a tier has nothing to do for hints that are not on its list. */
static void check_passed(const struct crn_chain *c, int tier)
{
    const struct hint *h;

    for (h = c->hint_head; h != NULL; h = h->next) {
        const struct object *o = h->o;
        int is_held = 0;
        int is_near = 0;
        int t;

        if (h->at[tier] != 0) {
            assert_ptr_equal(c->tier[tier].todo[h->at[tier] - 1], h);
            continue;
        }
        if (o->is_discarded || o->is_lost || o->hint != h || o->retry_ns != 0 || tier < o->first ||
            c->tier[tier].is_lost)
            continue;
        for (t = 0; t <= tier; t++) {
            is_held |= o->at[t].state == CRN_LIFE_READ_COMPLETE ||
                       o->at[t].state == CRN_LIFE_READ_IN_PROGRESS;
            is_near |= o->at[t].state != CRN_LIFE_INIT;
        }
        if (is_held || crn_chain_rounded(c, tier, o->bytes) > c->tier[tier].space.capacity)
            continue;
        assert_false(crn_life_is_whole(o->at[tier].state)); /* else it would be held now */
        t = crn_chain_below(c, tier);
        assert_true(is_near ||
                    (t >= 0 && crn_chain_rounded(c, t, o->bytes) > c->tier[t].space.capacity));
    }
}

static void check_hints(const struct crn_chain *c)
{
    const struct hint *h;
    size_t missing = 0;

    for (h = c->hint_head; h != NULL; h = h->next) {
        assert_true(h->next == NULL || (h->next->prev == h && h->next->seq > h->seq));
        missing += h->o->hint == h && !crn_chain_object_is_here(c, h->o);
        if (c->held_last == NULL || h->seq > c->held_last->seq) /* held only for a copy in flight */
            assert_true(h->o->hint != h || h->o->at[0].state != CRN_LIFE_READ_COMPLETE ||
                        h->o->at[0].readers > 0);
    }
    assert_int_equal(missing, c->nmissing);
}

void check_chain(const struct crn_chain *c)
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
    check_hints(c);
    for (t = 0; t <= c->last; t++) {
        const struct tier *tier = &c->tier[t];
        const struct object *o;
        uint64_t at = 0;

        assert_true(tier->space.used <= tier->space.capacity);
        if (tier->opt.is_external)
            stays[t] = 0; /* it has no fragments */
        for (i = 0; i < tier->space.n; i++) {
            const struct crn_fragment *f = &tier->space.f[i];

            assert_int_equal(f->offset, at);
            at += f->bytes;
            if (f->owner == NULL)
                continue;
            o = f->owner;
            assert_int_equal(o->at[t].offset, f->offset);
            assert_int_equal(f->bytes, crn_chain_rounded(c, t, o->bytes));
            assert_true(stays[t]-- > 0);
        }
        assert_int_equal(at, tier->space.capacity);
        assert_int_equal(stays[t], 0); /* as many stays as fragments */
        for (i = 0; i < QUEUE_KINDS; i++)
            for (o = tier->queue_head[i]; o != NULL; o = o->at[t].next)
                assert_true(queued[t]-- > 0 && o->at[t].kind == (int)i);
        assert_int_equal(queued[t], 0);
        check_passed(c, t);
    }
}

/* Records which checkpoints are held now. Called after the move, because a new checkpoint may take
 * the place of a held one if nothing else can be evicted. */
static void note_states(struct world_world *w)
{
    int k;
    int t;

    for (k = 0; k < KEYS; k++)
        for (t = 0; t < w->ntiers; t++)
            w->seen[k][t] = crn_chain_state(w->c, (uint64_t)k, t);
}

void check_holds(struct world_world *w)
{
    int k;
    int t;

    for (k = 0; k < KEYS; k++) {
        for (t = 0; t < w->ntiers; t++) {
            enum crn_life now = crn_chain_state(w->c, (uint64_t)k, t);

            if (w->seen[k][t] == CRN_LIFE_READ_COMPLETE && !w->is_gone[k] && t != w->lost &&
                !w->may_lose)
                assert_true(now == CRN_LIFE_READ_COMPLETE || now == CRN_LIFE_CONSUMED);
        }
    }
    note_states(w);
}

/* An external tier has a place for each key. */
static unsigned char *memory_of(struct world_world *w, int tier, const struct crn_spot *spot)
{
    return w->mem[tier] + (w->c->tier[tier].opt.is_external ? spot->key * MAXB : spot->offset);
}

void begin(struct world_world *w, const struct crn_tier_transfer *t)
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
        memcpy(buf, memory_of(w, t->from, &t->src), half);
    if (t->to != CRN_APP)
        memcpy(memory_of(w, t->to, &t->dst), buf, half);
    w->move[w->nmoves] = *t;
    w->half[w->nmoves++] = buf;
}

void finish(struct world_world *w, int m, cairn_err rc)
{
    struct crn_tier_transfer t = w->move[m];
    unsigned char *buf = w->half[m];
    uint64_t half = t.bytes / 2;
    uint64_t i;

    if (t.from != CRN_APP)
        memcpy(buf + half, memory_of(w, t.from, &t.src) + half, t.bytes - half);
    if (t.to != CRN_APP && rc == CAIRN_OK)
        memcpy(memory_of(w, t.to, &t.dst) + half, buf + half, t.bytes - half);
    if (t.to == CRN_APP)
        for (i = 0; i < t.bytes; i++)
            assert_int_equal(buf[i], pattern(t.key, i));
    if (t.to == CRN_APP && w->c->opt.discard_consumed && rc == CAIRN_OK) {
        const struct object *o = crn_chain_object_find(w->c, t.key);

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

void finish_random(struct world_world *w)
{
    int m = (int)crn_rng_below(&w->rng, (uint64_t)w->nmoves);
    const struct crn_tier_transfer *t = &w->move[m];
    int is_background = t->from != CRN_APP && t->to != CRN_APP;
    int fails = is_background && crn_rng_below(&w->rng, 16) < w->fail_in_16;

    finish(w, m, fails || t->from == w->lost || t->to == w->lost ? CAIRN_EIO : CAIRN_OK);
}

int poll_links(struct world_world *w)
{
    struct crn_tier_transfer t;
    int any = 0;
    int i;

    for (i = 0; i < w->ntiers - 1; i++) {
        if (!w->c->tier[i + 1].opt.is_external && crn_chain_down(w->c, i, w->now, &t)) {
            begin(w, &t);
            any = 1;
        }
        if (w->ntiers == 4)
            note_states(w);
        check_holds(w);
        if (!w->c->tier[i].opt.is_behind && crn_chain_up(w->c, i, w->now, &t)) {
            begin(w, &t);
            any = 1;
        }
        check_holds(w);
    }
    check_chain(w->c);
    return any;
}

void run_dry(struct world_world *w)
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

int flush_external(struct world_world *w)
{
    uint64_t first = crn_rng_below(&w->rng, KEYS);
    int last = w->ntiers - 1;
    uint64_t k;
    uint64_t i;

    for (k = 0; k < KEYS; k++) {
        uint64_t key = (first + k) % KEYS;
        const struct object *o = crn_chain_object_find(w->c, key);

        if (o == NULL || o->is_discarded || o->at[last].state != CRN_LIFE_INIT ||
            (!crn_life_is_whole(o->at[1].state) && !crn_life_is_whole(o->at[2].state)))
            continue;
        crn_chain_flushed(w->c, key);
        assert_true(crn_chain_is_flushed(w->c, key));
        for (i = 0; i < o->bytes; i++)
            w->mem[last][key * MAXB + i] = pattern(key, i);
        check_chain(w->c);
        return 1;
    }
    return 0;
}

void open_tiers(struct world_world *w, int ntiers, uint64_t seed, enum crn_evict policy,
                int discard)
{
    struct crn_chain_options opt = {
        .policy = policy, .discard_consumed = discard, .ntiers = (uint32_t)ntiers};
    uint64_t capacity[NTIERS] = {20 * PAGE, 60 * PAGE, ntiers == 3 ? LASTB : 90 * PAGE, LASTB};
    int t;

    memset(w, 0, sizeof(*w));
    crn_rng_seed(&w->rng, seed);
    w->lost = -1;
    w->ntiers = ntiers;
    opt.tier[2].is_behind = ntiers == 4;
    opt.tier[3].is_external = 1;
    for (t = 0; t < ntiers; t++) {
        opt.tier[t].capacity = capacity[t];
        opt.tier[t].align = PAGE;
        opt.tier[t].depth = 1 + (uint32_t)(seed / 2 % 2);
        w->mem[t] = calloc(1, capacity[t]);
        assert_non_null(w->mem[t]);
    }
    assert_ok(crn_chain_open(&opt, &w->c, ei));
}

void open_world(struct world_world *w, uint64_t seed, enum crn_evict policy, int discard)
{
    open_tiers(w, 3, seed, policy, discard);
}

void close_world(struct world_world *w)
{
    int t;

    while (w->nmoves > 0)
        finish_random(w);
    crn_chain_close(w->c);
    for (t = 0; t < w->ntiers; t++)
        free(w->mem[t]);
}

static cairn_err start_write(struct world_world *w, uint64_t key, uint64_t bytes)
{
    struct crn_errinfo why = {0};
    struct crn_tier_transfer t;
    cairn_err rc = crn_chain_write(w->c, key, bytes, 0, w->now, &t, &why);

    if (rc != CAIRN_OK)
        return rc;
    w->bytes[key] = bytes;
    if (w->ntiers == 4)
        note_states(w);
    begin(w, &t);
    return CAIRN_OK;
}

void write_now(struct world_world *w, uint64_t key, uint64_t bytes)
{
    int rounds = 0;

    while (start_write(w, key, bytes) != CAIRN_OK) {
        assert_true(++rounds < 10000); /* cannot get stuck: the last tier has space for all */
        w->now += TICK_NS;
        if (poll_links(w))
            continue;
        if (w->nmoves > 0)
            finish_random(w);
        else if (crn_chain_retry_ns(w->c, w->now) < INT64_MAX)
            w->now = crn_chain_retry_ns(w->c, w->now);
        else
            assert_true(w->ntiers == 4 && flush_external(w));
    }
    finish(w, w->nmoves - 1, CAIRN_OK);
}

cairn_err read_now(struct world_world *w, uint64_t key, int *ret_tier)
{
    struct crn_tier_transfer t;
    cairn_err rc;

    for (;;) {
        struct crn_errinfo why = {0};

        rc = crn_chain_read(w->c, key, w->now, &t, &why);
        if (rc != CAIRN_EBUSY)
            break;
        assert_true(w->nmoves > 0); /* a copy in flight brings it */
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
