/* SPDX-License-Identifier: BSD-3-Clause */
/* Sub-communicators ("parts") that are created without communication, and whose collectives are
 * messages up and down a tree. A waiting rank sleeps, longer and longer. MPI's own collectives
 * spin: each waiting rank takes a core that the ranks still at work could use. Splitting an MPI
 * communicator takes several such collectives. For collective calls that are rare and may wait for
 * long. */
#ifndef CRN_COMM_MAIL_H
#define CRN_COMM_MAIL_H

#include "comm/comm.h"

struct crn_mail; /* opaque; keeps the messages that arrived for other parts */

/* Local. No other code may post or poll on comm, and comm must outlive the mailbox. */
CAIRN_CHECKED cairn_err crn_mail_open(struct crn_comm *comm, struct crn_mail **ret,
                                      struct crn_errinfo *ei);
void crn_mail_close(struct crn_mail *m); /* free its parts first; m may be NULL */

/* Local. Makes a communicator of these ranks (ascending; NULL: all n). All of them must pass the
 * same id, which none of their parts has used before. A part cannot be split. */
CAIRN_CHECKED cairn_err crn_mail_part(struct crn_mail *m, uint32_t id, const int *ranks, int n,
                                      struct crn_comm **ret, struct crn_errinfo *ei);

/* Starts a watch for hanging ranks, or ends it (silence_ns 0). During a watch a rank that waits on
 * a part, for a collective or a message, sends heartbeats. When a rank is silent for silence_ns,
 * all ranks fail with CAIRN_EPEER and its number. All ranks must start the watch after the same
 * collective, and end it after another. A failure is permanent: messages and collectives of all
 * parts fail at once, and transfers may never complete. */
void crn_mail_watch(struct crn_mail *m, int64_t silence_ns);
/* Sends a heartbeat if one is due. Call now and then during long computation without waits; cheap
 * if none is due. */
void crn_mail_beat(struct crn_mail *m);
/* The failure that a watch found, or NULL. */
const struct crn_errinfo *crn_mail_failure(const struct crn_mail *m);

/* Sleeps between two polls. tries is the number of polls so far that found nothing. */
void crn_comm_nap(unsigned tries);

#endif
