/* SPDX-License-Identifier: BSD-3-Clause */
/* Conditions for every list of extents, whatever its origin. */
#ifndef FUZZ_EXTENTS_H
#define FUZZ_EXTENTS_H

#include <stdlib.h>

#include "encode/extents.h"

static inline void fuzz_extents_check(const struct crn_file_extents *x, uint64_t file_bytes)
{
    uint64_t end = 0;
    size_t i;
    unsigned d;

    for (i = 0; i < x->n; i++) {
        const struct crn_file_extent *e = &x->v[i];
        uint64_t bytes = cairn_type_size(e->type);

        if (e->offset < end || e->bytes > file_bytes || e->offset > file_bytes - e->bytes ||
            e->ndims < 1 || e->ndims > CAIRN_MAX_DIMS)
            abort();
        for (d = 0; d < e->ndims; d++)
            bytes *= e->dims[d];
        if (bytes != e->bytes)
            abort();
        end = e->offset + e->bytes;
    }
}

#endif
