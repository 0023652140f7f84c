/* SPDX-License-Identifier: BSD-3-Clause */
#include "test_golden.h"

struct tv golden_version(int64_t version, uint64_t seq)
{
    return (struct tv){.name = "golden",
                       .version = version,
                       .seq = seq,
                       .seed = (uint32_t)(100 + seq),
                       .ranks = 3,
                       .files = 2};
}

struct tv golden_encoded(void)
{
    struct tv t = golden_version(9, 4);

    t.pipe = "delta,gzip";
    return t;
}

struct tv golden_packed(void)
{
    struct tv t = golden_version(14, 11);

    t.pipe = "delta,gzip";
    return t;
}

void golden_chain(struct golden_chain *c)
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

struct tv golden_types(void)
{
    struct tv t = golden_version(13, 10);

    t.state_type = CAIRN_BF16;
    return t;
}

void golden_run(struct golden_run *r)
{
    r->fifteen = golden_version(15, 12);
    r->sixteen = golden_version(16, 13);
    r->sixteen.pipe = "delta,gzip";
    r->seventeen = golden_version(17, 14);
    r->seventeen.pipe = "delta:1,gzip";
    r->seventeen.older = &r->sixteen;
    r->fifteen.generation = r->sixteen.generation = r->seventeen.generation = GOLDEN_GENERATION;
}
