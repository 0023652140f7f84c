/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of the tier cache. Each asks the chain for a move under the lock, makes the copy
 * without it, reports the result, and wakes the threads that now have something to do. */
#include <errno.h>
#include <stdlib.h>

#include "tier/cache_impl.h"

#define LOOK_NS                                                                                    \
    INT64_C(2000000) /* interval of looks at an external tier while a caller needs space */
/* Waking a thread costs the application several microseconds, more on virtual machines. While
 * captures come often, the flush threads poll instead. */
#define OFTEN_NS INT64_C(100000000)
#define POLL_NS  INT64_C(1000000)
#define HELPERS  4 /* at most: with two flush threads, the files take no more at once */

static int is_wanted_locked(const struct crn_cache *c, const struct cache_worker *w)
    CRN_REQUIRES(c->mu)
{
    const struct crn_chain *chain = c->chain;

    if (crn_chain_has_lost(chain))
        return 1;
    return w->is_up ? crn_chain_wants_up(chain, w->tier) : crn_chain_wants_down(chain, w->tier);
}

/* Finds a sleeping thread for each link with copies to make; it wakes the next one if there are
 * more. */
static uint32_t find_sleepers_locked(struct crn_cache *c) CRN_REQUIRES(c->mu)
{
    uint32_t found = 0;
    unsigned woken = 0;
    int i;

    for (i = 0; i < c->nworkers; i++) {
        struct cache_worker *w = &c->worker[i];
        unsigned link = 1U << (2 * w->tier + w->is_up);

        if (!w->is_asleep ||
            (!c->is_stopping && ((woken & link) != 0 || !is_wanted_locked(c, w))) ||
            (w->is_polling && c->waiters == 0 && !c->is_stopping))
            continue;
        woken |= link;
        w->is_asleep = 0;
        found |= 1U << i;
    }
    return found;
}

static void cache_work_wake(struct crn_cache *c, uint32_t sleepers, int has_waiters)
{
    int i;

    for (i = 0; sleepers != 0; i++, sleepers >>= 1)
        if ((sleepers & 1) != 0)
            crn_cond_signal(&c->worker[i].wake);
    if (has_waiters)
        crn_cond_broadcast(&c->changed);
}

void crn_cache_wake_locked(struct crn_cache *c) CRN_REQUIRES(c->mu)
{
    cache_work_wake(c, find_sleepers_locked(c), c->waiters > 0);
}

void crn_cache_unlock(struct crn_cache *c)
{
    uint32_t sleepers = find_sleepers_locked(c);
    int has_waiters = c->waiters > 0;

    crn_unlock(&c->mu);
    cache_work_wake(c, sleepers, has_waiters);
}

/* Asks what the external tier has flushed. 1: flushes are pending there, and no event will report
 * their end. */
static int look_locked(struct crn_cache *c) CRN_REQUIRES(c->mu)
{
    int is_busy;

    if (c->opt.look == NULL)
        return 0;
    crn_unlock(&c->mu);
    is_busy = c->opt.look(c->opt.arg);
    crn_lock(&c->mu);
    return is_busy;
}

int crn_cache_wait_locked(struct crn_cache *c, int64_t deadline_ns) CRN_REQUIRES(c->mu)
{
    int64_t soon = c->opt.look != NULL ? crn_cache_now() + LOOK_NS : deadline_ns;
    int is_late;

    c->waiters++;
    crn_cache_wake_locked(c); /* including those that poll */
    is_late = crn_cond_wait_until(&c->changed, &c->mu, soon < deadline_ns ? soon : deadline_ns);
    c->waiters--;
    (void)look_locked(c);
    return is_late && crn_cache_now() >= deadline_ns;
}

cairn_err crn_cache_done_locked(struct crn_cache *c, const struct crn_tier_transfer *t,
                                cairn_err rc) CRN_REQUIRES(c->mu)
{
    int end[2] = {t->from, t->to};
    int i;

    for (i = 0; rc == CAIRN_EDEVICE && i < 2; i++)
        if (end[i] != CRN_APP && c->opt.tier[end[i]]->device != NULL)
            crn_chain_lost(c->chain, end[i]);
    return crn_chain_done(c->chain, t, rc, crn_cache_now());
}

/* The background. ------------------------------------------------------------------------------ */

static void count_locked(struct crn_cache *c, const struct crn_tier_transfer *t, cairn_err rc)
    CRN_REQUIRES(c->mu)
{
    int is_up = t->from > t->to;
    int tier = is_up ? t->to : t->from;
    int64_t *last = &c->last_ns[is_up][tier];
    int64_t now = crn_cache_now();
    int64_t took = now - (t->start_ns > *last ? t->start_ns : *last); /* two may share the link */

    *last = now;
    if (rc != CAIRN_OK) {
        c->stats.failures += rc != CAIRN_EBUSY; /* a full tier is no failure */
    } else if (is_up) {
        c->stats.prefetched_bytes[tier] += t->bytes;
        c->stats.prefetch_ns[tier] += took;
    } else {
        c->stats.flushed_bytes[tier] += t->bytes;
        c->stats.flush_ns[tier] += took;
    }
}

static void tell_lost_locked(struct crn_cache *c) CRN_REQUIRES(c->mu)
{
    uint64_t key;

    while (c->opt.on_lost != NULL && crn_chain_next_lost(c->chain, &key)) {
        crn_unlock(&c->mu);
        c->opt.on_lost(c->opt.arg, key);
        crn_lock(&c->mu);
    }
}

static int next_locked(struct crn_cache *c, const struct cache_worker *w,
                       struct crn_tier_transfer *ret) CRN_REQUIRES(c->mu)
{
    struct crn_chain *chain = c->chain;

    return w->is_up ? crn_chain_up(chain, w->tier, crn_cache_now(), ret)
                    : crn_chain_down(chain, w->tier, crn_cache_now(), ret);
}

/* is_busy: flushes on an external tier are pending and may free space. */
static void sleep_locked(struct crn_cache *c, struct cache_worker *w, int is_busy)
    CRN_REQUIRES(c->mu)
{
    int64_t retry = crn_chain_retry_ns(c->chain, crn_cache_now());
    int is_wanting =
        w->is_up ? crn_chain_wants_up(c->chain, w->tier) : crn_chain_wants_down(c->chain, w->tier);
    int64_t now = crn_cache_now();

    if (is_busy && is_wanting && retry > now + LOOK_NS)
        retry = now + LOOK_NS;
    w->is_polling = w->tier == 0 && !w->is_up && now - c->written_ns < OFTEN_NS && c->waiters == 0;
    if (w->is_polling && retry > now + POLL_NS)
        retry = now + POLL_NS;
    w->is_asleep = 1;
    if (retry == INT64_MAX)
        crn_cond_wait(&w->wake, &c->mu);
    else
        (void)crn_cond_wait_until(&w->wake, &c->mu, retry);
    w->is_asleep = 0;
}

static void *cache_work_work(void *arg)
{
    struct cache_worker *w = arg;
    struct crn_cache *c = w->cache;
    struct crn_tier_transfer t;

    crn_thread_background(c->opt.nice);
    crn_thread_precise();
    crn_lock(&c->mu);
    while (!c->is_stopping) {
        struct crn_errinfo ei = {0};
        cairn_err rc;
        int is_busy;

        tell_lost_locked(c);
        is_busy = look_locked(c);
        if (!next_locked(c, w, &t)) {
            if (!c->is_stopping)
                sleep_locked(c, w, is_busy);
            continue;
        }
        crn_cache_unlock(c);
        rc = crn_transfer_between(c->opt.tier[t.from], c->opt.tier[t.to], &t, &w->mover, &ei);
        crn_lock(&c->mu);
        if (rc != CAIRN_OK && rc != CAIRN_EBUSY)
            c->error = ei;
        count_locked(c, &t, rc);
        (void)crn_cache_done_locked(c, &t, rc);
        crn_cache_wake_locked(c);
    }
    crn_unlock(&c->mu);
    return NULL;
}

static void *cache_work_prepare(void *arg)
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
    crn_cache_unlock(c);
    return NULL;
}

/* Starting and stopping. ----------------------------------------------------------------------- */

cairn_err crn_cache_bounce(void **ret, struct crn_errinfo *ei)
{
    *ret = aligned_alloc(4096, CRN_TIER_BLOCK);
    return *ret != NULL ? CAIRN_OK
                        : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a buffer of the tier cache");
}

static cairn_err start_worker(struct crn_cache *c, int tier, enum crn_lane lane,
                              struct crn_errinfo *ei)
{
    struct cache_worker *w = &c->worker[c->nworkers];
    int is_up = lane >= CRN_LANE_UP;
    cairn_err rc;

    crn_lock(&c->mu); /* running threads read the list */
    *w = (struct cache_worker){
        .cache = c, .tier = tier, .is_up = is_up, .mover = {.lane = lane, .team = c->team}};
    crn_cond_init(&w->wake);
    c->nworkers++;
    crn_unlock(&c->mu);
    rc = crn_cache_bounce(&w->mover.bounce, ei);
    if (rc == CAIRN_OK)
        rc = (c->opt.cores == CRN_CORES_ALL ? crn_thread_start_anywhere : crn_thread_start)(
            &w->thread, is_up ? "cairn-prefetch" : "cairn-flush", cache_work_work, w, ei);
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
    rc = crn_thread_start(&s->thread, "cairn-prepare", cache_work_prepare, s, ei);
    s->is_started = rc == CAIRN_OK;
    return rc;
}

/* Starts two threads each way if the tier allows two copies in flight. */
static cairn_err start_workers(struct crn_cache *c, int tier, struct crn_errinfo *ei)
{
    static const enum crn_lane lanes[] = {CRN_LANE_DOWN, CRN_LANE_UP, CRN_LANE_DOWN_2,
                                          CRN_LANE_UP_2};
    size_t n = c->opt.tier[tier]->chain.depth > 1 ? 4 : 2;
    int has_down = !c->opt.tier[tier + 1]->chain.is_external; /* else another flushes */
    int has_up = !c->opt.tier[tier]->chain.is_behind;
    cairn_err rc = CAIRN_OK;
    size_t i;

    for (i = 0; rc == CAIRN_OK && i < n; i++)
        if (lanes[i] >= CRN_LANE_UP ? has_up : has_down)
            rc = start_worker(c, tier, lanes[i], ei);
    return rc;
}

static cairn_err start_team(struct crn_cache *c, struct crn_errinfo *ei)
{
    struct crn_team_options opt = {
        .helpers = c->opt.threads - 1, .sharers = c->opt.sharers, .nice = c->opt.nice};
    int has_files = 0;
    uint32_t i;

    for (i = 0; i < c->opt.ntiers; i++)
        has_files |= c->opt.tier[i]->ops->put != NULL;
    opt.helpers = opt.helpers > HELPERS ? HELPERS : opt.helpers;
    return has_files && opt.helpers > 0 ? crn_team_open(&opt, &c->team, ei) : CAIRN_OK;
}

cairn_err crn_cache_start_threads(struct crn_cache *c, struct crn_errinfo *ei)
{
    int last = (int)c->opt.ntiers - 1;
    cairn_err rc;
    int t;

    rc = start_team(c, ei);
    for (t = 0; rc == CAIRN_OK && t <= last; t++)
        rc = start_preparing(c, t, ei);
    for (t = 0; rc == CAIRN_OK && t < last; t++)
        rc = start_workers(c, t, ei);
    return rc;
}

void crn_cache_stop_threads(struct crn_cache *c)
{
    int i;

    crn_lock(&c->mu);
    c->is_stopping = 1;
    crn_cache_unlock(c);
    for (i = 0; i < CRN_TIERS_MAX; i++)
        if (c->starter[i].is_started)
            (void)pthread_join(c->starter[i].thread, NULL);
    for (i = 0; i < c->nworkers; i++)
        if (c->worker[i].is_started)
            (void)pthread_join(c->worker[i].thread, NULL);
    for (i = 0; i < c->nworkers; i++) { /* after this no thread wakes another */
        crn_cond_fini(&c->worker[i].wake);
        free(c->worker[i].mover.bounce);
    }
    crn_team_close(c->team);
}
