/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that a forked child must not keep. A lock or a socket tells other processes that this
 * one lives; a child that inherits it says so after its parent has died. A child closes every
 * descriptor that is registered here before fork() returns in it. exec() needs none of this: all
 * descriptors are close-on-exec. */
#ifndef CRN_BASE_FORK_H
#define CRN_BASE_FORK_H

#include <stdint.h>
#include "base/fs.h"

/* Each makes a descriptor and registers it: a file that is to be locked, a nonblocking socket, a
 * connection of a nonblocking one. A negative errno on failure. No O_EXCL: openat may be called twice. */
int crn_fork_openat(const struct crn_fs *fs, int dfd, const char *name, int flags, mode_t mode);
int crn_fork_socket(int family, int type);
int crn_fork_accept(int listen_fd);
/* Forgets a registered descriptor, or any other, and closes it. */
void crn_fork_close(int fd);
/* Forgets it alone; the caller closes it next, as fs->close() does. */
void crn_fork_disown(int fd);

/* Differs between a process and each process forked from it. */
unsigned crn_fork_process(void);

#endif
