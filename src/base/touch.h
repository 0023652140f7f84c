/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes pages be there before they are needed. */
#ifndef CRN_TOUCH_H
#define CRN_TOUCH_H

#include <stddef.h>

/* Makes the pages of fresh memory, with up to 16 threads; the caller is one. */
void crn_touch(void *start, size_t bytes, int threads);
/* Makes the pages of memory that may be in use: what it holds stays. 0, or -1 where the kernel cannot or has
 * no room for them. */
int crn_populate(void *start, size_t bytes);

#endif
