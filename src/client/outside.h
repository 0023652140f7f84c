/* SPDX-License-Identifier: BSD-3-Clause */
/* What others say about the end of this run: `cairn halt` through the store, Slurm about the time
 * limit. A thread of the first rank asks, from the first question of the application on, so that
 * neither a slow file system nor a slow controller delays the application. */
#ifndef CRN_CLIENT_OUTSIDE_H
#define CRN_CLIENT_OUTSIDE_H

#include "client/session.h"

struct crn_outside;

/* Starts the thread. NULL if it cannot be started: then there is no such advice. */
struct crn_outside *crn_outside_open(const cairn_session *s);
/* Never waits long: a thread that hangs in a system call is left to end by itself. */
void crn_outside_close(struct crn_outside *o);

struct crn_outside_view {
    int64_t end_ns; /* monotonic: the time limit, or the time of the request; 0: none */
    int is_now;     /* stop now */
    int is_next;    /* stop after the next checkpoint */
};
struct crn_outside_view crn_outside_look(struct crn_outside *o);

#endif
