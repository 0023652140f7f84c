/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation and finalisation; the heads; the state in the user's configuration file. */
#include "fti.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fti_impl.h"

CRN_FACE_API MPI_Comm FTI_COMM_WORLD;

static struct crn_fti *fti;
static const struct crn_log no_log = {.level = CRN_WARN, .who = "fti"};

struct crn_fti *crn_fti_get(const char *function)
{
    if (fti == NULL)
        crn_log(&no_log, CRN_ERROR, "%s: call FTI_Init first", function);
    else if (!crn_face_is_here(&fti->face))
        crn_log(&no_log, CRN_ERROR,
                "%s: FTI_Init was called in the parent of this forked process; take checkpoints "
                "in the parent alone",
                function);
    else
        return fti;
    return NULL;
}

int crn_fti_end(const struct crn_fti *f, const char *function, int failed, cairn_err rc,
                const struct crn_errinfo *ei)
{
    if (rc == CAIRN_OK)
        return FTI_SCES;
    crn_log(f != NULL ? &f->face.log : &no_log, CRN_ERROR, "%s: %s", function, ei->msg);
    return failed;
}

/* Configuration. ------------------------------------------------------------------------------- */

/* Collective over comm: its first rank reads the file for all. */
static cairn_err fti_load(const char *path, MPI_Comm comm, struct crn_fti_config *ret,
                          struct crn_errinfo *ei)
{
    char *text = NULL;
    cairn_err rc = CAIRN_OK;
    int rank = 0;

    (void)MPI_Comm_rank(comm, &rank);
    if (path == NULL || strlen(path) >= FTI_BUFS)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "the name of the configuration file is not valid");
    else if (rank == 0)
        rc = crn_fti_config_read(path, &text, ei);
    if (rc == CAIRN_OK && rank == 0)
        rc = crn_fti_config_parse(text, ret, ei);
    free(text);
    rc = crn_face_agree(comm, rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(ret, (int)sizeof(*ret), MPI_BYTE, 0, comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the configuration to all ranks");
    if (rc == CAIRN_OK)
        (void)snprintf(ret->all.configuration.cfgFile, FTI_BUFS, "%s", path);
    return rc;
}

/* Which node and head a rank of the global communicator has. */
static void fti_topology(struct crn_fti_config *cfg, MPI_Comm comm)
{
    FTIT_topology *t = &cfg->all.topology;

    (void)MPI_Comm_rank(comm, &t->myRank);
    (void)MPI_Comm_size(comm, &t->nbProc);
    t->nbNodes = (t->nbProc + t->nodeSize - 1) / t->nodeSize;
    t->nbHeads = cfg->has_heads ? 1 : 0;
    t->nbApprocs = t->nodeSize - t->nbHeads;
    t->headRank = t->myRank - t->myRank % t->nodeSize;
    t->amIaHead = t->nbHeads > 0 && t->myRank == t->headRank;
    t->splitRank =
        t->nbHeads > 0 ? t->myRank - 1 - t->myRank / t->nodeSize : t->myRank; /* of the others */
}

CRN_FACE_API FTIT_allConfiguration FTI_GetConfig(const char *configFile, MPI_Comm globalComm)
{
    struct crn_fti_config cfg;
    struct crn_errinfo ei = {0};

    memset(&cfg, 0, sizeof(cfg));
    if (crn_fti_end(NULL, __func__, FTI_NSCS, fti_load(configFile, globalComm, &cfg, &ei), &ei) ==
        FTI_SCES)
        fti_topology(&cfg, globalComm);
    return cfg.all;
}

/* The first application rank keeps the state of the execution in the user's file. */
static void set_failure(struct crn_fti *f, int failure)
{
    struct crn_errinfo ei = {0};

    if (f->failure == failure)
        return;
    f->failure = failure;
    if (f->rank == 0 &&
        crn_fti_config_write(f->cfg_file, failure, f->cfg.all.execution.id, &ei) != CAIRN_OK)
        crn_log(&f->face.log, CRN_ERROR, "the next start will not find this execution: %s", ei.msg);
}

void crn_fti_taken(struct crn_fti *f)
{
    set_failure(f, 1);
}

/* Heads. --------------------------------------------------------------------------------------- */

/* Cairn's threads do a head's work, so a head only waits until each process of its node says that
 * it is done, and ends as FTI's heads do. */
static void fti_serve(const struct crn_fti_config *cfg, MPI_Comm global)
{
    const FTIT_topology *t = &cfg->all.topology;
    int end = t->myRank + t->nodeSize < t->nbProc ? t->myRank + t->nodeSize : t->nbProc;
    int left, word;

    for (left = end - t->myRank - 1; left > 0; left--)
        (void)MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, cfg->all.configuration.finalTag, global,
                       MPI_STATUS_IGNORE);
    (void)MPI_Barrier(global);
    (void)MPI_Finalize();
    exit(0); /* FTI_Init never returns on a head: programs rely on it */
}

static void release_head(const struct crn_fti *f)
{
    int word = FTI_ENDW;

    if (f->cfg.all.topology.nbHeads == 0)
        return;
    (void)MPI_Send(&word, 1, MPI_INT, f->cfg.all.topology.headRank,
                   f->cfg.all.configuration.finalTag, f->global);
    (void)MPI_Barrier(f->global);
}

/* Begin. --------------------------------------------------------------------------------------- */

/* Collective: a new execution has a new name. */
static cairn_err name_execution(struct crn_fti *f, struct crn_errinfo *ei)
{
    char *id = f->cfg.all.execution.id;
    char text[FTI_BUFS + 8];
    struct tm tm;
    time_t now = time(NULL);

    if (f->cfg.failure == 0 || f->cfg.failure == 3) {
        (void)localtime_r(&now, &tm);
        (void)strftime(id, FTI_BUFS, "%Y-%m-%d_%H-%M-%S", &tm);
        if (MPI_Bcast(id, FTI_BUFS, MPI_CHAR, 0, f->comm) != MPI_SUCCESS)
            return crn_fail(ei, CAIRN_EMPI, 0, "cannot send the name of the execution");
    }
    (void)snprintf(text, sizeof(text), "fti-%s", id);
    crn_settings_name(text, f->name, sizeof(f->name));
    (void)snprintf(text, sizeof(text), "fti-%.200s", f->cfg.all.configuration.h5SingleFilePrefix);
    crn_settings_name(text, f->single, sizeof(f->single));
    return CAIRN_OK;
}

/* Collective. Chooses the checkpoint to restart from. */
static cairn_err fti_find(struct crn_fti *f, struct crn_errinfo *ei)
{
    const char *name = f->cfg.failure == 3 ? f->single : f->name;
    struct crn_errinfo why = {0};
    cairn_err rc;

    rc = crn_face_find(&f->face, name, CAIRN_NEWEST, &f->from_version, ei);
    if (rc != CAIRN_OK)
        return rc;
    f->from = name;
    rc = crn_fti_read_meta(f, &why);
    if (f->cfg.failure == 3) { /* another number of ranks: the arrays are what counts */
        if (rc != CAIRN_OK)
            crn_log(&f->face.log, CRN_DEBUG, "%s", why.msg);
        rc = CAIRN_OK;
    }
    crn_err_keep(ei, &why);
    return crn_face_agree(f->comm, rc, ei);
}

/* Collective: versions continue after the newest one of either name. */
static cairn_err first_version(struct crn_fti *f, struct crn_errinfo *ei)
{
    const char *const names[] = {f->name, f->single};
    cairn_err rc = CAIRN_OK;
    int64_t newest;
    size_t i, n;

    f->next = f->from != NULL ? f->from_version + 1 : 1;
    for (i = 0; f->rank == 0 && rc == CAIRN_OK && i < 2; i++) {
        rc = crn_face_result(cairn_list(f->face.session, names[i], &newest, 1, &n), ei);
        if (rc == CAIRN_OK && n > 0 && newest >= f->next)
            f->next = newest + 1;
    }
    rc = crn_face_agree(f->comm, rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(&f->next, 1, MPI_INT64_T, 0, f->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot agree on the next checkpoint");
    return rc;
}

static void fti_tell(const struct crn_fti *f)
{
    if (f->rank == 0 && f->cfg.ignored[0] != '\0')
        crn_log(&f->face.log, CRN_WARN, "FTI's configuration: unknown keys: %s", f->cfg.ignored);
}

static void fti_free(struct crn_fti *f)
{
    crn_fti_stages_free(f);
    crn_fti_vars_free(f);
    free(f);
}

static void at_mpi_end(void)
{
    struct crn_errinfo ei = {0};
    struct crn_fti *f = fti;

    fti = NULL;
    (void)crn_fti_end(NULL, "MPI_Finalize", FTI_NSCS, crn_face_close(&f->face, &ei), &ei);
    fti_free(f);
}

static cairn_err open_session(struct crn_fti *f, struct crn_errinfo *ei)
{
    struct crn_face_settings *settings = calloc(1, sizeof(*settings));
    const FTIT_configuration *c = &f->cfg.all.configuration;
    cairn_err rc = CAIRN_OK;

    if (settings == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the settings of a session");
    if (rc == CAIRN_OK && f->rank == 0)
        rc = crn_face_make_dir(c->glbalDir, ei);
    if (rc == CAIRN_OK)
        rc = crn_face_make_dir(c->localDir, ei);
    rc = crn_face_agree(f->comm, rc, ei);
    if (rc == CAIRN_OK) {
        crn_fti_config_settings(&f->cfg, settings);
        rc = crn_face_open(&f->face, f->comm, settings, at_mpi_end, ei);
    }
    free(settings);
    return rc;
}

/* Collective over the application's processes. *ret: what FTI_Init returns on failure. */
static cairn_err fti_begin(struct crn_fti *f, int *ret, struct crn_errinfo *ei)
{
    cairn_err rc;

    *ret = FTI_NSCS;
    f->begun = f->last_look = f->last_flip = MPI_Wtime();
    f->every = 1;
    crn_face_init(&f->face, "fti", f->rank);
    rc = name_execution(f, ei);
    if (rc == CAIRN_OK)
        rc = crn_fti_types_init(f, ei);
    rc = crn_face_agree(f->comm, rc, ei);
    if (rc == CAIRN_OK)
        rc = open_session(f, ei);
    if (rc != CAIRN_OK)
        return rc;
    fti_tell(f);
    f->failure = f->cfg.failure;
    if (f->cfg.failure != 0) {
        *ret = FTI_NREC;
        rc = fti_find(f, ei);
        f->status = f->cfg.failure;
    } else {
        f->failure = -1; /* the file has the name of an earlier execution */
        set_failure(f, 0);
    }
    return rc == CAIRN_OK ? first_version(f, ei) : rc;
}

/* Separates the heads. They do not return. */
static cairn_err fti_split(struct crn_fti_config *cfg, MPI_Comm global, struct crn_errinfo *ei)
{
    fti_topology(cfg, global);
    if (cfg->has_heads && cfg->all.topology.nbProc % cfg->all.topology.nodeSize == 1)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "%d processes with %d on each node: the last head has nobody to serve",
                        cfg->all.topology.nbProc, cfg->all.topology.nodeSize);
    if (MPI_Comm_split(global, cfg->all.topology.amIaHead, cfg->all.topology.myRank,
                       &FTI_COMM_WORLD) != MPI_SUCCESS)
        return crn_fail(ei, CAIRN_EMPI, 0, "cannot split the communicator");
    if (cfg->all.topology.amIaHead)
        fti_serve(cfg, global);
    return CAIRN_OK;
}

static cairn_err fti_init(const char *file, MPI_Comm global, struct crn_fti *old, int *ret,
                          struct crn_errinfo *ei)
{
    struct crn_fti *f = calloc(1, sizeof(*f));
    struct crn_errinfo late = {0};
    cairn_err rc;

    *ret = FTI_NSCS;
    if (f == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a session");
    /* The heads of an earlier FTI_Init do not take part in a second one. */
    rc = fti_load(file, old != NULL ? FTI_COMM_WORLD : global, &f->cfg, ei);
    if (rc == CAIRN_OK && old == NULL)
        rc = fti_split(&f->cfg, global, ei);
    else if (rc == CAIRN_OK)
        fti_topology(&f->cfg, global);
    if (rc == CAIRN_OK && MPI_Comm_dup(FTI_COMM_WORLD, &f->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot duplicate the communicator");
    if (rc != CAIRN_OK) {
        free(f);
        return rc;
    }
    f->global = global;
    (void)MPI_Comm_rank(f->comm, &f->rank);
    (void)snprintf(f->cfg_file, sizeof(f->cfg_file), "%s", file);
    rc = fti_begin(f, ret, ei);
    if (rc == CAIRN_OK) {
        fti = f;
        return CAIRN_OK;
    }
    if (f->face.session != NULL && crn_face_close(&f->face, &late) != CAIRN_OK)
        crn_log(&f->face.log, CRN_DEBUG, "%s", late.msg);
    (void)MPI_Comm_free(&f->comm);
    fti_free(f);
    return rc;
}

CRN_FACE_API int FTI_Init(const char *configFile, MPI_Comm globalComm)
{
    struct crn_errinfo ei = {0}, late = {0};
    struct crn_fti *old = fti;
    int has_begun = 0;
    int failed;
    cairn_err rc;

    if (MPI_Initialized(&has_begun) != MPI_SUCCESS || !has_begun)
        return crn_fti_end(NULL, __func__, FTI_NSCS,
                           crn_fail(&ei, CAIRN_ESTATE, 0, "call MPI_Init first"), &ei);
    if (old != NULL) { /* as after a crash: what was taken stays */
        fti = NULL;
        if (crn_face_close(&old->face, &late) != CAIRN_OK)
            crn_log(&old->face.log, CRN_WARN, "%s", late.msg);
    }
    rc = fti_init(configFile, globalComm, old, &failed, &ei);
    if (old != NULL)
        fti_free(old);
    return crn_fti_end(NULL, __func__, failed, rc, &ei);
}

CRN_FACE_API int FTI_Status(void)
{
    struct crn_fti *f = crn_fti_get(__func__);

    return f != NULL ? f->status : FTI_NSCS;
}

/* End. ----------------------------------------------------------------------------------------- */

/* First rank: removes what the execution took. */
static void remove_all(struct crn_fti *f, const char *name)
{
    int64_t version;
    size_t n;

    if (f->rank != 0)
        return;
    while (cairn_list(f->face.session, name, &version, 1, &n) == CAIRN_OK && n > 0)
        if (cairn_remove(f->face.session, name, version) != CAIRN_OK) {
            crn_log(&f->face.log, CRN_WARN, "a checkpoint stays: %s", cairn_last_error());
            return;
        }
}

static cairn_err fti_finalize(struct crn_fti *f, struct crn_errinfo *ei)
{
    const FTIT_configuration *c = &f->cfg.all.configuration;
    struct crn_errinfo late = {0};
    int keeps = c->saveLastCkpt || c->keepL4Ckpt;
    cairn_err rc, closed;

    rc = crn_face_result(cairn_wait_all(f->face.session, CAIRN_PERSISTENT, CAIRN_WAIT_CONFIG), ei);
    (void)MPI_Barrier(f->comm);
    if (f->has_single && c->h5SingleFileKeep && !keeps)
        set_failure(f, 3);
    else if (keeps && f->failure != 0)
        set_failure(f, 2);
    else
        set_failure(f, 0);
    if (!keeps)
        remove_all(f, f->name);
    if (f->has_single && !c->h5SingleFileKeep)
        remove_all(f, f->single);
    (void)MPI_Barrier(f->comm);
    closed = crn_face_close(&f->face, &late);
    if (rc == CAIRN_OK) {
        rc = closed;
        crn_err_keep(ei, &late);
    }
    release_head(f);
    (void)MPI_Comm_free(&f->comm);
    return rc;
}

CRN_FACE_API int FTI_Finalize(void)
{
    struct crn_fti *f = crn_fti_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (f == NULL)
        return FTI_NSCS;
    fti = NULL;
    rc = fti_finalize(f, &ei);
    fti_free(f);
    return crn_fti_end(NULL, __func__, FTI_NSCS, rc, &ei);
}
