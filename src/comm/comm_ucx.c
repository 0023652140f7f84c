/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements comm.h over UCX, for jobs without MPI: how communicators are made, and
 * what their operations do with the link (ucx_link.h). */
#include "comm/comm_ucx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "comm/ucx_link.h"

#define SHM_DIR "/dev/shm"

struct ucx_comm {
    struct crn_comm c;
    struct ucx_link *link;
    struct ucx_card card; /* of this rank */
};

static struct ucx_link *link_of(struct crn_comm *c)
{
    return ((struct ucx_comm *)c)->link;
}

/* Collectives. --------------------------------------------------------------------------------- */

static cairn_err ucx_bcast(struct crn_comm *c, void *buf, size_t bytes, int root,
                           struct crn_errinfo *ei)
{
    return crn_ucx_bcast(link_of(c), buf, bytes, (uint32_t)root, ei);
}

static cairn_err ucx_allreduce(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                               struct crn_errinfo *ei)
{
    return crn_ucx_allreduce(link_of(c), values, n, op, ei);
}

static cairn_err ucx_barrier(struct crn_comm *c, struct crn_errinfo *ei)
{
    int64_t nothing = 0;

    return crn_ucx_allreduce(link_of(c), &nothing, 1, CRN_COMM_SUM, ei);
}

static cairn_err ucx_allgather(struct crn_comm *c, const void *in, size_t bytes, void *out,
                               struct crn_errinfo *ei)
{
    return crn_ucx_allgather(link_of(c), in, bytes, out, ei);
}

/* Making communicators. ------------------------------------------------------------------------ */

static const struct crn_comm_ops ucx_ops;

/* Ranks with the same number can map each other's shared memory. */
static uint64_t machine_number(const char *host)
{
    static const uint64_t secret[2] = {0, 0};
    char text[UCX_HOST + 128] = "";
    struct stat st = {0};
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f != NULL) {
        if (fgets(text, 64, f) == NULL)
            text[0] = '\0';
        (void)fclose(f);
    }
    (void)stat(SHM_DIR, &st);
    (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %llu", host,
                   (unsigned long long)st.st_dev);
    return crn_ucx_hash(secret, text, strlen(text));
}

typedef cairn_err (*gather_fn)(void *arg, const void *in, size_t bytes, void *out,
                               struct crn_errinfo *ei);

struct members {
    struct ucx_card *cards;
    unsigned char *addresses;
    size_t room;
};

/* Exchanges the cards, and then the addresses with the space that the longest one needs. */
static cairn_err ucx_exchange(struct ucx_link *l, struct ucx_card *card, uint32_t size,
                              gather_fn all, void *arg, struct members *m, struct crn_errinfo *ei)
{
    unsigned char *mine = NULL;
    void *address = NULL;
    size_t bytes = 0;
    cairn_err rc = crn_ucx_link_address(l, &address, &bytes, ei);
    uint32_t i;

    m->cards = calloc(size, sizeof(*m->cards));
    if (rc == CAIRN_OK && m->cards == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "%u ranks", size);
    card->address_bytes = (uint32_t)bytes;
    if (rc == CAIRN_OK)
        rc = all(arg, card, sizeof(*card), m->cards, ei);
    for (i = 0; rc == CAIRN_OK && i < size; i++)
        if (m->cards[i].address_bytes > m->room)
            m->room = m->cards[i].address_bytes;
    if (rc == CAIRN_OK) {
        m->room = (m->room + 15) / 16 * 16;
        mine = calloc(1, m->room + 1);
        m->addresses = malloc(size * m->room + 1);
        if (mine == NULL || m->addresses == NULL)
            rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "the addresses of %u ranks", size);
    }
    if (rc == CAIRN_OK) {
        memcpy(mine, address, bytes);
        rc = all(arg, mine, m->room, m->addresses, ei);
    }
    free(mine);
    free(address);
    return rc;
}

static cairn_err ucx_wrap(struct ucx_link *l, const struct ucx_card *card, uint32_t rank,
                          uint32_t size, struct members *m, struct crn_comm **ret,
                          struct crn_errinfo *ei)
{
    struct ucx_comm *u = calloc(1, sizeof(*u));
    cairn_err rc;

    if (u == NULL) {
        free(m->cards);
        free(m->addresses);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    }
    rc = crn_ucx_link_join(l, rank, size, m->cards, m->addresses, m->room, ei);
    if (rc != CAIRN_OK) {
        free(u);
        return rc;
    }
    u->c.ops = &ucx_ops;
    u->c.rank = (int)rank;
    u->c.size = (int)size;
    u->link = l;
    u->card = *card;
    *ret = &u->c;
    return CAIRN_OK;
}

static cairn_err gather_over(void *arg, const void *in, size_t bytes, void *out,
                             struct crn_errinfo *ei)
{
    return ucx_allgather(arg, in, bytes, out, ei);
}

static uint32_t sort_by_key(struct ucx_card *cards, uint32_t *order, uint32_t n)
{
    uint32_t i, k;

    for (i = 1; i < n; i++) /* keys are almost always sorted */
        for (k = i; k > 0 && cards[order[k - 1]].key > cards[order[k]].key; k--) {
            uint32_t t = order[k];

            order[k] = order[k - 1];
            order[k - 1] = t;
        }
    return n;
}

/* Keeps those of the members that have this rank's color. */
static cairn_err ucx_pick(const struct crn_comm *c, uint32_t color, struct members *all,
                          struct members *ret, uint32_t *ret_rank, uint32_t *ret_size,
                          struct crn_errinfo *ei)
{
    uint32_t *order = calloc((size_t)c->size, sizeof(*order));
    uint32_t i, n = 0;

    ret->cards = calloc((size_t)c->size, sizeof(*ret->cards));
    ret->addresses = malloc((size_t)c->size * all->room + 1);
    ret->room = all->room;
    if (order == NULL || ret->cards == NULL || ret->addresses == NULL) {
        free(order);
        free(ret->cards);
        free(ret->addresses);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    }
    for (i = 0; i < (uint32_t)c->size; i++)
        if (all->cards[i].color == color)
            order[n++] = i;
    *ret_size = sort_by_key(all->cards, order, n);
    for (i = 0; i < n; i++) {
        if (order[i] == (uint32_t)c->rank)
            *ret_rank = i;
        ret->cards[i] = all->cards[order[i]];
        memcpy(ret->addresses + i * all->room, all->addresses + order[i] * all->room, all->room);
    }
    free(order);
    return CAIRN_OK;
}

static cairn_err ucx_split(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                           struct crn_errinfo *ei)
{
    struct ucx_comm *u = (struct ucx_comm *)c;
    struct ucx_card card = u->card;
    struct members all = {0}, mine = {0};
    struct ucx_link *l = NULL;
    uint32_t rank = 0;
    uint32_t size = 0;
    cairn_err rc = crn_ucx_link_open(u->link->net, &l, ei);

    card.color = (uint32_t)color; /* a negative one is never picked */
    card.key = (uint32_t)key;
    card.id = crn_random_u64();
    if (rc == CAIRN_OK)
        rc = ucx_exchange(l, &card, (uint32_t)c->size, gather_over, c, &all, ei);
    *ret = NULL;
    if (rc == CAIRN_OK && color >= 0)
        rc = ucx_pick(c, card.color, &all, &mine, &rank, &size, ei);
    if (rc == CAIRN_OK && color >= 0)
        rc = ucx_wrap(l, &u->card, rank, size, &mine, ret, ei);
    if (l != NULL && *ret == NULL)
        crn_ucx_link_close(l);
    free(all.cards);
    free(all.addresses);
    return rc;
}

/* The first rank of the machine gives the color. */
static cairn_err ucx_split_host(struct crn_comm *c, struct crn_comm **ret, struct crn_errinfo *ei)
{
    const struct ucx_comm *u = (struct ucx_comm *)c;
    int color = 0;

    while (u->link->cards[color].machine != u->card.machine)
        color++;
    return ucx_split(c, color, c->rank, ret, ei);
}

/* Messages and transfers. ---------------------------------------------------------------------- */

static cairn_err ucx_post(struct crn_comm *c, int to, const void *buf, size_t bytes,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_ucx_lock(link_of(c));
    rc = crn_ucx_send(link_of(c), UCX_POST, (uint32_t)to, 0, buf, bytes, NULL, ei);
    crn_ucx_unlock(link_of(c));
    return rc;
}

static cairn_err poll_locked(struct ucx_link *l, int *ret_from, void **ret_buf, size_t *ret_bytes,
                             struct crn_errinfo *ei)
{
    struct ucx_in *in;
    cairn_err rc;

    crn_ucx_progress(l);
    rc = crn_ucx_failure(l, ei);
    in = l->posts;
    *ret_buf = NULL;
    if (rc != CAIRN_OK || in == NULL)
        return rc;
    *ret_buf = in->data != NULL ? in->data : malloc(1);
    if (*ret_buf == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message");
    in->data = NULL;
    *ret_bytes = (size_t)in->head.bytes;
    *ret_from = (int)in->head.from;
    l->posts = in->next;
    if (l->posts == NULL)
        l->posts_end = &l->posts;
    crn_ucx_in_free(l, in);
    return CAIRN_OK;
}

static cairn_err ucx_poll(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                          struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_ucx_lock(link_of(c));
    rc = poll_locked(link_of(c), ret_from, ret_buf, ret_bytes, ei);
    crn_ucx_unlock(link_of(c));
    return rc;
}

static cairn_err ucx_send_start(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                                struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct ucx_transfer *t = NULL;
    cairn_err rc;

    crn_ucx_lock(link_of(c));
    rc = crn_ucx_send(link_of(c), UCX_DATA, (uint32_t)to, (uint32_t)tag, buf, bytes, &t, ei);
    crn_ucx_unlock(link_of(c));
    if (rc == CAIRN_OK)
        *ret = (struct crn_transfer *)t;
    return rc;
}

static cairn_err ucx_recv_start(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                                struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct ucx_transfer *t = NULL;
    cairn_err rc;

    crn_ucx_lock(link_of(c));
    rc = crn_ucx_recv(link_of(c), (uint32_t)from, (uint32_t)tag, buf, bytes, &t, ei);
    crn_ucx_unlock(link_of(c));
    if (rc == CAIRN_OK)
        *ret = (struct crn_transfer *)t;
    return rc;
}

/* Removes a receive that nothing has arrived for; 0 if it is none. */
static int stop_waiting(struct ucx_link *l, const struct ucx_transfer *t)
{
    struct ucx_transfer **at = &l->waiting;

    while (*at != NULL && *at != t)
        at = &(*at)->next;
    if (*at == NULL)
        return 0;
    *at = t->next;
    return 1;
}

static cairn_err test_locked(struct ucx_link *l, struct ucx_transfer *t, int *ret_done,
                             struct crn_errinfo *ei)
{
    cairn_err rc;

    *ret_done = 0;
    if (!t->is_done)
        crn_ucx_progress(l);
    if (!t->is_done) {
        rc = crn_ucx_alive(l, t->peer, ei);
        if (rc == CAIRN_OK || !stop_waiting(l, t))
            return CAIRN_OK; /* UCX itself ends what it has begun */
    } else {
        rc = t->status == UCS_OK ? CAIRN_OK : crn_ucx_alive(l, t->peer, ei);
        if (rc == CAIRN_OK && t->status != UCS_OK)
            rc = crn_fail(ei, CAIRN_EPEER, 0, "a transfer with rank %u: %s", l->cards[t->peer].rank,
                          ucs_status_string(t->status));
    }
    *ret_done = 1;
    free(t);
    return rc;
}

static cairn_err ucx_transfer_test(struct crn_comm *c, struct crn_transfer *t, int *ret_done,
                                   struct crn_errinfo *ei)
{
    cairn_err rc;

    crn_ucx_lock(link_of(c));
    rc = test_locked(link_of(c), (struct ucx_transfer *)t, ret_done, ei);
    crn_ucx_unlock(link_of(c));
    return rc;
}

static int ucx_transfer_cancel(struct crn_comm *c, struct crn_transfer *transfer)
{
    struct ucx_transfer *t = (struct ucx_transfer *)transfer;
    int is_free;

    crn_ucx_lock(link_of(c));
    is_free = t->is_done || stop_waiting(link_of(c), t);
    crn_ucx_unlock(link_of(c));
    if (is_free)
        free(t); /* otherwise leaked on purpose */
    return is_free;
}

static int ucx_arm(struct crn_comm *c, int *ret_fd)
{
    int is_armed;

    *ret_fd = link_of(c)->fd;
    crn_ucx_lock(link_of(c));
    is_armed = crn_ucx_arm(link_of(c));
    crn_ucx_unlock(link_of(c));
    return is_armed;
}

/* Nothing to do: the id of a communicator is never reused. */
static void ucx_settle(struct crn_comm *c)
{
    (void)c;
}

static int ucx_threads_ok(const struct crn_comm *c)
{
    (void)c;
    return 1; /* each communicator has a worker of its own */
}

static void ucx_free(struct crn_comm *c)
{
    crn_ucx_link_close(link_of(c));
    free(c);
}

static const struct crn_comm_ops ucx_ops = {
    .abi = CRN_COMM_ABI,
    .name = "ucx",
    .split = ucx_split,
    .split_host = ucx_split_host,
    .barrier = ucx_barrier,
    .bcast = ucx_bcast,
    .allgather = ucx_allgather,
    .allreduce = ucx_allreduce,
    .post = ucx_post,
    .poll = ucx_poll,
    .arm = ucx_arm,
    .send_start = ucx_send_start,
    .recv_start = ucx_recv_start,
    .transfer_test = ucx_transfer_test,
    .transfer_cancel = ucx_transfer_cancel,
    .settle = ucx_settle,
    .threads_ok = ucx_threads_ok,
    .free = ucx_free,
};

/* The first communicator. ---------------------------------------------------------------------- */

struct bootstrap {
    cairn_allgather *allgather;
    void *arg;
};

static cairn_err gather_by_caller(void *arg, const void *in, size_t bytes, void *out,
                                  struct crn_errinfo *ei)
{
    const struct bootstrap *b = arg;
    int r = b->allgather(b->arg, in, bytes, out);

    if (r != 0)
        return crn_fail(ei, CAIRN_EPEER, 0,
                        "the application's allgather returned %d for %zu bytes a rank", r, bytes);
    return CAIRN_OK;
}

cairn_err crn_comm_ucx(int rank, int ranks, cairn_allgather *allgather, void *arg,
                       struct crn_comm **ret, struct crn_errinfo *ei)
{
    struct bootstrap b = {allgather, arg};
    struct ucx_card card = {.rank = (uint32_t)rank, .pid = (uint32_t)getpid()};
    struct members m = {0};
    struct ucx_link *l = NULL;
    struct ucx_net *net;
    cairn_err rc = crn_ucx_net_open(&net, ei);

    if (rc != CAIRN_OK)
        return rc;
    card.id = crn_random_u64();
    crn_random_bytes(card.secret, sizeof(card.secret));
    (void)gethostname(card.host, sizeof(card.host) - 1);
    card.machine = machine_number(card.host);
    rc = crn_ucx_link_open(net, &l, ei);
    crn_ucx_net_put(net); /* the link holds it now */
    if (rc == CAIRN_OK)
        rc = ucx_exchange(l, &card, (uint32_t)ranks, gather_by_caller, &b, &m, ei);
    if (rc == CAIRN_OK && m.cards[rank].id != card.id)
        rc = crn_fail(ei, CAIRN_EINVAL, 0,
                      "allgather put the blob of rank %d at another place: the blobs must come "
                      "back in the order of the ranks",
                      rank);
    if (rc != CAIRN_OK) {
        free(m.cards);
        free(m.addresses);
        if (l != NULL)
            crn_ucx_link_close(l);
        return rc;
    }
    memcpy(l->net->secret, m.cards[0].secret, sizeof(l->net->secret));
    rc = ucx_wrap(l, &card, (uint32_t)rank, (uint32_t)ranks, &m, ret, ei);
    if (rc != CAIRN_OK)
        crn_ucx_link_close(l);
    return rc;
}
