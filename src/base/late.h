/* SPDX-License-Identifier: BSD-3-Clause */
/* What another host has written is seen late where file systems keep names and sizes of files in mind
 * (fs_type.h, late_s). It is looked at again then, until it must be seen. */
#ifndef CRN_BASE_LATE_H
#define CRN_BASE_LATE_H

#include "base/fs.h"

/* 1, after a moment, if what was changed at that time (wall clock, of any host) may still be seen as it was before;
 * else 0 at once. */
int crn_late_again(const struct crn_fs *fs, int dfd, uint64_t changed_ns);
uint64_t crn_late_now(void); /* the same clock */
/* As fstatat, of a file that had so many bytes when it was changed last. */
int crn_late_stat(const struct crn_fs *fs, int dfd, const char *path, uint64_t bytes,
                  uint64_t changed_ns, struct stat *ret);
/* When it was changed last, as far as can be seen; 0: it is not there. */
uint64_t crn_late_changed(const struct crn_fs *fs, int dfd, const char *path);

#endif
