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

/* The thread that opens streams and makes parity; one per job and node. */
void *crn_parity_main(void *job);
/* Loop: the stream of this node, if another node may read it; or NULL. */
const struct crn_nodefile *crn_ward_file(const struct crn_item *item);
/* Loop: the set is protected, nobody reads the stream any more. */
void crn_ward_done(struct crn_job *job, struct crn_item *item);
void crn_ward_free(struct crn_job *job, struct crn_item *item);

/* "parity-7" in the directory of a run. */
#define CRN_PARITY_FILE 40
void crn_parity_file_name(uint64_t seq, char ret[CRN_PARITY_FILE]);
/* Keeper: removes parity whose capture is not in the arenas any more. */
void crn_parity_retire(struct crn_job *job);

#endif
