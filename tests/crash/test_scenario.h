/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a small store, step by step, and the conditions that hold wherever it is
 * interrupted:
 *
 *     there are versions 1 and 2; 3 is written; 3 is taken again; 1 is marked; retention removes 1;
 *     2 is removed; 6 is written, into the files of 1; a sweep cleans up.
 *
 * Promise 3 of the design: a version that was committed before the current step exists, whole,
 * unless the step removes it. What the step changes is old or new. Nothing else is visible.
 *
 * With scenario_has_chains each version is encoded against the one before; 3, when taken again, against
 * its own first capture. So 1 stays as long as it is needed. Instead of removing 2, retention
 * removes all of them, after a full version 5. Every version with a manifest must be readable
 * through its chain. */
#ifndef CRN_TEST_SCENARIO_H
#define CRN_TEST_SCENARIO_H

#include "base/test.h"
#include "store/test_version.h"

enum step { LOCK, WRITE3, RETAKE3, MARK1, RETAIN, REMOVE2, WRITE6, SWEEP, STEPS };

struct progress {
    int begun[STEPS];
    int ok[STEPS];
    int was_failing; /* calls failed: a step that cannot see a pin, say, keeps a version */
};

extern const char *const scenario_steps[STEPS];

/* The slow variant of a test strikes every point, the other one every n-th. */
long scenario_every(long n);
/* POSIX without waiting for the disk: a kill does not lose the kernel's pages. */
struct crn_fs scenario_fs(void);

extern int scenario_has_chains;
/* A version is encoded against the capture before; versions from 5 on are full. */
struct tv scenario_version(int64_t version, uint64_t seq);
cairn_err scenario_run(const struct crn_store *st, enum step step, int *lock_fd,
                       struct crn_errinfo *ei);
/* Versions 1 and 2, as another run left them. */
void scenario_begin(const char *dir);
/* The conditions after the steps in p, wherever the last one was interrupted. */
void scenario_check_promise(const struct crn_store *st, const struct progress *p, const char *when);
/* The next run: checks, sweeps, checks again, and works. */
void scenario_check_recovery(const char *dir, const struct progress *p, const char *when,
                             int go_on);

#endif
