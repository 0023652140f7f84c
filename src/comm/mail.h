/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a communicator that are made without communication, and whose collectives are messages up and down
 * a tree. Who waits there sleeps, longer and longer: MPI's own collectives keep a core busy for each rank that
 * waits, which the threads of those that still work could use, and splitting a communicator takes several of
 * them. For collective calls that are rare and may wait for long. */
#ifndef CRN_COMM_MAIL_H
#define CRN_COMM_MAIL_H

#include "comm/comm.h"

struct crn_mail; /* opaque; what arrived for another part than the one that looks is kept here */

/* Local. Nobody else posts or polls on comm, which lives longer. */
CAIRN_CHECKED cairn_err crn_mail_open(struct crn_comm *comm, struct crn_mail **ret,
                                      struct crn_errinfo *ei);
void crn_mail_close(struct crn_mail *m); /* its parts are freed; NULL is fine */

/* Local. A communicator of these ranks (ascending; NULL: all n). All of them give it the same id, that none of
 * their parts has had before. It cannot be split. */
CAIRN_CHECKED cairn_err crn_mail_part(struct crn_mail *m, uint32_t id, const int *ranks, int n,
                                      struct crn_comm **ret, struct crn_errinfo *ei);

/* Ranks that hang. Until the watch ends (silence_ns is 0) a rank that waits on a part, for a collective or a
 * message, tells that it is there; when one is not heard for silence_ns all ranks fail with CAIRN_EPEER and its
 * number. All begin a watch after the same collective, and end it after another. What has failed stays so:
 * messages and collectives of all parts fail at once, and transfers may never end. */
void crn_mail_watch(struct crn_mail *m, int64_t silence_ns);
/* In long work without waiting, now and then: this rank is there. Costs nothing if it is not yet time. */
void crn_mail_beat(struct crn_mail *m);
/* NULL: it has not failed. */
const struct crn_errinfo *crn_mail_failure(const struct crn_mail *m);

/* Sleeps between two looks for something that has not come for tries looks. */
void crn_comm_nap(unsigned tries);

#endif
