/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiers of a session: GPU memory (device_cache) above the arena above the files of committed
 * versions. The tier cache (tier/cache.h) decides what lies where and moves it; the node service takes
 * images out of the arena as ever. Opened when a session first needs it: device memory is captured and
 * device_cache is set, or a hint was given. Until then, and where it cannot be opened, the arena alone
 * does. Application's thread only. */
#ifndef CRN_CLIENT_TIERS_H
#define CRN_CLIENT_TIERS_H

#include "client/gpu.h"
#include "tier/arena.h"
#include "tier/cache.h"
#include "tier/image.h"

struct crn_capture;
struct crn_track;
struct crn_tiers;  /* opaque; of a session that was given a hint or has device_cache */
struct crn_tiered; /* opaque: a checkpoint that the tiers know */

/* Opens them if they are wanted now and the arena is there. Never a reason to fail: says why in the
 * log and goes on without. */
void crn_tiers_open(cairn_session *s);
int crn_tiers_are_open(const cairn_session *s);
void crn_tiers_close(cairn_session *s);

/* Captures into the fastest tier with room; waits for it at most so long: CAIRN_EBUSY. CAIRN_ENOSPC: it
 * fits none. c->held is set, t gets the time of the copy. */
CAIRN_CHECKED cairn_err crn_tiers_write(cairn_session *s, struct crn_capture *c,
                                        struct crn_track *t, int64_t wait_ns,
                                        struct crn_errinfo *ei);
/* After CAIRN_EBUSY: nothing makes room but the flush of the service. */
int crn_tiers_are_full(const cairn_session *s);
/* A slot of the arena without memory, and the oldest capture that nobody flushes yet, dropped. */
CAIRN_CHECKED cairn_err crn_tiers_slot(cairn_session *s, struct crn_slot_info *info,
                                       uint32_t *ret_slot, struct crn_errinfo *ei);
int crn_tiers_supersede(cairn_session *s, struct crn_slot_info *ret);
/* The capture shall count: the service hears of it when it lies in the arena. */
CAIRN_CHECKED cairn_err crn_tiers_submit(cairn_session *s, struct crn_capture *c, uint64_t bytes,
                                         struct crn_errinfo *ei);
void crn_tiers_drop(cairn_session *s, struct crn_tiered *h); /* or it shall not */

/* A checkpoint whose parts are known and that has not failed; NULL if there is none. */
const struct crn_tiered *crn_tiers_find(cairn_session *s, const char *name, int64_t version);
/* Does some memory have it now, or is it on its way there? */
int crn_tiers_hold(cairn_session *s, const struct crn_tiered *h);
const struct crn_shard *crn_held_shard(const struct crn_tiered *h);
const struct crn_image *crn_held_image(const struct crn_tiered *h);
/* Reads pieces of it. CAIRN_ENOENT: it is in no memory, the files have to do. is_all: the application
 * has got all of it, and it may be discarded if so configured. */
CAIRN_CHECKED cairn_err crn_tiers_read(cairn_session *s, const struct crn_tiered *h,
                                       const struct crn_tier_piece *pieces, size_t n, int is_all,
                                       struct crn_errinfo *ei);
/* A read was made elsewhere: a hint of it is passed. */
void crn_tiers_passed(cairn_session *s, const char *name, int64_t version);

/* A checkpoint has failed, or does not count any more; and what the background lost, for the tracks. */
void crn_tiers_failed(cairn_session *s, uint64_t seq, cairn_err why);
void crn_tiers_news(cairn_session *s);

#endif
