/* SPDX-License-Identifier: BSD-3-Clause */
/* Space on a tier: the cost of each fragment (how long until it may be evicted, how soon it is read
 * again), the best window, and its eviction. A requester that must wait for a window claims it;
 * requesters of lower priority (captures first, then flushes, then prefetches) look elsewhere. */
#include "tier/chain_impl.h"

#define WEIGHT 0.25 /* of the newest measurement in a link's bandwidth */

/* Bandwidths. ---------------------------------------------------------------------------------- */

void crn_chain_link_begin(struct chain_link *l, const struct crn_tier_transfer *t)
{
    if (l->busy++ == 0)
        l->last_ns = t->start_ns;
    l->bytes += t->bytes;
}

void crn_chain_link_end(struct chain_link *l, const struct crn_tier_transfer *t, cairn_err rc,
                        int64_t now_ns)
{
    /* Copies share the link: count each from the end of the previous one. */
    int64_t took = now_ns - (t->start_ns > l->last_ns ? t->start_ns : l->last_ns);

    l->busy--;
    l->bytes -= t->bytes;
    l->last_ns = now_ns;
    if (rc == CAIRN_OK && took > 0)
        l->bps = (1 - WEIGHT) * l->bps + WEIGHT * ((double)t->bytes * 1e9 / (double)took);
}

static uint64_t cost_ns(const struct chain_link *l, uint64_t bytes)
{
    double ns = (double)bytes * 1e9 / l->bps;

    return ns < 1e18 ? (uint64_t)ns + 1 : (uint64_t)1e18; /* a pending flush never costs 0 */
}

static uint64_t left_ns(const struct chain_link *l, int64_t now_ns)
{
    uint64_t end = (uint64_t)l->last_ns + cost_ns(l, l->bytes);

    if (l->busy == 0)
        return 0;
    return end > (uint64_t)now_ns ? end - (uint64_t)now_ns : 1;
}

/* Scores. -------------------------------------------------------------------------------------- */

static void set_eta(struct tier *t, int tier, struct object *o, int64_t now_ns, uint64_t *eta)
{
    if (o->at[tier].is_moving) {
        o->at[tier].eta_ns = left_ns(&t->down, now_ns);
    } else if (o->retry_ns > now_ns) {
        o->at[tier].eta_ns = CRN_PINNED; /* it failed: do not rely on it */
    } else {
        *eta += cost_ns(&t->down, o->bytes);
        o->at[tier].eta_ns = *eta;
    }
}

/* Estimates when each pending flush of a tier ends. Returns the end of the last one. */
static uint64_t set_etas(struct crn_chain *c, int tier, int64_t now_ns)
{
    struct tier *t = &c->tier[tier];
    uint64_t eta = left_ns(&t->down, now_ns);
    struct object *o;
    int k;

    for (k = 0; k < QUEUE_KINDS; k++) {
        for (o = t->queue_head[k]; o != NULL; o = o->at[tier].next) {
            c->work++;
            set_eta(t, tier, o, now_ns, &eta);
        }
    }
    return eta;
}

static uint64_t wait_of(const struct crn_chain *c, const struct object *o, int tier,
                        uint64_t all_flushed_ns)
{
    const struct stay *s = &o->at[tier];
    int has_copy = crn_chain_has_copy_below(c, o, tier);

    if (s->readers == 0 && crn_life_may_evict(s->state, has_copy, o->is_discarded))
        return 0;
    if (s->state == CRN_LIFE_READ_IN_PROGRESS || s->state == CRN_LIFE_READ_COMPLETE)
        return CRN_PINNED;
    if (s->is_queued)
        return s->eta_ns;
    if (s->state == CRN_LIFE_WRITE_IN_PROGRESS && crn_chain_below(c, tier) >= 0)
        return all_flushed_ns + cost_ns(&c->tier[tier].down, o->bytes);
    return CRN_PINNED; /* the only copy, or being read */
}

static int is_claimed(const struct tier *t, const struct crn_fragment *f, enum who who)
{
    int i;

    for (i = 0; i < (int)who; i++) {
        const struct claim *claim = &t->claim[i];

        if (claim->is_set && claim->offset < f->offset + f->bytes &&
            f->offset < claim->offset + claim->bytes)
            return 1;
    }
    return 0;
}

static void set_scores(struct crn_chain *c, int tier, enum who who, int64_t now_ns)
{
    struct tier *t = &c->tier[tier];
    uint64_t all_flushed_ns = set_etas(c, tier, now_ns);
    size_t i;

    c->work += t->space.n;
    for (i = 0; i < t->space.n; i++) {
        struct crn_fragment *f = &t->space.f[i];
        const struct object *o = f->owner;

        f->wait_ns = f->near = f->age = 0;
        if (o != NULL) {
            f->wait_ns = wait_of(c, o, tier, all_flushed_ns);
            f->near = crn_hint_near(c, o, tier);
            f->age = c->opt.policy == CRN_EVICT_FIFO ? o->at[tier].born : o->at[tier].used;
        }
        if (is_claimed(t, f, who))
            f->wait_ns = CRN_PINNED;
    }
}

/* Eviction. ------------------------------------------------------------------------------------ */

static void chain_room_evict(struct crn_chain *c, int tier, const struct crn_window *w)
{
    struct crn_space *s = &c->tier[tier].space;
    uint64_t end = w->offset + w->bytes;
    uint64_t at = w->offset;

    while (at < end) {
        const struct crn_fragment *f = &s->f[crn_space_at(s, at)];
        struct object *o = f->owner;

        at = f->offset + f->bytes;
        if (o == NULL)
            continue;
        crn_stay_end(c, o, tier, CRN_LIFE_EVICT);
        crn_chain_object_requeue(c, o);
    }
}

/* Finds a place without eviction. The first gap is what a search over all fragments would find. An
 * external tier has no places. */
static int find_place(struct crn_chain *c, int tier, enum who who, uint64_t bytes, uint64_t *ret)
{
    struct tier *t = &c->tier[tier];
    size_t i;

    *ret = 0;
    if (t->opt.is_external)
        return 1;
    i = crn_space_gap(&t->space, bytes);
    c->work++;
    if (i == t->space.n || is_claimed(t, &t->space.f[i], who) ||
        crn_space_reserve(&t->space, NULL) != CAIRN_OK)
        return 0;
    *ret = t->space.f[i].offset;
    return 1;
}

enum room crn_chain_room_make(struct crn_chain *c, struct object *o, int tier, enum who who,
                              enum crn_life_event event, int64_t now_ns)
{
    struct tier *t = &c->tier[tier];
    struct claim *claim = &t->claim[who];
    uint64_t bytes = crn_chain_rounded(c, tier, o->bytes);
    struct crn_window w;
    uint64_t at;

    claim->is_set = 0;
    if (t->is_lost || bytes > t->space.capacity)
        return ROOM_NONE;
    if (!t->is_ready)
        return ROOM_WAIT;
    if (find_place(c, tier, who, bytes, &at)) {
        crn_stay_begin(c, o, tier, event, at, bytes);
        return ROOM_MADE;
    }
    set_scores(c, tier, who, now_ns);
    if (crn_space_reserve(&t->space, NULL) != CAIRN_OK ||
        !crn_window_find(&t->space, c->opt.policy, bytes, &w))
        return ROOM_NONE;
    if (who == WHO_WISH &&
        (w.wait_ns > 0 || w.near >= crn_hint_near(c, o, tier) * (bytes / CRN_NEAR_PAGE)))
        return ROOM_NONE;
    if (w.wait_ns > 0) {
        *claim = (struct claim){1, w.offset, w.bytes};
        return ROOM_WAIT;
    }
    chain_room_evict(c, tier, &w);
    crn_stay_begin(c, o, tier, event, w.offset, bytes);
    return ROOM_MADE;
}

/* Choosing a tier. ----------------------------------------------------------------------------- */

int crn_chain_takes_captures(const struct tier *t)
{
    return !t->opt.is_external && !t->opt.is_behind;
}

enum room crn_chain_room_find(struct crn_chain *c, struct object *o, int first, enum who who,
                              int64_t now_ns, int *ret_to)
{
    enum room r = ROOM_NONE;
    int t;

    for (t = first; t <= c->last && r == ROOM_NONE; t++)
        if (crn_chain_takes_captures(&c->tier[t]) || (c->tier[t].opt.is_behind && t == first))
            r = crn_chain_room_make(c, o, t, who, CRN_LIFE_WRITE_BEGIN, now_ns);
    *ret_to = t - 1;
    return r;
}

/* Ends the holds on a checkpoint on all tiers that could take an object of this size; it may be
 * prefetched again later. 1 if there were any. */
static int unhold_from(struct crn_chain *c, struct object *o, int first, uint64_t bytes)
{
    int is_free = 0;
    int t;

    for (t = first; t <= c->last; t++) {
        if (!crn_chain_takes_captures(&c->tier[t]) ||
            crn_chain_rounded(c, t, bytes) > c->tier[t].space.capacity ||
            o->at[t].state != CRN_LIFE_READ_COMPLETE || o->at[t].readers > 0 ||
            !crn_chain_has_copy_below(c, o, t))
            continue;
        crn_stay_move(o, t, CRN_LIFE_CONSUME);
        crn_hint_touch(c, o);
        is_free = 1;
    }
    return is_free;
}

enum room crn_chain_room_need(struct crn_chain *c, struct object *o, int first, enum who who,
                              int64_t now_ns, int *ret_to)
{
    enum room r = crn_chain_room_find(c, o, first, who, now_ns, ret_to);
    struct hint *h = c->held_last;

    while (r == ROOM_NONE && h != NULL) {
        int is_free = unhold_from(c, h->o, first, o->bytes);

        c->work++;
        h = h->prev;
        if (is_free)
            r = crn_chain_room_find(c, o, first, who, now_ns, ret_to);
    }
    return r;
}
