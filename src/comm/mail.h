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

/* Sleeps between two looks for something that has not come for tries looks. */
void crn_comm_nap(unsigned tries);

#endif
