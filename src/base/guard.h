/* SPDX-License-Identifier: BSD-3-Clause */
/* Protects mappings of files that another process may truncate. An access beyond the new end raises
 * SIGBUS, which would kill a daemon that serves many jobs. With the guard installed the access
 * reads zeros instead, and the owner of the mapping learns that its content is lost. For daemons
 * only: a library must not take over a signal of its application. */
#ifndef CRN_BASE_GUARD_H
#define CRN_BASE_GUARD_H

#include <stddef.h>

struct crn_guard; /* opaque: one mapping */

/* Call once at program start, after other libraries have installed their handlers. */
void crn_guard_install(void);
/* Registers a mapping. NULL if the guard is not installed, or out of memory. */
struct crn_guard *crn_guard_add(void *start, size_t bytes);
/* Call before the mapping is unmapped. g may be NULL. */
void crn_guard_remove(struct crn_guard *g);
/* True if an access went beyond the end of the file. g may be NULL. */
int crn_guard_was_hit(const struct crn_guard *g);

#endif
