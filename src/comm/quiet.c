/* SPDX-License-Identifier: BSD-3-Clause */
/* A barrier of messages up and down a binary tree. MPI's own keeps a core busy for each rank that
 * waits, which the threads of those that still work could use. */
#include <stdlib.h>
#include <time.h>

#include "comm/comm.h"

#define NAP_NS 50000

/* Takes n messages. */
static cairn_err take(struct crn_comm *c, int n, struct crn_errinfo *ei)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    cairn_err rc = CAIRN_OK;

    while (rc == CAIRN_OK && n > 0) {
        void *buf = NULL;
        size_t bytes;
        int from;

        rc = c->ops->poll(c, &from, &buf, &bytes, ei);
        if (buf != NULL)
            n--;
        else if (rc == CAIRN_OK)
            (void)nanosleep(&nap, NULL);
        free(buf);
    }
    return rc;
}

cairn_err crn_comm_quiet_barrier(struct crn_comm *c, struct crn_errinfo *ei)
{
    const char word = 0;
    int first = 2 * c->rank + 1; /* child; the other is the next */
    int n = first + 1 < c->size ? 2 : first < c->size ? 1 : 0;
    cairn_err rc;
    int i;

    rc = take(c, n, ei);
    if (rc == CAIRN_OK && c->rank > 0)
        rc = c->ops->post(c, (c->rank - 1) / 2, &word, 1, ei);
    if (rc == CAIRN_OK && c->rank > 0)
        rc = take(c, 1, ei);
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = c->ops->post(c, first + i, &word, 1, ei);
    return rc;
}
