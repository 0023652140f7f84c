/* SPDX-License-Identifier: BSD-3-Clause */
/* The session behind a face: opened with settings, closed by the program or by MPI_Finalize. */
#include "common/face.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/fs.h"
#include "cairn/cairn_mpi.h"
#include "client/open.h"

/* Programs written for these libraries call MPI_Init. Cairn's threads make MPI calls if there is
 * more than one node. Both MPI libraries accept the thread level from the environment; a value set
 * by the user is left unchanged. */
__attribute__((constructor)) static void ask_for_threads(void)
{
    (void)setenv("OMPI_MPI_THREAD_LEVEL", "3", 0);
    (void)setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE", 0);
}

void crn_face_init(struct crn_face *f, const char *who, int64_t no)
{
    struct crn_config cfg;

    memset(f, 0, sizeof(*f));
    f->who = who;
    f->key = MPI_KEYVAL_INVALID;
    if (crn_config_load(&cfg, NULL, NULL, NULL) != CAIRN_OK)
        crn_config_defaults(&cfg);
    crn_log_init(&f->log, &cfg, NULL, who, no);
    memcpy(f->log_file, cfg.log_file, sizeof(f->log_file));
    f->log.file = f->log_file;
    crn_config_fini(&cfg);
}

/* The end of MPI. ------------------------------------------------------------------------------- */

/* The open face of this library. */
static struct crn_face *watched;

static void face_end(void)
{
    if (crn_face_is_here(watched))
        watched->at_mpi_end();
}

/* Programs call this function instead of MPI's, because they are linked with this library before
 * MPI's. The session ends while MPI is whole: MPI_Finalize of MPICH takes no locks, and leaves one
 * locked forever that cairn-node holds at that moment. Other libraries may define the function,
 * too: each calls the next one. */
CRN_FACE_API int MPI_Finalize(void)
{
    union {
        void *object;
        int (*function)(void);
    } next = {.object = dlsym(RTLD_NEXT, "MPI_Finalize")};

    face_end();
    return next.object != NULL ? next.function() : PMPI_Finalize();
}

/* For calls that do not pass there: Fortran programs with Open MPI, profilers, dlopen. */
static int face_mpi_ends(MPI_Comm comm, int key, void *value, void *extra)
{
    struct crn_face *f = value;

    (void)comm;
    (void)key;
    (void)extra;
    if (f == watched) {
        f->is_inside_end = 1;
        face_end();
    }
    return MPI_SUCCESS;
}

static void watch_mpi(struct crn_face *f)
{
    watched = f;
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, face_mpi_ends, &f->key, NULL) == MPI_SUCCESS)
        (void)MPI_Comm_set_attr(MPI_COMM_SELF, f->key, f);
}

static void unwatch_mpi(struct crn_face *f)
{
    int is_finalized = 0;

    if (watched == f)
        watched = NULL;
    (void)MPI_Finalized(&is_finalized);
    if (f->key == MPI_KEYVAL_INVALID || is_finalized || f->is_inside_end)
        return;
    (void)MPI_Comm_delete_attr(MPI_COMM_SELF, f->key); /* calls back: nothing is watched */
    (void)MPI_Comm_free_keyval(&f->key);
}

/* Sessions. ------------------------------------------------------------------------------------- */

cairn_err crn_face_open(struct crn_face *f, MPI_Comm comm, const struct crn_face_settings *settings,
                        void (*at_mpi_end)(void), struct crn_errinfo *ei)
{
    struct cairn_options opt = {.size = sizeof(opt), .settings = settings->list};
    cairn_err rc;

    rc = crn_face_result(comm == MPI_COMM_NULL ? cairn_open(&opt, &f->session)
                                               : cairn_open_mpi(comm, &opt, &f->session),
                         ei);
    if (rc != CAIRN_OK)
        return rc;
    f->process = crn_fork_process();
    f->at_mpi_end = at_mpi_end;
    if (comm != MPI_COMM_NULL && at_mpi_end != NULL)
        watch_mpi(f);
    return CAIRN_OK;
}

cairn_err crn_face_close(struct crn_face *f, struct crn_errinfo *ei)
{
    cairn_err rc = crn_face_result(crn_session_close(f->session, f->is_inside_end), ei);

    f->session = NULL;
    unwatch_mpi(f);
    return rc;
}

int crn_face_is_here(const struct crn_face *f)
{
    return f != NULL && f->session != NULL && f->process == crn_fork_process();
}

cairn_err crn_face_result(cairn_err rc, struct crn_errinfo *ei)
{
    return rc == CAIRN_OK ? CAIRN_OK : crn_fail(ei, rc, 0, "%s", cairn_last_error());
}

cairn_err crn_face_find(const struct crn_face *f, const char *name, int64_t bound,
                        int64_t *ret_version, struct crn_errinfo *ei)
{
    struct crn_errinfo bad = {0};
    cairn_err rc;

    for (;;) {
        rc = crn_face_result(cairn_find(f->session, name, bound, ret_version), ei);
        if (rc != CAIRN_OK)
            break;
        crn_err_clear(&bad);
        rc = crn_face_result(cairn_verify(f->session, name, *ret_version), &bad);
        if (rc != CAIRN_EDAMAGED && rc != CAIRN_EIO && rc != CAIRN_EFORMAT && rc != CAIRN_ENOENT) {
            crn_err_keep(ei, &bad);
            return rc;
        }
        crn_log(&f->log, CRN_WARN, "%s@%" PRId64 " is passed over, continuing: %s", name,
                *ret_version, bad.msg);
        bound = *ret_version - 1;
    }
    if (rc != CAIRN_ENOENT || bad.code == CAIRN_OK)
        return rc;
    crn_err_clear(ei);
    return crn_fail(ei, CAIRN_EDAMAGED, 0, "no version of '%s' can be restored: %.200s", name,
                    bad.msg);
}

cairn_err crn_face_agree(MPI_Comm comm, cairn_err rc, struct crn_errinfo *ei)
{
    int worst = rc;

    if (MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
        worst = CAIRN_EMPI;
    if (rc != CAIRN_OK || worst == CAIRN_OK)
        return rc;
    return crn_fail(ei, (cairn_err)worst, 0, "it failed on another rank");
}

cairn_err crn_face_make_dir(const char *path, struct crn_errinfo *ei)
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
