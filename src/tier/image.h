/* SPDX-License-Identifier: BSD-3-Clause */
/* How a captured shard lies in an arena or a spill file: its encoded descriptor, then its memory
 * regions, each aligned so that it can be written to a file straight from there. Pure. */
#ifndef CRN_TIER_IMAGE_H
#define CRN_TIER_IMAGE_H

#include "format/format.h"

#define CRN_IMAGE_ALIGN 4096 /* of the image and of regions at least as large */

struct crn_image {
    uint64_t descriptor_bytes;
    uint64_t bytes; /* of the whole image, a multiple of CRN_IMAGE_ALIGN */
    uint64_t *at;   /* owned; where each region begins; 0 for file regions, which lie elsewhere */
};

/* Lays the regions of a shard behind a descriptor of this size. */
CAIRN_CHECKED cairn_err crn_image_layout(const struct crn_shard *shard, uint64_t descriptor_bytes,
                                         struct crn_image *ret, struct crn_errinfo *ei);
void crn_image_free(struct crn_image *image);

/* Checksums that were taken with a capture lie behind its image: for each memory region a word that is 1
 * if it has some, else 0, and one for each of its chunks. How many words, at most UINT64_MAX: the shard
 * may be another process's claim. */
uint64_t crn_image_hash_words(const struct crn_shard *shard, uint64_t chunk_bytes);
/* Finds those of each region among the words; NULL for a region that has none. */
void crn_image_hashes(const struct crn_shard *shard, uint64_t chunk_bytes, const uint64_t *words,
                      const uint64_t **ret);

#endif
