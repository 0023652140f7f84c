/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart read takes its turn on the file system too: the first rank asks the broker and waits; the
 * others wait for the first. Never a reason to fail: without a broker, or when the wait gets longer
 * than broker_max_wait, the read begins. */
#ifndef CRN_CLIENT_READING_H
#define CRN_CLIENT_READING_H

#include "client/session.h"

struct crn_reading;

/* Collective. Returns when this job may read; bytes is what the first rank knows of the size. */
CAIRN_CHECKED cairn_err crn_reading_begin(cairn_session *s, uint64_t bytes,
                                          struct crn_reading **ret, struct crn_errinfo *ei);
/* Local; NULL is allowed. */
void crn_reading_end(struct crn_reading *r);

#endif
