/* SPDX-License-Identifier: BSD-3-Clause */
/* The version before, for one that is encoded against it. Its slots are committed and the application's: as
 * long as they are lent to the service (LENT) it does not evict them.
 *
 *   root     GO names the last capture of the name that is committed and still in its arena
 *   node     GO: lends its slots of that capture, or none
 *   follower tells with SHARDS whether it has it; FETCH_OLDER asks for its bytes
 *   leader   uses it if all of the group have it and its data file is what the new one will be
 *   node     END: gives the slots back
 *
 * Whatever is missing or odd: the file is encoded by itself. */
#ifndef CRN_SERVICE_LOAN_H
#define CRN_SERVICE_LOAN_H

#include "service/job.h"
#include "service/source.h"

/* Slots of this node, by local index. */
struct crn_loan {
    uint64_t seq;
    int64_t version;
    uint32_t *slots; /* LENT */
    /* By the thread that opened them, until the item ends. */
    int is_open;
    struct crn_open_shard *held;
    struct crn_source *sources;
};

/* Root: seq + 1 of the capture that an item may be encoded against; 0: none. */
uint64_t crn_loan_choose(struct crn_job *job, struct crn_item *item);
/* Root: whether a version of the name is on its way that this one may be encoded against once it is
 * committed and old ones are removed. It costs no time to wait for it: flushes go one after another. */
int crn_loan_is_awaited(const struct crn_job *job, const struct crn_item *item);
/* Root: the versions under this name that items on their way may need, as an array of int64_t: they must
 * not be retired. */
void crn_loan_needed(const struct crn_job *job, const char *name, struct crn_buf *ret);
/* Loop, at GO: base is what crn_loan_choose said. */
void crn_loan_take(struct crn_job *job, struct crn_item *item, uint64_t base);
void crn_loan_give_back(struct crn_job *job, struct crn_item *item);
/* Flusher or sender: 1 if the slots hold the same shards as the new ones, in memory. */
int crn_loan_open(struct crn_job *job, struct crn_loan *loan, const struct crn_source *sources);

/* Flusher of a leader: what the engine has to know. */
struct crn_before {
    struct crn_older older;
    struct crn_index index;
    struct crn_source *sources;
};
/* sources: the group's, nlocal of them as in local. NULL: the file is to be full. */
struct crn_before *crn_before_open(struct crn_job *job, const struct crn_item *item,
                                   const struct crn_source *local, const struct crn_source *sources,
                                   uint32_t nsources);
void crn_before_close(struct crn_before *b); /* NULL is fine */

#endif
