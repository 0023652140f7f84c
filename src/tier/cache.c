/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the application. A call waits for space or for a copy in flight, copies on its own
 * thread, and leaves the rest to the threads of cache_work.c. */
#include "tier/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tier/cache_impl.h"
#include "tier/replay.h"

/* The application. ----------------------------------------------------------------------------- */

static void trace_locked(struct crn_cache *c, enum crn_request_kind kind, uint64_t key,
                         uint64_t bytes, int64_t start_ns) CRN_REQUIRES(c->mu)
{
    struct crn_request r = {
        .start_ns = start_ns, .end_ns = crn_cache_now(), .kind = kind, .key = key, .bytes = bytes};

    if (c->opt.trace != NULL)
        crn_trace_print(c->opt.trace, &r);
}

/* The fastest suitable tier: host memory goes to a device only together with more device memory. */
static int first_tier(const struct crn_cache *c, const struct crn_tier_piece *pieces, size_t n)
{
    uint64_t bytes[2] = {0, 0};
    int t = 0;
    size_t i;

    for (i = 0; i < n; i++)
        bytes[pieces[i].device != NULL] += pieces[i].bytes;
    while (bytes[0] > bytes[1] && t + 1 < (int)c->opt.ntiers && c->opt.tier[t]->is_for_device)
        t++;
    return t;
}

/* Asks the chain until it has a move. */
static cairn_err begin_locked(struct crn_cache *c, struct crn_cache_op *op, int first,
                              int64_t deadline_ns, struct crn_tier_transfer *t,
                              struct crn_errinfo *ei) CRN_REQUIRES(c->mu)
{
    for (;;) {
        struct crn_errinfo why = {0};
        cairn_err rc =
            op->kind == CRN_CACHE_WRITE
                ? crn_chain_write(c->chain, op->key, op->bytes, first, crn_cache_now(), t, &why)
                : crn_chain_read(c->chain, op->key, crn_cache_now(), t, &why);

        if (rc == CAIRN_EBUSY) {
            op->waits++;
            if (!crn_cache_wait_locked(c, deadline_ns))
                continue;
            if (c->error.code != CAIRN_OK)
                return crn_fail(ei, CAIRN_ETIMEDOUT, 0, "%.200s; the last flush failed: %.200s",
                                why.msg, c->error.msg);
            return crn_fail(ei, CAIRN_ETIMEDOUT, 0, "%.400s", why.msg);
        }
        crn_err_keep(ei, &why);
        return rc;
    }
}

/* Records the statistics of a call that has ended. */
static void note_locked(struct crn_cache *c, struct crn_cache_op *op, cairn_err rc)
    CRN_REQUIRES(c->mu)
{
    uint32_t i;

    op->rc = rc;
    trace_locked(c, op->kind == CRN_CACHE_WRITE ? CRN_REQUEST_WRITE : CRN_REQUEST_READ, op->key,
                 op->bytes, op->start_ns);
    for (i = 0; i < c->opt.ntiers; i++)
        op->used[i] = crn_chain_space(c->chain, (int)i)->used;
    if (op->rc == CAIRN_OK && op->kind == CRN_CACHE_WRITE) {
        c->stats.writes++;
        c->written_ns = op->start_ns + op->wait_ns + op->copy_ns;
    }
    if (op->rc == CAIRN_OK && op->kind == CRN_CACHE_READ) {
        c->stats.reads++;
        c->stats.hits[op->tier]++;
    }
}

/* One attempt; *ret_again: try another tier. */
static cairn_err try_once(struct crn_cache *c, struct crn_cache_op *op, const struct crn_ends *app,
                          int64_t deadline_ns, int *ret_again, struct crn_errinfo *ei)
{
    int is_write = op->kind == CRN_CACHE_WRITE;
    int64_t start = crn_cache_now();
    struct crn_tier_transfer t = {0};
    struct crn_errinfo why = {0};
    cairn_err rc;
    int64_t begun;

    *ret_again = 0;
    crn_lock(&c->mu);
    rc = begin_locked(c, op, first_tier(c, app->pieces, app->n), deadline_ns, &t, ei);
    if (rc != CAIRN_OK && is_write)
        crn_chain_give_up(c->chain);
    crn_unlock(&c->mu);
    begun = crn_cache_now();
    op->wait_ns += begun - start;
    if (rc != CAIRN_OK)
        return rc;
    op->bytes = t.bytes;
    op->distance = t.distance;
    op->tier = is_write ? t.to : t.from;
    if (is_write)
        rc = crn_transfer_in(c->opt.tier[t.to], &t, app, &why);
    else
        rc = crn_transfer_out(c->opt.tier[t.from], &t, app, &why);
    op->copy_ns += crn_cache_now() - begun;
    crn_lock(&c->mu);
    rc = crn_cache_done_locked(c, &t, rc);
    if (rc == CAIRN_OK)
        note_locked(c, op, rc);
    crn_cache_unlock(c);
    if (rc != CAIRN_OK && why.code == CAIRN_OK)
        rc = crn_fail(&why, rc, 0, "the tier was lost while the checkpoint was copied to it");
    *ret_again = rc == CAIRN_EDAMAGED || rc == CAIRN_EDEVICE;
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err cache_run(struct crn_cache *c, struct crn_cache_op *op, const struct crn_ends *app,
                           int64_t deadline_ns, struct crn_errinfo *ei)
{
    uint32_t tries;
    int again = 1;

    op->start_ns = crn_cache_now();
    op->tier = -1;
    for (tries = 0; again && tries < c->opt.ntiers; tries++) {
        struct crn_errinfo why = {0};

        op->rc = try_once(c, op, app, deadline_ns, &again, &why);
        if (op->rc == CAIRN_OK)
            break;
        if (tries > 0 && (op->rc == CAIRN_EDAMAGED || op->rc == CAIRN_ENOENT)) {
            ei->code = op->rc; /* no other copy: keep the more useful text of the first error */
            break;
        }
        crn_err_clear(ei);
        crn_err_keep(ei, &why);
    }
    if (op->rc != CAIRN_OK) {
        crn_lock(&c->mu);
        note_locked(c, op, op->rc);
        crn_unlock(&c->mu);
    }
    if (c->opt.on_op != NULL)
        c->opt.on_op(c->opt.arg, op);
    return op->rc;
}

cairn_err crn_cache_write(struct crn_cache *c, uint64_t key, uint64_t bytes,
                          const struct crn_tier_piece *pieces, size_t n, void *const *streams,
                          int64_t deadline_ns, struct crn_errinfo *ei)
{
    struct crn_cache_op op = {.kind = CRN_CACHE_WRITE, .key = key, .bytes = bytes};
    struct crn_ends app = {.pieces = pieces,
                           .n = n,
                           .streams = streams,
                           .bounce = c->bounce[0],
                           .meanwhile = c->opt.meanwhile,
                           .arg = c->opt.arg};

    return cache_run(c, &op, &app, deadline_ns, ei);
}

cairn_err crn_cache_read(struct crn_cache *c, uint64_t key, const struct crn_tier_piece *pieces,
                         size_t n, void *const *streams, int64_t deadline_ns,
                         struct crn_errinfo *ei)
{
    struct crn_cache_op op = {.kind = CRN_CACHE_READ, .key = key};
    struct crn_ends app = {.pieces = pieces, .n = n, .streams = streams, .bounce = c->bounce[1]};

    return cache_run(c, &op, &app, deadline_ns, ei);
}

cairn_err crn_cache_hint(struct crn_cache *c, uint64_t key, struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_HINT, key, 0, crn_cache_now());
    rc = crn_chain_hint(c->chain, key, ei);
    crn_cache_unlock(c);
    return rc;
}

void crn_cache_start(struct crn_cache *c)
{
    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_START, 0, 0, crn_cache_now());
    crn_chain_start(c->chain);
    crn_cache_unlock(c);
}

void crn_cache_unhint(struct crn_cache *c, uint64_t key)
{
    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_UNHINT, key, 0, crn_cache_now());
    crn_chain_unhint(c->chain, key);
    crn_cache_unlock(c);
}

void crn_cache_skip(struct crn_cache *c, uint64_t key)
{
    crn_lock(&c->mu);
    crn_chain_skip(c->chain, key);
    crn_cache_unlock(c);
}

cairn_err crn_cache_adopt(struct crn_cache *c, uint64_t key, uint64_t bytes, int first,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu);
    rc = crn_chain_adopt(c->chain, key, bytes, first, ei);
    crn_cache_unlock(c);
    return rc;
}

cairn_err crn_cache_import(struct crn_cache *c, uint64_t key, uint64_t bytes, int tier,
                           uint64_t offset, struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu);
    rc = crn_chain_import(c->chain, key, bytes, tier, offset, ei);
    crn_cache_unlock(c);
    return rc;
}

void crn_cache_flushed(struct crn_cache *c, uint64_t key)
{
    crn_lock(&c->mu);
    crn_chain_flushed(c->chain, key);
    crn_cache_unlock(c);
}

void crn_cache_forget(struct crn_cache *c, uint64_t key)
{
    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_FORGET, key, 0, crn_cache_now());
    crn_chain_forget(c->chain, key);
    crn_cache_unlock(c);
}

cairn_err crn_cache_bind(struct crn_cache *c, int tier, struct crn_device *dev, uint64_t bytes,
                         struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu); /* no copy uses the tier before */
    rc = crn_tier_device_bind(c->opt.tier[tier], dev, bytes, ei);
    if (rc == CAIRN_OK)
        rc = crn_chain_grow(c->chain, tier, bytes, ei);
    crn_cache_unlock(c);
    return rc;
}

cairn_err crn_cache_flush(struct crn_cache *c, int64_t deadline_ns, struct crn_errinfo *ei)
{
    int64_t start = crn_cache_now();
    cairn_err rc = CAIRN_OK;

    crn_lock(&c->mu);
    crn_chain_drain(c->chain, ++c->draining > 0);
    crn_cache_wake_locked(c);
    while (!crn_chain_is_idle(c->chain)) {
        if (crn_cache_wait_locked(c, deadline_ns)) {
            rc = crn_fail(ei, CAIRN_ETIMEDOUT, 0, "not all checkpoints are flushed%s%s",
                          c->error.code != CAIRN_OK ? "; the last failure: " : "", c->error.msg);
            break;
        }
    }
    crn_chain_drain(c->chain, --c->draining > 0);
    trace_locked(c, CRN_REQUEST_FLUSH, 0, 0, start);
    crn_unlock(&c->mu);
    return rc;
}

cairn_err crn_cache_ready(struct crn_cache *c, int64_t deadline_ns, struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu);
    while (c->preparing > 0 && !crn_cache_wait_locked(c, deadline_ns))
        ;
    rc = c->start_error.code;
    crn_err_keep(ei, &c->start_error);
    if (rc == CAIRN_OK && c->preparing > 0)
        rc = crn_fail(ei, CAIRN_ETIMEDOUT, 0, "%d tiers are still being prepared", c->preparing);
    crn_unlock(&c->mu);
    return rc;
}

void crn_cache_get_stats(struct crn_cache *c, struct crn_cache_stats *ret)
{
    crn_lock(&c->mu);
    *ret = c->stats;
    crn_unlock(&c->mu);
}

int crn_cache_is_stuck(struct crn_cache *c, int tier)
{
    int is_stuck;

    crn_lock(&c->mu);
    is_stuck = crn_chain_is_stuck(c->chain, tier);
    crn_unlock(&c->mu);
    return is_stuck;
}

enum crn_life crn_cache_state(struct crn_cache *c, uint64_t key, int tier)
{
    enum crn_life state;

    crn_lock(&c->mu);
    state = crn_chain_state(c->chain, key, tier);
    crn_unlock(&c->mu);
    return state;
}

/* Life. ---------------------------------------------------------------------------------------- */

static cairn_err open_chain(struct crn_cache *c, struct crn_errinfo *ei)
{
    struct crn_chain_options opt = {.policy = c->opt.policy,
                                    .discard_consumed = c->opt.discard_consumed,
                                    .ntiers = c->opt.ntiers};
    uint32_t i;

    for (i = 0; i < c->opt.ntiers; i++)
        opt.tier[i] = c->opt.tier[i]->chain;
    return crn_chain_open(&opt, &c->chain, ei);
}

static void free_cache(struct crn_cache *c)
{
    int i;

    for (i = 0; i < BOUNCES; i++)
        free(c->bounce[i]);
    crn_chain_close(c->chain);
    crn_cond_fini(&c->changed);
    crn_mutex_fini(&c->mu);
    free(c);
}

cairn_err crn_cache_open(const struct crn_cache_options *options, struct crn_cache **ret,
                         struct crn_errinfo *ei)
{
    struct crn_cache *c = calloc(1, sizeof(*c));
    cairn_err rc;
    int i;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tier cache");
    c->opt = *options;
    crn_mutex_init(&c->mu, CRN_RANK_TIER);
    crn_cond_init(&c->changed);
    rc = open_chain(c, ei);
    for (i = 0; rc == CAIRN_OK && i < BOUNCES; i++)
        rc = crn_cache_bounce(&c->bounce[i], ei);
    if (rc == CAIRN_OK)
        rc = crn_cache_start_threads(c, ei);
    if (rc != CAIRN_OK) {
        crn_cache_stop_threads(c);
        free_cache(c); /* the caller keeps the tiers */
        return rc;
    }
    *ret = c;
    return CAIRN_OK;
}

void crn_cache_close(struct crn_cache *c)
{
    uint32_t i;

    if (c == NULL)
        return;
    crn_cache_stop_threads(c);
    for (i = 0; i < c->opt.ntiers; i++)
        c->opt.tier[i]->ops->close(c->opt.tier[i]);
    free_cache(c);
}
