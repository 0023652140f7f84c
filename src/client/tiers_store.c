/* SPDX-License-Identifier: BSD-3-Clause */
/* The slowest tier of a session: committed versions, read and verified through restart/. An image
 * has this rank's shard as stored. If that shard is of no use (a different number of ranks took the
 * version, or blocks of global arrays have moved since), the image has the blocks that the
 * application protects, assembled from all shards. Files in the shard are not copied. get runs on
 * the cache's threads, everything else on the application's. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/tiers_impl.h"
#include "client/together.h"

struct tiers_store_store {
    struct crn_tier tier;
    struct crn_tiers *x;
};

static cairn_err open_version(const struct crn_tiers *x, const struct crn_tiered *h,
                              struct crn_version **ret, struct crn_errinfo *ei)
{
    struct crn_store st;
    cairn_err rc;

    rc = crn_store_open(x->s->fs, x->s->cfg.persistent, 0, &st, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_version_open(&st, h->info.name, h->info.version, ret, ei);
    crn_store_close(&st);
    if (rc == CAIRN_OK)
        crn_restart_add_local_copies(x->s, *ret, h->info.name, h->info.version);
    return rc;
}

/* This rank's shard, if the same number of ranks took the version; else NULL. */
static cairn_err own_shard(const cairn_session *s, struct crn_version *v,
                           const struct crn_shard **ret, struct crn_errinfo *ei)
{
    *ret = NULL;
    return crn_version_manifest(v)->ranks == s->ranks ? crn_version_shard(v, s->rank, ret, ei)
                                                      : CAIRN_OK;
}

/* Reading. ------------------------------------------------------------------------------------- */

static cairn_err read_region(struct crn_version *v, const struct crn_shard *own,
                             const struct crn_region *r, unsigned char *dst, struct crn_errinfo *ei)
{
    int64_t same = own != NULL ? crn_cached_find_same(own, r) : -1;

    if (same < 0)
        return crn_version_read_block(v, r, dst, ei);
    return crn_version_read(v, own->rank, (uint32_t)same, 0, r->bytes, dst, ei);
}

/* Reads the whole image; the bytes between the regions do not matter. */
static cairn_err read_image(const struct crn_tiers *x, const struct crn_tiered *h,
                            struct crn_version *v, unsigned char *dst, struct crn_errinfo *ei)
{
    const struct crn_shard *own;
    cairn_err rc;
    uint32_t i;

    if (!crn_capture_id_equal(&crn_version_manifest(v)->id, &h->info.id))
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "%s@%" PRId64 " was taken again by another run",
                        h->info.name, h->info.version);
    memcpy(dst, h->descriptor.data, h->descriptor.len);
    rc = own_shard(x->s, v, &own, ei);
    for (i = 0; rc == CAIRN_OK && i < h->shard.nregions; i++)
        rc = read_region(v, own, &h->shard.regions[i], dst + h->image.at[i], ei);
    return rc;
}

static cairn_err store_get(struct crn_tier *t, const struct crn_spot *spot, uint64_t at, void *dst,
                           uint64_t bytes, struct crn_errinfo *ei)
{
    const struct crn_tiers *x = ((struct tiers_store_store *)t)->x;
    const struct crn_tiered *h = crn_held_of(spot);
    struct crn_version *v = NULL;
    cairn_err rc;

    if (at != 0 || bytes != h->image.bytes)
        return crn_fail(ei, CAIRN_EBUG, 0, "a read of less than a whole stored image");
    rc = open_version(x, h, &v, ei);
    if (rc == CAIRN_OK)
        rc = read_image(x, h, v, dst, ei);
    crn_version_close(v);
    /* Removed meanwhile, or cannot be assembled: a retry does not help. */
    return rc == CAIRN_ENOENT || rc == CAIRN_EMISMATCH ? CAIRN_EDAMAGED : rc;
}

static void store_close(struct crn_tier *t)
{
    free(t);
}

static const struct crn_tier_ops store_ops = {
    .kind = "store",
    .get = store_get,
    .close = store_close,
};

cairn_err crn_tiers_store(struct crn_tiers *x, struct crn_tier **ret, struct crn_errinfo *ei)
{
    struct tiers_store_store *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a tier");
    t->x = x;
    t->tier.ops = &store_ops;
    t->tier.chain = (struct crn_chain_tier){.capacity = UINT64_MAX, .is_external = 1};
    *ret = &t->tier;
    return CAIRN_OK;
}

/* Contents of an image.
 * ------------------------------------------------------------------------- */

/* Does the application still protect the blocks that this rank stored? */
static int is_as_stored(const cairn_session *s, const struct crn_shard *own)
{
    uint32_t i;

    for (i = 0; own != NULL && i < s->nregions; i++) {
        const struct crn_region *r = &s->regions[i].region;

        if (r->is_global && crn_shard_find(own, CRN_REGION_MEMORY, r->name) >= 0 &&
            crn_cached_find_same(own, r) < 0)
            return 0;
    }
    return own != NULL;
}

/* Is it a block of an array in the version, judging by one of its shards? */
static int may_have_block(const struct crn_shard *some, const struct crn_region *r)
{
    int64_t k = crn_shard_find(some, CRN_REGION_MEMORY, r->name);
    const struct crn_region *h = k >= 0 ? &some->regions[k] : NULL;

    return h != NULL && r->is_global && h->is_global && h->type == r->type &&
           h->ndims == r->ndims &&
           memcmp(h->global_dims, r->global_dims, r->ndims * sizeof(r->dims[0])) == 0;
}

/* Fills ret->regions, which is large enough for all. */
static void choose_regions(const cairn_session *s, const struct crn_shard *own,
                           const struct crn_shard *some, struct crn_shard *ret)
{
    uint32_t i;

    if (is_as_stored(s, own)) {
        ret->rank = own->rank;
        for (i = 0; i < own->nregions; i++)
            if (own->regions[i].kind == CRN_REGION_MEMORY)
                ret->regions[ret->nregions++] = own->regions[i];
        return;
    }
    ret->rank = CRN_NOBODY;
    for (i = 0; i < s->nregions; i++) {
        const struct crn_region *r = &s->regions[i].region;

        if ((own != NULL && crn_cached_find_same(own, r) >= 0) || may_have_block(some, r))
            ret->regions[ret->nregions++] = *r;
    }
}

/* Copies the shard by encoding and decoding its descriptor. */
static cairn_err take_shard(struct crn_tiered *h, const struct crn_shard *shard,
                            struct crn_errinfo *ei)
{
    cairn_err rc = crn_shard_encode(shard, &h->descriptor, ei);

    if (rc == CAIRN_OK)
        rc = crn_shard_decode(h->descriptor.data, h->descriptor.len, h->info.name, &h->shard, ei);
    if (rc == CAIRN_OK)
        rc = crn_image_layout(&h->shard, h->descriptor.len, &h->image, ei);
    if (rc != CAIRN_OK) {
        crn_shard_free(&h->shard);
        crn_buf_free(&h->descriptor);
    }
    return rc;
}

static cairn_err learn_from(const cairn_session *s, struct crn_tiered *h, struct crn_version *v,
                            struct crn_errinfo *ei)
{
    uint32_t ranks = crn_version_manifest(v)->ranks;
    struct crn_shard shard = {0};
    const struct crn_shard *some;
    const struct crn_shard *own;
    cairn_err rc;

    rc = crn_version_shard(v, s->rank < ranks ? s->rank : ranks - 1, &some, ei);
    if (rc == CAIRN_OK)
        rc = own_shard(s, v, &own, ei);
    if (rc != CAIRN_OK)
        return rc;
    shard.regions = calloc(some->nregions + s->nregions + (size_t)1, sizeof(*shard.regions));
    if (shard.regions == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u regions", some->nregions + s->nregions);
    choose_regions(s, own, some, &shard);
    if (shard.nregions == 0)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "none of its regions is protected now");
    else
        rc = take_shard(h, &shard, ei);
    free(shard.regions);
    return rc;
}

cairn_err crn_tiers_learn(struct crn_tiers *x, struct crn_tiered *h, struct crn_errinfo *ei)
{
    struct crn_version *v = NULL;
    cairn_err rc;

    rc = open_version(x, h, &v, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = learn_from(x->s, h, v, ei);
    if (rc == CAIRN_OK) {
        crn_lock(&x->mu);
        h->info.id = crn_version_manifest(v)->id;
        h->info.descriptor_bytes = h->descriptor.len;
        h->info.bytes = h->info.image_bytes = h->image.bytes;
        h->is_known = h->is_flushed = 1;
        crn_unlock(&x->mu);
    }
    crn_version_close(v);
    return rc;
}
