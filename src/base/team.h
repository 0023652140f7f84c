/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a job of many parts on the calling thread and on helper threads. Helpers sleep between jobs.
 * They join only while cores are idle, and may leave when other tasks need a core. Any thread may
 * submit a job, several at the same time. */
#ifndef CRN_TEAM_H
#define CRN_TEAM_H

#include "base/thread.h"

struct crn_team; /* opaque */

struct crn_team_options {
    const char *name; /* of the threads; NULL: "cairn-help" */
    int helpers;
    /* How many teams of the node share its idle cores; 0: helpers always join. */
    int sharers;
    int stay; /* helpers stay until the job is done: a thread waits for it */
    int nice; /* of the helpers */
};

CAIRN_CHECKED cairn_err crn_team_open(const struct crn_team_options *options, struct crn_team **ret,
                                      struct crn_errinfo *ei);
void crn_team_close(struct crn_team *t); /* no job may be in progress; t may be NULL */
/* Calls part for each of 0 .. n-1, in any order, concurrently and without locks. Returns when no
 * call is running any more. After a failure no further call starts, and the first failure is
 * returned. */
CAIRN_CHECKED cairn_err crn_team_run(struct crn_team *t, uint64_t n,
                                     cairn_err (*part)(void *arg, uint64_t i,
                                                       struct crn_errinfo *ei),
                                     void *arg, struct crn_errinfo *ei);

#endif
