/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies files that the application has handed over to the names it gave them, in the background.
 * The checkpoint holds the file anyway; this is the copy that people and other programs look at. */
#ifndef CRN_VLC_PUBLISH_H
#define CRN_VLC_PUBLISH_H

#include "base/fs.h"

struct crn_vlc_publisher; /* opaque */
struct crn_vlc_copy;      /* opaque; one file on its way */

/* tag tells this process' temporary files from those of others in the same directory. */
CAIRN_CHECKED cairn_err crn_vlc_publisher_open(const struct crn_fs *fs, const char *tag,
                                               struct crn_vlc_publisher **ret,
                                               struct crn_errinfo *ei);
/* Finishes what was handed over, and ends. NULL is fine. */
void crn_vlc_publisher_close(struct crn_vlc_publisher *p);

/* Takes fd over, also on failure. The file appears at the path at once and whole. */
CAIRN_CHECKED cairn_err crn_vlc_publish(struct crn_vlc_publisher *p, int fd, const char *path,
                                        struct crn_vlc_copy **ret, struct crn_errinfo *ei);
int crn_vlc_copy_is_done(struct crn_vlc_publisher *p, const struct crn_vlc_copy *c);
/* Waits for it, tells its result and frees it. */
CAIRN_CHECKED cairn_err crn_vlc_copy_wait(struct crn_vlc_publisher *p, struct crn_vlc_copy *c,
                                          struct crn_errinfo *ei);

#endif
