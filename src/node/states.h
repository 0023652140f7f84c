/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a checkpoint, as two tables of states and events: on each node, and on the first node
 * ("root") for all nodes. Pure. tools/draw-states draws states.c as docs/architecture/states.svg.
 *
 * A move that the core makes by itself must be legal, which debug builds assert. A message may be
 * late, or from a broken peer: the core asks crn_item_may or crn_root_may first and drops it. */
#ifndef CRN_NODE_STATES_H
#define CRN_NODE_STATES_H

/* A checkpoint on a node. */
enum crn_item_state {
    CRN_ITEM_CAPTURING = 0, /* not all ranks of this node have captured */
    CRN_ITEM_CAPTURED,      /* waiting for the other nodes and GO */
    CRN_ITEM_FLUSHING,      /* a leader writes, a follower serves its leader */
    CRN_ITEM_FLUSHED,       /* leader: its file is durable or has failed; waiting for END */
    CRN_ITEM_ENDED,         /* committed or failed, everywhere */
    CRN_ITEM_CUT_OFF,       /* ended on this node alone: the first node is silent */
    CRN_ITEM_RETIRING,      /* the keeper removes what is no longer needed */
    CRN_ITEM_GONE,          /* about to be freed */
    CRN_ITEM_STATES,
};
enum crn_item_event {
    CRN_ITEM_ALL_CAPTURED = 0, /* the last rank of the node has captured */
    CRN_ITEM_GO,
    CRN_ITEM_WRITTEN, /* leader: the flusher is done with its file */
    CRN_ITEM_END,
    CRN_ITEM_CUT,    /* the first node was silent too long */
    CRN_ITEM_RETIRE, /* no worker, transfer or rank needs it any more */
    CRN_ITEM_RETIRED,
    CRN_ITEM_EVENTS,
};

/* A checkpoint as the first node sees it. */
enum crn_root_state {
    CRN_ROOT_COLLECTING = 0, /* not all nodes have captured */
    CRN_ROOT_HELD,           /* all have; nobody wants it flushed yet */
    CRN_ROOT_CHECKING,       /* the keeper revalidates the writer's lock */
    CRN_ROOT_QUEUED,         /* waits for an older version, to be encoded against it */
    CRN_ROOT_ASKING,         /* waits for its turn */
    CRN_ROOT_FLUSHING,       /* GO was sent */
    CRN_ROOT_COMMITTING,     /* the keeper publishes the manifest; too late to fail otherwise */
    CRN_ROOT_COMMITTED,      /* END was sent, without an error */
    CRN_ROOT_FAILED,         /* END was sent, with an error */
    CRN_ROOT_STATES,
};
enum crn_root_event {
    CRN_ROOT_HOLD = 0, /* all nodes have captured, nobody waits for a lazy job */
    CRN_ROOT_START,    /* all nodes have captured */
    CRN_ROOT_CHECKED,
    CRN_ROOT_ASK,
    CRN_ROOT_TURN,
    CRN_ROOT_ALL_DATA, /* every data file is durable */
    CRN_ROOT_COMMIT,   /* the manifest is durable */
    CRN_ROOT_REFUSE,   /* it could not be published */
    CRN_ROOT_FIND,     /* a dead service had committed it */
    CRN_ROOT_FAIL,     /* a node, a rank, the clock, the lock, the broker */
    CRN_ROOT_EVENTS,
};

#define CRN_STATE_ILLEGAL (-1)

/* The state after the event, or CRN_STATE_ILLEGAL. */
int crn_item_next(enum crn_item_state state, enum crn_item_event event);
int crn_root_next(enum crn_root_state state, enum crn_root_event event);

static inline int crn_item_may(enum crn_item_state state, enum crn_item_event event)
{
    return crn_item_next(state, event) != CRN_STATE_ILLEGAL;
}
static inline int crn_root_may(enum crn_root_state state, enum crn_root_event event)
{
    return crn_root_next(state, event) != CRN_STATE_ILLEGAL;
}
/* Makes a legal move. */
void crn_item_move(enum crn_item_state *state, enum crn_item_event event);
void crn_root_move(enum crn_root_state *state, enum crn_root_event event);

static inline int crn_item_has_ended(enum crn_item_state state)
{
    return state >= CRN_ITEM_ENDED;
}
static inline int crn_root_has_decided(enum crn_root_state state)
{
    return state >= CRN_ROOT_COMMITTED;
}

const char *crn_item_state_name(enum crn_item_state state);
const char *crn_item_event_name(enum crn_item_event event);
const char *crn_root_state_name(enum crn_root_state state);
const char *crn_root_event_name(enum crn_root_event event);

#endif
