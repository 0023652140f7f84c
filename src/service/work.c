/* SPDX-License-Identifier: BSD-3-Clause */
/* The two threads of a job that may wait for disks. The flusher writes bulk data, one checkpoint
 * after another; the keeper takes locks, commits and cleans up, and is never behind a slow flush.
 * Both get a struct crn_work and return it as the result. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/job.h"
#include "service/source.h"

#define SECOND 1000000000LL

static int is_stopping(struct crn_job *job)
{
    int stopping;

    crn_lock(&job->mu);
    stopping = job->stopping;
    crn_unlock(&job->mu);
    return stopping;
}

/* Sleeps, or less if the job is stopped: 1 then, or if the checkpoint failed elsewhere. */
static int pause_for(struct crn_job *job, struct crn_item *item, int64_t ns)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t until = clock->mono_ns(clock) + ns;
    int stopping;

    crn_lock(&job->mu);
    while (!job->stopping && crn_cond_wait_until(&job->wake, &job->mu, until) == 0)
        ;
    stopping = job->stopping;
    crn_unlock(&job->mu);
    return stopping || atomic_load(&item->is_over);
}

static void report(struct crn_job *job, struct crn_item *item, enum crn_work_kind kind,
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

/* Flush. -------------------------------------------------------------------------------------------- */

static cairn_err ensure_engine(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_engine_options opt = {.blocks = job->cfg.blocks,
                                     .block_bytes = job->cfg.block_bytes,
                                     .chunk_bytes = job->cfg.chunk_bytes,
                                     .align_bytes = job->cfg.align_bytes,
                                     .writers = (int)job->cfg.writers,
                                     .nice = (int)job->cfg.nice};

    return job->engine != NULL ? CAIRN_OK : crn_engine_open(&opt, &job->engine, ei);
}

/* Waits until the store has room for the file. Running out later is an error; this is the check
 * before. */
static cairn_err wait_for_room(struct crn_job *job, struct crn_item *item,
                               const struct crn_store *st, uint64_t need, struct crn_errinfo *ei)
{
    char want[32], have[32], text[CRN_ERR_TEXT];
    uint64_t room = 0;
    int told = 0;

    for (;;) {
        int r = st->fs->space(st->fs, st->dfd, &room);

        if (r < 0)
            return crn_fail_errno(ei, -r, "free space of '%s'", st->path);
        if (room >= need + job->cfg.free_reserve_bytes)
            return CAIRN_OK;
        crn_human_bytes(need + job->cfg.free_reserve_bytes, want, sizeof(want));
        crn_human_bytes(room, have, sizeof(have));
        (void)snprintf(text, sizeof(text),
                       "the flush of %s@%" PRId64
                       " pauses: it needs %s in '%.200s' and %s are free; it goes on when there is "
                       "room",
                       item->name, item->version, want, st->path, have);
        if (!told)
            report(job, item, CRN_WORK_NOTE_PAUSED, text);
        told = 1;
        if (pause_for(job, item, SECOND))
            return crn_fail(ei, CAIRN_ENOSPC, ENOSPC, "%s", text);
    }
}

static void describe(const struct crn_job *job, const struct crn_item *item, struct crn_index *head)
{
    memset(head, 0, sizeof(*head));
    memcpy(head->id.run, job->run, 16);
    head->id.seq = item->seq;
    memcpy(head->name, item->name, sizeof(head->name));
    head->version = item->version;
    head->file_no = job->node;
    head->files = job->nodes;
    head->ranks = job->ranks;
    head->nodes = job->nodes;
    head->created_ns = item->created_ns;
}

static cairn_err write_to(struct crn_job *job, struct crn_item *item, const char *path,
                          const struct crn_source *sources, struct crn_manifest_file *ret,
                          struct crn_errinfo *ei)
{
    struct crn_write_stats stats;
    struct crn_store st;
    struct crn_index head;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), path, 1, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    describe(job, item, &head);
    rc = wait_for_room(job, item, &st, crn_engine_estimate(job->engine, sources, job->nlocal), ei);
    if (rc == CAIRN_OK)
        rc = crn_engine_write(job->engine, &st, &head, sources, job->nlocal, NULL, ret, &stats, ei);
    if (rc == CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "%s@%" PRId64 ": %s/%s, %" PRIu64 " bytes in %.3f s",
                item->name, item->version, path, ret->name, ret->bytes, stats.seconds);
    crn_store_close(&st);
    return rc;
}

/* A local copy is a help, not a condition: its failure is logged and the flush goes on. */
static void write_local(struct crn_job *job, struct crn_item *item,
                        const struct crn_source *sources)
{
    struct crn_manifest_file file = {0};
    struct crn_errinfo ei = {0};
    char root[CRN_PATH_MAX];

    if (crn_local_root(&job->cfg, root, sizeof(root), &ei) == CAIRN_OK &&
        write_to(job, item, root, sources, &file, &ei) == CAIRN_OK)
        report(job, item, CRN_WORK_NOTE_LOCAL, "");
    else
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 ": no local copy, continuing: %s", item->name,
                item->version, ei.msg);
    free(file.ranges);
}

static cairn_err write_persistent(struct crn_job *job, struct crn_item *item,
                                  const struct crn_source *sources, struct crn_manifest_file *ret,
                                  struct crn_errinfo *ei)
{
    const struct crn_name_config *nc = crn_config_name(&job->cfg, item->name);
    int64_t delay = (int64_t)nc->retry_delay_ns;
    uint64_t tries = nc->on_failure == CRN_FAIL_RETRY ? nc->retries : 0;
    cairn_err rc;

    for (;;) {
        crn_err_clear(ei);
        rc = write_to(job, item, job->cfg.persistent, sources, ret, ei);
        if (rc == CAIRN_OK || tries-- == 0)
            return rc;
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 ": flush failed, trying again: %s", item->name,
                item->version, ei->msg);
        if (pause_for(job, item, delay))
            return rc;
        delay *= 2;
    }
}

static cairn_err flush(struct crn_job *job, struct crn_work *w)
{
    struct crn_item *item = w->item;
    struct crn_source *sources = calloc(job->nlocal, sizeof(*sources));
    struct crn_held *held = calloc(job->nlocal, sizeof(*held));
    uint32_t *slots = calloc(job->nlocal, sizeof(*slots));
    cairn_err rc;
    uint32_t i;

    if (sources == NULL || held == NULL || slots == NULL) {
        rc = crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "a flush of %u shards", job->nlocal);
        goto out;
    }
    for (i = 0; i < job->nlocal; i++)
        slots[i] = item->part[i].slot;
    rc = ensure_engine(job, &w->error);
    if (rc == CAIRN_OK)
        rc = crn_sources_open(job->arenas, slots, job->nlocal, job->dir.spool_dfd, held, sources,
                              &w->error);
    if (rc != CAIRN_OK)
        goto out;
    if (job->cfg.local[0] != '\0')
        write_local(job, item, sources);
    rc = write_persistent(job, item, sources, &w->file, &w->error);
    crn_sources_close(held, sources, job->nlocal);
out:
    free(slots);
    free(held);
    free(sources);
    return crn_err_context(&w->error, rc, "flush of %s@%" PRId64 " on node %u", item->name,
                           item->version, job->node);
}

/* Keeper. ------------------------------------------------------------------------------------------- */

static cairn_err start(struct crn_job *job, struct crn_work *w)
{
    const char *name = w->item->name;
    struct crn_sweep_result swept;
    struct crn_errinfo sweep_error = {0};
    struct crn_held_lock *lock;
    char who[300], host[65] = "";
    struct crn_store st;
    cairn_err rc;

    for (lock = job->locks; lock != NULL; lock = lock->next)
        if (strcmp(lock->name, name) == 0)
            return CAIRN_OK;
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    lock = calloc(1, sizeof(*lock));
    if (lock == NULL) {
        rc = crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "the lock of '%s'", name);
        goto out;
    }
    memcpy(lock->name, name, sizeof(lock->name));
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(who, sizeof(who), "job '%s', host %s, process %d", job->cfg.job, host,
                   (int)getpid());
    rc = crn_store_lock_name(&st, name, who, &lock->fd, &w->error);
    if (rc != CAIRN_OK) {
        free(lock);
        goto out;
    }
    lock->next = job->locks;
    job->locks = lock;
    /* The name is ours now: what an earlier run left half-written goes. */
    if (crn_store_sweep(&st, name, lock->fd, 24 * 3600 * SECOND, 0, 0, crn_clock_real(), &swept,
                        &sweep_error) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "sweep of '%s', continuing: %s", name, sweep_error.msg);
    else if (swept.files > 0)
        crn_log(&job->log, CRN_INFO, "'%s': removed %u files that no version owns", name,
                swept.files);
out:
    crn_store_close(&st);
    return rc;
}

static cairn_err commit(struct crn_job *job, struct crn_work *w)
{
    const struct crn_clock *clock = crn_clock_real();
    const struct crn_name_config *nc = crn_config_name(&job->cfg, w->item->name);
    struct crn_item *item = w->item;
    struct crn_errinfo retain_error = {0};
    struct crn_manifest m = {0};
    struct crn_store st;
    uint32_t removed = 0;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(m.id.run, job->run, 16);
    m.id.seq = item->seq;
    memcpy(m.name, item->name, sizeof(m.name));
    memcpy(m.job, job->cfg.job, sizeof(m.job));
    m.version = item->version;
    m.created_ns = item->created_ns;
    m.committed_ns = w->committed_ns = (uint64_t)clock->wall_ns(clock);
    m.data_bytes = item->bytes;
    m.ranks = job->ranks;
    m.nodes = job->nodes;
    m.nfiles = job->nodes;
    m.files = item->files;
    rc = crn_store_publish(&st, &m, &w->error);
    if (rc == CAIRN_OK && nc->keep_last > 0 &&
        crn_store_retain(&st, item->name, nc->keep_last, nc->keep_every, &removed, &retain_error) !=
            CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "old versions of '%s' stay, continuing: %s", item->name,
                retain_error.msg);
    crn_store_close(&st);
    return crn_err_context(&w->error, rc, "commit of %s@%" PRId64, item->name, item->version);
}

static int by_version(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Removes all but the newest keep of the versions up to the one just committed. Later ones may be
 * all that there is of theirs. */
static void remove_older(int dfd, const struct crn_names *names, int64_t upto, uint64_t keep)
{
    int64_t *v = calloc(names->n != 0 ? names->n : 1, sizeof(*v));
    struct crn_errinfo ei = {0};
    char name[24];
    size_t n = 0;
    size_t i;

    for (i = 0; v != NULL && i < names->n; i++)
        if (names->name[i][0] >= '0' && names->name[i][0] <= '9' &&
            strtoll(names->name[i], NULL, 10) <= upto)
            v[n++] = strtoll(names->name[i], NULL, 10);
    if (n > 0)
        qsort(v, n, sizeof(*v), by_version);
    for (i = 0; i + keep < n; i++) {
        (void)snprintf(name, sizeof(name), "%" PRId64, v[i]);
        if (crn_fs_remove_tree(crn_fs_default(), dfd, name, &ei) != CAIRN_OK)
            crn_err_clear(&ei); /* tried again after the next commit */
    }
    free(v);
}

static void retire_local(struct crn_job *job, const struct crn_item *item)
{
    char root[CRN_PATH_MAX], path[CRN_PATH_MAX + CAIRN_MAX_NAME];
    struct crn_names names = {0};
    struct crn_errinfo ei = {0};
    int dfd;

    if (crn_local_root(&job->cfg, root, sizeof(root), &ei) != CAIRN_OK)
        return;
    (void)snprintf(path, sizeof(path), "%s/%s", root, item->name);
    dfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dfd < 0)
        return;
    if (crn_fs_names(crn_fs_posix(), dfd, path, &names, &ei) == CAIRN_OK)
        remove_older(dfd, &names, item->version,
                     crn_config_name(&job->cfg, item->name)->keep_local);
    crn_names_free(&names);
    (void)close(dfd);
}

static cairn_err retire(struct crn_job *job, struct crn_work *w)
{
    struct crn_item *item = w->item;
    struct crn_store st;
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        crn_spool_remove(job->dir.spool_dfd, job->rank_of[i], item->seq);
    if (item->error.code == CAIRN_OK) {
        if (job->cfg.local[0] != '\0')
            retire_local(job, item);
        return CAIRN_OK;
    }
    if (item->file.name[0] != '\0' &&
        crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &w->error) == CAIRN_OK) {
        if (crn_store_discard_data(&st, item->name, item->version, item->file.name, &w->error) !=
            CAIRN_OK)
            crn_log(&job->log, CRN_WARN, "a file of a failed version stays, continuing: %s",
                    w->error.msg);
        crn_store_close(&st);
    }
    return CAIRN_OK;
}

/* Threads. ------------------------------------------------------------------------------------------ */

void *crn_flusher_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_errinfo early = {0};
    struct crn_work *w;

    crn_thread_background((int)job->cfg.nice);
    /* Pool and writers are made now, beside the application's start; a failure is reported by the
     * flush that needs them. */
    if (ensure_engine(job, &early) != CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "%s", early.msg);
    while ((w = crn_queue_pop(&job->flush_queue)) != NULL) {
        if (is_stopping(job))
            w->error.code = crn_fail(&w->error, CAIRN_ECANCELED, 0, "the service stops");
        else
            w->error.code = flush(job, w);
        crn_service_result(job->svc, w);
    }
    return NULL;
}

void *crn_keeper_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_work *w;

    while ((w = crn_queue_pop(&job->keep_queue)) != NULL) {
        if (w->kind == CRN_WORK_START)
            w->error.code = start(job, w);
        else if (w->kind == CRN_WORK_COMMIT)
            w->error.code = commit(job, w);
        else
            w->error.code = retire(job, w);
        crn_service_result(job->svc, w);
    }
    return NULL;
}

void crn_work_post(struct crn_job *job, struct crn_item *item, enum crn_work_kind kind)
{
    struct crn_work *w = calloc(1, sizeof(*w));
    struct crn_queue *q = kind == CRN_WORK_FLUSH ? &job->flush_queue : &job->keep_queue;

    if (w == NULL)
        return; /* the item's deadline reports it */
    w->kind = kind;
    w->job = job;
    w->item = item;
    item->working++;
    if (crn_queue_push(q, w) != 0) {
        item->working--;
        free(w);
    }
}
