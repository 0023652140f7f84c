/* SPDX-License-Identifier: BSD-3-Clause */
/* The only place that defines the moves. A row is a state, a column an event. An entry that is not
 * written is illegal, so a forgotten case stops instead of losing a checkpoint. */
#include "tier/life.h"

#define TO(state) ((state) + 1) /* 0, the default of C for missing entries, means illegal */

static const signed char table[CRN_LIFE_STATES][CRN_LIFE_EVENTS] = {
    [CRN_LIFE_INIT] =
        {
            [CRN_LIFE_WRITE_BEGIN] = TO(CRN_LIFE_WRITE_IN_PROGRESS),
            [CRN_LIFE_READ_BEGIN] = TO(CRN_LIFE_READ_IN_PROGRESS),
        },
    [CRN_LIFE_WRITE_IN_PROGRESS] =
        {
            [CRN_LIFE_WRITE_END] = TO(CRN_LIFE_WRITE_COMPLETE),
            [CRN_LIFE_FAIL] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
    [CRN_LIFE_WRITE_COMPLETE] =
        {
            [CRN_LIFE_FLUSH_END] = TO(CRN_LIFE_FLUSHED),
            [CRN_LIFE_HOLD] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_DISCARD] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_COPY_LOST] = TO(CRN_LIFE_WRITE_COMPLETE),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
    [CRN_LIFE_FLUSHED] =
        {
            [CRN_LIFE_HOLD] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_EVICT] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_DISCARD] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_COPY_LOST] = TO(CRN_LIFE_WRITE_COMPLETE),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
    [CRN_LIFE_READ_IN_PROGRESS] =
        {
            [CRN_LIFE_READ_END] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_FAIL] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
    [CRN_LIFE_READ_COMPLETE] =
        {
            [CRN_LIFE_FLUSH_END] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_HOLD] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_CONSUME] = TO(CRN_LIFE_CONSUMED),
            [CRN_LIFE_DISCARD] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_COPY_LOST] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
    [CRN_LIFE_CONSUMED] =
        {
            [CRN_LIFE_FLUSH_END] = TO(CRN_LIFE_CONSUMED),
            [CRN_LIFE_HOLD] = TO(CRN_LIFE_READ_COMPLETE),
            [CRN_LIFE_EVICT] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_DISCARD] = TO(CRN_LIFE_INIT),
            [CRN_LIFE_COPY_LOST] = TO(CRN_LIFE_CONSUMED),
            [CRN_LIFE_LOST] = TO(CRN_LIFE_INIT),
        },
};

int crn_life_next(enum crn_life state, enum crn_life_event event)
{
    return table[state][event] - 1;
}

int crn_life_move(enum crn_life *state, enum crn_life_event event)
{
    int next = crn_life_next(*state, event);

    if (next == CRN_LIFE_ILLEGAL)
        return 0;
    *state = (enum crn_life)next;
    return 1;
}

int crn_life_may_evict(enum crn_life state, int has_copy, int is_discarded)
{
    return crn_life_next(state, CRN_LIFE_EVICT) != CRN_LIFE_ILLEGAL && (has_copy || is_discarded);
}

int crn_life_is_whole(enum crn_life state)
{
    return state == CRN_LIFE_WRITE_COMPLETE || state == CRN_LIFE_FLUSHED ||
           state == CRN_LIFE_READ_COMPLETE || state == CRN_LIFE_CONSUMED;
}

const char *crn_life_name(enum crn_life state)
{
    static const char *const names[CRN_LIFE_STATES] = {
        "init",          "write in progress", "write complete", "flushed", "read in progress",
        "read complete", "consumed",
    };

    return (unsigned)state < CRN_LIFE_STATES ? names[state] : "unknown";
}
