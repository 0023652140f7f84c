/* SPDX-License-Identifier: BSD-3-Clause */
/* How a job takes its turn: it asks before a flush or a restart read, looks from time to time,
 * starts when allowed, and returns the ticket. Nothing here blocks (but see auth_munge.c) or
 * prevents a flush: without a broker, or if the broker goes away, a turn becomes CRN_TURN_FREE
 * after give_up_ns.
 *
 *     struct crn_turn_ask ask = {.kind = CRN_IO_CHECKPOINT, .bytes = n};
 *     crn_broker_ask(b, &ask, &ticket, ei);
 *     ... poll crn_broker_fd(b), crn_broker_tick(b) ...
 *     turn = crn_broker_look(b, ticket);          // WAITING: compute on; GRANTED, FREE: flush
 *     crn_broker_progress(b, ticket, bytes_done); // now and then
 *     crn_broker_return(b, ticket);               // done; or cancels while it waits
 *
 * One thread at a time. No thread of its own, no signal handlers. One client per job. */
#ifndef CRN_BROKER_CLIENT_H
#define CRN_BROKER_CLIENT_H

#include "base/clock.h"
#include "base/log.h"
#include "broker/agent.h"
#include "broker/link.h"

struct crn_broker;

struct crn_broker_options {
    struct crn_broker_link_config link; /* timeout_ns is set by open */
    char job[CRN_BP_NAME];              /* shown to people */
    uint32_t nodes;
    int64_t give_up_ns;            /* 0: 5 s */
    int64_t max_wait_ns;           /* 0: no limit */
    const struct crn_clock *clock; /* NULL: the real one */
    const struct crn_log *log;     /* NULL: quiet */
};

/* The options from a job's configuration; job may be empty. */
void crn_broker_options_init(struct crn_broker_options *opt, const struct crn_config *cfg,
                             const char *job, uint32_t nodes, const struct crn_log *log);
/* The token that a job's configuration names, or else the directory that it writes to. */
void crn_broker_token(const struct crn_config *cfg, char ret[CRN_BP_NAME]);
/* Connects later, in tick. Fails only if memory or descriptors run out, or for an invalid
 * address. */
CAIRN_CHECKED cairn_err crn_broker_open(const struct crn_broker_options *options,
                                        struct crn_broker **ret, struct crn_errinfo *ei);
/* Tries once to tell the broker that everything is returned. NULL is allowed. */
void crn_broker_close(struct crn_broker *b);

/* Readable when tick has something to do, including deadlines; the same descriptor for life. */
int crn_broker_fd(const struct crn_broker *b);
void crn_broker_tick(struct crn_broker *b);

/* As crn_agent_*; sends news to the broker at once. */
CAIRN_CHECKED cairn_err crn_broker_ask(struct crn_broker *b, const struct crn_turn_ask *ask,
                                       uint32_t *ret_ticket, struct crn_errinfo *ei);
void crn_broker_update(struct crn_broker *b, uint32_t ticket, const struct crn_turn_ask *ask);
struct crn_turn crn_broker_look(const struct crn_broker *b, uint32_t ticket);
void crn_broker_progress(struct crn_broker *b, uint32_t ticket, uint64_t bytes_done);
void crn_broker_return(struct crn_broker *b, uint32_t ticket);

#endif
