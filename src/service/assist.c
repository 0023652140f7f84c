/* SPDX-License-Identifier: BSD-3-Clause */
/* See assist.h. A wait for another node is bounded by crn_flow_patience. If an assistant fails or
 * stays silent that long, the leader fails its file; a retry then runs without assistants. An
 * assistant that cannot open the file does no harm: it was given nothing to write. */
#include "service/assist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/elect.h"
#include "base/clock.h"
#include "service/flow.h"

#define NOTHING UINT64_MAX /* in place of the id of a write */
#define LATER   (UINT64_MAX - 1)

static int64_t assist_deadline(const struct crn_job *job)
{
    const struct crn_clock *clock = crn_clock_real();

    return clock->mono_ns(clock) + crn_flow_patience(job);
}

/* The item's assist state, allocated on first use; NULL if out of memory. */
static struct crn_aid *aid_of(struct crn_item *item)
{
    if (crn_data(item)->aid == NULL)
        crn_data(item)->aid = calloc(1, sizeof(*crn_data(item)->aid));
    return crn_data(item)->aid;
}

void crn_assist_free(struct crn_aid *aid)
{
    if (aid == NULL)
        return;
    while (aid->helpers != NULL) {
        struct crn_helper *h = aid->helpers;

        aid->helpers = h->next;
        free(h);
    }
    free(aid->asked);
    free(aid);
}

/* Leader. -------------------------------------------------------------------------------------- */

static struct crn_helper *helper_of(const struct crn_item *item, uint32_t node)
{
    struct crn_helper *h = crn_data(item)->aid != NULL ? crn_data(item)->aid->helpers : NULL;

    while (h != NULL && h->node != node)
        h = h->next;
    return h;
}

static void tell_file(struct crn_job *job, const struct crn_item *item, uint32_t node)
{
    struct crn_msg m;

    crn_node_msg(job->core, item, CRN_MSG_FILE, &m);
    m.file.generation = crn_data(item)->aid->generation;
    if (crn_assist_is_wanted(job->engine, crn_data(item)->aid->generation))
        memcpy(m.file.name, crn_data(item)->aid->file, sizeof(m.file.name));
    crn_job_tell(job, node, &m);
}

static void assist_offered(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    struct crn_aid *aid = aid_of(item);
    uint32_t group = crn_elect_group_of(job->node, job->nodes, job->files);
    struct crn_helper *h;

    if (aid == NULL || crn_item_has_ended(item->state) || n->node >= job->nodes ||
        helper_of(item, n->node) != NULL)
        return;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return; /* the leader writes without this assistant */
    h->node = n->node;
    if (crn_elect_group_of(n->node, job->nodes, job->files) == group)
        h->engine.owner = n->node - crn_elect_group_first(group, job->nodes, job->files) + 1;
    h->next = aid->helpers;
    aid->helpers = h;
    if (aid->file[0] != '\0')
        tell_file(job, item, h->node);
}

/* The flusher has created a file. Assistants are told of the first attempt only: if it fails, an
 * assistant may be the reason. */
static void assist_opened(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_errinfo over = {.code = CAIRN_ECANCELED, .msg = "the version has failed elsewhere"};
    struct crn_aid *aid = aid_of(item);
    struct crn_helper *h;

    if (aid == NULL)
        return; /* out of memory: no node assists */
    aid->current = w->bytes;
    if (crn_item_has_ended(item->state))
        crn_assist_cancel(job->engine, aid->current, &over);
    if (aid->file[0] != '\0')
        return;
    aid->generation = aid->current;
    memcpy(aid->file, w->file.name, sizeof(aid->file));
    for (h = aid->helpers; h != NULL; h = h->next)
        tell_file(job, item, h->node);
}

static void assist_asked(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    uint64_t generation = n->ask.generation;
    struct crn_helper *h = helper_of(item, n->node);
    enum crn_handing given = CRN_HAND_NONE;
    struct crn_handout out = {0};
    struct crn_buf ask = {0};
    struct crn_msg m;

    if (h == NULL || crn_data(item)->aid->file[0] == '\0')
        return;
    if (!crn_item_has_ended(item->state))
        given = crn_assist_hand_out(job->engine, generation, &h->engine, &out, &ask);
    if (given == CRN_HANDED)
        h->deadline_ns = assist_deadline(job);
    else
        out.id = given == CRN_HAND_LATER ? LATER : NOTHING;
    crn_node_msg(job->core, item, CRN_MSG_PIECE, &m);
    m.piece =
        (struct crn_msg_piece){generation, out.id, out.offset, 0, {ask.data, (uint32_t)ask.len}};
    if (given == CRN_HANDED)
        m.piece.owner = crn_node_group_first(job->core) + out.owner - 1;
    if (!ask.failed) /* otherwise the assistant's deadline fails the file */
        crn_job_tell(job, n->node, &m);
    crn_buf_free(&ask);
}

static void assist_done(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    const struct crn_msg_done *d = &n->done;
    struct crn_view v = crn_view_of(d->news.data, d->news.bytes);
    struct crn_helper *h = helper_of(item, n->node);
    struct crn_errinfo e = d->error;

    if (h == NULL || h->has_left || crn_data(item)->aid->file[0] == '\0')
        return;
    h->deadline_ns = assist_deadline(job);
    if (d->id != NOTHING) {
        crn_assist_handed_back(job->engine, d->generation, &h->engine, d->id, d->news.data,
                               d->news.bytes);
        return;
    }
    h->has_left = 1;
    (void)!crn_err_context(&e, e.code, "node %u, which assists", h->node);
    crn_assist_left(job->engine, d->generation, &h->engine, &v, &e);
}

/* Assistant. ----------------------------------------------------------------------------------- */

int crn_assist_file(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    struct crn_aid *aid = aid_of(item);

    if (aid == NULL || item->is_assisting || n->node != item->assisted)
        return 0;
    if (aid->asked == NULL)
        aid->asked = calloc(job->cfg.blocks, sizeof(*aid->asked));
    if (aid->asked == NULL)
        return 0; /* this node does not assist */
    aid->of_generation = n->file.generation;
    memcpy(aid->of_file, n->file.name, sizeof(aid->of_file));
    return 1;
}

static struct crn_work *work_new(struct crn_work *for_, enum crn_work_kind kind)
{
    struct crn_work *w = calloc(1, sizeof(*w));

    if (w != NULL) {
        w->kind = kind;
        w->job = for_->job;
        w->item = for_->item;
    }
    return w;
}

/* On the flusher: asks the leader for a write into a free block. */
static void assist_want(void *arg, void *block)
{
    struct crn_work *assist = arg;
    struct crn_work *w = work_new(assist, CRN_WORK_NOTE_ASK);
    struct crn_errinfo e = {0};

    if (w == NULL) {
        (void)!crn_fail(&e, CAIRN_ENOMEM, ENOMEM, "a request to another node");
        crn_assist_no_errand(assist->job->engine, block, &e);
        return;
    }
    w->block = block;
    crn_service_result(assist->job->svc, w);
}

/* On a writer thread: a write is in the file. */
static cairn_err assist_written(void *arg, const struct crn_errand *x, struct crn_errinfo *ei)
{
    struct crn_work *assist = arg;
    struct crn_work *w = work_new(assist, CRN_WORK_NOTE_WRITTEN);
    struct crn_buf b = {0};
    uint64_t i;

    for (i = 0; i < x->plan.nhashes; i++)
        crn_buf_u64(&b, x->hashes[i]);
    if (w == NULL || b.failed) {
        free(w);
        crn_buf_free(&b);
        return crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "news for another node");
    }
    w->bytes = x->id;
    w->payload = b.data;
    w->payload_bytes = (uint32_t)b.len;
    crn_service_result(assist->job->svc, w);
    return CAIRN_OK;
}

/* Encodes the assistant's statistics for the leader; omitted if out of memory. */
static void assist_describe(const struct crn_job *job, struct crn_flush_stats *s,
                            struct crn_work *w)
{
    struct crn_errinfo ignored = {0};
    struct crn_buf text = {0};

    w->bytes = s->bytes;
    s->node = job->node;
    s->first_node = crn_node_group_first(job->core);
    if (crn_flush_stats_encode(s, &text, &ignored) == CAIRN_OK) {
        w->payload = text.data;
        w->payload_bytes = (uint32_t)text.len;
    } else {
        crn_buf_free(&text);
    }
    crn_flush_stats_free(s);
}

cairn_err crn_assist_run(struct crn_job *job, struct crn_work *w)
{
    struct crn_assist assist = {assist_want, assist_written, w};
    const struct crn_item *item = w->item;
    struct crn_index head = {.version = item->version, .id.seq = item->seq, .files = job->files};
    struct crn_flush_stats stats;
    struct crn_store st;
    cairn_err rc;

    if (atomic_load(&crn_data(item)->is_over))
        return CAIRN_OK;
    memcpy(head.id.run, job->run, sizeof(head.id.run));
    memcpy(head.name, item->name, sizeof(head.name));
    rc = crn_store_open(crn_fs_default(), job->cfg.persistent, 0, &st, &w->error);
    if (rc != CAIRN_OK)
        return rc;
    rc = crn_assist_write(job->engine, &st, &head, crn_data(item)->aid->of_file, &assist, &stats,
                          &w->error);
    crn_store_close(&st);
    if (rc == CAIRN_OK)
        assist_describe(job, &stats, w);
    return rc;
}

static void ask_leader(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_errinfo over = {.code = CAIRN_ECANCELED, .msg = "the version has failed elsewhere"};
    struct crn_aid *aid = crn_data(item)->aid;
    struct crn_msg m;

    if (crn_item_has_ended(item->state)) {
        crn_assist_no_errand(job->engine, w->block, &over);
        return;
    }
    aid->asked[aid->nasked++] = w->block;
    aid->deadline_ns = assist_deadline(job);
    crn_node_msg(job->core, item, CRN_MSG_ASK, &m);
    m.ask.generation = aid->of_generation;
    crn_job_tell(job, item->assisted, &m);
}

/* Decodes and checks a write from a message: the other side may be broken. */
static cairn_err read_errand(struct crn_job *job, const struct crn_item *item, struct crn_view *v,
                             int is_own, struct crn_errand **ret, struct crn_errinfo *ei)
{
    struct crn_errand *x = NULL;
    uint64_t bytes = 0;
    uint32_t count, local, i;
    cairn_err rc;

    count = crn_view_u32(v);
    if (v->failed || count == 0 || count > crn_view_left(v) / CRN_ASK_BYTES)
        return crn_fail(ei, CAIRN_EDAMAGED, 0, "node %u received an invalid write", job->node);
    rc = crn_errand_new(count, &x, ei);
    for (i = 0; rc == CAIRN_OK && i < count; i++) {
        struct crn_extent *e = &x->plan.extents[i];

        if (is_own) {
            rc = crn_flow_ask_decode(v, job, crn_data(item)->flow.sources, &local, e, ei);
            e->shard = rc == CAIRN_OK ? local : 0;
        } else {
            (void)crn_view_u32(v); /* the rank: only its owner needs it */
            e->region = crn_view_u32(v);
            e->offset = crn_view_u64(v);
            e->bytes = crn_view_u64(v);
        }
        if (rc == CAIRN_OK && (v->failed || e->bytes > job->cfg.block_bytes - bytes))
            rc = crn_fail(ei, CAIRN_EDAMAGED, 0, "node %u received a write larger than a block",
                          job->node);
        bytes += rc == CAIRN_OK ? e->bytes : 0;
    }
    if (rc != CAIRN_OK) {
        crn_errand_free(x);
        return rc;
    }
    x->plan.bytes = bytes;
    *ret = x;
    return CAIRN_OK;
}

static void got_piece(struct crn_job *job, struct crn_item *item, const struct crn_msg *n)
{
    const struct crn_msg_piece *p = &n->piece;
    struct crn_view v = crn_view_of(p->extents.data, p->extents.bytes);
    struct crn_work get = {.kind = CRN_WORK_FETCH, .job = job, .item = item, .node = p->owner};
    struct crn_aid *aid = crn_data(item)->aid;
    struct crn_errinfo e = {0};
    cairn_err rc;

    if (aid == NULL || aid->nasked == 0 || n->node != item->assisted ||
        p->generation != aid->of_generation)
        return;
    get.payload = p->extents.data;
    get.payload_bytes = p->extents.bytes;
    get.block = aid->asked[--aid->nasked];
    if (p->id == NOTHING) {
        crn_assist_no_errand(job->engine, get.block, NULL);
        return;
    }
    if (p->id == LATER) {
        crn_assist_errand_later(job->engine, get.block);
        return;
    }
    if (get.node >= job->nodes || (get.node == job->node && !crn_flow_is_serving(item)))
        rc = crn_fail(&e, CAIRN_EDAMAGED, 0, "node %u received an invalid write", job->node);
    else
        rc = read_errand(job, item, &v, get.node == job->node, &get.errand, &e);
    if (rc != CAIRN_OK) {
        crn_assist_no_errand(job->engine, get.block, &e);
        return;
    }
    get.errand->id = p->id;
    get.errand->all.place = p->offset;
    get.bytes = get.errand->plan.bytes;
    if (get.node == job->node)
        crn_assist_errand(job->engine, get.errand, crn_data(item)->flow.sources, get.block, 0,
                          NULL);
    else
        crn_flow_fetch(job, item, &get);
}

static void tell_written(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_msg m;

    crn_node_msg(job->core, item, CRN_MSG_DONE, &m);
    m.done.generation =
        crn_data(item)->aid->of_generation; /* constant while the assistant writes */
    m.done.id = w->bytes;
    m.done.news = (struct crn_blob){w->payload, w->payload_bytes};
    crn_job_tell(job, item->assisted, &m);
}

static void assist_finished(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    struct crn_aid *aid = crn_data(item)->aid;
    struct crn_msg m;

    if (w->error.code == CAIRN_OK)
        crn_log(&job->log, CRN_DEBUG, "%s@%" PRId64 ": %" PRIu64 " bytes of '%s' for node %u",
                item->name, item->version, w->bytes, aid->of_file, item->assisted);
    else if (!crn_item_has_ended(item->state))
        crn_log(&job->log, CRN_WARN, "%s@%" PRId64 ": no help for node %u: %s", item->name,
                item->version, item->assisted, w->error.msg);
    crn_node_msg(job->core, item, CRN_MSG_DONE, &m);
    m.done.generation = aid->of_generation;
    m.done.id = NOTHING;
    m.done.news = (struct crn_blob){w->payload, w->payload_bytes};
    m.done.error = w->error;
    crn_job_tell(job, item->assisted, &m);
}

/* Events. -------------------------------------------------------------------------------------- */

void crn_assist_message(struct crn_job *job, const struct crn_msg *n)
{
    struct crn_item *item = crn_node_find(job->core, n->seq);

    if (item == NULL)
        return; /* it has ended */
    if (n->type == CRN_MSG_HELP)
        assist_offered(job, item, n);
    else if (n->type == CRN_MSG_ASK)
        assist_asked(job, item, n);
    else if (n->type == CRN_MSG_PIECE)
        got_piece(job, item, n);
    else
        assist_done(job, item, n);
}

void crn_assist_result(struct crn_job *job, struct crn_item *item, struct crn_work *w)
{
    if (w->kind == CRN_WORK_NOTE_OPENED)
        assist_opened(job, item, w);
    else if (w->kind == CRN_WORK_NOTE_ASK)
        ask_leader(job, item, w);
    else if (w->kind == CRN_WORK_NOTE_WRITTEN)
        tell_written(job, item, w);
    else
        assist_finished(job, item, w);
}

void crn_assist_end(struct crn_job *job, struct crn_item *item, const struct crn_errinfo *why)
{
    struct crn_aid *aid = crn_data(item)->aid;

    if (aid == NULL)
        return;
    if (why->code == CAIRN_OK)
        why = NULL; /* committed: every write is done, so open requests need no error */
    else if (aid->file[0] != '\0')
        crn_assist_cancel(job->engine, aid->current, why);
    while (aid->nasked > 0)
        crn_assist_no_errand(job->engine, aid->asked[--aid->nasked], why);
}

void crn_assist_tick(struct crn_job *job, struct crn_item *item, int64_t now_ns)
{
    struct crn_aid *aid = crn_data(item)->aid;
    struct crn_errinfo e = {0};
    struct crn_helper *h;

    if (aid == NULL || crn_item_has_ended(item->state))
        return;
    for (h = aid->helpers; h != NULL; h = h->next) {
        if (!h->engine.has_writes || h->has_left || now_ns < h->deadline_ns)
            continue;
        h->has_left = 1;
        (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                        "node %u, which assists, said nothing within commit_timeout", h->node);
        crn_assist_cancel(job->engine, aid->generation, &e);
    }
    if (aid->nasked == 0 || now_ns < aid->deadline_ns)
        return;
    (void)!crn_fail(&e, CAIRN_ETIMEDOUT, 0,
                    "node %u, which writes '%s', said nothing within commit_timeout",
                    item->assisted, aid->of_file);
    crn_job_fail(job, item, &e);
    while (aid->nasked > 0)
        crn_assist_no_errand(job->engine, aid->asked[--aid->nasked], &e);
}
