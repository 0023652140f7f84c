/* SPDX-License-Identifier: BSD-3-Clause */
#include "aggregate/source.h"

#include <string.h>

#include "tier/area.h"

static int has_own_file(const struct crn_source *s, uint32_t region)
{
    return s->region_fd != NULL && s->region_fd[region] >= 0;
}

const unsigned char *crn_source_memory(const struct crn_source *s, const struct crn_extent *x)
{
    if (s->memory == NULL || has_own_file(s, x->region))
        return NULL;
    return s->memory + s->at[x->region] + x->offset;
}

cairn_err crn_source_read(const struct crn_source *s, const struct crn_extent *x,
                          const struct crn_fs *fs, unsigned char *dst, struct crn_errinfo *ei)
{
    const struct crn_region *r = &s->shard.regions[x->region];
    const unsigned char *p = crn_source_memory(s, x);

    if (p != NULL) {
        memcpy(dst, p, x->bytes);
        return CAIRN_OK;
    }
    if (has_own_file(s, x->region))
        return crn_fs_read_all(fs, s->region_fd[x->region], dst, x->bytes, x->offset, r->name, ei);
    if (s->area != NULL)
        return crn_area_read(s->area, s->area_at, s->area_bytes, s->at[x->region] + x->offset, dst,
                             x->bytes, ei);
    return crn_fs_read_all(fs, s->image_fd, dst, x->bytes, s->at[x->region] + x->offset,
                           "spilled image", ei);
}

const uint64_t *crn_source_known(const struct crn_source *s, const struct crn_extent *x,
                                 uint64_t at, uint64_t n)
{
    const uint64_t *known = s->hashes != NULL ? s->hashes[x->region] : NULL;
    uint64_t offset = x->offset + at;
    uint64_t left = s->shard.regions[x->region].bytes - offset;
    uint64_t unit = s->hash_chunk_bytes;

    if (known == NULL || offset % unit != 0 || n != (left < unit ? left : unit))
        return NULL;
    return &known[offset / unit];
}

uint64_t crn_source_hash(const struct crn_source *s, const struct crn_extent *x, uint64_t at,
                         const void *p, uint64_t n)
{
    const uint64_t *known = crn_source_known(s, x, at, n);

    return known != NULL ? *known : crn_hash(p, n);
}

void crn_source_ask_encode(const struct crn_write *w, const struct crn_extent *extents,
                           const uint64_t *order, const struct crn_source *sources,
                           struct crn_buf *ret)
{
    uint32_t i;

    crn_buf_u32(ret, w->nsegments);
    for (i = 0; i < w->nsegments; i++) {
        const struct crn_extent *x = &extents[order[w->first + i]];

        crn_buf_u32(ret, sources[x->shard].shard.rank);
        crn_buf_u32(ret, x->region);
        crn_buf_u64(ret, x->offset);
        crn_buf_u64(ret, x->bytes);
    }
}
