/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of the golden files. Never change them: add a version instead. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "store/test_version.h"

#define GOLDEN_REASON "diverged at step 9"

/* Version 7 is capture 1, pinned; version 8 is capture 3, taken again and marked as bad. */
struct tv golden_version(int64_t version, uint64_t seq);
/* Version 9 is encoded. */
struct tv golden_encoded(void);
/* Version 14 is encoded, and its index is packed. */
struct tv golden_packed(void);
#define GOLDEN_INDEX_PIPE "gzip"

/* Versions 10 to 12, each encoded against the one before; then 11 is taken again, in full. */
struct golden_chain {
    struct tv ten, eleven, twelve, again;
};
void golden_chain(struct golden_chain *c);
/* Version 13 has a region of 16-bit floats. */
struct tv golden_types(void);

/* Versions 15 to 17 have a generation. 16 is encoded, 17 against it. */
#define GOLDEN_GENERATION UINT64_C(0x0102030405060708)
struct golden_run {
    struct tv fifteen, sixteen, seventeen;
};
void golden_run(struct golden_run *r);

#endif
