/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a version together: each of its data files once, however many ranks need bytes of it. */
#ifndef CRN_CLIENT_TOGETHER_H
#define CRN_CLIENT_TOGETHER_H

#include "client/session.h"

/* Collective. Opens the version on all ranks, verifies all of it, and brings what this rank will
 * restore into its arena where it has room: its own shard, or with another number of ranks the blocks
 * of global arrays that are protected now. All ranks fail if one does. */
CAIRN_CHECKED cairn_err crn_read_together(cairn_session *s, const char *name, int64_t version,
                                          struct crn_errinfo *ei);

/* From here on, or no more, a rank that does not answer ends what all wait for (comm/mail.h). All ranks call it
 * between the same two collectives. What the application's thread does alone meanwhile is short, or beats. */
void crn_watch_ranks(cairn_session *s, int is_on);

/* The rank in an image of blocks that were put together: it is no shard of the version. */
#define CRN_NOBODY (CRN_MAX_RANKS - 1)

/* What the arena holds of a version for this rank. */
struct crn_cached {
    struct crn_shard shard;
    struct crn_image image;
    const unsigned char *memory; /* NULL: nothing */
};
void crn_cached_open(const cairn_session *s, const struct crn_capture_id *id,
                     struct crn_cached *ret);
/* The bytes of this region; NULL if it is not there, or of another shape. */
const unsigned char *crn_cached_region(const struct crn_cached *h, const struct crn_region *want);
void crn_cached_close(struct crn_cached *h);
/* The same block of the same global array? */
int crn_same_block(const struct crn_region *a, const struct crn_region *b);
/* Where a shard has this region as it is wanted: the same type, size and, of a global array, block. -1: it has
 * not. */
int64_t crn_shard_find_same(const struct crn_shard *shard, const struct crn_region *want);

#endif
