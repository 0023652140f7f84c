/* SPDX-License-Identifier: BSD-3-Clause */
/* The runs of a node and their checkpoints, as their files show them. Only reads: no socket, no lock,
 * no file system but the node's shared memory, so that it works beside hanging jobs and hanging disks. */
#ifndef CRN_SERVICE_CENSUS_H
#define CRN_SERVICE_CENSUS_H

#include "base/config.h"
#include "base/fs.h"
#include "service/runfile.h"
#include "tier/arena.h"

#define CRN_SLOT_STATES (CRN_SLOT_LENT + 1)

/* One checkpoint of a run, over the ranks of this node. */
struct crn_census_item {
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t seq;
    uint64_t created_ns;             /* wall clock, of the first rank */
    uint64_t bytes;                  /* of this node's ranks */
    uint32_t ranks[CRN_SLOT_STATES]; /* how many ranks are in each state */
};
/* What happens to it, in a word: "capturing", "captured", "flushing", "persistent", "failed",
 * "kept" (failed, and kept in memory for a drain), "reading", "restored". */
const char *crn_census_state(const struct crn_census_item *item);
/* Ranks of this node that hold it. */
uint32_t crn_census_ranks(const struct crn_census_item *item);

struct crn_census_run {
    char run[CRN_RUN_HEX];
    unsigned uid;
    struct crn_run_place place;
    char job[CAIRN_MAX_NAME];
    char persistent[CRN_PATH_MAX];
    int has_service;       /* its service lives */
    int has_ranks;         /* at least one of its ranks on this node lives */
    int64_t since_ns;      /* wall clock: when it began here */
    uint32_t arenas;       /* seen */
    uint64_t arena_bytes;  /* in all of them ... */
    uint64_t in_use_bytes; /* ... for captures that must not be lost or are being read */
    struct crn_census_item *item;
    size_t nitems;   /* newest first */
    size_t next;     /* where census.c looks first for the next item */
    char error[200]; /* why part of it could not be read; or empty */
};
struct crn_census {
    struct crn_census_run *run;
    size_t n;
};

/* Looks at the runs of this user below cfg->shm_dir; with everyone at those of all users that may be
 * read. A run that ends meanwhile is left out. */
CAIRN_CHECKED cairn_err crn_census_take(const struct crn_fs *fs, const struct crn_config *cfg,
                                        int everyone, struct crn_census *ret,
                                        struct crn_errinfo *ei);
void crn_census_free(struct crn_census *c);

#endif
