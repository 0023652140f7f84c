/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads around the chain. All of them do the same: ask the chain for a move under the lock,
 * make the copy without it, say how it went, wake the others. */
#include "tier/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tier/replay.h"

#define BOUNCES 2 /* of the application: one writes, one reads */

struct worker {
    struct crn_cache *cache;
    int tier;
    int is_up; /* prefetches into the tier; else flushes from it */
    void *bounce;
    pthread_t thread;
    int is_started;
};

/* Prepares a tier, then ends. */
struct starter {
    struct crn_cache *cache;
    int tier;
    pthread_t thread;
    int is_started;
};

struct crn_cache {
    struct crn_cache_options opt;
    struct crn_mutex mu;
    struct crn_cond changed;        /* of the chain, or stopping */
    struct crn_chain *chain;        /* lock */
    struct crn_cache_stats stats;   /* lock */
    struct crn_errinfo error;       /* lock: last failure of the background */
    struct crn_errinfo start_error; /* lock: of a tier that could not be prepared */
    int preparing;                  /* lock: tiers */
    int draining;                   /* lock: callers of flush */
    int is_stopping;                /* lock */
    void *bounce[BOUNCES];
    struct worker worker[2 * CRN_TIERS_MAX];
    int nworkers;
    struct starter starter[CRN_TIERS_MAX];
};

static int64_t now_ns(void)
{
    return crn_clock_real()->mono_ns(crn_clock_real());
}

/* Ends a move. A device that is lost takes its tier along. */
static cairn_err done_locked(struct crn_cache *c, const struct crn_transfer *t, cairn_err rc)
{
    int end[2] = {t->from, t->to};
    int i;

    for (i = 0; rc == CAIRN_EDEVICE && i < 2; i++)
        if (end[i] != CRN_APP && c->opt.tier[end[i]]->device != NULL)
            crn_chain_lost(c->chain, end[i]);
    rc = crn_chain_done(c->chain, t, rc, now_ns());
    crn_cond_broadcast(&c->changed);
    return rc;
}

/* The background. ---------------------------------------------------------------------------------- */

static void count_locked(struct crn_cache *c, const struct crn_transfer *t, cairn_err rc)
{
    int64_t took = now_ns() - t->start_ns;

    if (rc != CAIRN_OK) {
        c->stats.failures++;
    } else if (t->from < t->to) {
        c->stats.flushed_bytes[t->from] += t->bytes;
        c->stats.flush_ns[t->from] += took;
    } else {
        c->stats.prefetched_bytes[t->to] += t->bytes;
        c->stats.prefetch_ns[t->to] += took;
    }
}

/* Tells the back ends what has left their tiers; files are removed here, not in the application. */
static void release_locked(struct crn_cache *c)
{
    struct crn_spot spot;
    int tier;

    while (crn_chain_released(c->chain, &tier, &spot)) {
        crn_unlock(&c->mu);
        if (c->opt.tier[tier]->ops->release != NULL)
            c->opt.tier[tier]->ops->release(c->opt.tier[tier], &spot);
        crn_lock(&c->mu);
    }
}

static int next_locked(struct worker *w, struct crn_transfer *ret)
{
    struct crn_chain *chain = w->cache->chain;

    return w->is_up ? crn_chain_up(chain, w->tier, now_ns(), ret)
                    : crn_chain_down(chain, w->tier, now_ns(), ret);
}

static void wait_for_work_locked(struct crn_cache *c)
{
    int64_t retry = crn_chain_retry_ns(c->chain, now_ns());

    if (retry == INT64_MAX)
        crn_cond_wait(&c->changed, &c->mu);
    else
        (void)crn_cond_wait_until(&c->changed, &c->mu, retry);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct crn_cache *c = w->cache;
    enum crn_lane lane = w->is_up ? CRN_LANE_UP : CRN_LANE_DOWN;
    struct crn_transfer t;

    crn_thread_background(c->opt.nice);
    crn_lock(&c->mu);
    while (!c->is_stopping) {
        struct crn_errinfo ei = {0};
        cairn_err rc;

        release_locked(c);
        if (!next_locked(w, &t)) {
            if (!c->is_stopping)
                wait_for_work_locked(c);
            continue;
        }
        crn_unlock(&c->mu);
        rc = crn_transfer_between(c->opt.tier[t.from], c->opt.tier[t.to], &t, lane, w->bounce, &ei);
        crn_lock(&c->mu);
        if (rc != CAIRN_OK)
            c->error = ei;
        count_locked(c, &t, rc);
        (void)done_locked(c, &t, rc);
    }
    crn_unlock(&c->mu);
    return NULL;
}

static void *prepare(void *arg)
{
    struct starter *s = arg;
    struct crn_cache *c = s->cache;
    struct crn_errinfo ei = {0};
    cairn_err rc = c->opt.tier[s->tier]->ops->prepare(c->opt.tier[s->tier], &ei);

    crn_lock(&c->mu);
    if (rc == CAIRN_OK) {
        crn_chain_ready(c->chain, s->tier, 1);
    } else {
        crn_chain_lost(c->chain, s->tier);
        crn_err_keep(&c->start_error, &ei);
    }
    c->preparing--;
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    return NULL;
}

/* The application. ---------------------------------------------------------------------------------- */

static void trace_locked(struct crn_cache *c, enum crn_request_kind kind, uint64_t key,
                         uint64_t bytes, int64_t start_ns)
{
    struct crn_request r = {
        .start_ns = start_ns, .end_ns = now_ns(), .kind = kind, .key = key, .bytes = bytes};

    if (c->opt.trace != NULL)
        crn_trace_print(c->opt.trace, &r);
}

/* Until the next change; 1 at the deadline. */
static int wait_locked(struct crn_cache *c, int64_t deadline_ns, struct crn_cache_op *op)
{
    op->waits++;
    return crn_cond_wait_until(&c->changed, &c->mu, deadline_ns);
}

/* Asks the chain until it has a move. */
static cairn_err begin_locked(struct crn_cache *c, struct crn_cache_op *op, int64_t deadline_ns,
                              struct crn_transfer *t, struct crn_errinfo *ei)
{
    for (;;) {
        struct crn_errinfo why = {0};
        cairn_err rc = op->kind == CRN_CACHE_WRITE
                           ? crn_chain_write(c->chain, op->key, op->bytes, now_ns(), t, &why)
                           : crn_chain_read(c->chain, op->key, now_ns(), t, &why);

        if (rc == CAIRN_EBUSY) {
            if (!wait_locked(c, deadline_ns, op))
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

static void end_op(struct crn_cache *c, struct crn_cache_op *op)
{
    uint32_t i;

    crn_lock(&c->mu);
    trace_locked(c, op->kind == CRN_CACHE_WRITE ? CRN_REQUEST_WRITE : CRN_REQUEST_READ, op->key,
                 op->bytes, op->start_ns);
    for (i = 0; i < c->opt.ntiers; i++)
        op->used[i] = crn_chain_space(c->chain, (int)i)->used;
    if (op->rc == CAIRN_OK && op->kind == CRN_CACHE_WRITE)
        c->stats.writes++;
    if (op->rc == CAIRN_OK && op->kind == CRN_CACHE_READ) {
        c->stats.reads++;
        c->stats.hits[op->tier]++;
    }
    crn_unlock(&c->mu);
    if (c->opt.on_op != NULL)
        c->opt.on_op(c->opt.arg, op);
}

/* One try; *ret_again: another tier may do. */
static cairn_err try_once(struct crn_cache *c, struct crn_cache_op *op,
                          const struct crn_piece *pieces, size_t n, void *stream,
                          int64_t deadline_ns, int *ret_again, struct crn_errinfo *ei)
{
    int64_t start = now_ns();
    struct crn_transfer t = {0};
    struct crn_errinfo why = {0};
    cairn_err rc;
    int64_t begun;

    *ret_again = 0;
    crn_lock(&c->mu);
    rc = begin_locked(c, op, deadline_ns, &t, ei);
    if (rc != CAIRN_OK && op->kind == CRN_CACHE_WRITE)
        crn_chain_give_up(c->chain);
    crn_unlock(&c->mu);
    begun = now_ns();
    op->wait_ns += begun - start;
    if (rc != CAIRN_OK)
        return rc;
    op->bytes = t.bytes;
    op->distance = t.distance;
    op->tier = op->kind == CRN_CACHE_WRITE ? t.to : t.from;
    if (op->kind == CRN_CACHE_WRITE)
        rc = crn_transfer_in(c->opt.tier[t.to], &t, pieces, n, stream, c->bounce[0], &why);
    else
        rc = crn_transfer_out(c->opt.tier[t.from], &t, pieces, n, stream, c->bounce[1], &why);
    op->copy_ns += now_ns() - begun;
    crn_lock(&c->mu);
    rc = done_locked(c, &t, rc);
    crn_unlock(&c->mu);
    if (rc != CAIRN_OK && why.code == CAIRN_OK)
        rc = crn_fail(&why, rc, 0, "the tier was lost while the checkpoint was copied to it");
    *ret_again = rc == CAIRN_EDAMAGED || rc == CAIRN_EDEVICE;
    crn_err_keep(ei, &why);
    return rc;
}

static cairn_err run(struct crn_cache *c, struct crn_cache_op *op, const struct crn_piece *pieces,
                     size_t n, void *stream, int64_t deadline_ns, struct crn_errinfo *ei)
{
    uint32_t tries;
    int again = 1;

    op->start_ns = now_ns();
    op->tier = -1;
    for (tries = 0; again && tries < c->opt.ntiers; tries++) {
        struct crn_errinfo why = {0};

        op->rc = try_once(c, op, pieces, n, stream, deadline_ns, &again, &why);
        if (op->rc == CAIRN_OK)
            break;
        if (tries > 0 && (op->rc == CAIRN_EDAMAGED || op->rc == CAIRN_ENOENT))
            break; /* no other copy: the first error is the one that tells more */
        crn_err_clear(ei);
        crn_err_keep(ei, &why);
    }
    end_op(c, op);
    return op->rc;
}

cairn_err crn_cache_write(struct crn_cache *c, uint64_t key, uint64_t bytes,
                          const struct crn_piece *pieces, size_t n, void *stream,
                          int64_t deadline_ns, struct crn_errinfo *ei)
{
    struct crn_cache_op op = {.kind = CRN_CACHE_WRITE, .key = key, .bytes = bytes};

    return run(c, &op, pieces, n, stream, deadline_ns, ei);
}

cairn_err crn_cache_read(struct crn_cache *c, uint64_t key, const struct crn_piece *pieces,
                         size_t n, void *stream, int64_t deadline_ns, struct crn_errinfo *ei)
{
    struct crn_cache_op op = {.kind = CRN_CACHE_READ, .key = key};

    return run(c, &op, pieces, n, stream, deadline_ns, ei);
}

cairn_err crn_cache_hint(struct crn_cache *c, uint64_t key, struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_HINT, key, 0, now_ns());
    rc = crn_chain_hint(c->chain, key, ei);
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    return rc;
}

void crn_cache_start(struct crn_cache *c)
{
    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_START, 0, 0, now_ns());
    crn_chain_start(c->chain);
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
}

void crn_cache_forget(struct crn_cache *c, uint64_t key)
{
    crn_lock(&c->mu);
    trace_locked(c, CRN_REQUEST_FORGET, key, 0, now_ns());
    crn_chain_forget(c->chain, key);
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
}

cairn_err crn_cache_flush(struct crn_cache *c, int64_t deadline_ns, struct crn_errinfo *ei)
{
    int64_t start = now_ns();
    cairn_err rc = CAIRN_OK;

    crn_lock(&c->mu);
    crn_chain_drain(c->chain, ++c->draining > 0);
    crn_cond_broadcast(&c->changed);
    while (!crn_chain_is_idle(c->chain)) {
        if (crn_cond_wait_until(&c->changed, &c->mu, deadline_ns)) {
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
    while (c->preparing > 0 && !crn_cond_wait_until(&c->changed, &c->mu, deadline_ns))
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

void crn_cache_last_error(struct crn_cache *c, struct crn_errinfo *ret)
{
    crn_lock(&c->mu);
    *ret = c->error;
    crn_unlock(&c->mu);
}

enum crn_life crn_cache_state(struct crn_cache *c, uint64_t key, int tier)
{
    enum crn_life state;

    crn_lock(&c->mu);
    state = crn_chain_state(c->chain, key, tier);
    crn_unlock(&c->mu);
    return state;
}

/* Life. ------------------------------------------------------------------------------------------------ */

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

static cairn_err get_bounce(void **ret, struct crn_errinfo *ei)
{
    *ret = aligned_alloc(4096, CRN_TIER_BLOCK);
    return *ret != NULL ? CAIRN_OK
                        : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a buffer of the tier cache");
}

static cairn_err start_worker(struct crn_cache *c, int tier, int is_up, struct crn_errinfo *ei)
{
    struct worker *w = &c->worker[c->nworkers++];
    cairn_err rc;

    *w = (struct worker){.cache = c, .tier = tier, .is_up = is_up};
    rc = get_bounce(&w->bounce, ei);
    if (rc == CAIRN_OK)
        rc = crn_thread_start(&w->thread, is_up ? "cairn-prefetch" : "cairn-flush", work, w, ei);
    w->is_started = rc == CAIRN_OK;
    return rc;
}

static cairn_err start_preparing(struct crn_cache *c, int tier, struct crn_errinfo *ei)
{
    struct starter *s = &c->starter[tier];
    cairn_err rc;

    if (c->opt.tier[tier]->ops->prepare == NULL)
        return CAIRN_OK;
    *s = (struct starter){.cache = c, .tier = tier};
    crn_lock(&c->mu);
    crn_chain_ready(c->chain, tier, 0);
    c->preparing++;
    crn_unlock(&c->mu);
    rc = crn_thread_start(&s->thread, "cairn-prepare", prepare, s, ei);
    s->is_started = rc == CAIRN_OK;
    return rc;
}

static void stop(struct crn_cache *c)
{
    int i;

    crn_lock(&c->mu);
    c->is_stopping = 1;
    crn_cond_broadcast(&c->changed);
    crn_unlock(&c->mu);
    for (i = 0; i < CRN_TIERS_MAX; i++)
        if (c->starter[i].is_started)
            (void)pthread_join(c->starter[i].thread, NULL);
    for (i = 0; i < c->nworkers; i++) {
        if (c->worker[i].is_started)
            (void)pthread_join(c->worker[i].thread, NULL);
        free(c->worker[i].bounce);
    }
    for (i = 0; i < BOUNCES; i++)
        free(c->bounce[i]);
    crn_chain_close(c->chain);
    crn_cond_fini(&c->changed);
    crn_mutex_fini(&c->mu);
}

cairn_err crn_cache_open(const struct crn_cache_options *options, struct crn_cache **ret,
                         struct crn_errinfo *ei)
{
    struct crn_cache *c = calloc(1, sizeof(*c));
    cairn_err rc;
    int last = (int)options->ntiers - 1;
    int t;

    if (c == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tier cache");
    c->opt = *options;
    crn_mutex_init(&c->mu, CRN_RANK_TIER);
    crn_cond_init(&c->changed);
    rc = open_chain(c, ei);
    for (t = 0; rc == CAIRN_OK && t < BOUNCES; t++)
        rc = get_bounce(&c->bounce[t], ei);
    for (t = 0; rc == CAIRN_OK && t <= last; t++)
        rc = start_preparing(c, t, ei);
    for (t = 0; rc == CAIRN_OK && t < last; t++) {
        rc = start_worker(c, t, 0, ei);
        if (rc == CAIRN_OK)
            rc = start_worker(c, t, 1, ei);
    }
    if (rc != CAIRN_OK) {
        stop(c); /* the tiers stay the caller's */
        free(c);
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
    stop(c);
    for (i = 0; i < c->opt.ntiers; i++)
        c->opt.tier[i]->ops->close(c->opt.tier[i]);
    free(c);
}
