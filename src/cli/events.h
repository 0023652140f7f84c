/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of the journals, as `cairn ls --failed` and `cairn explain` show them. */
#ifndef CRN_CLI_EVENTS_H
#define CRN_CLI_EVENTS_H

#include "cli/cli.h"
#include "store/journal.h"

/* cairn ls --failed: the records of all names, of the given names, or of their versions. Returns
 * cli_exit. */
int crn_events_list(struct cli *cli, int argc, char **argv);

/* The records of a name, or of one version if it is not negative, oldest first. */
CAIRN_CHECKED cairn_err crn_events_read(struct cli *cli, const char *name, int64_t version,
                                        struct crn_journal *ret);
/* Writes them as an array of the current document. */
void crn_events_json(struct cli *cli, const char *key, const char *name,
                     const struct crn_journal *j);
/* The number of records of this kind. */
uint64_t crn_events_count(const struct crn_journal *j, const char *kind);

#endif
