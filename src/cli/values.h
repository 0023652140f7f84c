/* SPDX-License-Identifier: BSD-3-Clause */
/* cairn show --values: what the numbers of a region are. */
#ifndef CRN_CLI_VALUES_H
#define CRN_CLI_VALUES_H

#include "cli/cli.h"

/* words: NAME[@VERSION] and regions (none: all). rank -1: all ranks together. Returns cli_exit. */
int crn_values_show(struct cli *cli, int nwords, char **words, int64_t rank);

#endif
