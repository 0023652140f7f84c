/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/array.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void crn_array_of_rank(struct cli_array *a, struct crn_version *v, const struct cli_item *item)
{
    memset(a, 0, sizeof(*a));
    a->v = v;
    a->rank = item->rank;
    a->index = item->index;
    a->region = *item->region;
    a->bytes = item->region->bytes;
    memcpy(a->full, a->region.dims, sizeof(a->full));
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
    memcpy(a->full, a->region.dims, sizeof(a->full));
    return rc;
}

/* One word of a slice: "3", "3:7", ":7", "3:", ":". */
static cairn_err slice_word(const char *word, uint64_t dim, uint64_t *ret_from, uint64_t *ret_count,
                            struct crn_errinfo *ei)
{
    unsigned long long first = 0, last = dim;
    const char *colon = strchr(word, ':');
    char *end;

    errno = 0;
    if (word != colon) {
        first = strtoull(word, &end, 10);
        if (*end != (colon != NULL ? ':' : '\0') || !isdigit((unsigned char)word[0]))
            errno = EINVAL;
        last = colon != NULL ? dim : first + 1;
    }
    if (colon != NULL && colon[1] != '\0') {
        last = strtoull(colon + 1, &end, 10);
        if (*end != '\0' || !isdigit((unsigned char)colon[1]))
            errno = EINVAL;
    }
    if (errno != 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "slice '%s': write FIRST:END, FIRST: or one index",
                        word);
    if (first >= last || last > dim)
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "slice '%s' is empty or past the end: there are %" PRIu64
                        " elements in this dimension",
                        word, dim);
    *ret_from = first;
    *ret_count = last - first;
    return CAIRN_OK;
}

cairn_err crn_array_slice(struct cli_array *a, const char *text, struct crn_errinfo *ei)
{
    char copy[256];
    char *rest = copy;
    char *word;
    cairn_err rc = CAIRN_OK;
    unsigned d = 0;

    if (a->region.kind == CRN_REGION_FILE || strlen(text) >= sizeof(copy))
        return crn_fail(ei, CAIRN_EINVAL, 0, "'%s' has no slices", a->region.name);
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while ((word = strsep(&rest, ",")) != NULL && rc == CAIRN_OK && d < a->region.ndims) {
        rc = slice_word(word, a->full[d], &a->from[d], &a->region.dims[d], ei);
        d++;
    }
    if (rc != CAIRN_OK)
        return rc;
    if (word != NULL || d != a->region.ndims)
        return crn_fail(ei, CAIRN_EINVAL, 0, "slice '%s': '%s' has %u dimensions", text,
                        a->region.name, (unsigned)a->region.ndims);
    a->bytes = cairn_type_size((cairn_type)a->region.type);
    for (d = 0; d < a->region.ndims; d++)
        a->bytes *= a->region.dims[d];
    return CAIRN_OK;
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

/* How many bytes of the piece follow each other in the stored block, from its beginning on. */
static uint64_t run_bytes(const struct cli_array *a, const struct cli_piece *piece)
{
    uint64_t bytes = cairn_type_size((cairn_type)a->region.type);
    unsigned d = a->region.ndims;

    while (d-- > 0) {
        bytes *= piece->count[d];
        if (piece->count[d] != a->full[d])
            break;
    }
    return bytes;
}

/* Reads a piece from the block of one rank, run by run. */
static cairn_err read_runs(const struct cli_array *a, const struct cli_piece *piece, char *buf,
                           struct crn_errinfo *ei)
{
    uint64_t element = cairn_type_size((cairn_type)a->region.type);
    uint64_t run = run_bytes(a, piece);
    uint64_t done;
    cairn_err rc = CAIRN_OK;

    if (a->region.ndims == 0 || memcmp(a->full, a->region.dims, sizeof(a->full)) == 0)
        return crn_version_read(a->v, a->rank, a->index, piece->offset, piece->bytes, buf, ei);
    for (done = 0; done < piece->bytes && rc == CAIRN_OK; done += run) {
        uint64_t index = done / element; /* in the piece, then per dimension */
        uint64_t place = 0, stride = element;
        unsigned d = a->region.ndims;

        while (d-- > 0) {
            place += (a->from[d] + piece->start[d] + index % piece->count[d]) * stride;
            index /= piece->count[d];
            stride *= a->full[d];
        }
        rc = crn_version_read(a->v, a->rank, a->index, place, run, buf + done, ei);
    }
    return rc;
}

cairn_err crn_array_read(const struct cli_array *a, const struct cli_piece *piece, void *buf,
                         struct crn_errinfo *ei)
{
    struct crn_region want;
    unsigned d;

    if (!a->is_whole)
        return read_runs(a, piece, buf, ei);
    want = a->region;
    memcpy(want.dims, piece->count, sizeof(want.dims));
    memcpy(want.global_dims, a->full, sizeof(want.global_dims));
    for (d = 0; d < a->region.ndims; d++)
        want.offset[d] = a->from[d] + piece->start[d];
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
