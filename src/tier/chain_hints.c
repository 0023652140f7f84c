/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of reads that the application announced, and what prefetching does with it. Prefetching
 * walks the queue from its head: it holds what is present, brings the first that is missing, and
 * stops at the first that finds no space. So it holds exactly what is read next, and evicts only
 * what is read later. */
#include <errno.h>
#include <stdlib.h>

#include "tier/chain_impl.h"

#define FIRST_CAP    256
#define DISTANCE_MAX 64 /* do not count further ahead */

/* The todo heaps. ------------------------------------------------------------------------------ */

static void chain_hints_place(struct tier *t, int tier, size_t i, struct hint *h)
{
    t->todo[i] = h;
    h->at[tier] = i + 1;
}

static void sift_up(struct tier *t, int tier, size_t i)
{
    struct hint *h = t->todo[i];

    for (; i > 0 && t->todo[(i - 1) / 2]->seq > h->seq; i = (i - 1) / 2)
        chain_hints_place(t, tier, i, t->todo[(i - 1) / 2]);
    chain_hints_place(t, tier, i, h);
}

static void sift_down(struct tier *t, int tier, size_t i)
{
    struct hint *h = t->todo[i];
    size_t k;

    while ((k = 2 * i + 1) < t->ntodo) {
        k += k + 1 < t->ntodo && t->todo[k + 1]->seq < t->todo[k]->seq;
        if (t->todo[k]->seq >= h->seq)
            break;
        chain_hints_place(t, tier, i, t->todo[k]);
        i = k;
    }
    chain_hints_place(t, tier, i, h);
}

static void add_todo(struct crn_chain *c, int tier, struct hint *h)
{
    struct tier *t = &c->tier[tier];

    if (h->at[tier] != 0)
        return;
    chain_hints_place(t, tier, t->ntodo++, h);
    sift_up(t, tier, t->ntodo - 1);
}

static void remove_todo(struct crn_chain *c, int tier, struct hint *h)
{
    struct tier *t = &c->tier[tier];
    size_t i = h->at[tier] - 1;
    struct hint *last;

    if (h->at[tier] == 0)
        return;
    last = t->todo[--t->ntodo];
    h->at[tier] = 0;
    if (last == h)
        return;
    chain_hints_place(t, tier, i, last);
    sift_up(t, tier, i);
    sift_down(t, tier, last->at[tier] - 1);
}

/* Reserves space for one more hint, so that no other function can run out of memory. */
static cairn_err reserve_todo(struct crn_chain *c, struct crn_errinfo *ei)
{
    int i;

    for (i = 0; i <= c->last; i++) {
        struct tier *t = &c->tier[i];
        size_t cap = t->todo_cap != 0 ? 2 * t->todo_cap : FIRST_CAP;
        struct hint **p;

        if (c->nhints < t->todo_cap)
            continue;
        p = realloc(t->todo, cap * sizeof(struct hint *));
        if (p == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu prefetch hints", cap);
        t->todo = p;
        t->todo_cap = cap;
    }
    return CAIRN_OK;
}

void crn_hint_touch(struct crn_chain *c, const struct object *o)
{
    int t;

    for (t = 0; o->hint != NULL && t <= c->last; t++)
        add_todo(c, t, o->hint);
}

void crn_hint_note_held(struct crn_chain *c, const struct object *o)
{
    int t;

    for (t = 0; o->hint != NULL && t <= c->last; t++)
        if (o->at[t].state == CRN_LIFE_READ_COMPLETE &&
            (c->held_last == NULL || c->held_last->seq < o->hint->seq))
            c->held_last = o->hint;
}

void crn_hint_touch_all(struct crn_chain *c)
{
    struct hint *h;

    for (h = c->hint_head; h != NULL; h = h->next)
        crn_hint_touch(c, h->o);
}

/* The queue. ----------------------------------------------------------------------------------- */

cairn_err crn_chain_hint(struct crn_chain *c, uint64_t key, struct crn_errinfo *ei)
{
    struct object *o;
    struct hint *h;
    cairn_err rc;

    rc = reserve_todo(c, ei);
    if (rc != CAIRN_OK)
        return rc;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a prefetch hint");
    rc = crn_chain_object_make(c, key, &o, ei);
    if (rc != CAIRN_OK) {
        free(h);
        return rc;
    }
    h->o = o;
    h->seq = c->hint_seq++;
    h->prev = c->hint_tail;
    *(c->hint_tail != NULL ? &c->hint_tail->next : &c->hint_head) = h;
    c->hint_tail = h;
    c->nhints++;
    *(o->last != NULL ? &o->last->same_next : &o->hint) = h;
    o->last = h;
    c->nmissing += o->nhints++ == 0 && !crn_chain_object_is_here(c, o);
    crn_hint_touch(c, o);
    crn_hint_note_held(c, o);
    crn_chain_object_requeue(c, o);
    return CAIRN_OK;
}

void crn_chain_start(struct crn_chain *c)
{
    c->is_started = 1;
}

/* Removes the first hint of an object from the queues. */
static void chain_hints_take(struct crn_chain *c, struct object *o)
{
    struct hint *h = o->hint;
    int t;

    for (t = 0; t <= c->last; t++)
        remove_todo(c, t, h);
    c->nhints--;
    if (c->held_last == h)
        c->held_last = h->prev;
    *(h->prev != NULL ? &h->prev->next : &c->hint_head) = h->next;
    *(h->next != NULL ? &h->next->prev : &c->hint_tail) = h->prev;
    o->hint = h->same_next;
    o->last = o->hint != NULL ? o->last : NULL;
    o->nhints--;
    free(h);
    crn_hint_touch(c, o); /* its next hint counts now */
    crn_hint_note_held(c, o);
}

/* A read of an object passes the hints before it. Drops those of checkpoints that were never
 * written: they would block prefetching forever. */
static void drop_missing(struct crn_chain *c, uint64_t before)
{
    struct hint *h = c->nmissing > 0 ? c->hint_head : NULL;

    while (h != NULL && h->seq < before) {
        struct hint *next = h->next;
        struct object *missing = h->o;

        c->work++;
        if (h == missing->hint && !crn_chain_object_is_here(c, missing)) {
            c->nmissing -= missing->nhints == 1;
            chain_hints_take(c, missing);
            crn_chain_object_forget_if_empty(c, missing);
        }
        h = next;
    }
}

void crn_hint_take(struct crn_chain *c, struct object *o)
{
    if (o->nhints == 0)
        return;
    drop_missing(c, o->hint->seq);
    c->nmissing -= o->nhints == 1 && !crn_chain_object_is_here(c, o);
    chain_hints_take(c, o);
    crn_chain_object_requeue(c, o); /* its optional copy is no longer useful */
}

void crn_hint_drop_all(struct crn_chain *c, struct object *o)
{
    c->nmissing -= o->nhints > 0 && !crn_chain_object_is_here(c, o);
    while (o->nhints > 0)
        chain_hints_take(c, o);
    crn_chain_object_requeue(c, o);
}

/* What hints mean. ----------------------------------------------------------------------------- */

uint64_t crn_hint_near(const struct crn_chain *c, const struct object *o, int tier)
{
    uint64_t left;
    int t;

    for (t = 0; t < tier; t++)
        if (o->at[t].state == CRN_LIFE_READ_COMPLETE || o->at[t].state == CRN_LIFE_READ_IN_PROGRESS)
            return 0; /* a faster tier holds it for the read */
    if (o->nhints == 0)
        return o->at[tier].state == CRN_LIFE_CONSUMED ? 0 : 1;
    left = c->hint_seq - o->hint->seq; /* hints given since, including itself */
    return left < CRN_NEAR_MAX ? left + 1 : CRN_NEAR_MAX;
}

uint32_t crn_hint_distance(const struct crn_chain *c, const struct object *reading)
{
    const struct hint *h;
    uint32_t n = 0;

    for (h = c->hint_head; h != NULL && n < DISTANCE_MAX; h = h->next) {
        if (h->o == reading)
            continue;
        if (h->o->at[h->o->first].state != CRN_LIFE_READ_COMPLETE)
            break;
        n++;
    }
    return n;
}

/* Prefetching. --------------------------------------------------------------------------------- */

/* The tier from which it is prefetched: the next slower one. If that is an is_behind tier without
 * it, the one below. -1: none. */
static int source_of(const struct crn_chain *c, const struct object *o, int tier)
{
    int t = crn_chain_below(c, tier);

    while (t >= 0 && c->tier[t].opt.is_behind && !crn_life_is_whole(o->at[t].state))
        t = crn_chain_below(c, t);
    return t;
}

enum step { STEP_ON, STEP_STOP, STEP_COPY };

/* Handles one hinted checkpoint for one tier. */
static enum step chain_hints_step(struct crn_chain *c, struct object *o, int tier, int64_t now_ns)
{
    int source = source_of(c, o, tier);
    int t;

    if (tier < o->first || crn_chain_rounded(c, tier, o->bytes) > c->tier[tier].space.capacity ||
        (source >= 0 && crn_chain_rounded(c, source, o->bytes) > c->tier[source].space.capacity))
        return STEP_ON; /* it may not go there, or cannot come from the source */
    for (t = 0; t <= tier; t++)
        if (o->at[t].state == CRN_LIFE_READ_COMPLETE || o->at[t].state == CRN_LIFE_READ_IN_PROGRESS)
            return STEP_ON;
    if (crn_life_is_whole(o->at[tier].state)) {
        crn_stay_move(o, tier, CRN_LIFE_HOLD);
        crn_hint_note_held(c, o);
        crn_chain_object_unhold(c, o); /* slower tiers no longer need to hold it */
        crn_chain_object_requeue(c, o);
        return STEP_ON;
    }
    for (t = 0; t <= tier; t++)
        if (o->at[t].state != CRN_LIFE_INIT)
            return STEP_ON; /* on a faster tier, or being written here */
    if (o->retry_ns > now_ns)
        return STEP_ON;
    if (source < 0 || !crn_life_is_whole(o->at[source].state))
        return STEP_STOP; /* a slower link must bring it closer first */
    return crn_chain_room_make(c, o, tier, WHO_UP, CRN_LIFE_READ_BEGIN, now_ns) == ROOM_MADE
               ? STEP_COPY
               : STEP_STOP;
}

int crn_chain_wants_up(const struct crn_chain *c, int tier)
{
    const struct tier *to = &c->tier[tier];

    return c->is_started && (to->ntodo > 0 || (c->failed != NULL && c->hint_head != NULL)) &&
           to->up.busy < to->opt.depth && !to->is_lost && to->is_ready;
}

/* The first hint that the tier must act on. Hints that need nothing leave the list until
 * crn_hint_touch. A failed copy becomes due again with time, so this function checks those
 * itself. */
static struct object *next_up(struct crn_chain *c, int tier, int64_t now_ns)
{
    struct tier *to = &c->tier[tier];
    struct object *o;

    for (o = c->failed; o != NULL; o = o->failed_next)
        if (o->retry_ns <= now_ns)
            crn_hint_touch(c, o);
    while (to->ntodo > 0) {
        struct hint *h = to->todo[0];
        enum step s = STEP_ON;

        o = h->o;
        c->work++;
        if (!o->is_discarded && !o->is_lost && o->hint == h) {
            if (!crn_chain_object_is_here(c, o))
                return NULL; /* not written yet: later hints must wait for it */
            s = chain_hints_step(c, o, tier, now_ns);
        }
        if (s != STEP_ON)
            return s == STEP_COPY ? o : NULL;
        remove_todo(c, tier, h);
    }
    return NULL;
}

int crn_chain_up(struct crn_chain *c, int tier, int64_t now_ns, struct crn_tier_transfer *ret)
{
    struct tier *to = &c->tier[tier];
    struct object *o;
    int source;

    to->claim[WHO_UP].is_set = 0;
    o = crn_chain_wants_up(c, tier) ? next_up(c, tier, now_ns) : NULL;
    if (o == NULL)
        return 0;
    source = source_of(c, o, tier);
    crn_stay_take(c, o, source);
    *ret = (struct crn_tier_transfer){.key = o->key,
                                      .bytes = o->bytes,
                                      .from = source,
                                      .to = tier,
                                      .src = {o->at[source].id, o->at[source].offset, o->key},
                                      .dst = {o->at[tier].id, o->at[tier].offset, o->key},
                                      .start_ns = now_ns};
    crn_chain_link_begin(&to->up, ret);
    return 1;
}
