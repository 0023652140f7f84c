/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer threads. Each takes a block that has arrived from another node (engine_fetch.c), else the
 * next local write; piece.c brings it into the file. They share only the task's cursors and the
 * first error, under the engine's lock. A writer never waits for a free block while an arrived
 * block waits for a writer: it takes either one, or sleeps until there is one. */
#include "aggregate/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "aggregate/coder.h"
#include "aggregate/encoding.h"
#include "aggregate/task.h"

#define AUTO_WRITERS  2 /* one computes while the other waits for the disk */
#define AUTO_ENCODERS 8 /* each needs scratch memory */

/* Choosing the next write. --------------------------------------------------------------------- */

const struct crn_write *crn_task_seek_local(struct crn_task *t)
{
    const struct crn_plan *plan = t->plan;

    while (t->next_local < plan->nwrites && plan->writes[t->next_local].owner != 0)
        t->next_local++;
    return t->next_local < plan->nwrites ? &plan->writes[t->next_local] : NULL;
}

void crn_task_arrived(const struct crn_engine *e, struct crn_task *t, const struct crn_piece *p)
{
    t->ready[(t->first_ready + t->nready) % e->opt.blocks] = *p;
    t->nready++;
}

static struct crn_piece pop_ready_locked(const struct crn_engine *e, struct crn_task *t)
    CRN_REQUIRES(e->mu)
{
    struct crn_piece p = t->ready[t->first_ready];

    t->first_ready = (t->first_ready + 1) % e->opt.blocks;
    t->nready--;
    return p;
}

/* Takes the next write for a writer. Returns 0 if there is none now. */
static int take_locked(struct crn_engine *e, struct crn_task *t, struct crn_piece *ret)
    CRN_REQUIRES(e->mu)
{
    struct crn_piece p = {0};

    if (t->nready > 0) {
        *ret = pop_ready_locked(e, t);
        t->stats->queue_waits++;
        t->stats->queue_ns +=
            crn_stats_now(t->stats) - crn_task_times(e, t, ret->block)->arrived_ns;
        return 1;
    }
    p.w = crn_task_seek_local(t);
    if (p.w == NULL)
        return 0;
    if (!crn_piece_in_place(&t->pieces, p.w) && (p.block = crn_pool_try_get(&e->pool)) == NULL)
        return 0;
    t->next_local++;
    *ret = p;
    return 1;
}

static int is_done_locked(struct crn_task *t)
{
    return !t->is_feeding && t->nready == 0 && t->outstanding == 0 && t->handed == 0 &&
           crn_task_seek_local(t) == NULL;
}

void crn_task_fail_locked(struct crn_engine *e, struct crn_task *t, const struct crn_errinfo *ei)
    CRN_REQUIRES(e->mu)
{
    t->is_failed = 1;
    atomic_store(&t->out.is_given_up, 1);
    crn_err_keep(&t->error, ei);
    crn_cond_broadcast(&e->changed);
}

/* may_join reads a file in /proc, so it is called between two writes and without the lock. */
static int may_join(const struct crn_engine *e, int number)
{
    if (number == 0 || e->opt.may_join == NULL)
        return 1;
    if (e->encoding == NULL && number >= AUTO_WRITERS)
        return 0;
    return e->opt.may_join();
}

/* Writes until nothing is left or an error occurs. Called with the engine's lock, which it
 * releases while writing. */
static void run_task_locked(struct crn_engine *e, struct crn_task *t, int number)
    CRN_REQUIRES(e->mu)
{
    struct crn_writer_stats *me = &t->stats->writer[number];
    int is_in = may_join(e, number);

    while (!t->is_failed && !is_done_locked(t)) {
        struct crn_errinfo ei = {0};
        int64_t start = crn_stats_now(t->stats);
        struct crn_piece p;
        uint64_t bytes;
        cairn_err rc;

        if (!is_in || !take_locked(e, t, &p)) {
            crn_cond_wait(&e->changed, &e->mu);
            is_in = may_join(e, number);
            me->idle_ns += crn_stats_now(t->stats) - start;
            continue;
        }
        crn_unlock(&e->mu);
        bytes = p.w->bytes; /* executing an errand frees it */
        p.coder = &e->coder[number];
        rc = p.errand != NULL ? crn_errand_write(t->assist, &p, &ei)
                              : crn_piece_write(&t->pieces, &p, &ei);
        crn_stats_track_add(p.has_arrived ? &me->received : &me->local, start,
                            crn_stats_now(t->stats), bytes);
        is_in = may_join(e, number);
        crn_lock(&e->mu);
        if (p.errand != NULL) {
            t->unfinished--;
            t->may_ask += t->is_limited ? 1 : 0;
        }
        if (p.block != NULL)
            crn_pool_put(&e->pool, p.block);
        if (rc != CAIRN_OK)
            crn_task_fail_locked(e, t, &ei);
        crn_cond_broadcast(&e->changed); /* a block is free, or this was the last write */
    }
    while (t->nready > 0) { /* arrived after the failure */
        struct crn_piece p = pop_ready_locked(e, t);

        crn_errand_free(p.errand);
        crn_pool_put(&e->pool, p.block);
    }
}

/* Threads. ------------------------------------------------------------------------------------- */

static void *engine_writer(void *arg)
{
    struct crn_engine *e = arg;
    uint64_t seen = 0;
    int me;

    crn_thread_background(e->opt.nice);
    crn_lock(&e->mu);
    me = e->numbered++;
    for (;;) {
        struct crn_task *t;

        while (!e->closing && (e->task == NULL || e->generation == seen))
            crn_cond_wait(&e->changed, &e->mu);
        if (e->closing)
            break;
        seen = e->generation;
        t = e->task;
        run_task_locked(e, t, me);
        if (--e->busy == 0)
            crn_cond_broadcast(&e->changed);
    }
    crn_unlock(&e->mu);
    return NULL;
}

void crn_task_run(struct crn_engine *e, struct crn_task *t,
                  void (*feed)(struct crn_engine *e, struct crn_task *t, const void *arg),
                  const void *arg)
{
    int64_t held_ns = crn_gate_waited_ns(e->opt.outlet.gate);

    crn_lock(&e->mu);
    e->task = t;
    t->is_feeding = 1;
    e->generation++;
    e->busy = e->started;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
    feed(e, t, arg);
    crn_lock(&e->mu);
    t->is_feeding = 0;
    crn_cond_broadcast(&e->changed); /* the writers may be waiting for more */
    while (e->busy > 0 || t->outstanding > 0 || (t->unsynced > 0 && !t->is_failed))
        crn_cond_wait(&e->changed, &e->mu);
    e->task = NULL;
    crn_unlock(&e->mu);
    t->stats->held_ns = crn_gate_waited_ns(e->opt.outlet.gate) - held_ns;
}

int crn_engine_lacks_room(const struct crn_engine *e)
{
    return e->lacks_room;
}

size_t crn_engine_most_blocks(struct crn_engine *e)
{
    size_t most;

    crn_lock(&e->pool.mu);
    most = e->pool.most_used;
    crn_unlock(&e->pool.mu);
    return most;
}

cairn_err crn_engine_open(const struct crn_engine_options *opt, struct crn_engine **ret,
                          struct crn_errinfo *ei)
{
    struct crn_engine *e = calloc(1, sizeof(*e));
    cairn_err rc;
    int i;

    if (e == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a write engine");
    e->opt = *opt;
    crn_mutex_init(&e->mu, CRN_RANK_ENGINE);
    crn_cond_init(&e->changed);
    crn_outlet_init(&e->outlet, &opt->outlet);
    rc = crn_pool_init(&e->pool, opt->blocks, opt->block_bytes, ei);
    for (i = 0; rc == CAIRN_OK && i < opt->writers && i < CRN_MAX_WRITERS; i++) {
        rc = crn_thread_start(&e->thread[i], "cairn-write", engine_writer, e, ei);
        e->started += rc == CAIRN_OK;
    }
    if (rc != CAIRN_OK) {
        crn_engine_close(e);
        return rc;
    }
    *ret = e;
    return CAIRN_OK;
}

void crn_engine_close(struct crn_engine *e)
{
    int i;

    if (e == NULL)
        return;
    crn_lock(&e->mu);
    e->closing = 1;
    crn_cond_broadcast(&e->changed);
    crn_unlock(&e->mu);
    for (i = 0; i < e->started; i++)
        (void)pthread_join(e->thread[i], NULL);
    for (i = 0; i < e->started; i++)
        crn_coder_close(e->coder[i]);
    crn_encoding_close(e->configured);
    crn_pool_fini(&e->pool);
    crn_cond_fini(&e->changed);
    crn_mutex_fini(&e->mu);
    free(e);
}

cairn_err crn_engine_encode(struct crn_engine *e, const struct crn_config *cfg, const char *name,
                            struct crn_errinfo *ei)
{
    struct crn_encoding *encoding = NULL;
    cairn_err rc = cfg != NULL ? crn_encoding_open(cfg, name, &encoding, ei) : CAIRN_OK;

    if (rc != CAIRN_OK)
        return rc;
    crn_encoding_close(e->configured);
    e->configured = encoding;
    e->older = NULL;
    return CAIRN_OK;
}

void crn_engine_against(struct crn_engine *e, const struct crn_older *older)
{
    e->older = older;
}

static int is_encoding(const struct crn_config *cfg)
{
    int is = cfg->names.encode != CRN_ENCODE_NONE;
    size_t i;

    for (i = 0; i < cfg->noverrides; i++)
        is |= cfg->overrides[i].encode != CRN_ENCODE_NONE;
    return is;
}

/* 0 means auto: as many threads as can help; those without a free core stay idle. */
static uint64_t threads_wanted(const struct crn_config *cfg)
{
    return is_encoding(cfg) && cfg->encode_threads > 0 ? cfg->encode_threads : cfg->writers;
}

static int auto_threads(const struct crn_config *cfg)
{
    int cores = crn_host_cores();

    if (!is_encoding(cfg) || cores < AUTO_WRITERS)
        return AUTO_WRITERS;
    return cores < AUTO_ENCODERS ? cores : AUTO_ENCODERS;
}

/* A block is a stripe, where Lustre allows it: each write goes to one target. */
static uint64_t stripe_bytes_of(const struct crn_config *cfg)
{
    return cfg->stripe_count > 0 && cfg->block_bytes % 65536 == 0 ? cfg->block_bytes : 0;
}

struct crn_engine_options crn_engine_configured(const struct crn_config *cfg)
{
    int threads = (int)threads_wanted(cfg);

    return (struct crn_engine_options){.blocks = cfg->blocks,
                                       .block_bytes = cfg->block_bytes,
                                       .chunk_bytes = cfg->chunk_bytes,
                                       .align_bytes = cfg->align_bytes,
                                       .writers = threads > 0 ? threads : auto_threads(cfg),
                                       .may_join = threads > 0 ? NULL : crn_has_own_core,
                                       .outlet = {.io = (enum crn_io)cfg->io,
                                                  .stripe_count = cfg->stripe_count,
                                                  .stripe_bytes = stripe_bytes_of(cfg)}};
}
