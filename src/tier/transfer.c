/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves the bytes of one checkpoint between two tiers, or between a tier and the application.
 * Memory to memory is one copy. Files are copied block by block, through a bounce buffer if the
 * other end is a device or consists of several pieces of the application's memory. */
#include <string.h>

#include "tier/tier.h"

static int is_memory(const struct crn_tier *t)
{
    return t->ops->address != NULL;
}

/* Waits even after an error: no submitted copy may still run when its memory is reused. */
static cairn_err device_copy(struct crn_device *dev, enum crn_lane lane, void *dst, const void *src,
                             uint64_t bytes, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc = dev->driver->ops->copy(dev, lane, dst, src, bytes, ei);
    cairn_err waited = dev->driver->ops->wait(dev, lane, &late);

    crn_err_keep(ei, &late);
    return rc != CAIRN_OK ? rc : waited;
}

/* Tier to tier. -------------------------------------------------------------------------------- */

/* Gets bytes of a tier as host memory: their address, or read into buf. */
static cairn_err read_block(struct crn_tier *from, const struct crn_spot *spot, uint64_t at,
                            uint64_t n, enum crn_lane lane, void *buf, const void **ret,
                            struct crn_errinfo *ei)
{
    *ret = buf;
    if (!is_memory(from))
        return from->ops->get(from, spot, at, buf, n, ei);
    if (from->device != NULL)
        return device_copy(from->device, lane, buf, from->ops->address(from, spot->offset + at), n,
                           ei);
    *ret = from->ops->address(from, spot->offset + at);
    return CAIRN_OK;
}

static cairn_err write_block(struct crn_tier *to, const struct crn_spot *spot, uint64_t at,
                             uint64_t n, enum crn_lane lane, const void *buf,
                             struct crn_errinfo *ei)
{
    void *dst;

    if (!is_memory(to))
        return to->ops->put(to, spot, at, buf, n, ei);
    dst = to->ops->address(to, spot->offset + at);
    if (to->device != NULL)
        return device_copy(to->device, lane, dst, buf, n, ei);
    if (dst != buf)
        memcpy(dst, buf, n);
    return CAIRN_OK;
}

static cairn_err transfer_begin(struct crn_tier *to, const struct crn_tier_transfer *t,
                                struct crn_errinfo *ei)
{
    return to->ops->begin != NULL ? to->ops->begin(to, &t->dst, t->from > t->to, ei) : CAIRN_OK;
}

static cairn_err transfer_end(struct crn_tier *to, const struct crn_tier_transfer *t, cairn_err rc,
                              struct crn_errinfo *ei)
{
    return to->ops->end != NULL ? to->ops->end(to, &t->dst, t->from > t->to, rc, ei) : rc;
}

/* A move with files at one end or both. */
struct blocks {
    struct crn_tier *from, *to;
    const struct crn_tier_transfer *t;
    const struct crn_mover *by;
    uint64_t bytes; /* of a block */
};

static int is_host(const struct crn_tier *t)
{
    return is_memory(t) && t->device == NULL;
}

static cairn_err copy_block(void *arg, uint64_t i, struct crn_errinfo *ei)
{
    const struct blocks *b = arg;
    uint64_t at = i * b->bytes;
    uint64_t n = b->t->bytes - at < b->bytes ? b->t->bytes - at : b->bytes;
    void *buf = is_host(b->to) ? b->to->ops->address(b->to, b->t->dst.offset + at) : b->by->bounce;
    const void *host;
    cairn_err rc;

    rc = read_block(b->from, &b->t->src, at, n, b->by->lane, buf, &host, ei);
    if (rc == CAIRN_OK)
        rc = write_block(b->to, &b->t->dst, at, n, b->by->lane, host, ei);
    return rc;
}

/* If one end is host memory, no block needs the bounce buffer, and helpers may share the blocks. */
static cairn_err copy_blocks(struct blocks *b, struct crn_errinfo *ei)
{
    uint64_t n = (b->t->bytes + b->bytes - 1) / b->bytes;
    cairn_err rc = CAIRN_OK;
    uint64_t i;

    if (n > 1 && b->by->team != NULL && (is_host(b->from) || is_host(b->to)))
        return crn_team_run(b->by->team, n, copy_block, b, ei);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = copy_block(b, i, ei);
    return rc;
}

static cairn_err copy_memory(struct crn_tier *from, struct crn_tier *to,
                             const struct crn_tier_transfer *t, enum crn_lane lane,
                             struct crn_errinfo *ei)
{
    struct crn_device *dev = from->device != NULL ? from->device : to->device;
    const void *src = from->ops->address(from, t->src.offset);
    void *dst = to->ops->address(to, t->dst.offset);

    if (dev != NULL)
        return device_copy(dev, lane, dst, src, t->bytes, ei);
    memcpy(dst, src, t->bytes);
    return CAIRN_OK;
}

cairn_err crn_transfer_between(struct crn_tier *from, struct crn_tier *to,
                               const struct crn_tier_transfer *t, const struct crn_mover *by,
                               struct crn_errinfo *ei)
{
    int is_whole = is_host(to) && from->chain.is_external; /* got in one call */
    struct blocks blocks = {from, to, t, by, is_whole ? t->bytes : CRN_TIER_BLOCK};
    cairn_err rc = transfer_begin(to, t, ei);

    if (rc != CAIRN_OK)
        return rc;
    if (is_memory(from) && is_memory(to))
        rc = copy_memory(from, to, t, by->lane, ei);
    else
        rc = copy_blocks(&blocks, ei);
    return transfer_end(to, t, rc, ei);
}

/* The application's pieces. -------------------------------------------------------------------- */

/* The devices involved, each to be ordered and waited for once. */
struct devices {
    struct crn_device *dev[CRN_GPUS];
    int n;
};

static cairn_err devices_of(const struct crn_ends *app, struct crn_device *tier,
                            struct devices *ret, struct crn_errinfo *ei)
{
    size_t i;
    int k;

    for (i = 0; i < app->n; i++) {
        struct crn_device *dev = app->pieces[i].device != NULL ? app->pieces[i].device : tier;

        for (k = 0; dev != NULL && k < ret->n && ret->dev[k] != dev; k++)
            ;
        if (dev == NULL || k < ret->n)
            continue;
        if (ret->n == CRN_GPUS)
            return crn_fail(ei, CAIRN_ELIMIT, 0, "a checkpoint spans at most %d GPUs", CRN_GPUS);
        ret->dev[ret->n++] = dev;
    }
    return CAIRN_OK;
}

/* Waits even after an error, like device_copy. */
static cairn_err wait_all(const struct devices *d, enum crn_lane lane, cairn_err rc,
                          struct crn_errinfo *ei)
{
    int i;

    for (i = 0; i < d->n; i++) {
        struct crn_errinfo late = {0};
        cairn_err r = d->dev[i]->driver->ops->wait(d->dev[i], lane, &late);

        crn_err_keep(ei, &late);
        if (rc == CAIRN_OK)
            rc = r;
    }
    return rc;
}

static void transfer_meanwhile(const struct crn_ends *app)
{
    if (app->meanwhile != NULL)
        app->meanwhile(app->arg);
}

/* Copies between a piece, from byte skip on, and memory of the tier or the bounce buffer. */
static cairn_err move_piece(const struct crn_tier_piece *p, uint64_t skip, uint64_t n, void *other,
                            struct crn_tier *tier, enum crn_lane lane, struct crn_errinfo *ei)
{
    struct crn_device *dev = p->device != NULL ? p->device : is_memory(tier) ? tier->device : NULL;
    unsigned char *mine = (unsigned char *)p->ptr + skip;
    void *dst = lane == CRN_LANE_WRITE ? other : mine;
    const void *src = lane == CRN_LANE_WRITE ? mine : other;

    if (dev != NULL)
        return dev->driver->ops->copy(dev, lane, dst, src, n, ei);
    if (tier->ops->copy != NULL)
        tier->ops->copy(tier, dst, src, n);
    else
        memcpy(dst, src, n);
    return CAIRN_OK;
}

static cairn_err move_memory(struct crn_tier *tier, uint64_t offset, const struct crn_ends *app,
                             const struct devices *devices, enum crn_lane lane,
                             struct crn_errinfo *ei)
{
    const struct crn_tier_piece *p = app->pieces;
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < app->n; i++)
        if (p[i].bytes > 0)
            rc = move_piece(&p[i], 0, p[i].bytes, tier->ops->address(tier, offset + p[i].at), tier,
                            lane, ei);
    transfer_meanwhile(app);
    return wait_all(devices, lane, rc, ei);
}

/* Copies the overlap of the pieces with one block. */
static cairn_err move_overlaps(struct crn_tier *tier, const struct crn_ends *app, uint64_t at,
                               uint64_t bytes, const struct devices *devices, enum crn_lane lane,
                               struct crn_errinfo *ei)
{
    unsigned char *bounce = app->bounce;
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < app->n; i++) {
        const struct crn_tier_piece *p = &app->pieces[i];
        uint64_t low = p->at > at ? p->at : at;
        uint64_t high = p->at + p->bytes < at + bytes ? p->at + p->bytes : at + bytes;

        if (low < high)
            rc = move_piece(p, low - p->at, high - low, bounce + (low - at), tier, lane, ei);
    }
    return wait_all(devices, lane, rc, ei);
}

static cairn_err move_blocks(struct crn_tier *tier, const struct crn_spot *spot, uint64_t bytes,
                             const struct crn_ends *app, const struct devices *devices,
                             enum crn_lane lane, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    uint64_t at;

    for (at = 0; rc == CAIRN_OK && at < bytes; at += CRN_TIER_BLOCK) {
        uint64_t size = bytes - at < CRN_TIER_BLOCK ? bytes - at : CRN_TIER_BLOCK;

        if (lane == CRN_LANE_WRITE) {
            memset(app->bounce, 0, size); /* the gaps between the pieces */
            rc = move_overlaps(tier, app, at, size, devices, lane, ei);
            if (rc == CAIRN_OK)
                rc = tier->ops->put(tier, spot, at, app->bounce, size, ei);
        } else {
            rc = tier->ops->get(tier, spot, at, app->bounce, size, ei);
            if (rc == CAIRN_OK)
                rc = move_overlaps(tier, app, at, size, devices, lane, ei);
        }
    }
    transfer_meanwhile(app);
    return rc;
}

static cairn_err transfer_move(struct crn_tier *tier, const struct crn_spot *spot, uint64_t bytes,
                               const struct crn_ends *app, enum crn_lane lane,
                               struct crn_errinfo *ei)
{
    struct devices devices = {{NULL}, 0};
    cairn_err rc;
    int i;

    rc = devices_of(app, is_memory(tier) ? tier->device : NULL, &devices, ei);
    for (i = 0; rc == CAIRN_OK && i < devices.n; i++)
        rc = devices.dev[i]->driver->ops->after(
            devices.dev[i], lane,
            app->streams != NULL ? app->streams[devices.dev[i]->ordinal] : NULL, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (is_memory(tier))
        return move_memory(tier, spot->offset, app, &devices, lane, ei);
    return move_blocks(tier, spot, bytes, app, &devices, lane, ei);
}

cairn_err crn_transfer_in(struct crn_tier *to, const struct crn_tier_transfer *t,
                          const struct crn_ends *app, struct crn_errinfo *ei)
{
    cairn_err rc = transfer_begin(to, t, ei);

    if (rc != CAIRN_OK)
        return rc;
    rc = transfer_move(to, &t->dst, t->bytes, app, CRN_LANE_WRITE, ei);
    return transfer_end(to, t, rc, ei);
}

cairn_err crn_transfer_out(struct crn_tier *from, const struct crn_tier_transfer *t,
                           const struct crn_ends *app, struct crn_errinfo *ei)
{
    return transfer_move(from, &t->src, t->bytes, app, CRN_LANE_READ, ei);
}
