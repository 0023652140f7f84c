/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides of a transfer walk the same runs, so only the range travels with the bytes. The runs
 * must not overlap and must ascend in the stored region. */
#include "restart/slice.h"

#include <string.h>

uint64_t crn_slice_bytes(const struct crn_slice *p)
{
    uint64_t n = p->run;
    uint32_t d;

    for (d = 0; d < p->ndims; d++)
        n *= p->count[d];
    return n;
}

uint64_t crn_slice_end(const struct crn_slice *p)
{
    uint64_t last = p->from;
    uint32_t d;

    for (d = 0; d < p->ndims; d++)
        last += (p->count[d] - 1) * p->from_step[d];
    return last + p->run;
}

/* Advances to the next run, like an odometer. */
static void slice_step(struct crn_slice_at *at)
{
    const struct crn_slice *p = at->p;
    uint32_t d;

    for (d = p->ndims; d > 0; d--) {
        uint32_t i = d - 1;

        at->from += p->from_step[i];
        at->to += p->to_step[i];
        if (++at->pos[i] < p->count[i])
            return;
        at->from -= p->count[i] * p->from_step[i];
        at->to -= p->count[i] * p->to_step[i];
        at->pos[i] = 0;
    }
    at->is_over = 1;
}

struct crn_slice_at crn_slice_seek(const struct crn_slice *p, uint64_t begin, uint64_t end)
{
    struct crn_slice_at at = {.p = p, .begin = begin, .end = end, .from = p->from, .to = p->to};
    uint32_t d;

    at.is_over = p->run == 0 || begin >= crn_slice_end(p);
    /* In each dimension skip to the last step that starts at or before begin. It may reach into the
     * range; earlier steps do not. */
    for (d = 0; d < p->ndims && !at.is_over; d++) {
        uint64_t skip = begin > at.from ? (begin - at.from) / p->from_step[d] : 0;

        if (skip >= p->count[d])
            skip = p->count[d] - 1;
        at.pos[d] = skip;
        at.from += skip * p->from_step[d];
        at.to += skip * p->to_step[d];
    }
    while (!at.is_over && at.from + p->run <= begin)
        slice_step(&at);
    return at;
}

int crn_slice_next(struct crn_slice_at *at, struct crn_slice_run *ret)
{
    uint64_t stop = at->from + at->p->run;
    uint64_t cut;

    if (at->is_over || at->from >= at->end)
        return 0;
    cut = at->begin > at->from ? at->begin - at->from : 0;
    if (stop > at->end)
        stop = at->end;
    ret->from = at->from + cut;
    ret->to = at->to + cut;
    ret->bytes = stop - ret->from;
    slice_step(at);
    return 1;
}

uint64_t crn_slice_count(const struct crn_slice *p, uint64_t begin, uint64_t end)
{
    struct crn_slice_at at = crn_slice_seek(p, begin, end);
    struct crn_slice_run r;
    uint64_t n = 0;

    if (begin <= p->from && end >= crn_slice_end(p))
        return crn_slice_bytes(p);
    while (crn_slice_next(&at, &r))
        n += r.bytes;
    return n;
}

void crn_slice_copy(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    unsigned char *memory)
{
    struct crn_slice_at at = crn_slice_seek(p, begin, end);
    const unsigned char *src = data;
    struct crn_slice_run r;

    while (crn_slice_next(&at, &r))
        memcpy(memory + r.to, src + (r.from - begin), r.bytes);
}

void crn_slice_pack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *data,
                    void *packed)
{
    struct crn_slice_at at = crn_slice_seek(p, begin, end);
    const unsigned char *src = data;
    unsigned char *dst = packed;
    struct crn_slice_run r;

    while (crn_slice_next(&at, &r)) {
        memcpy(dst, src + (r.from - begin), r.bytes);
        dst += r.bytes;
    }
}

void crn_slice_unpack(const struct crn_slice *p, uint64_t begin, uint64_t end, const void *packed,
                      unsigned char *memory)
{
    struct crn_slice_at at = crn_slice_seek(p, begin, end);
    const unsigned char *src = packed;
    struct crn_slice_run r;

    while (crn_slice_next(&at, &r)) {
        memcpy(memory + r.to, src, r.bytes);
        src += r.bytes;
    }
}
