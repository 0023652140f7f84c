/* SPDX-License-Identifier: BSD-3-Clause */
/* The host tier of one process: a shared-memory file, mapped and touched once and reused for ever.
 * The application's process writes captures into it, the node service reads them from the same
 * pages, and when all of them die the file still says which captures are whole, for a drain.
 *
 * Two processes share it without a lock. Each slot has one owner at a time, told by its state:
 *
 *     FREE -> WRITING -> WRITTEN -> FLUSHING -> FLUSHED -> FREE
 *     FREE -> READING -> READ -> FREE
 *     WRITTEN -> FREE (superseded)     FLUSHING -> FAILED (the flush failed or was given up) -> FREE
 *     FLUSHING -> WRITTEN (copied to the local tier, its flush has not begun)
 *     FLUSHED -> LENT -> FLUSHED (the service reads it again: the next version is encoded against it)
 *     FLUSHING -> KEPT -> FREE (it failed after all ranks were promised it: as long as the application
 *                               does not need the room a drain finds it)
 *
 * An image that is WRITTEN may leave the memory for the node's disk (area.h): its slot is *out* then, for
 * as long as the slot is the capture's, and takes no room in the arena. Who claims it finds it there.
 *
 * The application owns FREE, WRITING, FLUSHED, FAILED, KEPT, READING and READ; WRITTEN belongs to who takes
 * it first (service: FLUSHING, application: superseded); FLUSHING and LENT are the service's. The image of a
 * READING slot may be lent to another process of the node, which fills it (client/mates.h); the slot stays the
 * owner's. */
#ifndef CRN_TIER_ARENA_H
#define CRN_TIER_ARENA_H

#include <stdatomic.h>
#include "base/fs.h"
#include "format/format.h"

#define CRN_ARENA_SLOTS     1024  /* of an arena, at least, */
#define CRN_ARENA_SLOTS_MAX 16384 /* and at most */

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
    uint64_t bytes;            /* in the arena: of the image and its checksums; 0 when spilled */
    uint64_t descriptor_bytes; /* at the start of the image */
    uint64_t image_bytes;      /* of the image, wherever it is */
    uint64_t
        hash_chunk_bytes; /* unit of the checksums behind the image (image.h); 0: there are none */
    uint64_t area_at;     /* where it lies in the area, and */
    uint64_t area_bytes;  /* its bytes there, if is_out */
    uint32_t is_spilled;  /* the image is in the spool: the file s-<rank>-<seq>, or is_out */
    uint32_t is_out;      /* in the area; set by crn_slot_info, the slot's word has it */
    uint32_t is_promised; /* all nodes have it; set by crn_slot_info */
    uint32_t nfiles;      /* file regions: f-<rank>-<seq>-<region> of the spool */
};

struct crn_arena; /* opaque */

struct crn_arena_size {
    uint64_t bytes; /* of images */
    /* Needed now, by who fills it at once: reserved, and touched by nobody else. The rest is made when it
     * is needed, or before (crn_arena_go_on); if there is no room for it the arena stays smaller. 0: all
     * of it is made now, pages touched by this number of threads. */
    uint64_t first;
    int threads;
    uint32_t slots; /* in these bounds; 0: as few as possible */
};
/* Creates dfd/file. What images lie in is reserved: a full tmpfs is CAIRN_ENOSPC now, not a SIGBUS later. */
CAIRN_CHECKED cairn_err crn_arena_create(int dfd, const char *file, const uint8_t run[16],
                                         uint32_t rank, const struct crn_arena_size *size,
                                         struct crn_arena **ret, struct crn_errinfo *ei);
/* Makes the rest beside the application, at low priority. NULL is fine. */
void crn_arena_go_on(struct crn_arena *a);
/* Maps an arena that another process made; checks its header. Takes fd over. CAIRN_ENOENT: its process died
 * before it had made the arena, so that nothing was ever captured there. CAIRN_EDAMAGED, CAIRN_EFORMAT: the
 * file is not what this Cairn makes. Any other error says nothing about the arena. */
CAIRN_CHECKED cairn_err crn_arena_map(const struct crn_fs *fs, int fd, const char *what,
                                      struct crn_arena **ret, struct crn_errinfo *ei);
void crn_arena_close(struct crn_arena *a); /* unmaps; the file stays. NULL is fine */

/* The file was truncated under its mapping: what was read from it since may be zeros (base/guard.h). */
int crn_arena_is_torn(const struct crn_arena *a);
int crn_arena_fd(const struct crn_arena *a);
uint32_t crn_arena_slots(const struct crn_arena *a);
/* These wait until all of the arena is made. */
uint64_t crn_arena_bytes(struct crn_arena *a);
/* The data area, for who pins it. */
void *crn_arena_memory(struct crn_arena *a, uint64_t *ret_bytes);
uint32_t crn_arena_rank(const struct crn_arena *a);
/* What the application is at (cairn_phase_kind): a hint, so nothing is ordered by it. */
void crn_arena_set_phase(struct crn_arena *a, uint32_t phase);
uint32_t crn_arena_phase(const struct crn_arena *a);

enum crn_slot_state crn_slot_state(const struct crn_arena *a, uint32_t slot);
/* Of the slot of this capture; CRN_SLOT_FREE if the slot has another one by now. */
enum crn_slot_state crn_slot_state_of(const struct crn_arena *a, uint32_t slot, uint64_t seq);
/* A copy of the description, checked against the arena's bounds (the other side may be broken). */
CAIRN_CHECKED cairn_err crn_slot_info(const struct crn_arena *a, uint32_t slot,
                                      struct crn_slot_info *ret, struct crn_errinfo *ei);
/* Moves the slot of the capture seq from one state to another if both are still so: 1 then. The slot
 * of an earlier capture, reused meanwhile, does not move. Release order: what was written before is
 * seen by who finds the new state. */
int crn_slot_move(struct crn_arena *a, uint32_t slot, uint64_t seq, enum crn_slot_state from,
                  enum crn_slot_state to);
/* The service, before it tells a rank that the checkpoint is captured: all nodes have captured it. A drain
 * tells by this what other nodes must have from what they may never have captured. */
void crn_slot_promise(struct crn_arena *a, uint32_t slot, uint64_t seq);
/* The image of a WRITTEN slot lies in the area now, too: it leaves the memory. 0: the slot is WRITTEN no
 * more. One atomic step, so that a crash leaves the one or the other. */
int crn_slot_put_out(struct crn_arena *a, uint32_t slot, uint64_t seq, uint64_t area_at);
/* 1 if no image that the service may still read lies in this part of the area. */
int crn_arena_area_is_free(const struct crn_arena *a, uint64_t at, uint64_t bytes);
unsigned char *crn_slot_memory(const struct crn_arena *a, const struct crn_slot_info *info);

/* While its pins are not 0 a slot is neither evicted nor superseded: someone reads it. by: 1 or -1. */
void crn_slot_pin(struct crn_arena *a, uint32_t slot, int by);

/* The application's side. Finds room for an image, evicting a window of FLUSHED, FAILED, KEPT and READ slots,
 * the oldest that will do (window.h), and describes it: the slot is WRITING (or READING) then.
 * info->offset is set by the arena.
 * CAIRN_EBUSY: no room until a flush ends; CAIRN_ENOSPC: will never fit. With is_spilled only a
 * slot is taken. */
CAIRN_CHECKED cairn_err crn_arena_take(struct crn_arena *a, enum crn_slot_state state,
                                       struct crn_slot_info *info, uint32_t *ret_slot,
                                       struct crn_errinfo *ei);
/* The same at info->offset, for who decides himself what lies where (chain.h). CAIRN_EBUSY: a slot that
 * may not be evicted lies there, or all slots are taken. */
CAIRN_CHECKED cairn_err crn_arena_take_at(struct crn_arena *a, enum crn_slot_state state,
                                          const struct crn_slot_info *info, uint32_t *ret_slot,
                                          struct crn_errinfo *ei);
/* Frees the oldest WRITTEN slot that the service has not begun to flush. 1 if there was one. */
int crn_arena_supersede(struct crn_arena *a, struct crn_slot_info *ret_info);
/* A slot in one of the states FLUSHING, FLUSHED, LENT, FAILED, KEPT, WRITTEN, READ that holds this capture's
 * image in memory; -1 if there is none. */
int crn_arena_find(const struct crn_arena *a, const struct crn_capture_id *id);

#endif
