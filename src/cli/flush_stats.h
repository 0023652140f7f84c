/* SPDX-License-Identifier: BSD-3-Clause */
/* How a version was flushed, from the statistics beside its data files. */
#ifndef CRN_CLI_FLUSH_STATS_H
#define CRN_CLI_FLUSH_STATS_H

#include "aggregate/stats.h"
#include "cli/cli.h"

/* One leader with its data file and statistics; assistants follow their leader. */
struct cli_leader {
    char file[CRN_FILE_NAME];
    int is_assistant;
    struct crn_flush_stats s;
};

struct cli_flush {
    struct cli_leader *leader; /* owned; in the order of the files */
    size_t n, room;
    uint32_t missing; /* files without statistics of this capture */
};

/* CAIRN_ENOENT if no file has any. */
CAIRN_CHECKED cairn_err crn_cli_flush_load(const struct crn_store *st, const struct crn_manifest *m,
                                           struct cli_flush *ret, struct crn_errinfo *ei);
void crn_cli_flush_free(struct cli_flush *f);

/* The time that one leader took to write local and received data, in seconds; all its writers
 * count as one. */
double crn_flush_stats_local_s(const struct crn_flush_stats *s);
double crn_flush_stats_received_s(const struct crn_flush_stats *s);

/* Prints tables of leaders, writers and followers; the same as JSON, with the timelines. */
void crn_cli_flush_print(const struct cli_flush *f);
void crn_cli_flush_json(struct crn_json *j, const struct cli_flush *f);

#endif
