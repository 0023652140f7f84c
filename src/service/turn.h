/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's turns on the file system: the first node asks the broker before it lets the nodes
 * flush, and returns the token when the checkpoint has ended. All on the loop thread; nothing
 * blocks. Without a configured broker every turn is granted at once. */
#ifndef CRN_SERVICE_TURN_H
#define CRN_SERVICE_TURN_H

#include "service/job.h"

/* On the first node, if a broker is configured. An unreachable broker is not a failure. */
void crn_turn_open(struct crn_job *job);
void crn_turn_close(struct crn_job *job);

enum crn_turn_verdict { CRN_TURN_NOT_YET, CRN_TURN_GO, CRN_TURN_STOP };
/* Asks the broker if that has not been done yet. STOP: a person has cancelled it; error says so. */
enum crn_turn_verdict crn_turn_check(struct crn_job *job, struct crn_item *item,
                                     struct crn_errinfo *error);
/* A node has reported how much it has written. */
void crn_turn_progress(struct crn_job *job, struct crn_item *item);
/* The checkpoint has ended: returns the token, or withdraws the request. */
void crn_turn_end(struct crn_job *job, struct crn_item *item);

/* The loop polls this descriptor and then calls crn_turn_tick; -1: none. */
int crn_turn_fd(const struct crn_job *job);
void crn_turn_tick(struct crn_job *job);

#endif
