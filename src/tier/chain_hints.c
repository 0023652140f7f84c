/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which the application says it will read, and what prefetching makes of it. The queue
 * is walked from its head: what is there is held, the first that is missing is brought, and behind
 * the first that finds no room nothing is touched. So what is held is what is read next, and all
 * that prefetching evicts is read later. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/chain_impl.h"

#define FIRST_CAP 256

/* The queue. -------------------------------------------------------------------------------------- */

static cairn_err make_place(struct crn_chain *c, struct crn_errinfo *ei)
{
    size_t cap = c->hints_cap != 0 ? 2 * c->hints_cap : FIRST_CAP;
    struct object **h;

    if (c->nhints < c->hints_cap)
        return CAIRN_OK;
    if (c->hint_first > c->nhints / 2) {
        memmove(c->hints, c->hints + c->hint_first,
                (c->nhints - c->hint_first) * sizeof(struct object *));
        c->hint_base += c->hint_first;
        c->nhints -= c->hint_first;
        c->hint_first = 0;
        return CAIRN_OK;
    }
    h = realloc(c->hints, cap * sizeof(struct object *));
    if (h == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu prefetch hints", cap);
    c->hints = h;
    c->hints_cap = cap;
    return CAIRN_OK;
}

cairn_err crn_chain_hint(struct crn_chain *c, uint64_t key, struct crn_errinfo *ei)
{
    struct object *o;
    cairn_err rc;

    rc = make_place(c, ei);
    if (rc == CAIRN_OK)
        rc = crn_object_make(c, key, &o, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (o->nhints++ == 0)
        o->first_hint = c->hint_base + c->nhints;
    c->hints[c->nhints++] = o;
    crn_object_requeue(c, o);
    return CAIRN_OK;
}

void crn_chain_start(struct crn_chain *c)
{
    c->is_started = 1;
}

static void take(struct crn_chain *c, struct object *o)
{
    size_t i = (size_t)(o->first_hint - c->hint_base);

    c->hints[i] = NULL;
    o->first_hint = NO_HINT;
    if (--o->nhints == 0)
        return;
    while (c->hints[i] != o)
        i++;
    o->first_hint = c->hint_base + i;
}

void crn_hint_take(struct crn_chain *c, struct object *o)
{
    size_t i;

    if (o->nhints == 0)
        return;
    /* Whoever reads o has passed the hints before it: those of checkpoints that were never written
     * would stop prefetching for ever. */
    for (i = c->hint_first; c->hints[i] != o; i++) {
        struct object *missing = c->hints[i];

        if (missing != NULL && !crn_object_is_here(c, missing)) {
            take(c, missing);
            crn_object_forget_if_empty(c, missing);
        }
    }
    take(c, o);
    crn_object_requeue(c, o); /* it is not wished for any more */
    while (c->hint_first < c->nhints && c->hints[c->hint_first] == NULL)
        c->hint_first++;
}

/* What hints mean. --------------------------------------------------------------------------------- */

uint64_t crn_hint_near(const struct crn_chain *c, const struct object *o, int tier)
{
    uint64_t left;
    int t;

    for (t = 0; t < tier; t++)
        if (o->at[t].state == CRN_LIFE_READ_COMPLETE || o->at[t].state == CRN_LIFE_READ_IN_PROGRESS)
            return 0; /* a faster tier holds it for the read */
    if (o->nhints == 0)
        return o->at[tier].state == CRN_LIFE_CONSUMED ? 0 : 1;
    left = c->hint_base + c->nhints - o->first_hint; /* hints from it to the end, itself included */
    return left < CRN_NEAR_MAX ? left + 1 : CRN_NEAR_MAX;
}

uint32_t crn_hint_distance(const struct crn_chain *c, const struct object *reading)
{
    uint32_t n = 0;
    size_t i;

    for (i = c->hint_first; i < c->nhints; i++) {
        const struct object *o = c->hints[i];

        if (o == NULL || o == reading)
            continue;
        if (o->at[o->first].state != CRN_LIFE_READ_COMPLETE)
            break;
        n++;
    }
    return n;
}

/* Prefetching. ------------------------------------------------------------------------------------- */

/* From where it would come up to a tier: the next slower one, but what a tier behind does not have comes
 * from the one below that. -1: from nowhere. */
static int source_of(const struct crn_chain *c, const struct object *o, int tier)
{
    int t = crn_below(c, tier);

    while (t >= 0 && c->tier[t].opt.is_behind && !crn_life_is_whole(o->at[t].state))
        t = crn_below(c, t);
    return t;
}

enum step { STEP_ON, STEP_STOP, STEP_COPY };

/* One hinted checkpoint, as seen from a tier that would like to have it. */
static enum step step(struct crn_chain *c, struct object *o, int tier, int64_t now_ns)
{
    int source = source_of(c, o, tier);
    int t;

    if (tier < o->first || crn_rounded(c, tier, o->bytes) > c->tier[tier].space.capacity ||
        (source >= 0 && crn_rounded(c, source, o->bytes) > c->tier[source].space.capacity))
        return STEP_ON; /* it does not go there, or cannot come from where it would have to */
    for (t = 0; t <= tier; t++)
        if (o->at[t].state == CRN_LIFE_READ_COMPLETE || o->at[t].state == CRN_LIFE_READ_IN_PROGRESS)
            return STEP_ON;
    if (crn_life_is_whole(o->at[tier].state)) {
        crn_stay_move(o, tier, CRN_LIFE_HOLD);
        crn_object_unhold(c, o); /* slower tiers need not hold it any more */
        crn_object_requeue(c, o);
        return STEP_ON;
    }
    for (t = 0; t <= tier; t++)
        if (o->at[t].state != CRN_LIFE_INIT)
            return STEP_ON; /* on a faster tier, or being written here */
    if (o->retry_ns > now_ns)
        return STEP_ON;
    if (source < 0 || !crn_life_is_whole(o->at[source].state))
        return STEP_STOP; /* a slower link has to bring it closer first */
    return crn_make_room(c, o, tier, WHO_UP, CRN_LIFE_READ_BEGIN, now_ns) == ROOM_MADE ? STEP_COPY
                                                                                       : STEP_STOP;
}

int crn_chain_wants_up(const struct crn_chain *c, int tier)
{
    const struct tier *to = &c->tier[tier];

    return c->is_started && c->hint_first < c->nhints && to->up.busy < to->opt.depth &&
           !to->is_lost && to->is_ready;
}

int crn_chain_up(struct crn_chain *c, int tier, int64_t now_ns, struct crn_transfer *ret)
{
    struct tier *to = &c->tier[tier];
    size_t i;

    to->claim[WHO_UP].is_set = 0;
    if (!crn_chain_wants_up(c, tier))
        return 0;
    for (i = c->hint_first; i < c->nhints; i++) {
        struct object *o = c->hints[i];
        enum step s;
        int source;

        if (o == NULL || o->is_discarded || o->is_lost || o->first_hint != c->hint_base + i)
            continue;
        if (!crn_object_is_here(c, o))
            return 0; /* not written yet: its turn comes before all behind it */
        s = step(c, o, tier, now_ns);
        if (s == STEP_STOP)
            return 0;
        if (s == STEP_ON)
            continue;
        source = source_of(c, o, tier);
        crn_stay_take(c, o, source);
        *ret = (struct crn_transfer){.key = o->key,
                                     .bytes = o->bytes,
                                     .from = source,
                                     .to = tier,
                                     .src = {o->at[source].id, o->at[source].offset, o->key},
                                     .dst = {o->at[tier].id, o->at[tier].offset, o->key},
                                     .start_ns = now_ns};
        crn_link_begin(&to->up, ret);
        return 1;
    }
    return 0;
}
