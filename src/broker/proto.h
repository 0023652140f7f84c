/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between jobs and cairn-broker, as structs and as bytes. docs/broker-protocol.md
 * specifies them; change it with this file. Pure: no I/O. All input from a peer is hostile.
 *
 * The protocol carries states, not events. Each REPORT lists everything the job wants and has;
 * each STATUS lists everything the broker has decided for the job. The next message makes up for
 * a lost one, numbers identify repeated and late ones, and a broker that starts with an empty
 * memory learns from the reports which jobs hold tokens. */
#ifndef CRN_BROKER_PROTO_H
#define CRN_BROKER_PROTO_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define CRN_BP_MAGIC     0x424e5243u /* "CRNB" */
#define CRN_BP_MAJOR     1           /* other major versions are refused */
#define CRN_BP_MINOR     2           /* fields are added at the end; unknown ones are skipped */
#define CRN_BP_HEAD      6           /* u32 length of the rest, u16 type */
#define CRN_BP_MAX_FRAME 16384       /* whole frame, after the login ... */
#define CRN_BP_MAX_LOGIN 4096        /* ... and before it */
#define CRN_BP_MAX_ASKS  8           /* open requests of one job */
#define CRN_BP_NAME      64          /* user, token and policy names, including the final 0 */
#define CRN_BP_TEXT      256
#define CRN_BP_NONCE     32
#define CRN_BP_PROOF     2048
#define CRN_BP_UNKNOWN   UINT64_MAX /* a time, or a progress */

enum crn_bp_type {
    CRN_BP_HELLO = 1,     /* job -> broker: version, method, nonce */
    CRN_BP_CHALLENGE = 2, /* broker -> job: version, nonce */
    CRN_BP_PROOF_MSG = 3, /* job -> broker */
    CRN_BP_WELCOME = 4,   /* broker -> job: your user name, the lease time */
    CRN_BP_REPORT = 5,    /* job -> broker */
    CRN_BP_STATUS = 6,    /* broker -> job */
    CRN_BP_QUERY = 7,     /* person -> broker; answered with rows and DONE */
    CRN_BP_TOKEN_ROW = 8,
    CRN_BP_REQUEST_ROW = 9,
    CRN_BP_CONTROL = 10, /* person -> broker; answered with DONE */
    CRN_BP_DONE = 11,
    CRN_BP_BYE = 12,     /* broker -> peer: why the connection ends */
    CRN_BP_PROBE = 13,   /* broker -> broker, instead of HELLO: do you serve? */
    CRN_BP_SERVING = 14, /* the answer: yes; the connection ends */
    CRN_BP_USER_ROW = 15 /* since 1.2: after the request rows */
};

struct crn_bp_hello {
    uint16_t major, minor;
    uint8_t method;         /* enum crn_auth_method */
    char user[CRN_BP_NAME]; /* whose key; a claim until proven */
    uint8_t nonce[CRN_BP_NONCE];
};

struct crn_bp_challenge {
    uint16_t major, minor;
    uint8_t nonce[CRN_BP_NONCE];
};

struct crn_bp_proof {
    uint16_t len;
    uint8_t data[CRN_BP_PROOF];
};

struct crn_bp_welcome {
    uint64_t epoch; /* rises with each start of the broker, and with each takeover */
    uint64_t lease_ns;
    uint64_t report_ns; /* report at least this often while something is open */
    uint8_t is_admin;
    char user[CRN_BP_NAME];
    struct crn_bp_proof proof; /* the broker's own; empty if the method has none */
};

/* The state of a request, as its job sees it. */
enum crn_bp_state {
    CRN_BP_WAITING = 1, /* wants the token */
    CRN_BP_HOLDING = 2, /* got it from the broker of this epoch */
    CRN_BP_ALONE = 3,   /* uses the file system without a broker's grant */
    CRN_BP_LOST = 4     /* as ALONE, but the broker revoked the token: no longer counts */
};

struct crn_bp_ask {
    uint32_t seq;            /* chosen by the job, increasing, never reused */
    char token[CRN_BP_NAME]; /* or a path of its file system; empty: the first */
    uint8_t kind;            /* enum crn_io_kind */
    uint8_t state;           /* enum crn_bp_state */
    uint64_t epoch;          /* HOLDING: of the broker that granted it */
    uint64_t age_ns;         /* since the request */
    uint64_t held_ns;        /* HOLDING, ALONE, LOST: since the transfer began */
    uint64_t bytes, done; /* to move, moved so far; CRN_BP_UNKNOWN: not reported, never a stall */
    uint64_t duration_ns; /* with the whole bandwidth, if the job knows; 0: from bytes */
    uint64_t at_risk_ns;  /* since the last safe checkpoint, or the start of the computation */
    uint64_t recovery_ns; /* a restart read with the whole bandwidth; 0: as duration */
    uint64_t period_ns;   /* that the job aims at; 0: unknown */
};

struct crn_bp_report {
    uint8_t job[16]; /* random, for the life of the job */
    uint64_t number; /* increasing over the life of the job, across connections */
    uint32_t nodes;
    char name[CRN_BP_NAME]; /* for people */
    char
        batch[CRN_BP_NAME]; /* the job's number in Slurm; empty: none, or a client of version 1.0 */
    uint16_t n;
    struct crn_bp_ask ask[CRN_BP_MAX_ASKS]; /* every open request; unlisted ones are closed */
};

enum crn_bp_verdict_code {
    CRN_BP_WAIT = 1,
    CRN_BP_GO = 2,       /* the token is granted while the job reports */
    CRN_BP_TAKEN = 3,    /* revoked: lease over, no progress, or by a person */
    CRN_BP_CANCELED = 4, /* by a person, while it waited */
    CRN_BP_REFUSED = 5   /* no such token, or too many requests */
};

enum crn_bp_why {
    CRN_BP_WHY_NONE = 0,
    CRN_BP_WHY_TURN,     /* others go first */
    CRN_BP_WHY_DRAIN,    /* an administrator has stopped the token */
    CRN_BP_WHY_SETTLING, /* the broker has just started and is learning the holders */
    CRN_BP_WHY_LEASE,    /* silent for too long */
    CRN_BP_WHY_STALL,    /* held without moving bytes */
    CRN_BP_WHY_LIMIT,    /* held for longer than allowed; or too many requests */
    CRN_BP_WHY_PERSON,
    CRN_BP_WHY_TOKEN, /* no such token */
    CRN_BP_WHY_AWAY,  /* the job is disconnected at the moment */
    CRN_BP_WHYS
};
const char *crn_bp_why_text(unsigned why);

struct crn_bp_verdict {
    uint32_t seq;
    uint8_t code;      /* enum crn_bp_verdict_code */
    uint8_t why;       /* enum crn_bp_why */
    uint32_t place;    /* 1: next; 0: unknown */
    uint64_t start_ns; /* from now; CRN_BP_UNKNOWN */
};

struct crn_bp_status {
    uint64_t number; /* increasing over the life of the broker */
    uint64_t report; /* the newest report that this answers */
    uint16_t n;
    struct crn_bp_verdict verdict[CRN_BP_MAX_ASKS];
};

struct crn_bp_query {
    uint32_t max_requests;   /* rows; the broker has its own limit, too */
    char token[CRN_BP_NAME]; /* empty: all */
};

struct crn_bp_token_row {
    char token[CRN_BP_NAME];
    char policy[CRN_BP_NAME];
    uint32_t slots, holders, waiting;
    uint8_t is_draining, is_settling;
    uint8_t is_dry; /* nothing waits; the broker notes what it would have decided */
    uint64_t granted, returned, taken, canceled; /* since the broker's start */
    uint64_t oldest_ns;                          /* longest wait now */
};

struct crn_bp_request_row {
    uint64_t id; /* for cancel */
    char token[CRN_BP_NAME];
    char user[CRN_BP_NAME];
    char job[CRN_BP_NAME];
    uint32_t nodes;
    uint8_t kind, state, why;
    uint32_t place;
    uint64_t start_ns; /* WAITING: expected; CRN_BP_UNKNOWN */
    uint64_t age_ns, held_ns, bytes, done, duration_ns;
};

/* What a user, or an account, has used of the tokens' time over the last hour or so. */
struct crn_bp_user_row {
    char user[CRN_BP_NAME];
    uint32_t jobs;
    uint32_t share;  /* of all that was used, in millionths */
    uint64_t weight; /* in thousandths */
};

enum crn_bp_op {
    CRN_BP_OP_DRAIN = 1,
    CRN_BP_OP_RESUME = 2,
    CRN_BP_OP_POLICY = 3,
    CRN_BP_OP_CANCEL = 4
};

struct crn_bp_control {
    uint8_t op;
    uint64_t id;                /* cancel */
    char token[CRN_BP_NAME];    /* drain, resume, policy; empty: all */
    char argument[CRN_BP_NAME]; /* policy: its name */
};

struct crn_bp_done {
    int32_t code; /* cairn_err */
    char text[CRN_BP_TEXT];
};

struct crn_bp_probe {
    uint16_t major, minor;
};

struct crn_bp_serving {
    uint64_t epoch;
};

struct crn_bp_msg {
    enum crn_bp_type type;
    union {
        struct crn_bp_hello hello;
        struct crn_bp_challenge challenge;
        struct crn_bp_proof proof;
        struct crn_bp_welcome welcome;
        struct crn_bp_report report;
        struct crn_bp_status status;
        struct crn_bp_query query;
        struct crn_bp_token_row token_row;
        struct crn_bp_request_row request_row;
        struct crn_bp_user_row user_row;
        struct crn_bp_control control;
        struct crn_bp_done done; /* also BYE */
        struct crn_bp_probe probe;
        struct crn_bp_serving serving;
    } u;
};

/* Appends the whole frame. b->failed is set if memory runs out. */
void crn_bp_encode(const struct crn_bp_msg *msg, struct crn_buf *b);
/* Size of the frame that begins at data, 0 if there are fewer than CRN_BP_HEAD bytes.
 * CAIRN_EFORMAT if the length is invalid or over max. */
CAIRN_CHECKED cairn_err crn_bp_frame(const void *data, size_t len, size_t max, size_t *ret_size,
                                     struct crn_errinfo *ei);
/* Decodes one whole frame of size bytes. CAIRN_EFORMAT for unprintable text or numbers out of
 * range. Skips fields of a later minor version at the end. */
CAIRN_CHECKED cairn_err crn_bp_decode(const void *frame, size_t size, struct crn_bp_msg *ret,
                                      struct crn_errinfo *ei);

#endif
