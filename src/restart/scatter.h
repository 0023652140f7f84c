/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading together: ranks that want data of the same files read each file once. Some ranks, the
 * readers, make a pass over the files and send every rank the data it wants. All calls are
 * collective over the team and made by the application's thread. */
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

/* Memory of another rank of the node; offsets of its parts count from here. */
struct crn_mate {
    unsigned char *memory;
    const uint64_t *at; /* if it wants a whole shard: offset of each region; UINT64_MAX: the region
                         * is a file */
};
#define CRN_NOWHERE UINT32_MAX

/* What this rank contributes and wants. */
struct crn_scatter {
    struct crn_version *v; /* indexes of the team's files are loaded */
    /* 1: parts[i] is the whole of region i of this rank's shard; file regions have an empty part.
     * 0: arbitrary parts, which the readers are told. */
    int is_whole;
    uint32_t rank; /* also its rank in the version, if is_whole or has_it */
    int has_it;    /* the shard of this rank need not be read: the rank has it already */
    const struct crn_slice *parts;
    uint32_t nparts;
    unsigned char *memory; /* offsets of parts count from here */
    /* Readers of the same node write wanted data straight into this memory. The caller must not
     * touch it until crn_scatter_run has returned on all ranks of the team. After an MPI error
     * nobody knows when that is, so the caller never touches it again. */
    uint32_t node;
    uint32_t where; /* where memory is, for reach; CRN_NOWHERE: other ranks cannot reach it */
    /* Finds the memory that a rank of this node announced; it stays valid for the whole run.
     * Returns 0 if it cannot be reached; the bytes then travel in messages. Readers call it before
     * they read. NULL: never reachable. */
    int (*reach)(void *arg, uint32_t rank, uint32_t where, struct crn_mate *ret);
    void *arg;
    unsigned threads;                /* of a reader */
    enum crn_background_cores cores; /* where they run, see pass.h */
    size_t block_bytes;              /* size of a reader's reads and of the largest message */
};

/* Reads, verifies and distributes all data of the team's files except shards that a rank has
 * already. Returns when this rank is finished: use or free the communicator only after a barrier.
 * Fails on the reader that met the failure; *ret_whole tells the others that their data is
 * incomplete. */
CAIRN_CHECKED cairn_err crn_scatter_run(const struct crn_scatter *c, const struct crn_readers *team,
                                        int *ret_whole, struct crn_errinfo *ei);

#endif
