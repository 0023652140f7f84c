/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiers of a session: GPU memory (device_cache), the arena, the node's disk (local_cache), and
 * the files of committed versions. The tier cache (tier/cache.h) places and moves checkpoints; the
 * node service takes images out of the arena as without tiers. A session opens its tiers when it
 * first needs them: local_cache is set, device memory is captured with device_cache set, or the
 * application gave a hint. Until then, or if they cannot be opened, the session uses the arena
 * alone. Application's thread only. */
#ifndef CRN_CLIENT_TIERS_H
#define CRN_CLIENT_TIERS_H

#include "client/gpu.h"
#include "tier/arena.h"
#include "tier/cache.h"
#include "tier/image.h"

struct crn_capture;
struct crn_track;
struct crn_tiers;  /* opaque; of a session that needs tiers */
struct crn_tiered; /* opaque: a checkpoint known to the tiers */

/* Opens the tiers if the session needs them now and the arena exists. Never fails: on an error it
 * logs the reason and the session continues without tiers. */
void crn_tiers_open(cairn_session *s);
int crn_tiers_are_open(const cairn_session *s);
void crn_tiers_close(cairn_session *s);

/* Captures into the fastest tier with free space; waits for space at most wait_ns, then returns
 * CAIRN_EBUSY. CAIRN_ENOSPC: the capture fits in no tier. Sets c->held, and in t the time of the
 * copy. */
CAIRN_CHECKED cairn_err crn_tiers_write(cairn_session *s, struct crn_capture *c,
                                        struct crn_track *t, int64_t wait_ns,
                                        struct crn_errinfo *ei);
/* After CAIRN_EBUSY: can only the service's flush free space? */
int crn_tiers_are_full(const cairn_session *s);
/* crn_tiers_slot takes an arena slot without memory. crn_tiers_supersede drops the oldest capture
 * whose flush has not begun. */
CAIRN_CHECKED cairn_err crn_tiers_slot(cairn_session *s, struct crn_slot_info *info,
                                       uint32_t *ret_slot, struct crn_errinfo *ei);
int crn_tiers_supersede(cairn_session *s, crn_slot_may may, struct crn_slot_info *ret);
/* The capture counts: the service learns of it once it lies in the arena. */
CAIRN_CHECKED cairn_err crn_tiers_submit(cairn_session *s, struct crn_capture *c,
                                         const struct crn_track *t, struct crn_errinfo *ei);
void crn_tiers_drop(cairn_session *s, struct crn_tiered *h); /* the capture does not count */

/* A checkpoint whose regions are known and that has not failed; NULL if there is none. */
const struct crn_tiered *crn_tiers_find(cairn_session *s, const char *name, int64_t version);
/* Is it in some memory now, or on its way there? */
int crn_tiers_hold(cairn_session *s, const struct crn_tiered *h);
const struct crn_shard *crn_held_shard(const struct crn_tiered *h);
const struct crn_image *crn_held_image(const struct crn_tiered *h);
/* Reads regions of it. CAIRN_ENOENT: it is in no memory, read the files instead. is_all: the
 * application gets all of it, so that it may be discarded if so configured. */
CAIRN_CHECKED cairn_err crn_tiers_read(cairn_session *s, const struct crn_tiered *h,
                                       const struct crn_tier_piece *pieces, size_t n, int is_all,
                                       struct crn_errinfo *ei);
/* The application read this version elsewhere: its next hint is consumed. */
void crn_tiers_passed(cairn_session *s, const char *name, int64_t version);

/* crn_tiers_failed: a checkpoint has failed or no longer counts. crn_tiers_news: copies to the
 * tracks what the background lost. */
void crn_tiers_failed(cairn_session *s, uint64_t seq, cairn_err why);
void crn_tiers_news(cairn_session *s);

#endif
