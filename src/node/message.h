/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of the node service, described once. CRN_MESSAGES lists the types, CRN_FIELDS_* the
 * payload of each. Payload structs, encoding, decoding with bounds checks, the names for logs and
 * the fuzz target all derive from these lists: a new message is one row and its fields.
 *
 * Ranks talk to the service of their node over a Unix socket, one message per packet; services talk
 * to each other over the communicator. Bulk data never travels here: a rank passes the descriptor
 * of its arena once, and services use separate transfers (flow.h). HELLO, the introduction of a
 * rank, carries a configuration and is encoded in proto.c. */
#ifndef CRN_NODE_MESSAGE_H
#define CRN_NODE_MESSAGE_H

#include "format/format.h"

/* The sender and the receiver of a message. Any node may follow, lead a group, or assist a
 * leader. */
enum crn_party { CRN_RANK, CRN_SERVICE, CRN_NODE, CRN_FIRST_NODE, CRN_LEADER };

/* X(TYPE, number, payload, from, to) */
#define CRN_MESSAGES(X)                                                                            \
    X(WELCOME, 1, welcome, SERVICE, RANK) /* first message on a connection */                      \
    X(HELLO, 2, none, RANK, SERVICE)                                                               \
    X(READY, 3, ready, SERVICE, RANK)           /* answer to HELLO and ARENA */                    \
    X(ARENA, 4, none, RANK, SERVICE)            /* with its descriptor */                          \
    X(CAPTURED, 5, captured, RANK, SERVICE)     /* its capture is in a slot */                     \
    X(CAPTURE_FAILED, 6, failed, RANK, SERVICE) /* its capture will never come */                  \
    X(DROPPED, 7, dropped, RANK, SERVICE)       /* it withdraws its capture */                     \
    X(BYE, 8, bye, RANK, SERVICE)                                                                  \
    X(STATE, 9, state, SERVICE, RANK)                                                              \
    X(WANTED, 10, none, RANK, SERVICE)       /* it waits for all up to seq */                      \
    X(CLAIM, 11, claim, RANK, SERVICE)       /* before the first capture of a name: see claim.c */ \
    X(CLAIMED, 12, claimed, SERVICE, RANK)   /* the answer */                                      \
    X(WAITED, 13, waited, RANK, SERVICE)     /* a caller waits for a level of this very one */     \
    X(TURN_ASK, 14, turn_ask, RANK, SERVICE) /* rank 0: a turn for its next capture */             \
    X(TURN, 15, turn, SERVICE, RANK)         /* rank 0: what became of it */                       \
    X(CRAMPED, 16, none, RANK, SERVICE)      /* it has no room for checkpoint seq */               \
    X(NODE_CAPTURED, 32, node_captured, NODE, FIRST_NODE)                                          \
    X(NODE_LOCAL, 33, subject, NODE, FIRST_NODE)    /* its local copy is durable */                \
    X(NODE_WROTE, 34, node_wrote, NODE, FIRST_NODE) /* bytes of its file so far, for the broker */ \
    X(NODE_DATA, 35, node_data, LEADER, FIRST_NODE) /* the file of its group is durable */         \
    X(NODE_FAILED, 36, failed, NODE, FIRST_NODE)                                                   \
    X(NODE_WANTED, 37, none, NODE, FIRST_NODE)                                                     \
    X(SHARDS, 38, shards, NODE, LEADER)          /* descriptors of its shards */                   \
    X(FETCH, 39, fetch, LEADER, NODE)            /* send these extents under this tag */           \
    X(REROUTE, 40, leader, FIRST_NODE, LEADER)   /* assist that leader */                          \
    X(NODE_IDLE, 41, leader, LEADER, FIRST_NODE) /* that leader wants no help */                   \
    X(HELP, 42, none, NODE, LEADER)              /* an assistant is free */                        \
    X(FILE, 43, file, LEADER, NODE)              /* what to write; no name: no help wanted */      \
    X(ASK, 44, ask, NODE, LEADER)                /* the assistant has a free block */              \
    X(PIECE, 45, piece, LEADER, NODE)            /* a write for it */                              \
    X(DONE, 46, done, NODE, LEADER)              /* a write; finally all of them, or why not */    \
    X(SENT, 47, sent, NODE, LEADER)              /* how long a send took, for the statistics */    \
    X(GO, 48, go, FIRST_NODE, NODE)              /* flush */                                       \
    X(LEVEL, 49, level, FIRST_NODE, NODE)                                                          \
    X(END, 50, end, FIRST_NODE, NODE) /* committed or failed, everywhere */                        \
    X(ALIVE, 51, none, NODE, NODE)                                                                 \
    X(FETCH_OLDER, 52, fetch, LEADER, NODE)      /* as FETCH, for the previous version (loan.h) */ \
    X(HURRY, 53, none, FIRST_NODE, NODE)         /* somebody waits for all up to seq */            \
    X(NOT_SENT, 54, not_sent, NODE, LEADER)      /* the data that FETCH asked for will not come */ \
    X(NODE_PAUSED, 55, failed, NODE, FIRST_NODE) /* why its flush waits; not a failure */          \
    X(NODE_CLAIM, 56, node_claim, NODE, FIRST_NODE)                                                \
    X(CLAIM_DECIDED, 57, claimed, FIRST_NODE, NODE)                                                \
    X(NODE_WAITED, 58, waited, NODE, FIRST_NODE)                                                   \
    X(NODE_HERE, 59, here, NODE, NODE) /* a restarted service has the job again: see adopt.c */    \
    X(NODE_ASKS, 60, asks, NODE, FIRST_NODE) /* has this checkpoint been committed already? */     \
    X(RANK_DIED, 61, rank_died, NODE, FIRST_NODE)  /* it has captured none from seq on */          \
    X(NODE_CRAMPED, 62, subject, NODE, FIRST_NODE) /* it needs the memory of this held one */      \
    X(NODE_STREAM, 63, node_stream, NODE, NODE) /* to its set: other members may read its data */  \
    X(FETCH_STREAM, 64, fetch_stream, NODE, NODE)   /* send this part of it under this tag */      \
    X(NODE_PROTECTED, 65, failed, NODE, FIRST_NODE) /* its parity is there, or why it is not */    \
    X(FETCH_PARITY, 66, fetch_stream, NODE, NODE)   /* as FETCH_STREAM, of its parity file */

/* F(payload, kind, field): the payload of each message, in the order on the wire. */
#define CRN_FIELDS_none(F, P)
#define CRN_FIELDS_subject(F, P) F(P, CKPT, ckpt)
#define CRN_FIELDS_waited(F, P)  F(P, CKPT, ckpt) F(P, U32, level)
#define CRN_FIELDS_welcome(F, P) F(P, U32, address) F(P, ERROR, error)
#define CRN_FIELDS_ready(F, P)   F(P, ERROR, error)
#define CRN_FIELDS_captured(F, P)                                                                  \
    F(P, CKPT, ckpt)                                                                               \
    F(P, U32, slot) F(P, U64, bytes) F(P, U64, copy_ns) F(P, U32, target) F(P, U32, protect)
#define CRN_FIELDS_failed(F, P)  F(P, CKPT, ckpt) F(P, ERROR, error)
#define CRN_FIELDS_dropped(F, P) F(P, ERROR, error)
#define CRN_FIELDS_bye(F, P)     F(P, U64, waited_ns) /* waited for Cairn, in total */
#define CRN_FIELDS_state(F, P)                                                                     \
    F(P, CKPT, ckpt) F(P, U64, levels) F(P, U64, committed_ns) F(P, ERROR, error)
#define CRN_FIELDS_node_captured(F, P)                                                             \
    F(P, CKPT, ckpt) F(P, U64, bytes) F(P, U32, target) F(P, U32, protect)
#define CRN_FIELDS_node_wrote(F, P) F(P, CKPT, ckpt) F(P, U64, bytes)
#define CRN_FIELDS_node_data(F, P)  F(P, CKPT, ckpt) F(P, DATA_FILE, data)
#define CRN_FIELDS_shards(F, P)     F(P, U32, is_lent) F(P, BLOB, shards)
#define CRN_FIELDS_fetch(F, P)      F(P, U32, tag) F(P, BLOB, extents)
#define CRN_FIELDS_leader(F, P)     F(P, U32, node)
#define CRN_FIELDS_file(F, P)       F(P, U64, generation) F(P, FILE_NAME, name)
#define CRN_FIELDS_ask(F, P)        F(P, U64, generation)
#define CRN_FIELDS_piece(F, P)                                                                     \
    F(P, U64, generation) F(P, U64, id) F(P, U64, offset) F(P, U32, owner) F(P, BLOB, extents)
#define CRN_FIELDS_done(F, P)                                                                      \
    F(P, U64, generation) F(P, U64, id) F(P, BLOB, news) F(P, ERROR, error)
#define CRN_FIELDS_sent(F, P)       F(P, U64, bytes) F(P, U64, gather_ns) F(P, U64, send_ns)
#define CRN_FIELDS_go(F, P)         F(P, U64, base) F(P, U32, leaders) F(P, BLOB, sizes)
#define CRN_FIELDS_level(F, P)      F(P, U32, level) F(P, U32, is_held) F(P, U32, protect)
#define CRN_FIELDS_end(F, P)        F(P, CKPT, ckpt) F(P, U64, committed_ns) F(P, ERROR, error)
#define CRN_FIELDS_claim(F, P)      F(P, CKPT, ckpt) F(P, U32, is_successor)
#define CRN_FIELDS_node_claim(F, P) F(P, CKPT, ckpt) F(P, U32, is_successor) F(P, U32, rank)
#define CRN_FIELDS_claimed(F, P)    F(P, CKPT, ckpt) F(P, U64, generation) F(P, ERROR, error)
#define CRN_FIELDS_not_sent(F, P)   F(P, U32, tag) F(P, ERROR, error)
#define CRN_FIELDS_turn_ask(F, P)                                                                  \
    F(P, U32, is_wanted)                                                                           \
    F(P, U64, lease_ns) F(P, U64, period_ns) F(P, U64, recovery_ns) F(P, U64, bytes)
#define CRN_FIELDS_turn(F, P)      F(P, U32, news)
#define CRN_FIELDS_here(F, P)      F(P, U32, address) F(P, U32, wants_answer)
#define CRN_FIELDS_asks(F, P)      F(P, CKPT, ckpt) F(P, U64, generation)
#define CRN_FIELDS_rank_died(F, P) F(P, ERROR, error)
#define CRN_FIELDS_node_stream(F, P)                                                               \
    F(P, CKPT, ckpt) F(P, U64, bytes) F(P, U64, index_hash) /* as in the trailer of its data file */
#define CRN_FIELDS_fetch_stream(F, P) F(P, U32, tag) F(P, U64, offset) F(P, U64, bytes)

/* The payloads that have fields. */
#define CRN_PAYLOADS(P)                                                                            \
    P(subject)                                                                                     \
    P(waited)                                                                                      \
    P(welcome)                                                                                     \
    P(ready)                                                                                       \
    P(captured)                                                                                    \
    P(failed)                                                                                      \
    P(dropped)                                                                                     \
    P(bye)                                                                                         \
    P(state)                                                                                       \
    P(node_captured)                                                                               \
    P(node_wrote)                                                                                  \
    P(node_data)                                                                                   \
    P(shards)                                                                                      \
    P(fetch)                                                                                       \
    P(leader)                                                                                      \
    P(file)                                                                                        \
    P(ask)                                                                                         \
    P(piece)                                                                                       \
    P(done)                                                                                        \
    P(sent)                                                                                        \
    P(go)                                                                                          \
    P(level)                                                                                       \
    P(end)                                                                                         \
    P(claim)                                                                                       \
    P(node_claim)                                                                                  \
    P(claimed)                                                                                     \
    P(not_sent)                                                                                    \
    P(turn_ask)                                                                                    \
    P(turn)                                                                                        \
    P(here)                                                                                        \
    P(asks)                                                                                        \
    P(rank_died)                                                                                   \
    P(node_stream)                                                                                 \
    P(fetch_stream)

enum crn_msg_type {
#define CRN_MSG_ENUM(type, number, payload, from, to) CRN_MSG_##type = (number),
    CRN_MESSAGES(CRN_MSG_ENUM)
#undef CRN_MSG_ENUM
};
#define CRN_MSG_MAX 66

/* What TURN says. */
enum crn_turn_news {
    CRN_TURN_COME = 1, /* capture now: it is flushed under the turn that has come */
    CRN_TURN_PASSED,   /* the ranks did not capture in time: ask again */
    CRN_TURN_GIVEN_UP, /* a person canceled the request */
};

/* What the caller asked of one checkpoint. */
struct crn_target {
    cairn_level level; /* NONE: as configured */
    uint32_t protect;  /* crn_scheme_code; 0: as configured */
};

/* Identifies a checkpoint. First in the payload of each message that may be the first one about
 * it. */
struct crn_ckpt {
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;
};
struct crn_blob {
    unsigned char *data; /* owned by the decoded message */
    uint32_t bytes;
};

/* ERROR with code CAIRN_OK: no error, msg may be a remark. DATA_FILE owns its ranges. */
#define CRN_TYPE_U32(field)                    uint32_t field;
#define CRN_TYPE_U64(field)                    uint64_t field;
#define CRN_TYPE_CKPT(field)                   struct crn_ckpt field;
#define CRN_TYPE_ERROR(field)                  struct crn_errinfo field;
#define CRN_TYPE_DATA_FILE(field)              struct crn_manifest_file field;
#define CRN_TYPE_FILE_NAME(field)              char field[CRN_FILE_NAME];
#define CRN_TYPE_BLOB(field)                   struct crn_blob field;

#define CRN_STRUCT_FIELD(payload, kind, field) CRN_TYPE_##kind(field)
#define CRN_STRUCT(payload)                                                                        \
    struct crn_msg_##payload {                                                                     \
        CRN_FIELDS_##payload(CRN_STRUCT_FIELD, payload)                                            \
    };
CRN_PAYLOADS(CRN_STRUCT)
#undef CRN_STRUCT
#undef CRN_STRUCT_FIELD

struct crn_msg {
    enum crn_msg_type type;
    uint8_t run[16];
    uint64_t seq;  /* number of the checkpoint call */
    uint32_t node; /* sender, between nodes */
    union {
        struct crn_ckpt ckpt; /* for every payload that starts with one: see crn_msg_has_ckpt */
#define CRN_MEMBER(payload) struct crn_msg_##payload payload;
        CRN_PAYLOADS(CRN_MEMBER)
#undef CRN_MEMBER
    };
};

const char *crn_msg_name(enum crn_msg_type type); /* for logs; never NULL */
int crn_msg_has_ckpt(enum crn_msg_type type);
/* Does a rank send this? Does it travel between services? */
int crn_msg_is_of_rank(enum crn_msg_type type);
int crn_msg_is_of_node(enum crn_msg_type type);
CAIRN_CHECKED cairn_err crn_msg_encode(const struct crn_msg *m, struct crn_buf *buf,
                                       struct crn_errinfo *ei);
/* Untrusted input: CAIRN_EDAMAGED for an unknown type, a wrong length or trailing bytes. */
CAIRN_CHECKED cairn_err crn_msg_decode(const void *data, size_t len, struct crn_msg *ret,
                                       struct crn_errinfo *ei);
void crn_msg_free(struct crn_msg *m);

#endif
