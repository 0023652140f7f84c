/* SPDX-License-Identifier: BSD-3-Clause */
/* The application's hints: passed to the cache once it exists, and looked up in the store when
 * prefetching starts. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/tiers_impl.h"

/* The fastest tier for a checkpoint of the currently protected regions. */
static int first_tier(const struct crn_tiers *x)
{
    return crn_gpu_main(x->s) != NULL ? 0 : x->arena_tier;
}

/* Makes a committed version known to the cache, for prefetching. A version that is not taken yet
 * follows later. */
static void tiers_hints_adopt(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_errinfo why = {0};

    if (crn_tiers_learn(x, h, &why) == CAIRN_OK &&
        crn_cache_adopt(x->cache, crn_held_key(h), h->image.bytes, first_tier(x), &why) == CAIRN_OK)
        return;
    crn_log(&x->s->log, CRN_DEBUG, "%s@%" PRId64 " is not prefetched now: %s", h->info.name,
            h->info.version, why.msg);
}

static cairn_err tiers_hint(struct crn_tiers *x, const char *name, int64_t version,
                            struct crn_errinfo *ei)
{
    struct crn_slot_info info = {.version = version};
    struct crn_tiered *h = crn_held_find(x, name, version);
    cairn_err rc = CAIRN_OK;

    if (h == NULL) {
        memcpy(info.name, name, strlen(name) + 1);
        rc = crn_held_add(x, &info, &h, ei);
    }
    if (rc == CAIRN_OK)
        rc = crn_cache_hint(x->cache, crn_held_key(h), ei);
    if (rc != CAIRN_OK)
        return rc;
    h->nhints++;
    if (!h->is_known && x->is_started)
        tiers_hints_adopt(x, h);
    return CAIRN_OK;
}

static cairn_err keep_hint(struct crn_tiers *x, const char *name, int64_t version,
                           struct crn_errinfo *ei)
{
    struct crn_hint *p = realloc(x->hints, (x->nhints + 1) * sizeof(*p));

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%zu hints", x->nhints + 1);
    x->hints = p;
    memcpy(p[x->nhints].name, name, strlen(name) + 1);
    p[x->nhints++].version = version;
    return CAIRN_OK;
}

void crn_tiers_give_hints(struct crn_tiers *x)
{
    struct crn_errinfo why = {0};
    size_t i;

    for (i = 0; i < x->nhints; i++)
        if (tiers_hint(x, x->hints[i].name, x->hints[i].version, &why) != CAIRN_OK)
            break;
    if (why.code != CAIRN_OK)
        crn_told_warn_once(x->s, "hints are ignored, continuing: %s", why.msg);
    free(x->hints);
    x->hints = NULL;
    x->nhints = 0;
}

/* The public calls. ---------------------------------------------------------------------------- */

/* If nothing was captured yet, creates the arena with the size of the version to be read. */
static void make_arena(struct crn_tiers *x)
{
    struct crn_errinfo why = {0};
    size_t i;

    for (i = 0; x->s->arena == NULL && i < x->nhints; i++) {
        struct crn_tiered h = {.info = {.version = x->hints[i].version}};

        memcpy(h.info.name, x->hints[i].name, sizeof(h.info.name));
        if (crn_tiers_learn(x, &h, &why) != CAIRN_OK)
            crn_err_clear(&why); /* not taken yet */
        else if (crn_take_ensure_arena(x->s, h.image.bytes, 0, &why) != CAIRN_OK)
            crn_told_warn_once(x->s, "nothing is prefetched, continuing: %s", why.msg);
        crn_image_free(&h.image);
        crn_buf_free(&h.descriptor);
        crn_shard_free(&h.shard);
    }
}

cairn_err cairn_prefetch_enqueue(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_checkpoint(s, name, version, &ei);

    if (rc == CAIRN_OK)
        rc = crn_tiers_make(s, &ei);
    if (rc == CAIRN_OK && crn_tiers_are_open(s))
        rc = tiers_hint(s->tiers, name, version, &ei);
    else if (rc == CAIRN_OK && !s->tiers->has_failed)
        rc = keep_hint(s->tiers, name, version, &ei);
    return crn_api_end(&ei, rc);
}

cairn_err cairn_prefetch_start(cairn_session *s)
{
    struct crn_errinfo ei = {0};
    struct crn_tiered *h;
    cairn_err rc = crn_arg_session(s, &ei);

    if (rc == CAIRN_OK) {
        crn_deferred_wait(s); /* the tiers, once open, own the arena's space */
        rc = crn_tiers_make(s, &ei);
    }
    if (rc != CAIRN_OK || s->tiers->is_started)
        return crn_api_end(&ei, rc);
    s->tiers->is_started = 1;
    make_arena(s->tiers);
    if (!crn_tiers_are_open(s)) {
        crn_tiers_open(s); /* passes the hints on and starts */
        return CAIRN_OK;
    }
    for (h = s->tiers->all; h != NULL; h = h->next)
        if (!h->is_known && !h->is_dropped)
            tiers_hints_adopt(s->tiers, h);
    crn_cache_start(s->tiers->cache);
    return CAIRN_OK;
}

/* Withdraws the hints of a version, or all hints (name NULL). */
static void tiers_hints_unhint(struct crn_tiers *x, const char *name, int64_t version)
{
    struct crn_tiered *h;
    size_t kept = 0;
    size_t i;

    for (i = 0; i < x->nhints; i++)
        if (name != NULL && (x->hints[i].version != version || strcmp(x->hints[i].name, name) != 0))
            x->hints[kept++] = x->hints[i];
    x->nhints = kept;
    h = x->cache == NULL ? NULL : name == NULL ? x->all : crn_held_find(x, name, version);
    for (; h != NULL; h = name == NULL ? h->next : NULL) {
        if (h->nhints > 0)
            crn_cache_unhint(x->cache, crn_held_key(h));
        h->nhints = 0;
    }
}

cairn_err cairn_prefetch_cancel(cairn_session *s, const char *name, int64_t version)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_checkpoint(s, name, version, &ei);

    if (rc == CAIRN_OK && s->tiers != NULL)
        tiers_hints_unhint(s->tiers, name, version);
    return crn_api_end(&ei, rc);
}

cairn_err cairn_prefetch_clear(cairn_session *s)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = crn_arg_session(s, &ei);

    if (rc == CAIRN_OK && s->tiers != NULL)
        tiers_hints_unhint(s->tiers, NULL, 0);
    return crn_api_end(&ei, rc);
}

void crn_tiers_passed(cairn_session *s, const char *name, int64_t version)
{
    struct crn_tiered *h = crn_tiers_are_open(s) ? crn_held_find(s->tiers, name, version) : NULL;
    int is_needed;

    if (h == NULL || h->nhints == 0)
        return;
    crn_lock(&s->tiers->mu);
    is_needed = h->is_known && !h->is_failed && !h->is_flushed; /* the files do not have it yet */
    crn_unlock(&s->tiers->mu);
    if (is_needed)
        return;
    h->nhints--;
    crn_cache_skip(s->tiers->cache, crn_held_key(h));
}
