/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes pages be there before they are needed. */
#ifndef CRN_TOUCH_H
#define CRN_TOUCH_H

#include <stddef.h>

/* Writes one zero byte to each page of fresh memory, with up to 16 threads; the caller is one. */
void crn_touch(void *start, size_t bytes, int threads);

#endif
