/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of one checkpoint on one tier, as a table. All tiers use the same table:
 *
 *     INIT -> WRITE_IN_PROGRESS -> WRITE_COMPLETE -> FLUSHED            coming from a faster place
 *     INIT -> READ_IN_PROGRESS -> READ_COMPLETE -> CONSUMED             coming from a slower tier
 *     WRITE_COMPLETE, FLUSHED or CONSUMED -> READ_COMPLETE              a read is expected
 *     FLUSHED or CONSUMED -> INIT                                       evicted
 *
 * READ_COMPLETE lasts until the checkpoint is consumed, even if others need the space. Pure: no
 * clock, no lock. */
#ifndef CRN_TIER_LIFE_H
#define CRN_TIER_LIFE_H

enum crn_life {
    CRN_LIFE_INIT = 0, /* not on this tier */
    CRN_LIFE_WRITE_IN_PROGRESS,
    CRN_LIFE_WRITE_COMPLETE,
    CRN_LIFE_FLUSHED, /* a slower tier has it too */
    CRN_LIFE_READ_IN_PROGRESS,
    CRN_LIFE_READ_COMPLETE, /* held for a read that was hinted or has begun */
    CRN_LIFE_CONSUMED,      /* read by the application, or copied to a faster tier */
    CRN_LIFE_STATES,
};

enum crn_life_event {
    CRN_LIFE_WRITE_BEGIN = 0,
    CRN_LIFE_WRITE_END,
    CRN_LIFE_FLUSH_END, /* a slower tier now has a complete copy */
    CRN_LIFE_READ_BEGIN,
    CRN_LIFE_READ_END,
    CRN_LIFE_HOLD,      /* a hinted read is next, or a read begins */
    CRN_LIFE_CONSUME,   /* the held copy was read */
    CRN_LIFE_EVICT,     /* only if crn_life_may_evict */
    CRN_LIFE_DISCARD,   /* the application will not read it again */
    CRN_LIFE_COPY_LOST, /* no slower tier has it any more: flush it again */
    CRN_LIFE_FAIL,      /* the copy to this tier failed */
    CRN_LIFE_LOST,      /* the tier is gone, and the checkpoint with it */
    CRN_LIFE_EVENTS,
};

#define CRN_LIFE_ILLEGAL (-1)

/* The state after the event, or CRN_LIFE_ILLEGAL. */
int crn_life_next(enum crn_life state, enum crn_life_event event);
/* Applies the event: returns 1, or 0 without a change if it is illegal. */
int crn_life_move(enum crn_life *state, enum crn_life_event event);

/* May it be evicted for another checkpoint? has_copy: a slower tier has a complete copy.
 * is_discarded: the application has read it and will not read it again. */
int crn_life_may_evict(enum crn_life state, int has_copy, int is_discarded);
/* Are its bytes complete here and readable? */
int crn_life_is_whole(enum crn_life state);
const char *crn_life_name(enum crn_life state);

#endif
