/* SPDX-License-Identifier: BSD-3-Clause */
/* The flusher and the sender of a job, and how tasks get to the worker threads. The flusher writes
 * bulk data, one checkpoint after another; keeper.c has the tasks that must not wait for it. Each
 * worker receives a struct crn_work and returns it as the result. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregate/elect.h"
#include "base/clock.h"
#include "service/held_scrub.h"
#include "service/assist.h"
#include "service/flow.h"
#include "service/loan.h"
#include "service/room.h"

static int is_stopping(struct crn_job *job)
{
    int stopping;

    crn_lock(&job->mu);
    stopping = job->stopping;
    crn_unlock(&job->mu);
    return stopping;
}

int crn_work_pause(struct crn_job *job, struct crn_item *item, int64_t ns)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t until = clock->mono_ns(clock) + ns;
    int stopping;

    crn_lock(&job->mu);
    while (!job->stopping && crn_cond_wait_until(&job->wake, &job->mu, until) == 0)
        ;
    stopping = job->stopping;
    crn_unlock(&job->mu);
    return stopping || atomic_load(&crn_data(item)->is_over);
}

void crn_work_note(struct crn_job *job, struct crn_item *item, enum crn_work_kind kind,
                   const char *text)
{
    struct crn_work *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return; /* only a note */
    w->kind = kind;
    w->job = job;
    w->item = item;
    (void)snprintf(w->error.msg, sizeof(w->error.msg), "%s", text);
    crn_service_result(job->svc, w);
}

/* Flush. --------------------------------------------------------------------------------------- */

static cairn_err ensure_engine(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_engine_options opt = crn_engine_configured(&job->cfg);

    opt.nice = CRN_BACKGROUND_NICE;
    opt.written = &job->written;
    opt.outlet.log = &job->log;
    opt.outlet.gate = &job->gate;
    return job->engine != NULL ? CAIRN_OK : crn_engine_open(&opt, &job->engine, ei);
}

/* The input of a flush: this node's shards and, for the persistent file, those of its group. */
struct load {
    struct crn_open_shard *held; /* of this node's sources */
    struct crn_source *local;    /* nlocal entries */
    struct crn_source *sources;  /* the group's, by rank; local and remote ones copied */
    uint32_t nsources;
    const struct crn_older *older; /* the previous version; NULL: encode without a base */
};

static void work_describe(const struct crn_job *job, const struct crn_item *item, int is_local,
                          struct crn_index *head)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->id.run, job->run, 16);
    head->id.seq = item->seq;
    head->id.generation = item->generation;
    memcpy(head->name, item->name, sizeof(head->name));
    head->version = item->version;
    head->files = is_local ? job->nodes : job->files;
    head->file_no = is_local ? job->node : crn_elect_group_of(job->node, job->nodes, job->files);
    head->ranks = job->ranks;
    head->nodes = job->nodes;
    head->created_ns = item->created_ns;
}

struct fetch_from {
    struct crn_work *work;
    const struct crn_source *sources;
};

/* The engine needs a block of a follower: has the loop request it. */
static void work_fetch(void *arg, const struct crn_write *wr, const struct crn_extent *extents,
                       const uint64_t *order, int is_older, void *block)
{
    struct fetch_from *from = arg;
    struct crn_job *job = from->work->job;
    struct crn_work *w = calloc(1, sizeof(*w));
    struct crn_errinfo e = {0};
    struct crn_buf ask = {0};

    crn_source_ask_encode(wr, extents, order, from->sources, &ask);
    if (w == NULL || ask.failed) {
        free(w);
        crn_buf_free(&ask);
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "a request to another node");
        crn_engine_arrived(job->engine, wr, &e);
        return;
    }
    w->kind = CRN_WORK_FETCH;
    w->job = job;
    w->item = from->work->item;
    w->write = wr;
    w->is_older = is_older;
    w->block = block;
    w->bytes = wr->bytes;
    w->node = crn_node_group_first(job->core) + wr->owner - 1;
    w->payload = ask.data;
    w->payload_bytes = (uint32_t)ask.len;
    crn_service_result(job->svc, w);
}

/* The file exists: other nodes may assist. */
static void work_opened(void *arg, const char *file, uint64_t generation)
{
    struct fetch_from *from = arg;
    struct crn_work *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return; /* it is written without help */
    w->kind = CRN_WORK_NOTE_OPENED;
    w->job = from->work->job;
    w->item = from->work->item;
    w->bytes = generation;
    (void)snprintf(w->file.name, sizeof(w->file.name), "%s", file);
    crn_service_result(w->job->svc, w);
}

/* How long after the capture; 0: never, or the clocks of the nodes differ. */
static int64_t since_capture(const struct crn_item *item, uint64_t wall_ns)
{
    return wall_ns > item->created_ns ? (int64_t)(wall_ns - item->created_ns) : 0;
}

/* Stores statistics; optional, a failure is only logged. */
static void keep_stats(struct crn_job *job, const struct crn_item *item, const struct crn_store *st,
                       const struct crn_index *head, const char *file,
                       struct crn_flush_stats *stats)
{
    struct crn_errinfo ei = {0};

    stats->copy_ns = (int64_t)item->copy_ns;
    stats->captured_ns = since_capture(item, crn_data(item)->captured_ns);
    stats->local_ns = since_capture(item, crn_data(item)->local_ns);
    stats->protected_ns = since_capture(item, atomic_load(&crn_data(item)->protected_ns));
    stats->node = job->node;
    stats->first_node = crn_node_group_first(job->core);
    if (crn_flush_stats_keep(stats, st, head, file, &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "no statistics, continuing: %s", ei.msg);
}

/* An arena was truncated: bytes written from it may be zeros, and a write error (EFAULT) has the
 * same cause. Discards the file. */
static cairn_err drop_torn(struct crn_job *job, const struct crn_work *w,
                           const struct crn_store *st, const struct crn_manifest_file *written,
                           struct crn_flush_stats *stats, const struct crn_errinfo *torn,
                           struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};

    if (written != NULL) {
        crn_flush_stats_free(stats);
        if (crn_store_discard_data(st, w->item->name, w->item->version, written->name, &ignored) !=
            CAIRN_OK)
            crn_log(&job->log, CRN_WARN, "a file of a failed version stays, continuing: %s",
                    ignored.msg);
    }
    *ei = *torn;
    return torn->code;
}

static cairn_err write_to(struct crn_job *job, struct crn_work *w, const char *path, int is_local,
                          const struct load *load, struct crn_manifest_file *ret,
                          struct crn_errinfo *ei)
{
    const struct crn_clock *clock = crn_clock_real();
    /* A local copy is optional, so the flush does not wait for space for it. */
    int64_t wait_ns = is_local ? 0 : (int64_t)job->cfg.space_wait_ns;
    struct crn_flush_room room = {
        .job = job, .item = w->item, .until_ns = clock->mono_ns(clock) + wait_ns};
    struct fetch_from from = {w, load->sources};
    struct crn_fetcher fetcher = {.fetch = work_fetch, .arg = &from};
    struct crn_errinfo torn = {0};
    struct crn_flush_stats stats = {0};
    struct crn_store st;
    struct crn_index head;
    cairn_err rc;

    /* Local copies are not encoded: if needed at all, they are read soon, and must be fast. */
    rc = crn_engine_encode(job->engine, is_local ? NULL : &job->cfg, w->item->name, ei);
    if (rc == CAIRN_OK)
        rc = crn_store_open(crn_fs_default(), path, 1, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_engine_against(job->engine, load->older);
    if (!is_local) {
        fetcher.opened = work_opened;
        fetcher.assists = w->item->assists;
    }
    work_describe(job, w->item, is_local, &head);
    room.st = &st;
    room.file_no = head.file_no;
    room.need = crn_engine_estimate(job->engine, load->sources, load->nsources);
    do {
        rc = crn_room_wait(&room, ei);
        if (rc != CAIRN_OK)
            break;
        rc = crn_engine_write(job->engine, &st, &head, load->sources, load->nsources, &fetcher, ret,
                              &stats, ei);
    } while (rc == CAIRN_ENOSPC && crn_engine_lacks_room(job->engine) && crn_room_retry(&room, ei));
    if (crn_job_check_arenas(job, &torn) != CAIRN_OK)
        rc = drop_torn(job, w, &st, rc == CAIRN_OK ? ret : NULL, &stats, &torn, ei);
    if (rc == CAIRN_OK) {
        crn_log(&job->log, CRN_DEBUG,
                "%s@%" PRId64 ": %s/%s, %" PRIu64 " bytes, %" PRIu64 " of other nodes, %" PRIu64
                " by other nodes, in %.3f s, most blocks %" PRIu64,
                w->item->name, w->item->version, path, ret->name, ret->bytes, stats.remote_bytes,
                stats.assisted_bytes, (double)stats.total_ns * 1e-9, stats.most_blocks);
        if (!is_local)
            keep_stats(job, w->item, &st, &head, ret->name, &stats);
        crn_flush_stats_free(&stats);
    }
    crn_store_close(&st);
    return rc;
}

/* A local copy is optional: its failure is logged, and the flush continues. */
static void write_local(struct crn_job *job, struct crn_work *w, struct crn_source *local)
{
    const struct crn_clock *clock = crn_clock_real();
    struct load load = {.sources = local, .nsources = job->nlocal};
    struct crn_manifest_file file = {0};
    struct crn_errinfo ei = {0};
    char root[CRN_PATH_MAX];

    if (crn_rundir_local_root(crn_fs_posix(), &job->cfg, root, sizeof(root), &ei) == CAIRN_OK &&
        write_to(job, w, root, 1, &load, &file, &ei) == CAIRN_OK) {
        memcpy(w->file.name, file.name, sizeof(w->file.name));
        crn_data(w->item)->local_ns = (uint64_t)clock->wall_ns(clock);
        crn_work_note(job, w->item, CRN_WORK_NOTE_LOCAL, "");
    } else {
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 ": no local copy, continuing: %s", w->item->name,
                w->item->version, ei.msg);
    }
    crn_manifest_file_free(&file);
}

static cairn_err write_persistent(struct crn_job *job, struct crn_work *w, struct load *load)
{
    struct crn_item *item = w->item;
    const struct crn_name_config *nc = crn_config_name(&job->cfg, item->name);
    int64_t delay = (int64_t)nc->retry_delay_ns;
    uint64_t tries = nc->on_failure == CRN_FAIL_RETRY ? nc->retries : 0;
    cairn_err rc;

    if (atomic_load(&crn_data(item)->is_over)) /* another node has failed: write nothing more */
        return crn_fail(&w->error, CAIRN_ECANCELED, 0, "the checkpoint has failed elsewhere");
    for (;;) {
        crn_err_clear(&w->error);
        atomic_store(&job->writing_at, atomic_load(&job->written));
        atomic_store(&job->writing_seq, item->seq + 1);
        rc = write_to(job, w, job->cfg.persistent, 0, load, &w->file, &w->error);
        load->older = NULL; /* after a failure, retry without a base */
        atomic_store(&job->writing_seq, 0);
        if (rc == CAIRN_OK || tries-- == 0 || atomic_load(&crn_data(item)->is_over))
            return rc;
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 ": flush failed, trying again: %s", item->name,
                item->version, w->error.msg);
        if (crn_work_pause(job, item, delay))
            return rc;
        delay *= 2;
    }
}

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const struct crn_source *)a)->shard.rank;
    uint32_t y = ((const struct crn_source *)b)->shard.rank;

    return x < y ? -1 : x > y;
}

static cairn_err open_local(struct crn_job *job, struct crn_item *item, struct load *load,
                            struct crn_errinfo *ei)
{
    uint32_t *slots;
    cairn_err rc;

    load->held = calloc(job->nlocal, sizeof(*load->held));
    load->local = calloc(job->nlocal, sizeof(*load->local));
    if (load->held == NULL || load->local == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a flush of %u shards", job->nlocal);
    rc = crn_job_check_arenas(job, ei);
    if (rc == CAIRN_OK)
        rc = crn_slots_claim(job, item, &slots, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_sources_open(job->arenas, slots, job->nlocal, &job->dir, load->held, load->local, ei);
    free(slots);
    return rc;
}

/* Lists this node's sources and those that the followers described, by rank. */
static cairn_err add_group(struct crn_job *job, const struct crn_item *item, struct load *load,
                           struct crn_errinfo *ei)
{
    const struct crn_remote *remote = &crn_data(item)->flow.remote;

    load->nsources = job->nlocal + remote->n;
    load->sources = calloc(load->nsources, sizeof(*load->sources));
    if (load->sources == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a flush of %u shards", load->nsources);
    memcpy(load->sources, load->local, job->nlocal * sizeof(*load->local));
    if (remote->n > 0) /* borrowed */
        memcpy(load->sources + job->nlocal, remote->sources, remote->n * sizeof(*remote->sources));
    qsort(load->sources, load->nsources, sizeof(*load->sources), by_rank);
    return CAIRN_OK;
}

/* Makes the node's own copy. It needs no turn on the file system: local disks are not shared. */
static cairn_err work_copy(struct crn_job *job, struct crn_work *w)
{
    struct load load = {0};
    cairn_err rc;

    if (atomic_load(&crn_data(w->item)->is_over))
        return CAIRN_OK;
    rc = ensure_engine(job, &w->error);
    if (rc == CAIRN_OK)
        rc = open_local(job, w->item, &load, &w->error);
    if (rc == CAIRN_OK) {
        write_local(job, w, load.local);
        crn_sources_close(load.held, load.local, job->nlocal);
        crn_slots_unclaim(job, w->item);
    } else {
        crn_log(&job->log, CRN_WARN, "no local copy, continuing: %s", w->error.msg);
    }
    free(load.held);
    free(load.local);
    return CAIRN_OK;
}

static cairn_err work_flush(struct crn_job *job, struct crn_work *w)
{
    struct crn_before *before = NULL;
    struct load load = {0};
    cairn_err rc;

    rc = ensure_engine(job, &w->error);
    if (rc == CAIRN_OK)
        rc = open_local(job, w->item, &load, &w->error);
    if (rc == CAIRN_OK) {
        rc = crn_sources_look_inside(&job->cfg, w->item->name, load.local, job->nlocal, &w->error);
        if (rc == CAIRN_OK)
            rc = add_group(job, w->item, &load, &w->error);
        if (rc == CAIRN_OK)
            before = crn_before_open(job, w->item, load.local, load.sources, load.nsources);
        load.older = before != NULL ? &before->older : NULL;
        if (rc == CAIRN_OK)
            rc = write_persistent(job, w, &load);
        crn_before_close(before);
        crn_sources_close(load.held, load.local, job->nlocal);
    }
    free(load.held);
    free(load.local);
    free(load.sources);
    return crn_err_context(&w->error, rc, "flush of %s@%" PRId64 " on node %u", w->item->name,
                           w->item->version, job->node);
}

static cairn_err work_assist(struct crn_job *job, struct crn_work *w)
{
    cairn_err rc = ensure_engine(job, &w->error);

    return rc == CAIRN_OK ? crn_assist_run(job, w) : rc;
}

/* Threads. ------------------------------------------------------------------------------------- */

void *crn_work_flusher_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_errinfo early = {0};
    struct crn_work *w;

    /* Start the writers now instead of at the first flush; the flush that needs them reports a
     * failure. */
    if (ensure_engine(job, &early) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "%s", early.msg);
    crn_thread_background(CRN_BACKGROUND_NICE);
    while ((w = crn_queue_pop(&job->flush_queue)) != NULL) {
        if (is_stopping(job))
            w->error.code = crn_fail(&w->error, CAIRN_ECANCELED, 0, "the service stops");
        else if (w->kind == CRN_WORK_FLUSH)
            w->error.code = work_flush(job, w);
        else if (w->kind == CRN_WORK_ASSIST)
            w->error.code = work_assist(job, w);
        else if (w->kind == CRN_WORK_SCRUB)
            crn_held_scrub_work(job, w);
        else
            w->error.code = work_copy(job, w);
        crn_service_result(job->svc, w);
    }
    crn_job_worker_ended(job);
    return NULL;
}

void *crn_work_sender_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_work *w;

    crn_thread_background(CRN_BACKGROUND_NICE);
    while ((w = crn_queue_pop(&job->send_queue)) != NULL) {
        if (is_stopping(job))
            w->error.code = crn_fail(&w->error, CAIRN_ECANCELED, 0, "the service stops");
        else
            w->error.code =
                w->kind == CRN_WORK_SERVE ? crn_flow_open_sources(job, w) : crn_flow_gather(job, w);
        crn_service_result(job->svc, w);
    }
    crn_job_worker_ended(job);
    return NULL;
}

int crn_work_send(struct crn_work *w)
{
    struct crn_job *job = w->job;
    struct crn_queue *q = &job->keep_queue;

    if (w->kind == CRN_WORK_FLUSH || w->kind == CRN_WORK_ASSIST || w->kind == CRN_WORK_LOCAL ||
        w->kind == CRN_WORK_SCRUB)
        q = &job->flush_queue;
    else if (w->kind == CRN_WORK_SERVE || w->kind == CRN_WORK_SEND)
        q = &job->send_queue;
    else if (w->kind == CRN_WORK_STREAM || w->kind == CRN_WORK_PARITY)
        q = &job->protect_queue;
    if (crn_queue_push(q, w) == 0)
        return 0;
    free(w->payload);
    free(w);
    return -1;
}
