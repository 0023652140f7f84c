/* SPDX-License-Identifier: BSD-3-Clause */
/* What administrators changed while the broker ran, in a small file that the next broker reads: a token
 * that is drained stays drained, and a policy that was chosen stays chosen. */
#ifndef CRN_BROKER_CHANGES_H
#define CRN_BROKER_CHANGES_H

#include "broker/conf.h"

/* Replaces the file by the differences between the tokens now and the configuration. */
CAIRN_CHECKED cairn_err crn_changes_save(const char *path, const struct crn_broker_conf *conf,
                                         const struct crn_turns *turns, struct crn_errinfo *ei);
/* Makes the changes in the file, if it is there. Tokens and policies that are no longer known are
 * passed over and counted. A file that is not understood is an error. */
CAIRN_CHECKED cairn_err crn_changes_load(const char *path, struct crn_turns *turns,
                                         unsigned *ret_unknown, struct crn_errinfo *ei);

#endif
