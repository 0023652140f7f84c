/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of an arena's head: for arena.c, which owns them, and arena_glance.c, which reads them. */
#ifndef CRN_TIER_ARENA_LAYOUT_H
#define CRN_TIER_ARENA_LAYOUT_H

#include "tier/arena.h"

#define ARENA_MAGIC 0x36414e4541524e43U /* "CNRAENA6" */
#define ARENA_PAGE  4096U
#define SLOT_OUT    0x80U /* in a slot's word */

/* State and capture in one word, so that a move compares both. */
struct slot {
    _Atomic uint64_t
        word; /* seq << 8 | SLOT_OUT | enum crn_slot_state; see the owners in arena.h */
    _Atomic uint64_t promised; /* seq + 1 of the capture given to crn_slot_promise; the service's */
    struct crn_slot_info info;
};

static inline uint64_t slot_word(uint64_t seq, enum crn_slot_state state)
{
    return seq << 8 | (uint64_t)state;
}

static inline enum crn_slot_state slot_state_in(uint64_t word)
{
    return (enum crn_slot_state)(word & (SLOT_OUT - 1));
}

struct arena_header {
    uint64_t magic;
    uint64_t header_bytes; /* sizeof(struct arena_header) rounded up: where the data begins */
    uint64_t data_bytes;
    uint8_t run[16];
    uint32_t rank;
    uint32_t nslots;
    _Atomic uint32_t phase; /* only the application writes it */
    struct slot slot[];     /* nslots */
};

static inline size_t arena_head_bytes(uint32_t nslots)
{
    return (sizeof(struct arena_header) + nslots * sizeof(struct slot) + ARENA_PAGE - 1) /
           ARENA_PAGE * ARENA_PAGE;
}

/* Checks the header of another process's arena against the size of its file. */
static inline int arena_is_sound(const struct arena_header *h, uint32_t nslots, size_t file_bytes)
{
    return h->magic == ARENA_MAGIC && nslots >= CRN_ARENA_SLOTS && nslots <= CRN_ARENA_SLOTS_MAX &&
           h->header_bytes == arena_head_bytes(nslots) && arena_head_bytes(nslots) <= file_bytes;
}

/* Copies the description of a slot and checks it against the bytes of the data area. Returns 0 if it
 * is damaged. */
int crn_slot_copy(const struct slot *slot, uint64_t data_bytes, struct crn_slot_info *ret);

#endif
