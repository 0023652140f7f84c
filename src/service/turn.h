/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's turns on the file system. The service of the first node files one request for the job
 * with the broker, while checkpoints wait or the application wants to take one, and returns the
 * token when the flush has ended. All on the loop thread; nothing blocks. Without a configured
 * broker every turn is granted at once.
 *
 * A turn is used in one of two ways:
 * - The application asked for it (cairn_should_checkpoint): the first rank is invited, the ranks
 *   capture, and that capture is flushed. If it does not come before the lease ends, the turn
 *   passes on, and the next request keeps the place of the first.
 * - Captures wait: the newest one that all ranks have is flushed. It supersedes the older ones of
 *   its name, except those that were promised (see turn_is_promised). */
#ifndef CRN_SERVICE_TURN_H
#define CRN_SERVICE_TURN_H

#include "service/job.h"

/* On the first node, if a broker is configured. An unreachable broker is not a failure. */
void crn_turn_open(struct crn_job *job);
void crn_turn_close(struct crn_job *job);

enum crn_turn_verdict { CRN_TURN_NOT_YET, CRN_TURN_GO, CRN_TURN_STOP };
/* May this checkpoint be flushed now? Asks the broker if that has not been done yet. STOP: a person
 * has cancelled it; error says so. */
enum crn_turn_verdict crn_turn_check(struct crn_job *job, struct crn_item *item,
                                     struct crn_errinfo *error);
/* A node has reported how much it has written. */
void crn_turn_progress(struct crn_job *job, struct crn_item *item);
/* The checkpoint has ended: returns the token, or withdraws a request that nobody needs. */
void crn_turn_end(struct crn_job *job, struct crn_item *item);
/* A caller waits for this very checkpoint: a newer one does not supersede it. */
void crn_turn_waited(struct crn_job *job, uint64_t seq);
/* The first rank wants a turn for a capture, or no longer (TURN_ASK). */
void crn_turn_asked(struct crn_job *job, const struct crn_msg *m);

/* The loop polls this descriptor and then calls crn_turn_tick; -1: none. */
int crn_turn_fd(const struct crn_job *job);
void crn_turn_tick(struct crn_job *job);

#endif
