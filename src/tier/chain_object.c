/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects and their stays: found by key, moved by the table of life.h, and queued for a flush
 * exactly while no slower tier has them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/chain_impl.h"

/* Objects. ------------------------------------------------------------------------------------- */

static size_t slot_of(uint64_t key, size_t nhash)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (nhash - 1);
}

struct object *crn_chain_object_find(const struct crn_chain *c, uint64_t key)
{
    struct object *o = c->hash[slot_of(key, c->nhash)];

    while (o != NULL && o->key != key)
        o = o->hash_next;
    return o;
}

static void grow_hash(struct crn_chain *c)
{
    size_t n = 2 * c->nhash;
    struct object **hash = calloc(n, sizeof(struct object *));
    size_t i;

    if (hash == NULL)
        return; /* only makes the hash chains longer */
    for (i = 0; i < c->nhash; i++) {
        while (c->hash[i] != NULL) {
            struct object *o = c->hash[i];

            c->hash[i] = o->hash_next;
            o->hash_next = hash[slot_of(o->key, n)];
            hash[slot_of(o->key, n)] = o;
        }
    }
    free(c->hash);
    c->hash = hash;
    c->nhash = n;
    c->lost_at = 0;
}

cairn_err crn_chain_object_make(struct crn_chain *c, uint64_t key, struct object **ret,
                                struct crn_errinfo *ei)
{
    struct object *o = crn_chain_object_find(c, key);
    struct object **slot;

    if (o == NULL) {
        o = calloc(1, sizeof(*o));
        if (o == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a checkpoint in the tier cache");
        o->key = key;
        if (c->nobjects >= c->nhash)
            grow_hash(c);
        slot = &c->hash[slot_of(key, c->nhash)];
        o->hash_next = *slot;
        *slot = o;
        c->nobjects++;
    }
    *ret = o;
    return CAIRN_OK;
}

int crn_chain_object_is_here(const struct crn_chain *c, const struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++)
        if (o->at[t].state != CRN_LIFE_INIT)
            return 1;
    return 0;
}

void crn_chain_object_forget_if_empty(struct crn_chain *c, struct object *o)
{
    struct object **p = &c->hash[slot_of(o->key, c->nhash)];

    if (crn_chain_object_is_here(c, o) || o->nhints > 0 || o->is_lost)
        return;
    while (*p != o)
        p = &(*p)->hash_next;
    *p = o->hash_next;
    c->nobjects--;
    crn_chain_object_note_retry(c, o, 0);
    free(o);
}

void crn_chain_object_unlose(struct crn_chain *c, struct object *o)
{
    c->nlost -= o->is_lost && !o->is_lost_told;
    o->is_lost = 0;
}

void crn_chain_object_note_retry(struct crn_chain *c, struct object *o, int64_t retry_ns)
{
    if (o->retry_ns == 0 && retry_ns != 0) {
        o->failed_next = c->failed;
        o->failed_prev = NULL;
        if (c->failed != NULL)
            c->failed->failed_prev = o;
        c->failed = o;
    } else if (o->retry_ns != 0 && retry_ns == 0) {
        *(o->failed_prev != NULL ? &o->failed_prev->failed_next : &c->failed) = o->failed_next;
        if (o->failed_next != NULL)
            o->failed_next->failed_prev = o->failed_prev;
        crn_hint_touch(c, o);
    }
    o->retry_ns = retry_ns;
}

int crn_chain_below(const struct crn_chain *c, int tier)
{
    int t;

    for (t = tier + 1; t <= c->last; t++)
        if (!c->tier[t].is_lost)
            return t;
    return -1;
}

int crn_chain_has_copy_below(const struct crn_chain *c, const struct object *o, int tier)
{
    int t;

    for (t = tier + 1; t <= c->last; t++)
        if (!c->tier[t].is_lost && crn_life_is_whole(o->at[t].state))
            return 1;
    return 0;
}

uint64_t crn_chain_rounded(const struct crn_chain *c, int tier, uint64_t bytes)
{
    uint64_t align = c->tier[tier].opt.align;
    uint64_t least = c->tier[tier].opt.least;

    bytes = bytes > least ? bytes : least;
    return (bytes / align + (bytes % align != 0 || bytes == 0)) * align;
}

/* Stays. --------------------------------------------------------------------------------------- */

void crn_stay_move(struct object *o, int tier, enum crn_life_event event)
{
    int moved = crn_life_move(&o->at[tier].state, event);

    assert(moved);
    (void)moved;
}

void crn_stay_begin(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event,
                    uint64_t offset, uint64_t bytes)
{
    struct stay *s = &o->at[tier];

    c->nmissing -= o->nhints > 0 && !crn_chain_object_is_here(c, o);
    if (c->tier[tier].opt.is_external)
        c->tier[tier].space.used += bytes; /* an external tier has no fragments */
    else
        crn_space_put(&c->tier[tier].space, offset, bytes, o);
    memset(s, 0, sizeof(*s));
    s->id = ++c->next_id;
    s->offset = offset;
    s->born = s->used = ++c->tick;
    crn_stay_move(o, tier, event);
}

void crn_chain_object_unhold(struct crn_chain *c, struct object *o)
{
    int is_wanted = o->nhints > 0;
    int t;

    for (t = 0; t <= c->last; t++) {
        if (o->at[t].state != CRN_LIFE_READ_COMPLETE)
            continue;
        if (o->at[t].takers == 0 && !is_wanted) {
            crn_stay_move(o, t, CRN_LIFE_CONSUME);
            crn_hint_touch(c, o);
        }
        is_wanted = 0;
    }
}

void crn_stay_take(struct crn_chain *c, struct object *o, int tier)
{
    crn_stay_move(o, tier, CRN_LIFE_HOLD);
    o->at[tier].readers++;
    o->at[tier].takers++;
    crn_hint_note_held(c, o);
    crn_chain_object_unhold(c, o);
    crn_chain_object_requeue(c, o);
}

static void chain_object_dequeue(struct tier *t, struct object *o, int tier)
{
    struct stay *s = &o->at[tier];

    if (s->prev != NULL)
        s->prev->at[tier].next = s->next;
    else
        t->queue_head[s->kind] = s->next;
    if (s->next != NULL)
        s->next->at[tier].prev = s->prev;
    else
        t->queue_tail[s->kind] = s->prev;
    s->prev = s->next = NULL;
    s->is_queued = 0;
}

static void chain_object_enqueue(struct tier *t, struct object *o, int tier, enum queue_kind kind)
{
    struct stay *s = &o->at[tier];

    s->prev = t->queue_tail[kind];
    if (t->queue_tail[kind] != NULL)
        t->queue_tail[kind]->at[tier].next = o;
    else
        t->queue_head[kind] = o;
    t->queue_tail[kind] = o;
    s->kind = (int)kind;
    s->is_queued = 1;
}

int crn_chain_object_is_wished(const struct crn_chain *c, const struct object *o, int tier)
{
    int below = crn_chain_below(c, tier);

    return below >= 0 && c->tier[below].opt.is_behind && o->nhints > 0 &&
           o->at[tier].state == CRN_LIFE_FLUSHED && !o->at[tier].is_declined &&
           !crn_life_is_whole(o->at[below].state);
}

static enum queue_kind kind_of(const struct crn_chain *c, const struct object *o, int tier)
{
    if (crn_chain_object_is_wished(c, o, tier))
        return QUEUE_WISH;
    return c->opt.discard_consumed && o->at[tier].state == CRN_LIFE_READ_COMPLETE ? QUEUE_SPARED
                                                                                  : QUEUE_DUE;
}

void crn_chain_object_requeue(struct crn_chain *c, struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++) {
        struct stay *s = &o->at[t];
        int has_copy = crn_chain_has_copy_below(c, o, t);
        enum queue_kind kind;
        int is_due;

        if (has_copy && s->state == CRN_LIFE_WRITE_COMPLETE)
            crn_stay_move(o, t, CRN_LIFE_FLUSH_END);
        else if (!has_copy && s->state == CRN_LIFE_FLUSHED)
            crn_stay_move(o, t, CRN_LIFE_COPY_LOST);
        is_due = crn_life_is_whole(s->state) && !o->is_discarded && crn_chain_below(c, t) >= 0 &&
                 (!has_copy || crn_chain_object_is_wished(c, o, t));
        kind = kind_of(c, o, t);
        if (s->is_queued && (!is_due || s->kind != (int)kind))
            chain_object_dequeue(&c->tier[t], o, t);
        if (!s->is_queued && is_due)
            chain_object_enqueue(&c->tier[t], o, t, kind);
    }
}

void crn_stay_end(struct crn_chain *c, struct object *o, int tier, enum crn_life_event event)
{
    struct stay *s = &o->at[tier];

    assert(s->readers == 0);
    crn_stay_move(o, tier, event);
    if (s->is_queued)
        chain_object_dequeue(&c->tier[tier], o, tier);
    if (c->tier[tier].opt.is_external)
        c->tier[tier].space.used -= crn_chain_rounded(c, tier, o->bytes);
    else
        crn_space_drop(&c->tier[tier].space, s->offset);
    c->nmissing += o->nhints > 0 && !crn_chain_object_is_here(c, o);
    crn_hint_touch(c, o);
}

void crn_chain_object_drop(struct crn_chain *c, struct object *o)
{
    int t;

    for (t = 0; t <= c->last; t++)
        if (crn_life_is_whole(o->at[t].state) && o->at[t].readers == 0)
            crn_stay_end(c, o, t, CRN_LIFE_DISCARD);
}
