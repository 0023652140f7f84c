/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread (`cairn-log`) that writes the lines of logs, so that a caller never waits for the file
 * system of log_file. Lines are written in the order in which they were logged. */
#ifndef CRN_LOG_WRITER_H
#define CRN_LOG_WRITER_H

#include "base/err.h"
#include "base/log.h"

#define CRN_LOG_WAITING 1000 /* lines; more are dropped, and their number is logged later */

struct crn_log_writer;

CAIRN_CHECKED cairn_err crn_log_writer_open(struct crn_log_writer **ret, struct crn_errinfo *ei);
/* Writes what waits, then ends the thread. NULL is accepted. */
void crn_log_writer_close(struct crn_log_writer *w);
/* From now on w writes the lines of this log and its copies; it must outlive them. Logging never
 * blocks then: if too many lines wait, or without memory, a line is dropped. */
void crn_log_writer_use(struct crn_log_writer *w, struct crn_log *log);

#endif
