/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a captured shard in an arena or a spill file: its encoded descriptor, then its
 * memory regions, each aligned so that it can be written to a file directly. Pure. */
#ifndef CRN_TIER_IMAGE_H
#define CRN_TIER_IMAGE_H

#include "format/format.h"

#define CRN_IMAGE_ALIGN 4096 /* of the image, and of regions of at least this size */

struct crn_image {
    uint64_t descriptor_bytes;
    uint64_t bytes; /* of the whole image, a multiple of CRN_IMAGE_ALIGN */
    uint64_t *at; /* owned; offset of each region; 0 for file regions, which are stored elsewhere */
};

/* Lays out the regions of a shard after a descriptor of this size. */
CAIRN_CHECKED cairn_err crn_image_layout(const struct crn_shard *shard, uint64_t descriptor_bytes,
                                         struct crn_image *ret, struct crn_errinfo *ei);
void crn_image_free(struct crn_image *image);

/* Checksums computed during a capture follow its image. Each memory region has one word that is 1
 * if its checksums are present, else 0, and one word per chunk. Returns the number of words,
 * saturated at UINT64_MAX: the shard may come from another process and be wrong. */
uint64_t crn_image_hash_words(const struct crn_shard *shard, uint64_t chunk_bytes);
/* Finds the checksums of each region in words; NULL for a region without any. */
void crn_image_hashes(const struct crn_shard *shard, uint64_t chunk_bytes, const uint64_t *words,
                      const uint64_t **ret);

#endif
