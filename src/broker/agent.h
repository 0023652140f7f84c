/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's side of the token protocol, without sockets: what to report, and what the broker's
 * statuses mean. Pure, like the broker's core. client.c gives it a connection, the simulation a
 * bad network. Times are nanoseconds of one monotonic clock. */
#ifndef CRN_BROKER_AGENT_H
#define CRN_BROKER_AGENT_H

#include <stdint.h>
#include "broker/proto.h"
#include "policy/policy.h"

enum crn_turn_state {
    CRN_TURN_WAITING,  /* not yet; continue computing */
    CRN_TURN_GRANTED,  /* start: the job holds the token */
    CRN_TURN_FREE,     /* start without a token: no broker, token revoked, or max_wait exceeded */
    CRN_TURN_CANCELED, /* a person canceled this transfer; return the ticket */
};

/* What the job wants to do. Zero: unknown. */
struct crn_turn_ask {
    char token[CRN_BP_NAME]; /* its name, or a path of its file system */
    enum crn_io_kind kind;
    uint64_t bytes;
    int64_t duration_ns; /* alone on the file system; 0: from the rate of earlier transfers */
    int64_t at_risk_ns;  /* age of the last safe checkpoint */
    int64_t recovery_ns; /* to read a checkpoint back */
    int64_t period_ns;   /* between checkpoints */
    int64_t age_ns;      /* the job wants it since then: keeps the place of an earlier request */
    int is_quiet;        /* does not report progress: must not count as a stall */
};

struct crn_turn {
    enum crn_turn_state state;
    uint32_t place;    /* WAITING: 1 is next; 0: unknown */
    int64_t start_ns;  /* WAITING: expected start, from now; -1: unknown */
    int64_t waited_ns; /* until the start, or until now */
    const char *why;   /* for people; never NULL */
};

struct crn_agent_config {
    uint8_t job[16]; /* random */
    char name[CRN_BP_NAME];
    uint32_t nodes;
    char batch[CRN_BP_NAME]; /* the job's number in Slurm; empty: none */
    int64_t give_up_ns;      /* without a broker for this long: FREE */
    int64_t
        stuck_ns; /* without an answer for this long: the connection is of no use; 0: give_up_ns */
    int64_t max_wait_ns; /* after waiting this long, with or without a broker: FREE; 0: no limit */
};

struct crn_agent_request {
    uint8_t is_open;
    uint8_t is_canceled;
    uint8_t
        is_returned; /* over; the next report lists it a last time, with all that it has moved */
    uint8_t state;   /* enum crn_bp_state */
    uint8_t why;     /* enum crn_bp_why; AWAY also: started without a broker */
    uint32_t seq;
    uint32_t place;
    struct crn_turn_ask ask;
    uint64_t done;
    uint64_t told; /* done, as of the last report */
    int64_t asked_ns;
    int64_t begun_ns; /* not WAITING: start of the transfer */
    int64_t start_ns; /* expected; -1: unknown */
    uint64_t epoch;   /* HOLDING: of the broker that granted it */
};

struct crn_agent {
    struct crn_agent_config cfg;
    struct crn_agent_request req[CRN_BP_MAX_ASKS];
    uint32_t next_seq;
    int is_online;
    int is_dirty;      /* the broker does not know the newest state yet */
    uint64_t epoch;    /* of the broker on this connection */
    int64_t report_ns; /* interval of reports */
    int64_t away_ns;   /* no broker has answered since then; -1: it answers */
    uint64_t number;   /* of the last report */
    uint64_t answered; /* newest answered report */
    uint64_t status;   /* newest status of this connection */
    int64_t sent_ns;   /* last report */
    int64_t asking_ns; /* first unanswered report; -1: none */
    double rate;       /* bytes/s of earlier transfers; 0: none */
};

void crn_agent_init(struct crn_agent *a, const struct crn_agent_config *cfg, int64_t now_ns);

/* Opens a ticket. CAIRN_ELIMIT: CRN_BP_MAX_ASKS are open. */
CAIRN_CHECKED cairn_err crn_agent_ask(struct crn_agent *a, int64_t now_ns,
                                      const struct crn_turn_ask *ask, uint32_t *ret_ticket,
                                      struct crn_errinfo *ei);
/* Replaces what a waiting request says about the job: bytes and the times, but age_ns. */
void crn_agent_update(struct crn_agent *a, int64_t now_ns, uint32_t ticket,
                      const struct crn_turn_ask *ask);
/* Done, or no longer wanted. Unknown tickets are ignored. */
void crn_agent_return(struct crn_agent *a, int64_t now_ns, uint32_t ticket);
void crn_agent_progress(struct crn_agent *a, uint32_t ticket, uint64_t bytes_done);
/* CANCELED for a ticket that is not open. */
struct crn_turn crn_agent_look(const struct crn_agent *a, int64_t now_ns, uint32_t ticket);

/* Events of the connection. */
void crn_agent_online(struct crn_agent *a, const struct crn_bp_welcome *welcome);
void crn_agent_offline(struct crn_agent *a, int64_t now_ns);
void crn_agent_status(struct crn_agent *a, int64_t now_ns, const struct crn_bp_status *status);

/* Releases requests that have waited too long. */
void crn_agent_tick(struct crn_agent *a, int64_t now_ns);
/* Returns 1 and a report to send now, or 0. */
int crn_agent_report(struct crn_agent *a, int64_t now_ns, struct crn_bp_report *ret);
/* Is the connection open although the broker does not answer? Then drop it. */
int crn_agent_is_stuck(const struct crn_agent *a, int64_t now_ns);
/* When tick or report is due at the latest, without other events; INT64_MAX: never. */
int64_t crn_agent_deadline(const struct crn_agent *a);

#endif
