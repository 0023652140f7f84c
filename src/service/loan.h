/* SPDX-License-Identifier: BSD-3-Clause */
/* The previous version, as the base of a version encoded against it. Its slots are committed and
 * belong to the application; while they are lent to the service (LENT), the application does not
 * evict them.
 *
 *   root     GO names the last capture of the name that is committed and still in its arena
 *   node     GO: lends its slots of that capture, or none
 *   follower says in SHARDS whether it has the capture; FETCH_OLDER asks for its bytes
 *   leader   uses it if all of the group have it and its data file matches the new one
 *   node     END: returns the slots
 *
 * If anything is missing or inconsistent, the file is encoded without a base. */
#ifndef CRN_SERVICE_LOAN_H
#define CRN_SERVICE_LOAN_H

#include "service/job.h"
#include "service/source.h"

/* Slots of this node, by local index. */
struct crn_loan {
    uint64_t seq;
    int64_t version;
    uint32_t *slots; /* LENT */
    /* Used by the thread that opened them, until the item ends. */
    int is_open;
    struct crn_open_shard *held;
    struct crn_source *sources;
};

/* Root: seq + 1 of the newest committed capture of the item's name that is still in its arena, and
 * its version; 0: none. */
uint64_t crn_loan_newest(struct crn_job *job, const struct crn_item *item, int64_t *ret_version);
/* Loop, at GO: base is seq + 1 of the capture to lend, or 0. */
void crn_loan_take(struct crn_job *job, struct crn_item *item, uint64_t base);
void crn_loan_give_back(struct crn_job *job, struct crn_item *item);
/* Flusher or sender: 1 if the slots contain the same shards as the new capture, in memory. */
int crn_loan_open(struct crn_job *job, struct crn_loan *loan, const struct crn_source *sources);

/* Flusher of a leader: the base, as the engine needs it. */
struct crn_before {
    struct crn_older older;
    struct crn_index index;
    struct crn_source *sources;
};
/* sources: those of the group; local: the nlocal ones of this node. NULL: write the file without a
 * base. */
struct crn_before *crn_before_open(struct crn_job *job, const struct crn_item *item,
                                   const struct crn_source *local, const struct crn_source *sources,
                                   uint32_t nsources);
void crn_before_close(struct crn_before *b); /* b may be NULL */

#endif
