/* SPDX-License-Identifier: BSD-3-Clause */
/* Work in parts that the thread which has it shares with helpers. They sleep between; they join only while
 * cores are idle, and may leave when somebody else wants to run. Any thread may bring work, several at once. */
#ifndef CRN_TEAM_H
#define CRN_TEAM_H

#include "base/thread.h"

struct crn_team; /* opaque */

struct crn_team_options {
    const char *name; /* of the threads; NULL: "cairn-help" */
    int helpers;
    int sharers; /* how many teams of the node share the cores that are idle; 0: helpers always join */
    int stay;    /* somebody waits: helpers that have joined stay until the work is done */
    int nice;    /* of the helpers */
};

CAIRN_CHECKED cairn_err crn_team_open(const struct crn_team_options *options, struct crn_team **ret,
                                      struct crn_errinfo *ei);
void crn_team_close(struct crn_team *t); /* no work is in hand. NULL is fine */
/* Calls part for each of 0 .. n-1, in any order, several at once, without locks; returns when none runs any
 * more. After a failure no further one begins, and the first failure is returned. */
CAIRN_CHECKED cairn_err crn_team_run(struct crn_team *t, uint64_t n,
                                     cairn_err (*part)(void *arg, uint64_t i,
                                                       struct crn_errinfo *ei),
                                     void *arg, struct crn_errinfo *ei);

#endif
