/* SPDX-License-Identifier: BSD-3-Clause */
/* After a restart from copies on the nodes' disks: checks the files on the parallel file system that
 * the restart did not read. Damage there must be known while the good copies still exist. A thread
 * of low priority reads for at most a tenth of the time, and stops when the session closes. */
#ifndef CRN_CLIENT_RECHECK_H
#define CRN_CLIENT_RECHECK_H

#include "client/session.h"

struct crn_recheck;

/* All ranks have read the open version, and some of them from copies. Checks the data file of this
 * rank, if this is the lowest rank of the file and the session has not checked it yet. */
void crn_recheck_begin(cairn_session *s);
/* 1: the file is damaged; 0: it is good, or could not be checked; -1: not known yet. r may be NULL,
 * as below. */
int crn_recheck_found(struct crn_recheck *r);
/* Never waits long: a thread that hangs in a system call is left to end by itself. */
void crn_recheck_close(struct crn_recheck *r);

#endif
