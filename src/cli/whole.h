/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies data files that were encoded against older ones, so that the copy needs none. */
#ifndef CLI_WHOLE_H
#define CLI_WHOLE_H

#include "cli/cli.h"
#include "store/data.h"

/* Writes the streams of `from` to fd, from its start, encoded without older versions. ret: the
 * index of the new file; everything but its streams (crn_streams_free) belongs to from. ret_end:
 * the end of the data. */
CAIRN_CHECKED cairn_err crn_cli_make_whole(const struct crn_data_file *from, int fd,
                                           const char *file, struct cli_progress *progress,
                                           struct crn_index *ret, uint64_t *ret_end,
                                           struct crn_errinfo *ei);

#endif
