/* SPDX-License-Identifier: BSD-3-Clause */
/* What the drop-in libraries share: each is a face of Cairn's public API with the names, the
 * configuration and the habits of another library. None of those interfaces has a handle, so a
 * process has at most one session of each, which belongs to the thread that opened it. */
#ifndef CRN_COMPAT_FACE_H
#define CRN_COMPAT_FACE_H

#include <mpi.h>

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"
#include "cairn/cairn.h"
#include "common/settings.h"

/* All other symbols are hidden. */
#define CRN_FACE_API __attribute__((visibility("default")))

struct crn_face {
    const char *who; /* "veloc", "scr", "fti": the writer of log lines */
    cairn_session *session;
    struct crn_log log;
    char log_file[CRN_PATH_MAX]; /* used by log */
    unsigned process;            /* of crn_face_open; a forked child inherits only the memory */
    void (*at_mpi_end)(void);
    int key;           /* MPI attribute that calls at_mpi_end */
    int is_inside_end; /* called by MPI_Finalize itself, not before it */
};

/* Level, file and job of the log as the session will have them; opening it reports errors there. */
void crn_face_init(struct crn_face *f, const char *who, int64_t no);

/* Collective over comm; MPI_COMM_NULL: this process alone. at_mpi_end (NULL: none) is called
 * before MPI_Finalize, or at its start, for programs that never finalize: Cairn's threads must not
 * outlive MPI. It closes the face. */
CAIRN_CHECKED cairn_err crn_face_open(struct crn_face *f, MPI_Comm comm,
                                      const struct crn_face_settings *settings,
                                      void (*at_mpi_end)(void), struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_face_close(struct crn_face *f, struct crn_errinfo *ei);
/* Does the session belong to this process? */
int crn_face_is_here(const struct crn_face *f);

/* Copies Cairn's last error into ei if rc is an error. */
CAIRN_CHECKED cairn_err crn_face_result(cairn_err rc, struct crn_errinfo *ei);
/* Collective. The newest version, not newer than the bound, whose data every rank can restore: all of it
 * is read and verified, for interfaces whose programs cannot fall back later. */
CAIRN_CHECKED cairn_err crn_face_find(const struct crn_face *f, const char *name, int64_t bound,
                                      int64_t *ret_version, struct crn_errinfo *ei);
/* Collective: CAIRN_OK only if all ranks pass it. A rank without a reason gets "it failed on
 * another rank". */
CAIRN_CHECKED cairn_err crn_face_agree(MPI_Comm comm, cairn_err rc, struct crn_errinfo *ei);
/* Creates directories, and checks that this process may use the last one. */
CAIRN_CHECKED cairn_err crn_face_make_dir(const char *path, struct crn_errinfo *ei);

#endif
