/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and endpoints. A message is handled only if its header proves that the sender knows the
 * job's secret, and in the order in which its sender sent it: UCX may overtake with small messages.
 * Large ones stay at the sender until a receive names their memory. UCX tells when a connection
 * breaks; a rank that said goodbye before has not died. */
#include "comm/ucx_link.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define SPINS 50 /* before a wait sleeps */

static uint64_t ucx_proof(const struct ucx_link *l, const struct ucx_head *h)
{
    return crn_ucx_hash(l->net->secret, h, offsetof(struct ucx_head, proof));
}

/* Messages that arrive. ------------------------------------------------------------------------ */

void crn_ucx_in_free(struct ucx_link *l, struct ucx_in *in)
{
    if (in->desc != NULL)
        ucp_am_data_release(l->worker, in->desc);
    free(in->data);
    free(in);
}

static void on_received(void *request, ucs_status_t status, size_t length, void *arg)
{
    struct ucx_transfer *t = arg;

    (void)length;
    t->status = status;
    t->is_done = 1;
    ucp_request_free(request);
}

/* Brings the data of a message to the memory of a receive. */
static void ucx_message_fill(struct ucx_link *l, struct ucx_transfer *t, struct ucx_in *in)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.recv_am = on_received,
        .user_data = t,
    };
    ucs_status_ptr_t request;

    if (in->head.bytes != t->bytes) {
        t->status = UCS_ERR_MESSAGE_TRUNCATED;
        t->is_done = 1;
    } else if (in->desc != NULL) {
        request = ucp_am_recv_data_nbx(l->worker, in->desc, t->buf, t->bytes, &param);
        in->desc = NULL; /* UCX's again, also if this fails */
        if (!UCS_PTR_IS_PTR(request)) {
            t->status = UCS_PTR_STATUS(request);
            t->is_done = 1;
        }
    } else {
        if (t->bytes > 0)
            memcpy(t->buf, in->data, t->bytes);
        t->is_done = 1;
    }
    crn_ucx_in_free(l, in);
}

static void ucx_message_lose(struct ucx_peer *p, ucs_status_t status)
{
    if (p->failed == UCS_OK)
        p->link->broken++;
    p->failed = status; /* closed later, outside of UCX's callbacks */
}

static int is_for(const struct ucx_transfer *t, const struct ucx_head *h)
{
    return t->head.from == h->from && t->head.tag == h->tag;
}

static void ucx_message_dispatch(struct ucx_link *l, struct ucx_in *in)
{
    struct ucx_transfer **t = &l->waiting;
    struct ucx_in **end = &l->others;

    in->next = NULL;
    if (in->head.kind == UCX_BYE) {
        l->peers[in->head.from].is_gone = 1;
        crn_ucx_in_free(l, in);
        return;
    }
    if (in->head.kind == UCX_DEATH) {
        if (in->head.tag < l->size)
            ucx_message_lose(&l->peers[in->head.tag], UCS_ERR_CONNECTION_RESET);
        crn_ucx_in_free(l, in);
        return;
    }
    if (in->head.kind == UCX_POST) {
        *l->posts_end = in;
        l->posts_end = &in->next;
        return;
    }
    while (in->head.kind == UCX_DATA && *t != NULL && !is_for(*t, &in->head))
        t = &(*t)->next;
    if (in->head.kind == UCX_DATA && *t != NULL) {
        struct ucx_transfer *found = *t;

        *t = found->next;
        ucx_message_fill(l, found, in);
        return;
    }
    while (*end != NULL)
        end = &(*end)->next;
    *end = in;
}

/* In the order in which they were sent. */
static void accept_message(struct ucx_link *l, struct ucx_in *in)
{
    struct ucx_peer *p = &l->peers[in->head.from];
    struct ucx_in **at = &p->early;

    while (*at != NULL && (*at)->head.seq < in->head.seq)
        at = &(*at)->next;
    in->next = *at;
    *at = in;
    while (p->early != NULL && p->early->head.seq == p->received) {
        in = p->early;
        p->early = in->next;
        p->received++;
        ucx_message_dispatch(l, in);
    }
}

static int is_genuine(const struct ucx_link *l, const struct ucx_head *h, size_t bytes)
{
    return h->proof == ucx_proof(l, h) && h->comm == l->id && h->to == l->rank &&
           h->from < l->size && h->bytes == bytes && h->seq >= l->peers[h->from].received;
}

ucs_status_t crn_ucx_on_message(void *arg, const void *header, size_t header_bytes, void *data,
                                size_t bytes, const ucp_am_recv_param_t *param)
{
    int is_there = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    struct ucx_link *l = arg;
    struct ucx_head h;
    struct ucx_in *in;

    if (header_bytes == sizeof(h))
        memcpy(&h, header, sizeof(h));
    if (header_bytes != sizeof(h) || l->peers == NULL || !is_genuine(l, &h, bytes)) {
        l->strangers++;
        return UCS_OK;
    }
    in = calloc(1, sizeof(*in));
    if (in != NULL && is_there && bytes > 0)
        in->data = malloc(bytes);
    if (in == NULL || (is_there && bytes > 0 && in->data == NULL)) {
        (void)!crn_fail(&l->failure, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
        free(in);
        return UCS_OK;
    }
    in->head = h;
    if (is_there && bytes > 0)
        memcpy(in->data, data, bytes);
    else if (!is_there)
        in->desc = data;
    accept_message(l, in);
    return is_there ? UCS_OK : UCS_INPROGRESS;
}

/* Endpoints. ----------------------------------------------------------------------------------- */

static void on_broken(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *p = arg;

    (void)ep;
    ucx_message_lose(p, status);
}

void crn_ucx_close_endpoint(struct ucx_peer *p)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request;

    if (p->ep == NULL)
        return;
    request = ucp_ep_close_nbx(p->ep, &param);
    p->ep = NULL;
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
        (void)ucp_worker_progress(p->link->worker);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

cairn_err crn_ucx_alive(struct ucx_link *l, uint32_t rank, struct crn_errinfo *ei)
{
    const struct ucx_peer *p = &l->peers[rank];
    const struct ucx_card *c = &l->cards[rank];

    if (p->failed == UCS_OK || p->is_gone)
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EPEER, 0, "rank %u (process %u on %s) has died or is cut off: %s",
                    c->rank, c->pid, c->host, ucs_status_string(p->failed));
}

static cairn_err connect_to(struct ucx_link *l, uint32_t rank, struct crn_errinfo *ei)
{
    struct ucx_peer *p = &l->peers[rank];
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(const void *)(l->addresses + rank * l->address_room),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_broken, .arg = p},
    };
    cairn_err rc = crn_ucx_alive(l, rank, ei);

    if (rc != CAIRN_OK || p->ep != NULL || p->is_gone)
        return rc;
    return crn_ucx_check(ucp_ep_create(l->worker, &params, &p->ep), "connecting over UCX", ei);
}

/* Sending. ------------------------------------------------------------------------------------- */

static void ucx_message_sent(struct ucx_transfer *t, ucs_status_t status)
{
    t->status = status;
    t->is_done = 1;
    if (!t->is_posted)
        return;
    t->link->unsent--;
    free(t);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    ucx_message_sent(arg, status);
}

static cairn_err send_to_self(struct ucx_link *l, const struct ucx_transfer *t, const void *buf,
                              struct crn_errinfo *ei)
{
    struct ucx_in *in = calloc(1, sizeof(*in));

    if (in != NULL)
        in->data = malloc(t->bytes + 1);
    if (in == NULL || in->data == NULL) {
        free(in);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", t->bytes);
    }
    in->head = t->head;
    if (t->bytes > 0)
        memcpy(in->data, buf, t->bytes);
    accept_message(l, in);
    return CAIRN_OK;
}

cairn_err crn_ucx_send(struct ucx_link *l, enum ucx_kind kind, uint32_t to, uint32_t tag,
                       const void *buf, size_t bytes, struct ucx_transfer **ret,
                       struct crn_errinfo *ei)
{
    int is_posted = kind != UCX_DATA;
    struct ucx_transfer *t = calloc(1, sizeof(*t) + (is_posted ? bytes : 0));
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
        .flags = is_posted ? UCP_AM_SEND_FLAG_EAGER : 0,
        .cb.send = on_sent,
        .user_data = t,
    };
    ucs_status_ptr_t request;
    cairn_err rc;

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
    rc = to == l->rank ? CAIRN_OK : connect_to(l, to, ei);
    if (rc != CAIRN_OK) {
        free(t);
        return rc;
    }
    t->link = l;
    t->peer = to;
    t->bytes = bytes;
    t->is_posted = is_posted;
    t->head = (struct ucx_head){l->id, l->peers[to].sent++, bytes, l->rank, to, kind, tag, 0};
    t->head.proof = ucx_proof(l, &t->head);
    l->unsent += is_posted;
    if (ret != NULL)
        *ret = t;
    if (to == l->rank || l->peers[to].is_gone) { /* a rank that has left needs no message */
        rc = to == l->rank ? send_to_self(l, t, buf, ei) : CAIRN_OK;
        ucx_message_sent(t, UCS_OK);
        return rc;
    }
    if (is_posted && bytes > 0)
        memcpy(t->copy, buf, bytes);
    request = ucp_am_send_nbx(l->peers[to].ep, UCX_AM_ID, &t->head, sizeof(t->head),
                              is_posted ? t->copy : buf, bytes, &param);
    if (!UCS_PTR_IS_PTR(request)) /* sent already, or refused: then the endpoint is broken */
        ucx_message_sent(t, UCS_PTR_STATUS(request));
    return CAIRN_OK; /* NOLINT(clang-analyzer-unix.Malloc): on_sent gets t */
}

/* Progress. ------------------------------------------------------------------------------------ */

/* At the first, and whenever there are twice as many: a stranger must not fill the log. */
static void report_strangers(struct ucx_link *l)
{
    struct crn_log log = {.level = CRN_WARN, .who = "ucx"};

    if (l->strangers == 0 || l->strangers < 2 * l->told_strangers)
        return;
    if (l->cards != NULL)
        (void)snprintf(log.who, sizeof(log.who), "rank %u", l->cards[l->rank].rank);
    crn_log(&log, CRN_WARN,
            "refused messages that do not prove to come from this job (%llu so far), continuing",
            (unsigned long long)l->strangers);
    l->told_strangers = l->strangers;
}

void crn_ucx_progress(struct ucx_link *l)
{
    int rounds = 16;

    while (rounds-- > 0 && ucp_worker_progress(l->worker) > 0)
        ;
    report_strangers(l);
}

static void tell_of_death(struct ucx_link *l, uint32_t to, uint32_t who)
{
    struct crn_errinfo ignored = {0};

    if (to < l->size && to != who && l->peers[to].failed == UCS_OK &&
        crn_ucx_send(l, UCX_DEATH, to, who, NULL, 0, NULL, &ignored) != CAIRN_OK)
        crn_err_clear(&ignored);
}

/* Only ranks that are connected to a rank notice its death: they tell their neighbours in the tree
 * of all ranks, and those theirs. */
static void spread_death(struct ucx_link *l, uint32_t who)
{
    uint32_t i;

    if (l->rank > 0)
        tell_of_death(l, (l->rank - 1) / UCX_WIDTH, who);
    for (i = 1; i <= UCX_WIDTH; i++)
        tell_of_death(l, l->rank * UCX_WIDTH + i, who);
}

/* A lost message is a permanent failure; the death of a rank is reported once. */
cairn_err crn_ucx_failure(struct ucx_link *l, struct crn_errinfo *ei)
{
    cairn_err rc = l->failure.code;
    uint32_t i;

    if (rc != CAIRN_OK)
        crn_err_keep(ei, &l->failure);
    for (i = 0; l->broken > 0 && i < l->size; i++) {
        struct ucx_peer *p = &l->peers[i];

        if (p->failed == UCS_OK || p->is_told)
            continue;
        p->is_told = 1;
        l->broken--;
        crn_ucx_close_endpoint(p);
        if (!p->is_gone)
            spread_death(l, i);
        if (rc == CAIRN_OK)
            rc = crn_ucx_alive(l, i, ei);
    }
    return rc;
}

int crn_ucx_arm(struct ucx_link *l)
{
    l->is_polled = 1;
    return l->posts == NULL && ucp_worker_arm(l->worker) == UCS_OK;
}

void crn_ucx_sleep(struct ucx_link *l, int *tries)
{
    struct pollfd pfd = {.fd = l->fd, .events = POLLIN};

    if ((*tries)++ < SPINS)
        (void)sched_yield();
    else if (ucp_worker_arm(l->worker) == UCS_OK)
        (void)poll(&pfd, 1, UCX_WAIT_MS);
}

static struct ucx_in *take_other(struct ucx_link *l, enum ucx_kind kind, uint32_t from,
                                 uint32_t tag)
{
    struct ucx_in **at = &l->others;
    struct ucx_in *in;

    while (*at != NULL &&
           ((*at)->head.kind != kind || (*at)->head.from != from || (*at)->head.tag != tag))
        at = &(*at)->next;
    in = *at;
    if (in != NULL)
        *at = in->next;
    return in;
}

cairn_err crn_ucx_take(struct ucx_link *l, uint32_t from, uint32_t round, struct ucx_in **ret,
                       struct crn_errinfo *ei)
{
    cairn_err rc = from == l->rank ? CAIRN_OK : connect_to(l, from, ei); /* its death is noticed */
    int tries = 0;

    while (rc == CAIRN_OK) {
        *ret = take_other(l, UCX_COLLECTIVE, from, round);
        if (*ret != NULL)
            return CAIRN_OK;
        rc = crn_ucx_alive(l, from, ei);
        if (rc == CAIRN_OK && l->peers[from].is_gone)
            rc = crn_fail(ei, CAIRN_EPEER, 0, "rank %u has left", l->cards[from].rank);
        if (rc == CAIRN_OK)
            crn_ucx_sleep(l, &tries);
        crn_ucx_progress(l);
        if (rc == CAIRN_OK)
            rc = crn_ucx_failure(l, ei);
    }
    return rc;
}

cairn_err crn_ucx_recv(struct ucx_link *l, uint32_t from, uint32_t tag, void *buf, size_t bytes,
                       struct ucx_transfer **ret, struct crn_errinfo *ei)
{
    struct ucx_transfer *t = calloc(1, sizeof(*t));
    struct ucx_in *in;

    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a transfer of %zu bytes", bytes);
    t->link = l;
    t->peer = from;
    t->head.from = from;
    t->head.tag = tag;
    t->buf = buf;
    t->bytes = bytes;
    in = take_other(l, UCX_DATA, from, tag);
    if (in != NULL) {
        ucx_message_fill(l, t, in);
    } else {
        t->next = l->waiting;
        l->waiting = t;
    }
    *ret = t;
    return CAIRN_OK;
}
