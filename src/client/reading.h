/* SPDX-License-Identifier: BSD-3-Clause */
/* A restart read takes its turn on the file system too: the first rank asks the broker and waits; the
 * others wait for the first. Never a reason to fail, not even when a person cancels it: an application
 * that restarts needs its data. */
#ifndef CRN_CLIENT_READING_H
#define CRN_CLIENT_READING_H

#include "broker/kept.h"
#include "client/session.h"

/* Collective. Returns when this job may read; bytes is what the first rank knows of the size. */
CAIRN_CHECKED cairn_err crn_reading_begin(cairn_session *s, uint64_t bytes,
                                          struct crn_kept_turn **ret, struct crn_errinfo *ei);

#endif
