/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank introduces itself to the node service, and the Unix sockets that carry messages.
 * message.h defines the messages. */
#ifndef CRN_SERVICE_PROTO_H
#define CRN_SERVICE_PROTO_H

#include "node/message.h"
#include "protect/scheme.h"

#define CRN_PROTO_VERSION 16
#define CRN_PROTO_MAX     ((size_t)128 * 1024)

/* A rank's introduction of itself and its job. */
struct crn_hello {
    uint8_t run[16];
    uint32_t rank, ranks;
    uint32_t node, nodes;
    uint32_t local, nlocal; /* index of the rank on its node; ranks on the node */
    uint32_t is_rejoin;     /* the rank was in this job before the service was restarted; ... */
    uint64_t seq;           /* ... it has ended its checkpoint calls up to this number */
    char *config;           /* owned: INI text of the effective configuration */
    uint32_t nmembers;      /* of this node's set (src/protect); 0: it is in none */
    uint32_t member[CRN_SET_MAX];
    uint32_t *peers; /* owned: address of the service of each node */
};

CAIRN_CHECKED cairn_err crn_hello_encode(const struct crn_hello *h, struct crn_buf *buf,
                                         struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_hello_decode(const void *data, size_t len, struct crn_hello *ret,
                                         struct crn_errinfo *ei);
void crn_hello_free(struct crn_hello *h);
/* Type of an encoded message; 0 if there is none. */
uint8_t crn_msg_type(const void *data, size_t len);

/* Sockets. ------------------------------------------------------------------------------------- */

/* Listens at path (mode 0600); replaces a stale file. */
CAIRN_CHECKED cairn_err crn_sock_listen(const char *path, int *ret_fd, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_sock_connect(const char *path, int *ret_fd, struct crn_errinfo *ei);
/* Accepts one connection of the same user; connections of other users are closed, with
 * CAIRN_EPERM. */
CAIRN_CHECKED cairn_err crn_sock_accept(int listen_fd, int *ret_fd, struct crn_errinfo *ei);
/* Sends one packet; pass_fd < 0: without a descriptor. CAIRN_ESERVICE if the other side is gone. */
CAIRN_CHECKED cairn_err crn_sock_send(int fd, const void *buf, size_t len, int pass_fd,
                                      struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_sock_send_msg(int fd, const struct crn_msg *m, int pass_fd,
                                          struct crn_errinfo *ei);
/* Receives one packet without blocking: CAIRN_OK with *ret_len > 0, or 0 if there is none yet;
 * CAIRN_ESERVICE at the end. ret_fd may be NULL; *ret_fd is -1 if no descriptor came along. */
CAIRN_CHECKED cairn_err crn_sock_recv(int fd, void *buf, size_t size, size_t *ret_len, int *ret_fd,
                                      struct crn_errinfo *ei);

#endif
