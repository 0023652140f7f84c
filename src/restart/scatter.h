/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading together: ranks that want data of the same files read each file once. Some ranks, the
 * readers, make a pass over the files; every rank gets the data it wants in its own memory. All
 * calls are collective over the team and made by the application's thread. */
#ifndef CRN_RESTART_SCATTER_H
#define CRN_RESTART_SCATTER_H

#include "base/config.h"
#include "comm/comm.h"
#include "restart/version.h"

/* Ranks that read together. */
struct crn_readers {
    struct crn_comm *comm;
    const int *readers; /* ranks of comm, ascending */
    uint32_t nreaders;
    /* By rank of the version: the reader (index) that reads large extents of its shard, best a process
     * that wants them, or one of its node. -1, or NULL: no matter which. The same on all ranks. */
    const int *reader_of;
    const uint32_t *files; /* of the version */
    uint32_t nfiles;
};

/* Broadcasts buf of root to all ranks, or root's failure (rc, ei). A single rank may fail for lack
 * of memory, so the caller must agree on the result. */
CAIRN_CHECKED cairn_err crn_together_tell_all(struct crn_comm *comm, int root, cairn_err rc,
                                              struct crn_buf *buf, struct crn_errinfo *ei);
/* The first rank of comm reads the manifest; afterwards the version is open on all ranks. */
CAIRN_CHECKED cairn_err crn_version_open_together(struct crn_comm *comm, const struct crn_fs *fs,
                                                  const char *root, const char *name,
                                                  int64_t version, struct crn_version **ret,
                                                  struct crn_errinfo *ei);
/* One reader reads each index of the team's files; afterwards all ranks have it, or know why not.
 * If an index is missing, the call fails on all ranks alike. */
CAIRN_CHECKED cairn_err crn_version_load_together(struct crn_version *v,
                                                  const struct crn_readers *team,
                                                  struct crn_errinfo *ei);

/* What this rank contributes and wants. */
struct crn_scatter {
    struct crn_version *v; /* indexes of the team's files are loaded */
    const struct crn_slice *parts;
    uint32_t nparts;
    /* Offsets of the parts count from here. Until crn_scatter_run has returned, this process and
     * readers of the same node write wanted data straight into it; see mate.h for what they may still
     * do if it has returned with CAIRN_EMPI or CAIRN_EPEER. */
    unsigned char *memory;
    uint32_t node;
    /* All ranks alike: read and verify all that is in the files, whether a rank wants it or not. */
    int is_check;
    unsigned threads;                /* of a reader */
    enum crn_background_cores cores; /* where they run, see pass.h */
    size_t block_bytes;              /* size of a reader's reads and of the largest message */
};

/* Reads and verifies the data that ranks want, and puts it where they want it. Returns when this
 * rank is finished: use or free the communicator only after a barrier. Nothing is written before all
 * ranks are ready to go on. Fails on the reader that met the failure; *ret_whole tells the others
 * that their data is incomplete. */
CAIRN_CHECKED cairn_err crn_scatter_run(const struct crn_scatter *c, const struct crn_readers *team,
                                        int *ret_whole, struct crn_errinfo *ei);

#endif
