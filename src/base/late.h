/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes made by another host become visible late on file systems that cache names and sizes
 * (fs_type.h, late_s). These functions retry until the cache must have expired. */
#ifndef CRN_BASE_LATE_H
#define CRN_BASE_LATE_H

#include "base/fs.h"

/* If a change made at changed_ns (wall clock of any host) may still be invisible here, sleeps
 * briefly and returns 1. Else returns 0 at once. */
int crn_late_again(const struct crn_fs *fs, int dfd, uint64_t changed_ns);
uint64_t crn_late_now(void); /* the wall clock of changed_ns */
/* fstatat of a file whose last change, at changed_ns, left it with this many bytes. Retries while
 * the result is stale. */
int crn_late_stat(const struct crn_fs *fs, int dfd, const char *path, uint64_t bytes,
                  uint64_t changed_ns, struct stat *ret);
/* Time of the last visible change; 0 if the file is not visible. */
uint64_t crn_late_changed(const struct crn_fs *fs, int dfd, const char *path);

#endif
