/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer and the reader of an image run the same function, so the offsets need not be stored.
 * Requires region sizes that crn_region_check has accepted. */
#include "tier/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_ALIGN 64

static uint64_t round_up(uint64_t x, uint64_t align)
{
    return (x + align - 1) / align * align;
}

cairn_err crn_image_layout(const struct crn_shard *shard, uint64_t descriptor_bytes,
                           struct crn_image *ret, struct crn_errinfo *ei)
{
    struct crn_image image = {.descriptor_bytes = descriptor_bytes};
    uint64_t end = descriptor_bytes;
    uint32_t i;

    image.at = calloc(shard->nregions != 0 ? shard->nregions : 1, sizeof(*image.at));
    if (image.at == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the layout of %u regions", shard->nregions);
    for (i = 0; i < shard->nregions; i++) {
        const struct crn_region *r = &shard->regions[i];

        if (r->kind == CRN_REGION_FILE)
            continue;
        end = round_up(end, r->bytes >= CRN_IMAGE_ALIGN ? CRN_IMAGE_ALIGN : SMALL_ALIGN);
        image.at[i] = end;
        if (r->bytes > (uint64_t)INT64_MAX - end - CRN_IMAGE_ALIGN) {
            free(image.at);
            return crn_fail(ei, CAIRN_EINVAL, 0, "region '%s' makes the shard of rank %u too large",
                            r->name, shard->rank);
        }
        end += r->bytes;
    }
    image.bytes = round_up(end, CRN_IMAGE_ALIGN);
    *ret = image;
    return CAIRN_OK;
}

void crn_image_free(struct crn_image *image)
{
    free(image->at);
    memset(image, 0, sizeof(*image));
}

/* The words of one region: its mark and its chunks. */
static uint64_t words_of(const struct crn_region *r, uint64_t chunk_bytes)
{
    return r->kind == CRN_REGION_FILE ? 0
                                      : 1 + r->bytes / chunk_bytes + (r->bytes % chunk_bytes != 0);
}

uint64_t crn_image_hash_words(const struct crn_shard *shard, uint64_t chunk_bytes)
{
    uint64_t n = 0;
    uint32_t i;

    for (i = 0; i < shard->nregions; i++)
        if (__builtin_add_overflow(n, words_of(&shard->regions[i], chunk_bytes), &n))
            return UINT64_MAX;
    return n;
}

void crn_image_hashes(const struct crn_shard *shard, uint64_t chunk_bytes, const uint64_t *words,
                      const uint64_t **ret)
{
    uint32_t i;

    for (i = 0; i < shard->nregions; i++) {
        uint64_t n = words_of(&shard->regions[i], chunk_bytes);

        ret[i] = n > 0 && words[0] == 1 ? words + 1 : NULL;
        words += n;
    }
}
