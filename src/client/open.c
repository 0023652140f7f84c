/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a session. All ranks take every step and agree on its result, so that a
 * failure on one rank is an error on all, and no rank waits forever. All ranks use rank 0's
 * configuration. */
#include "client/open.h"
#include "client/outside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregate/elect.h"
#include "aggregate/encoding.h"
#include "base/fork.h"
#include "base/rng.h"
#include "client/recheck.h"
#include "client/session.h"
#include "service/drain.h"

#define CONFIG_TEXT_MAX ((size_t)60000)
#define SECOND          1000000000LL

cairn_err crn_api_end(const struct crn_errinfo *ei, cairn_err rc)
{
    if (rc != CAIRN_OK)
        crn_err_publish(ei);
    return rc;
}

cairn_err cairn_private_refuse(int rank, int is_logged_elsewhere, const struct crn_errinfo *ei)
{
    struct crn_log log = {.level = CRN_ERROR}; /* no configuration is known yet */

    if (rank >= 0)
        (void)snprintf(log.who, sizeof(log.who), "rank %d", rank);
    else
        (void)snprintf(log.who, sizeof(log.who), "process %ld", (long)getpid());
    if (!is_logged_elsewhere)
        crn_log(&log, CRN_ERROR, "no session is opened: %s", ei->msg);
    return crn_api_end(ei, ei->code);
}

cairn_err crn_session_agree(cairn_session *s, cairn_err rc, const char *what,
                            struct crn_errinfo *ei)
{
    int64_t worst[2] = {rc, rc == CAIRN_OK ? INT64_MAX : (int64_t)s->rank};
    struct crn_errinfo first = {0}; /* of the first rank that failed */
    struct crn_errinfo mpi = {0};

    if (rc != CAIRN_OK && ei != NULL)
        first = *ei;
    if (s->all->ops->allreduce(s->all, worst, 2, CRN_COMM_MIN, &mpi) != CAIRN_OK) {
        crn_err_keep(ei, &mpi);
        return mpi.code;
    }
    if (worst[0] == CAIRN_OK)
        return CAIRN_OK;
    if (s->all->ops->bcast(s->all, first.msg, sizeof(first.msg), (int)worst[1], &mpi) != CAIRN_OK)
        first.msg[0] = '\0';
    if (rc != CAIRN_OK)
        return rc;
    return crn_fail(ei, (cairn_err)worst[0], 0, "%s failed on rank %lld: %.*s", what,
                    (long long)worst[1], CRN_ERR_TEXT / 2, first.msg);
}

/* Configuration and run id of rank 0, for all. ------------------------------------------------- */

static cairn_err load_on_root(cairn_session *s, const struct cairn_options *opt, char *text,
                              struct crn_errinfo *ei)
{
    uint32_t files;
    cairn_err rc;
    FILE *f;

    rc = crn_config_load(&s->cfg, opt != NULL ? opt->config_file : NULL,
                         opt != NULL ? opt->settings : NULL, ei);
    if (rc == CAIRN_OK) {
        rc = crn_elect_files(s->cfg.files, 1, &files, ei);
        if (rc == CAIRN_OK)
            rc = crn_encoding_check(&s->cfg, ei); /* fail now rather than at the first flush */
        if (rc != CAIRN_OK)
            crn_config_fini(&s->cfg);
    }
    if (rc != CAIRN_OK) {
        crn_config_defaults(&s->cfg);
        return rc;
    }
    f = fmemopen(text, CONFIG_TEXT_MAX, "w");
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    if (crn_config_dump(&s->cfg, f) != 0)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "the configuration is longer than %zu bytes",
                      CONFIG_TEXT_MAX);
    (void)fclose(f);
    return rc;
}

static cairn_err share_config(cairn_session *s, const struct cairn_options *opt,
                              struct crn_errinfo *ei)
{
    char *text = calloc(1, CONFIG_TEXT_MAX + 1);
    cairn_err rc = CAIRN_OK;

    if (text == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the configuration as text");
    if (s->rank == 0) {
        crn_random_bytes(s->run, sizeof(s->run));
        rc = load_on_root(s, opt, text, ei);
    }
    rc = crn_session_agree(s, rc, "reading the configuration", ei);
    if (rc == CAIRN_OK)
        rc = s->comm->ops->bcast(s->comm, s->run, sizeof(s->run), 0, ei);
    if (rc == CAIRN_OK)
        rc = s->comm->ops->bcast(s->comm, text, CONFIG_TEXT_MAX, 0, ei);
    if (rc == CAIRN_OK && s->rank != 0)
        rc = crn_config_text(&s->cfg, text, "the configuration of rank 0", ei);
    free(text);
    crn_log_init(&s->log, &s->cfg, s->run, "rank", s->rank);
    if (s->cfg.retired[0] != '\0') /* the text from rank 0 contains no retired setting */
        crn_log(&s->log, CRN_WARN, "%s", s->cfg.retired);
    return crn_session_agree(s, rc, "sharing the configuration", ei);
}

/* Rank 0 first, which may create the directory; then one rank of each node writes to it as its
 * service will, and the others open it. */
static cairn_err check_persistent(cairn_session *s, int is_first, struct crn_errinfo *ei)
{
    struct crn_store st;
    cairn_err rc = CAIRN_OK;

    if (is_first ? s->rank == 0 : s->local == 0 && s->rank != 0) {
        rc = crn_store_check(s->fs, s->cfg.persistent, ei);
    } else if (!is_first && s->local != 0) {
        rc = crn_store_open(s->fs, s->cfg.persistent, 1, &st, ei);
        if (rc == CAIRN_OK)
            crn_store_close(&st);
    }
    return crn_session_agree(s, rc, "opening the persistent directory", ei);
}

/* Nodes: by host, or a fixed number of ranks each.
 * ---------------------------------------------- */

struct place {
    struct crn_comm *leaders; /* first ranks of the nodes; NULL elsewhere */
    uint32_t node_on_host;
};

static cairn_err find_place(cairn_session *s, struct place *p, struct crn_errinfo *ei)
{
    struct crn_comm *host = NULL;
    uint32_t where[2];
    uint32_t per_node;
    cairn_err rc;

    rc = s->comm->ops->split_host(s->comm, &host, ei);
    if (rc != CAIRN_OK)
        return rc;
    s->host = s->rank;
    rc = host->ops->bcast(host, &s->host, sizeof(s->host), 0, ei);
    if (rc != CAIRN_OK) {
        host->ops->free(host);
        return rc;
    }
    per_node = s->cfg.ranks_per_node > 0 ? (uint32_t)s->cfg.ranks_per_node : (uint32_t)host->size;
    p->node_on_host = (uint32_t)host->rank / per_node;
    rc = host->ops->split(host, (int)p->node_on_host, host->rank, &s->node_comm, ei);
    host->ops->free(host);
    if (rc != CAIRN_OK)
        return rc;
    s->local = (uint32_t)s->node_comm->rank;
    s->nlocal = (uint32_t)s->node_comm->size;
    rc = s->comm->ops->split(s->comm, s->local == 0 ? 0 : -1, (int)s->rank, &p->leaders, ei);
    if (rc != CAIRN_OK)
        return rc;
    where[0] = p->leaders != NULL ? (uint32_t)p->leaders->rank : 0;
    where[1] = p->leaders != NULL ? (uint32_t)p->leaders->size : 0;
    rc = s->node_comm->ops->bcast(s->node_comm, where, sizeof(where), 0, ei);
    s->node = where[0];
    s->nodes = where[1];
    return rc;
}

/* The service. --------------------------------------------------------------------------------- */

static void log_drain(void *arg, const struct crn_drain_event *ev)
{
    const cairn_session *s = arg;

    if (ev->what == CRN_DRAIN_COMMITTED || ev->what == CRN_DRAIN_WAITING)
        crn_log(&s->log, CRN_INFO, "an earlier run left %s@%lld in memory: %s%s%s", ev->name,
                (long long)ev->version, crn_drain_what_name(ev->what),
                ev->what == CRN_DRAIN_COMMITTED && ev->text[0] != '\0' ? "; rebuilt: " : "",
                ev->what == CRN_DRAIN_COMMITTED ? ev->text : "");
    else if (ev->what == CRN_DRAIN_FAILED && ev->name[0] != '\0')
        crn_log(&s->log, CRN_WARN, "%s@%lld of an earlier run is not saved yet, continuing: %s",
                ev->name, (long long)ev->version, ev->text);
    else if (ev->what == CRN_DRAIN_FAILED)
        crn_log(&s->log, CRN_WARN,
                "what run %.8s left in memory is not saved yet and stays there, continuing: %s",
                ev->run, ev->text);
}

/* First rank of a node: drains what dead runs left here, then starts the service. A failed drain
 * costs old checkpoints at worst, so the new run continues. */
static cairn_err start_service(cairn_session *s, struct place *p, char *path, size_t size,
                               struct crn_errinfo *ei)
{
    struct crn_errinfo drain_error = {0};
    struct crn_comm *comm = p->leaders;
    char dir[CRN_PATH_MAX];
    struct crn_rundir rd;
    cairn_err rc;

    if (crn_drain_host(s->fs, &s->cfg, 1, log_drain, s, &drain_error) != CAIRN_OK)
        crn_log(&s->log, CRN_WARN, "drain of earlier runs, continuing: %s", drain_error.msg);
    if (s->cfg.service == CRN_SERVICE_DAEMON) {
        rc = crn_rundir_socket_dir(&s->cfg, dir, sizeof(dir), ei);
        (void)snprintf(path, size, "%.*s/cairnd-%u.sock", (int)size - 32, dir, p->node_on_host);
        return rc;
    }
    if (s->nodes > 1 && (comm == NULL || !comm->ops->threads_ok(comm)))
        return crn_fail(ei, CAIRN_ENOTSUP, 0,
                        "the embedded service of a job on several nodes needs "
                        "MPI_THREAD_MULTIPLE: call MPI_Init_thread with it, set comm=ucx, or start "
                        "cairnd on every node and set service=daemon");
    /* In the run's own directory, so that it is removed with it however the run ends. */
    rc = crn_rundir_open(crn_fs_posix(), &s->cfg, s->run, s->node, 1, &rd, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_rundir_close(&rd);
    s->made = rd;
    if (snprintf(path, size, "%s/sock", rd.path) >= (int)size)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "'%s/sock' is too long for a socket: set shm_dir to a "
                        "shorter directory",
                        rd.path);
    p->leaders = NULL; /* taken over */
    return crn_service_open(path, comm, &s->log, (enum crn_background_cores)s->cfg.background_cores,
                            NULL, &s->service, ei);
}

/* Collects the address of every node's service from the first ranks of the nodes. */
static cairn_err gather_peers(cairn_session *s, uint32_t address, uint32_t **ret,
                              struct crn_errinfo *ei)
{
    uint32_t mine[2] = {s->node, address};
    uint32_t *all = calloc(s->ranks, sizeof(mine));
    uint32_t *peers = calloc(s->nodes, sizeof(*peers));
    cairn_err rc;
    uint32_t i;

    s->node_of = calloc(s->ranks, sizeof(*s->node_of));
    if (all == NULL || peers == NULL || s->node_of == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the addresses of %u nodes", s->nodes);
    else
        rc = s->comm->ops->allgather(s->comm, mine, sizeof(mine), all, ei);
    for (i = 0; rc == CAIRN_OK && i < s->ranks; i++) {
        s->node_of[i] = all[2 * (size_t)i];
        peers[s->node_of[i]] = all[2 * (size_t)i + 1];
    }
    free(all);
    if (rc != CAIRN_OK) {
        free(peers);
        return rc;
    }
    *ret = peers;
    return CAIRN_OK;
}

static cairn_err join_service(cairn_session *s, struct place *p, struct crn_errinfo *ei)
{
    char path[108] = "";
    uint32_t address = 0;
    cairn_err rc = CAIRN_OK;

    if (s->local == 0)
        rc = start_service(s, p, path, sizeof(path), ei);
    rc = crn_session_agree(s, rc, "starting the node service", ei);
    if (rc == CAIRN_OK)
        rc = s->node_comm->ops->bcast(s->node_comm, path, sizeof(path), 0, ei);
    if (rc == CAIRN_OK)
        rc = crn_service_link_open(s, path, &address, ei);
    memcpy(s->service_path, path, sizeof(s->service_path));
    rc = crn_session_agree(s, rc, "connecting to the node service", ei);
    if (rc == CAIRN_OK)
        rc = gather_peers(s, address, &s->rejoin.peers, ei);
    if (rc == CAIRN_OK)
        rc = crn_session_sets(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_service_link_hello(s, ei);
    if (rc == CAIRN_OK)
        rc = crn_rundir_open(crn_fs_posix(), &s->cfg, s->run, s->node, 0, &s->dir, ei);
    if (rc == CAIRN_OK)
        rc = crn_rundir_lock_rank(&s->dir, s->local, &s->life_fd, ei);
    return crn_session_agree(s, rc, "joining the node service", ei);
}

#define SPLIT_BYTES ((uint64_t)4 << 20) /* larger regions are copied by several threads */

/* Ranks that are bound to cores do not share them; unbound ranks share all cores. */
int crn_session_copy_threads(const cairn_session *s, int *ret_sharers)
{
    int threads = crn_cores();

    *ret_sharers = (int)s->nlocal;
    if (threads == (int)sysconf(_SC_NPROCESSORS_ONLN))
        threads /= (int)s->nlocal;
    return threads < 1 ? 1 : threads > 8 ? 8 : threads;
}

static cairn_err prepare_capture(cairn_session *s, struct crn_errinfo *ei)
{
    int sharers;
    int threads = crn_session_copy_threads(s, &sharers);
    cairn_err rc;

    rc = crn_copier_open(threads, SPLIT_BYTES, sharers, s->cfg.chunk_bytes, &s->copier, ei);
    if (rc == CAIRN_OK && s->cfg.arena_bytes > 0)
        rc = crn_take_ensure_arena(s, 0, 0, ei);
    if (rc == CAIRN_OK)
        rc = crn_advice_signals_install(s, ei);
    return crn_session_agree(s, rc, "preparing the arena", ei);
}

/* How long stopping the service may take: it waits for the other ranks' goodbye and removes old
 * versions. */
static int64_t stop_ns(const cairn_session *s, int64_t until, cairn_err waited)
{
    int64_t left = until - s->clock->mono_ns(s->clock);

    if (waited == CAIRN_ETIMEDOUT)
        return 0; /* a drain flushes the rest */
    return left < SECOND ? SECOND : left > 10 * SECOND ? 10 * SECOND : left;
}

/* Says goodbye. The rank that runs the service waits until all ranks of the node have done so. */
static void leave_service(cairn_session *s, int64_t timeout_ns)
{
    struct crn_msg bye = {.type = CRN_MSG_BYE, .bye = {.waited_ns = (uint64_t)s->waited_ns}};
    struct crn_errinfo ignored = {0};

    crn_capture_drop(s, &s->held);
    crn_deferred_close(s);
    crn_tiers_close(s);
    if (s->link.fd >= 0 && crn_service_link_send(s, &bye, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored); /* the service notices the closed socket */
    crn_link_close(&s->link);
    crn_rejoin_end(s);
    crn_copier_close(s->copier);
    crn_gpu_close(s);
    if (crn_mail_failure(s->mail) == NULL)
        crn_arena_close(s->arena); /* otherwise another process may still write to it: leak it */
    s->copier = NULL;
    s->arena = NULL;
    if (s->service != NULL)
        crn_service_stop(s->service, timeout_ns);
}

static void free_session(cairn_session *s)
{
    crn_outside_close(s->advice.outside);
    crn_recheck_close(s->recheck);
    crn_advice_signals_remove(s);
    crn_version_close(s->open_version);
    crn_shard_free(&s->own_shard);
    /* A rank that hangs never says goodbye: do not wait long. */
    leave_service(s, crn_mail_failure(s->mail) != NULL ? SECOND : 10 * SECOND);
    if (s->service != NULL)
        crn_service_fini(s->service);
    if (s->life_fd >= 0)
        crn_fork_close(s->life_fd);
    crn_rundir_close(&s->dir);
    if (s->made.path[0] != '\0') /* still exists if the run never began, or is left for a drain */
        crn_rundir_tidy(&s->made);
    crn_files_free(s);
    crn_claim_forget_names(s);
    free(s->regions);
    free(s->packet);
    crn_link_fini(&s->link);
    if (s->node_comm != NULL)
        s->node_comm->ops->free(s->node_comm);
    if (s->all != NULL)
        s->all->ops->free(s->all);
    crn_mail_close(s->mail);
    s->comm->ops->free(s->comm);
    free(s->node_of);
    crn_config_fini(&s->cfg);
    free(s);
}

/* The steps that need no other rank. */
static cairn_err new_session(struct crn_comm *comm, cairn_session **ret, struct crn_errinfo *ei)
{
    cairn_session *s = calloc(1, sizeof(*s));
    cairn_err rc;

    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a session");
    rc = crn_mail_open(comm, &s->mail, ei);
    if (rc == CAIRN_OK)
        rc = crn_mail_part(s->mail, 0, NULL, comm->size, &s->all, ei);
    if (rc != CAIRN_OK) {
        crn_mail_close(s->mail);
        free(s);
        return rc;
    }
    s->process = crn_fork_process();
    s->comm = comm;
    s->rank = (uint32_t)comm->rank;
    s->ranks = (uint32_t)comm->size;
    s->fs = crn_fs_default();
    s->clock = crn_clock_real();
    crn_link_init(&s->link);
    s->dir.dfd = s->dir.spool_dfd = s->life_fd = s->rejoin.fd = -1;
    s->advice.opened_ns = s->advice.last_ns = s->clock->mono_ns(s->clock);
    (void)snprintf(s->log.who, sizeof(s->log.who), "rank %u", s->rank);
    *ret = s;
    return CAIRN_OK;
}

static cairn_err check_arguments(const struct cairn_options *options, cairn_session **ret_session,
                                 struct crn_errinfo *ei)
{
    cairn_err rc = crn_arg_pointer("ret_session", ret_session, ei);

    if (rc == CAIRN_OK && options != NULL)
        rc = crn_arg_struct("options", options, "cairn_options", sizeof(*options), ei);
    return rc;
}

/* All ranks return the same code. The first rank logs the error: it knows the reason of any other
 * rank. */
static cairn_err open_failed(cairn_session *s, cairn_err rc, struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    int64_t worst = rc;

    if (crn_mail_failure(s->mail) == NULL && rc != CAIRN_EMPI &&
        s->all->ops->allreduce(s->all, &worst, 1, CRN_COMM_MIN, &ignored) == CAIRN_OK)
        ei->code = (cairn_err)worst;
    if (s->rank == 0)
        crn_log(&s->log, CRN_ERROR, "no session is opened: %s", ei->msg);
    return crn_api_end(ei, ei->code);
}

cairn_err cairn_private_open(struct crn_comm *comm, const struct cairn_options *options,
                             cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    struct place place = {0};
    cairn_session *s = NULL;
    cairn_err rc;

    if (ret_session != NULL)
        *ret_session = NULL;
    if (comm->ops->abi != CRN_COMM_ABI)
        rc = crn_fail(&ei, CAIRN_ENOTSUP, 0, "libcairn and libcairn_%s are of different releases",
                      comm->ops->name);
    else
        rc = new_session(comm, &s, &ei);
    if (rc != CAIRN_OK) {
        rc = cairn_private_refuse(comm->rank, 0, &ei);
        comm->ops->free(comm);
        return rc;
    }
    rc = crn_session_agree(s, check_arguments(options, ret_session, &ei), "checking the arguments",
                           &ei);
    if (rc == CAIRN_OK)
        rc = share_config(s, options, &ei);
    if (rc == CAIRN_OK)
        rc = check_persistent(s, 1, &ei);
    if (rc == CAIRN_OK)
        rc = crn_session_agree(s, find_place(s, &place, &ei), "finding the nodes", &ei);
    if (rc == CAIRN_OK)
        rc = check_persistent(s, 0, &ei);
    if (rc == CAIRN_OK)
        rc = join_service(s, &place, &ei);
    if (place.leaders != NULL)
        place.leaders->ops->free(place.leaders);
    if (rc == CAIRN_OK)
        rc = prepare_capture(s, &ei);
    if (rc != CAIRN_OK || ret_session == NULL) { /* NULL is an error already: for the analyzer */
        rc = open_failed(s, rc, &ei);
        free_session(s);
        return rc;
    }
    *ret_session = s;
    return CAIRN_OK;
}

int cairn_private_wants_ucx(struct crn_comm *comm, const struct cairn_options *options)
{
    struct crn_errinfo ignored = {0};
    struct crn_config cfg;
    int64_t is_ucx = 0;

    if (comm->ops->abi != CRN_COMM_ABI)
        return 0;
    if (comm->rank == 0 &&
        (options == NULL || crn_arg_struct("options", options, "cairn_options", sizeof(*options),
                                           &ignored) == CAIRN_OK) &&
        crn_config_load(&cfg, options != NULL ? options->config_file : NULL,
                        options != NULL ? options->settings : NULL, &ignored) == CAIRN_OK) {
        is_ucx = cfg.comm == CRN_COMM_OVER_UCX;
        crn_config_fini(&cfg);
    }
    if (comm->ops->allreduce(comm, &is_ucx, 1, CRN_COMM_MAX, &ignored) != CAIRN_OK)
        return 0;
    return is_ucx != 0;
}

cairn_err cairn_open(const struct cairn_options *options, cairn_session **ret_session)
{
    struct crn_errinfo ei = {0};
    struct crn_comm *comm;
    cairn_err rc;

    if (ret_session != NULL)
        *ret_session = NULL;
    rc = crn_comm_self(&comm, &ei);
    if (rc != CAIRN_OK)
        return cairn_private_refuse(0, 0, &ei);
    return cairn_private_open(comm, options, ret_session);
}

cairn_err crn_session_close(cairn_session *s, int is_alone)
{
    struct crn_errinfo ei = {0};
    struct crn_errinfo barrier = {0};
    int64_t until;
    cairn_err rc;

    rc = crn_arg_session(s, &ei);
    if (rc != CAIRN_OK)
        return crn_api_end(&ei, rc);
    until = s->clock->mono_ns(s->clock) + (int64_t)s->cfg.wait_timeout_ns;
    s->phase = CAIRN_PHASE_COMPUTE;
    crn_phase_show(s, s->phase);
    crn_deferred_wait(s);
    if (s->held.has_slot &&
        cairn_abandon(s, s->held.info.name, s->held.info.version, "the session closes") != CAIRN_OK)
        crn_log(&s->log, CRN_DEBUG, "%s", cairn_last_error());
    rc = cairn_wait_all(s, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG);
    if (crn_mail_failure(s->mail) != NULL) { /* a rank hangs: do not wait for it again */
        free_session(s);
        return rc;
    }
    if (is_alone)
        leave_service(s, rc == CAIRN_OK ? (int64_t)s->cfg.wait_timeout_ns : stop_ns(s, until, rc));
    /* Do not stop the service while another rank still waits for it. */
    if (s->comm->ops->barrier(s->comm, &barrier) != CAIRN_OK && rc == CAIRN_OK) {
        crn_err_keep(&ei, &barrier);
        rc = crn_api_end(&ei, barrier.code);
    }
    leave_service(s, stop_ns(s, until, rc));
    if (s->service != NULL && barrier.code == CAIRN_OK)
        crn_service_settle(s->service);
    free_session(s);
    return rc;
}

cairn_err cairn_close(cairn_session *s)
{
    return s != NULL ? crn_session_close(s, 0) : CAIRN_OK;
}

int cairn_rank(const cairn_session *s)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, crn_arg_session(s, &ei)) == CAIRN_OK ? (int)s->rank : -1;
}

int cairn_ranks(const cairn_session *s)
{
    struct crn_errinfo ei = {0};

    return crn_api_end(&ei, crn_arg_session(s, &ei)) == CAIRN_OK ? (int)s->ranks : -1;
}
