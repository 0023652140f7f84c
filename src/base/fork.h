/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that a forked child must not keep. A lock or a socket tells other processes that this
 * one is alive; a child that inherits it would say so after its parent has died. A forked child
 * closes every descriptor registered here before fork() returns in it. exec() needs none of this:
 * all descriptors are close-on-exec. */
#ifndef CRN_BASE_FORK_H
#define CRN_BASE_FORK_H

#include <stdint.h>
#include "base/fs.h"

/* Each creates a descriptor and registers it: a file to be locked, a nonblocking socket, a
 * connection accepted from one. Returns a negative errno on failure. flags must not contain O_EXCL:
 * crn_fork_openat may open the file twice. */
int crn_fork_openat(const struct crn_fs *fs, int dfd, const char *name, int flags, mode_t mode);
int crn_fork_socket(int family, int type);
int crn_fork_accept(int listen_fd);
/* Unregisters a descriptor, if it is registered, and closes it. */
void crn_fork_close(int fd);
/* Only unregisters it; the caller closes it next, as fs->close() does. */
void crn_fork_disown(int fd);

/* Differs between a process and each process forked from it. */
unsigned crn_fork_process(void);

#endif
