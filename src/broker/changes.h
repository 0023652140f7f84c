/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores the changes that administrators made at run time in a small file, which the next broker
 * reads. A drained token stays drained, and a chosen policy stays chosen. */
#ifndef CRN_BROKER_CHANGES_H
#define CRN_BROKER_CHANGES_H

#include "broker/conf.h"

/* Replaces the file with the differences between the tokens' current state and the
 * configuration. */
CAIRN_CHECKED cairn_err crn_changes_save(const char *path, const struct crn_broker_conf *conf,
                                         const struct crn_turns *turns, struct crn_errinfo *ei);
/* Applies the changes in the file, if it exists. Unknown tokens and policies are skipped and
 * counted. A malformed file is an error. */
CAIRN_CHECKED cairn_err crn_changes_load(const char *path, struct crn_turns *turns,
                                         unsigned *ret_unknown, struct crn_errinfo *ei);

#endif
