/* SPDX-License-Identifier: BSD-3-Clause */
/* The only place that defines the moves. A row is a state, a column an event. An entry that is not
 * written is illegal, so a forgotten case stops instead of losing a checkpoint. tools/draw-states
 * reads the rows of this file. */
#include "node/states.h"

#include <assert.h>

#define TO(state) ((state) + 1) /* 0, the default of C for missing entries, means illegal */

static const signed char item_table[CRN_ITEM_STATES][CRN_ITEM_EVENTS] = {
    [CRN_ITEM_CAPTURING] =
        {
            [CRN_ITEM_ALL_CAPTURED] = TO(CRN_ITEM_CAPTURED),
            [CRN_ITEM_END] = TO(CRN_ITEM_ENDED),
            [CRN_ITEM_CUT] = TO(CRN_ITEM_CUT_OFF),
        },
    [CRN_ITEM_CAPTURED] =
        {
            [CRN_ITEM_GO] = TO(CRN_ITEM_FLUSHING),
            [CRN_ITEM_END] = TO(CRN_ITEM_ENDED),
            [CRN_ITEM_CUT] = TO(CRN_ITEM_CUT_OFF),
        },
    [CRN_ITEM_FLUSHING] =
        {
            [CRN_ITEM_WRITTEN] = TO(CRN_ITEM_FLUSHED),
            [CRN_ITEM_END] = TO(CRN_ITEM_ENDED),
            [CRN_ITEM_CUT] = TO(CRN_ITEM_CUT_OFF),
        },
    [CRN_ITEM_FLUSHED] =
        {
            [CRN_ITEM_END] = TO(CRN_ITEM_ENDED),
            [CRN_ITEM_CUT] = TO(CRN_ITEM_CUT_OFF),
        },
    [CRN_ITEM_ENDED] = {[CRN_ITEM_RETIRE] = TO(CRN_ITEM_RETIRING)},
    [CRN_ITEM_CUT_OFF] = {[CRN_ITEM_RETIRE] = TO(CRN_ITEM_RETIRING)},
    [CRN_ITEM_RETIRING] = {[CRN_ITEM_RETIRED] = TO(CRN_ITEM_GONE)},
};

static const signed char root_table[CRN_ROOT_STATES][CRN_ROOT_EVENTS] = {
    [CRN_ROOT_COLLECTING] =
        {
            [CRN_ROOT_HOLD] = TO(CRN_ROOT_HELD),
            [CRN_ROOT_START] = TO(CRN_ROOT_CHECKING),
            [CRN_ROOT_FIND] = TO(CRN_ROOT_COMMITTED),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_HELD] =
        {
            [CRN_ROOT_START] = TO(CRN_ROOT_CHECKING),
            [CRN_ROOT_FIND] = TO(CRN_ROOT_COMMITTED),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_CHECKING] =
        {
            [CRN_ROOT_CHECKED] = TO(CRN_ROOT_QUEUED),
            [CRN_ROOT_FIND] = TO(CRN_ROOT_COMMITTED),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_QUEUED] =
        {
            [CRN_ROOT_ASK] = TO(CRN_ROOT_ASKING),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_ASKING] =
        {
            [CRN_ROOT_TURN] = TO(CRN_ROOT_FLUSHING),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_FLUSHING] =
        {
            [CRN_ROOT_ALL_DATA] = TO(CRN_ROOT_COMMITTING),
            [CRN_ROOT_FAIL] = TO(CRN_ROOT_FAILED),
        },
    [CRN_ROOT_COMMITTING] =
        {
            [CRN_ROOT_COMMIT] = TO(CRN_ROOT_COMMITTED),
            [CRN_ROOT_REFUSE] = TO(CRN_ROOT_FAILED),
        },
};

int crn_item_next(enum crn_item_state state, enum crn_item_event event)
{
    return item_table[state][event] - 1;
}

int crn_root_next(enum crn_root_state state, enum crn_root_event event)
{
    return root_table[state][event] - 1;
}

void crn_item_move(enum crn_item_state *state, enum crn_item_event event)
{
    int next = crn_item_next(*state, event);

    assert(next != CRN_STATE_ILLEGAL);
    if (next != CRN_STATE_ILLEGAL)
        *state = (enum crn_item_state)next;
}

void crn_root_move(enum crn_root_state *state, enum crn_root_event event)
{
    int next = crn_root_next(*state, event);

    assert(next != CRN_STATE_ILLEGAL);
    if (next != CRN_STATE_ILLEGAL)
        *state = (enum crn_root_state)next;
}

const char *crn_item_state_name(enum crn_item_state state)
{
    static const char *const names[CRN_ITEM_STATES] = {
        "capturing", "captured", "flushing", "flushed", "ended", "cut off", "retiring", "gone",
    };

    return (unsigned)state < CRN_ITEM_STATES ? names[state] : "unknown";
}

const char *crn_item_event_name(enum crn_item_event event)
{
    static const char *const names[CRN_ITEM_EVENTS] = {
        "all captured", "GO", "written", "END", "cut", "retire", "retired",
    };

    return (unsigned)event < CRN_ITEM_EVENTS ? names[event] : "unknown";
}

const char *crn_root_state_name(enum crn_root_state state)
{
    static const char *const names[CRN_ROOT_STATES] = {
        "collecting", "held",       "checking",  "queued", "asking",
        "flushing",   "committing", "committed", "failed",
    };

    return (unsigned)state < CRN_ROOT_STATES ? names[state] : "unknown";
}

const char *crn_root_event_name(enum crn_root_event event)
{
    static const char *const names[CRN_ROOT_EVENTS] = {
        "hold", "start", "checked", "ask", "turn", "all data", "commit", "refuse", "find", "fail",
    };

    return (unsigned)event < CRN_ROOT_EVENTS ? names[event] : "unknown";
}
