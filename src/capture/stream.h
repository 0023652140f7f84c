/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies large memory past the caches: the application needs them for its own data, and the copy is
 * not read again soon. Streaming stores also avoid fetching each line of the target first. */
#ifndef CRN_CAPTURE_STREAM_H
#define CRN_CAPTURE_STREAM_H

#include <stddef.h>

/* Like memcpy. Another thread or process that sees any later store of the caller sees the whole
 * copy. */
void crn_stream_copy(void *dst, const void *src, size_t bytes);

#endif
