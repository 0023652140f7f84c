/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides the writes and their order, in two passes. The first counts and cuts the extents, the
 * second groups them into writes. An extent of at least pack_bytes is a write of its own;
 * smaller ones fill shared writes of at most block_bytes, in order. */
#include "aggregate/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "encode/merge.h"

static uint64_t plan_pieces(uint64_t bytes, uint64_t unit)
{
    return bytes / unit + (bytes % unit != 0);
}

static cairn_err plan_allocate(struct crn_plan *p, struct crn_errinfo *ei)
{
    size_t n = p->nextents != 0 ? p->nextents : 1;

    p->extents = calloc(n, sizeof(*p->extents));
    p->order = calloc(n, sizeof(*p->order));
    p->writes = calloc(n, sizeof(*p->writes));
    if (p->extents == NULL || p->order == NULL || p->writes == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a plan of %zu extents", n);
    return CAIRN_OK;
}

static void plan_cut(struct crn_plan *p, const struct crn_shard *const *shards, uint32_t nshards,
                     uint64_t block_bytes, uint64_t chunk_bytes)
{
    uint64_t n = 0;
    uint32_t s, r;

    for (s = 0; s < nshards; s++) {
        for (r = 0; r < shards[s]->nregions; r++) {
            uint64_t bytes = shards[s]->regions[r].bytes;
            uint64_t at;

            for (at = 0; at < bytes; at += block_bytes) {
                struct crn_extent *e = &p->extents[n++];

                e->shard = s;
                e->region = r;
                e->offset = at;
                e->bytes = bytes - at < block_bytes ? bytes - at : block_bytes;
                e->first_hash = p->nhashes;
                p->nhashes += plan_pieces(e->bytes, chunk_bytes);
                p->bytes += e->bytes;
            }
        }
    }
}

static uint32_t owner_of(const uint32_t *owner, const struct crn_extent *e)
{
    return owner != NULL ? owner[e->shard] : 0;
}

/* Large extents come first, one per write. The packed ones follow, so that large writes stay
 * aligned to blocks and the small ones end the file. */
static void plan_group(struct crn_plan *p, const uint32_t *owner, uint64_t block_bytes,
                       uint64_t pack_bytes)
{
    struct crn_write *w = NULL;
    uint64_t n = 0;
    uint64_t i;

    for (i = 0; i < p->nextents; i++) {
        if (p->extents[i].bytes < pack_bytes)
            continue;
        p->writes[p->nwrites++] = (struct crn_write){.first = n,
                                                     .nsegments = 1,
                                                     .owner = owner_of(owner, &p->extents[i]),
                                                     .bytes = p->extents[i].bytes};
        p->order[n++] = i;
    }
    for (i = 0; i < p->nextents; i++) {
        uint64_t bytes = p->extents[i].bytes;

        if (bytes >= pack_bytes)
            continue;
        if (w == NULL || w->bytes + bytes > block_bytes ||
            w->owner != owner_of(owner, &p->extents[i])) {
            w = &p->writes[p->nwrites++];
            *w = (struct crn_write){.first = n, .owner = owner_of(owner, &p->extents[i])};
        }
        w->nsegments++;
        w->bytes += bytes;
        p->order[n++] = i;
    }
}

cairn_err crn_plan_build(const struct crn_shard *const *shards, const uint32_t *owner,
                         uint32_t nshards, uint64_t block_bytes, uint64_t pack_bytes,
                         uint64_t chunk_bytes, struct crn_plan *ret, struct crn_errinfo *ei)
{
    struct crn_plan p = {0};
    cairn_err rc;
    uint32_t s, r;

    for (s = 0; s < nshards; s++)
        for (r = 0; r < shards[s]->nregions; r++)
            p.nextents += plan_pieces(shards[s]->regions[r].bytes, block_bytes);
    rc = plan_allocate(&p, ei);
    if (rc != CAIRN_OK) {
        crn_plan_free(&p);
        return rc;
    }
    plan_cut(&p, shards, nshards, block_bytes, chunk_bytes);
    plan_group(&p, owner, block_bytes, pack_bytes);
    *ret = p;
    return CAIRN_OK;
}

void crn_plan_free(struct crn_plan *p)
{
    free(p->extents);
    free(p->order);
    free(p->writes);
    free(p->streams);
    free(p->parts);
    free(p->shards);
    crn_merge_free(p->merge);
    memset(p, 0, sizeof(*p));
}
