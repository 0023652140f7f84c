/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator of one process: collectives are copies, and messages to itself are queued. */
#include "comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct comm_self_message {
    struct comm_self_message *next;
    size_t bytes;
    unsigned char data[];
};

struct self_comm {
    struct crn_comm c;
    struct comm_self_message *first; /* oldest; service thread only */
    struct comm_self_message **last;
};

static cairn_err self_split(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                            struct crn_errinfo *ei)
{
    (void)c;
    (void)key;
    if (color < 0) {
        *ret = NULL;
        return CAIRN_OK;
    }
    return crn_comm_self(ret, ei);
}

static cairn_err self_split_host(struct crn_comm *c, struct crn_comm **ret, struct crn_errinfo *ei)
{
    return self_split(c, 0, 0, ret, ei);
}

static cairn_err self_barrier(struct crn_comm *c, struct crn_errinfo *ei)
{
    (void)c;
    (void)ei;
    return CAIRN_OK;
}

static cairn_err self_bcast(struct crn_comm *c, void *buf, size_t bytes, int root,
                            struct crn_errinfo *ei)
{
    (void)c;
    (void)buf;
    (void)bytes;
    (void)root;
    (void)ei;
    return CAIRN_OK;
}

static cairn_err self_allgather(struct crn_comm *c, const void *in, size_t bytes, void *out,
                                struct crn_errinfo *ei)
{
    (void)c;
    (void)ei;
    memcpy(out, in, bytes);
    return CAIRN_OK;
}

static cairn_err self_allreduce(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                                struct crn_errinfo *ei)
{
    (void)c;
    (void)values;
    (void)n;
    (void)op;
    (void)ei;
    return CAIRN_OK;
}

static cairn_err self_post(struct crn_comm *c, int to, const void *buf, size_t bytes,
                           struct crn_errinfo *ei)
{
    struct self_comm *s = (struct self_comm *)c;
    struct comm_self_message *m;

    (void)to;
    m = malloc(sizeof(*m) + bytes);
    if (m == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
    m->next = NULL;
    m->bytes = bytes;
    memcpy(m->data, buf, bytes);
    *s->last = m;
    s->last = &m->next;
    return CAIRN_OK;
}

static cairn_err self_poll(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                           struct crn_errinfo *ei)
{
    struct self_comm *s = (struct self_comm *)c;
    struct comm_self_message *m = s->first;
    void *copy;

    *ret_buf = NULL;
    if (m == NULL)
        return CAIRN_OK;
    copy = malloc(m->bytes != 0 ? m->bytes : 1);
    if (copy == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", m->bytes);
    memcpy(copy, m->data, m->bytes);
    s->first = m->next;
    if (s->first == NULL)
        s->last = &s->first;
    *ret_from = 0;
    *ret_buf = copy;
    *ret_bytes = m->bytes;
    free(m);
    return CAIRN_OK;
}

/* Never called: a node does not fetch from itself. */
static cairn_err self_send_start(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                                 struct crn_transfer **ret, struct crn_errinfo *ei)
{
    (void)c;
    (void)buf;
    (void)ret;
    return crn_fail(ei, CAIRN_EBUG, 0, "a transfer of %zu bytes to %d, tag %d, of a single process",
                    bytes, to, tag);
}

static cairn_err self_recv_start(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                                 struct crn_transfer **ret, struct crn_errinfo *ei)
{
    return self_send_start(c, from, tag, buf, bytes, ret, ei);
}

static cairn_err self_transfer_test(struct crn_comm *c, struct crn_transfer *t, int *ret_done,
                                    struct crn_errinfo *ei)
{
    (void)c;
    (void)t;
    *ret_done = 1;
    return crn_fail(ei, CAIRN_EBUG, 0, "a transfer of a single process");
}

static int self_transfer_cancel(struct crn_comm *c, struct crn_transfer *t)
{
    (void)c;
    (void)t;
    return 1;
}

static void self_settle(struct crn_comm *c)
{
    (void)c;
}

static int self_threads_ok(const struct crn_comm *c)
{
    (void)c;
    return 1;
}

static void self_free(struct crn_comm *c)
{
    struct self_comm *s = (struct self_comm *)c;

    while (s->first != NULL) {
        struct comm_self_message *m = s->first;

        s->first = m->next;
        free(m);
    }
    free(s);
}

static const struct crn_comm_ops self_ops = {
    .abi = CRN_COMM_ABI,
    .name = "self",
    .split = self_split,
    .split_host = self_split_host,
    .barrier = self_barrier,
    .bcast = self_bcast,
    .allgather = self_allgather,
    .allreduce = self_allreduce,
    .post = self_post,
    .poll = self_poll,
    .send_start = self_send_start,
    .recv_start = self_recv_start,
    .transfer_test = self_transfer_test,
    .transfer_cancel = self_transfer_cancel,
    .settle = self_settle,
    .threads_ok = self_threads_ok,
    .free = self_free,
};

cairn_err crn_comm_self(struct crn_comm **ret, struct crn_errinfo *ei)
{
    struct self_comm *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    s->c.ops = &self_ops;
    s->c.size = 1;
    s->last = &s->first;
    *ret = &s->c;
    return CAIRN_OK;
}
