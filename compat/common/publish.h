/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies files that the application has handed over to their original names, in the background.
 * The checkpoint has the file in any case; this copy is for people and other programs. */
#ifndef CRN_COMPAT_PUBLISH_H
#define CRN_COMPAT_PUBLISH_H

#include "base/fs.h"

struct crn_publisher;    /* opaque */
struct crn_publish_copy; /* opaque; one file in flight */

struct crn_log;

/* tag distinguishes this process's temporary files from those of others in the same directory.
 * log (NULL: none) gets a line for each copy that fails, though nobody may wait for it. */
CAIRN_CHECKED cairn_err crn_publisher_open(const struct crn_fs *fs, const char *tag,
                                           const struct crn_log *log, struct crn_publisher **ret,
                                           struct crn_errinfo *ei);
/* Completes all copies, then stops the thread. NULL is fine. */
void crn_publisher_close(struct crn_publisher *p);

/* Takes ownership of fd, also on failure. The file appears at the path atomically. */
CAIRN_CHECKED cairn_err crn_publish_file(struct crn_publisher *p, int fd, const char *path,
                                         struct crn_publish_copy **ret, struct crn_errinfo *ei);
int crn_publish_is_done(struct crn_publisher *p, const struct crn_publish_copy *c);
/* Waits for a copy, returns its result and frees it. */
CAIRN_CHECKED cairn_err crn_publish_wait(struct crn_publisher *p, struct crn_publish_copy *c,
                                         struct crn_errinfo *ei);

#endif
