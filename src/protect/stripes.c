/* SPDX-License-Identifier: BSD-3-Clause */
/* See stripes.h: all positions are sums modulo the number of members. */
#include "protect/stripes.h"

#include <string.h>

#define ALIGN 64

void crn_stripes_plan(struct crn_protection s, uint32_t members, const uint64_t *length,
                      struct crn_stripes *ret)
{
    uint64_t longest = 0;
    uint32_t i;

    memset(ret, 0, sizeof(*ret));
    ret->scheme = s;
    ret->members = members;
    ret->columns = crn_scheme_columns(s, members);
    for (i = 0; i < members; i++) {
        ret->length[i] = length[i];
        longest = length[i] > longest ? length[i] : longest;
    }
    longest = longest / ret->columns + (longest % ret->columns != 0);
    ret->segment_bytes = (longest + ALIGN - 1) / ALIGN * ALIGN;
}

uint32_t crn_stripes_keeper(const struct crn_stripes *p, uint32_t stripe, uint32_t row)
{
    return (stripe + row) % p->members;
}

uint32_t crn_stripes_kept(const struct crn_stripes *p, uint32_t member, uint32_t row)
{
    return (member + p->members - row) % p->members;
}

uint32_t crn_stripes_of(const struct crn_stripes *p, uint32_t member, uint32_t segment)
{
    return (member + 2 * p->members - segment - p->scheme.parity) % p->members;
}

void crn_stripes_segment(const struct crn_stripes *p, uint32_t stripe, uint32_t column,
                         struct crn_segment *ret)
{
    uint32_t member = (stripe + p->scheme.parity + column) % p->members;
    uint64_t length = p->length[member];
    uint64_t offset = column * p->segment_bytes;

    ret->member = member;
    ret->offset = offset < length ? offset : length;
    ret->bytes = length - ret->offset < p->segment_bytes ? length - ret->offset : p->segment_bytes;
}

uint64_t crn_stripes_row_bytes(const struct crn_stripes *p, uint32_t stripe)
{
    struct crn_segment x;
    uint64_t bytes = 0;
    uint32_t c;

    for (c = 0; c < p->columns; c++) {
        crn_stripes_segment(p, stripe, c, &x);
        bytes = x.bytes > bytes ? x.bytes : bytes;
    }
    return bytes;
}

uint64_t crn_stripes_row_at(const struct crn_stripes *p, uint32_t member, uint32_t row)
{
    uint64_t at = 0;
    uint32_t r;

    for (r = 0; r < row; r++)
        at += crn_stripes_row_bytes(p, crn_stripes_kept(p, member, r));
    return at;
}
