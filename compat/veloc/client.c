/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation and finalisation, and functions that need no session. */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/fs.h"
#include "cairn/cairn_mpi.h"
#include "client/open.h"
#include "veloc.h"

static struct crn_vlc_client *client; /* VELOC has no handle: one client per process */
static unsigned client_process;       /* crn_fork_process() of the process that created it */
static int finalize_key = MPI_KEYVAL_INVALID;
static int is_ended_by_mpi; /* a later VELOC_Finalize has nothing left to do */

/* Programs written for VELOC call MPI_Init, since VELOC's threads make no MPI calls. Cairn's
 * threads do if there is more than one node. Both MPI libraries accept the thread level from the
 * environment; a value set by the user is left unchanged. */
__attribute__((constructor)) static void ask_for_threads(void)
{
    (void)setenv("OMPI_MPI_THREAD_LEVEL", "3", 0);
    (void)setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE", 0);
}

/* Entry and exit of calls. --------------------------------------------------------------------- */

static const struct crn_log no_client_log = {.level = CRN_WARN, .who = "veloc"};

/* Is there a client, and does it belong to this process? A forked child inherits only the
 * pointer. */
static int has_client(void)
{
    return client != NULL && client_process == crn_fork_process();
}

static void set_client(struct crn_vlc_client *c)
{
    client = c;
    client_process = crn_fork_process();
}

struct crn_vlc_client *crn_vlc_get(const char *function)
{
    if (client == NULL)
        crn_log(&no_client_log, CRN_ERROR, "%s: call VELOC_Init first", function);
    else if (!has_client())
        crn_log(&no_client_log, CRN_ERROR,
                "%s: VELOC_Init was called in the parent of this forked process; take checkpoints "
                "in the parent alone",
                function);
    return has_client() ? client : NULL;
}

int crn_vlc_end(const struct crn_vlc_client *c, const char *function, cairn_err rc,
                const struct crn_errinfo *ei)
{
    if (rc == CAIRN_OK)
        return VELOC_SUCCESS;
    crn_log(c != NULL ? &c->log : &no_client_log, CRN_ERROR, "%s: %s", function, ei->msg);
    return VELOC_FAILURE;
}

cairn_err crn_vlc_from_cairn(cairn_err rc, struct crn_errinfo *ei)
{
    return rc == CAIRN_OK ? CAIRN_OK : crn_fail(ei, rc, 0, "%s", cairn_last_error());
}

/* Begin. --------------------------------------------------------------------------------------- */

/* Creates directories that VELOC's users expect to be created. */
static cairn_err make_dir(const char *path, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    cairn_err rc;
    int fd;

    rc = crn_fs_make_dirs(fs, AT_FDCWD, path, 0777, &fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)fs->close(fs, fd);
    if (access(path, R_OK | W_OK | X_OK) != 0)
        return crn_fail_errno(ei, errno, "the directory '%s'", path);
    return CAIRN_OK;
}

static void tell_config(const struct crn_vlc_client *c)
{
    if (c->cfg.ignored[0] != '\0')
        crn_log(&c->log, CRN_WARN, "VELOC's configuration: no effect here: %s (see docs/veloc.md)",
                c->cfg.ignored);
    if (!c->cfg.has_persistent)
        crn_log(&c->log, CRN_WARN,
                "VELOC's configuration names no persistent path: checkpoints are kept in '%s', "
                "which all nodes must share",
                c->cfg.persistent);
}

/* Level, file and job as the session will have them; opening the session reports errors in them. */
static void open_log(struct crn_vlc_client *c, int64_t no)
{
    struct crn_config cfg;

    if (crn_config_load(&cfg, NULL, NULL, NULL) != CAIRN_OK)
        crn_config_defaults(&cfg);
    crn_log_init(&c->log, &cfg, NULL, "veloc", no);
    memcpy(c->log_file, cfg.log_file, sizeof(c->log_file));
    c->log.file = c->log_file;
    crn_config_fini(&cfg);
}

static struct crn_vlc_client *new_client(int64_t id, int rank, struct crn_errinfo *ei)
{
    struct crn_vlc_client *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        (void)!crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a client");
        return NULL;
    }
    c->id = id;
    open_log(c, id >= 0 ? id : rank);
    return c;
}

/* Root only: loads the configuration, and creates the shared directory. */
static cairn_err client_load(struct crn_vlc_client *c, const char *file, struct crn_errinfo *ei)
{
    cairn_err rc = crn_vlc_config_load(file, &c->cfg, ei);

    return rc == CAIRN_OK ? make_dir(c->cfg.persistent, ei) : rc;
}

static cairn_err open_session(struct crn_vlc_client *c, MPI_Comm comm, struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    struct crn_vlc_settings settings;
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings.list};

    crn_vlc_config_settings(&c->cfg, &settings);
    if (make_dir(c->cfg.scratch, &ignored) != CAIRN_OK)
        crn_log(&c->log, CRN_DEBUG, "%s", ignored.msg); /* Cairn fails on it, on all ranks alike */
    return crn_vlc_from_cairn(comm == MPI_COMM_NULL ? cairn_open(&opt, &c->session)
                                                    : cairn_open_mpi(comm, &opt, &c->session),
                              ei);
}

static cairn_err finalize(struct crn_vlc_client *c, int mpi_ends, struct crn_errinfo *ei);

/* MPI calls this at the start of MPI_Finalize, for programs that never call VELOC_Finalize:
 * Cairn's threads must not outlive MPI. At that point MPICH no longer has its locks. */
static int at_mpi_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    struct crn_errinfo ei = {0};

    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    if (has_client()) {
        (void)crn_vlc_end(NULL, "MPI_Finalize", finalize(client, 1, &ei), &ei);
        is_ended_by_mpi = 1;
    }
    return MPI_SUCCESS;
}

static void watch_mpi(void)
{
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_mpi_finalize, &finalize_key, NULL) ==
        MPI_SUCCESS)
        (void)MPI_Comm_set_attr(MPI_COMM_SELF, finalize_key, client);
}

static void unwatch_mpi(void)
{
    int is_finalized = 0;

    (void)MPI_Finalized(&is_finalized);
    if (finalize_key == MPI_KEYVAL_INVALID || is_finalized)
        return;
    (void)MPI_Comm_delete_attr(MPI_COMM_SELF, finalize_key);
    (void)MPI_Comm_free_keyval(&finalize_key);
}

/* Collective: rank 0 reads the configuration for all. */
static cairn_err init_mpi(MPI_Comm comm, const char *file, struct crn_errinfo *ei)
{
    struct crn_vlc_client *c;
    int has_begun = 0;
    int rank = 0;
    int status;
    cairn_err rc;

    if (MPI_Initialized(&has_begun) != MPI_SUCCESS || !has_begun)
        return crn_fail(ei, CAIRN_ESTATE, 0, "call MPI_Init first");
    if (comm == MPI_COMM_NULL || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the communicator is not valid");
    c = new_client(-1, rank, ei);
    rc = c == NULL ? CAIRN_ENOMEM : rank == 0 ? client_load(c, file, ei) : CAIRN_OK;
    status = rc;
    if (MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
        status = CAIRN_EMPI;
    if (status == CAIRN_OK && c != NULL &&
        MPI_Bcast(&c->cfg, (int)sizeof(c->cfg), MPI_BYTE, 0, comm) != MPI_SUCCESS)
        status = CAIRN_EMPI;
    if (status != CAIRN_OK || c == NULL) {
        free(c);
        return rc != CAIRN_OK ? rc
                              : crn_fail(ei, (cairn_err)status, 0, "it failed on another rank");
    }
    if (rank == 0)
        tell_config(c);
    rc = open_session(c, comm, ei);
    if (rc != CAIRN_OK) {
        free(c);
        return rc;
    }
    set_client(c);
    watch_mpi();
    return CAIRN_OK;
}

static cairn_err init_single(unsigned int id, const char *file, struct crn_errinfo *ei)
{
    struct crn_vlc_client *c = new_client(id, 0, ei);
    cairn_err rc;

    if (c == NULL)
        return CAIRN_ENOMEM;
    rc = client_load(c, file, ei);
    if (rc == CAIRN_OK) {
        tell_config(c);
        rc = open_session(c, MPI_COMM_NULL, ei);
    }
    if (rc == CAIRN_OK)
        set_client(c);
    else
        free(c);
    return rc;
}

VELOC_API int VELOC_Init(MPI_Comm comm, const char *cfg_file)
{
    struct crn_errinfo ei = {0};

    if (has_client())
        return VELOC_SUCCESS; /* as in VELOC: the first call counts */
    return crn_vlc_end(NULL, __func__, init_mpi(comm, cfg_file, &ei), &ei);
}

VELOC_API int VELOC_Init_single(unsigned int id, const char *cfg_file)
{
    struct crn_errinfo ei = {0};

    if (has_client())
        return VELOC_SUCCESS;
    return crn_vlc_end(NULL, __func__, init_single(id, cfg_file, &ei), &ei);
}

/* End. ----------------------------------------------------------------------------------------- */

/* Frees the client. Returns the result of the checkpoints that no call has waited for. */
static cairn_err finalize(struct crn_vlc_client *c, int mpi_ends, struct crn_errinfo *ei)
{
    cairn_err rc = crn_vlc_wait(c, ei);

    client = NULL;
    if (crn_session_close(c->session, mpi_ends) != CAIRN_OK)
        crn_log(&c->log, CRN_DEBUG, "%s", cairn_last_error()); /* told by the wait */
    crn_vlc_publisher_close(c->publisher);
    crn_vlc_regions_free(&c->regions);
    crn_vlc_phase_close(&c->phase);
    crn_vlc_restart_close(&c->restart);
    crn_vlc_hints_close(&c->hints);
    free(c);
    return rc;
}

VELOC_API int VELOC_Finalize(int drain)
{
    struct crn_vlc_client *c;
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (is_ended_by_mpi)
        return VELOC_SUCCESS;
    c = crn_vlc_get(__func__);
    if (c == NULL)
        return VELOC_FAILURE;
    rc = finalize(c, 0, &ei); /* also without drain: the writer threads are in this process */
    unwatch_mpi();            /* the client is gone */
    return crn_vlc_end(NULL, __func__, drain ? rc : CAIRN_OK, &ei);
}

/* Memory. -------------------------------------------------------------------------------------- */

static cairn_err client_protect(struct crn_vlc_client *c, const struct crn_vlc_region *wanted,
                                size_t base_size, const char *group, struct crn_errinfo *ei)
{
    struct crn_vlc_region r = *wanted;

    if (group == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d has no name", r.id);
    if (__builtin_mul_overflow(r.bytes, (uint64_t)base_size, &r.bytes) || r.bytes > INT64_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d is too large", r.id);
    if (r.ptr == NULL && r.bytes > 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d has no memory", r.id);
    return crn_vlc_protect(&c->regions, group, &r, ei);
}

static cairn_err unprotect(struct crn_vlc_client *c, int id, const char *group,
                           struct crn_errinfo *ei)
{
    if (group == NULL || crn_vlc_unprotect(&c->regions, group, id) != 0)
        return crn_fail(ei, CAIRN_ENOENT, 0, "region %d is not protected", id);
    return CAIRN_OK;
}

VELOC_API int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size,
                                   const char *name)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_vlc_region r = {id, ptr, count};
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_protect(c, &r, base_size, name, &ei), &ei);
}

VELOC_API int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_vlc_region r = {id, ptr, count};
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_protect(c, &r, base_size, "", &ei), &ei);
}

VELOC_API int VELOC_Region_unprotect(int id, const char *name)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE : crn_vlc_end(c, __func__, unprotect(c, id, name, &ei), &ei);
}

VELOC_API int VELOC_Mem_unprotect(int id)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE : crn_vlc_end(c, __func__, unprotect(c, id, "", &ei), &ei);
}

VELOC_API int VELOC_Region_clear(const char *name)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);

    if (c == NULL || name == NULL)
        return VELOC_FAILURE;
    crn_vlc_clear(&c->regions, name);
    return VELOC_SUCCESS;
}

VELOC_API int VELOC_Mem_clear(void)
{
    return VELOC_Region_clear("");
}

/* Files and scratch. --------------------------------------------------------------------------- */

VELOC_API int VELOC_Route_file(const char *original, char *routed)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    const char *path;
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    if (routed == NULL)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "routed is NULL");
    else if (c->phase.is_open)
        rc = crn_vlc_route_new(c, original != NULL ? original : "", &ei);
    else if (c->restart.is_open)
        rc = crn_vlc_route_old(c, &ei);
    else
        rc = crn_fail(&ei, CAIRN_ESTATE, 0,
                      "call VELOC_Checkpoint_begin or VELOC_Restart_begin first");
    if (rc == CAIRN_OK) {
        path = c->phase.is_open ? c->phase.path : c->restart.path;
        memcpy(routed, path, strlen(path) + 1);
    }
    return crn_vlc_end(c, __func__, rc, &ei);
}

VELOC_API int VELOC_Cleanup(const char *name)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};
    char cairn_name[CAIRN_MAX_NAME];
    cairn_err rc;

    if (c == NULL)
        return VELOC_FAILURE;
    rc = crn_vlc_name(name, c->id, cairn_name, &ei);
    if (rc == CAIRN_OK)
        rc = crn_vlc_from_cairn(cairn_drop_local(c->session, cairn_name), &ei);
    return crn_vlc_end(c, __func__, rc, &ei);
}
