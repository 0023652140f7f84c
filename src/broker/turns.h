/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's core: which jobs hold which tokens, which wait, and which is next. Pure: an event
 * and the time go in, the statuses that are due come out; no clock, no I/O, no threads. The server,
 * the unit tests and the simulation of a bad network drive the same code.
 *
 * A connection is a small number chosen by the caller. crn_turns_new allocates all memory, so no
 * event can run out of it. Times are nanoseconds of one monotonic clock. */
#ifndef CRN_BROKER_TURNS_H
#define CRN_BROKER_TURNS_H

#include <stddef.h>
#include <stdint.h>
#include "broker/proto.h"
#include "policy/policy.h"

#define CRN_TURNS_PATHS 1024 /* bytes of the paths of a token */

struct crn_turns;

struct crn_turns_token {
    char name[CRN_BP_NAME];
    char paths[CRN_TURNS_PATHS]; /* of its file system, separated by commas; empty: none */
    uint32_t slots;              /* holders at a time */
    uint64_t bandwidth;          /* bytes/s with one holder; 0: jobs report how long they take */
    uint64_t budget;             /* bytes/s that the holders are expected to use in all; 0: any */
    const struct crn_policy *policy;
    double node_mtbf_s; /* 0: nodes do not fail */
    int is_dry;         /* grants at once, and decides beside it what it would have done */
};

/* A grant, made or, with is_dry, only decided. */
struct crn_turns_decision {
    const char *token, *policy, *user, *job;
    enum crn_io_kind kind;
    uint32_t nodes;
    uint64_t bytes;
    int64_t at_ns, since_ns; /* the grant, the request */
    int64_t duration_ns;     /* expected */
    uint32_t waiting;        /* other requests at that time */
    uint32_t beside;         /* holders when the transfer really began */
    int is_dry;
};

struct crn_turns_config {
    const struct crn_turns_token *token; /* copied */
    size_t ntokens;                      /* >= 1 */
    uint64_t epoch;                      /* random, not 0 */
    int64_t lease_ns;    /* a job silent for this long loses its tokens and its places */
    int64_t grace_ns;    /* the same for a job whose connection broke */
    int64_t settle_ns;   /* no grants for this long after the start: holders report first */
    int64_t stall_ns;    /* a holder that moves no byte for this long loses its token; 0: never */
    int64_t hold_ns;     /* longest time to hold; 0: no limit */
    int64_t starve_ns;   /* a request that waits longer goes first, whatever the policy; 0: never */
    int64_t forecast_ns; /* shortest interval between forecasts of places and starts */
    int64_t alone_ns;    /* see conf.c; 0: no limit */
    uint32_t max_conns, max_jobs, max_user_jobs;
    uint32_t max_nodes; /* 0: any number */
    double user_share;  /* of a token's time, while others wait; 0 or >= 1: no limit */
    const char *shares; /* NULL: none */
    int is_confirming;  /* nodes of jobs come from crn_turns_confirm: 1 until then */
    int by_account;     /* accounts have shares instead of users */
    /* Told of each decision during events and ticks; may be NULL. */
    void (*decided)(void *arg, const struct crn_turns_decision *d);
    void *decided_arg;
};

CAIRN_CHECKED cairn_err crn_turns_new(const struct crn_turns_config *cfg, int64_t now_ns,
                                      struct crn_turns **ret, struct crn_errinfo *ei);
void crn_turns_free(struct crn_turns *t);

/* A peer has logged in. conn < max_conns, not in use. */
void crn_turns_opened(struct crn_turns *t, uint32_t conn, const char *user, int is_admin);
void crn_turns_closed(struct crn_turns *t, int64_t now_ns, uint32_t conn);
/* Does the peer's job want or hold something? */
int crn_turns_wants(const struct crn_turns *t, uint32_t conn);
uint32_t crn_turns_user_conns(const struct crn_turns *t, const char *user);
/* CAIRN_ELIMIT: too many jobs; CAIRN_ESTATE: the connection belongs to another job. The caller
 * closes it. */
CAIRN_CHECKED cairn_err crn_turns_report(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                                         const struct crn_bp_report *report,
                                         struct crn_errinfo *ei);
/* With is_confirming: 1 and the number that the connection's job has in the batch system, once; 0: it
 * is confirmed, or was asked about. The caller finds out and calls crn_turns_confirm. */
int crn_turns_unconfirmed(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                          char ret_batch[CRN_BP_NAME]);
struct crn_turns_fact {
    uint32_t nodes; /* 0: there is no such job; it counts as one node */
    char account[CRN_BP_NAME];
};
/* fact NULL: that could not be found out; it is asked about again later. */
void crn_turns_confirm(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                       const struct crn_turns_fact *fact);
/* Call it several times within the shortest configured time. */
void crn_turns_tick(struct crn_turns *t, int64_t now_ns);
/* The next status that is due: 1 and its connection, or 0. Call until 0 after every event. */
int crn_turns_next(struct crn_turns *t, int64_t now_ns, uint32_t *ret_conn,
                   struct crn_bp_status *ret);

/* drain, resume, policy: administrators only. cancel: the request's owner and administrators.
 * For others the request does not exist (CAIRN_ENOENT). */
CAIRN_CHECKED cairn_err crn_turns_control(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                                          const struct crn_bp_control *control,
                                          struct crn_errinfo *ei);
/* drain, resume, policy without a permission check; for the broker itself, before it serves. */
CAIRN_CHECKED cairn_err crn_turns_change(struct crn_turns *t, const struct crn_bp_control *control,
                                         struct crn_errinfo *ei);
/* Token rows, then the requests that the peer may see: holders, then waiting ones, by place.
 * Returns the number of request rows. */
typedef void (*crn_turns_row_fn)(void *arg, const struct crn_bp_msg *row);
size_t crn_turns_query(struct crn_turns *t, int64_t now_ns, uint32_t conn,
                       const struct crn_bp_query *query, crn_turns_row_fn fn, void *arg);

/* The same rows, of all users: for the broker's own page. */
size_t crn_turns_all(struct crn_turns *t, int64_t now_ns, const struct crn_bp_query *query,
                     crn_turns_row_fn fn, void *arg);

/* What a user has used of the tokens' time, over the last hour or so. */
struct crn_turns_user {
    const char *name; /* until the next event */
    uint32_t jobs;
    double share; /* of all that was used */
    double weight;
};
/* Users that have used most, in this order; returns their number, at most max. */
size_t crn_turns_users(const struct crn_turns *t, int64_t now_ns, struct crn_turns_user *ret,
                       size_t max);

struct crn_turns_totals {
    struct crn_bp_token_row row;
    double wait_s, held_s; /* over all grants that were made, or ended */
    uint64_t learned;      /* holders of a former broker, or without a grant */
    uint64_t overlapping;  /* grants while others held the token */
    /* dry run: what would have been granted, how long it would have waited, what would wait */
    uint64_t dry_granted;
    double dry_wait_s;
    uint32_t dry_waiting;
};
size_t crn_turns_tokens(const struct crn_turns *t);
void crn_turns_totals(const struct crn_turns *t, int64_t now_ns, size_t token,
                      struct crn_turns_totals *ret);
uint32_t crn_turns_jobs(const struct crn_turns *t);

/* For tests: the violated invariant, or NULL. */
const char *crn_turns_check(const struct crn_turns *t);

#endif
