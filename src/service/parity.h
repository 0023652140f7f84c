/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection in a node service. When all nodes have captured a checkpoint, each opens its stream
 * (nodefile.h) and tells the members of its set. When all members have, each makes the parity that it
 * keeps: it fetches the other members' segments block by block, adds them up, and writes the rows into
 * the run's directory as parity-<seq>. What the nodes agree on, src/node/protect.c decides. */
#ifndef CRN_SERVICE_PARITY_H
#define CRN_SERVICE_PARITY_H

#include "protect/stripes.h"
#include "service/job.h"
#include "service/nodefile.h"
#include "service/source.h"

/* What a service keeps for a checkpoint that is being protected. */
struct crn_ward {
    struct crn_open_shard *held;
    struct crn_source *sources; /* nlocal entries */
    struct crn_nodefile file;
    int is_open;    /* the loop may read the stream */
    int is_claimed; /* the slots are taken for it */
};

/* A block that the protector waits for. Under job->mu. */
struct crn_ticket {
    struct crn_job *job;
    void *block; /* NULL after a failure: the communicator keeps it */
    int is_done;
    struct crn_errinfo error;
};
void crn_ticket_done(struct crn_ticket *t, void *block, const struct crn_errinfo *error);
void crn_ticket_await(struct crn_ticket *t); /* not on the loop thread */

/* The thread that opens streams and makes parity; one per job and node. */
void *crn_parity_main(void *job);
/* Makes the parity of this node on the calling thread. All members' streams are open. like: it is made
 * again, and has these checksums, or nothing is replaced (CAIRN_EDAMAGED); NULL: they are not known. */
CAIRN_CHECKED cairn_err crn_parity_make(struct crn_job *job, struct crn_item *item,
                                        const struct crn_parity *like, struct crn_errinfo *ei);
/* What the index of a node's stream says of the checkpoint. */
void crn_ward_head(const struct crn_job *job, const struct crn_item *item, struct crn_index *head);
/* Loop: the stream of this node, if another node may read it; or NULL. */
const struct crn_nodefile *crn_ward_file(const struct crn_item *item);
/* Loop: the set is protected, nobody reads the stream any more. */
void crn_ward_done(struct crn_job *job, struct crn_item *item);
void crn_ward_free(struct crn_job *job, struct crn_item *item);

/* "parity-7" in the directory of a run. */
#define CRN_PARITY_FILE 40
void crn_parity_file_name(uint64_t seq, char ret[CRN_PARITY_FILE]);
/* A part of that file, as it is. */
CAIRN_CHECKED cairn_err crn_parity_read(const struct crn_job *job, uint64_t seq, uint64_t at,
                                        uint64_t bytes, void *dst, struct crn_errinfo *ei);
/* Keeper: removes parity whose capture is not in the arenas any more. */
void crn_parity_retire(struct crn_job *job);

#endif
