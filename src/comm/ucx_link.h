/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between the ranks of one communicator over UCX. Each communicator has a worker and
 * endpoints of its own, so different threads may use different communicators. Endpoints are made
 * when they are needed. For src/comm only. */
#ifndef CRN_COMM_UCX_LINK_H
#define CRN_COMM_UCX_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <ucp/api/ucp.h>
#include "comm/comm.h"

#define UCX_HOST 64 /* bytes of a host name, with the final 0 */

/* The library context that all communicators of a session share. */
struct ucx_net {
    ucp_context_h context;
    uint64_t secret[2]; /* of the job, from the bootstrap */
    atomic_int users;
};
CAIRN_CHECKED cairn_err crn_ucx_net_open(struct ucx_net **ret, struct crn_errinfo *ei);
void crn_ucx_net_put(struct ucx_net *net); /* the last user closes it */

/* Who a rank is; exchanged when a communicator is made. */
struct ucx_card {
    uint32_t rank; /* in the communicator of the session: for messages */
    uint32_t pid;
    uint64_t machine; /* ranks with the same number share memory */
    uint64_t id;      /* of the communicator, drawn by its first rank */
    uint64_t secret[2];
    uint32_t color, key;
    uint32_t address_bytes;
    char host[UCX_HOST];
};

#define UCX_AM_ID   1
#define UCX_WAIT_MS 50 /* a sleep ends then at the latest */
#define UCX_WIDTH   16 /* children of a rank in the tree of a collective */

enum ucx_kind { UCX_POST = 1, UCX_COLLECTIVE, UCX_DATA, UCX_BYE, UCX_DEATH };

/* The header of every message. The proof is a keyed hash over the fields before it: a sender that
 * does not know the job's secret cannot make one, nor use an old one again, since seq counts the
 * messages from one rank to another. */
struct ucx_head {
    uint64_t comm;
    uint64_t seq;
    uint64_t bytes;
    uint32_t from, to;
    uint32_t kind;
    uint32_t tag; /* of a transfer, number of a collective, or who has died */
    uint64_t proof;
};

struct ucx_in { /* a message that has arrived */
    struct ucx_in *next;
    struct ucx_head head;
    void *data; /* owned; or NULL with a descriptor */
    void *desc; /* of a rendezvous: the data is still at the sender; owned */
};

struct ucx_peer {
    struct ucx_link *link;
    ucp_ep_h ep; /* NULL: not needed so far, or closed */
    uint64_t sent, received;
    struct ucx_in *early; /* arrived before its predecessors; ascending */
    ucs_status_t failed;  /* of the connection, or UCS_OK */
    int is_gone;          /* said goodbye: what fails from now on is no failure */
    int is_told;          /* its failure has been reported */
};

/* What comm.h calls a transfer. */
struct ucx_transfer {
    struct ucx_transfer *next; /* receives that wait for their message */
    struct ucx_head head;
    uint32_t peer;
    void *buf;
    size_t bytes;
    int is_done, is_posted; /* is_posted: freed when sent */
    ucs_status_t status;
    struct ucx_link *link;
    unsigned char copy[]; /* of a posted message */
};

/* A first message needs the sender's help until its connection stands, and the application may be
 * computing by then: the thread `cairn-push` moves the worker while posted messages are unsent. */
struct ucx_link {
    pthread_mutex_t mu; /* recursive; guards all below but net, cards and addresses */
    pthread_cond_t push;
    pthread_t pusher;
    int has_pusher, is_closing;
    int is_polled; /* a service polls it: no need to push */
    struct ucx_net *net;
    ucp_worker_h worker;
    int fd; /* readable when the worker has something to do, once it is armed */
    uint64_t id;
    uint32_t rank, size;
    uint32_t round;           /* number of the last collective */
    struct ucx_card *cards;   /* owned */
    unsigned char *addresses; /* owned; each address_room bytes */
    size_t address_room;
    struct ucx_peer *peers; /* owned */
    struct ucx_in *posts, **posts_end;
    struct ucx_in *others; /* collectives and transfers that nobody waits for yet */
    struct ucx_transfer *waiting;
    int unsent; /* posted messages */
    int broken; /* connections whose end was not reported yet */
    uint64_t strangers, told_strangers;
    struct crn_errinfo failure; /* out of memory in a callback */
};

/* Makes the worker. The caller exchanges the addresses, then calls crn_ucx_link_join with the cards
 * and addresses of all ranks, which the link then owns, even on failure. */
CAIRN_CHECKED cairn_err crn_ucx_link_open(struct ucx_net *net, struct ucx_link **ret,
                                          struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_ucx_link_address(struct ucx_link *l, void **ret, size_t *ret_bytes,
                                             struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_ucx_link_join(struct ucx_link *l, uint32_t rank, uint32_t size,
                                          struct ucx_card *cards, unsigned char *addresses,
                                          size_t address_room, struct crn_errinfo *ei);
/* Says goodbye, waits at most a second for that of its peers, and frees. link may be half-built. */
void crn_ucx_link_close(struct ucx_link *l);

/* Sends bytes. Posted messages are copied and freed when sent; others are the caller's. */
CAIRN_CHECKED cairn_err crn_ucx_send(struct ucx_link *l, enum ucx_kind kind, uint32_t to,
                                     uint32_t tag, const void *buf, size_t bytes,
                                     struct ucx_transfer **ret, struct crn_errinfo *ei);
/* Moves messages, in and out. */
void crn_ucx_progress(struct ucx_link *l);
void crn_ucx_lock(struct ucx_link *l);
void crn_ucx_unlock(struct ucx_link *l); /* starts to push what is unsent */
/* What went wrong since the last call: a rank has died, or a message was lost for want of memory. */
CAIRN_CHECKED cairn_err crn_ucx_failure(struct ucx_link *l, struct crn_errinfo *ei);
/* Collectives, in the tree of all ranks. */
CAIRN_CHECKED cairn_err crn_ucx_bcast(struct ucx_link *l, void *buf, size_t bytes, uint32_t root,
                                      struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_ucx_allreduce(struct ucx_link *l, int64_t *values, int n,
                                          enum crn_comm_op op, struct crn_errinfo *ei);
CAIRN_CHECKED cairn_err crn_ucx_allgather(struct ucx_link *l, const void *in, size_t bytes,
                                          void *out, struct crn_errinfo *ei);
/* 1: the descriptor becomes readable when there is something to do; 0: there is already. */
int crn_ucx_arm(struct ucx_link *l);
/* Waits for the message of a collective; the caller frees it with crn_ucx_in_free. */
CAIRN_CHECKED cairn_err crn_ucx_take(struct ucx_link *l, uint32_t from, uint32_t round,
                                     struct ucx_in **ret, struct crn_errinfo *ei);
void crn_ucx_in_free(struct ucx_link *l, struct ucx_in *in);
CAIRN_CHECKED cairn_err crn_ucx_recv(struct ucx_link *l, uint32_t from, uint32_t tag, void *buf,
                                     size_t bytes, struct ucx_transfer **ret,
                                     struct crn_errinfo *ei);
/* Fails if the rank has died; the message names it. */
CAIRN_CHECKED cairn_err crn_ucx_alive(struct ucx_link *l, uint32_t rank, struct crn_errinfo *ei);
/* Between the files of the link. */
ucs_status_t crn_ucx_on_message(void *arg, const void *header, size_t header_bytes, void *data,
                                size_t bytes, const ucp_am_recv_param_t *param);
void crn_ucx_close_endpoint(struct ucx_peer *p);
void crn_ucx_sleep(struct ucx_link *l, int *tries);
CAIRN_CHECKED cairn_err crn_ucx_check(ucs_status_t status, const char *what,
                                      struct crn_errinfo *ei);
uint64_t crn_ucx_hash(const uint64_t secret[2], const void *data, size_t n); /* SipHash-2-4 */

#endif
