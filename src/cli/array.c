/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void crn_array_of_rank(struct cli_array *a, struct crn_version *v, const struct cli_item *item)
{
    memset(a, 0, sizeof(*a));
    a->v = v;
    a->rank = item->rank;
    a->index = item->index;
    a->region = *item->region;
    a->bytes = item->region->bytes;
}

cairn_err crn_array_whole(struct cli_array *a, struct crn_version *v, const struct cli_item *item,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    memset(a, 0, sizeof(*a));
    a->v = v;
    a->is_whole = 1;
    a->region = *item->region;
    memcpy(a->region.dims, a->region.global_dims, sizeof(a->region.dims));
    memset(a->region.offset, 0, sizeof(a->region.offset));
    rc = crn_region_check(&a->region, ei);
    a->bytes = a->region.bytes;
    return rc;
}

/* How the array is cut: along dimension `along`, in rows of `row` bytes, `rows` at a time. */
struct cut {
    unsigned along;
    uint64_t row, rows;
};

static struct cut find_cut(const struct cli_array *a, uint64_t max_bytes)
{
    struct cut c = {.along = a->region.ndims - 1U,
                    .row = cairn_type_size((cairn_type)a->region.type)};

    while (c.along > 0 && c.row * a->region.dims[c.along] <= max_bytes)
        c.row *= a->region.dims[c.along--];
    c.rows = max_bytes / c.row > 0 ? max_bytes / c.row : 1;
    return c;
}

/* Advances start to the next section; 0 at the end of the array. */
static int array_advance(const struct cli_array *a, const struct cut *c, struct cli_piece *p)
{
    unsigned d = c->along;

    p->offset += p->bytes;
    p->start[d] += p->count[d];
    while (p->start[d] >= a->region.dims[d]) {
        if (d == 0)
            return 0;
        p->start[d] = 0;
        p->start[--d]++;
    }
    return 1;
}

int crn_array_piece(const struct cli_array *a, uint64_t max_bytes, int is_first,
                    struct cli_piece *piece)
{
    struct cut c;
    uint64_t left;
    unsigned d;

    if (a->bytes == 0)
        return 0;
    c = find_cut(a, max_bytes);
    if (is_first)
        memset(piece, 0, sizeof(*piece));
    else if (!array_advance(a, &c, piece))
        return 0;
    for (d = 0; d < a->region.ndims; d++)
        piece->count[d] = d < c.along ? 1 : a->region.dims[d];
    left = a->region.dims[c.along] - piece->start[c.along];
    piece->count[c.along] = left < c.rows ? left : c.rows;
    piece->bytes = piece->count[c.along] * c.row;
    return 1;
}

cairn_err crn_array_read(const struct cli_array *a, const struct cli_piece *piece, void *buf,
                         struct crn_errinfo *ei)
{
    struct crn_region want;

    if (!a->is_whole)
        return crn_version_read(a->v, a->rank, a->index, piece->offset, piece->bytes, buf, ei);
    want = a->region;
    memcpy(want.dims, piece->count, sizeof(want.dims));
    memcpy(want.offset, piece->start, sizeof(want.offset));
    want.bytes = piece->bytes;
    return crn_version_read_block(a->v, &want, buf, ei);
}

void crn_array_position(const struct cli_array *a, uint64_t element, char *buf, size_t size)
{
    uint64_t at[CAIRN_MAX_DIMS];
    size_t used;
    unsigned d;

    for (d = a->region.ndims; d-- > 0;) {
        uint64_t n = a->region.dims[d] > 0 ? a->region.dims[d] : 1;

        at[d] = element % n;
        element /= n;
    }
    used = (size_t)snprintf(buf, size, "[");
    for (d = 0; d < a->region.ndims && used < size; d++)
        used += (size_t)snprintf(buf + used, size - used, "%s%" PRIu64, d > 0 ? ", " : "", at[d]);
    if (used < size)
        (void)snprintf(buf + used, size - used, "]");
}
