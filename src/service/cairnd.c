/* SPDX-License-Identifier: BSD-3-Clause */
/* cairnd: the node service as a program, one per node, started with the site's MPI launcher. It
 * keeps flushing after an application dies, and serves any number of jobs of its user. On SIGTERM
 * or SIGINT it finishes its checkpoints and exits. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef CRN_HAVE_MPI
#include <mpi.h>
#include "comm/comm_mpi.h"
#endif
#include "base/config.h"
#include "base/guard.h"
#include "base/fork.h"
#include "service/drain.h"
#include "service/proto.h"
#include "service/rundir.h"
#include "service/service.h"

static const char usage[] =
    "usage: cairnd [-C FILE] [--version] [--help]\n"
    "Serves the jobs of this user on this node until SIGTERM. Start one per node, for example\n"
    "    mpirun --map-by ppr:1:node cairnd\n"
    "and set service=daemon (CAIRN_SERVICE=daemon) for the applications.\n"
    "  -C FILE   configuration; CAIRN_* variables win over it\n";

static int cairnd_fail(const struct crn_errinfo *ei)
{
    (void)fprintf(stderr, "cairnd: %s: %s\n", cairn_error_name(ei->code), ei->msg);
    return 1;
}

static cairn_err cairnd_world(struct crn_comm **ret, struct crn_errinfo *ei)
{
#ifdef CRN_HAVE_MPI
    int level = MPI_THREAD_SINGLE;

    /* Two threads use MPI, never at the same time. */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS ||
        level < MPI_THREAD_SERIALIZED)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "the MPI library offers no MPI_THREAD_SERIALIZED");
    return crn_comm_mpi(MPI_COMM_WORLD, ret, ei);
#else
    return crn_comm_self(ret, ei);
#endif
}

/* Refuses to start beside a living daemon; the socket of a dead one is replaced. */
static cairn_err claim_socket(const struct crn_config *cfg, struct crn_comm *comm, char *path,
                              size_t size, int *ret_first, struct crn_errinfo *ei)
{
    struct crn_errinfo refused = {0};
    char dir[CRN_PATH_MAX];
    struct crn_comm *host;
    cairn_err rc;
    int fd;

    rc = comm->ops->split_host(comm, &host, ei);
    if (rc != CAIRN_OK)
        return rc;
    *ret_first = host->rank == 0;
    rc = crn_rundir_socket_dir(cfg, dir, sizeof(dir), ei);
    (void)snprintf(path, size, "%.*s/cairnd-%d.sock", (int)size - 32, dir, host->rank);
    host->ops->free(host);
    if (rc == CAIRN_OK && crn_sock_connect(path, &fd, &refused) == CAIRN_OK) {
        crn_fork_close(fd);
        rc = crn_fail(ei, CAIRN_EBUSY, 0, "a cairnd serves '%s' already", path);
    }
    return rc;
}

static void log_drain(void *arg, const struct crn_drain_event *ev)
{
    if (ev->name[0] != '\0')
        crn_log(arg, ev->what == CRN_DRAIN_FAILED ? CRN_WARN : CRN_INFO,
                "%s@%lld of a dead run: %s %s", ev->name, (long long)ev->version,
                crn_drain_what_name(ev->what), ev->text);
    else if (ev->what == CRN_DRAIN_FAILED)
        crn_log(arg, CRN_WARN, "the dead run %.8s is not drained and stays: %s", ev->run, ev->text);
}

/* Each rank takes two descriptors, its socket and its arena, so the usual soft limit of 1024 is
 * soon too low. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* if refused, ranks beyond the limit are told */
}

static int cairnd_serve(const struct crn_config *cfg, struct crn_comm *comm, const sigset_t *ends)
{
    struct crn_errinfo ei = {0};
    struct crn_errinfo drain_error = {0};
    struct crn_service *svc;
    struct crn_log log;
    char path[100];
    cairn_err rc;
    int is_first;
    int sig;

    crn_log_init(&log, cfg, NULL, "cairnd", -1);
    rc = claim_socket(cfg, comm, path, sizeof(path), &is_first, &ei);
    if (rc != CAIRN_OK) {
        comm->ops->free(comm);
        return cairnd_fail(&ei);
    }
    crn_guard_install();
    if (is_first &&
        crn_drain_host(crn_fs_default(), cfg, 0, log_drain, &log, &drain_error) != CAIRN_OK)
        crn_log(&log, CRN_WARN, "drain of dead runs, continuing: %s", drain_error.msg);
    rc = crn_service_open(path, comm, &log, (enum crn_background_cores)cfg->background_cores, cfg,
                          &svc, &ei);
    if (rc != CAIRN_OK)
        return cairnd_fail(&ei);
    crn_log(&log, CRN_INFO, "ready at %s", path);
    (void)sigwait(ends, &sig);
    crn_service_stop(svc, (int64_t)cfg->wait_timeout_ns);
    crn_service_fini(svc);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    struct crn_errinfo ei = {0};
    struct crn_config cfg;
    struct crn_comm *comm;
    const char *file = NULL;
    sigset_t ends;
    int status;
    int c;

    while ((c = getopt_long(argc, argv, "C:hV", options, NULL)) != -1) {
        if (c == 'C') {
            file = optarg;
        } else if (c == 'V') {
            (void)printf("cairnd %s\n", cairn_version_string());
            return 0;
        } else {
            (void)fputs(usage, c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "cairnd: '%s' is not expected\n%s", argv[optind], usage);
        return 2;
    }
    raise_limit();
    /* Before any thread starts, so that all threads leave these signals to sigwait. */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    if (crn_config_load(&cfg, file, NULL, &ei) != CAIRN_OK)
        return cairnd_fail(&ei);
    if (cfg.retired[0] != '\0')
        (void)fprintf(stderr, "cairnd: warning: %s\n", cfg.retired);
    status =
        cairnd_world(&comm, &ei) == CAIRN_OK ? cairnd_serve(&cfg, comm, &ends) : cairnd_fail(&ei);
#ifdef CRN_HAVE_MPI
    (void)MPI_Finalize();
#endif
    crn_config_fini(&cfg);
    return status;
}
