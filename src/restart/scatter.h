/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading together: ranks that want data of the same files read each of them once. Some of them, the
 * readers, make a pass over the files and send to everybody what he wants. All calls are collective
 * over the team and for the application's thread. */
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

/* Gives all ranks what root has in buf, or its failure (rc, ei). A rank may fail alone, for want of memory: the
 * caller agrees. */
CAIRN_CHECKED cairn_err crn_tell_all(struct crn_comm *comm, int root, cairn_err rc,
                                     struct crn_buf *buf, struct crn_errinfo *ei);
/* The first rank of comm reads the manifest; the version is open on all of them then. */
CAIRN_CHECKED cairn_err crn_version_open_together(struct crn_comm *comm, const struct crn_fs *fs,
                                                  const char *root, const char *name,
                                                  int64_t version, struct crn_version **ret,
                                                  struct crn_errinfo *ei);
/* Every index of the team's files is read by one reader; all have it then, or know why not. Fails if
 * one is missing, on all alike. */
CAIRN_CHECKED cairn_err crn_version_load_together(struct crn_version *v,
                                                  const struct crn_readers *team,
                                                  struct crn_errinfo *ei);

/* Memory of another rank of the node, where its parts count from. */
struct crn_mate {
    unsigned char *memory;
    const uint64_t *at; /* if it wants a whole shard: place of each region; UINT64_MAX: a file's */
};
#define CRN_NOWHERE UINT32_MAX

/* What this rank contributes and wants. */
struct crn_scatter {
    struct crn_version *v; /* indexes of the team's files are loaded */
    /* parts[i] is the whole of region i of the shard of this rank; files have none. Otherwise parts
     * are any, and are told to the readers. */
    int is_whole;
    uint32_t rank; /* in the version too, if is_whole or has_it */
    int has_it;    /* the shard of rank need not be read: this rank has it already */
    const struct crn_slice *parts;
    uint32_t nparts;
    unsigned char *memory; /* parts count from here */
    /* Readers of the same node bring what it wants straight to its memory. Nobody else touches that until
     * crn_scatter_run has returned on all ranks of the team: where that is not known, after an error of
     * MPI, never again. */
    uint32_t node;
    uint32_t where; /* of memory, for reach; CRN_NOWHERE: others cannot reach it */
    /* Finds the memory that a rank of this node told of; lives as long as the run. 0: it cannot be
     * reached, bytes go there in messages. Called by readers, before they read. NULL: never. */
    int (*reach)(void *arg, uint32_t rank, uint32_t where, struct crn_mate *ret);
    void *arg;
    unsigned threads;                /* of a reader */
    enum crn_background_cores cores; /* where they run, see pass.h */
    size_t block_bytes;              /* of its reads, and the most that travels at once */
};

/* Reads, verifies and hands out everything of the team's files but what a rank has already. Returns
 * when this rank has done its part: the communicator is freed, or used again, after a barrier. Fails on
 * the reader that found the failure; the others learn by *ret_whole that not all has come. */
CAIRN_CHECKED cairn_err crn_scatter_run(const struct crn_scatter *c, const struct crn_readers *team,
                                        int *ret_whole, struct crn_errinfo *ei);

#endif
