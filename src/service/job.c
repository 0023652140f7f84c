/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of a job in the node service. A job starts with the first rank that says HELLO. It
 * ends when every rank of the node has left and no checkpoint is in progress; only then the keeper
 * removes its directory. Otherwise the directory is left for a drain. */
#include "service/job.h"
#include "service/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aggregate/assist.h"
#include "aggregate/elect.h"
#include "base/clock.h"
#include "base/fork.h"
#include "service/flow.h"
#include "service/parity.h"
#include "service/runfile.h"

#define QUEUE_ROOM (8 * CRN_ARENA_SLOTS_MAX) /* so many that a push never blocks */

/* Called while a checkpoint of all ranks is flushed, so the arenas exist and stay. */
static int is_application_busy(void *arg)
{
    const struct crn_job *job = arg;
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (job->arenas[i] != NULL && crn_arena_phase(job->arenas[i]) != CAIRN_PHASE_COMPUTE)
            return 1;
    return 0;
}

static cairn_err start_workers(struct crn_job *job, struct crn_errinfo *ei)
{
    cairn_err rc;

    rc = crn_queue_init(&job->flush_queue, QUEUE_ROOM, ei);
    if (rc == CAIRN_OK)
        rc = crn_queue_init(&job->keep_queue, QUEUE_ROOM, ei);
    if (rc == CAIRN_OK)
        rc = crn_queue_init(&job->send_queue, QUEUE_ROOM, ei);
    if (rc == CAIRN_OK)
        rc = crn_thread_start(&job->flusher, "cairn-flush", crn_work_flusher_main, job, ei);
    job->has_flusher = rc == CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = crn_thread_start(&job->keeper, "cairn-keep", crn_keeper_main, job, ei);
    job->has_keeper = job->has_flusher && rc == CAIRN_OK;
    if (rc == CAIRN_OK)
        rc = crn_queue_init(&job->protect_queue, QUEUE_ROOM, ei);
    if (rc == CAIRN_OK && job->nmembers > 0) {
        rc = crn_thread_start(&job->protector, "cairn-protect", crn_parity_main, job, ei);
        job->has_protector = rc == CAIRN_OK;
    }
    /* A node may follow another, or send what another protects. */
    if (rc == CAIRN_OK && (job->files < job->nodes || job->nmembers > 0)) {
        rc = crn_thread_start(&job->sender, "cairn-send", crn_work_sender_main, job, ei);
        job->has_sender = rc == CAIRN_OK;
    }
    return rc;
}

static cairn_err job_allocate(struct crn_job *job, const struct crn_hello *h,
                              struct crn_errinfo *ei)
{
    job->clients = calloc(h->nlocal, sizeof(*job->clients));
    job->rank_of = calloc(h->nlocal, sizeof(*job->rank_of));
    job->arenas = calloc(h->nlocal, sizeof(*job->arenas));
    job->peers = calloc(h->nodes, sizeof(*job->peers));
    if (job->clients == NULL || job->rank_of == NULL || job->arenas == NULL || job->peers == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job of %u ranks on this node", h->nlocal);
    memcpy(job->peers, h->peers, h->nodes * sizeof(*job->peers));
    job->nmembers = h->nmembers;
    memcpy(job->member, h->member, sizeof(job->member));
    return CAIRN_OK;
}

static cairn_err open_core(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_node_setup setup = {.node = job->node,
                                   .nodes = job->nodes,
                                   .nlocal = job->nlocal,
                                   .files = job->files,
                                   .cfg = &job->cfg,
                                   .nmembers = job->nmembers,
                                   .members = job->member,
                                   .shell_bytes = sizeof(struct crn_item_data),
                                   .out = &job->actions};

    memcpy(setup.run, job->run, sizeof(setup.run));
    return crn_node_new(&setup, crn_clock_real()->mono_ns(crn_clock_real()), &job->core, ei);
}

/* The keeper makes the job's directory, which takes an fsync or two. */
static cairn_err post_open(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_work *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job");
    w->kind = CRN_WORK_OPEN;
    w->job = job;
    job->is_opening = 1;
    if (crn_work_send(w) == 0)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_ESERVICE, 0, "the job is being closed");
}

cairn_err crn_job_make_dir(struct crn_job *job, struct crn_errinfo *ei)
{
    struct crn_run_place place = {job->ranks, job->node, job->nodes, job->nlocal, "", 0, {0}};
    cairn_err rc;

    (void)snprintf(place.socket, sizeof(place.socket), "%s", job->svc->socket_path);
    place.nmembers = job->nmembers;
    memcpy(place.member, job->member, sizeof(place.member));
    rc = crn_rundir_open(crn_fs_posix(), &job->cfg, job->run, job->node, job->taken == NULL,
                         &job->dir, ei);
    if (rc == CAIRN_OK)
        rc = crn_rundir_lock_service(&job->dir, &job->lock_fd, ei);
    if (rc == CAIRN_OK)
        rc = crn_runfile_write(job->dir.dfd, &place, &job->cfg, ei);
    return rc;
}

cairn_err crn_job_open(struct crn_service *svc, const struct crn_hello *h, struct crn_job **ret,
                       struct crn_errinfo *ei)
{
    struct crn_job *job = calloc(1, sizeof(*job));
    cairn_err rc;

    if (job == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a job");
    job->svc = svc;
    job->dir.dfd = job->dir.spool_dfd = job->lock_fd = -1;
    crn_mutex_init(&job->mu, CRN_RANK_SESSION);
    crn_cond_init(&job->wake);
    memcpy(job->run, h->run, 16);
    job->ranks = h->ranks;
    job->node = h->node;
    job->nodes = h->nodes;
    job->nlocal = h->nlocal;
    crn_config_defaults(&job->cfg);
    rc = crn_config_text(&job->cfg, h->config, "the configuration of a rank", ei);
    crn_log_init(&job->log, &job->cfg, job->run, "node", job->node);
    if (rc == CAIRN_OK)
        rc = crn_service_log(svc, &job->log, ei);
    crn_gate_init(&job->gate, job->cfg.bandwidth, (int64_t)job->cfg.phase_patience_ns,
                  is_application_busy, job);
    if (rc == CAIRN_OK)
        rc = crn_elect_files(job->cfg.files, job->nodes, &job->files, ei);
    if (rc == CAIRN_OK)
        rc = job_allocate(job, h, ei);
    if (rc == CAIRN_OK)
        rc = open_core(job, ei);
    if (rc == CAIRN_OK && h->is_rejoin)
        rc = crn_takeover(job, ei);
    if (rc == CAIRN_OK && h->is_rejoin)
        rc = crn_job_make_dir(job, ei); /* it is there */
    if (rc == CAIRN_OK)
        rc = start_workers(job, ei);
    if (rc == CAIRN_OK && !h->is_rejoin)
        rc = post_open(job, ei);
    if (rc != CAIRN_OK) {
        crn_job_close(job);
        return rc;
    }
    if (job->node == 0 && job->cfg.leaders_per_file > 1 &&
        job->cfg.names.encode != CRN_ENCODE_NONE && job->cfg.names.encode != CRN_ENCODE_AUTO)
        crn_log(&job->log, CRN_WARN,
                "leaders_per_file is for data that is not encoded; one node writes each file, "
                "continuing");
    crn_turn_open(job);
    *ret = job;
    return CAIRN_OK;
}

cairn_err crn_job_check_arenas(const struct crn_job *job, struct crn_errinfo *ei)
{
    uint32_t i;

    for (i = 0; i < job->nlocal; i++)
        if (job->arenas[i] != NULL && crn_arena_is_torn(job->arenas[i]))
            return crn_fail(ei, CAIRN_EDAMAGED, 0, "the arena of rank %u was truncated",
                            job->rank_of[i]);
    return CAIRN_OK;
}

int crn_job_is_done(const struct crn_job *job)
{
    return !job->is_opening && (job->is_refused || crn_node_is_done(job->core));
}

/* Flusher and protector of an aborted job may wait for blocks that the ended loop will never deliver. */
static void join_receiver(struct crn_job *job, pthread_t thread)
{
    struct crn_errinfo cut = {.code = CAIRN_ECANCELED, .msg = "the service stops"};
    struct timespec until;

    if (crn_node_items(job->core) ==
        NULL) { /* nothing is in flight, and results of other jobs must stay */
        (void)pthread_join(thread, NULL);
        return;
    }
    do {
        crn_flows_refuse(job);
        if (job->engine != NULL)
            crn_assist_cancel(job->engine, 0, &cut);
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 10 * 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
    } while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
}

static void job_stop(struct crn_job *job)
{
    struct crn_queue *const queue[] = {&job->flush_queue, &job->keep_queue, &job->send_queue,
                                       &job->protect_queue};
    size_t i;

    crn_lock(&job->mu);
    job->stopping = 1;
    crn_cond_broadcast(&job->wake);
    crn_unlock(&job->mu);
    crn_gate_open(&job->gate);
    for (i = 0; i < 4; i++)
        if (queue[i]->slot != NULL)
            crn_queue_close(queue[i]);
    crn_turn_close(job);
}

/* If not, the directory is left for a drain. */
static int leaves_nothing(const struct crn_job *job)
{
    return job->core != NULL && crn_node_items(job->core) == NULL &&
           !(job->has_dead && job->has_kept) && crn_takeover_is_whole(job);
}

void crn_job_end(struct crn_job *job)
{
    job->is_removed = job->has_keeper && leaves_nothing(job);
    job_stop(job);
}

void crn_job_remove_dir(struct crn_job *job)
{
    struct crn_errinfo ei = {0};

    if (job->lock_fd >= 0 && crn_rundir_remove(&job->dir, &ei) != CAIRN_OK)
        crn_log(&job->log, CRN_WARN, "the run's directory stays for a drain, continuing: %s",
                ei.msg);
}

void crn_job_worker_ended(struct crn_job *job)
{
    crn_lock(&job->mu);
    job->nended++;
    crn_cond_broadcast(&job->wake);
    crn_unlock(&job->mu);
    crn_service_wake(job->svc);
}

int crn_job_has_stopped(struct crn_job *job)
{
    uint32_t nended;

    crn_lock(&job->mu);
    nended = job->nended;
    crn_unlock(&job->mu);
    return nended ==
           (uint32_t)(job->has_flusher + job->has_keeper + job->has_sender + job->has_protector);
}

static void join_workers(struct crn_job *job)
{
    struct crn_queue *const queue[] = {&job->flush_queue, &job->keep_queue, &job->send_queue,
                                       &job->protect_queue};
    struct crn_work *w;
    size_t i;

    if (job->has_flusher)
        join_receiver(job, job->flusher);
    if (job->has_protector)
        join_receiver(job, job->protector);
    if (job->has_keeper)
        (void)pthread_join(job->keeper, NULL);
    if (job->has_sender)
        (void)pthread_join(job->sender, NULL);
    for (i = 0; i < 4; i++) {
        while (queue[i]->slot != NULL && (w = crn_queue_try_pop(queue[i])) != NULL) {
            free(w->payload);
            free(w);
        }
        crn_queue_fini(queue[i]);
    }
}

void crn_job_close(struct crn_job *job)
{
    int is_removed = !job->is_removed && leaves_nothing(job);
    uint32_t i;

    job_stop(job);
    join_workers(job);
    crn_engine_close(job->engine);
    if (job->core != NULL) {
        if (job->node == CRN_ROOT)
            crn_job_summary(job);
        crn_job_free_items(job);
    }
    crn_node_free(job->core);
    crn_actions_free(&job->actions);
    for (i = 0; job->arenas != NULL && i < job->nlocal; i++)
        crn_arena_close(job->arenas[i]);
    if (is_removed)
        crn_job_remove_dir(job);
    if (job->lock_fd >= 0)
        crn_fork_close(job->lock_fd);
    crn_rundir_close(&job->dir);
    free(job->clients);
    free(job->rank_of);
    free(job->arenas);
    free(job->peers);
    crn_takeover_free(job);
    crn_gate_fini(&job->gate);
    crn_config_fini(&job->cfg);
    crn_cond_fini(&job->wake);
    crn_mutex_fini(&job->mu);
    free(job);
}
