/* SPDX-License-Identifier: BSD-3-Clause */
/* See flow.h. A block is in flight at most once. A waiting node gets the block, or hears that it
 * will not come (the checkpoint has ended there, or the data cannot be read), or gets an error
 * after crn_flow_patience. */
#include "service/flow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "base/clock.h"
#include "service/assist.h"
#include "service/loan.h"
#include "service/parity.h"

/* Allocates a block for gathering. The number of such blocks is bounded, however many nodes ask. On
 * the sender thread. */
static void *gather_block(struct crn_job *job)
{
    crn_lock(&job->mu);
    while (job->ngathered >= job->cfg.blocks && !job->stopping)
        crn_cond_wait(&job->wake, &job->mu);
    job->ngathered++;
    crn_unlock(&job->mu);
    return malloc(job->cfg.block_bytes); /* a write never exceeds a block */
}

/* block may be NULL: the allocation failed, or MPI keeps the block. */
static void gather_free(struct crn_job *job, void *block)
{
    free(block);
    crn_lock(&job->mu);
    job->ngathered--;
    crn_cond_broadcast(&job->wake);
    crn_unlock(&job->mu);
}

int64_t crn_flow_patience(const struct crn_job *job)
{
    const struct crn_config *c = &job->cfg;
    uint64_t leaders = c->leaders_per_file != 0 ? c->leaders_per_file : CRN_LEADERS_AUTO;
    double bytes = (double)(leaders + 1) * (double)(c->blocks * c->block_bytes);

    return (int64_t)c->commit_timeout_ns + (int64_t)c->phase_patience_ns +
           (c->bandwidth != 0 ? (int64_t)(bytes / (double)c->bandwidth * 1e9) : 0);
}

/* Creates a flow for a transfer that is about to start; NULL if out of memory. */
static struct crn_flow *flow_new(struct crn_job *job, struct crn_item *item, uint32_t node)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_flow *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return NULL;
    f->job = job;
    f->item = item;
    f->node = node;
    f->start_ns = clock->mono_ns(clock);
    f->deadline_ns = f->start_ns + crn_flow_patience(job);
    return f;
}

static void flow_link(struct crn_flow *f)
{
    f->next = f->job->svc->flows;
    f->job->svc->flows = f;
    crn_item_use(f->item);
}

/* Passes the result of a receive to the thread that asked for it. */
static void hand_over(const struct crn_flow *f, const struct crn_errinfo *error)
{
    if (f->ticket != NULL)
        crn_ticket_done(f->ticket, f->block, error);
    else if (f->errand != NULL)
        crn_assist_errand(f->job->engine, f->errand, NULL, f->block, 1, error);
    else
        crn_engine_arrived(f->job->engine, f->write, error);
}

/* A cancelled receive may complete at any time, so its tag is never reused. */
static void burn_tag(struct crn_service *svc, uint32_t tag)
{
    svc->burnt_tags[tag / 8] |= (unsigned char)(1 << tag % 8);
}

static uint32_t next_tag(struct crn_service *svc)
{
    uint32_t tag, i;

    for (i = 0; i < CRN_COMM_TAGS; i++) {
        tag = svc->next_tag++ % CRN_COMM_TAGS;
        if ((svc->burnt_tags[tag / 8] >> tag % 8 & 1) == 0)
            break;
    }
    return tag;
}

/* If a receive has partly arrived, MPI keeps the block; a new one replaces it. */
static void flow_cancel(struct crn_flow *f)
{
    struct crn_comm *comm = f->job->svc->comm;

    if (comm->ops->transfer_cancel(comm, f->transfer))
        return;
    f->block = f->ticket != NULL ? NULL : crn_engine_replace(f->job->engine, f->block);
}

/* Gives up a receive. */
static void give_up(struct crn_flow *f)
{
    burn_tag(f->job->svc, f->tag);
    flow_cancel(f);
}

/* The request that a receive belongs to. */
static void ask_for(const struct crn_job *job, const struct crn_item *item,
                    const struct crn_work *w, uint32_t tag, struct crn_msg *ret)
{
    if (w->kind == CRN_WORK_FETCH_STREAM) {
        crn_node_msg(job->core, item, w->is_parity ? CRN_MSG_FETCH_PARITY : CRN_MSG_FETCH_STREAM,
                     ret);
        ret->fetch_stream.tag = tag;
        ret->fetch_stream.offset = w->offset;
        ret->fetch_stream.bytes = w->bytes;
        return;
    }
    crn_node_msg(job->core, item, w->is_older ? CRN_MSG_FETCH_OLDER : CRN_MSG_FETCH, ret);
    ret->fetch.tag = tag;
    ret->fetch.extents = (struct crn_blob){w->payload, w->payload_bytes};
}

/* Requests a block: for the flusher of a leader, for a write assigned to an assistant, or for the
 * protector. */
void crn_flow_fetch(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_service *svc = job->svc;
    struct crn_flow failed = {
        .job = job, .write = w->write, .errand = w->errand, .ticket = w->ticket, .block = w->block};
    struct crn_msg n;
    struct crn_errinfo e = {0};
    struct crn_flow *f = NULL;
    uint32_t tag = 0;
    cairn_err rc = CAIRN_OK;

    if (w->ticket != NULL && crn_item_has_ended(item->state))
        rc = crn_fail(&e, CAIRN_ECANCELED, 0, "the checkpoint has ended");
    if (rc == CAIRN_OK) {
        f = flow_new(job, item, w->node);
        tag = next_tag(svc);
    }
    if (rc == CAIRN_OK && f == NULL)
        rc = crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "a block of node %u", w->node);
    if (rc == CAIRN_OK)
        rc = svc->comm->ops->recv_start(svc->comm, (int)job->peers[w->node], (int)tag, w->block,
                                        w->bytes, &f->transfer, &e);
    if (rc != CAIRN_OK) {
        free(f);
        hand_over(&failed, &e);
        return;
    }
    f->is_receive = 1;
    f->write = w->write;
    f->errand = w->errand;
    f->ticket = w->ticket;
    f->block = w->block;
    f->tag = tag;
    flow_link(f);
    ask_for(job, item, w, tag, &n);
    crn_service_tell(svc, job->peers[w->node], &n);
}

/* Decodes and checks one extent of a request: the other side may be broken. */
cairn_err crn_flow_ask_decode(struct crn_view *v, const struct crn_job *job,
                              const struct crn_source *sources, uint32_t *ret_local,
                              struct crn_extent *ret, struct crn_errinfo *ei)
{
    struct crn_extent x = {0};
    uint32_t rank = crn_view_u32(v);
    uint32_t i;

    x.region = crn_view_u32(v);
    x.offset = crn_view_u64(v);
    x.bytes = crn_view_u64(v);
    for (i = 0; i < job->nlocal && job->rank_of[i] != rank; i++)
        ;
    if (v->failed || sources == NULL || i == job->nlocal || x.region >= sources[i].shard.nregions ||
        x.offset > sources[i].shard.regions[x.region].bytes ||
        x.bytes > sources[i].shard.regions[x.region].bytes - x.offset)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "node %u was asked for data that it does not have",
                        job->node);
    *ret_local = i;
    *ret = x;
    return CAIRN_OK;
}

/* Starts a send if the gate admits it; CAIRN_OK also if it does not. Once the checkpoint is over,
 * the gate is ignored: the other side still waits for the data, and throttling it gains nothing. */
static cairn_err flow_start(struct crn_flow *f, int64_t now_ns, struct crn_errinfo *e)
{
    struct crn_job *job = f->job;
    struct crn_comm *comm = job->svc->comm;

    if (!atomic_load(&crn_data(f->item)->is_over) && crn_gate_ask(&job->gate, f->bytes, now_ns) > 0)
        return CAIRN_OK;
    f->gather_ns += now_ns - f->start_ns;
    f->start_ns = now_ns;
    f->deadline_ns = now_ns + (int64_t)job->cfg.commit_timeout_ns;
    return comm->ops->send_start(comm, (int)job->peers[f->node], (int)f->tag, f->data, f->bytes,
                                 &f->transfer, e);
}

/* Tells the requesting node now, so that it need not wait for its deadline. why NULL: the
 * checkpoint has ended here. */
static void tell_not_sent(struct crn_job *job, uint64_t seq, uint32_t to, uint32_t tag,
                          const struct crn_errinfo *why)
{
    struct crn_msg n = {
        .type = CRN_MSG_NOT_SENT, .seq = seq, .node = job->node, .not_sent.tag = tag};

    memcpy(n.run, job->run, 16);
    if (why != NULL)
        n.not_sent.error = *why;
    crn_service_tell(job->svc, job->peers[to], &n);
}

/* What is to be sent: a range of memory, or a gathered block, which the flow then owns. */
struct flow_send {
    uint32_t to, tag;
    const void *data;
    uint64_t bytes;
    void *owned;      /* NULL: in place */
    int64_t asked_ns; /* when a gathered block was asked for */
    int is_stream;    /* for the protection of another node */
};

/* The other node is told why it gets nothing. Only a flush fails with it. */
static void refuse_send(struct crn_job *job, struct crn_item *item, const struct flow_send *s,
                        const struct crn_errinfo *e)
{
    if (!s->is_stream)
        crn_job_fail(job, item, e);
    tell_not_sent(job, item->seq, s->to, s->tag, e);
}

static void send_soon(struct crn_job *job, struct crn_item *item, const struct flow_send *s)
{
    struct crn_flow *f = flow_new(job, item, s->to);
    struct crn_errinfo e = {0};
    cairn_err rc;

    if (f == NULL) {
        rc = crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "a block for node %u", s->to);
    } else {
        f->data = s->data;
        f->bytes = s->bytes;
        f->tag = s->tag;
        f->is_stream = s->is_stream;
        f->gather_ns = s->asked_ns != 0 ? f->start_ns - s->asked_ns : 0;
        rc = flow_start(f, f->start_ns, &e);
    }
    if (rc != CAIRN_OK) {
        free(f);
        if (s->owned != NULL)
            gather_free(job, s->owned);
        refuse_send(job, item, s, &e);
        return;
    }
    f->is_gathered = s->owned != NULL;
    f->block = s->owned;
    flow_link(f);
}

/* Follower: reports a finished send and its duration to the leader. */
static void tell_sent(const struct crn_flow *f)
{
    const struct crn_clock *clock = crn_clock_real();
    struct crn_msg n;

    crn_node_msg(f->job->core, f->item, CRN_MSG_SENT, &n);
    n.sent.bytes = f->bytes;
    n.sent.gather_ns = (uint64_t)f->gather_ns;
    n.sent.send_ns = (uint64_t)(clock->mono_ns(clock) - f->start_ns);
    crn_service_tell(f->job->svc, f->job->peers[f->node], &n);
}

/* Leader. */
void crn_flow_sent(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_capture_id id = {.seq = n->seq};

    memcpy(id.run, n->run, 16);
    if (job->engine != NULL && n->node >= crn_node_group_first(job->core))
        crn_engine_sent(job->engine, &id, n->node - crn_node_group_first(job->core) + 1,
                        n->sent.bytes, (int64_t)n->sent.gather_ns, (int64_t)n->sent.send_ns);
}

/* The sources that a follower may be asked for; NULL: none. */
static const struct crn_source *asked_sources(const struct crn_item *item, int is_older)
{
    const struct crn_loan *loan = crn_data(item)->loan;

    if (!is_older)
        return crn_data(item)->flow.sources;
    return loan != NULL && loan->is_open ? loan->sources : NULL;
}

/* Gathering is for the sender thread. Takes the payload. */
static void send_later(struct crn_job *job, struct crn_item *item, struct crn_work *w, uint32_t to,
                       uint32_t tag)
{
    w->kind = CRN_WORK_SEND;
    w->asked_ns = crn_clock_real()->mono_ns(crn_clock_real());
    w->job = job;
    w->item = item;
    w->node = to;
    w->tag = tag;
    if (crn_work_send(w) == 0) /* else the job is being closed */
        crn_item_use(item);
}

/* Another member of the set asks for a part of this node's stream, or of the parity that it keeps. */
void crn_flow_stream_asked(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    const struct crn_nodefile *file = item != NULL ? crn_ward_file(item) : NULL;
    uint64_t at = n->fetch_stream.offset;
    uint64_t bytes = n->fetch_stream.bytes;
    uint32_t tag = n->fetch_stream.tag;
    int is_parity = n->type == CRN_MSG_FETCH_PARITY;
    const unsigned char *p;
    struct crn_errinfo e = {0};
    struct crn_work *w;

    if (n->node >= job->nodes)
        return;
    if (file == NULL || crn_item_has_ended(item->state)) {
        tell_not_sent(job, n->seq, n->node, tag, NULL);
        return;
    }
    if (bytes > job->cfg.block_bytes ||
        (!is_parity && (at > file->bytes || bytes > file->bytes - at))) {
        (void)!crn_fail(&e, CAIRN_EDAMAGED, 0, "node %u was asked for data that it does not have",
                        job->node);
        tell_not_sent(job, n->seq, n->node, tag, &e);
        return;
    }
    p = is_parity ? NULL : crn_nodefile_memory(file, at, bytes);
    if (p != NULL) {
        send_soon(job, item,
                  &(struct flow_send){
                      .to = n->node, .tag = tag, .data = p, .bytes = bytes, .is_stream = 1});
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
        tell_not_sent(job, n->seq, n->node, tag, &e);
        return;
    }
    w->is_stream = 1;
    w->is_parity = is_parity;
    w->offset = at;
    w->bytes = bytes;
    send_later(job, item, w, n->node, tag);
}

/* Follower: handles a request of the leader or of an assistant. A single extent in memory is sent
 * in place; everything else is gathered first. */
void crn_flow_asked(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    const struct crn_blob *ask = &n->fetch.extents;
    struct crn_view v = crn_view_of(ask->data, ask->bytes);
    uint32_t tag = n->fetch.tag;
    uint32_t count = crn_view_u32(&v);
    int is_older = n->type == CRN_MSG_FETCH_OLDER;
    struct flow_send s = {.to = n->node, .tag = tag};
    const struct crn_source *sources;
    const unsigned char *p = NULL;
    struct crn_errinfo e = {0};
    struct crn_extent x;
    struct crn_work *w;
    uint32_t local;

    if (n->node >= job->nodes)
        return;
    if (item == NULL || !crn_flow_is_serving(item)) { /* it has ended here */
        tell_not_sent(job, n->seq, n->node, tag, NULL);
        return;
    }
    sources = asked_sources(item, is_older);
    if (crn_flow_ask_decode(&v, job, sources, &local, &x, &e) != CAIRN_OK) {
        refuse_send(job, item, &s, &e);
        return;
    }
    if (count == 1)
        p = crn_source_memory(&sources[local], &x);
    if (p != NULL) {
        s.data = p;
        s.bytes = x.bytes;
        send_soon(job, item, &s);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w != NULL)
        w->payload = malloc(ask->bytes);
    if (w == NULL || w->payload == NULL) {
        free(w);
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "node %u", job->node);
        refuse_send(job, item, &s, &e);
        return;
    }
    w->is_older = is_older;
    memcpy(w->payload, ask->data, ask->bytes);
    w->payload_bytes = ask->bytes;
    send_later(job, item, w, n->node, tag);
}

/* On the sender thread. crn_flow_send takes the block back, also after a failure. */
cairn_err crn_flow_gather(struct crn_job *job, struct crn_work *w)
{
    struct crn_view v = crn_view_of(w->payload, w->payload_bytes);
    const struct crn_source *sources = asked_sources(w->item, w->is_older);
    cairn_err rc = CAIRN_OK;
    struct crn_extent x;
    uint32_t count, local, i;
    uint64_t at = 0;

    w->block = gather_block(job);
    if (w->block == NULL)
        return crn_fail(&w->error, CAIRN_ENOMEM, ENOMEM, "a block for another node");
    if (w->is_parity)
        return crn_parity_read(job, w->item->seq, w->offset, w->bytes, w->block, &w->error);
    if (w->is_stream) {
        rc = crn_nodefile_read(crn_ward_file(w->item), w->offset, w->bytes, w->block, &w->error);
        return rc == CAIRN_OK ? crn_job_check_arenas(job, &w->error) : rc;
    }
    count = crn_view_u32(&v);
    for (i = 0; rc == CAIRN_OK && i < count; i++) {
        rc = crn_flow_ask_decode(&v, job, sources, &local, &x, &w->error);
        if (rc == CAIRN_OK && x.bytes > job->cfg.block_bytes - at)
            rc = crn_fail(&w->error, CAIRN_EDAMAGED, 0, "a request exceeds the block size");
        if (rc == CAIRN_OK)
            rc = crn_source_read(&sources[local], &x, crn_fs_default(),
                                 (unsigned char *)w->block + at, &w->error);
        at += rc == CAIRN_OK ? x.bytes : 0;
    }
    w->bytes = at;
    return rc == CAIRN_OK ? crn_job_check_arenas(job, &w->error) : rc;
}

void crn_flow_send(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct flow_send s = {.to = w->node,
                          .tag = w->tag,
                          .data = w->block,
                          .bytes = w->bytes,
                          .owned = w->block,
                          .asked_ns = w->asked_ns,
                          .is_stream = w->is_stream};

    w->block = NULL;
    if (w->error.code == CAIRN_OK) {
        send_soon(job, item, &s);
        return;
    }
    gather_free(job, s.owned);
    refuse_send(job, item, &s, &w->error);
}

/* Ends a flow that was unlinked from the list. */
static void flow_end(struct crn_flow *f, const struct crn_errinfo *error)
{
    struct crn_job *job = f->job;
    struct crn_item *item = f->item;

    if (f->is_receive) {
        hand_over(f, error);
    } else {
        if (error == NULL && !f->is_stream)
            tell_sent(f);
        if (f->is_gathered)
            gather_free(job, f->block);
    }
    free(f);
    crn_job_unuse(job, item);
}

/* Leader or assistant: nothing is in flight, so the receive can be cancelled. */
void crn_flow_not_sent(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_flow **link = &job->svc->flows;
    struct crn_errinfo e = n->not_sent.error;
    struct crn_flow *f;

    while (*link != NULL && !((*link)->is_receive && (*link)->job == job &&
                              (*link)->item->seq == n->seq && (*link)->tag == n->not_sent.tag))
        link = &(*link)->next;
    f = *link;
    if (f == NULL)
        return; /* given up already */
    *link = f->next;
    flow_cancel(f);
    if (e.code == CAIRN_OK)
        (void)!crn_fail(&e, CAIRN_ECANCELED, 0, "the checkpoint has ended on node %u", f->node);
    flow_end(f, &e);
}

/* Returns 1 if the flow has ended, successfully or not. */
static int flow_poll(struct crn_flow *f, int64_t now_ns, struct crn_errinfo *e)
{
    struct crn_comm *comm = f->job->svc->comm;
    int done = 0;

    if (f->transfer == NULL)
        return flow_start(f, now_ns, e) != CAIRN_OK;
    if (comm->ops->transfer_test(comm, f->transfer, &done, e) != CAIRN_OK || done)
        return 1;
    if (now_ns < f->deadline_ns)
        return 0;
    (void)!crn_fail(e, CAIRN_ETIMEDOUT, 0, "node %u %s within commit_timeout", f->node,
                    f->is_receive ? "sent nothing" : "received nothing");
    if (!f->is_receive) {
        f->block = NULL; /* leaked on purpose: MPI may still read it */
        return 1;
    }
    give_up(f);
    return 1;
}

int crn_flows_poll(struct crn_service *svc)
{
    const struct crn_clock *clock = crn_clock_real();
    int64_t now_ns = clock->mono_ns(clock);
    struct crn_flow **link = &svc->flows;
    struct crn_flow *ended = NULL;
    int any = 0;

    while (*link != NULL) { /* test all flows first: ending one may start another */
        struct crn_errinfo e = {0};
        struct crn_flow *f = *link;

        if (!flow_poll(f, now_ns, &e)) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        f->next = ended;
        ended = f;
        any = 1;
        if (e.code != CAIRN_OK) {
            crn_log(&f->job->log, CRN_WARN, "%s", e.msg);
            if (!f->is_stream && f->ticket == NULL) /* protection fails no checkpoint */
                crn_job_fail(f->job, f->item, &e);
            ended = f->next;
            flow_end(f, &e);
        }
    }
    while (ended != NULL) {
        struct crn_flow *f = ended;

        ended = f->next;
        flow_end(f, NULL);
    }
    return any;
}

int crn_flows_are_held(const struct crn_service *svc)
{
    const struct crn_flow *f;

    for (f = svc->flows; f != NULL && f->transfer == NULL; f = f->next)
        ;
    return f == NULL;
}

void crn_flows_refuse(struct crn_job *job)
{
    struct crn_errinfo gone = {.code = CAIRN_ECANCELED, .msg = "the service stops"};
    struct crn_flow **link = &job->svc->flows;
    struct crn_item *item;
    struct crn_work *w;

    for (item = crn_node_items(job->core); item != NULL; item = item->next)
        crn_assist_end(job, item, &gone);
    while (*link != NULL) {
        struct crn_flow *f = *link;

        if (f->job != job) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        if (f->is_receive) {
            give_up(f);
            hand_over(f, &gone);
        } else if (f->transfer == NULL) {
            free(f->block);
        }
        free(f);
    }
    while ((w = crn_queue_try_pop(&job->svc->done)) != NULL) {
        if (w->kind == CRN_WORK_FETCH_STREAM)
            crn_ticket_done(w->ticket, w->block, &gone);
        else if (w->kind == CRN_WORK_FETCH)
            crn_engine_arrived(w->job->engine, w->write, &gone);
        else if (w->kind == CRN_WORK_NOTE_ASK)
            crn_assist_no_errand(w->job->engine, w->block, &gone);
        crn_manifest_file_free(&w->file);
        free(w->payload);
        free(w);
    }
}
