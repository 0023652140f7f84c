/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tokens did in the last hours, for the picture of the status page: a ring of buckets of
 * equal length for each token, allocated once. Pure; times are nanoseconds of one clock. */
#ifndef CRN_BROKER_HISTORY_H
#define CRN_BROKER_HISTORY_H

#include "broker/turns.h"

#define CRN_HISTORY_BUCKETS 240

struct crn_history;

/* One bucket. */
struct crn_history_bucket {
    double holders, waiting; /* means over the time */
    double oldest_s;         /* the longest wait seen */
    uint64_t granted, taken;
};

CAIRN_CHECKED cairn_err crn_history_new(size_t ntokens, int64_t span_ns, int64_t now_ns,
                                        struct crn_history **ret, struct crn_errinfo *ei);
void crn_history_free(struct crn_history *h);
/* The state of a token from now on, until the next note. */
void crn_history_note(struct crn_history *h, int64_t now_ns, size_t token,
                      const struct crn_bp_token_row *row);
/* The buckets that have begun, oldest first, the current one included; returns their number. */
size_t crn_history_read(const struct crn_history *h, size_t token,
                        struct crn_history_bucket ret[CRN_HISTORY_BUCKETS]);

#endif
