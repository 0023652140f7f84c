/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of the golden files. Never change them: add a version instead. */
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

/* Version 14 is encoded, and its index is packed. */
static inline struct tv golden_packed(void)
{
    struct tv t = golden_version(14, 11);

    t.pipe = "delta,gzip";
    return t;
}
#define GOLDEN_INDEX_PIPE "gzip"

/* Versions 10 to 12, each encoded against the one before; then 11 is taken again, in full. */
struct golden_chain {
    struct tv ten, eleven, twelve, again;
};
static inline void golden_chain(struct golden_chain *c)
{
    c->ten = golden_version(10, 5);
    c->ten.pipe = "delta,gzip";
    c->eleven = golden_version(11, 7);
    c->eleven.pipe = "delta:1,gzip";
    c->eleven.older = &c->ten;
    c->twelve = golden_version(12, 8);
    c->twelve.pipe = "delta:1,shuffle,gzip";
    c->twelve.older = &c->eleven;
    c->again = golden_version(11, 9);
    c->again.pipe = "delta,gzip";
}

/* Version 13 has a region of 16-bit floats. */
static inline struct tv golden_types(void)
{
    struct tv t = golden_version(13, 10);

    t.state_type = CAIRN_BF16;
    return t;
}

/* Versions 15 to 17 have a generation. 16 is encoded, 17 against it. */
#define GOLDEN_GENERATION UINT64_C(0x0102030405060708)
struct golden_run {
    struct tv fifteen, sixteen, seventeen;
};
static inline void golden_run(struct golden_run *r)
{
    r->fifteen = golden_version(15, 12);
    r->sixteen = golden_version(16, 13);
    r->sixteen.pipe = "delta,gzip";
    r->seventeen = golden_version(17, 14);
    r->seventeen.pipe = "delta:1,gzip";
    r->seventeen.older = &r->sixteen;
    r->fifteen.generation = r->sixteen.generation = r->seventeen.generation = GOLDEN_GENERATION;
}

#endif
