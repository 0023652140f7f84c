/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults in pages before they are needed. */
#ifndef CRN_TOUCH_H
#define CRN_TOUCH_H

#include <stddef.h>

/* Faults in the pages of fresh memory, on up to 16 threads including the caller. May write zeros to
 * it. */
void crn_touch(void *start, size_t bytes, int threads);
/* Faults in the pages of memory that may be in use; its content stays. 0, or -1 if the kernel does
 * not support it or is out of memory. */
int crn_touch_populate(void *start, size_t bytes);

#endif
