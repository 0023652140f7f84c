/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of the node service: with the ranks of its node over a Unix socket (one message a
 * packet), and with the services of other nodes over the communicator. Data never travels here: a
 * rank passes the descriptor of its arena once.
 *
 *   service -> rank   WELCOME (address of the service), READY, STATE
 *   rank -> service   HELLO, ARENA (+ descriptor), CAPTURED, CAPTURE_FAILED, DROPPED, WANTED, BYE
 *   node -> root      NODE_CAPTURED, NODE_LOCAL, NODE_WROTE (bytes so far), NODE_DATA, NODE_FAILED,
 *                     NODE_WANTED, NODE_PAUSED (why the flush waits)
 *   root -> nodes     GO (sizes of the group's nodes, the version before), LEVEL, END, HURRY
 *   WANTED, NODE_WANTED, HURRY: somebody waits for the checkpoints up to this number, see pace.c; a lazy
 *   job flushes no others
 *   node -> leader    SHARDS (descriptors), SENT (how long a send took, for the statistics), NOT_SENT (what was
 *                     asked for under the tag in slot does not come)
 *   leader -> node    FETCH (extents, and the tag to send them under), FETCH_OLDER (see loan.h)
 *   root -> leader    REROUTE (whom to assist)
 *   leader -> root    NODE_IDLE (who wants no help)
 *   assistant, leader HELP, FILE, ASK, PIECE, DONE: see assist.h */
#ifndef CRN_SERVICE_PROTO_H
#define CRN_SERVICE_PROTO_H

#include "format/format.h"

#define CRN_PROTO_VERSION 7
#define CRN_PROTO_MAX     ((size_t)128 * 1024)

enum crn_msg_type {
    CRN_MSG_WELCOME = 1,
    CRN_MSG_HELLO,
    CRN_MSG_READY,
    CRN_MSG_ARENA,
    CRN_MSG_CAPTURED,
    CRN_MSG_CAPTURE_FAILED,
    CRN_MSG_DROPPED,
    CRN_MSG_BYE,
    CRN_MSG_STATE,
    CRN_MSG_WANTED,
    CRN_MSG_NODE_CAPTURED = 32,
    CRN_MSG_NODE_LOCAL,
    CRN_MSG_NODE_WROTE,
    CRN_MSG_NODE_DATA,
    CRN_MSG_NODE_FAILED,
    CRN_MSG_NODE_WANTED,
    CRN_MSG_SHARDS,
    CRN_MSG_FETCH,
    CRN_MSG_REROUTE,
    CRN_MSG_NODE_IDLE,
    CRN_MSG_HELP,
    CRN_MSG_FILE,
    CRN_MSG_ASK,
    CRN_MSG_PIECE,
    CRN_MSG_DONE,
    CRN_MSG_SENT,
    CRN_MSG_GO,
    CRN_MSG_LEVEL,
    CRN_MSG_END,
    CRN_MSG_ALIVE,
    CRN_MSG_FETCH_OLDER,
    CRN_MSG_HURRY,
    CRN_MSG_NOT_SENT,
    CRN_MSG_NODE_PAUSED,
};

/* What a rank says of itself and its job. */
struct crn_hello {
    uint8_t run[16];
    uint32_t rank, ranks;
    uint32_t node, nodes;
    uint32_t local, nlocal; /* which rank of the node, of how many */
    char *config;           /* owned: INI text of the effective configuration */
    uint32_t *peers;        /* owned: address of the service of each node */
};

/* Everything else is a note: which checkpoint, who, how far, why not. Unused fields are zero. */
struct crn_note {
    enum crn_msg_type type;
    uint8_t run[16];
    uint64_t seq;
    char name[CAIRN_MAX_NAME];
    int64_t version;
    uint64_t created_ns;
    uint64_t bytes; /* SHARDS: not 0 if the version before is lent, too */
    uint64_t
        copy_ns;   /* CAPTURED: how long the copy of so many bytes took; 0: it was no plain copy */
    uint32_t rank; /* WELCOME: address of the service */
    uint32_t node;
    uint32_t slot;
    uint32_t level; /* cairn_level */
    struct crn_errinfo error;
    struct crn_manifest_file file; /* NODE_DATA; ranges are owned */
    unsigned char *payload;        /* owned; of GO, SHARDS and what follows it */
    uint32_t payload_bytes;
};

CAIRN_CHECKED cairn_err crn_hello_encode(const struct crn_hello *h, struct crn_buf *buf,
                                         struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_hello_decode(const void *data, size_t len, struct crn_hello *ret,
                                         struct crn_errinfo *ei);
void crn_hello_free(struct crn_hello *h);
CAIRN_CHECKED cairn_err crn_note_encode(const struct crn_note *n, struct crn_buf *buf,
                                        struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_note_decode(const void *data, size_t len, struct crn_note *ret,
                                        struct crn_errinfo *ei);
void crn_note_free(struct crn_note *n);
/* Type of an encoded message; 0 if there is none. */
uint8_t crn_msg_type(const void *data, size_t len);

/* Sockets. ----------------------------------------------------------------------------------------- */

/* Listens at path (mode 0600); a stale file is replaced. */
CAIRN_CHECKED cairn_err crn_sock_listen(const char *path, int *ret_fd, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_sock_connect(const char *path, int *ret_fd, struct crn_errinfo *ei);
/* Accepts one connection of the same user; others are closed and CAIRN_EPERM. */
CAIRN_CHECKED cairn_err crn_sock_accept(int listen_fd, int *ret_fd, struct crn_errinfo *ei);
/* One packet; fd < 0: no descriptor goes along. CAIRN_ESERVICE when the other side is gone. */
CAIRN_CHECKED cairn_err crn_sock_send(int fd, const void *buf, size_t len, int pass_fd,
                                      struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_sock_send_note(int fd, const struct crn_note *n, int pass_fd,
                                           struct crn_errinfo *ei);
/* One packet without waiting: CAIRN_OK with *ret_len > 0, or 0 if there is none now; CAIRN_ESERVICE
 * at the end. ret_fd may be NULL; -1 if none came along. */
CAIRN_CHECKED cairn_err crn_sock_recv(int fd, void *buf, size_t size, size_t *ret_len, int *ret_fd,
                                      struct crn_errinfo *ei);

#endif
