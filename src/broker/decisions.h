/* SPDX-License-Identifier: BSD-3-Clause */
/* Appends decisions to a file, a line of JSON each, for a site that wants to see what its broker
 * did, or would do. The file is opened for each line, so it may be rotated at any time. */
#ifndef CRN_BROKER_DECISIONS_H
#define CRN_BROKER_DECISIONS_H

#include "broker/turns.h"

/* d was made at time_ns since 1970. */
CAIRN_CHECKED cairn_err crn_decisions_append(const char *path, const struct crn_turns_decision *d,
                                             int64_t time_ns, struct crn_errinfo *ei);

#endif
