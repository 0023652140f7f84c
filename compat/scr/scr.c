/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation, finalisation, parameters, and the entry of calls. */
#include "scr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "scr_impl.h"

static struct crn_scr *scr;
static struct crn_scr_params params; /* lives longer than a session: SCR_Config comes first */
static const struct crn_log no_log = {.level = CRN_WARN, .who = "scr"};
static const char *const state_names[] = {"outside of output and restart", "inside of an output",
                                          "inside of a restart"};

/* Entry and exit of calls. --------------------------------------------------------------------- */

/* The session, or NULL after logging an error. */
static struct crn_scr *scr_get(const char *function)
{
    if (scr == NULL)
        crn_log(&no_log, CRN_ERROR, "%s: call SCR_Init first", function);
    else if (!crn_face_is_here(&scr->face))
        crn_log(&no_log, CRN_ERROR,
                "%s: SCR_Init was called in the parent of this forked process; take checkpoints "
                "in the parent alone",
                function);
    else
        return scr;
    return NULL;
}

struct crn_scr *crn_scr_in(const char *function, enum crn_scr_state state)
{
    struct crn_scr *s = scr_get(function);

    if (s == NULL || s->state == state)
        return s;
    crn_log(&s->face.log, CRN_ERROR, "%s: to be called %s, but this is %s", function,
            state_names[state], state_names[s->state]);
    return NULL;
}

int crn_scr_end(const struct crn_scr *s, const char *function, cairn_err rc,
                const struct crn_errinfo *ei)
{
    if (rc == CAIRN_OK)
        return SCR_SUCCESS;
    crn_log(s != NULL ? &s->face.log : &no_log, CRN_ERROR, "%s: %s", function, ei->msg);
    return 1;
}

const char *crn_scr_store_name(int flags)
{
    return flags & SCR_FLAG_CHECKPOINT ? CRN_SCR_CHECKPOINTS : CRN_SCR_OUTPUTS;
}

/* Parameters. ---------------------------------------------------------------------------------- */

CRN_FACE_API const char *SCR_Config(const char *config)
{
    struct crn_errinfo ei = {0};
    char *value = NULL;

    if (config == NULL)
        return NULL;
    (void)crn_scr_end(scr, __func__, crn_scr_params_config(&params, config, &value, &ei), &ei);
    return value;
}

__attribute__((format(printf, 1, 2))) CRN_FACE_API const char *SCR_Configf(const char *format, ...)
{
    const char *ret = NULL;
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) >= 0) {
        ret = SCR_Config(text);
        free(text);
    }
    va_end(args);
    return ret;
}

/* Rank 0: the text of the user's file, "" if there is none. */
static cairn_err read_file(char **ret, struct crn_errinfo *ei)
{
    const char *path = crn_scr_params_get(&params, "SCR_CONF_FILE");
    FILE *in, *out;
    size_t len = 0;
    int c;

    out = open_memstream(ret, &len);
    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the file of SCR_CONF_FILE");
    if (path != NULL && path[0] != '\0') {
        in = fopen(path, "re");
        if (in == NULL) {
            int why = errno;

            (void)fclose(out);
            free(*ret);
            *ret = NULL;
            return crn_fail_errno(ei, why, "SCR_CONF_FILE = %s", path);
        }
        while ((c = fgetc(in)) != EOF)
            (void)fputc(c, out);
        (void)fclose(in);
    }
    return fclose(out) == 0 ? CAIRN_OK : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "SCR_CONF_FILE");
}

/* Collective: all ranks get the file of rank 0, and its configuration. */
static cairn_err scr_load(struct crn_scr *s, struct crn_errinfo *ei)
{
    char *text = NULL;
    cairn_err rc = s->rank == 0 ? read_file(&text, ei) : CAIRN_OK;
    int len = text != NULL ? (int)strlen(text) + 1 : 0;

    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(&len, 1, MPI_INT, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the parameters to all ranks");
    if (rc == CAIRN_OK && s->rank != 0)
        text = malloc((size_t)len);
    rc = crn_face_agree(s->comm, rc == CAIRN_OK && text == NULL ? CAIRN_ENOMEM : rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(text, len, MPI_CHAR, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the parameters to all ranks");
    if (rc == CAIRN_OK)
        rc = crn_scr_params_parse(&params, text, ei);
    if (rc == CAIRN_OK)
        rc = crn_scr_config_load(&params, &s->cfg, ei);
    free(text);
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK &&
        MPI_Bcast(&s->cfg, (int)sizeof(s->cfg), MPI_BYTE, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot send the parameters to all ranks");
    return rc;
}

static void scr_tell(const struct crn_scr *s)
{
    if (s->rank == 0 && s->cfg.ignored[0] != '\0')
        crn_log(&s->face.log, CRN_WARN, "SCR's parameters: no effect here: %s (see docs/scr.md)",
                s->cfg.ignored);
}

/* Begin. --------------------------------------------------------------------------------------- */

/* Collective: rank 0 knows which numbers are taken. */
static cairn_err first_id(struct crn_scr *s, struct crn_errinfo *ei)
{
    const char *const names[] = {CRN_SCR_CHECKPOINTS, CRN_SCR_OUTPUTS};
    int64_t newest;
    cairn_err rc = CAIRN_OK;
    size_t i, n;

    s->next_id = s->found.id >= 0 ? s->found.id + 1 : 1;
    for (i = 0; s->rank == 0 && rc == CAIRN_OK && i < 2; i++) {
        rc = crn_face_result(cairn_list(s->face.session, names[i], &newest, 1, &n), ei);
        if (rc == CAIRN_OK && n > 0 && newest >= s->next_id)
            s->next_id = newest + 1;
    }
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK && MPI_Bcast(&s->next_id, 1, MPI_INT64_T, 0, s->comm) != MPI_SUCCESS)
        rc = crn_fail(ei, CAIRN_EMPI, 0, "cannot agree on the next dataset");
    return rc;
}

static cairn_err scr_finalize(struct crn_scr *s, int mpi_ends, struct crn_errinfo *ei);

static void at_mpi_end(void)
{
    struct crn_errinfo ei = {0};
    cairn_err rc = scr_finalize(scr, 1, &ei);

    (void)crn_scr_end(NULL, "MPI_Finalize", rc, &ei);
}

/* Rank 0: the GROUPS lines, as a file that all ranks read when the session opens. */
static cairn_err write_groups(const struct crn_scr *s, const char *dir, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    cairn_err rc;
    int dfd;

    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the GROUPS lines");
    crn_scr_config_groups(&params, s->cfg.group, out);
    rc = fclose(out) == 0 ? crn_fs_make_dirs(fs, AT_FDCWD, dir, 0777, &dfd, ei)
                          : crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the GROUPS lines");
    if (rc == CAIRN_OK) {
        rc = crn_fs_replace(fs, dfd, CRN_SCR_GROUPS_FILE, text, len, ei);
        (void)fs->close(fs, dfd);
    }
    free(text);
    return rc;
}

static cairn_err open_session(struct crn_scr *s, struct crn_errinfo *ei)
{
    struct crn_face_settings *settings = calloc(1, sizeof(*settings));
    char dir[CRN_PATH_MAX];
    cairn_err rc = CAIRN_OK;

    if (settings == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the settings of a session");
    if (rc == CAIRN_OK && s->rank == 0 &&
        (size_t)snprintf(dir, sizeof(dir), "%s/.scr", s->cfg.prefix) >= sizeof(dir))
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "the value of SCR_PREFIX is too long");
    if (rc == CAIRN_OK && s->rank == 0)
        rc = crn_face_make_dir(dir, ei);
    if (rc == CAIRN_OK && s->rank == 0 && s->cfg.has_groups)
        rc = write_groups(s, dir, ei);
    if (rc == CAIRN_OK && s->cfg.cache[0] != '\0')
        rc = crn_face_make_dir(s->cfg.cache, ei);
    rc = crn_face_agree(s->comm, rc, ei);
    if (rc == CAIRN_OK) {
        crn_scr_config_settings(&s->cfg, settings);
        rc = crn_face_open(&s->face, s->comm, settings, at_mpi_end, ei);
    }
    free(settings);
    return rc;
}

/* The checkpoint that SCR_CURRENT names, or the newest one. */
static cairn_err first_bound(struct crn_scr *s, struct crn_errinfo *ei)
{
    struct crn_scr_known k;
    cairn_err rc;

    s->bound = CAIRN_NEWEST;
    if (s->cfg.current[0] == '\0')
        return CAIRN_OK;
    rc = crn_scr_lookup(s, s->cfg.current, &k, ei);
    if (rc == CAIRN_OK && k.id >= 0)
        s->bound = k.id;
    else if (rc == CAIRN_OK && s->rank == 0)
        crn_log(&s->face.log, CRN_WARN, "SCR_CURRENT = %s: there is no such checkpoint",
                s->cfg.current);
    return rc;
}

static cairn_err scr_init(struct crn_scr *s, struct crn_errinfo *ei)
{
    cairn_err rc;

    (void)MPI_Comm_rank(s->comm, &s->rank);
    (void)MPI_Comm_size(s->comm, &s->ranks);
    crn_face_init(&s->face, "scr", s->rank);
    s->found.id = s->unflushed = -1;
    s->found.other_rank = -1;
    s->last_end = s->since = MPI_Wtime();
    rc = scr_load(s, ei);
    if (rc == CAIRN_OK && !s->cfg.is_enabled)
        rc = crn_fail(ei, CAIRN_ENOTSUP, 0, "SCR_ENABLE = 0");
    if (rc == CAIRN_OK)
        rc = open_session(s, ei);
    if (rc != CAIRN_OK)
        return rc;
    scr_tell(s);
    rc = first_bound(s, ei);
    if (rc == CAIRN_OK && s->cfg.is_fetch)
        rc = crn_scr_search(s, ei);
    if (rc == CAIRN_OK)
        rc = first_id(s, ei);
    if (rc == CAIRN_OK && s->rank == 0)
        crn_scr_halt_finalized(s, 0);
    return rc;
}

static void scr_free(struct crn_scr *s)
{
    crn_publisher_close(s->publisher);
    crn_scr_dataset_free(&s->out);
    crn_scr_found_close(&s->found);
    free(s->known);
    free(s);
}

CRN_FACE_API int SCR_Init(void)
{
    struct crn_errinfo ei = {0}, ignored = {0};
    int has_begun = 0;
    struct crn_scr *s;
    cairn_err rc;

    if (scr != NULL)
        return crn_scr_end(scr, __func__,
                           crn_fail(&ei, CAIRN_ESTATE, 0, "SCR_Init was called already"), &ei);
    if (MPI_Initialized(&has_begun) != MPI_SUCCESS || !has_begun)
        return crn_scr_end(NULL, __func__, crn_fail(&ei, CAIRN_ESTATE, 0, "call MPI_Init first"),
                           &ei);
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return crn_scr_end(NULL, __func__, crn_fail(&ei, CAIRN_ENOMEM, ENOMEM, "a session"), &ei);
    if (MPI_Comm_dup(MPI_COMM_WORLD, &s->comm) != MPI_SUCCESS) {
        free(s);
        return crn_scr_end(NULL, __func__, crn_fail(&ei, CAIRN_EMPI, 0, "MPI_Comm_dup failed"),
                           &ei);
    }
    scr = s;
    rc = scr_init(s, &ei);
    if (rc != CAIRN_OK) {
        scr = NULL;
        if (s->face.session != NULL && crn_face_close(&s->face, &ignored) != CAIRN_OK)
            crn_log(&s->face.log, CRN_DEBUG, "%s", ignored.msg);
        (void)MPI_Comm_free(&s->comm);
        scr_free(s);
    }
    return crn_scr_end(NULL, __func__, rc, &ei);
}

/* End. ----------------------------------------------------------------------------------------- */

static cairn_err scr_finalize(struct crn_scr *s, int mpi_ends, struct crn_errinfo *ei)
{
    struct crn_errinfo late = {0};
    cairn_err rc, closed;

    if (!mpi_ends && s->cfg.is_finalize_flush && crn_scr_flush_last(s, &late) != CAIRN_OK)
        crn_scr_failed(s, s->unflushed, &late);
    crn_scr_settle(s, 1);
    rc = s->failure.code;
    crn_err_keep(ei, &s->failure);
    if (!mpi_ends && s->rank == 0)
        crn_scr_halt_finalized(s, 1);
    crn_err_clear(&late);
    scr = NULL;
    closed = crn_face_close(&s->face, &late);
    if (rc == CAIRN_OK) {
        rc = closed;
        crn_err_keep(ei, &late);
    }
    if (!mpi_ends)
        (void)MPI_Comm_free(&s->comm);
    scr_free(s);
    return rc;
}

CRN_FACE_API int SCR_Finalize(void)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};
    cairn_err rc;

    if (s == NULL)
        return 1;
    rc = scr_finalize(s, 0, &ei);
    return crn_scr_end(NULL, __func__, rc, &ei);
}

/* Calls that need no dataset. ------------------------------------------------------------------ */

CRN_FACE_API char *SCR_Get_version(void)
{
    static char version[] = SCR_VERSION;

    return version;
}

CRN_FACE_API int SCR_Route_file(const char *name, char *file)
{
    struct crn_scr *s = scr_get(__func__);
    struct crn_errinfo ei = {0};
    cairn_err rc = CAIRN_OK;

    if (s == NULL)
        return 1;
    if (name == NULL || file == NULL || strlen(name) >= SCR_MAX_FILENAME)
        rc = crn_fail(&ei, CAIRN_EINVAL, 0, "the name or the buffer is not valid");
    else if (s->state == CRN_SCR_OUTPUT)
        rc = crn_scr_route_new(s, name, file, &ei);
    else if (s->state == CRN_SCR_RESTART)
        rc = crn_scr_route_old(s, name, file, &ei);
    else
        memcpy(file, name, strlen(name) + 1);
    return crn_scr_end(s, __func__, rc, &ei);
}

CRN_FACE_API int SCR_Should_exit(int *flag)
{
    struct crn_scr *s = crn_scr_in(__func__, CRN_SCR_IDLE);
    struct crn_errinfo ei = {0};

    if (s == NULL || flag == NULL)
        return 1;
    *flag = 0;
    return crn_scr_end(s, __func__, crn_scr_should_exit(s, flag, &ei), &ei);
}
