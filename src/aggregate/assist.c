/* SPDX-License-Identifier: BSD-3-Clause */
/* See assist.h. The leader fetches from the front of its plan. It hands each assistant that
 * node's own data first, then writes from the end of the plan, so leader and assistants meet in
 * the middle. The leader fetches the assistants' own data only when its writers are otherwise
 * idle. It hands such data to another assistant only if that assistant is almost idle. An
 * assistant takes a block from its pool before it asks, so its data in flight never exceeds the
 * pool. */
#include "aggregate/assist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/task.h"
#include "base/buf.h"

#define MOST_STATS ((size_t)1 << 20) /* limit for the statistics text of one assistant */
#define BUSY       2 /* unfinished writes of a busy assistant: one being written, one arriving */

/* Leader. -------------------------------------------------------------------------------------- */

/* The task with this generation, or NULL if the engine has moved on. */
static struct crn_task *task_locked(struct crn_engine *e, uint64_t generation) CRN_REQUIRES(e->mu)
{
    struct crn_task *t = e->task;

    return t != NULL && e->generation == generation && t->assist == NULL && !t->is_failed ? t
                                                                                          : NULL;
}

static int is_left(const struct crn_task *t, uint64_t i)
{
    return t->plan->writes[i].owner != 0 && t->taken[i] == CRN_TAKEN_NOT;
}

static int has_more_locked(struct crn_task *t)
{
    if (t->pieces.encoding != NULL)
        return 0; /* offsets are known only after encoding, which the leader does itself */
    while (t->last_remote > 0 && !is_left(t, t->last_remote - 1))
        t->last_remote--;
    return t->last_remote > 0;
}

static int has_free_locked(struct crn_task *t)
{
    while (t->last_free > 0 && (!is_left(t, t->last_free - 1) ||
                                crn_task_has_aide(t, &t->plan->writes[t->last_free - 1])))
        t->last_free--;
    return t->last_free > 0;
}

/* Chooses the next write for an assistant. */
static enum crn_handing choose_locked(struct crn_task *t, struct crn_assistant *a, uint64_t *ret)
{
    const struct crn_plan *plan = t->plan;

    if (!has_more_locked(t))
        return CRN_HAND_NONE;
    for (; a->owner != 0 && a->cursor < plan->nwrites; a->cursor++) {
        if (plan->writes[a->cursor].owner == a->owner && is_left(t, a->cursor)) {
            *ret = a->cursor++;
            return CRN_HANDED;
        }
    }
    if (has_free_locked(t))
        *ret = --t->last_free;
    else if (a->in_hand < BUSY)
        *ret = --t->last_remote;
    else
        return CRN_HAND_LATER;
    return CRN_HANDED;
}

int crn_assist_is_wanted(struct crn_engine *e, uint64_t generation)
{
    struct crn_task *t;
    int wants;

    crn_lock(&e->mu);
    t = task_locked(e, generation);
    wants = t != NULL && has_more_locked(t);
    crn_unlock(&e->mu);
    return wants;
}

enum crn_handing crn_assist_hand_out(struct crn_engine *e, uint64_t generation,
                                     struct crn_assistant *a, struct crn_handout *ret,
                                     struct crn_buf *ask)
{
    enum crn_handing chosen = CRN_HAND_NONE;
    const struct crn_write *w;
    struct crn_task *t;
    uint64_t i, at;
    uint32_t s;

    crn_lock(&e->mu);
    t = task_locked(e, generation);
    if (t != NULL)
        chosen = choose_locked(t, a, &i);
    if (chosen != CRN_HANDED) {
        crn_unlock(&e->mu);
        return chosen;
    }
    w = &t->plan->writes[i];
    ret->id = i;
    ret->owner = w->owner;
    ret->offset = at = crn_outfile_reserve(&t->out, w->bytes);
    for (s = 0; s < w->nsegments; s++) {
        struct crn_extent *x = &t->plan->extents[t->plan->order[w->first + s]];

        x->file_offset = at;
        at += x->bytes;
    }
    crn_source_ask_encode(w, t->plan->extents, t->plan->order, t->pieces.sources, ask);
    t->taken[i] = CRN_TAKEN_HANDED;
    t->handed++;
    t->assisted_bytes += w->bytes;
    t->unsynced += !a->has_writes;
    a->has_writes = 1;
    a->in_hand++;
    crn_unlock(&e->mu);
    return CRN_HANDED;
}

/* Puts the checksums of a write into the index. Checksums from the capture take precedence,
 * because the assistant may have received damaged bytes. Returns 0 if v has too few or too many
 * checksums. */
static int keep_hashes(struct crn_task *t, const struct crn_write *w, struct crn_view *v)
{
    uint64_t step = t->pieces.chunk_bytes;
    uint64_t at;
    uint32_t s;

    for (s = 0; s < w->nsegments; s++) {
        const struct crn_extent *x = &t->plan->extents[t->plan->order[w->first + s]];
        uint64_t i = x->first_hash;

        for (at = 0; at < x->bytes; at += step) {
            uint64_t n = x->bytes - at < step ? x->bytes - at : step;
            const uint64_t *known = crn_source_known(&t->pieces.sources[x->shard], x, at, n);
            uint64_t taken = crn_view_u64(v);

            t->pieces.hashes[i++] = known != NULL ? *known : taken;
        }
    }
    return !v->failed && crn_view_left(v) == 0;
}

void crn_assist_handed_back(struct crn_engine *e, uint64_t generation, struct crn_assistant *a,
                            uint64_t id, const unsigned char *hashes, size_t bytes)
{
    struct crn_view v = crn_view_of(hashes, bytes);
    struct crn_errinfo ei = {0};
    struct crn_task *t;

    crn_lock(&e->mu);
    t = task_locked(e, generation);
    if (t != NULL && id < t->plan->nwrites && t->taken[id] == CRN_TAKEN_HANDED) {
        t->taken[id] = CRN_TAKEN_BACK;
        t->handed--;
        a->in_hand--;
        if (!keep_hashes(t, &t->plan->writes[id], &v)) {
            (void)!crn_fail(&ei, CAIRN_EDAMAGED, 0, "an assistant returned malformed checksums");
            crn_task_fail_locked(e, t, &ei);
        }
        crn_cond_broadcast(&e->changed);
    }
    crn_unlock(&e->mu);
}

void crn_assist_left(struct crn_engine *e, uint64_t generation, const struct crn_assistant *a,
                     const struct crn_view *stats, const struct crn_errinfo *error)
{
    struct crn_task *t;

    crn_lock(&e->mu);
    t = task_locked(e, generation);
    if (t != NULL && a->has_writes) {
        t->unsynced--;
        if (crn_view_left(stats) <= MOST_STATS)
            crn_buf_put(&t->stats->helpers, stats->data + stats->at, crn_view_left(stats));
        if (error->code != CAIRN_OK)
            crn_task_fail_locked(e, t, error);
        crn_cond_broadcast(&e->changed);
    }
    crn_unlock(&e->mu);
}

void crn_assist_cancel(struct crn_engine *e, uint64_t generation, const struct crn_errinfo *error)
{
    crn_lock(&e->mu);
    if (e->task != NULL && (generation == 0 || e->generation == generation))
        crn_task_fail_locked(e, e->task, error);
    crn_unlock(&e->mu);
}

/* Assistant. ----------------------------------------------------------------------------------- */

cairn_err crn_errand_new(uint32_t nextents, struct crn_errand **ret, struct crn_errinfo *ei)
{
    struct crn_errand *x = calloc(1, sizeof(*x));

    if (x != NULL) {
        x->plan.extents = calloc(nextents, sizeof(*x->plan.extents));
        x->plan.order = calloc(nextents, sizeof(*x->plan.order));
        x->plan.writes = calloc(1, sizeof(*x->plan.writes));
    }
    if (x == NULL || x->plan.extents == NULL || x->plan.order == NULL || x->plan.writes == NULL) {
        crn_errand_free(x);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write of %u extents for another node",
                        nextents);
    }
    x->plan.nextents = nextents;
    x->plan.nwrites = 1;
    *ret = x;
    return CAIRN_OK;
}

void crn_errand_free(struct crn_errand *x)
{
    if (x == NULL)
        return;
    crn_plan_free(&x->plan);
    free(x->hashes);
    free(x);
}

/* Completes the errand's plan from its extents. */
static cairn_err lay_out(struct crn_errand *x, struct crn_task *t, const struct crn_source *sources,
                         struct crn_errinfo *ei)
{
    struct crn_write *w = &x->plan.writes[0];
    uint64_t step = t->pieces.chunk_bytes;
    uint32_t i;

    for (i = 0; i < x->plan.nextents; i++) {
        struct crn_extent *s = &x->plan.extents[i];

        x->plan.order[i] = i;
        s->first_hash = x->plan.nhashes;
        x->plan.nhashes += s->bytes / step + (s->bytes % step != 0);
        w->bytes += s->bytes;
    }
    w->nsegments = (uint32_t)x->plan.nextents;
    x->hashes = calloc(x->plan.nhashes + 1, sizeof(*x->hashes));
    if (x->hashes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write for another node");
    x->all.out = &t->out;
    x->all.sources = sources;
    x->all.plan = &x->plan;
    x->all.hashes = x->hashes;
    x->all.chunk_bytes = step;
    x->all.has_place = 1;
    return CAIRN_OK;
}

void crn_assist_errand(struct crn_engine *e, struct crn_errand *x, const struct crn_source *sources,
                       void *block, int has_arrived, const struct crn_errinfo *error)
{
    struct crn_errinfo ei = {0};
    struct crn_task *t;

    crn_lock(&e->mu);
    t = e->task; /* the task lives as long as a request is outstanding */
    if (error == NULL && lay_out(x, t, sources, &ei) != CAIRN_OK)
        error = &ei;
    if (error != NULL)
        crn_task_fail_locked(e, t, error);
    if (t->is_failed) {
        crn_pool_put(&e->pool, block);
        crn_errand_free(x);
    } else {
        t->assisted_bytes += x->plan.writes[0].bytes;
        t->unfinished++;
        crn_task_arrived(
            e, t,
            &(struct crn_piece){
                .w = &x->plan.writes[0], .block = block, .has_arrived = has_arrived, .errand = x});
    }
    t->outstanding--;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

void crn_assist_errand_later(struct crn_engine *e, void *block)
{
    crn_lock(&e->mu);
    e->task->is_limited = 1;
    e->task->outstanding--;
    crn_pool_put(&e->pool, block);
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

void crn_assist_no_errand(struct crn_engine *e, void *block, const struct crn_errinfo *error)
{
    crn_lock(&e->mu);
    if (error != NULL)
        crn_task_fail_locked(e, e->task, error);
    e->task->is_over = 1;
    e->task->outstanding--;
    crn_pool_put(&e->pool, block);
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
}

cairn_err crn_errand_write(const struct crn_assist *assist, const struct crn_piece *p,
                           struct crn_errinfo *ei)
{
    struct crn_errand *x = p->errand;
    struct crn_piece now = *p;
    cairn_err rc;

    if (!p->has_arrived && crn_piece_in_place(&x->all, p->w))
        now.block = NULL; /* this entry only counts the errand */
    rc = crn_piece_write(&x->all, &now, ei);
    if (rc == CAIRN_OK)
        rc = assist->written(assist->arg, x, ei);
    crn_errand_free(x);
    return rc;
}

static int must_wait_locked(const struct crn_task *t)
{
    return !t->is_failed && !t->is_over && t->is_limited && t->may_ask == 0 &&
           t->unfinished + t->outstanding > 0;
}

/* Asks while the pool has blocks and the leader has writes to hand out. */
static void ask_all(struct crn_engine *e, struct crn_task *t, const void *arg)
{
    const struct crn_assist *assist = arg;

    for (;;) {
        void *block = crn_pool_get(&e->pool);
        int goes_on;

        crn_lock(&e->mu);
        while (must_wait_locked(t)) /* nobody else needs the block: each errand brings its own */
            crn_cond_wait(&e->changed, &e->mu);
        t->may_ask -= t->may_ask > 0;
        goes_on = !t->is_failed && !t->is_over;
        if (goes_on)
            t->outstanding++;
        else
            crn_pool_put(&e->pool, block);
        crn_unlock(&e->mu);
        if (!goes_on)
            return;
        assist->ask(assist->arg, block);
    }
}

static void end_stats(struct crn_engine *e, const struct crn_index *head, const struct crn_task *t)
{
    struct crn_flush_stats *s = t->stats;

    s->id = head->id;
    s->bytes = t->assisted_bytes;
    s->remote_bytes = crn_stats_received(s).bytes;
    s->total_ns = crn_stats_now(s);
    s->finish_ns = s->total_ns - s->write_ns;
    s->blocks = e->opt.blocks;
    s->block_bytes = e->opt.block_bytes;
    s->most_blocks = crn_engine_most_blocks(e);
}

cairn_err crn_assist_write(struct crn_engine *e, const struct crn_store *st,
                           const struct crn_index *head, const char *file,
                           const struct crn_assist *assist, struct crn_flush_stats *ret_stats,
                           struct crn_errinfo *ei)
{
    struct crn_flush_stats stats;
    struct crn_plan none = {0};
    struct crn_task t = {.plan = &none, .assist = assist, .stats = &stats};
    cairn_err rc;

    rc = crn_flush_stats_init(&stats, (uint32_t)e->started, 0, ei);
    if (rc != CAIRN_OK)
        return rc;
    t.ready = calloc(e->opt.blocks, sizeof(*t.ready));
    t.times = calloc(e->opt.blocks, sizeof(*t.times));
    if (t.ready == NULL || t.times == NULL) {
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "help for another node");
        goto out;
    }
    t.pieces.chunk_bytes = e->opt.chunk_bytes;
    t.out.written = e->opt.written;
    rc = crn_outfile_open(&t.out, &e->outlet, st, head, file, e->opt.align_bytes, ei);
    if (rc != CAIRN_OK)
        goto out;
    crn_task_run(e, &t, ask_all, assist);
    stats.write_ns = crn_stats_now(&stats);
    if (!t.is_failed && t.assisted_bytes > 0)
        rc = crn_outfile_sync(&t.out, ei);
    else
        crn_outfile_abandon(&t.out);
    if (t.is_failed) {
        crn_err_keep(ei, &t.error);
        rc = t.error.code;
    }
out:
    if (rc == CAIRN_OK) {
        end_stats(e, head, &t);
        *ret_stats = stats;
    } else {
        crn_flush_stats_free(&stats);
    }
    free(t.ready);
    free(t.times);
    return rc;
}
