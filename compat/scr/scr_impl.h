/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of libscr between two calls. SCR has no handle: one per process, of the calling
 * thread. */
#ifndef CRN_SCR_IMPL_H
#define CRN_SCR_IMPL_H

#include "common/face.h"
#include "common/publish.h"
#include "config.h"
#include "dataset.h"

enum crn_scr_state { CRN_SCR_IDLE, CRN_SCR_OUTPUT, CRN_SCR_RESTART };

/* Cairn's names of checkpoints and of outputs that are none. The version is the dataset's number,
 * which grows over all runs in one prefix. */
#define CRN_SCR_CHECKPOINTS "scr"
#define CRN_SCR_OUTPUTS     "scr-output"

/* A dataset of the store, as rank 0 knows it. */
struct crn_scr_known {
    int64_t id;
    int flags, is_direct, is_flushed;
    char name[CRN_SCR_NAME];
};

/* A copy of a file into the prefix, or a flush, that nobody has waited for yet. */
struct crn_scr_pending {
    struct crn_scr_pending *next;
    int64_t id;
    int flags;
    struct crn_publish_copy **copy; /* owned */
    size_t ncopies;
};

/* The tables of the checkpoint that a restart is offered: those of this rank and, with another
 * number of ranks, all others that were looked at. */
struct crn_scr_found {
    int64_t id; /* -1: none */
    int old_ranks;
    struct crn_scr_dataset own;   /* of the same rank; empty if there is none */
    struct crn_scr_dataset other; /* of other_rank, the one looked at last */
    int other_rank;               /* -1: none */
};

struct crn_scr {
    struct crn_face face;
    struct crn_scr_config cfg;
    MPI_Comm comm; /* a duplicate of MPI_COMM_WORLD */
    int rank, ranks;
    enum crn_scr_state state;
    int64_t next_id;
    uint64_t ncheckpoints; /* of this run */
    struct crn_scr_dataset out;
    int64_t out_id;
    struct crn_scr_found found;
    int64_t bound; /* the search continues at or below this one */
    struct crn_publisher *publisher;
    struct crn_scr_pending *pending; /* oldest first */
    int64_t unflushed;               /* newest checkpoint that is not in the prefix; -1: none */
    struct crn_errinfo failure;      /* the first one that nobody waited for */
    struct crn_scr_known *known;     /* rank 0; ascending */
    size_t nknown;
    int has_known;
    /* Need_checkpoint, on rank 0. */
    uint64_t nasked;
    double last_end, cost, since;
};

/* The session if it is in this state, or NULL after logging an error that names the function. */
struct crn_scr *crn_scr_in(const char *function, enum crn_scr_state state);
/* Ends a call: SCR_SUCCESS, or another value after logging the reason. */
int crn_scr_end(const struct crn_scr *s, const char *function, cairn_err rc,
                const struct crn_errinfo *ei);
const char *crn_scr_store_name(int flags);

/* output.c */
CAIRN_CHECKED cairn_err crn_scr_route_new(struct crn_scr *s, const char *name, char *file,
                                          struct crn_errinfo *ei);
/* Notes what has ended in the background, or waits for all of it. Failures are logged, and kept for
 * SCR_Finalize. */
void crn_scr_settle(struct crn_scr *s, int wait);
void crn_scr_failed(struct crn_scr *s, int64_t id, const struct crn_errinfo *why);
/* Brings the newest checkpoint to the prefix, if it is not there. Collective. */
CAIRN_CHECKED cairn_err crn_scr_flush_last(struct crn_scr *s, struct crn_errinfo *ei);

/* direct.c: files that the program writes in the prefix. */
/* Collective: which files does another rank have too? Sets is_owned. *ret_shared: some are. */
CAIRN_CHECKED cairn_err crn_scr_owners(struct crn_scr *s, struct crn_scr_dataset *d,
                                       int *ret_shared, struct crn_errinfo *ei);
/* Makes the files durable, and takes their sizes and checksums. */
CAIRN_CHECKED cairn_err crn_scr_direct_take(const struct crn_scr *s, struct crn_scr_dataset *d,
                                            struct crn_errinfo *ei);
/* Are the files as they were? */
CAIRN_CHECKED cairn_err crn_scr_direct_check(const struct crn_scr *s,
                                             const struct crn_scr_dataset *d,
                                             struct crn_errinfo *ei);

/* restart.c */
CAIRN_CHECKED cairn_err crn_scr_route_old(struct crn_scr *s, const char *name, char *file,
                                          struct crn_errinfo *ei);
/* Reads the table of one old rank. */
CAIRN_CHECKED cairn_err crn_scr_table(struct crn_scr *s, const char *store_name, int64_t id,
                                      int old_rank, struct crn_scr_dataset *ret,
                                      struct crn_errinfo *ei);
/* Collective: finds the newest checkpoint up to s->bound whose bytes are good. found.id is -1 if
 * there is none. */
CAIRN_CHECKED cairn_err crn_scr_search(struct crn_scr *s, struct crn_errinfo *ei);
void crn_scr_found_close(struct crn_scr_found *f);

/* index.c: datasets by name. */
void crn_scr_known_add(struct crn_scr *s, int64_t id, const struct crn_scr_dataset *d);
/* Collective. The newest dataset of this name; id -1: none. */
CAIRN_CHECKED cairn_err crn_scr_lookup(struct crn_scr *s, const char *name,
                                       struct crn_scr_known *ret, struct crn_errinfo *ei);
/* Rank 0. Removes a dataset from the store and, with_files, from the prefix. */
CAIRN_CHECKED cairn_err crn_scr_forget(struct crn_scr *s, const struct crn_scr_known *k,
                                       int with_files, struct crn_errinfo *ei);
/* Rank 0. Removes what SCR_PREFIX_SIZE and SCR_CACHE_SIZE do not keep. */
void crn_scr_window(struct crn_scr *s);

/* halt.c */
CAIRN_CHECKED cairn_err crn_scr_should_exit(struct crn_scr *s, int *ret, struct crn_errinfo *ei);
/* Rank 0: records that the program ended by itself, or forgets it. */
void crn_scr_halt_finalized(struct crn_scr *s, int is_final);
/* Rank 0: a checkpoint was taken. */
void crn_scr_halt_count(struct crn_scr *s);

#endif
