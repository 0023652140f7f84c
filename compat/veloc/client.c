/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation and finalisation, and functions that need no session. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "veloc.h"

static struct crn_vlc_client *client; /* VELOC has no handle: one client per process */
static int is_ended_by_mpi;           /* a later VELOC_Finalize has nothing left to do */

/* Entry and exit of calls. --------------------------------------------------------------------- */

static const struct crn_log no_client_log = {.level = CRN_WARN, .who = "veloc"};

static int has_client(void)
{
    return client != NULL && crn_face_is_here(&client->face);
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
    crn_log(c != NULL ? &c->face.log : &no_client_log, CRN_ERROR, "%s: %s", function, ei->msg);
    return VELOC_FAILURE;
}

/* Begin. --------------------------------------------------------------------------------------- */

static void tell_config(const struct crn_vlc_client *c)
{
    if (c->cfg.ignored[0] != '\0')
        crn_log(&c->face.log, CRN_WARN,
                "VELOC's configuration: no effect here: %s (see docs/veloc.md)", c->cfg.ignored);
    if (!c->cfg.has_persistent)
        crn_log(&c->face.log, CRN_WARN,
                "VELOC's configuration names no persistent path: checkpoints are kept in '%s', "
                "which all nodes must share",
                c->cfg.persistent);
}

static struct crn_vlc_client *new_client(int64_t id, int rank, struct crn_errinfo *ei)
{
    struct crn_vlc_client *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        (void)!crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a client");
        return NULL;
    }
    c->id = id;
    crn_face_init(&c->face, "veloc", id >= 0 ? id : rank);
    return c;
}

/* Root only: loads the configuration, and creates the shared directory. */
static cairn_err client_load(struct crn_vlc_client *c, const char *file, struct crn_errinfo *ei)
{
    cairn_err rc = crn_vlc_config_load(file, &c->cfg, ei);

    return rc == CAIRN_OK ? crn_face_make_dir(c->cfg.persistent, ei) : rc;
}

static cairn_err client_finalize(struct crn_vlc_client *c, struct crn_errinfo *ei);

static void at_mpi_end(void)
{
    struct crn_errinfo ei = {0};

    (void)crn_vlc_end(NULL, "MPI_Finalize", client_finalize(client, &ei), &ei);
    is_ended_by_mpi = 1;
}

static cairn_err open_session(struct crn_vlc_client *c, MPI_Comm comm, struct crn_errinfo *ei)
{
    struct crn_face_settings *settings = calloc(1, sizeof(*settings));
    struct crn_errinfo ignored = {0};
    cairn_err rc;

    if (settings == NULL) /* the other ranks of an MPI job get a late rank */
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the settings of a session");
    crn_vlc_config_settings(&c->cfg, settings);
    if (crn_face_make_dir(c->cfg.scratch, &ignored) != CAIRN_OK)
        crn_log(&c->face.log, CRN_DEBUG, "%s", ignored.msg); /* Cairn fails on it, on all ranks */
    rc = crn_face_open(&c->face, comm, settings, at_mpi_end, ei);
    free(settings);
    return rc;
}

/* Collective: rank 0 reads the configuration for all. */
static cairn_err init_mpi(MPI_Comm comm, const char *file, struct crn_errinfo *ei)
{
    struct crn_vlc_client *c;
    int has_begun = 0;
    int rank = 0;
    cairn_err rc;

    if (MPI_Initialized(&has_begun) != MPI_SUCCESS || !has_begun)
        return crn_fail(ei, CAIRN_ESTATE, 0, "call MPI_Init first");
    if (comm == MPI_COMM_NULL || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS)
        return crn_fail(ei, CAIRN_EINVAL, 0, "the communicator is not valid");
    c = new_client(-1, rank, ei);
    rc = c == NULL ? CAIRN_ENOMEM : rank == 0 ? client_load(c, file, ei) : CAIRN_OK;
    rc = crn_face_agree(comm, rc, ei);
    if (rc == CAIRN_OK && c != NULL &&
        MPI_Bcast(&c->cfg, (int)sizeof(c->cfg), MPI_BYTE, 0, comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the configuration to all ranks");
    if (rc != CAIRN_OK || c == NULL) {
        free(c);
        return rc;
    }
    if (rank == 0)
        tell_config(c);
    rc = open_session(c, comm, ei);
    if (rc != CAIRN_OK) {
        free(c);
        return rc;
    }
    client = c;
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
        client = c;
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
static cairn_err client_finalize(struct crn_vlc_client *c, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc = crn_vlc_wait(c, ei);

    client = NULL;
    if (crn_face_close(&c->face, &late) != CAIRN_OK)
        crn_log(&c->face.log, CRN_DEBUG, "%s", late.msg); /* told by the wait */
    crn_publisher_close(c->publisher);
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
    rc = client_finalize(c, &ei); /* also without drain: the writer threads are in this process */
    return crn_vlc_end(NULL, __func__, drain ? rc : CAIRN_OK, &ei);
}

/* Memory. -------------------------------------------------------------------------------------- */

/* wanted: its bytes are still the number of elements. */
static cairn_err client_protect(struct crn_vlc_client *c, const struct crn_vlc_region *wanted,
                                const char *group, struct crn_errinfo *ei)
{
    struct crn_vlc_region r = *wanted;

    if (group == NULL)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d has no name", r.id);
    if (__builtin_mul_overflow(r.bytes, (uint64_t)r.base_size, &r.bytes) || r.bytes > INT64_MAX)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d is too large", r.id);
    if (r.ptr == NULL && r.bytes > 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "region %d has no memory", r.id);
    return crn_vlc_protect(&c->regions, group, &r, ei);
}

static cairn_err client_unprotect(struct crn_vlc_client *c, int id, const char *group,
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
    struct crn_vlc_region r = {id, ptr, count, base_size};
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_protect(c, &r, name, &ei), &ei);
}

VELOC_API int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_vlc_region r = {id, ptr, count, base_size};
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_protect(c, &r, "", &ei), &ei);
}

VELOC_API int VELOC_Region_unprotect(int id, const char *name)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_unprotect(c, id, name, &ei), &ei);
}

VELOC_API int VELOC_Mem_unprotect(int id)
{
    struct crn_vlc_client *c = crn_vlc_get(__func__);
    struct crn_errinfo ei = {0};

    return c == NULL ? VELOC_FAILURE
                     : crn_vlc_end(c, __func__, client_unprotect(c, id, "", &ei), &ei);
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
        rc = crn_face_result(cairn_drop_local(c->face.session, cairn_name), &ei);
    return crn_vlc_end(c, __func__, rc, &ei);
}
