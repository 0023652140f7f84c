/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the core of a node. */
#ifndef CRN_NODE_CORE_H
#define CRN_NODE_CORE_H

#include "node/node.h"

#define CRN_NODE_RING 64

struct crn_node {
    struct crn_node_setup set;
    int64_t now_ns;           /* of the event being handled */
    struct crn_item *items;   /* by seq */
    struct crn_claim *claims; /* names that ranks have claimed */
    uint32_t nlooks;          /* claims that the keeper is checking */
    uint32_t *rank_of;        /* by local index */
    unsigned char *has_left;  /* by local index */
    uint32_t nleft;
    uint64_t *said;      /* adopt.c: by local index; reported up to this seq. 0: not adopted */
    uint64_t *next;      /* by local index: after the last seq that the rank has captured */
    int64_t *heard_ns;   /* by node: when this node last heard it */
    int64_t told_ns;     /* when this node last sent ALIVE */
    uint64_t broken_seq; /* first node: from it on, no checkpoint can complete, ... */
    struct crn_errinfo broken;     /* ... because a rank died */
    uint64_t wanted;               /* somebody waits for checkpoints up to this seq */
    uint64_t told_wanted;          /* the same, as last reported to the root */
    double copy_rate;              /* fastest capture so far, bytes per second; 0: unknown */
    int64_t started_ns;            /* when the job started */
    int64_t captured_ns;           /* the last capture, or the start of the job */
    int64_t safe_ns;               /* capture of the last committed one, or start of the job */
    uint64_t ended[CRN_NODE_RING]; /* seq + 1 of the last ones that the root decided, or that a node
                                    * was cut off from: their late messages are ignored */
    uint32_t nended;
    const struct crn_fs_type *fs_type; /* first node: of persistent; NULL until the first START */
    struct crn_due_name *dues;         /* first node: of names with versions that are held */
    int is_ending; /* first node: the allocation will end soon, every version is due */
};

/* node.c: makes room for the actions of an item more; 0, or -1: out of memory. */
int crn_node_reserve(struct crn_node *n);
/* Actions. The returned action is zeroed, but for what the name says. */
struct crn_action *crn_act(struct crn_node *n, enum crn_act act, struct crn_item *item);
/* Tells one node, some, all. The message is initialised. */
struct crn_msg *crn_act_send_range(struct crn_node *n, uint32_t first, uint32_t end,
                                   struct crn_item *item, enum crn_msg_type type);
struct crn_msg *crn_act_send(struct crn_node *n, uint32_t node, struct crn_item *item,
                             enum crn_msg_type type);
struct crn_msg *crn_act_send_all(struct crn_node *n, struct crn_item *item, enum crn_msg_type type);
/* Starts a task; the item has a user more. */
struct crn_action *crn_act_work(struct crn_node *n, struct crn_item *item, enum crn_work_kind kind);
void crn_act_log(struct crn_node *n, enum crn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A message that is not about an item. */
struct crn_msg crn_node_plain(const struct crn_node *n, enum crn_msg_type type, uint64_t seq);

/* item.c */
/* The item of a message, created if this is the first one about it; NULL if out of memory. */
struct crn_item *crn_item_get(struct crn_node *n, const struct crn_msg *m);
/* Sends NODE_FAILED to the root, unless the item has ended. */
void crn_item_fail(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *e);
void crn_item_end(struct crn_node *n, struct crn_item *item, enum crn_item_event event,
                  const struct crn_errinfo *error, uint64_t committed_ns);
/* The capture of a rank arrived after the end. */
void crn_item_too_late(struct crn_node *n, struct crn_item *item, uint32_t local);
/* Releases the slots of an ended item that nobody uses, and lets it go when no rank needs it. */
void crn_item_touch(struct crn_node *n, struct crn_item *item);
void crn_item_tell_ranks(struct crn_node *n, struct crn_item *item, uint64_t committed_ns,
                         const struct crn_errinfo *error);
/* The same to one rank, which reports its capture. */
void crn_item_tell_rank(struct crn_node *n, struct crn_item *item, uint32_t local);
void crn_node_note_ended(struct crn_node *n, uint64_t seq);
int crn_node_was_ended(const struct crn_node *n, uint64_t seq);

/* group.c */
void crn_group_begin(struct crn_node *n, struct crn_item *item, const struct crn_msg *go);
void crn_group_shards(struct crn_node *n, struct crn_item *item, const struct crn_msg *m);
void crn_group_served(struct crn_node *n, struct crn_item *item, const struct crn_result *r);
void crn_group_rerouted(struct crn_node *n, struct crn_item *item, uint32_t leader);
void crn_group_file(struct crn_node *n, struct crn_item *item, const struct crn_msg *m);
void crn_group_assisted(struct crn_node *n, struct crn_item *item);

/* root.c */
void crn_root_message(struct crn_node *n, const struct crn_msg *m);
void crn_root_tell_level(struct crn_node *n, struct crn_item *item, cairn_level level);
void crn_root_rank_died(struct crn_node *n, const struct crn_msg *m);
void crn_root_want(struct crn_node *n, uint64_t seq);
void crn_root_fail(struct crn_node *n, struct crn_item *item, const struct crn_errinfo *error);
void crn_root_checked(struct crn_node *n, struct crn_item *item, const struct crn_result *r);
void crn_root_committed(struct crn_node *n, struct crn_item *item, const struct crn_result *r);
void crn_root_found(struct crn_node *n, struct crn_item *item, uint64_t committed_ns);
/* Items that wait for an older one may continue. */
void crn_root_advance_queue(struct crn_node *n);

void crn_root_start(struct crn_node *n, struct crn_item *item); /* it shall be flushed */

/* due.c. All but the last are for the first node. */
/* All ranks have captured it: 1: it is flushed, 0: it is held. */
int crn_due_captured(struct crn_node *n, const struct crn_item *item);
/* The scheme that protects it, or NONE. Before crn_due_captured. */
struct crn_protection crn_due_protection(struct crn_node *n, struct crn_item *item);
void crn_due_flushed(struct crn_node *n, const struct crn_item *item); /* its flush starts */
/* The item has reached a level: older held versions of its name may be superseded. */
void crn_due_make_way(struct crn_node *n, struct crn_item *item, int is_committed);
void crn_due_flush_newest(struct crn_node *n); /* of each name, because the job ends */
void crn_due_failed(struct crn_node *n);
void crn_due_waited(struct crn_node *n, const struct crn_msg *m);
void crn_due_tick(struct crn_node *n);
void crn_due_free(struct crn_node *n);
void crn_due_cramped(struct crn_node *n, uint64_t seq);

/* claim.c */
void crn_claim_ask(struct crn_node *n, uint32_t local, const struct crn_msg *m);
void crn_claim_node(struct crn_node *n, const struct crn_msg *m);
void crn_claim_decided(struct crn_node *n, const struct crn_msg *m);
void crn_claim_result(struct crn_node *n, const struct crn_result *r);
void crn_claim_failed(struct crn_node *n, uint32_t local, const struct crn_msg *m);
void crn_claims_left(struct crn_node *n);
void crn_claim_granted(struct crn_node *n, const char *name, uint64_t generation);
uint64_t crn_claim_generation(const struct crn_node *n, const char *name);
void crn_claims_free(struct crn_node *n);

/* adopt.c */
/* Will the rank report this checkpoint no more? */
int crn_adopt_is_silent(const struct crn_node *n, const struct crn_item *item, uint32_t local);
void crn_adopt_captured(struct crn_node *n, struct crn_item *item, uint32_t local);
void crn_adopt_asked(struct crn_node *n, const struct crn_msg *m);
void crn_adopt_looked(struct crn_node *n, struct crn_item *item, const struct crn_result *r);

/* protect.c */
void crn_protect_begin(struct crn_node *n, struct crn_item *item);
void crn_protect_opened(struct crn_node *n, struct crn_item *item, const struct crn_result *r);
void crn_protect_stream(struct crn_node *n, struct crn_item *item, const struct crn_msg *m);
void crn_protect_made(struct crn_node *n, struct crn_item *item, const struct crn_result *r);
void crn_root_protected(struct crn_node *n, struct crn_item *item, const struct crn_msg *m);

/* alive.c */
void crn_alive_tick(struct crn_node *n);

/* pace.c */
void crn_pace_part(struct crn_item *item, uint64_t bytes, uint64_t copy_ns);
void crn_pace_captured(struct crn_node *n, struct crn_item *item);
void crn_pace_want(struct crn_node *n, uint64_t seq);
void crn_pace_hurry(struct crn_node *n, uint64_t seq);

#endif
