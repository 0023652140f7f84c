/* SPDX-License-Identifier: BSD-3-Clause */
/* How long the versions of a name took to reach each level, from their manifests and the
 * statistics of their flushes. */
#ifndef CRN_CLI_LEVEL_TIMES_H
#define CRN_CLI_LEVEL_TIMES_H

#include "cli/cli.h"
#include "cli/flush_stats.h"

/* One version. Times in seconds; after the capture, as its slowest node saw them. Negative: not
 * known. */
struct cli_level_times {
    int64_t version;
    uint64_t bytes;
    double copy_s;      /* the longest copy of a rank: the application waited for it */
    double captured_s;  /* until all ranks had captured */
    double local_s;     /* until the local copies were durable */
    double protected_s; /* until all sets of nodes were protected, if before the end of the flush */
    double persistent_s; /* until the commit */
    double flush_s;      /* of that: the flush, which may begin late */
};

struct cli_level_history {
    struct cli_level_times *v; /* owned; by version */
    size_t n;
};

/* The slowest leader's time of each level. */
void crn_level_times_take(const struct cli_flush *f, struct cli_level_times *t);
/* The complete versions of a name. CAIRN_ENOENT if there is none. */
CAIRN_CHECKED cairn_err crn_level_times_load(const struct crn_store *st, const char *name,
                                             struct cli_level_history *ret, struct crn_errinfo *ei);
void crn_level_times_free(struct cli_level_history *h);
/* The median of a field over the versions that know it; negative if none does. */
double crn_level_times_median(const struct cli_level_history *h, size_t offset);

#endif
