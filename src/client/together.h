/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a version together: each data file is read once, no matter how many ranks need its
 * bytes. */
#ifndef CRN_CLIENT_TOGETHER_H
#define CRN_CLIENT_TOGETHER_H

#include "client/session.h"

enum crn_together_how {
    CRN_TOGETHER_LOOK,    /* open it: manifest and indexes */
    CRN_TOGETHER_VERIFY,  /* and verify all data, of copies on the nodes or else in the store */
    CRN_TOGETHER_RESTORE, /* open it and read the regions into the application's memory */
};
/* Collective. Opens the version on all ranks and does that; all ranks fail if one does. RESTORE:
 * before the first byte is written all ranks agree that the regions match; CAIRN_EDAMAGED later
 * leaves them undefined. */
CAIRN_CHECKED cairn_err crn_together_read(cairn_session *s, const char *name, int64_t version,
                                          enum crn_together_how how, const char *const *regions,
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
