/* SPDX-License-Identifier: BSD-3-Clause */
/* How captures, reads and flushes begin, how every copy ends, and the consequences of losing,
 * discarding and forgetting. chain_room.c finds space, and chain_hints.c chooses the next hint. */
#include "tier/chain.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tier/chain_impl.h"

#define FIRST_HASH  256
#define DEFAULT_BPS 1e9
#define ALIGN       4096

/* Call after every change: updates holds and flush queues, and forgets an empty object. May free
 * o. */
static void chain_settle(struct crn_chain *c, struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++)
        if (c->tier[t].is_lost && crn_life_is_whole(o->at[t].state) && o->at[t].readers == 0)
            crn_stay_end(c, o, t, CRN_LIFE_LOST);
    crn_chain_object_unhold(c, o);
    if (o->is_discarded)
        crn_chain_object_drop(c, o);
    crn_chain_object_requeue(c, o);
    crn_hint_touch(c, o);
    if (!o->is_discarded && o->bytes > 0 && !o->is_lost && !crn_chain_object_is_here(c, o)) {
        o->is_lost = 1;
        o->is_lost_told = 0;
        c->nlost++;
        c->lost_at = 0;
    }
    crn_chain_object_forget_if_empty(c, o);
}

/* Captures and reads. -------------------------------------------------------------------------- */

static void chain_describe(struct crn_tier_transfer *ret, const struct object *o, int from, int to,
                           int64_t now_ns)
{
    *ret = (struct crn_tier_transfer){
        .key = o->key, .bytes = o->bytes, .from = from, .to = to, .start_ns = now_ns};
    if (from != CRN_APP)
        ret->src = (struct crn_spot){o->at[from].id, o->at[from].offset, o->key};
    if (to != CRN_APP)
        ret->dst = (struct crn_spot){o->at[to].id, o->at[to].offset, o->key};
}

static cairn_err no_room(const struct crn_chain *c, uint64_t bytes, struct crn_errinfo *ei)
{
    uint64_t most = 0;
    int t;

    for (t = 0; t <= c->last; t++)
        if (!c->tier[t].is_lost && crn_chain_takes_captures(&c->tier[t]) &&
            c->tier[t].space.capacity > most)
            most = c->tier[t].space.capacity;
    if (bytes > most)
        return crn_fail(ei, CAIRN_ENOSPC, 0,
                        "a checkpoint of %" PRIu64 " bytes is larger than every tier; the largest "
                        "has %" PRIu64 " bytes",
                        bytes, most);
    return crn_fail(ei, CAIRN_EBUSY, 0, "all tiers are full of checkpoints that must stay");
}

cairn_err crn_chain_write(struct crn_chain *c, uint64_t key, uint64_t bytes, int first,
                          int64_t now_ns, struct crn_tier_transfer *ret, struct crn_errinfo *ei)
{
    struct object *o;
    enum room r;
    cairn_err rc;
    int t;

    rc = crn_chain_object_make(c, key, &o, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (crn_chain_object_is_here(c, o))
        return crn_fail(ei, CAIRN_EINVAL, 0, "checkpoint %" PRIu64 " is in the tier cache already",
                        key);
    crn_chain_give_up(c);
    o->bytes = bytes != 0 ? bytes : 1;
    o->first = first;
    r = crn_chain_room_need(c, o, first, WHO_WRITE, now_ns, &t);
    if (r == ROOM_MADE) {
        crn_chain_object_unlose(c, o);
        o->is_discarded = 0;
        chain_describe(ret, o, CRN_APP, t, now_ns);
        ret->bytes = bytes;
        return CAIRN_OK;
    }
    o->bytes = 0;
    crn_chain_object_forget_if_empty(c, o);
    if (r == ROOM_WAIT)
        return crn_fail(ei, CAIRN_EBUSY, 0, "no space on the tiers until a flush ends");
    return no_room(c, bytes, ei);
}

void crn_chain_give_up(struct crn_chain *c)
{
    int t;

    for (t = 0; t <= c->last; t++)
        c->tier[t].claim[WHO_WRITE].is_set = 0;
}

cairn_err crn_chain_read(struct crn_chain *c, uint64_t key, int64_t now_ns,
                         struct crn_tier_transfer *ret, struct crn_errinfo *ei)
{
    struct object *o = crn_chain_object_find(c, key);
    int t;

    if (o == NULL || o->is_discarded || (o->bytes == 0 && !o->is_lost))
        return crn_fail(ei, CAIRN_ENOENT, 0, "checkpoint %" PRIu64 " is not in the tier cache",
                        key);
    for (t = 0; t <= c->last; t++) {
        struct stay *s = &o->at[t];

        if (s->state == CRN_LIFE_READ_IN_PROGRESS)
            return crn_fail(ei, CAIRN_EBUSY, 0, "the checkpoint is being prefetched");
        if (!crn_life_is_whole(s->state) || c->tier[t].is_lost)
            continue;
        if (c->tier[t].opt.is_external) {
            crn_chain_skip(c, key);
            return crn_fail(ei, CAIRN_ENOENT, 0, "checkpoint %" PRIu64 " is in no memory", key);
        }
        chain_describe(ret, o, t, CRN_APP, now_ns);
        ret->distance = crn_hint_distance(c, o);
        crn_hint_take(c, o); /* the hint is consumed; no prefetch is needed */
        crn_stay_take(c, o, t);
        s->used = ++c->tick;
        return CAIRN_OK;
    }
    if (crn_chain_object_is_here(c, o))
        return crn_fail(ei, CAIRN_EBUSY, 0, "the checkpoint is being written");
    return crn_fail(ei, CAIRN_EDAMAGED, 0,
                    "checkpoint %" PRIu64 " was lost with the tier that held it", key);
}

/* The end of a copy. --------------------------------------------------------------------------- */

/* Ends the use of the source. A bad source is dropped, and another copy takes its place. */
static void end_source(struct crn_chain *c, struct object *o, const struct crn_tier_transfer *t,
                       cairn_err rc)
{
    struct stay *s = &o->at[t->from];

    assert(s->readers > 0 && s->id == t->src.id);
    s->readers--;
    s->takers -= t->to < t->from;
    s->is_moving = s->is_moving && t->to < t->from; /* only the end of a flush clears it */
    if (rc == CAIRN_EDAMAGED && s->readers == 0)
        crn_stay_end(c, o, t->from, CRN_LIFE_LOST);
}

static void end_target(struct crn_chain *c, struct object *o, const struct crn_tier_transfer *t,
                       cairn_err rc)
{
    struct stay *s = &o->at[t->to];
    int is_read = s->state == CRN_LIFE_READ_IN_PROGRESS;

    assert(s->id == t->dst.id);
    if (c->tier[t->to].is_lost)
        crn_stay_end(c, o, t->to, CRN_LIFE_LOST);
    else if (rc != CAIRN_OK)
        crn_stay_end(c, o, t->to, CRN_LIFE_FAIL);
    else
        crn_stay_move(o, t->to, is_read ? CRN_LIFE_READ_END : CRN_LIFE_WRITE_END);
}

static void note_failure(struct crn_chain *c, struct object *o, cairn_err rc, int64_t now_ns)
{
    if (rc == CAIRN_OK) {
        o->pause_ns = 0;
        crn_chain_object_note_retry(c, o, 0);
        return;
    }
    o->pause_ns = o->pause_ns == 0 || rc == CAIRN_EBUSY ? RETRY_NS : 2 * o->pause_ns;
    if (o->pause_ns > RETRY_MAX)
        o->pause_ns = RETRY_MAX;
    crn_chain_object_note_retry(c, o, now_ns + o->pause_ns);
}

cairn_err crn_chain_done(struct crn_chain *c, const struct crn_tier_transfer *t, cairn_err rc,
                         int64_t now_ns)
{
    struct object *o = crn_chain_object_find(c, t->key);

    assert(o != NULL);
    if (rc == CAIRN_OK && t->to != CRN_APP && c->tier[t->to].is_lost)
        rc = CAIRN_EDEVICE;
    if (t->from != CRN_APP && t->to != CRN_APP) {
        crn_chain_link_end(t->from < t->to ? &c->tier[t->from].down : &c->tier[t->to].up, t, rc,
                           now_ns);
        note_failure(c, o, rc, now_ns);
    }
    if (t->to != CRN_APP)
        end_target(c, o, t, rc);
    if (t->from != CRN_APP)
        end_source(c, o, t, rc);
    if (t->to == CRN_APP && rc == CAIRN_OK && c->opt.discard_consumed && o->nhints == 0)
        o->is_discarded = 1;
    if (t->from == CRN_APP && !crn_chain_object_is_here(c, o))
        o->bytes = 0; /* never written: the caller may retry */
    chain_settle(c, o);
    return rc;
}

int64_t crn_chain_retry_ns(const struct crn_chain *c, int64_t now_ns)
{
    int64_t first = INT64_MAX;
    const struct object *o;

    for (o = c->failed; o != NULL; o = o->failed_next)
        if (o->retry_ns > now_ns && o->retry_ns < first)
            first = o->retry_ns;
    return first;
}

/* Flushes. ------------------------------------------------------------------------------------- */

static struct object *first_in(struct crn_chain *c, int tier, enum queue_kind kind, int64_t now_ns)
{
    struct object *o = c->tier[tier].queue_head[kind];

    while (o != NULL && (o->retry_ns > now_ns || o->at[tier].is_moving)) {
        c->work++;
        o = o->at[tier].next;
    }
    return o;
}

/* The first flush that is due; a wish if none is. */
static struct object *next_flush(struct crn_chain *c, int tier, int64_t now_ns)
{
    struct object *o = first_in(c, tier, QUEUE_DUE, now_ns);

    if (o == NULL && c->is_draining)
        o = first_in(c, tier, QUEUE_SPARED, now_ns);
    return o != NULL ? o : first_in(c, tier, QUEUE_WISH, now_ns);
}

static int has_queue(const struct crn_chain *c, int tier)
{
    int k;

    for (k = 0; k < QUEUE_KINDS; k++)
        if (c->tier[tier].queue_head[k] != NULL)
            return 1;
    return 0;
}

int crn_chain_wants_down(const struct crn_chain *c, int tier)
{
    const struct tier *from = &c->tier[tier];

    return has_queue(c, tier) && from->down.busy < from->opt.depth && !from->is_lost;
}

int crn_chain_down(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret)
{
    struct tier *from = &c->tier[tier];
    enum room r = ROOM_NONE;
    struct object *o;
    int is_wished;
    int t;

    do {
        for (t = tier + 1; t <= c->last; t++)
            c->tier[t].claim[WHO_DOWN].is_set = 0;
        o = crn_chain_wants_down(c, tier) ? next_flush(c, tier, now_ns) : NULL;
        if (o == NULL)
            return 0;
        is_wished = crn_chain_object_is_wished(c, o, tier);
        r = is_wished ? crn_chain_room_find(c, o, tier + 1, WHO_WISH, now_ns, &t)
                      : crn_chain_room_need(c, o, tier + 1, WHO_DOWN, now_ns, &t);
        if (r != ROOM_MADE && is_wished) {
            o->at[tier].is_declined = 1;
            crn_chain_object_requeue(c, o);
        }
    } while (r != ROOM_MADE && is_wished);
    from->is_stuck = r != ROOM_MADE;
    if (from->is_stuck)
        return 0;
    o->at[tier].readers++;
    o->at[tier].is_moving = 1;
    chain_describe(ret, o, tier, t, now_ns);
    crn_chain_link_begin(&from->down, ret);
    return 1;
}

void crn_chain_flushed(struct crn_chain *c, uint64_t key)
{
    struct object *o = crn_chain_object_find(c, key);
    int64_t now_ns = 0;

    if (o == NULL || !c->tier[c->last].opt.is_external || o->at[c->last].state != CRN_LIFE_INIT)
        return;
    if (crn_chain_room_make(c, o, c->last, WHO_DOWN, CRN_LIFE_WRITE_BEGIN, now_ns) == ROOM_MADE)
        crn_stay_move(o, c->last, CRN_LIFE_WRITE_END);
    chain_settle(c, o);
}

/* The rest. ------------------------------------------------------------------------------------ */

void crn_chain_skip(struct crn_chain *c, uint64_t key)
{
    struct object *o = crn_chain_object_find(c, key);

    if (o == NULL)
        return;
    crn_hint_take(c, o);
    if (c->opt.discard_consumed && o->nhints == 0 && o->bytes > 0)
        o->is_discarded = 1;
    chain_settle(c, o);
}

void crn_chain_unhint(struct crn_chain *c, uint64_t key)
{
    struct object *o = crn_chain_object_find(c, key);

    if (o == NULL)
        return;
    crn_hint_drop_all(c, o);
    chain_settle(c, o);
}

void crn_chain_forget(struct crn_chain *c, uint64_t key)
{
    struct object *o = crn_chain_object_find(c, key);

    if (o == NULL)
        return;
    crn_hint_drop_all(c, o);
    o->is_discarded = 1;
    crn_chain_object_unlose(c, o);
    chain_settle(c, o);
}

cairn_err crn_chain_adopt(struct crn_chain *c, uint64_t key, uint64_t bytes, int first,
                          struct crn_errinfo *ei)
{
    struct object *o;
    cairn_err rc;

    rc = crn_chain_object_make(c, key, &o, ei);
    if (rc != CAIRN_OK || crn_chain_object_is_here(c, o))
        return rc;
    o->bytes = bytes != 0 ? bytes : 1;
    o->first = first;
    if (crn_chain_room_make(c, o, c->last, WHO_WRITE, CRN_LIFE_WRITE_BEGIN, 0) != ROOM_MADE) {
        o->bytes = 0;
        crn_chain_object_forget_if_empty(c, o);
        return crn_fail(ei, CAIRN_ENOSPC, 0, "the last tier has no space");
    }
    crn_stay_move(o, c->last, CRN_LIFE_WRITE_END);
    chain_settle(c, o);
    return CAIRN_OK;
}

cairn_err crn_chain_import(struct crn_chain *c, uint64_t key, uint64_t bytes, int tier,
                           uint64_t offset, struct crn_errinfo *ei)
{
    struct tier *t = &c->tier[tier];
    uint64_t size = bytes;
    const struct crn_fragment *gap;
    struct object *o;
    cairn_err rc;

    rc = crn_space_reserve(&t->space, ei);
    if (rc == CAIRN_OK)
        rc = crn_chain_object_make(c, key, &o, ei);
    if (rc != CAIRN_OK)
        return rc;
    gap = offset < t->space.capacity ? &t->space.f[crn_space_at(&t->space, offset)] : NULL;
    if (gap == NULL || gap->owner != NULL || crn_chain_object_is_here(c, o)) {
        crn_chain_object_forget_if_empty(c, o);
        return crn_fail(ei, CAIRN_EINVAL, 0, "checkpoint %" PRIu64 " is not there", key);
    }
    if (size > gap->offset + gap->bytes - offset)
        size = gap->offset + gap->bytes - offset; /* its end may lie past the last whole unit */
    o->bytes = bytes;
    o->first = tier;
    crn_stay_begin(c, o, tier, CRN_LIFE_WRITE_BEGIN, offset, size);
    crn_stay_move(o, tier, CRN_LIFE_WRITE_END);
    chain_settle(c, o);
    return CAIRN_OK;
}

int crn_chain_has_lost(const struct crn_chain *c)
{
    return c->nlost > 0;
}

int crn_chain_next_lost(struct crn_chain *c, uint64_t *ret_key)
{
    struct object *o;
    size_t i;

    for (i = c->lost_at; c->nlost > 0 && i < c->nhash; c->lost_at = ++i) {
        c->work++;
        for (o = c->hash[i]; o != NULL; o = o->hash_next) {
            if (!o->is_lost || o->is_lost_told)
                continue;
            o->is_lost_told = 1;
            c->nlost--;
            *ret_key = o->key;
            return 1;
        }
    }
    return 0;
}

void crn_chain_drain(struct crn_chain *c, int is_on)
{
    c->is_draining = is_on; /* spared flushes are due now */
}

cairn_err crn_chain_grow(struct crn_chain *c, int tier, uint64_t capacity, struct crn_errinfo *ei)
{
    struct tier *t = &c->tier[tier];
    struct crn_space space;
    cairn_err rc;

    assert(t->space.capacity == 0);
    rc = crn_space_init(&space, capacity / t->opt.align * t->opt.align, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_space_fini(&t->space);
    t->space = space;
    t->opt.capacity = capacity;
    crn_hint_touch_all(c);
    return CAIRN_OK;
}

void crn_chain_ready(struct crn_chain *c, int tier, int is_ready)
{
    c->tier[tier].is_ready = is_ready;
    crn_hint_touch_all(c);
}

void crn_chain_lost(struct crn_chain *c, int tier)
{
    size_t i;

    c->tier[tier].is_lost = 1;
    for (i = 0; i < c->nhash; i++) {
        struct object *o = c->hash[i];

        while (o != NULL) {
            struct object *next = o->hash_next;

            if (o->bytes > 0)
                chain_settle(c, o);
            o = next;
        }
    }
    crn_hint_touch_all(c);
}

uint64_t crn_chain_work(const struct crn_chain *c)
{
    return c->work;
}

enum crn_life crn_chain_state(const struct crn_chain *c, uint64_t key, int tier)
{
    const struct object *o = crn_chain_object_find(c, key);

    return o != NULL ? o->at[tier].state : CRN_LIFE_INIT;
}

int crn_chain_is_flushed(const struct crn_chain *c, uint64_t key)
{
    return crn_life_is_whole(crn_chain_state(c, key, c->last));
}

int crn_chain_is_idle(const struct crn_chain *c)
{
    int t;

    for (t = 0; t <= c->last; t++)
        if (has_queue(c, t))
            return 0;
    return 1;
}

int crn_chain_is_stuck(const struct crn_chain *c, int tier)
{
    return c->tier[tier].is_stuck;
}

const struct crn_space *crn_chain_space(const struct crn_chain *c, int tier)
{
    return &c->tier[tier].space;
}

/* Life of the chain. --------------------------------------------------------------------------- */

cairn_err crn_chain_open(const struct crn_chain_options *options, struct crn_chain **ret,
                         struct crn_errinfo *ei)
{
    struct crn_chain *c = calloc(1, sizeof(*c));
    cairn_err rc = CAIRN_OK;
    uint32_t i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chain of tiers");
    assert(options->ntiers >= 1 && options->ntiers <= CRN_TIERS_MAX);
    c->opt = *options;
    c->last = (int)options->ntiers - 1;
    c->nhash = FIRST_HASH;
    c->hash = calloc(c->nhash, sizeof(struct object *));
    if (c->hash == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a chain of tiers");
    for (i = 0; rc == CAIRN_OK && i < options->ntiers; i++) {
        struct tier *t = &c->tier[i];

        t->opt = options->tier[i];
        t->is_ready = 1;
        t->opt.align = t->opt.align != 0 ? t->opt.align : ALIGN;
        t->opt.depth = t->opt.depth != 0 ? t->opt.depth : 1;
        t->down.bps = t->opt.down_bps > 0 ? t->opt.down_bps : DEFAULT_BPS;
        t->up.bps = t->opt.up_bps > 0 ? t->opt.up_bps : DEFAULT_BPS;
        rc = crn_space_init(&t->space, t->opt.capacity / t->opt.align * t->opt.align, ei);
    }
    if (rc != CAIRN_OK) {
        crn_chain_close(c);
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

void crn_chain_close(struct crn_chain *c)
{
    size_t i;

    if (c == NULL)
        return;
    for (i = 0; c->hash != NULL && i < c->nhash; i++) {
        while (c->hash[i] != NULL) {
            struct object *o = c->hash[i];

            c->hash[i] = o->hash_next;
            free(o);
        }
    }
    for (i = 0; i < CRN_TIERS_MAX; i++) {
        crn_space_fini(&c->tier[i].space);
        free(c->tier[i].todo);
    }
    free(c->hash);
    while (c->hint_head != NULL) {
        struct hint *h = c->hint_head;

        c->hint_head = h->next;
        free(h);
    }
    free(c);
}
