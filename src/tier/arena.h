/* SPDX-License-Identifier: BSD-3-Clause */
/* The host tier of one process: a shared-memory file, mapped and touched once, then reused. The
 * application's process writes captures into it; the node service reads them from the same pages.
 * If all of these processes die, the file still says which captures are complete, for a drain.
 *
 * Two processes share it without a lock. Each slot has one owner at a time, given by its state:
 *
 *     FREE -> WRITING -> WRITTEN -> FLUSHING -> FLUSHED -> FREE
 *     FREE -> READING -> READ -> FREE
 *     WRITTEN -> FREE (superseded)
 *     FLUSHING -> FAILED (the flush failed or was given up) -> FREE
 *     FLUSHING -> WRITTEN (copied to the local tier, its flush has not begun)
 *     FLUSHED -> LENT -> FLUSHED (the service reads it again, to encode the next version)
 *     FLUSHING -> KEPT -> FREE (it failed after the service promised it to all ranks: a drain finds
 *                               it until the application needs the space)
 *
 * A WRITTEN image may move from memory to the node's disk (area.h). Its slot is then "out" until
 * the slot is freed, and takes no space in the arena. The process that claims the slot finds the
 * image on the disk.
 *
 * The application owns FREE, WRITING, FLUSHED, FAILED, KEPT, READING and READ. The service owns
 * FLUSHING and LENT. A WRITTEN slot belongs to the first process that moves it (service: FLUSHING,
 * application: superseded). The image of a READING slot may be lent to another process of the node,
 * which fills it (client/mates.h); the slot still belongs to its owner. */
#ifndef CRN_TIER_ARENA_H
#define CRN_TIER_ARENA_H

#include <stdatomic.h>
#include "base/fs.h"
#include "format/format.h"

#define CRN_ARENA_SLOTS     1024  /* of an arena, at least ... */
#define CRN_ARENA_SLOTS_MAX 16384 /* ... and at most */

enum crn_slot_state {
    CRN_SLOT_FREE = 0,
    CRN_SLOT_WRITING,
    CRN_SLOT_WRITTEN,
    CRN_SLOT_FLUSHING,
    CRN_SLOT_FLUSHED,
    CRN_SLOT_READING,
    CRN_SLOT_READ,
    CRN_SLOT_FAILED,
    CRN_SLOT_KEPT,
    CRN_SLOT_LENT,
};

static inline int crn_slot_is_flushed(enum crn_slot_state s)
{
    return s == CRN_SLOT_FLUSHED || s == CRN_SLOT_LENT;
}

static inline int crn_slot_has_failed(enum crn_slot_state s)
{
    return s == CRN_SLOT_FAILED || s == CRN_SLOT_KEPT;
}

/* The description of a capture; written by the owner of WRITING or READING, constant afterwards. */
struct crn_slot_info {
    struct crn_capture_id id;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;       /* wall clock */
    uint64_t offset;           /* of the image in the data area; unused when spilled */
    uint64_t bytes;            /* in the arena: image and checksums; 0 when spilled */
    uint64_t descriptor_bytes; /* at the start of the image */
    uint64_t image_bytes;      /* of the image, wherever it is */
    uint64_t hash_chunk_bytes; /* chunk size of its checksums (image.h); 0: none */
    uint64_t area_at;          /* if is_out: its offset in the area, ... */
    uint64_t area_bytes;       /* ... and its bytes there */
    uint32_t is_spilled;       /* the image is in the spool: the file s-<rank>-<seq>, or is_out */
    uint32_t is_out;           /* in the area; crn_slot_info sets it from the slot's word */
    uint32_t is_promised;      /* all nodes captured it; set by crn_slot_info */
    uint32_t nfiles;           /* file regions: f-<rank>-<seq>-<region> of the spool */
};

struct crn_arena; /* opaque */

struct crn_arena_size {
    uint64_t bytes; /* of images */
    /* Bytes that the caller needs and fills at once: reserved, but not touched. The rest is
     * reserved on demand, or earlier (crn_arena_go_on); if there is no memory for it, the arena
     * stays smaller. 0: reserve everything now, and touch its pages with this number of threads. */
    uint64_t first;
    int threads;
    uint32_t slots; /* within the bounds above; 0: the minimum */
};
/* Creates dfd/file. The memory of images is reserved: a full tmpfs gives CAIRN_ENOSPC now, not a
 * SIGBUS later. */
CAIRN_CHECKED cairn_err crn_arena_create(int dfd, const char *file, const uint8_t run[16],
                                         uint32_t rank, const struct crn_arena_size *size,
                                         struct crn_arena **ret, struct crn_errinfo *ei);
/* Prepares the rest in the background, at low priority. NULL is fine. */
void crn_arena_go_on(struct crn_arena *a);
/* Maps an arena that another process created, and checks its header. Takes ownership of fd.
 * CAIRN_ENOENT: the process died before the arena was complete, so nothing was ever captured there.
 * CAIRN_EDAMAGED, CAIRN_EFORMAT: this release did not create such a file. Any other error says
 * nothing about the arena. */
CAIRN_CHECKED cairn_err crn_arena_map(const struct crn_fs *fs, int fd, const char *what,
                                      struct crn_arena **ret, struct crn_errinfo *ei);
/* Shows the taken slots of an arena without mapping it: for a program that only looks. Reads the
 * file, so that a hostile or truncated one is an error and never a signal. Slots that change while
 * they are read are left out. The caller keeps fd. */
struct crn_arena_glance {
    uint32_t rank;
    uint64_t data_bytes;
};
typedef void (*crn_slot_seen)(void *arg, enum crn_slot_state state,
                              const struct crn_slot_info *info);
CAIRN_CHECKED cairn_err crn_arena_glance(const struct crn_fs *fs, int fd, const char *what,
                                         crn_slot_seen seen, void *arg,
                                         struct crn_arena_glance *ret, struct crn_errinfo *ei);
void crn_arena_close(struct crn_arena *a); /* unmaps; the file stays. NULL is fine */

/* Was the file truncated under its mapping? If so, bytes read since may be zeros (base/guard.h). */
int crn_arena_is_torn(const struct crn_arena *a);
int crn_arena_fd(const struct crn_arena *a);
uint32_t crn_arena_slots(const struct crn_arena *a);
/* These two wait until all of the arena is prepared. */
uint64_t crn_arena_bytes(struct crn_arena *a);
/* The data area, for pinning. */
void *crn_arena_memory(struct crn_arena *a, uint64_t *ret_bytes);
uint32_t crn_arena_rank(const struct crn_arena *a);
/* The application's phase (cairn_phase_kind): a hint, so it orders no other memory access. */
void crn_arena_set_phase(struct crn_arena *a, uint32_t phase);
uint32_t crn_arena_phase(const struct crn_arena *a);

enum crn_slot_state crn_slot_state(const struct crn_arena *a, uint32_t slot);
/* The state of this capture's slot; CRN_SLOT_FREE if the slot belongs to another capture by now. */
enum crn_slot_state crn_slot_state_of(const struct crn_arena *a, uint32_t slot, uint64_t seq);
/* Copies the description and checks it against the arena's bounds (the other process may be
 * broken). */
CAIRN_CHECKED cairn_err crn_slot_info(const struct crn_arena *a, uint32_t slot,
                                      struct crn_slot_info *ret, struct crn_errinfo *ei);
/* Moves the slot from one state to another if it still belongs to capture seq and is in state
 * `from`: returns 1 then. A slot that was reused for another capture does not move. Release order:
 * a process that sees the new state sees everything written before. */
int crn_slot_move(struct crn_arena *a, uint32_t slot, uint64_t seq, enum crn_slot_state from,
                  enum crn_slot_state to);
/* The service calls it before it tells a rank that the checkpoint is captured: all nodes have
 * captured it. A drain uses it to tell captures that other nodes must have from those that they may
 * never have taken. */
void crn_slot_promise(struct crn_arena *a, uint32_t slot, uint64_t seq);
/* The image of a WRITTEN slot now also lies in the area: releases its memory. Returns 0 if the slot
 * is no longer WRITTEN. One atomic step, so that a crash leaves one state or the other. */
int crn_slot_put_out(struct crn_arena *a, uint32_t slot, uint64_t seq, uint64_t area_at);
/* Returns 1 if no image that the service may still read lies in this range of the area. */
int crn_arena_area_is_free(const struct crn_arena *a, uint64_t at, uint64_t bytes);
unsigned char *crn_slot_memory(const struct crn_arena *a, const struct crn_slot_info *info);

/* Application only. Finds space for an image and describes it: the slot is WRITING (or READING)
 * afterwards. Evicts a window of FLUSHED, FAILED, KEPT and READ slots, the oldest that suffices
 * (window.h). Sets info->offset. CAIRN_EBUSY: no space until a flush ends; CAIRN_ENOSPC: it will
 * never fit. With is_spilled only a slot is taken. */
CAIRN_CHECKED cairn_err crn_arena_take(struct crn_arena *a, enum crn_slot_state state,
                                       struct crn_slot_info *info, uint32_t *ret_slot,
                                       struct crn_errinfo *ei);
/* The same at info->offset, for a caller that places images itself (chain.h). CAIRN_EBUSY: a slot
 * that may not be evicted lies there, or all slots are taken. */
CAIRN_CHECKED cairn_err crn_arena_take_at(struct crn_arena *a, enum crn_slot_state state,
                                          const struct crn_slot_info *info, uint32_t *ret_slot,
                                          struct crn_errinfo *ei);
/* Frees the oldest WRITTEN slot that the service has not begun to flush and that may be dropped
 * (NULL: all may). 1 if there was one. */
typedef int (*crn_slot_may)(const void *arg, const struct crn_slot_info *info);
int crn_arena_supersede(struct crn_arena *a, crn_slot_may may, const void *arg,
                        struct crn_slot_info *ret_info);
/* A slot in state FLUSHING, FLUSHED, LENT, FAILED, KEPT, WRITTEN or READ that has this capture's
 * image in memory; -1 if there is none. */
int crn_arena_find(const struct crn_arena *a, const struct crn_capture_id *id);

#endif
