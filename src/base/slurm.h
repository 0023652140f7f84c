/* SPDX-License-Identifier: BSD-3-Clause */
/* What Slurm says about the job that this process belongs to. */
#ifndef CRN_SLURM_H
#define CRN_SLURM_H

#include "base/err.h"

/* The job's number; NULL outside a job. */
const char *crn_slurm_job(void);
/* Seconds until the time limit, asked from squeue; blocks for at most 30 s. CAIRN_ENOENT: the job
 * has no limit. */
CAIRN_CHECKED cairn_err crn_slurm_time_left(const char *job, int64_t *ret_seconds,
                                            struct crn_errinfo *ei);
/* "2-03:04:05", "03:04:05", "04:05"; -1 for anything else. */
int64_t crn_slurm_parse_time(const char *text);
/* Runs a program found in $PATH and returns what it prints, without the last newline, cut at size.
 * It is killed after timeout_ms. Safe in a process with threads: the child only executes. */
CAIRN_CHECKED cairn_err crn_slurm_run_for_text(const char *const *argv, int timeout_ms, char *text,
                                               size_t size, struct crn_errinfo *ei);

#endif
