/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a command as a child of `cairn run` and passes signals on to it. */
#ifndef CRN_CLI_LAUNCH_H
#define CRN_CLI_LAUNCH_H

#include <signal.h>

#include "base/err.h"

struct crn_launch {
    sigset_t signals; /* blocked in this process: those passed on, and SIGCHLD */
    int stop;         /* a signal that asks to end was passed on: do not start again */
};

/* Blocks the signals. */
void crn_launch_init(struct crn_launch *l);
/* Starts argv and waits for its end. TERM, INT, HUP, USR1 and USR2 that arrive meanwhile go to the
 * child; not a terminal's ^C, which the child gets by itself. *ret_status: as a shell says it, 128 +
 * N after signal N. With to_stderr, its output goes to standard error. An error: it could not be started. */
CAIRN_CHECKED cairn_err crn_launch_run(struct crn_launch *l, char *const *argv, int to_stderr,
                                       int *ret_status, struct crn_errinfo *ei);
/* Waits at most this long; ends early if a signal asks to end. */
void crn_launch_pause(struct crn_launch *l, int64_t ns);

#endif
