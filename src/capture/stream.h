/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies large memory past the caches: the copy is not read again soon, the application's data is.
 * Stores that bypass them also need not fetch each line of the target first. */
#ifndef CRN_CAPTURE_STREAM_H
#define CRN_CAPTURE_STREAM_H

#include <stddef.h>

/* As memcpy. Complete for other threads and processes once they see anything stored afterwards. */
void crn_stream_copy(void *dst, const void *src, size_t bytes);

#endif
