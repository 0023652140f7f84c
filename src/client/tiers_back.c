/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena as a tier of a session. Each stay is a slot at the offset that the cache chose, taken
 * only if the slot states allow it: a wrong choice costs a retry, never data. Also tells the node
 * service about images. Runs on the cache's threads. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/tiers_impl.h"

#define LOOK_OLDEST 32
#define LOOK_IN_ALL 64

struct back {
    struct crn_tier tier;
    struct crn_tiers *x;
    int is_pinned;
};

static struct crn_tiers *tiers_of(struct crn_tier *t)
{
    return ((struct back *)t)->x;
}

/* The service. --------------------------------------------------------------------------------- */

/* Only logs an error: the application's thread will notice that the service is gone. */
void crn_tiers_send(struct crn_tiers *x, const struct crn_tiered *h, enum crn_msg_type type,
                    cairn_err code, const char *why)
{
    struct crn_ckpt ckpt = {.version = h->info.version, .created_ns = h->info.created_ns};
    struct crn_msg note = {.type = type, .seq = h->info.id.seq};
    struct crn_errinfo ei = {0};

    memcpy(note.run, h->info.id.run, sizeof(note.run));
    memcpy(ckpt.name, h->info.name, sizeof(ckpt.name));
    if (type == CRN_MSG_CAPTURED)
        note.captured = (struct crn_msg_captured){.ckpt = ckpt,
                                                  .slot = h->slot,
                                                  .bytes = h->bytes,
                                                  .target = (uint32_t)h->target.level,
                                                  .protect = h->target.protect};
    else if (type == CRN_MSG_CAPTURE_FAILED)
        note.failed.ckpt = ckpt;
    if (code != CAIRN_OK)
        (void)!crn_fail(type == CRN_MSG_DROPPED ? &note.dropped.error : &note.failed.error, code, 0,
                        "%s", why);
    if (crn_link_post(&x->s->link, &note, &ei) != CAIRN_OK)
        crn_log(&x->s->log, CRN_WARN, "%s@%" PRId64 ": %s", ckpt.name, ckpt.version, ei.msg);
}

void crn_tiers_hand_over_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu)
{
    struct crn_arena *a = x->s->arena;

    if (h->is_dropped) {
        (void)crn_slot_move(a, h->slot, h->info.id.seq, CRN_SLOT_WRITING, CRN_SLOT_FREE);
        return;
    }
    if (!h->is_copied || !h->is_known)
        return;
    memcpy(crn_slot_memory(a, &h->info), h->descriptor.data, h->descriptor.len);
    (void)crn_slot_move(a, h->slot, h->info.id.seq, CRN_SLOT_WRITING, CRN_SLOT_WRITTEN);
    crn_held_told_locked(x, h);
    crn_tiers_send(x, h, CRN_MSG_CAPTURED, CAIRN_OK, NULL);
}

/* Tells the cache if the service is done with it. Returns 1 if its flush is pending or in
 * flight. */
static int look_at_locked(struct crn_tiers *x, struct crn_tiered *h) CRN_REQUIRES(x->mu)
{
    enum crn_slot_state state = crn_slot_state_of(x->s->arena, h->slot, h->info.id.seq);

    x->looked_at++;
    /* A failed capture is not kept for the application. With discard_consumed it is: another rank
     * may have read it first, which cancels the flush, and this rank still needs to read it. */
    h->is_flushed = crn_slot_is_flushed(state) || state == CRN_SLOT_FREE ||
                    (crn_slot_has_failed(state) && !x->s->cfg.discard_consumed);
    if (h->is_flushed && h->is_out)
        (void)crn_slot_move(x->s->arena, h->slot, h->info.id.seq, state, CRN_SLOT_FREE);
    if (h->is_flushed) {
        crn_held_untold_locked(x, h);
        crn_cache_flushed(x->cache, crn_held_key(h));
    }
    return state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING;
}

/* The service usually flushes the oldest first. So each look checks some of the oldest, and the
 * others in turn: its cost does not depend on the length of the list. */
int crn_tiers_look(void *arg)
{
    struct crn_tiers *x = arg;
    struct crn_tiered *h;
    struct crn_tiered *next;
    int is_busy = 0;
    int n = 0;

    crn_lock(&x->mu);
    x->looks++;
    for (h = x->told; h != NULL && n < LOOK_OLDEST; h = next, n++) {
        next = h->told_next;
        is_busy |= look_at_locked(x, h);
    }
    for (h = x->told_at != NULL ? x->told_at : h; h != NULL && n < LOOK_IN_ALL; h = next, n++) {
        next = h->told_next;
        is_busy |= look_at_locked(x, h);
    }
    is_busy |= h != NULL;
    x->told_at = h;
    crn_unlock(&x->mu);
    return is_busy;
}

void crn_tiers_lost(void *arg, uint64_t key)
{
    struct crn_tiers *x = arg;
    struct crn_spot spot = {.key = key};
    struct crn_tiered *h = crn_held_of(&spot);

    crn_lock(&x->mu);
    if (!h->is_told && !h->is_dropped && !h->is_flushed) {
        h->is_lost = 1;
        x->has_news = 1;
        if (h->is_known)
            crn_tiers_send(x, h, CRN_MSG_CAPTURE_FAILED, CAIRN_EDEVICE,
                           "the GPU was lost before the checkpoint left its memory");
    }
    crn_unlock(&x->mu);
}

/* The arena. ----------------------------------------------------------------------------------- */

static cairn_err arena_prepare(struct crn_tier *t, struct crn_errinfo *ei)
{
    struct back *b = (struct back *)t;
    struct crn_device *dev = b->x->device;
    struct crn_errinfo why = {0};
    uint64_t bytes;
    void *memory = crn_arena_memory(b->x->s->arena, &bytes);

    (void)ei;
    b->is_pinned = dev->driver->ops->pin(dev, memory, bytes, &why) == CAIRN_OK;
    if (!b->is_pinned)
        crn_told_warn_once(b->x->s, "copies from the GPU are slow, continuing: %s", why.msg);
    return CAIRN_OK;
}

void crn_tiers_pin(struct crn_tiers *x)
{
    struct crn_errinfo ignored = {0};

    (void)!arena_prepare(x->arena, &ignored);
}

static void *arena_address(struct crn_tier *t, uint64_t offset)
{
    uint64_t bytes;

    return (unsigned char *)crn_arena_memory(tiers_of(t)->s->arena, &bytes) + offset;
}

/* True if the service already has it or will never get it: then a copy in the arena is only for
 * reading. */
static int is_for_reading(const struct crn_tiered *h)
{
    return h->is_told || h->is_flushed;
}

static cairn_err arena_begin(struct crn_tier *t, const struct crn_spot *spot, int is_up,
                             struct crn_errinfo *ei)
{
    struct crn_tiers *x = tiers_of(t);
    struct crn_tiered *h = crn_held_of(spot);
    cairn_err rc;

    (void)is_up;
    crn_lock(&x->mu);
    h->info.offset = spot->offset;
    if (is_for_reading(h))
        rc = crn_arena_take_at(x->s->arena, CRN_SLOT_READING, &h->info, &h->read_slot, ei);
    else
        rc = crn_arena_take_at(x->s->arena, CRN_SLOT_WRITING, &h->info, &h->slot, ei);
    crn_unlock(&x->mu);
    return rc;
}

static cairn_err arena_end(struct crn_tier *t, const struct crn_spot *spot, int is_up, cairn_err rc,
                           struct crn_errinfo *ei)
{
    struct crn_tiers *x = tiers_of(t);
    struct crn_tiered *h = crn_held_of(spot);

    (void)is_up;
    (void)ei;
    crn_lock(&x->mu);
    if (is_for_reading(h)) {
        (void)crn_slot_move(x->s->arena, h->read_slot, h->info.id.seq, CRN_SLOT_READING,
                            rc == CAIRN_OK ? CRN_SLOT_READ : CRN_SLOT_FREE);
    } else if (rc != CAIRN_OK) {
        (void)crn_slot_move(x->s->arena, h->slot, h->info.id.seq, CRN_SLOT_WRITING, CRN_SLOT_FREE);
    } else {
        h->is_copied = 1;
        crn_tiers_hand_over_locked(x, h);
    }
    crn_unlock(&x->mu);
    return rc;
}

static void arena_copy(struct crn_tier *t, void *dst, const void *src, uint64_t bytes)
{
    struct crn_copy one = {.dst = dst, .src = src, .bytes = bytes};

    crn_copier_run(tiers_of(t)->s->copier, &one, 1);
}

static void arena_close(struct crn_tier *t)
{
    struct back *b = (struct back *)t;
    uint64_t bytes;

    if (b->is_pinned)
        b->x->device->driver->ops->unpin(b->x->device, crn_arena_memory(b->x->s->arena, &bytes));
    free(b);
}

static const struct crn_tier_ops arena_ops = {
    .kind = "arena",
    .address = arena_address,
    .begin = arena_begin,
    .end = arena_end,
    .copy = arena_copy,
    .close = arena_close,
};

static const struct crn_tier_ops arena_pinning_ops = {
    .kind = "arena",
    .prepare = arena_prepare,
    .address = arena_address,
    .begin = arena_begin,
    .end = arena_end,
    .copy = arena_copy,
    .close = arena_close,
};

cairn_err crn_tiers_arena(struct crn_tiers *x, int is_pinning, struct crn_tier **ret,
                          struct crn_errinfo *ei)
{
    uint64_t bytes = crn_arena_bytes(x->s->arena);
    /* Images on the disk need slots too, and some slots are left for spilled captures. */
    uint32_t slots = crn_arena_slots(x->s->arena) / 8 * (x->s->cfg.local_cache > 0 ? 1 : 7);
    struct crn_chain_tier chain = {
        .capacity = bytes,
        .least = bytes / slots,
        .depth = x->s->cfg.local_cache > 0 ? 2 : 1}; /* disks are faster with two */
    struct back *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tier");
    b->x = x;
    b->tier.ops = is_pinning ? &arena_pinning_ops : &arena_ops;
    b->tier.chain = chain;
    *ret = &b->tier;
    return CAIRN_OK;
}
