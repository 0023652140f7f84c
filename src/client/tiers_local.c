/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's disk as a tier below the arena: an area of local_cache bytes in the spool.
 *
 * Background threads copy captures there that the service has not begun to flush. The slot is then
 * "out", and the service, or a drain, reads the image from the file. An image being flushed stays
 * in the arena; after the flush it is copied too if it will be read again. The file is removed with
 * the session or, if it contains an image that still needs a flush, with the run's directory. Runs
 * on the cache's threads; the application's reads come here too. */
#include <errno.h>
#include <stdlib.h>

#include "client/tiers_impl.h"
#include "tier/area.h"

struct local {
    struct crn_tier tier;
    struct crn_tiers *x;
    struct crn_area *area;
};

/* An image is complete in its slot only once the service was told of it. A flushed one is copied to
 * be read again. */
static int may_leave(const struct crn_tiers *x, const struct crn_tiered *h)
{
    enum crn_slot_state state = crn_slot_state_of(x->s->arena, h->slot, h->info.id.seq);

    return h->is_told && (h->is_flushed || state == CRN_SLOT_WRITTEN || crn_slot_has_failed(state));
}

static cairn_err tiers_local_begin(struct crn_tier *t, const struct crn_spot *spot, int is_up,
                                   struct crn_errinfo *ei)
{
    struct crn_tiers *x = ((struct local *)t)->x;
    const struct crn_tiered *h = crn_held_of(spot);
    int is_free;

    (void)is_up;
    crn_lock(&x->mu);
    is_free = may_leave(x, h) && crn_arena_area_is_free(x->s->arena, spot->offset, h->info.bytes);
    crn_unlock(&x->mu);
    return is_free ? CAIRN_OK : crn_fail(ei, CAIRN_EBUSY, 0, "the checkpoint is being flushed");
}

/* If a flush began meanwhile it reads the arena, so this copy does not count. */
static cairn_err tiers_local_end(struct crn_tier *t, const struct crn_spot *spot, int is_up,
                                 cairn_err rc, struct crn_errinfo *ei)
{
    struct crn_tiers *x = ((struct local *)t)->x;
    struct crn_tiered *h = crn_held_of(spot);

    (void)is_up;
    if (rc != CAIRN_OK)
        return rc;
    crn_lock(&x->mu);
    if (crn_slot_put_out(x->s->arena, h->slot, h->info.id.seq, spot->offset))
        h->is_out = 1;
    else if (!may_leave(x, h))
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "the checkpoint is being flushed");
    crn_unlock(&x->mu);
    return rc;
}

static cairn_err tiers_local_put(struct crn_tier *t, const struct crn_spot *spot, uint64_t at,
                                 const void *src, uint64_t bytes, struct crn_errinfo *ei)
{
    return crn_area_write(((struct local *)t)->area, spot->offset, at, src, bytes, ei);
}

static cairn_err tiers_local_get(struct crn_tier *t, const struct crn_spot *spot, uint64_t at,
                                 void *dst, uint64_t bytes, struct crn_errinfo *ei)
{
    return crn_area_read(((struct local *)t)->area, spot->offset, crn_held_of(spot)->info.bytes, at,
                         dst, bytes, ei);
}

/* Does the file contain an image that still needs a flush? Call it after the threads have ended. */
static int is_owed(const struct crn_tiers *x)
{
    const struct crn_tiered *h;

    for (h = x->all; h != NULL; h = h->next) {
        enum crn_slot_state state = crn_slot_state_of(x->s->arena, h->slot, h->info.id.seq);

        if (h->is_out && (state == CRN_SLOT_WRITTEN || state == CRN_SLOT_FLUSHING))
            return 1;
    }
    return 0;
}

static void close_local(struct crn_tier *t)
{
    struct local *l = (struct local *)t;
    cairn_session *s = l->x->s;
    char name[CRN_SPOOL_NAME];

    crn_area_close(l->area);
    crn_rundir_area_name(s->rank, name);
    if (!is_owed(l->x))
        crn_area_remove(s->fs, s->dir.spool_dfd, name); /* otherwise removed with the directory */
    free(l);
}

static const struct crn_tier_ops local_ops = {
    .kind = "local",
    .begin = tiers_local_begin,
    .end = tiers_local_end,
    .put = tiers_local_put,
    .get = tiers_local_get,
    .close = close_local,
};

cairn_err crn_tiers_local(struct crn_tiers *x, struct crn_tier **ret, struct crn_errinfo *ei)
{
    cairn_session *s = x->s;
    struct local *l = calloc(1, sizeof(*l));
    char name[CRN_SPOOL_NAME];
    struct crn_area_options options = {.name = name, .bytes = s->cfg.local_cache};
    uint32_t slots = crn_arena_slots(s->arena) / 4 * 3; /* the arena uses the others */
    cairn_err rc;

    if (l == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tier");
    crn_rundir_area_name(s->rank, name);
    options.is_direct = s->cfg.io == CRN_IO_DIRECT;
    rc = crn_area_create(s->fs, s->dir.spool_dfd, &options, &l->area, ei);
    if (rc != CAIRN_OK) {
        free(l);
        return crn_err_context(ei, rc, "local_cache");
    }
    l->x = x;
    l->tier.ops = &local_ops;
    l->tier.chain = (struct crn_chain_tier){.capacity = crn_area_bytes(l->area),
                                            .align = CRN_AREA_GRANULE,
                                            .least = crn_area_bytes(l->area) / slots,
                                            .is_behind = 1};
    *ret = &l->tier;
    return CAIRN_OK;
}
