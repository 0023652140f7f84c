/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines, by volume: error (the checkpoint is lost), warn (degraded, going on), info (one line a
 * checkpoint), debug (one a file), trace (one a message). */
#ifndef CRN_LOG_H
#define CRN_LOG_H

enum crn_log_level { CRN_ERROR = 0, CRN_WARN, CRN_INFO, CRN_DEBUG, CRN_TRACE };

/* A log belongs to a session, service or program; copies are cheap. Lines go to stderr. */
struct crn_log {
    enum crn_log_level level; /* lines above it are dropped */
    char tag[48];             /* "rank 3", "node 0", "cairnd" */
};

void crn_log(const struct crn_log *log, enum crn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const char *crn_log_level_name(enum crn_log_level level);

#endif
