/* SPDX-License-Identifier: BSD-3-Clause */
/* Every message carries the id of its part and the number of its collective, so that ranks that are
 * ahead do not disturb slower ones. Trees are wide, because each level costs a sleep. */
#include "comm/mail_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WIDTH     CRN_MAIL_WIDTH
#define YIELDS    8 /* before the first sleep */
#define NAP_NS    10000
#define NAP_LIMIT 500000

struct letter {
    struct letter *next;
    struct crn_mail_head head;
    int from; /* rank in the whole communicator */
    size_t bytes;
    unsigned char *raw; /* the message with its header; owned */
};

struct crn_mail {
    struct crn_comm *whole;
    struct letter *kept, **kept_end;
    struct crn_watch watch;
};

struct mail_part {
    struct crn_comm c;
    struct crn_mail *mail;
    int *ranks; /* owned; NULL: all */
    uint32_t id;
    uint32_t round; /* number of the last collective */
};

void crn_comm_nap(unsigned tries)
{
    struct timespec t = {.tv_nsec = NAP_NS};

    if (tries < YIELDS) {
        (void)sched_yield();
        return;
    }
    t.tv_nsec += (long)(tries - YIELDS) * (NAP_NS / 8);
    if (t.tv_nsec > NAP_LIMIT)
        t.tv_nsec = NAP_LIMIT;
    (void)nanosleep(&t, NULL);
}

/* Letters. ------------------------------------------------------------------------------------- */

static int whole_rank(const struct mail_part *p, int rank)
{
    return p->ranks != NULL ? p->ranks[rank] : rank;
}

static int part_rank(const struct mail_part *p, int rank)
{
    int lo = 0;
    int hi = p->c.size - 1;

    if (p->ranks == NULL)
        return rank;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (p->ranks[mid] < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static cairn_err mail_send(struct mail_part *p, int to, uint32_t round, const void *data,
                           size_t bytes, struct crn_errinfo *ei)
{
    struct crn_mail_head h = {.part = p->id, .round = round};
    struct crn_comm *whole = p->mail->whole;
    unsigned char *raw = malloc(sizeof(h) + bytes);
    cairn_err rc;

    if (raw == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
    memcpy(raw, &h, sizeof(h));
    if (bytes > 0)
        memcpy(raw + sizeof(h), data, bytes);
    rc = whole->ops->post(whole, whole_rank(p, to), raw, sizeof(h) + bytes, ei);
    free(raw);
    return rc;
}

static const void *mail_text(const struct letter *l)
{
    return l->raw + sizeof(l->head);
}

static void mail_drop(struct letter *l)
{
    free(l->raw);
    free(l);
}

/* Removes and returns a kept letter of this part and round, or NULL. */
static struct letter *take_kept(const struct mail_part *p, uint32_t round)
{
    struct crn_mail *m = p->mail;
    struct letter **link = &m->kept;

    while (*link != NULL && ((*link)->head.part != p->id || (*link)->head.round != round))
        link = &(*link)->next;
    if (*link != NULL) {
        struct letter *l = *link;

        *link = l->next;
        if (m->kept_end == &l->next)
            m->kept_end = link;
        return l;
    }
    return NULL;
}

static cairn_err failure_of(const struct crn_mail *m, struct crn_errinfo *ei)
{
    if (m->watch.failure.code != CAIRN_OK)
        crn_err_keep(ei, &m->watch.failure);
    return m->watch.failure.code;
}

/* Polls once, and keeps the letter that arrived; *ret_any tells whether one did. If none did,
 * checks for silent ranks. */
static cairn_err mail_fetch(struct crn_mail *m, int *ret_any, struct crn_errinfo *ei)
{
    struct letter *l;
    void *buf = NULL;
    size_t bytes = 0;
    int from = 0;
    cairn_err rc;

    *ret_any = 0;
    rc = failure_of(m, ei);
    if (rc == CAIRN_OK)
        rc = m->whole->ops->poll(m->whole, &from, &buf, &bytes, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (buf == NULL)
        return crn_watch_look(&m->watch, m->whole, ei);
    crn_watch_heard(&m->watch, from);
    l = bytes >= sizeof(l->head) ? calloc(1, sizeof(*l)) : NULL;
    if (l == NULL) {
        free(buf);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a message of %zu bytes", bytes);
    }
    memcpy(&l->head, buf, sizeof(l->head));
    l->raw = buf;
    l->from = from;
    l->bytes = bytes - sizeof(l->head);
    *ret_any = 1;
    if (l->head.part == CRN_MAIL_WATCH) {
        crn_watch_take(&m->watch, l->head.round, mail_text(l), l->bytes);
        mail_drop(l);
        return failure_of(m, ei);
    }
    *m->kept_end = l;
    m->kept_end = &l->next;
    return CAIRN_OK;
}

/* Waits for the next letter of the current collective. */
static cairn_err wait_letter(struct mail_part *p, struct letter **ret, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    unsigned tries = 0;
    int any;

    while ((*ret = take_kept(p, p->round)) == NULL && rc == CAIRN_OK) {
        rc = mail_fetch(p->mail, &any, ei);
        if (rc == CAIRN_OK && !any)
            crn_comm_nap(tries++);
    }
    return *ret != NULL ? CAIRN_OK : rc;
}

/* Trees. --------------------------------------------------------------------------------------- */

/* The first child in a tree with root 0. A rank has WIDTH children, or fewer if the ranks run
 * out. */
static int first_child(int rank)
{
    return rank * WIDTH + 1;
}

static int mail_children(const struct mail_part *p, int rank)
{
    int left = p->c.size - first_child(rank);

    return left < 0 ? 0 : left < WIDTH ? left : WIDTH;
}

static int mail_parent(int rank)
{
    return (rank - 1) / WIDTH;
}

/* Sends the root's buf to all other ranks. */
static cairn_err mail_down(struct mail_part *p, void *buf, size_t bytes, int root,
                           struct crn_errinfo *ei)
{
    int size = p->c.size;
    int me = (p->c.rank - root + size) % size;
    int n = mail_children(p, me);
    cairn_err rc = CAIRN_OK;
    struct letter *l;
    int i;

    if (me != 0) {
        rc = wait_letter(p, &l, ei);
        if (rc == CAIRN_OK) {
            if (l->bytes != bytes)
                rc = crn_fail(ei, CAIRN_EBUG, 0, "%zu bytes instead of %zu", l->bytes, bytes);
            else if (bytes > 0)
                memcpy(buf, mail_text(l), bytes);
            mail_drop(l);
        }
    }
    for (i = 0; rc == CAIRN_OK && i < n; i++)
        rc = mail_send(p, (first_child(me) + i + root) % size, p->round, buf, bytes, ei);
    return rc;
}

static cairn_err part_bcast(struct crn_comm *c, void *buf, size_t bytes, int root,
                            struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;

    p->round++;
    return mail_down(p, buf, bytes, root, ei);
}

static void mail_fold(int64_t *values, const struct letter *l, int n, enum crn_comm_op op)
{
    int64_t other;
    int i;

    for (i = 0; i < n; i++) {
        memcpy(&other, (const char *)mail_text(l) + (size_t)i * sizeof(other), sizeof(other));
        if (op == CRN_COMM_SUM)
            values[i] += other;
        else if (op == CRN_COMM_MIN ? other < values[i] : other > values[i])
            values[i] = other;
    }
}

static cairn_err part_allreduce(struct crn_comm *c, int64_t *values, int n, enum crn_comm_op op,
                                struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;
    size_t bytes = (size_t)n * sizeof(*values);
    int left = mail_children(p, c->rank);
    cairn_err rc = CAIRN_OK;
    struct letter *l;

    p->round++;
    for (; rc == CAIRN_OK && left > 0; left--) {
        rc = wait_letter(p, &l, ei);
        if (rc != CAIRN_OK)
            break;
        if (l->bytes == bytes)
            mail_fold(values, l, n, op);
        else
            rc = crn_fail(ei, CAIRN_EBUG, 0, "%zu bytes instead of %zu", l->bytes, bytes);
        mail_drop(l);
    }
    if (rc == CAIRN_OK && c->rank > 0)
        rc = mail_send(p, mail_parent(c->rank), p->round, values, bytes, ei);
    return rc != CAIRN_OK ? rc : mail_down(p, values, bytes, 0, ei);
}

static cairn_err part_barrier(struct crn_comm *c, struct crn_errinfo *ei)
{
    int64_t nothing = 0;

    return part_allreduce(c, &nothing, 0, CRN_COMM_MIN, ei);
}

/* A letter of a gather is a list of ranks, each with its bytes. */
static cairn_err part_allgather(struct crn_comm *c, const void *in, size_t bytes, void *out,
                                struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;
    size_t entry = sizeof(uint32_t) + bytes;
    unsigned char *all = malloc(entry * (size_t)c->size); /* this rank's subtree */
    uint32_t rank = (uint32_t)c->rank;
    int left = mail_children(p, c->rank);
    cairn_err rc = CAIRN_OK;
    struct letter *l;
    size_t n = 1;
    size_t i;

    if (all == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a gather of %zu bytes a rank", bytes);
    p->round++;
    memcpy(all, &rank, sizeof(rank));
    memcpy(all + sizeof(rank), in, bytes);
    for (; rc == CAIRN_OK && left > 0; left--) {
        rc = wait_letter(p, &l, ei);
        if (rc != CAIRN_OK)
            break;
        if (l->bytes % entry == 0 && l->bytes / entry <= (size_t)c->size - n) {
            memcpy(all + n * entry, mail_text(l), l->bytes);
            n += l->bytes / entry;
        } else {
            rc = crn_fail(ei, CAIRN_EBUG, 0, "a gather received a message of %zu bytes", l->bytes);
        }
        mail_drop(l);
    }
    if (rc == CAIRN_OK && c->rank > 0)
        rc = mail_send(p, mail_parent(c->rank), p->round, all, n * entry, ei);
    for (i = 0; rc == CAIRN_OK && c->rank == 0 && i < n; i++) {
        memcpy(&rank, all + i * entry, sizeof(rank));
        memcpy((char *)out + (size_t)rank * bytes, all + i * entry + sizeof(rank), bytes);
    }
    free(all);
    return rc != CAIRN_OK ? rc : mail_down(p, out, bytes * (size_t)c->size, 0, ei);
}

/* Messages and transfers. ---------------------------------------------------------------------- */

static cairn_err part_post(struct crn_comm *c, int to, const void *buf, size_t bytes,
                           struct crn_errinfo *ei)
{
    return mail_send((struct mail_part *)c, to, 0, buf, bytes, ei);
}

static cairn_err part_poll(struct crn_comm *c, int *ret_from, void **ret_buf, size_t *ret_bytes,
                           struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;
    struct letter *l = take_kept(p, 0);
    cairn_err rc;
    int any;

    *ret_buf = NULL;
    if (l == NULL) {
        rc = mail_fetch(p->mail, &any, ei);
        l = rc == CAIRN_OK && any ? take_kept(p, 0) : NULL;
        if (l == NULL)
            return rc;
    }
    *ret_from = part_rank(p, l->from);
    *ret_bytes = l->bytes;
    memmove(l->raw, mail_text(l), l->bytes);
    *ret_buf = l->raw;
    free(l);
    return CAIRN_OK;
}

static cairn_err part_send_start(struct crn_comm *c, int to, int tag, const void *buf, size_t bytes,
                                 struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;
    struct crn_comm *whole = p->mail->whole;

    return whole->ops->send_start(whole, whole_rank(p, to), tag, buf, bytes, ret, ei);
}

static cairn_err part_recv_start(struct crn_comm *c, int from, int tag, void *buf, size_t bytes,
                                 struct crn_transfer **ret, struct crn_errinfo *ei)
{
    struct mail_part *p = (struct mail_part *)c;
    struct crn_comm *whole = p->mail->whole;

    return whole->ops->recv_start(whole, whole_rank(p, from), tag, buf, bytes, ret, ei);
}

static cairn_err part_transfer_test(struct crn_comm *c, struct crn_transfer *t, int *ret_done,
                                    struct crn_errinfo *ei)
{
    struct crn_comm *whole = ((struct mail_part *)c)->mail->whole;

    return whole->ops->transfer_test(whole, t, ret_done, ei);
}

static int part_transfer_cancel(struct crn_comm *c, struct crn_transfer *t)
{
    struct crn_comm *whole = ((struct mail_part *)c)->mail->whole;

    return whole->ops->transfer_cancel(whole, t);
}

/* Life. ---------------------------------------------------------------------------------------- */

static cairn_err part_split(struct crn_comm *c, int color, int key, struct crn_comm **ret,
                            struct crn_errinfo *ei)
{
    (void)ret;
    return crn_fail(ei, CAIRN_EBUG, 0, "a part of %d ranks cannot be split (%d, %d)", c->size,
                    color, key);
}

static cairn_err part_split_host(struct crn_comm *c, struct crn_comm **ret, struct crn_errinfo *ei)
{
    return part_split(c, 0, 0, ret, ei);
}

static void part_settle(struct crn_comm *c)
{
    (void)c; /* the whole communicator is settled instead */
}

static int part_threads_ok(const struct crn_comm *c)
{
    const struct crn_comm *whole = ((const struct mail_part *)c)->mail->whole;

    return whole->ops->threads_ok(whole);
}

static void part_free(struct crn_comm *c)
{
    free(((struct mail_part *)c)->ranks);
    free(c);
}

static const struct crn_comm_ops part_ops = {
    .abi = CRN_COMM_ABI,
    .name = "part",
    .split = part_split,
    .split_host = part_split_host,
    .barrier = part_barrier,
    .bcast = part_bcast,
    .allgather = part_allgather,
    .allreduce = part_allreduce,
    .post = part_post,
    .poll = part_poll,
    .send_start = part_send_start,
    .recv_start = part_recv_start,
    .transfer_test = part_transfer_test,
    .transfer_cancel = part_transfer_cancel,
    .settle = part_settle,
    .threads_ok = part_threads_ok,
    .free = part_free,
};

cairn_err crn_mail_part(struct crn_mail *m, uint32_t id, const int *ranks, int n,
                        struct crn_comm **ret, struct crn_errinfo *ei)
{
    struct mail_part *p = calloc(1, sizeof(*p));

    if (p == NULL || (ranks != NULL && (p->ranks = calloc((size_t)n, sizeof(*ranks))) == NULL)) {
        free(p);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator of %d ranks", n);
    }
    p->mail = m;
    p->id = id;
    p->c = (struct crn_comm){.ops = &part_ops, .rank = m->whole->rank, .size = n};
    if (ranks != NULL) {
        memcpy(p->ranks, ranks, (size_t)n * sizeof(*ranks));
        p->c.rank = part_rank(p, m->whole->rank);
    }
    *ret = &p->c;
    return CAIRN_OK;
}

cairn_err crn_mail_open(struct crn_comm *comm, struct crn_mail **ret, struct crn_errinfo *ei)
{
    struct crn_mail *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "a communicator");
    m->whole = comm;
    m->kept_end = &m->kept;
    crn_watch_init(&m->watch, comm);
    *ret = m;
    return CAIRN_OK;
}

void crn_mail_watch(struct crn_mail *m, int64_t silence_ns)
{
    crn_watch_begin(&m->watch, silence_ns);
}

void crn_mail_beat(struct crn_mail *m)
{
    crn_watch_tell(&m->watch, m->whole);
}

const struct crn_errinfo *crn_mail_failure(const struct crn_mail *m)
{
    return m->watch.failure.code != CAIRN_OK ? &m->watch.failure : NULL;
}

void crn_mail_close(struct crn_mail *m)
{
    while (m != NULL && m->kept != NULL) {
        struct letter *l = m->kept;

        m->kept = l->next;
        mail_drop(l);
    }
    free(m);
}
