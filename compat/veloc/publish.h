/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies files that the application has handed over to their original names, in the background.
 * The checkpoint has the file in any case; this copy is for people and other programs. */
#ifndef CRN_VLC_PUBLISH_H
#define CRN_VLC_PUBLISH_H

#include "base/fs.h"

struct crn_vlc_publisher; /* opaque */
struct crn_vlc_copy;      /* opaque; one file in flight */

/* tag distinguishes this process's temporary files from those of others in the same directory. */
CAIRN_CHECKED cairn_err crn_vlc_publisher_open(const struct crn_fs *fs, const char *tag,
                                               struct crn_vlc_publisher **ret,
                                               struct crn_errinfo *ei);
/* Completes all copies, then stops the thread. NULL is fine. */
void crn_vlc_publisher_close(struct crn_vlc_publisher *p);

/* Takes ownership of fd, also on failure. The file appears at the path atomically. */
CAIRN_CHECKED cairn_err crn_vlc_publish(struct crn_vlc_publisher *p, int fd, const char *path,
                                        struct crn_vlc_copy **ret, struct crn_errinfo *ei);
int crn_vlc_copy_is_done(struct crn_vlc_publisher *p, const struct crn_vlc_copy *c);
/* Waits for a copy, returns its result and frees it. */
CAIRN_CHECKED cairn_err crn_vlc_copy_wait(struct crn_vlc_publisher *p, struct crn_vlc_copy *c,
                                          struct crn_errinfo *ei);

#endif
