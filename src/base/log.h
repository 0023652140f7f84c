/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines, by volume: error (the checkpoint is lost), warn (degraded, but continuing), info
 * (one line per checkpoint), debug (one per file), trace (one per message). Every line has the form
 *
 *     2026-11-18T03:12:44.123Z cairn warn job 4711 rank 12: text */
#ifndef CRN_LOG_H
#define CRN_LOG_H

#include <stddef.h>
#include <stdint.h>

enum crn_log_level { CRN_ERROR = 0, CRN_WARN, CRN_INFO, CRN_DEBUG, CRN_TRACE };

struct crn_config;
struct crn_log_writer;

/* A log belongs to a session, service or program; copies are cheap. */
struct crn_log {
    enum crn_log_level level; /* lines of a higher level are dropped */
    const char *file;         /* log_file of the configuration; NULL or "": stderr. Not owned */
    struct crn_log_writer *writer; /* takes the lines for file with put; NULL: none. Not owned */
    void (*put)(struct crn_log_writer *w, const struct crn_log *log, const char *line, size_t n);
    char job[136]; /* "job 4711" or "run 1a2b3c4d"; empty if there is neither */
    char who[24];  /* "rank 3", "node 0", "cairnd" */
};

/* The log of one component of a run. `who` is "rank", "node" or the like, `no` the number of that rank
 * or node (< 0: none). cfg->log_file must outlive the log and its copies. run may be NULL. */
void crn_log_init(struct crn_log *log, const struct crn_config *cfg, const uint8_t run[16],
                  const char *who, int64_t no);
/* Writes one line with one write(), so that lines of many processes do not mix. Opens the log file
 * for each line, so that no descriptor crosses a fork and a file that was rotated away is created
 * again. */
void crn_log(const struct crn_log *log, enum crn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a finished line to the file of the log, in the caller's thread. */
void crn_log_write(const struct crn_log *log, const char *line, size_t n);

/* Expands log_file: %j (job or run), %r (rank12, node3, cairnd), %h (host), %%. Returns 0, or -1 if
 * the result does not fit. */
int crn_log_path(const struct crn_log *log, char *ret, size_t size);

#endif
