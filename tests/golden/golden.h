/* SPDX-License-Identifier: BSD-3-Clause */
/* What the golden files hold. Never change it: add a version beside it. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "store/test_version.h"

#define GOLDEN_REASON "diverged at step 9"

/* Version 7 is capture 1, pinned; version 8 is capture 3, taken again and marked as bad. */
static inline struct tv golden_version(int64_t version, uint64_t seq)
{
    return (struct tv){.name = "golden",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)(100 + seq),
                       .ranks = 3,
                       .files = 2};
}

/* Version 9 is encoded. */
static inline struct tv golden_encoded(void)
{
    struct tv t = golden_version(9, 4);

    t.pipe = "delta,gzip";
    return t;
}

#endif
