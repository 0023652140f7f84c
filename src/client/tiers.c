/* SPDX-License-Identifier: BSD-3-Clause */
/* The session's calls into the cache: open it with what lies in the arena; write, restore and drop
 * captures. tiers_held.c keeps the list of checkpoints; tiers_back.c keeps the cache and the node
 * service consistent. */
#include "client/tiers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tiers_impl.h"
#include "client/together.h"

int crn_tiers_are_open(const cairn_session *s)
{
    return s->tiers != NULL && s->tiers->cache != NULL;
}

/* Opening. ------------------------------------------------------------------------------------- */

cairn_err crn_tiers_make(cairn_session *s, struct crn_errinfo *ei)
{
    if (s->tiers != NULL)
        return CAIRN_OK;
    s->tiers = calloc(1, sizeof(*s->tiers));
    if (s->tiers == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the tiers of a session");
    crn_mutex_init(&s->tiers->mu, CRN_RANK_SESSION);
    s->tiers->s = s;
    s->tiers->prune_at = HELD_PRUNE_AT;
    return CAIRN_OK;
}

/* Imports a checkpoint that was in the arena before the tiers were opened. */
static void tiers_import(struct crn_tiers *x, uint32_t slot)
{
    struct crn_arena *a = x->s->arena;
    enum crn_slot_state state = crn_slot_state(a, slot);
    struct crn_errinfo why = {0};
    struct crn_slot_info info;
    struct crn_shard shard;
    struct crn_tiered *h;

    if (state == CRN_SLOT_FREE || crn_slot_info(a, slot, &info, &why) != CAIRN_OK ||
        info.is_spilled || crn_held_add(x, &info, &h, &why) != CAIRN_OK)
        return;
    h->slot = slot;
    h->is_flushed = state == CRN_SLOT_READ;
    crn_lock(&x->mu);
    if (!h->is_flushed)
        crn_held_told_locked(x, h);
    crn_unlock(&x->mu);
    h->is_failed = crn_slot_has_failed(state);
    if (crn_shard_decode(crn_slot_memory(a, &info), info.descriptor_bytes, info.name, &shard,
                         &why) == CAIRN_OK) {
        h->shard = shard;
        h->is_known =
            shard.rank != CRN_NOBODY &&
            crn_image_layout(&shard, info.descriptor_bytes, &h->image, &why) == CAIRN_OK &&
            crn_shard_encode(&shard, &h->descriptor, &why) == CAIRN_OK;
    }
    if (crn_cache_import(x->cache, crn_held_key(h), info.bytes, x->arena_tier, info.offset, &why) !=
        CAIRN_OK)
        crn_log(&x->s->log, CRN_DEBUG, "%s@%" PRId64 ": %s", info.name, info.version, why.msg);
    else if (h->is_flushed)
        crn_cache_flushed(x->cache, crn_held_key(h));
}

static void keep_op(void *arg, const struct crn_cache_op *op)
{
    ((struct crn_tiers *)arg)->op = *op;
}

static void tiers_meanwhile(void *arg)
{
    struct crn_tiers *x = arg;

    if (x->capture != NULL && x->late.code == CAIRN_OK)
        (void)!crn_capture_complete(x->s, x->capture, &x->late);
}

/* If the disk has no space, the arena is used alone. */
static void add_local(struct crn_tiers *x, struct crn_cache_options *opt)
{
    struct crn_errinfo why = {0};

    if (x->s->cfg.local_cache == 0)
        return;
    if (crn_tiers_local(x, &opt->tier[opt->ntiers], &why) == CAIRN_OK)
        opt->ntiers++;
    else
        crn_told_warn_once(x->s, "captures stay in the arena, continuing: %s", why.msg);
}

static cairn_err open_cache(struct crn_tiers *x, struct crn_errinfo *ei)
{
    cairn_session *s = x->s;
    struct crn_cache_options opt = {.policy = CRN_EVICT_SCORE,
                                    .nice = CRN_BACKGROUND_NICE,
                                    .cores = (enum crn_background_cores)s->cfg.background_cores,
                                    .on_op = keep_op,
                                    .meanwhile = tiers_meanwhile,
                                    .arg = x,
                                    .look = crn_tiers_look,
                                    .on_lost = crn_tiers_lost};
    struct crn_errinfo why = {0};
    cairn_err rc;

    opt.threads = crn_session_copy_threads(s, &opt.sharers);
    x->device = crn_gpu_main(s);
    if (s->cfg.device_cache > 0 && s->cfg.gpu) /* bind_device gives it memory */
        opt.ntiers = crn_tier_device_later(&opt.tier[0], &why) == CAIRN_OK;
    x->arena_tier = (int)opt.ntiers;
    rc = crn_tiers_arena(x, x->device != NULL && crn_gpu_claim_pin(s), &opt.tier[opt.ntiers], ei);
    x->arena = opt.tier[opt.ntiers];
    opt.ntiers += rc == CAIRN_OK;
    if (rc == CAIRN_OK)
        add_local(x, &opt);
    if (rc == CAIRN_OK)
        rc = crn_tiers_store(x, &opt.tier[opt.ntiers], ei);
    opt.ntiers += rc == CAIRN_OK;
    x->ntiers = (int)opt.ntiers;
    if (rc == CAIRN_OK)
        rc = crn_cache_open(&opt, &x->cache, ei);
    while (rc != CAIRN_OK && opt.ntiers > 0) {
        opt.ntiers--;
        opt.tier[opt.ntiers]->ops->close(opt.tier[opt.ntiers]);
    }
    return rc;
}

/* Reserves GPU memory for checkpoints as soon as the application protects GPU memory. If that
 * fails, the arena is used alone. */
static void bind_device(struct crn_tiers *x)
{
    cairn_session *s = x->s;
    struct crn_errinfo why = {0};
    struct crn_device *dev = x->has_tried_device ? NULL : crn_gpu_main(s);
    uint64_t bytes = s->cfg.device_cache;

    if (dev == NULL || x->arena_tier == 0)
        return;
    x->has_tried_device = 1;
    if (x->device == NULL) {
        x->device = dev;
        if (crn_gpu_claim_pin(s))
            crn_tiers_pin(x);
    }
    if ((bytes == CRN_SIZE_AUTO && crn_gpu_share(s, dev, &bytes, &why) != CAIRN_OK) ||
        crn_cache_bind(x->cache, 0, dev, bytes, &why) != CAIRN_OK)
        crn_told_warn_once(s, "checkpoints are not kept on the GPU, continuing: %s", why.msg);
}

void crn_tiers_open(cairn_session *s)
{
    struct crn_errinfo why = {0};
    struct crn_tiers *x;
    uint32_t i;

    if (crn_tiers_are_open(s))
        bind_device(s->tiers);
    if (s->arena == NULL || crn_tiers_are_open(s) ||
        (s->tiers == NULL && s->cfg.local_cache == 0 &&
         (s->cfg.device_cache == 0 || crn_gpu_main(s) == NULL)))
        return;
    if (crn_tiers_make(s, &why) != CAIRN_OK || s->tiers->has_failed)
        return;
    x = s->tiers;
    if (open_cache(x, &why) != CAIRN_OK) {
        crn_told_warn_once(s, "checkpoints are kept only in the arena, continuing: %s", why.msg);
        x->has_failed = 1;
        return;
    }
    for (i = 0; i < crn_arena_slots(s->arena); i++)
        tiers_import(x, i);
    bind_device(x);
    crn_tiers_give_hints(x);
    if (x->is_started)
        crn_cache_start(x->cache);
}

void crn_tiers_close(cairn_session *s)
{
    struct crn_tiers *x = s->tiers;

    if (x == NULL)
        return;
    crn_cache_close(x->cache);
    while (x->all != NULL) {
        struct crn_tiered *h = x->all;

        x->all = h->next;
        crn_held_free(h);
    }
    free(x->hints);
    free(x->index);
    free(x->by_seq);
    crn_mutex_fini(&x->mu);
    free(x);
    s->tiers = NULL;
}

/* Captures. ------------------------------------------------------------------------------------ */

static cairn_err pieces_of(const struct crn_capture *c, struct crn_tier_piece **ret,
                           struct crn_errinfo *ei)
{
    struct crn_tier_piece *p = malloc((c->nmemory + (size_t)1) * sizeof(*p));
    uint32_t i;

    if (p == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a copy of %u regions", c->nmemory);
    for (i = 0; i < c->nmemory; i++)
        p[i] = (struct crn_tier_piece){c->places[i].ptr, c->image.at[i], c->shard.regions[i].bytes,
                                       c->places[i].device};
    *ret = p;
    return CAIRN_OK;
}

/* Copies, and runs crn_capture_complete meanwhile. */
static cairn_err tiers_copy(struct crn_tiers *x, struct crn_capture *c, struct crn_tiered *h,
                            int64_t wait_ns, struct crn_errinfo *ei)
{
    cairn_session *s = x->s;
    struct crn_tier_piece *pieces = NULL;
    cairn_err rc;

    rc = pieces_of(c, &pieces, ei);
    if (rc != CAIRN_OK)
        return rc;
    x->capture = c;
    crn_err_clear(&x->late);
    rc = crn_cache_write(x->cache, crn_held_key(h), c->image.bytes, pieces, c->nmemory,
                         crn_gpu_streams(s), s->clock->mono_ns(s->clock) + wait_ns, ei);
    x->capture = NULL;
    free(pieces);
    return rc;
}

/* Forgets a checkpoint that was never written, unless it has hints. */
static void tiers_unwrite(struct crn_tiers *x, const struct crn_tiered *h)
{
    struct crn_tiered **link = &x->all;

    if (h->nhints > 0)
        return;
    while (*link != NULL && *link != h) /* usually the first */
        link = &(*link)->next;
    if (*link != NULL)
        (void)crn_held_free_if_gone(x, link);
}

cairn_err crn_tiers_write(cairn_session *s, struct crn_capture *c, struct crn_track *t,
                          int64_t wait_ns, struct crn_errinfo *ei)
{
    struct crn_tiers *x = s->tiers;
    struct crn_tiered *h = crn_held_find(x, c->info.name, c->info.version);
    cairn_err rc = CAIRN_OK;

    if (c->image.bytes > crn_arena_bytes(s->arena)) /* it could never leave the device */
        return crn_fail(ei, CAIRN_ENOSPC, 0,
                        "the checkpoint needs %" PRIu64 " bytes, the arena has %" PRIu64
                        ": raise arena_bytes, or set local",
                        c->image.bytes, crn_arena_bytes(s->arena));
    crn_held_prune(x);
    if (h == NULL || h->is_known)
        rc = crn_held_add(x, &c->info, &h, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_held_capture(x, h, &c->info); /* no copy of it has started yet */
    rc = tiers_copy(x, c, h, wait_ns, ei);
    if (rc != CAIRN_OK) {
        tiers_unwrite(x, h);
        return rc == CAIRN_ETIMEDOUT ? CAIRN_EBUSY : rc;
    }
    if (x->late.code != CAIRN_OK) {
        crn_tiers_drop(s, h);
        crn_err_keep(ei, &x->late);
        return x->late.code;
    }
    t->copy_seconds = (double)x->op.copy_ns * 1e-9;
    c->held = h;
    return CAIRN_OK;
}

int crn_tiers_are_full(const cairn_session *s)
{
    return !crn_tiers_are_open(s) || s->tiers->arena_tier + 2 == s->tiers->ntiers ||
           crn_cache_is_stuck(s->tiers->cache, s->tiers->arena_tier);
}

cairn_err crn_tiers_slot(cairn_session *s, struct crn_slot_info *info, uint32_t *ret_slot,
                         struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&s->tiers->mu);
    rc = crn_arena_take(s->arena, CRN_SLOT_WRITING, info, ret_slot, ei);
    crn_unlock(&s->tiers->mu);
    return rc;
}

static enum crn_slot_state slot_state_locked(const struct crn_tiers *x, const struct crn_tiered *h)
    CRN_REQUIRES(x->mu)
{
    return crn_slot_state_of(x->s->arena, h->slot, h->info.id.seq);
}

/* Is the service done with it? */
static int is_over_locked(const struct crn_tiers *x, const struct crn_tiered *h) CRN_REQUIRES(x->mu)
{
    enum crn_slot_state state = slot_state_locked(x, h);

    return h->is_flushed || crn_slot_is_flushed(state) || crn_slot_has_failed(state);
}

/* Gives up a checkpoint that is no longer needed; frees its slot if no one else owns it. */
static void give_up(struct crn_tiers *x, struct crn_tiered *h)
{
    crn_lock(&x->mu);
    h->is_dropped = 1;
    if (h->is_out && is_over_locked(x, h))
        (void)crn_slot_move(x->s->arena, h->slot, h->info.id.seq, slot_state_locked(x, h),
                            CRN_SLOT_FREE);
    crn_unlock(&x->mu);
    crn_held_unindex(x, h);
    h->is_replaced = 1;
    h->nhints = 0;
    crn_cache_forget(x->cache, crn_held_key(h));
}

int crn_tiers_supersede(cairn_session *s, crn_slot_may may, struct crn_slot_info *ret)
{
    struct crn_tiered *h;
    int is_done;

    crn_lock(&s->tiers->mu);
    is_done = crn_arena_supersede(s->arena, may, s, ret);
    crn_unlock(&s->tiers->mu);
    h = is_done ? crn_held_find_seq(s->tiers, ret->id.seq) : NULL;
    if (h != NULL)
        give_up(s->tiers, h);
    return is_done;
}

/* Replaces an older capture of the same name and version; the newer one inherits its hints. */
static void tiers_replace(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_errinfo why = {0};
    struct crn_tiered *old;

    crn_held_unindex(x, h);
    while ((old = crn_held_find(x, h->info.name, h->info.version)) != NULL) {
        crn_held_unindex(x, old);
        old->is_replaced = 1;
        for (; old->nhints > 0; old->nhints--, h->nhints++) {
            crn_cache_skip(x->cache, crn_held_key(old));
            if (crn_cache_hint(x->cache, crn_held_key(h), &why) != CAIRN_OK)
                crn_log(&x->s->log, CRN_DEBUG, "%s", why.msg);
        }
    }
    crn_held_index(x, h);
}

cairn_err crn_tiers_submit(cairn_session *s, struct crn_capture *c, const struct crn_track *t,
                           struct crn_errinfo *ei)
{
    struct crn_tiers *x = s->tiers;
    struct crn_tiered *h = c->held;
    int is_lost;

    crn_lock(&x->mu);
    is_lost = h->is_lost;
    h->bytes = t->bytes;
    h->target = t->target;
    h->shard = c->shard;
    h->image = c->image;
    h->descriptor = c->descriptor;
    h->is_known = !is_lost;
    crn_tiers_hand_over_locked(x, h);
    crn_unlock(&x->mu);
    memset(&c->shard, 0, sizeof(c->shard));
    memset(&c->image, 0, sizeof(c->image));
    memset(&c->descriptor, 0, sizeof(c->descriptor));
    if (is_lost)
        return crn_fail(ei, CAIRN_EDEVICE, 0, "the GPU was lost with the capture");
    tiers_replace(x, h);
    return CAIRN_OK;
}

void crn_tiers_drop(cairn_session *s, struct crn_tiered *h)
{
    struct crn_tiers *x = s->tiers;

    crn_lock(&x->mu);
    h->is_dropped = 1;
    if (h->is_copied)
        crn_tiers_hand_over_locked(x, h); /* frees the slot */
    crn_unlock(&x->mu);
    give_up(x, h);
}

/* Restoring. ----------------------------------------------------------------------------------- */

const struct crn_tiered *crn_tiers_find(cairn_session *s, const char *name, int64_t version)
{
    const struct crn_tiered *h = crn_held_find(s->tiers, name, version);

    return h != NULL && h->is_known && !h->is_failed ? h : NULL;
}

int crn_tiers_hold(cairn_session *s, const struct crn_tiered *h)
{
    int t;

    for (t = 0; t + 1 < s->tiers->ntiers; t++)
        if (crn_cache_state(s->tiers->cache, crn_held_key(h), t) != CRN_LIFE_INIT)
            return 1;
    return 0;
}

/* It was read and is no longer needed: cancels its flush if that has not begun. */
static void tiers_discard(struct crn_tiers *x, struct crn_tiered *h)
{
    struct crn_track *t = crn_track_seq(x->s, h->info.id.seq);
    int is_ours = memcmp(h->info.id.run, x->s->run, sizeof(x->s->run)) == 0;
    int is_canceled;
    int is_over;

    crn_lock(&x->mu);
    is_canceled = is_ours && !h->is_flushed &&
                  (!h->is_told || crn_slot_move(x->s->arena, h->slot, h->info.id.seq,
                                                CRN_SLOT_WRITTEN, CRN_SLOT_FREE));
    is_over = is_over_locked(x, h);
    if (is_canceled) {
        h->is_dropped = 1;
        crn_tiers_send(x, h, h->is_told ? CRN_MSG_DROPPED : CRN_MSG_CAPTURE_FAILED, CAIRN_ECANCELED,
                       "it was restored and is needed no more");
    }
    crn_unlock(&x->mu);
    if (is_canceled && t != NULL && t->error.code == CAIRN_OK) {
        t->error.code = CAIRN_ECANCELED;
        (void)snprintf(t->error.msg, sizeof(t->error.msg), "restored, and needed no more");
    }
    if (is_canceled || is_over)
        give_up(x, h); /* otherwise its flush continues */
}

cairn_err crn_tiers_read(cairn_session *s, const struct crn_tiered *held,
                         const struct crn_tier_piece *pieces, size_t n, int is_all,
                         struct crn_errinfo *ei)
{
    struct crn_tiers *x = s->tiers;
    struct crn_tiered *h = crn_held_find(x, held->info.name, held->info.version);
    int64_t until = s->clock->mono_ns(s->clock) + (int64_t)s->cfg.wait_timeout_ns;
    cairn_err rc;

    rc = crn_cache_read(x->cache, crn_held_key(h), pieces, n, crn_gpu_streams(s), until, ei);
    if ((rc == CAIRN_OK || rc == CAIRN_ENOENT) && h->nhints > 0)
        h->nhints--;
    if (rc == CAIRN_OK && is_all && s->cfg.discard_consumed && h->nhints == 0)
        tiers_discard(x, h);
    return rc;
}

/* News. ---------------------------------------------------------------------------------------- */

void crn_tiers_failed(cairn_session *s, uint64_t seq, cairn_err why)
{
    struct crn_tiered *h = crn_tiers_are_open(s) ? crn_held_find_seq(s->tiers, seq) : NULL;

    /* With discard_consumed another rank may have read it first: that is no failure. */
    if (h != NULL && (why != CAIRN_ECANCELED || !s->cfg.discard_consumed))
        h->is_failed = 1;
}

void crn_tiers_news(cairn_session *s)
{
    struct crn_tiers *x = s->tiers;
    struct crn_tiered *h;

    if (!crn_tiers_are_open(s))
        return;
    crn_lock(&x->mu);
    for (h = x->has_news ? x->all : NULL; h != NULL; h = h->next) {
        struct crn_track *t = h->is_lost && !h->is_failed ? crn_track_seq(s, h->info.id.seq) : NULL;

        if (!h->is_lost)
            continue;
        h->is_failed = 1;
        s->may_have_failures = 1;
        if (t != NULL && t->error.code == CAIRN_OK)
            (void)!crn_fail(&t->error, CAIRN_EDEVICE, 0,
                            "the GPU was lost before the checkpoint left its memory");
    }
    x->has_news = 0;
    crn_unlock(&x->mu);
}
