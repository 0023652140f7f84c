/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena as a cache for a restart. An image describes its own contents: the shard as stored, or
 * the blocks that were assembled for this rank. */
#include <string.h>

#include "client/together.h"

void crn_cached_open(const cairn_session *s, const struct crn_capture_id *id,
                     struct crn_cached *ret)
{
    struct crn_errinfo ignored = {0};
    struct crn_slot_info info;
    const unsigned char *memory;
    int slot;

    memset(ret, 0, sizeof(*ret));
    slot = s->arena != NULL ? crn_arena_find(s->arena, id) : -1;
    if (slot < 0 || crn_slot_info(s->arena, (uint32_t)slot, &info, &ignored) != CAIRN_OK)
        return;
    memory = crn_slot_memory(s->arena, &info);
    if (crn_shard_decode(memory, info.descriptor_bytes, "the arena", &ret->shard, &ignored) !=
        CAIRN_OK)
        return;
    if (crn_image_layout(&ret->shard, info.descriptor_bytes, &ret->image, &ignored) == CAIRN_OK &&
        ret->image.bytes == info.image_bytes)
        ret->memory = memory;
}

int crn_cached_same_block(const struct crn_region *a, const struct crn_region *b)
{
    size_t n = a->ndims * sizeof(a->dims[0]);

    return a->is_global && b->is_global && a->ndims == b->ndims &&
           memcmp(a->dims, b->dims, n) == 0 && memcmp(a->offset, b->offset, n) == 0 &&
           memcmp(a->global_dims, b->global_dims, n) == 0;
}

int64_t crn_cached_find_same(const struct crn_shard *shard, const struct crn_region *want)
{
    int64_t i = crn_shard_find(shard, CRN_REGION_MEMORY, want->name);
    const struct crn_region *r = i >= 0 ? &shard->regions[i] : NULL;

    if (r == NULL || r->type != want->type || r->bytes != want->bytes ||
        r->is_global != want->is_global || (want->is_global && !crn_cached_same_block(r, want)))
        return -1;
    return i;
}

const unsigned char *crn_cached_region(const struct crn_cached *h, const struct crn_region *want)
{
    int64_t i = h->memory != NULL ? crn_shard_find(&h->shard, CRN_REGION_MEMORY, want->name) : -1;
    const struct crn_region *r = i >= 0 ? &h->shard.regions[i] : NULL;

    if (r == NULL || r->type != want->type || r->bytes != want->bytes ||
        (want->is_global && !crn_cached_same_block(r, want)))
        return NULL;
    return h->memory + h->image.at[i];
}

void crn_cached_close(struct crn_cached *h)
{
    crn_image_free(&h->image);
    crn_shard_free(&h->shard);
    h->memory = NULL;
}
