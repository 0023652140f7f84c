/* SPDX-License-Identifier: BSD-3-Clause */
/* The keeper of a job takes locks, commits and cleans up. It has a thread of its own, so it never
 * waits for a slow flush. It receives a struct crn_work and returns it as the result. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "service/drain_local.h"
#include "service/drain_store.h"
#include "service/job.h"
#include "service/parity.h"
#include "service/source.h"
#include "store/journal.h"

#define SECOND 1000000000LL

static struct crn_held_lock *lock_of(const struct crn_job *job, const char *name)
{
    struct crn_held_lock *lock = job->locks;

    while (lock != NULL && strcmp(lock->name, name) != 0)
        lock = lock->next;
    return lock;
}

/* Does this run still have the name's lock? A restarted file server may have forgotten it; then
 * re-acquire it, unless another process has it by now. Returns 1 if we have it, 0 if we never had
 * it, -1 if it is lost. */
static int keeper_holds(struct crn_job *job, const char *name)
{
    const struct crn_fs *fs = crn_fs_default();
    struct crn_held_lock **link = &job->locks;
    struct crn_held_lock *lock;

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    lock = *link;
    if (lock == NULL)
        return 0;
    if (lock->fd < 0 || fs->lock(fs, lock->fd) == 0)
        return 1;
    *link = lock->next;
    (void)fs->close(fs, lock->fd);
    crn_known_free(&lock->known);
    free(lock);
    return -1;
}

static void log_published(void *arg, const struct crn_drain_event *ev)
{
    const struct crn_job *job = arg;

    if (ev->what == CRN_DRAIN_COMMITTED)
        crn_log(&job->log, CRN_INFO,
                "published %s@%" PRId64 ", which an earlier run had written%s%s", ev->name,
                ev->version, ev->text[0] != '\0' ? "; rebuilt: " : "", ev->text);
    else
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 " of an earlier run is not published: %s",
                ev->name, ev->version, ev->text);
}

#define LOCK_WHO 300

static void lock_who(const struct crn_job *job, char ret[LOCK_WHO])
{
    char host[65] = "";

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(ret, LOCK_WHO, "job '%s', host %s, process %d", job->cfg.job, host,
                   (int)getpid());
}

/* Takes the writer's lock of a name, and a new generation. */
static cairn_err take_lock(struct crn_job *job, const struct crn_store *st, const char *name,
                           struct crn_errinfo *ei)
{
    struct crn_held_lock *lock = calloc(1, sizeof(*lock));
    char who[LOCK_WHO];
    cairn_err rc;

    if (lock == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the lock of '%s'", name);
    memcpy(lock->name, name, strlen(name) + 1);
    lock_who(job, who);
    rc = crn_store_lock_name(st, name, who, &lock->fd, ei);
    if (rc != CAIRN_OK) {
        free(lock);
        return rc;
    }
    rc = crn_store_raise_generation(st, name, &lock->generation, ei);
    if (rc != CAIRN_OK) {
        if (lock->fd >= 0)
            (void)st->fs->close(st->fs, lock->fd);
        free(lock);
        return rc;
    }
    lock->next = job->locks;
    job->locks = lock;
    return CAIRN_OK;
}

/* Takes the writer's lock that a dead service had for this run, which keeps its generation: unless
 * another run has had the name since. */
static cairn_err retake_lock(struct crn_job *job, const struct crn_store *st,
                             const struct crn_item *item, struct crn_errinfo *ei)
{
    struct crn_held_lock *lock = calloc(1, sizeof(*lock));
    uint64_t now = 0;
    char who[LOCK_WHO];
    cairn_err rc;

    if (lock == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the lock of '%s'", item->name);
    memcpy(lock->name, item->name, sizeof(lock->name));
    lock->generation = item->generation;
    lock_who(job, who);
    rc = crn_drain_lock(st, item->name, who, 10 * SECOND, &lock->fd, ei);
    if (rc == CAIRN_OK) {
        rc = crn_store_generation(st, item->name, &now, ei);
        if (rc == CAIRN_OK && now > lock->generation)
            rc = crn_fail(ei, CAIRN_EEXIST, 0,
                          "another run has written '%s' while this one had no service; what this "
                          "run captured stays in memory for 'cairn drain'",
                          item->name);
        if (rc != CAIRN_OK && lock->fd >= 0)
            (void)st->fs->close(st->fs, lock->fd);
    }
    if (rc != CAIRN_OK) {
        free(lock);
        return rc;
    }
    lock->next = job->locks;
    job->locks = lock;
    return CAIRN_OK;
}

/* Releases the lock taken last. */
static void drop_lock(struct crn_job *job)
{
    struct crn_held_lock *lock = job->locks;

    job->locks = lock->next;
    if (lock->fd >= 0)
        (void)close(lock->fd);
    crn_known_free(&lock->known);
    free(lock);
}

/* The name is ours now: publishes complete captures that an earlier run left without a manifest. */
static void publish_left(struct crn_job *job, const struct crn_store *st, const char *name)
{
    struct crn_errinfo ei = {0};

    if (crn_drain_store_name(st, name, lock_of(job, name)->fd, log_published, job, &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "drain of '%s', continuing: %s", name, ei.msg);
}

/* Removes half-written files of an earlier run. */
static void keeper_sweep(struct crn_job *job, const struct crn_store *st, const char *name)
{
    const struct crn_held_lock *lock = lock_of(job, name);
    struct crn_sweep_result swept;
    struct crn_errinfo ei = {0};

    if (crn_store_sweep(st, name, lock->fd, 24 * 3600 * SECOND, 0, 0, crn_clock_real(), &swept,
                        &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "sweep of '%s', continuing: %s", name, ei.msg);
    else if (swept.files > 0)
        crn_log(&job->log, CRN_INFO, "'%s': removed %u files that belong to no version", name,
                swept.files);
}

/* CAIRN_EEXIST if versions of another run exist. Versions marked as bad do not count. */
static cairn_err refuse_others(const struct crn_job *job, const struct crn_store *st,
                               const char *name, struct crn_errinfo *ei)
{
    struct crn_errinfo why = {0};
    struct crn_catalog c;
    cairn_err rc;
    size_t i;

    rc = crn_store_catalog(st, name, &c, &why);
    if (rc == CAIRN_ENOENT)
        return CAIRN_OK;
    if (rc != CAIRN_OK) {
        crn_err_keep(ei, &why);
        return rc;
    }
    for (i = c.n; rc == CAIRN_OK && i-- > 0;)
        if ((c.v[i].state == CRN_VERSION_OK || c.v[i].state == CRN_VERSION_DAMAGED) &&
            memcmp(c.v[i].id.run, job->run, sizeof(job->run)) != 0)
            rc = crn_fail(ei, CAIRN_EEXIST, 0,
                          "'%s' holds versions of '%s' of another run, up to %" PRId64
                          ", and this run has not restored one: restart from them, take another "
                          "name or directory, remove them with 'cairn rm', or write over them with "
                          "fresh = on",
                          st->path, name, c.v[i].version);
    crn_catalog_free(&c);
    return rc;
}

/* Checks the claim for the first checkpoint of a name; nothing is captured yet. */
static cairn_err keeper_claim(struct crn_job *job, struct crn_work *w)
{
    const struct crn_claim *c = w->claim;
    int is_told = crn_config_name(&job->cfg, c->name)->fresh != 0;
    struct crn_store st;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    rc = take_lock(job, &st, c->name, &w->error);
    if (rc == CAIRN_OK) {
        publish_left(job, &st, c->name);
        if (!is_told && !c->is_successor)
            rc = refuse_others(job, &st, c->name, &w->error);
        if (rc == CAIRN_OK)
            rc = crn_store_check_pin(&st, c->name, c->version, NULL, &w->error);
        if (rc == CAIRN_OK)
            keeper_sweep(job, &st, c->name);
        else
            drop_lock(job);
    }
    if (rc == CAIRN_OK)
        w->bytes = lock_of(job, c->name)->generation;
    crn_store_close(&st);
    return rc;
}

/* Makes sure that the name is still ours; re-acquires the lock if it was lost or another service
 * had it. */
static cairn_err hold_name(struct crn_job *job, const struct crn_store *st,
                           const struct crn_item *item, struct crn_errinfo *ei)
{
    const char *name = item->name;
    int before = keeper_holds(job, name);
    cairn_err rc;

    if (job->fs_type == NULL)
        job->fs_type = st->fs->type(st->fs, st->dfd);
    if (before > 0)
        return CAIRN_OK;
    if (before == 0 && job->taken != NULL) {
        rc = retake_lock(job, st, item, ei);
        if (rc == CAIRN_OK)
            publish_left(job, st, name);
        return rc;
    }
    rc = take_lock(job, st, name, ei);
    if (rc == CAIRN_OK && before < 0) /* no sweep: this run may have flushes in flight */
        crn_log(&job->log, CRN_WARN, "'%s': the file system had lost our lock, continuing", name);
    return rc;
}

/* Before a flush: checks that the version can be committed, so that nothing is written in vain. */
static cairn_err keeper_start(struct crn_job *job, struct crn_work *w)
{
    const struct crn_item *item = w->item;
    struct crn_capture_id id = {.seq = item->seq};
    struct crn_store st;
    cairn_err rc;

    memcpy(id.run, job->run, sizeof(id.run));
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    rc = hold_name(job, &st, item, &w->error);
    if (rc == CAIRN_OK)
        rc = crn_store_check_pin(&st, item->name, item->version, &id, &w->error);
    crn_store_close(&st);
    return rc;
}

/* What has become of a capture that a dead service had: w->committed_ns if it is committed,
 * CAIRN_ECANCELED if the name no longer needs it. */
static cairn_err keeper_look(struct crn_job *job, struct crn_work *w)
{
    const struct crn_item *item = w->item;
    struct crn_capture_id id = {.seq = item->seq, .generation = item->generation};
    struct crn_drain_capture c = {item->name, item->version, &id, item->created_ns, NULL};
    struct crn_errinfo none = {0};
    struct crn_manifest m;
    struct crn_store st;
    int is_known = 0;
    cairn_err rc;

    memcpy(id.run, job->run, sizeof(id.run));
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    rc = hold_name(job, &st, item, &w->error);
    if (rc == CAIRN_OK)
        rc = crn_drain_is_known(&st, &c, &is_known, &w->error);
    if (rc == CAIRN_OK && is_known) {
        if (crn_store_manifest(&st, item->name, item->version, &m, &none) == CAIRN_OK) {
            if (memcmp(m.id.run, id.run, sizeof(id.run)) == 0 && m.id.seq == id.seq)
                w->committed_ns = m.committed_ns;
            crn_manifest_free(&m);
        }
        if (w->committed_ns == 0)
            rc = crn_fail(&w->error, CAIRN_ECANCELED, 0,
                          "it was removed, or replaced by a newer checkpoint");
    }
    crn_store_close(&st);
    return rc;
}

static cairn_err keeper_commit(struct crn_job *job, struct crn_work *w)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_item *item = w->item;
    struct crn_held_lock *lock = lock_of(job, item->name);
    struct crn_manifest m = {0};
    struct crn_store st;
    cairn_err rc;

    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 1, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(m.id.run, job->run, 16);
    m.id.seq = item->seq;
    m.id.generation = item->generation;
    memcpy(m.name, item->name, sizeof(m.name));
    memcpy(m.job, job->cfg.job, sizeof(m.job));
    m.version = item->version;
    m.created_ns = item->created_ns;
    m.committed_ns = w->committed_ns = (uint64_t)clock->wall_ns(clock);
    m.data_bytes = item->root->bytes;
    m.ranks = job->ranks;
    m.nodes = job->nodes;
    m.nfiles = job->files;
    m.files = crn_data(item)->files;
    rc = crn_store_publish(&st, &m, &w->error);
    if (rc != CAIRN_OK && lock != NULL)
        lock->is_durable = 0;           /* the manifest may be visible nevertheless */
    if (rc == CAIRN_OK && lock != NULL) /* it has looked at each file */
        crn_known_add(&lock->known, &m.id);
    crn_store_close(&st);
    return crn_err_context(&w->error, rc, "commit of %s@%" PRId64, item->name, item->version);
}

/* Root: removes the versions that retention no longer keeps. */
static void keeper_retain(struct crn_job *job, const struct crn_work *w)
{
    const char *name = w->item->name;
    const struct crn_name_config *nc = crn_config_name(&job->cfg, name);
    struct crn_held_lock *lock = lock_of(job, name);
    struct crn_retention policy = {.keep_last = nc->keep_last,
                                   .keep_every = nc->keep_every,
                                   .reuse = job->cfg.reuse_files == CRN_REUSE_AUTO,
                                   .spared = (const int64_t *)(const void *)w->payload,
                                   .nspared = w->payload_bytes / sizeof(int64_t)};
    struct crn_errinfo ei = {0};
    struct crn_store st;
    uint32_t removed = 0;
    cairn_err rc;

    if (nc->keep_last == 0)
        return;
    if (lock != NULL && lock->fd >= 0) { /* without a lock others may commit */
        policy.is_durable = &lock->is_durable;
        policy.known = &lock->known;
    }
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &ei);
    if (rc == CAIRN_OK) {
        rc = crn_store_retain(&st, name, &policy, &removed, &ei);
        crn_store_close(&st);
    }
    if (rc != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "old versions of '%s' stay, continuing: %s", name, ei.msg);
}

static int by_version(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Removes all but the newest `keep` local versions up to the one just committed. Later versions
 * stay: the local copy may be the only one. */
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
            crn_err_clear(&ei); /* retried after the next commit */
    }
    free(v);
}

static void retire_local(struct crn_job *job, const struct crn_item *item)
{
    char root[CRN_PATH_MAX], path[CRN_PATH_MAX + CAIRN_MAX_NAME];
    struct crn_names names = {0};
    struct crn_errinfo ei = {0};
    int dfd;

    if (crn_rundir_local_root(crn_fs_posix(), &job->cfg, root, sizeof(root), &ei) != CAIRN_OK)
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

/* A version that was not due has given way to a newer one: removes its local copy. */
static void drop_local(struct crn_job *job, const struct crn_item *item)
{
    char root[CRN_PATH_MAX];
    struct crn_errinfo ei = {0};
    struct crn_store st;

    if (crn_rundir_local_root(crn_fs_posix(), &job->cfg, root, sizeof(root), &ei) != CAIRN_OK ||
        crn_store_open(crn_fs_default(), root, 0, &st, &ei) != CAIRN_OK)
        return;
    if (crn_store_discard_data(&st, item->name, item->version, crn_data(item)->local, &ei) !=
        CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "a local copy of %s@%" PRId64 " stays: %s", item->name,
                item->version, ei.msg); /* until a newer version is on the file system */
    crn_store_close(&st);
}

/* Cancellations that the user configured are not reported. */
static void report_end(struct crn_job *job, const struct crn_item *item)
{
    int is_canceled = item->error.code == CAIRN_ECANCELED;

    if (item->error.code == CAIRN_OK ||
        (is_canceled && (item->is_held || crn_config_full(&job->cfg) == CRN_FULL_SUPERSEDE ||
                         job->cfg.discard_consumed)))
        return;
    crn_job_report(job, item, is_canceled ? CRN_EVENT_CANCELED : CRN_EVENT_FAILED, item->error.msg);
}

static cairn_err keeper_retire(struct crn_job *job, struct crn_work *w)
{
    struct crn_item *item = w->item;
    const struct crn_manifest_file *file = &crn_data(item)->file;
    struct crn_store st;
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        crn_source_remove_spool(job->dir.spool_dfd, job->rank_of[i], item->seq);
    crn_parity_retire(job);
    if (job->node == CRN_ROOT) {
        report_end(job, item);
        crn_job_report_rest(job); /* the disk may have free space now */
    }
    if (item->error.code == CAIRN_OK) {
        if (job->cfg.local[0] != '\0')
            retire_local(job, item);
        if (job->node == CRN_ROOT)
            keeper_retain(job, w);
        return CAIRN_OK;
    }
    if (item->error.code == CAIRN_ECANCELED && item->is_held && crn_data(item)->local[0] != '\0')
        drop_local(job, item);
    if (w->bytes == 0 && file->name[0] != '\0' &&
        crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &w->error) == CAIRN_OK) {
        if (crn_store_discard_data(&st, item->name, item->version, file->name, &w->error) !=
            CAIRN_OK)
            crn_log(&job->log, CRN_WARN, "a file of a failed version stays, continuing: %s",
                    w->error.msg);
        crn_store_close(&st);
    }
    return CAIRN_OK;
}

/* No more versions will come. */
static void drop_spares(struct crn_job *job)
{
    const struct crn_held_lock *lock;
    struct crn_errinfo ei = {0};
    struct crn_store st;

    if (job->locks == NULL ||
        crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &ei) != CAIRN_OK)
        return;
    for (lock = job->locks; lock != NULL; lock = lock->next)
        if (crn_store_drop_spares(&st, lock->name, &ei) != CAIRN_OK)
            crn_log(&job->log, CRN_WARN, "files of removed versions stay, continuing: %s", ei.msg);
    crn_store_close(&st);
}

/* A write after this would not be protected: the other workers must have ended. */
static void release_locks(struct crn_job *job)
{
    uint32_t others = (uint32_t)(job->has_flusher + job->has_sender + job->has_protector);

    crn_lock(&job->mu);
    while (job->nended < others)
        crn_cond_wait(&job->wake, &job->mu);
    crn_unlock(&job->mu);
    while (job->locks != NULL) {
        struct crn_held_lock *lock = job->locks;

        job->locks = lock->next;
        if (lock->fd >= 0)
            crn_fork_close(lock->fd);
        crn_known_free(&lock->known);
        free(lock);
    }
}

void *crn_keeper_main(void *arg)
{
    struct crn_job *job = arg;
    struct crn_work *w;

    while ((w = crn_queue_pop(&job->keep_queue)) != NULL) {
        if (w->kind == CRN_WORK_OPEN)
            w->error.code = crn_job_make_dir(job, &w->error);
        else if (w->kind == CRN_WORK_CLAIM)
            w->error.code = keeper_claim(job, w);
        else if (w->kind == CRN_WORK_LOOK)
            w->error.code = keeper_look(job, w);
        else if (w->kind == CRN_WORK_START)
            w->error.code = keeper_start(job, w);
        else if (w->kind == CRN_WORK_COMMIT)
            w->error.code = keeper_commit(job, w);
        else if (w->kind == CRN_WORK_REPORT)
            crn_job_report(job, w->item, CRN_EVENT_PAUSED, w->error.msg);
        else
            w->error.code = keeper_retire(job, w);
        crn_service_result(job->svc, w);
    }
    drop_spares(job);
    crn_job_report_rest(job);
    release_locks(job);
    if (job->is_removed)
        crn_job_remove_dir(job);
    crn_job_worker_ended(job);
    return NULL;
}
