/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of files that another process may truncate. An access behind the new end raises SIGBUS, which would end a
 * daemon that serves many jobs. With the guard installed the access reads zeros instead, and the owner of the mapping
 * learns that its content is lost. For daemons only: a library does not take a signal of its application. */
#ifndef CRN_BASE_GUARD_H
#define CRN_BASE_GUARD_H

#include <stddef.h>

struct crn_guard; /* opaque: one mapping */

/* Once, at the start of a program, after other libraries have installed their handlers. */
void crn_guard_install(void);
/* NULL if no guard is installed, or memory is short. */
struct crn_guard *crn_guard_add(void *start, size_t bytes);
/* Before the mapping goes. NULL is fine. */
void crn_guard_remove(struct crn_guard *g);
/* Has an access met the end of the file? NULL is fine. */
int crn_guard_was_hit(const struct crn_guard *g);

#endif
