/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart waits for its turn on the file system before it reads: the first rank asks the broker
 * and waits; the other ranks wait for the first. This never fails a restart, not even if an
 * administrator cancels the turn: an application that restarts needs its data. */
#ifndef CRN_CLIENT_READING_H
#define CRN_CLIENT_READING_H

#include "broker/kept.h"
#include "client/session.h"

/* Collective. Returns when this job may read; bytes is the size, as far as the first rank knows
 * it. */
CAIRN_CHECKED cairn_err crn_reading_begin(cairn_session *s, uint64_t bytes,
                                          struct crn_kept_turn **ret, struct crn_errinfo *ei);
/* turn NULL: the job has read without one, or not at all. Notes how long the read took. */
void crn_reading_end(cairn_session *s, struct crn_kept_turn *turn);

#endif
