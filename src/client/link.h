/* SPDX-License-Identifier: BSD-3-Clause */
/* The rank's end of the socket to its node service. Sending never blocks: a message that the socket
 * does not accept now waits in the outbox, so a service that hangs cannot hang the application. The
 * application's thread and the threads of the session's tiers share a link. */
#ifndef CRN_CLIENT_LINK_H
#define CRN_CLIENT_LINK_H

#include "base/thread.h"
#include "service/proto.h"

#define CRN_LINK_OUTBOX 4096 /* messages; a service that lags this much will not recover soon */

struct crn_posted; /* a message in the outbox */

struct crn_link {
    struct crn_mutex mu;
    int fd;                 /* -1: not connected yet. The number never changes during a session */
    int is_lost;            /* lock: the peer is gone; messages wait for the next connection */
    struct crn_posted *out; /* lock: the outbox, oldest first */
    struct crn_posted **out_end;
    uint32_t nout;
};

void crn_link_init(struct crn_link *l);
void crn_link_close(struct crn_link *l); /* closes the socket and discards the outbox */
void crn_link_fini(struct crn_link *l);
/* Takes over a connection, the first or a later one, and sends the outbox there. */
void crn_link_connected(struct crn_link *l, int fd);
/* The same after a loss: these n messages go first. On an error nothing has changed. */
CAIRN_CHECKED cairn_err crn_link_resume(struct crn_link *l, int fd, const struct crn_msg *first,
                                        size_t n, struct crn_errinfo *ei);

/* Any thread. CAIRN_ETIMEDOUT if the outbox is full. */
CAIRN_CHECKED cairn_err crn_link_post(struct crn_link *l, const struct crn_msg *n,
                                      struct crn_errinfo *ei);
/* Any thread. Sends as much of the outbox as the socket accepts now. */
void crn_link_push(struct crn_link *l);
/* Any thread. Marks the peer as gone. */
void crn_link_lose(struct crn_link *l);
int crn_link_is_lost(struct crn_link *l);
int crn_link_is_full(struct crn_link *l);

/* Application's thread. Waits until there is something to read, or until the socket accepts a
 * message of the outbox; at most timeout_ns. */
void crn_link_wait(struct crn_link *l, int64_t timeout_ns);

#endif
