/* SPDX-License-Identifier: BSD-3-Clause */
/* Data of other nodes. The thread of crn_engine_write requests it while the pool has blocks, so
 * data in flight never exceeds the pool. Arrived blocks wait for a writer (engine.c). */
#include <assert.h>

#include "aggregate/task.h"

struct crn_block_times *crn_task_times(struct crn_engine *e, struct crn_task *t, const void *block)
{
    return &t->times[crn_pool_number(&e->pool, block)];
}

int crn_task_has_aide(const struct crn_task *t, const struct crn_write *w)
{
    return t->assists != NULL && t->pieces.encoding == NULL && t->assists[w->owner];
}

/* Moves the cursor to the next remote write that nobody has taken; NULL at the end. The first
 * pass skips data whose owner assists; the second pass takes what is left of it. */
static const struct crn_write *seek_remote_locked(struct crn_task *t)
{
    const struct crn_plan *plan = t->plan;

    for (;;) {
        for (; t->next_remote < plan->nwrites; t->next_remote++) {
            const struct crn_write *w = &plan->writes[t->next_remote];

            if (w->owner != 0 && t->taken[t->next_remote] == CRN_TAKEN_NOT &&
                (t->is_second_pass || !crn_task_has_aide(t, w)))
                return w;
        }
        if (t->is_second_pass)
            return NULL;
        t->is_second_pass = 1;
        t->next_remote = 0;
    }
}

/* Data of assistants is fetched only when the writers are otherwise idle, and no more than they
 * can write at once. Fetching all of it would leave nothing for the assistants to write. */
static int is_turn_locked(const struct crn_engine *e, struct crn_task *t) CRN_REQUIRES(e->mu)
{
    return !t->is_second_pass ||
           (crn_task_seek_local(t) == NULL && t->outstanding + t->nready <= (size_t)e->started);
}

/* Waits until something may be fetched. Returns 0 if nothing is left. */
static int await_turn(struct crn_engine *e, struct crn_task *t)
{
    int is_left;

    crn_lock(&e->mu);
    while ((is_left = !t->is_failed && seek_remote_locked(t) != NULL) && !is_turn_locked(e, t))
        crn_cond_wait(&e->changed, &e->mu);
    crn_unlock(&e->mu);
    return is_left;
}

static unsigned char *get_block(struct crn_engine *e, const struct crn_task *t, int64_t *ret_waited)
{
    unsigned char *block = crn_pool_try_get(&e->pool);
    int64_t start;

    if (block != NULL)
        return block;
    start = crn_stats_now(t->stats);
    block = crn_pool_get(&e->pool);
    *ret_waited = crn_stats_now(t->stats) - start;
    return block;
}

/* Counts the remote parts this write waits for, in one version or in two. */
static void await_locked(struct crn_engine *e, struct crn_task *t, const struct crn_write *w,
                         const void *block) CRN_REQUIRES(e->mu)
{
    struct crn_awaited *a = &t->awaited[w - t->plan->writes];
    uint64_t bytes = w->nparts == 0 ? w->bytes : 0;
    uint32_t n = w->nparts == 0;
    uint32_t versions = w->has_older ? 2 : 1;
    uint32_t i;

    for (i = 0; i < w->nparts; i++) {
        const struct crn_write *part = &t->plan->parts[w->first_part + i].w;

        n += part->owner != 0;
        bytes += part->owner != 0 ? part->bytes : 0;
    }
    a->n = versions * n;
    a->block = crn_pool_number(&e->pool, block);
    t->outstanding++;
    t->stats->remote_bytes += versions * bytes;
    t->times[a->block].asked_ns = crn_stats_now(t->stats);
}

/* Requests a write, or only its remote parts. */
static void fetch_version(const struct crn_task *t, const struct crn_fetcher *f,
                          const struct crn_write *w, int is_older, unsigned char *block)
{
    const struct crn_plan *plan = t->plan;
    uint32_t i;

    if (w->nparts == 0)
        f->fetch(f->arg, w, plan->extents, plan->order, is_older, block);
    for (i = 0; i < w->nparts; i++) {
        const struct crn_write_part *part = &plan->parts[w->first_part + i];

        if (part->w.owner != 0)
            f->fetch(f->arg, &part->w, plan->extents, plan->order, is_older, block + part->at);
    }
}

static void fetch_write(const struct crn_task *t, const struct crn_fetcher *f,
                        const struct crn_write *w, unsigned char *block)
{
    fetch_version(t, f, w, 0, block);
    if (w->has_older)
        fetch_version(t, f, w, 1, block + t->pieces.older_at);
}

/* The index of the write that w is, or belongs to. */
static uint64_t whole_of(const struct crn_task *t, const struct crn_write *w)
{
    return w->is_part ? ((const struct crn_write_part *)(const void *)w)->whole
                      : (uint64_t)(w - t->plan->writes);
}

/* Requests all remote writes, block by block. */
void crn_task_fetch(struct crn_engine *e, struct crn_task *t, const void *arg)
{
    const struct crn_fetcher *f = arg;

    if (f->opened != NULL)
        f->opened(f->arg, t->out.name, e->generation);
    while (await_turn(e, t)) {
        int64_t waited = 0;
        unsigned char *block = get_block(e, t, &waited);
        const struct crn_write *w = NULL;

        crn_lock(&e->mu);
        t->stats->pool_waits += waited > 0;
        t->stats->pool_ns += waited;
        if (!t->is_failed)
            w = seek_remote_locked(t);
        if (w != NULL && !is_turn_locked(e, t))
            w = NULL; /* an assistant took it, and the rest is left to other assistants */
        if (w != NULL) {
            t->taken[t->next_remote++] = CRN_TAKEN_FETCHED;
            await_locked(e, t, w, block);
        } else {
            crn_pool_put(&e->pool, block);
        }
        crn_unlock(&e->mu);
        if (w == NULL)
            continue;
        assert(f->fetch != NULL); /* remote data needs a fetcher */
        fetch_write(t, f, w, block);
    }
}

static void note_arrival_locked(struct crn_task *t, const struct crn_write *w, size_t block)
{
    struct crn_block_times *at = &t->times[block];
    struct crn_flush_stats *s = t->stats;

    at->arrived_ns = crn_stats_now(s);
    crn_stats_track_add(&s->receive, at->asked_ns, at->arrived_ns, w->bytes);
    if (w->owner > 0 && w->owner <= s->npeers) {
        struct crn_peer_stats *p = &s->peer[w->owner - 1];

        p->n++;
        p->bytes += w->bytes;
        p->ns += at->arrived_ns - at->asked_ns;
    }
}

/* Clamps a duration reported by another node to the duration of this flush. */
static int64_t fetch_within(int64_t ns, int64_t most)
{
    return ns < 0 ? 0 : ns < most ? ns : most;
}

void crn_engine_sent(struct crn_engine *e, const struct crn_capture_id *id, uint32_t owner,
                     uint64_t bytes, int64_t gather_ns, int64_t send_ns)
{
    struct crn_flush_stats *s;
    int64_t now;

    crn_lock(&e->mu);
    s = e->stats;
    if (s != NULL && crn_capture_id_equal(&s->id, id) && owner > 0 && owner <= s->npeers) {
        struct crn_peer_stats *p = &s->peer[owner - 1];

        now = crn_stats_now(s);
        send_ns = fetch_within(send_ns, now);
        gather_ns = fetch_within(gather_ns, now);
        crn_stats_track_add(&s->send, now - send_ns, now, bytes);
        p->sent++;
        p->sent_bytes += bytes;
        p->gather_ns += gather_ns;
        p->send_ns += send_ns;
    }
    crn_unlock(&e->mu);
}

/* All parts have arrived: queue the write for a writer. */
static void ready_locked(struct crn_engine *e, struct crn_task *t, uint64_t whole)
    CRN_REQUIRES(e->mu)
{
    unsigned char *block = crn_pool_block(&e->pool, t->awaited[whole].block);

    if (t->is_failed)
        crn_pool_put(&e->pool, block);
    else
        crn_task_arrived(
            e, t,
            &(struct crn_piece){.w = &t->plan->writes[whole], .block = block, .has_arrived = 1});
    t->outstanding--;
}

void crn_engine_arrived(struct crn_engine *e, const struct crn_write *w,
                        const struct crn_errinfo *error)
{
    struct crn_task *t;
    uint64_t whole;

    crn_lock(&e->mu);
    t = e->task; /* the task lives as long as a request is outstanding */
    whole = whole_of(t, w);
    note_arrival_locked(t, w, t->awaited[whole].block);
    if (error != NULL)
        crn_task_fail_locked(e, t, error);
    if (--t->awaited[whole].n == 0)
        ready_locked(e, t, whole);
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

void *crn_engine_replace(struct crn_engine *e, void *block)
{
    return crn_pool_replace(&e->pool, block);
}
