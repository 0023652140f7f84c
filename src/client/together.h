/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a version together: each data file is read once, no matter how many ranks need its
 * bytes. */
#ifndef CRN_CLIENT_TOGETHER_H
#define CRN_CLIENT_TOGETHER_H

#include "client/session.h"

/* Collective. Opens the version on all ranks and verifies all of it. Brings what this rank will
 * restore into its arena, if it has space: its own shard or, if the number of ranks differs, the
 * blocks of global arrays that are protected now. All ranks fail if one does. */
CAIRN_CHECKED cairn_err crn_together_read(cairn_session *s, const char *name, int64_t version,
                                          struct crn_errinfo *ei);

/* Turns the watchdog over the ranks on or off: while it is on, a rank that falls silent fails the
 * collective that the others wait in (comm/mail.h). All ranks call it between the same two
 * collectives. Meanwhile the application's thread does only short operations alone, or sends
 * heartbeats. */
void crn_together_watch(cairn_session *s, int is_on);

/* The rank number in an image assembled from blocks: it is no shard of the version. */
#define CRN_NOBODY (CRN_MAX_RANKS - 1)

/* What the arena has of a version for this rank. */
struct crn_cached {
    struct crn_shard shard;
    struct crn_image image;
    const unsigned char *memory; /* NULL: nothing */
};
void crn_cached_open(const cairn_session *s, const struct crn_capture_id *id,
                     struct crn_cached *ret);
/* The bytes of this region; NULL if it is missing or has a different shape. */
const unsigned char *crn_cached_region(const struct crn_cached *h, const struct crn_region *want);
void crn_cached_close(struct crn_cached *h);
/* The same block of the same global array? */
int crn_cached_same_block(const struct crn_region *a, const struct crn_region *b);
/* The index of the region in the shard with the same type, size and, for a global array, block. -1:
 * there is none. */
int64_t crn_cached_find_same(const struct crn_shard *shard, const struct crn_region *want);

#endif
